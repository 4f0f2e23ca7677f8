"""Communities: groups of nodes with more edges inside them than chance would put there, found by Louvain's method."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omnigraph.analytics.components import weak_components
from omnigraph.analytics.edges import Edges, Floats, Numbers, Positions

_ROUNDS = 100
_LEVELS = 30
_LEAST_GAIN = 1e-3
_LEAST_GAIN_PER_NODE = 1e-8


@dataclass(frozen=True, slots=True)
class Communities:
    """For each node, the smallest node of its community; and how good the communities are."""

    labels: Numbers
    modularity: float
    levels: int


@dataclass(frozen=True, slots=True)
class _Weighted:
    """An undirected graph: each pair of nodes once in both directions, and the weight of what is inside each node.

    An edge inside a node counts twice, as every edge does that has both its ends there.
    """

    count: int
    begin: Positions
    end: Positions
    weights: Floats
    inside: Floats
    strengths: Floats
    total: float


def communities(
    edges: Edges,
    *,
    resolution: float = 1.0,
    seed: int = 0,
    done: Callable[[int], None] = lambda _: None,
) -> Communities:
    """Groups whose modularity no move of a single node raises by much; the same for the same graph and seed.

    Every node begins alone. Nodes move to the community of a neighbour where that raises the modularity, many of them
    in each round; then each community becomes a node, and it all begins again. A higher resolution gives smaller
    communities. A community whose nodes are not connected is split in the end, which never lowers the modularity.
    """
    level = _merged(Edges(edges.count, edges.begin, edges.end, edges.weight()).both_ways(), np.zeros(edges.count))
    chance = np.random.default_rng(seed)
    labels = np.arange(edges.count, dtype=np.int64)
    levels = 0
    while level.total > 0 and levels < _LEVELS:
        moved = _settled(level, resolution, chance)
        names, moved = np.unique(moved, return_inverse=True)
        if len(names) == level.count:
            break
        labels = moved[labels]
        level = _contracted(level, moved, len(names))
        levels += 1
        done(levels)
    inside = edges.only(labels[edges.begin] == labels[edges.end])
    connected = weak_components(inside)
    return Communities(connected, modularity(edges, connected, resolution=resolution), levels)


def modularity(edges: Edges, labels: NDArray[np.integer], *, resolution: float = 1.0) -> float:
    """The share of weight inside communities, less what would be there if edges led anywhere by chance."""
    weights = edges.weight()
    total = float(weights.sum())
    if not total:
        return 0.0
    inside = float(weights[labels[edges.begin] == labels[edges.end]].sum())
    strengths = np.bincount(labels[edges.begin], weights=weights, minlength=edges.count)
    strengths += np.bincount(labels[edges.end], weights=weights, minlength=edges.count)
    return inside / total - resolution * float(np.square(strengths / (2 * total)).sum())


def _merged(directed: Edges, inside: Floats) -> _Weighted:
    """A graph from edges in both directions, where one from a node to itself is there once; parallel ones add up."""
    own = directed.begin == directed.end
    inside = inside + 2 * np.bincount(directed.begin[own], weights=directed.weight()[own], minlength=directed.count)
    return _summed(
        directed.begin[~own].astype(np.int64),
        directed.end[~own].astype(np.int64),
        directed.weight()[~own],
        inside=inside,
    )


def _contracted(level: _Weighted, groups: Positions, count: int) -> _Weighted:
    """The graph whose nodes are groups of the nodes of another."""
    begin, end = groups[level.begin], groups[level.end]
    own = begin == end
    inside: Floats = np.bincount(groups, weights=level.inside, minlength=count).astype(np.float64)
    inside += np.bincount(begin[own], weights=level.weights[own], minlength=count)
    return _summed(begin[~own], end[~own], level.weights[~own], inside=inside)


def _summed(begin: Positions, end: Positions, weights: Floats, *, inside: Floats) -> _Weighted:
    count = len(inside)
    begin, end, weights = _added_up(begin, end, weights)
    strengths = np.bincount(begin, weights=weights, minlength=count) + inside
    return _Weighted(count, begin, end, weights, inside, strengths, float(strengths.sum()))


def _added_up(begin: Positions, end: Positions, weights: Floats) -> tuple[Positions, Positions, Floats]:
    """Each pair of numbers once, ascending, with the sum of its weights."""
    if not len(begin):
        return begin, end, weights
    keys = begin << 32 | end
    order = np.argsort(keys, kind="stable")
    keys, weights = keys[order], weights[order]
    starts = np.flatnonzero(np.concatenate((np.ones(1, dtype=np.bool_), keys[1:] != keys[:-1])))
    keys = keys[starts]
    return keys >> 32, keys & 0xFFFFFFFF, np.add.reduceat(weights, starts)


def _settled(level: _Weighted, resolution: float, chance: np.random.Generator) -> Positions:
    """The community of each node when moving on gains next to nothing.

    All nodes decide at the same time, and would sometimes move past each other. So only some of those that want to move
    do, chosen by chance: fewer when the modularity did not rise, and in the end only the one that gains most, which
    always raises it.
    """
    labels = np.arange(level.count, dtype=np.int64)
    quality = _quality(level, labels, resolution)
    least = min(_LEAST_GAIN, _LEAST_GAIN_PER_NODE * level.count)
    share = 0.5
    wishes = _wishes(level, labels, resolution)
    for _ in range(_ROUNDS):
        targets, gains = wishes
        willing = np.flatnonzero(gains > 0)
        if not len(willing):
            break
        alone = share * len(willing) < 1
        movers = willing[[np.argmax(gains[willing])]] if alone else willing[chance.random(len(willing)) < share]
        moved = labels.copy()
        moved[movers] = targets[movers]
        raised = _quality(level, moved, resolution)
        if raised <= quality:
            if alone:
                break
            share /= 4
            continue
        gained, quality, labels = raised - quality, raised, moved
        if gained < least:
            break
        share = min(share * 2, 0.5)
        wishes = _wishes(level, labels, resolution)
    return labels


def _quality(level: _Weighted, labels: Positions, resolution: float) -> float:
    inside = float(level.inside.sum()) + float(level.weights[labels[level.begin] == labels[level.end]].sum())
    strengths = np.bincount(labels, weights=level.strengths, minlength=level.count)
    return inside / level.total - resolution * float(np.square(strengths / level.total).sum())


def _wishes(level: _Weighted, labels: Positions, resolution: float) -> tuple[Positions, Floats]:
    """For each node, the community where it would raise the modularity most, and what it gains by moving there."""
    groups = np.bincount(labels, weights=level.strengths, minlength=level.count)
    nodes, targets, weights = _added_up(level.begin, labels[level.end], level.weights)
    own = labels[nodes] == targets
    expected = resolution / level.total
    # A node does not count as one of those whom it would join or stay with.
    others = groups[targets] - np.where(own, level.strengths[nodes], 0.0)
    values = weights - expected * level.strengths[nodes] * others
    staying = -expected * level.strengths * (groups[labels] - level.strengths)
    staying[nodes[own]] = values[own]
    best = np.full(level.count, -np.inf)
    nodes, targets, values = nodes[~own], targets[~own], values[~own]
    np.maximum.at(best, nodes, values)
    chosen = np.flatnonzero(values == best[nodes])[::-1]
    wanted = labels.copy()
    wanted[nodes[chosen]] = targets[chosen]
    gains = best - staying
    gains[gains < 1e-12 * level.total] = 0.0
    return wanted, gains
