"""Label propagation: every node takes the label that is most frequent around it, until none changes.

All nodes decide at the same time. The votes of a node are the labels of its neighbours, one for each edge in any
direction, and its own label. Of labels with as many votes, the smallest wins. Votes are whole numbers, so the labels
are the same in whatever order they are counted.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from omnigraph.analytics.edges import Edges, Numbers, Positions, run_starts
from omnigraph.dataclass_later import dataclass

_VOTES_AT_ONCE = 1 << 22
_LABEL_BITS, _LABEL = 32, 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Labels:
    """The label of each node, which is the number of a node, and how they were found."""

    values: Numbers
    iterations: int
    converged: bool


@dataclass(frozen=True, slots=True)
class Votes:
    """How often each label was voted for at each node; a pair of node and label is one number, ascending."""

    pairs: Positions
    counts: Positions

    def add(self, other: "Votes") -> "Votes":
        """The votes of both."""
        return _sum_votes(np.concatenate((self.pairs, other.pairs)), np.concatenate((self.counts, other.counts)))


def count_votes(nodes: NDArray[np.integer], labels: Numbers) -> Votes:
    """One vote for each node and label, in any order."""
    pairs = nodes.astype(np.int64) << _LABEL_BITS | labels
    pairs.sort()
    starts = run_starts(pairs)
    return Votes(pairs[starts], np.diff(starts, append=len(pairs)))


def choose_labels(votes: Votes, labels: Numbers) -> Numbers:
    """The label that each of the nodes ``0 … len(labels) - 1`` takes, which also votes for its own."""
    votes = votes.add(count_votes(np.arange(len(labels)), labels))
    nodes = votes.pairs >> _LABEL_BITS
    starts = run_starts(nodes)
    most = np.maximum.reduceat(votes.counts, starts) if len(starts) else votes.counts
    wins = np.flatnonzero(votes.counts == np.repeat(most, np.diff(starts, append=len(nodes))))
    first = wins[run_starts(nodes[wins])]
    chosen: Numbers = (votes.pairs[first] & _LABEL).astype(np.int32)
    return chosen


def propagate_labels(edges: Edges, *, iterations: int, on_step: Callable[[int], None] = lambda _: None) -> Labels:
    """The labels after some iterations, or earlier when no label changes any more."""
    directed = edges.both_ways()
    order = np.argsort(directed.end, kind="stable")
    neighbours = directed.begin[order]
    bounds = np.concatenate(([0], np.cumsum(np.bincount(directed.end, minlength=edges.count))))
    labels = np.arange(edges.count, dtype=np.int32)
    step, has_changed = 0, True
    while step < iterations and has_changed:
        parts = [_next_labels(neighbours, bounds, labels, first, last) for first, last in _ranges(bounds)]
        following = np.concatenate(parts) if parts else labels
        has_changed = not np.array_equal(following, labels)
        labels = following
        step += 1
        on_step(step)
    return Labels(labels, step, not has_changed)


def _next_labels(neighbours: Numbers, bounds: Positions, labels: Numbers, first: int, last: int) -> Numbers:
    """What the nodes from `first` to before `last` take."""
    degrees = np.diff(bounds[first : last + 1])
    nodes = np.repeat(np.arange(last - first), degrees)
    votes = count_votes(nodes, labels[neighbours[bounds[first] : bounds[last]]])
    return choose_labels(votes, labels[first:last])


def _ranges(bounds: Positions) -> list[tuple[int, int]]:
    """Ranges of nodes with some millions of votes together."""
    found, first, count = [], 0, len(bounds) - 1
    while first < count:
        last = int(np.searchsorted(bounds, bounds[first] + _VOTES_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), first + _VOTES_AT_ONCE, count)
        found.append((first, last))
        first = last
    return found


def _sum_votes(pairs: Positions, counts: Positions) -> Votes:
    order = np.argsort(pairs, kind="stable")
    pairs, counts = pairs[order], counts[order]
    starts = run_starts(pairs)
    return Votes(pairs[starts], np.add.reduceat(counts, starts) if len(starts) else counts)
