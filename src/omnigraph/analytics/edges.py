"""Edges between numbered nodes: two arrays of numbers, and a third with weights.

An edge takes 8 bytes, or 16 with a weight: numbers are 32 bits wide, and a graph has fewer than 2³¹ nodes.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from omnigraph.dataclass_later import dataclass

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

    def reverse(self) -> "Edges":
        """The opposites of these edges."""
        return Edges(self.count, self.end, self.begin, self.weights)

    def only(self, mask: NDArray[np.bool_]) -> "Edges":
        """Some of the edges, among the same nodes."""
        weights = None if self.weights is None else self.weights[mask]
        return Edges(self.count, self.begin[mask], self.end[mask], weights)


def run_starts(values: NDArray[Any]) -> Positions:
    """Where each run of equal values begins."""
    if not len(values):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.concatenate((np.ones(1, dtype=np.bool_), values[1:] != values[:-1])))
