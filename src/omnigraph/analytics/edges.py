"""Edges between numbered nodes: two arrays of numbers, and a third with weights.

An edge is 8 bytes, or 16 with a weight: numbers are 32 bits wide, and a graph has fewer than 2³¹ nodes. Grouped by the
node at one end, for walking along them, it is 8 bytes once more, and as much again while they are being sorted.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from omnigraph.query.adjacency import Neighbours, distinct

Numbers: TypeAlias = NDArray[np.int32]
Positions: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges from ``begin[i]`` to ``end[i]`` among the nodes ``0 … count - 1``, some of which may have none.

    There may be several between the same two nodes, and some from a node to itself. Without weights, each weighs 1.
    """

    count: int
    begin: Numbers
    end: Numbers
    weights: Floats | None = None

    def __len__(self) -> int:
        return len(self.begin)

    def weight(self) -> Floats:
        """The weight of each edge."""
        return np.ones(len(self)) if self.weights is None else self.weights

    def both_ways(self) -> "Edges":
        """The same edges and their opposites. One from a node to itself is its own opposite, and stays one."""
        proper = self.begin != self.end
        begin = np.concatenate((self.begin, self.end[proper]))
        end = np.concatenate((self.end, self.begin[proper]))
        weights = None if self.weights is None else np.concatenate((self.weights, self.weights[proper]))
        return Edges(self.count, begin, end, weights)

    def reversed(self) -> "Edges":
        """The opposites of these edges."""
        return Edges(self.count, self.end, self.begin, self.weights)

    def only(self, chosen: NDArray[np.bool_]) -> "Edges":
        """Some of the edges, among the same nodes."""
        weights = None if self.weights is None else self.weights[chosen]
        return Edges(self.count, self.begin[chosen], self.end[chosen], weights)

    def neighbours(self) -> Neighbours:
        """Where one gets from each node, each target once, ascending."""
        pairs = distinct(_pairs(self.begin, self.end))
        begin, targets = pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.int32)
        return Neighbours(offsets_of(begin, self.count), targets)


@dataclass(frozen=True, slots=True)
class Grouped:
    """Edges in the order of the node that they begin at; those of node ``n`` are ``offsets[n]:offsets[n + 1]``."""

    offsets: Positions
    ends: Positions
    weights: Floats | None

    def sums(self, values: Floats) -> Floats:
        """For each node, the sum of the values of the nodes that its edges lead to, times the weights of the edges."""
        count = len(self.offsets) - 1
        sums = np.zeros(count)
        carried = values[self.ends]
        if self.weights is not None:
            carried *= self.weights
        filled = np.flatnonzero(np.diff(self.offsets))
        if len(filled):
            sums[filled] = np.add.reduceat(carried, self.offsets[filled])
        return sums


def grouped(edges: Edges) -> Grouped:
    """Edges in the order of the node that they begin at.

    Without weights, pairs of numbers are sorted as they are, which is much faster than finding their order.
    """
    pairs = _pairs(edges.begin, edges.end)
    if edges.weights is None:
        pairs.sort()
        weights = None
    else:
        order = np.argsort(pairs, kind="stable")
        pairs, weights = pairs[order], edges.weights[order]
    offsets = offsets_of(edges.begin, edges.count)
    pairs &= 0xFFFFFFFF
    return Grouped(offsets, pairs, weights)


def offsets_of(numbers: NDArray[Any], count: int) -> Positions:
    """Where the group of each node begins among things in the order of their nodes, and where the last one ends."""
    offsets = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(np.bincount(numbers, minlength=count), out=offsets[1:])
    return offsets


def positions_of(offsets: Positions, nodes: NDArray[Any]) -> tuple[Positions, Positions]:
    """The positions of everything in the groups of some nodes, and for each of them whose it is among the nodes."""
    sizes = offsets[nodes + 1] - offsets[nodes]
    ends = np.cumsum(sizes)
    owners = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    places = np.arange(len(owners), dtype=np.int64)
    places += (offsets[nodes] - (ends - sizes))[owners]
    return places, owners


def _pairs(begin: Numbers, end: Numbers) -> Positions:
    pairs: Positions = begin.astype(np.int64)
    pairs <<= 32
    pairs |= end
    return pairs
