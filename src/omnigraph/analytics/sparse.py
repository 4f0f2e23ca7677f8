"""Analyses that scipy computes over a sparse matrix of the edges: PageRank, components and shortest paths."""

from collections.abc import Callable
from typing import Literal

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

from omnigraph.analytics.edges import Edges, Floats, Numbers, Positions
from omnigraph.analytics.ranks import Ranks
from omnigraph.dataclass_later import dataclass

NOWHERE = -1


def matrix_of(edges: Edges) -> csr_array:
    """A row for each node with the edges that leave it, in the order of their ends. Parallel edges add up."""
    return csr_array((edges.weight(), (edges.begin, edges.end)), shape=(edges.count, edges.count))


# --- ranks ---


def pagerank(
    edges: Edges,
    *,
    damping: float = 0.85,
    iterations: int = 100,
    tolerance: float = 1e-9,
    starts: Positions | None = None,
    on_step: Callable[[int], None] = lambda _: None,
) -> Ranks:
    """The ranks, by iteration until the sum of all changes is at most `tolerance`.

    A walker follows an edge with the probability `damping`, and chooses it by its weight. From a node without outgoing
    edges, and whenever a walk ends, the next walk starts at any node, or at one of `starts`.
    """
    if edges.count == 0:
        return Ranks(np.zeros(0), 0, converged=True, change=0.0)
    start = np.ones(edges.count) if starts is None else np.bincount(starts, minlength=edges.count)
    start = start / start.sum()
    strength = np.bincount(edges.begin, weights=edges.weights, minlength=edges.count).astype(np.float64)
    is_dead_end = strength == 0
    share = np.zeros(edges.count)
    np.divide(damping, strength, out=share, where=~is_dead_end)
    incoming = matrix_of(edges.reverse())
    ranks, change, step = start, np.inf, 0
    while step < iterations and change > tolerance:
        following = incoming @ (ranks * share)
        restarting = 1 - damping + damping * float(ranks[is_dead_end].sum())
        following += restarting * start
        following /= following.sum()
        change = float(np.abs(following - ranks).sum())
        ranks = following
        step += 1
        on_step(step)
    return Ranks(ranks, step, change <= tolerance, change)


# --- components ---


def find_components(edges: Edges, kind: Literal["weak", "strong"]) -> Numbers:
    """For each node, the smallest node of its component.

    Nodes of a weak component are connected by edges in any direction; those of a strong one can reach each other.
    """
    if edges.count == 0:
        return np.zeros(0, dtype=np.int32)
    # scipy's search for strong components does not end if an edge is there twice, so parallel edges are one entry.
    count, labels = connected_components(matrix_of(edges), directed=True, connection=kind)
    smallest = np.empty(count, dtype=np.int32)
    # Of several values for one place the last one stays, so the smallest comes last.
    smallest[labels[::-1]] = np.arange(edges.count, dtype=np.int32)[::-1]
    found: Numbers = smallest[labels]
    return found


# --- paths ---


@dataclass(frozen=True, slots=True)
class PathTree:
    """For each node, its distance from the nearest source, or infinity; and the node before it, or -1."""

    distances: Floats
    predecessors: Numbers

    def path_to(self, target: int) -> list[int]:
        """The nodes on the way to a node that was reached, from its source on."""
        path = [target]
        while (before := int(self.predecessors[path[-1]])) != NOWHERE:
            path.append(before)
        return path[::-1]


def fewest_hops(edges: Edges, sources: Positions, *, max_hops: int | None = None) -> PathTree:
    """Paths with the fewest edges. Of several nodes before one, the smallest is named."""
    limit = np.inf if max_hops is None else max_hops
    distances: Floats = dijkstra(matrix_of(edges), indices=sources, unweighted=True, min_only=True, limit=limit)
    is_step = np.isfinite(distances[edges.end]) & (distances[edges.begin] + 1 == distances[edges.end])
    predecessors = np.full(edges.count, edges.count, dtype=np.int32)
    np.minimum.at(predecessors, edges.end[is_step], edges.begin[is_step])
    predecessors[predecessors == edges.count] = NOWHERE
    return PathTree(distances, predecessors)


def least_weights(edges: Edges, sources: Positions) -> PathTree:
    """Paths with the least sum of weights, none of which may be below zero.

    Of several nodes before one, that on the path of fewest edges is named, and the smallest of these.
    """
    entries = coo_array((edges.weight(), (edges.begin, edges.end)), shape=(edges.count, edges.count))
    # Otherwise scipy adds parallel edges up, and the lightest of them is the one to take.
    entries.has_canonical_format = True
    distances: Floats = dijkstra(entries.tocsr(), indices=sources, min_only=True)
    is_step = np.isfinite(distances[edges.end])
    is_step &= distances[edges.begin] + edges.weight() == distances[edges.end]
    return PathTree(distances, fewest_hops(edges.only(is_step), sources).predecessors)
