"""Triangles: how many pairs of neighbours of a node are neighbours of each other."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from omnigraph.analytics.edges import Edges, Floats, Positions
from omnigraph.dataclass_later import dataclass
from omnigraph.resident.numbers import distinct

_PAIRS_AT_ONCE = 4_000_000
_MARKS_PER_KEY = 8
_MOST_BITS = 30
# Fibonacci hashing: products with this odd number differ in their upper bits even where keys are close together.
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Triangles:
    """For each node, the number of its neighbours and of its triangles, and its clustering coefficient."""

    neighbours: Positions
    counts: Positions
    clustering: Floats

    @property
    def total(self) -> int:
        """The number of triangles; each has three corners."""
        return int(self.counts.sum()) // 3

    @property
    def transitivity(self) -> float:
        """The share of pairs of edges at a common node that are two sides of a triangle."""
        pairs = int((self.neighbours * (self.neighbours - 1) // 2).sum())
        return 3 * self.total / pairs if pairs else 0.0


def count_triangles(edges: Edges, on_progress: Callable[[int, int], None] = lambda *_: None) -> Triangles:
    """Counts triangles. Direction and parallel edges do not matter, and edges from a node to itself are ignored.

    Every edge is directed from the node with fewer neighbours to the one with more. Then few edges leave any node, and
    the pairs of edges that leave the same node, each of which may be two sides of a triangle, are few enough to look
    each of them up, in blocks of a few million.
    """
    proper = edges.only(edges.begin != edges.end)
    low, high = np.minimum(proper.begin, proper.end), np.maximum(proper.begin, proper.end)
    pairs = distinct(low * np.int64(max(edges.count, 1)) + high)
    low, high = np.divmod(pairs, max(edges.count, 1))
    degrees = np.bincount(low, minlength=edges.count) + np.bincount(high, minlength=edges.count)
    rank = np.empty(edges.count, dtype=np.int64)
    order = np.argsort(degrees, kind="stable")
    rank[order] = np.arange(edges.count)
    counts = np.empty(edges.count, dtype=np.int64)
    counts[order] = _count_corners(rank[low], rank[high], edges.count, on_progress)
    possible = degrees * (degrees - 1) / 2
    clustering = np.zeros(edges.count)
    np.divide(counts, possible, out=clustering, where=possible > 0)
    return Triangles(degrees.astype(np.int64), counts, clustering)


def _count_corners(left: Positions, right: Positions, count: int, on_progress: Callable[[int, int], None]) -> Positions:
    """The triangles at each node, where nodes are numbered by the number of their neighbours."""
    keys = distinct(np.minimum(left, right) * count + np.maximum(left, right))
    begin, end = np.divmod(keys, max(count, 1))
    last_of_node = np.cumsum(np.bincount(begin, minlength=count))
    # Each edge is paired with those that come after it and leave the same node.
    partners = last_of_node[begin] - np.arange(len(keys)) - 1
    sums = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(partners)))
    corners = np.zeros(count, dtype=np.int64)
    sieve = _Sieve(keys)
    first = 0
    while first < len(keys):
        last = int(np.searchsorted(sums, sums[first] + _PAIRS_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), len(keys))
        one = np.repeat(np.arange(first, last), partners[first:last])
        other = one + 1 + np.arange(len(one)) - (sums[one] - sums[first])
        closing = end[one] * count + end[other]
        closed = np.flatnonzero(sieve.may_hold(closing))
        at = np.minimum(np.searchsorted(keys, closing[closed]), len(keys) - 1)
        closed = closed[keys[at] == closing[closed]]
        for corner in (begin[one[closed]], end[one[closed]], end[other[closed]]):
            corners += np.bincount(corner, minlength=count)
        first = last
        on_progress(first, len(keys))
    return corners


class _Sieve:
    """A Bloom filter with one hash: rules out most keys that are not in a set with a single lookup.

    A binary search takes many lookups, and most pairs of edges are not sides of a triangle.
    """

    def __init__(self, keys: Positions) -> None:
        bits = min(max(len(keys) * _MARKS_PER_KEY, 2).bit_length(), _MOST_BITS)
        self._shift = np.uint64(64 - bits)
        self._marks = np.zeros(1 << bits, dtype=np.bool_)
        self._marks[self._places(keys)] = True

    def may_hold(self, keys: Positions) -> NDArray[np.bool_]:
        """False where a key is certainly not in the set."""
        return self._marks[self._places(keys)]

    def _places(self, keys: Positions) -> NDArray[np.uint64]:
        return (keys.astype(np.uint64) * _SPREAD) >> self._shift
