"""Components: nodes that can be reached from each other, whatever the direction of edges or along it."""

import numpy as np
from numpy.typing import NDArray

from omnigraph.analytics.edges import Edges, Numbers, Positions, grouped
from omnigraph.query.adjacency import Neighbours, distinct

# A walk through the graph level by level pays for each level, and a peel for each layer. Graphs that are deeper than
# this are left to the search node by node, whose cost does not depend on their shape.
_DEEPEST = 1_000
_PEELS = 20


def weak_components(edges: Edges) -> Numbers:
    """For each node, the smallest node that it is connected with.

    Groups of nodes are joined along edges until no edge leads from one group to another. In each round every group
    joins a smaller neighbour, or every group a greater one, whichever makes more of them join: that is at least half of
    those that have a neighbour. So there are few rounds, whatever the shape of the graph.
    """
    root = np.arange(edges.count, dtype=np.int32)
    low, high = np.minimum(edges.begin, edges.end), np.maximum(edges.begin, edges.end)
    while True:
        between = low != high
        low, high = low[between], high[between]
        if not len(low):
            return _smallest_of(root)
        joined = np.arange(edges.count, dtype=np.int32)
        if _number_of(high, edges.count) >= _number_of(low, edges.count):
            joined[high] = low
        else:
            joined[low] = high
        joined = _followed(joined)
        root = joined[root]
        low, high = joined[low], joined[high]
        low, high = np.minimum(low, high), np.maximum(low, high)


def _number_of(nodes: Numbers, count: int) -> int:
    is_there = np.zeros(count, dtype=np.bool_)
    is_there[nodes] = True
    return int(np.count_nonzero(is_there))


def _followed(joined: Numbers) -> Numbers:
    """Where one ends up who goes from each node to the one that it joined, and on from there."""
    while True:
        further = joined[joined]
        if np.array_equal(further, joined):
            return joined
        joined = further


def _smallest_of(labels: Numbers) -> Numbers:
    """Labels of groups replaced by the smallest member of each."""
    members = np.arange(len(labels), dtype=np.int32)
    smallest = np.empty(len(labels), dtype=np.int32)
    # Of several values for one place the last one stays, so the smallest comes last.
    smallest[labels[::-1]] = members[::-1]
    return smallest[labels]


def strong_components(edges: Edges) -> Numbers:
    """For each node, the smallest node that it can reach along edges and that can reach it.

    Three steps, the first two over whole arrays: nodes that no edge enters or none leaves are alone; most graphs have
    one large component, which is what a node of it can reach and what can reach it; what is left is searched node by
    node.
    """
    labels = np.arange(edges.count, dtype=np.int32)
    left = edges.only(edges.begin != edges.end)
    left = _without_ends(left)
    if not len(left):
        return labels
    largest = _component_of_busiest(left)
    if largest is not None:
        labels[largest] = np.flatnonzero(largest)[0]
        left = _without_ends(left.only(~largest[left.begin] & ~largest[left.end]))
    if len(left):
        _search(left, labels)
    return labels


def _without_ends(edges: Edges) -> Edges:
    """The edges without those at nodes that no edge enters, or none leaves: these are on no circle."""
    for _ in range(_PEELS):
        entered, leaving = (np.zeros(edges.count, dtype=np.bool_) for _ in range(2))
        entered[edges.end] = True
        leaving[edges.begin] = True
        kept = entered[edges.begin] & leaving[edges.end]
        if kept.all():
            break
        edges = edges.only(kept)
    return edges


def _component_of_busiest(edges: Edges) -> NDArray[np.bool_] | None:
    """The nodes of the component of the node with most edges; None if the graph is too deep to be walked by levels."""
    incoming = np.bincount(edges.end, minlength=edges.count)
    outgoing = np.bincount(edges.begin, minlength=edges.count)
    busiest = int(np.argmax(incoming * outgoing))
    after = _reached(edges.neighbours(), busiest)
    if after is None:
        return None
    before = _reached(edges.reversed().neighbours(), busiest)
    return None if before is None else after & before


def _reached(neighbours: Neighbours, start: int) -> NDArray[np.bool_] | None:
    is_reached = np.zeros(neighbours.count, dtype=np.bool_)
    is_reached[start] = True
    frontier = np.array([start])
    for _ in range(_DEEPEST):
        _, targets = neighbours.expanded(frontier, frontier)
        frontier = distinct(targets[~is_reached[targets]])
        if not len(frontier):
            return is_reached
        is_reached[frontier] = True
    return None


def _search(edges: Edges, labels: Numbers) -> None:
    """Tarjan's search with a stack of its own; writes the label of every component of these edges."""
    nodes = distinct(np.concatenate((edges.begin, edges.end)))
    number = np.zeros(edges.count, dtype=np.int32)
    number[nodes] = np.arange(len(nodes), dtype=np.int32)
    inner = grouped(Edges(len(nodes), number[edges.begin], number[edges.end]))
    component = _tarjan(inner.offsets, inner.ends)
    labels[nodes] = nodes[_smallest_of(component)]


def _tarjan(offsets: Positions, ends: Positions) -> Numbers:
    """A label for each node that all of its strongly connected component have, and no other."""
    first: list[int] = offsets.tolist()
    targets: list[int] = ends.tolist()
    count = len(first) - 1
    cursor = first[:-1]
    seen, lowest, label = [0] * count, [0] * count, [-1] * count
    time, waiting, path = 0, [], []
    for start in range(count):
        if seen[start]:
            continue
        path.append(start)
        while path:
            node = path[-1]
            if not seen[node]:
                time += 1
                seen[node] = lowest[node] = time
                waiting.append(node)
            if cursor[node] < first[node + 1]:
                target = targets[cursor[node]]
                cursor[node] += 1
                if not seen[target]:
                    path.append(target)
                elif label[target] < 0:
                    lowest[node] = min(lowest[node], seen[target])
                continue
            path.pop()
            if path:
                lowest[path[-1]] = min(lowest[path[-1]], lowest[node])
            if lowest[node] == seen[node]:
                member = -1
                while member != node:
                    member = waiting.pop()
                    label[member] = node
    return np.array(label, dtype=np.int32)
