"""PageRank: how often a walker is at each node who follows edges, and now and then starts anew somewhere."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from omnigraph.analytics.edges import Edges, Floats, Positions, grouped


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of each node, which sum up to 1, and how they were found."""

    values: Floats
    iterations: int
    converged: bool
    change: float
    """What the ranks changed by in the last iteration, summed up over all nodes."""


def pagerank(
    edges: Edges,
    *,
    damping: float = 0.85,
    iterations: int = 100,
    tolerance: float = 1e-9,
    starts: Positions | None = None,
    done: Callable[[int], None] = lambda _: None,
) -> Ranks:
    """The ranks, by iteration until the change of all of them together is at most `tolerance` of their sum.

    A walker goes on with the probability `damping`, and takes an edge by its weight. From a node that no edge leaves,
    and whenever a walk ends, the next one starts at any node, or at one of `starts`.
    """
    if edges.count == 0:
        return Ranks(np.zeros(0), 0, True, 0.0)
    start = _start(edges.count, starts)
    strength = np.bincount(edges.begin, weights=edges.weights, minlength=edges.count).astype(np.float64)
    leads_nowhere = strength == 0
    share = np.zeros(edges.count)
    np.divide(damping, strength, out=share, where=~leads_nowhere)
    incoming = grouped(edges.reversed())
    ranks, change, step = start.copy(), np.inf, 0
    while step < iterations and change > tolerance:
        following = incoming.sums(ranks * share)
        ended = 1 - damping + damping * float(ranks[leads_nowhere].sum())
        following += ended * start
        following /= following.sum()
        change = float(np.abs(following - ranks).sum())
        ranks = following
        step += 1
        done(step)
    return Ranks(ranks, step, change <= tolerance, change)


def _start(count: int, starts: Positions | None) -> Floats:
    """The probability of each node to be where a walk starts."""
    if starts is None:
        return np.full(count, 1 / count)
    start = np.zeros(count)
    start[starts] = 1
    return np.asarray(start / start.sum(), dtype=np.float64)
