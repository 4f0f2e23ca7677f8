"""Which nodes are how many edges apart: breadth first, from many starts at once."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omnigraph.query.adjacency import Codes, Neighbours, distinct
from omnigraph.query.cancelling import NEVER, Cancellation

# How many pairs are kept at once, about: sorting is fastest in the processor's cache, and memory stays bounded.
_BLOCK_PAIRS = 1 << 18
# Up to this many (start, node) combinations, a table of flags finds the visited nodes faster than sorting does.
_FLAGS = 1 << 24


def reached(
    neighbours: Neighbours,
    starts: Codes,
    minimum: int,
    maximum: int | None,
    *,
    cancellation: Cancellation = NEVER,
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The pairs of a start and a node, a block of starts at a time, ascending by start in each block.

    A pair counts when the shortest path of at least one edge between its ends has `minimum` to `maximum` edges. A path
    of no edge leads to the start itself, and is a path only when `minimum` is 0.
    """
    if (minimum, maximum) == (1, 1):
        yield neighbours.expanded(starts, starts)
        return
    for block in _blocks(neighbours, starts, maximum):
        keys: NDArray[Any] = block[:0]
        if maximum != 0:
            keys = _levels(neighbours, block, max(minimum, 1), maximum, cancellation=cancellation)
        if minimum == 0:
            themselves = np.arange(len(block), dtype=np.int64) * neighbours.count + block
            keys = distinct(np.concatenate((keys, themselves)))
        origins, nodes = np.divmod(keys, max(neighbours.count, 1))
        yield block[origins], nodes


def _blocks(neighbours: Neighbours, starts: Codes, maximum: int | None) -> Iterator[Codes]:
    """Starts in groups that make about as many pairs as fit a block, by what two steps are expected to reach."""
    if len(starts) == 0:
        return
    degrees = neighbours.degrees(starts).astype(np.float64)
    if maximum != 1:
        degrees *= max(len(neighbours.targets) / max(neighbours.count, 1), 1.0)
    ends = np.cumsum(degrees + 1)
    cuts = np.searchsorted(ends, np.arange(_BLOCK_PAIRS, ends[-1], _BLOCK_PAIRS)) + 1
    for block in np.split(starts, cuts):
        if len(block):
            yield block


def _levels(
    neighbours: Neighbours, starts: Codes, minimum: int, maximum: int | None, *, cancellation: Cancellation
) -> NDArray[Any]:
    """Every pair whose distance is within the bounds, as ``start's position * count of nodes + node``, ascending."""
    count = neighbours.count
    size = len(starts) * count
    # Twice the size must fit, because visited pairs are marked in an additional bit.
    width = np.int32 if 2 * size < 2**31 else np.int64
    visited: _Flags | _Sorted = _Flags(size) if size <= _FLAGS else _Sorted(width)
    origins, nodes = neighbours.expanded(starts, np.arange(0, size, count, dtype=width))
    level = visited.fresh(origins + nodes)
    kept = [level] if minimum <= 1 else []
    distance = 1
    cancellation.check()
    while len(level) and (maximum is None or distance < maximum):
        at = level % count
        origins, nodes = neighbours.expanded(at, level - at)
        level = visited.fresh(origins + nodes)
        cancellation.check()
        distance += 1
        if distance >= minimum:
            kept.append(level)
    if minimum <= 1:
        return visited.all()
    return np.sort(np.concatenate(kept)) if len(kept) > 1 else (kept or [level[:0]])[0]


class _Flags:
    """Remembers pairs by a flag for every possible one."""

    def __init__(self, size: int) -> None:
        self._flags = np.zeros(size, dtype=np.bool_)

    def fresh(self, pairs: NDArray[Any]) -> NDArray[Any]:
        """The pairs that were not seen before, each once, ascending; they are seen now."""
        new = distinct(pairs[~self._flags[pairs]])
        self._flags[new] = True
        return new

    def all(self) -> NDArray[Any]:
        """Every pair that was seen, ascending."""
        return np.flatnonzero(self._flags)


class _Sorted:
    """Remembers pairs in their order. Old and new ones are sorted together, told apart by the lowest bit."""

    def __init__(self, width: type[np.int32 | np.int64]) -> None:
        self._seen: NDArray[Any] = np.empty(0, dtype=width)

    def fresh(self, pairs: NDArray[Any]) -> NDArray[Any]:
        """The pairs that were not seen before, each once, ascending; they are seen now."""
        if len(self._seen) == 0:
            self._seen = distinct(pairs)
            return self._seen
        both = np.concatenate((self._seen << 1, (pairs << 1) | 1))
        both.sort()
        keys = both >> 1
        is_first = np.empty(len(keys), dtype=np.bool_)
        is_first[:1] = True
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        self._seen = keys[is_first]
        is_new = (both[is_first] & 1).astype(np.bool_)
        return self._seen[is_new]

    def all(self) -> NDArray[Any]:
        """Every pair that was seen, ascending."""
        return self._seen
