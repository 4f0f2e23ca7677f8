"""Shortest paths from some nodes to all others: by the number of edges, or by the sum of their weights."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.analytics.edges import Edges, Floats, Grouped, Numbers, Positions, grouped, positions_of
from omnigraph.query.adjacency import Neighbours, distinct

NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Hops:
    """For each node, the fewest edges from a source, and the node before it on such a path; -1 if there is none."""

    distances: Numbers
    predecessors: Numbers


@dataclass(frozen=True, slots=True)
class Distances:
    """For each node, the least sum of weights from a source, or infinity; and the node before it, or -1."""

    distances: Floats
    predecessors: Numbers


def fewest_hops(
    neighbours: Neighbours,
    sources: Positions,
    *,
    most: int | None = None,
    done: Callable[[int], None] = lambda _: None,
) -> Hops:
    """Walks from all sources at once, a step in each round. Of several nodes before one, the smallest is named."""
    distances = np.full(neighbours.count, NOWHERE, dtype=np.int32)
    predecessors = np.full(neighbours.count, NOWHERE, dtype=np.int32)
    frontier = distinct(sources)
    distances[frontier] = 0
    hops = 0
    while len(frontier) and (most is None or hops < most):
        hops += 1
        origins, targets = neighbours.expanded(frontier, frontier)
        is_new = distances[targets] == NOWHERE
        origins, targets = origins[is_new], targets[is_new]
        # Of several values for one place the last one stays, so the smallest comes last.
        predecessors[targets[::-1]] = origins[::-1]
        frontier = distinct(targets)
        distances[frontier] = hops
        done(hops)
    return Hops(distances, predecessors)


def least_weights(edges: Edges, sources: Positions, done: Callable[[int], None] = lambda _: None) -> Distances:
    """The distances by weights, none of which may be below zero.

    Nodes are settled in the order of their distance, but many at a time: those that are nearer than a limit are worked
    on until none of them gets any nearer, and then the limit moves on. Of several nodes before one, that on the path of
    fewest edges is named, and the smallest of these.
    """
    weights = edges.weight()
    outgoing = grouped(Edges(edges.count, edges.begin, edges.end, weights))
    distances = np.full(edges.count, np.inf)
    distances[sources] = 0.0
    stride = float(weights.mean()) if len(weights) else 1.0
    limit = stride
    waiting = np.zeros(edges.count, dtype=np.bool_)
    waiting[sources] = True
    rounds = 0
    while waiting.any():
        candidates = np.flatnonzero(waiting)
        near = candidates[distances[candidates] <= limit]
        if not len(near):
            limit = float(distances[candidates].min()) + stride
            continue
        while len(near):
            waiting[near] = False
            nearer = _relaxed(outgoing, near, distances)
            waiting[nearer] = True
            near = nearer[distances[nearer] <= limit]
            rounds += 1
            done(rounds)
    tight = distances[edges.begin] + weights == distances[edges.end]
    tight &= np.isfinite(distances[edges.end])
    return Distances(distances, fewest_hops(edges.only(tight).neighbours(), sources).predecessors)


def _relaxed(outgoing: Grouped, nodes: NDArray[np.int64], distances: Floats) -> NDArray[np.int64]:
    """Makes the ends of the edges of some nodes as near as these edges make them; returns those that got nearer."""
    assert outgoing.weights is not None, "edges without weights are walked by hops"
    places, owners = positions_of(outgoing.offsets, nodes)
    reached = outgoing.ends[places]
    offered = distances[nodes][owners] + outgoing.weights[places]
    better = offered < distances[reached]
    reached, offered = reached[better], offered[better]
    np.minimum.at(distances, reached, offered)
    return distinct(reached)


def path_to(target: int, predecessors: Numbers) -> list[int]:
    """The nodes on the way to a node that was reached, from its source on."""
    path = [target]
    while (before := int(predecessors[path[-1]])) != NOWHERE:
        path.append(before)
    return path[::-1]
