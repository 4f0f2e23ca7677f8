"""Communities: groups of nodes with more edges among each other than expected by chance, by the Louvain method."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from omnigraph.analytics.edges import Edges, Floats, Numbers, Positions
from omnigraph.analytics.sparse import find_components
from omnigraph.dataclass_later import dataclass

_ROUNDS = 100
_LEVELS = 30
_LEAST_GAIN = 1e-3
_LEAST_GAIN_PER_NODE = 1e-8


@dataclass(frozen=True, slots=True)
class Communities:
    """For each node, the smallest node of its community; and the modularity of all communities."""

    labels: Numbers
    modularity: float
    levels: int


@dataclass(frozen=True, slots=True)
class _Weighted:
    """An undirected graph: each pair of nodes once in both directions, and the weight of the edges inside each node.

    An edge inside a node counts twice, because both its ends are there.
    """

    count: int
    begin: Positions
    end: Positions
    weights: Floats
    inside: Floats
    strengths: Floats
    total: float


def find_communities(
    edges: Edges,
    *,
    resolution: float = 1.0,
    seed: int = 0,
    on_level: Callable[[int], None] = lambda _: None,
) -> Communities:
    """Groups such that moving a single node hardly raises the modularity; the same for the same graph and seed.

    Every node begins alone. Nodes move to the community of a neighbour where that raises the modularity, many of them
    in each round; then each community becomes a node, and the rounds are repeated. A higher resolution gives smaller
    communities. A community whose nodes are not connected is split in the end, which never lowers the modularity.
    """
    level = _first_level(edges)
    chance = np.random.default_rng(seed)
    labels = np.arange(edges.count, dtype=np.int64)
    levels = 0
    while level.total > 0 and levels < _LEVELS:
        moved = _move_nodes(level, resolution, chance)
        names, moved = np.unique(moved, return_inverse=True)
        if len(names) == level.count:
            break
        labels = moved[labels]
        level = _contract(level, moved, len(names))
        levels += 1
        on_level(levels)
    inside = edges.only(labels[edges.begin] == labels[edges.end])
    connected = find_components(inside, "weak")
    return Communities(connected, modularity(edges, connected, resolution=resolution), levels)


def modularity(edges: Edges, labels: NDArray[np.integer], *, resolution: float = 1.0) -> float:
    """The share of weight inside communities, less the share expected if edges led anywhere by chance."""
    weights = edges.weight()
    total = float(weights.sum())
    if not total:
        return 0.0
    inside = float(weights[labels[edges.begin] == labels[edges.end]].sum())
    strengths = np.bincount(labels[edges.begin], weights=weights, minlength=edges.count)
    strengths += np.bincount(labels[edges.end], weights=weights, minlength=edges.count)
    return inside / total - resolution * float(np.square(strengths / (2 * total)).sum())


def _first_level(edges: Edges) -> _Weighted:
    """Every node by itself. Parallel edges add up."""
    directed = edges.both_ways()
    begin, end, weights = directed.begin.astype(np.int64), directed.end.astype(np.int64), directed.weight()
    own = begin == end
    inside: Floats = np.bincount(begin[own], weights=2 * weights[own], minlength=edges.count).astype(np.float64)
    return _weighted_graph(begin[~own], end[~own], weights[~own], inside=inside)


def _contract(level: _Weighted, groups: Positions, count: int) -> _Weighted:
    """The graph whose nodes are groups of the nodes of another."""
    begin, end = groups[level.begin], groups[level.end]
    own = begin == end
    inside: Floats = np.bincount(groups, weights=level.inside, minlength=count).astype(np.float64)
    inside += np.bincount(begin[own], weights=level.weights[own], minlength=count)
    return _weighted_graph(begin[~own], end[~own], level.weights[~own], inside=inside)


def _weighted_graph(begin: Positions, end: Positions, weights: Floats, *, inside: Floats) -> _Weighted:
    count = len(inside)
    begin, end, weights = _sum_by_pair(begin, end, weights)
    strengths = np.bincount(begin, weights=weights, minlength=count) + inside
    return _Weighted(count, begin, end, weights, inside, strengths, float(strengths.sum()))


def _sum_by_pair(begin: Positions, end: Positions, weights: Floats) -> tuple[Positions, Positions, Floats]:
    """Each pair of numbers once, ascending, with the sum of its weights."""
    if not len(begin):
        return begin, end, weights
    keys = begin << 32 | end
    order = np.argsort(keys, kind="stable")
    keys, weights = keys[order], weights[order]
    starts = np.flatnonzero(np.concatenate((np.ones(1, dtype=np.bool_), keys[1:] != keys[:-1])))
    keys = keys[starts]
    return keys >> 32, keys & 0xFFFFFFFF, np.add.reduceat(weights, starts)


def _move_nodes(level: _Weighted, resolution: float, chance: np.random.Generator) -> Positions:
    """The community of each node when further moves gain next to nothing.

    All nodes decide at the same time, and some would swap places. So only a random share of the nodes that gain by
    moving do move: fewer when the modularity did not rise, and in the end only the one that gains most, which always
    raises it.
    """
    labels = np.arange(level.count, dtype=np.int64)
    quality = _quality(level, labels, resolution)
    least = min(_LEAST_GAIN, _LEAST_GAIN_PER_NODE * level.count)
    share = 0.5
    moves = _best_moves(level, labels, resolution)
    for _ in range(_ROUNDS):
        targets, gains = moves
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
        moves = _best_moves(level, labels, resolution)
    return labels


def _quality(level: _Weighted, labels: Positions, resolution: float) -> float:
    inside = float(level.inside.sum()) + float(level.weights[labels[level.begin] == labels[level.end]].sum())
    strengths = np.bincount(labels, weights=level.strengths, minlength=level.count)
    return inside / level.total - resolution * float(np.square(strengths / level.total).sum())


def _best_moves(level: _Weighted, labels: Positions, resolution: float) -> tuple[Positions, Floats]:
    """For each node, the community where it would raise the modularity most, and what it gains by moving there."""
    groups = np.bincount(labels, weights=level.strengths, minlength=level.count)
    nodes, targets, weights = _sum_by_pair(level.begin, labels[level.end], level.weights)
    own = labels[nodes] == targets
    expected = resolution / level.total
    # A node does not count as a member of the community that it would join or stay in.
    others = groups[targets] - np.where(own, level.strengths[nodes], 0.0)
    values = weights - expected * level.strengths[nodes] * others
    staying = -expected * level.strengths * (groups[labels] - level.strengths)
    staying[nodes[own]] = values[own]
    best = np.full(level.count, -np.inf)
    nodes, targets, values = nodes[~own], targets[~own], values[~own]
    np.maximum.at(best, nodes, values)
    is_best = np.flatnonzero(values == best[nodes])[::-1]
    wanted = labels.copy()
    wanted[nodes[is_best]] = targets[is_best]
    gains = best - staying
    gains[gains < 1e-12 * level.total] = 0.0
    return wanted, gains
