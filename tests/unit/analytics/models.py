"""The analyses again, as plainly as they can be written: for small graphs, and to compare with."""

import math
from collections import Counter
from collections.abc import Iterable
from itertools import combinations

import numpy as np
from hypothesis import strategies as st

from omnigraph.analytics.edges import Edges

Pairs = list[tuple[int, int]]
LARGEST = 9


@st.composite
def small_graphs(draw: st.DrawFn, *, weighted: bool = False) -> Edges:
    """Graphs with a few nodes, and any edges between them: parallel ones, circles, islands, none at all."""
    count = draw(st.integers(1, LARGEST))
    node = st.integers(0, count - 1)
    pairs = draw(st.lists(st.tuples(node, node), max_size=25))
    weights = draw(st.lists(st.integers(0, 6), min_size=len(pairs), max_size=len(pairs))) if weighted else None
    return edges_of(pairs, count, weights)


def edges_of(pairs: Pairs, count: int, weights: Iterable[float] | None = None) -> Edges:
    ends = np.array(pairs, dtype=np.int32).reshape(-1, 2)
    return Edges(count, ends[:, 0], ends[:, 1], None if weights is None else np.array([*weights], dtype=np.float64))


def pairs_of(edges: Edges) -> Pairs:
    return [*zip(edges.begin.tolist(), edges.end.tolist(), strict=True)]


def weighted_pairs_of(edges: Edges) -> list[tuple[int, int, float]]:
    return [(*pair, weight) for pair, weight in zip(pairs_of(edges), edges.weight().tolist(), strict=True)]


def distances_from(sources: Iterable[int], edges: Edges) -> list[float]:
    """By relaxing every edge as often as there are nodes."""
    found = [math.inf] * edges.count
    for source in sources:
        found[source] = 0
    for _ in range(edges.count):
        for begin, end, weight in weighted_pairs_of(edges):
            found[end] = min(found[end], found[begin] + weight)
    return found


def reachable(edges: Edges) -> list[set[int]]:
    """What can be reached from each node, itself included."""
    unweighted = Edges(edges.count, edges.begin, edges.end)
    return [
        {node for node, distance in enumerate(distances_from([start], unweighted)) if distance < math.inf}
        for start in range(edges.count)
    ]


def triangles_at(edges: Edges) -> list[int]:
    sides = {frozenset(pair) for pair in pairs_of(edges)}
    counts = [0] * edges.count
    for corners in combinations(range(edges.count), 3):
        if all(frozenset(side) in sides for side in combinations(corners, 2)):
            for corner in corners:
                counts[corner] += 1
    return counts


def ranks_of(edges: Edges, damping: float, starts: Iterable[int]) -> list[float]:
    """The solution of the linear equations that ranks meet, by a solver for dense matrices."""
    start = np.zeros(edges.count)
    start[[*starts]] = 1
    start /= start.sum()
    going = np.zeros((edges.count, edges.count))
    for begin, end, weight in weighted_pairs_of(edges):
        going[end, begin] += weight
    totals = going.sum(axis=0)
    for node in range(edges.count):
        going[:, node] = going[:, node] / totals[node] if totals[node] else start
    solved: list[float] = np.linalg.solve(np.eye(edges.count) - damping * going, (1 - damping) * start).tolist()
    return solved


def modularity_of(edges: Edges, labels: list[int]) -> float:
    """By its definition: over all pairs of nodes of one community, what is there less what chance would put there."""
    there = np.zeros((edges.count, edges.count))
    for begin, end, weight in weighted_pairs_of(edges):
        there[begin, end] += weight
        there[end, begin] += weight
    total = there.sum()
    if not total:
        return 0.0
    strengths = there.sum(axis=0)
    same = np.equal.outer(labels, labels)
    return float(((there - np.outer(strengths, strengths) / total) * same).sum() / total)


def labels_of(edges: Edges, iterations: int) -> list[int]:
    """Label by label, all nodes at the same time."""
    labels = [*range(edges.count)]
    neighbours: list[list[int]] = [[node] for node in labels]
    for begin, end in pairs_of(edges):
        neighbours[end].append(begin)
        if begin != end:
            neighbours[begin].append(end)
    for _ in range(iterations):
        votes = [Counter(labels[other] for other in others) for others in neighbours]
        labels = [min((-count, label) for label, count in each.items())[1] for each in votes]
    return labels
