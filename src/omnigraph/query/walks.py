"""Walks along edges in the process: from few nodes by reading their edges, otherwise over the whole adjacency."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compiler.ir import Direction
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.query.adjacency import (
    Adjacency,
    AdjacencyCache,
    Codes,
    Neighbours,
    adjacency_of,
    adjacency_of_numbers,
    codes_of,
)
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.query.leaves import Ids
from omnigraph.query.steps import GraphReader, Walk
from omnigraph.resident.numbers import distinct
from omnigraph.storage.topology import number_ends, read_late_ends

SMALL_FRONTIER = 256
"""Up to this many nodes, edges are read by a filter; beyond, all edges are read once and cached."""

OPPOSITE = {
    Direction.FORWARD: Direction.BACKWARD,
    Direction.BACKWARD: Direction.FORWARD,
    Direction.EITHER: Direction.EITHER,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A walk that can begin: the neighbours to follow, where to start, and which ends are wanted."""

    neighbours: Neighbours
    start_ids: pa.Array
    end_ids: pa.Array
    starts: Codes
    minimum: int
    maximum: int | None
    wanted: NDArray[np.bool_] | None
    lonely: pa.Array
    """Starts without any edge: a path of no edge is all they have."""

    cancellation: Cancellation

    def pairs(self) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """The pairs of numbers, block by block."""
        bounds = self.minimum, self.maximum
        for begin, end in reachable_pairs(self.neighbours, self.starts, *bounds, cancellation=self.cancellation):
            if self.wanted is None:
                yield begin, end
            else:
                keep = self.wanted[end]
                yield begin[keep], end[keep]


@dataclass(frozen=True, slots=True)
class Walker:
    """Follows the edges of one graph version."""

    reader: GraphReader
    cache: AdjacencyCache
    cancellation: Cancellation = NEVER

    def pairs(self, walk: Walk, start: Ids | None, end: Ids | None) -> tuple[pa.Array, pa.Array]:
        """The ids of the pairs of a walk, as its source and its destination."""
        prepared = self.prepare(walk, start, end)
        blocks = []
        for block in prepared.pairs():
            self.cancellation.hold(sum(each.nbytes for each in block))
            blocks.append(block)
        begins = _ids(prepared.start_ids, [begin for begin, _ in blocks])
        ends = _ids(prepared.end_ids, [end for _, end in blocks])
        if len(prepared.lonely):
            begins, ends = (pa.concat_arrays([each.cast(pa.string()), prepared.lonely]) for each in (begins, ends))
        return (begins, ends) if walk.start == walk.source.variable else (ends, begins)

    def prepare(self, walk: Walk, start: Ids | None, end: Ids | None) -> Prepared:
        """A walk from ids that are known, or from everywhere, to ids that are known, or to anywhere."""
        direction = walk.direction if walk.start == walk.source.variable else OPPOSITE[walk.direction]
        is_explicit = start is not None and (start.narrowing or walk.minimum == 0)
        begin = start.values() if start is not None and is_explicit else None
        adjacency = self._adjacency(walk, direction, begin)
        start_ids, end_ids = adjacency.ends(direction)
        neighbours = self.cache.neighbours(adjacency, direction)
        self.cancellation.check()
        lonely = pa.array([], pa.string())
        if begin is None:
            starts = np.flatnonzero(np.diff(neighbours.offsets))
        else:
            starts = codes_of(begin, start_ids)
            if walk.minimum == 0:
                unique = pc.unique(begin)
                lonely = unique.filter(pc.invert(pc.is_in(unique, value_set=start_ids))).cast(pa.string())
        wanted = None
        if end is not None and end.narrowing:
            wanted = np.zeros(len(end_ids), dtype=np.bool_)
            wanted[codes_of(end.values(), end_ids)] = True
        return Prepared(
            neighbours=neighbours,
            start_ids=start_ids,
            end_ids=end_ids,
            starts=starts,
            minimum=walk.minimum,
            maximum=walk.maximum,
            wanted=wanted,
            lonely=_flat(lonely),
            cancellation=self.cancellation,
        )

    def _adjacency(self, walk: Walk, direction: Direction, begin: pa.Array | pa.ChunkedArray | None) -> Adjacency:
        """The adjacency that a walk needs: all of it, or as much as it can see from a small start."""
        version = self.reader.version(walk.table_key)
        kept = self.cache.get(walk.table_key, version)
        if kept is not None:
            return kept
        if begin is not None and len(begin) <= SMALL_FRONTIER:
            local = self._around(walk, direction, set(begin.to_pylist()))
            if local is not None:
                return local

        def build() -> Adjacency:
            table = self.reader.table(walk.table_key)
            addresses = table.row_addresses()
            numbered = number_ends(table, addresses)
            if numbered is not None:
                late = read_late_ends(table, addresses, numbered)
                return adjacency_of_numbers(numbered, late)
            edges = self.reader.scan(walk.table_key, columns=(SOURCE, DESTINATION))
            return adjacency_of(edges[SOURCE], edges[DESTINATION], is_one_type=_is_one_type(walk))

        return self.cache.get_or_build(walk.table_key, version, build, cancellation=self.cancellation)

    def _around(self, walk: Walk, direction: Direction, frontier: set[str]) -> Adjacency | None:
        """All edges that the walk can follow from these nodes; None when it reaches too many to ask for each."""
        begin, end = (DESTINATION, SOURCE) if direction is Direction.BACKWARD else (SOURCE, DESTINATION)
        tables: list[pa.Table] = []
        asked: set[str] = set()
        steps = 0
        while frontier and (walk.maximum is None or steps < walk.maximum):
            if len(frontier) > SMALL_FRONTIER or len(asked) > 4 * SMALL_FRONTIER:
                return None
            names = sorted(frontier)
            ends = {begin: names, end: names} if direction is Direction.EITHER else {begin: names}
            edges = self.reader.scan_ends(
                walk.table_key, columns=(SOURCE, DESTINATION), ends=ends, check=self.cancellation.hold
            )
            tables.append(edges)
            asked |= frontier
            steps += 1
            if steps == walk.maximum:
                break
            seen = set(edges[end].to_pylist())
            if direction is Direction.EITHER:
                seen |= set(edges[begin].to_pylist())
            frontier = seen - asked
        schema = pa.schema([(SOURCE, pa.string()), (DESTINATION, pa.string())])
        edges = pa.concat_tables([table.cast(schema) for table in tables]) if tables else schema.empty_table()
        return adjacency_of(edges[SOURCE], edges[DESTINATION], is_one_type=_is_one_type(walk))


def _is_one_type(walk: Walk) -> bool:
    return walk.source.type == walk.destination.type


def _ids(ids: pa.Array, blocks: list[NDArray[Any]]) -> pa.Array:
    """The ids behind numbers, without repeating their texts."""
    codes = np.concatenate(blocks).astype(np.int32) if blocks else np.empty(0, dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(codes), ids)


def _flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


# --- pairs of nodes by their distance ---

# How many pairs are kept at once, about: sorting is fastest in the processor's cache, and memory stays bounded.
_BLOCK_PAIRS = 1 << 18
# Up to this many (start, node) combinations, a table of flags finds the visited nodes faster than sorting does.
FLAGS = 1 << 24


class Sized(Protocol):
    """How many edges there are, about, between nodes, which are numbers below `count`."""

    @property
    def count(self) -> int:
        """The number of nodes."""
        ...

    @property
    def edge_count(self) -> int:
        """About how many edges there are."""
        ...

    def degrees(self, nodes: NDArray[Any]) -> Codes:
        """About how many neighbours some nodes have."""
        ...


class Followed(Sized, Protocol):
    """Edges that can be followed from nodes."""

    def expand(self, nodes: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The neighbours of nodes, each once, and for each of them the label of the node that it was reached from."""
        ...

    def ends(self, nodes: NDArray[Any]) -> NDArray[Any]:
        """The neighbours of nodes, in any order; one may be there several times."""
        ...


def reachable_pairs(
    neighbours: Followed,
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
        yield neighbours.expand(starts, starts)
        return
    for block in blocks_of(neighbours, starts, maximum):
        keys = _keys(_pairs_of_block(neighbours, block, minimum, maximum, cancellation=cancellation))
        if len(block) == 1:
            yield np.repeat(block, len(keys)), keys
            continue
        origins, nodes = np.divmod(keys, max(neighbours.count, 1))
        yield block[origins], nodes


def reachable_counts(
    neighbours: Followed,
    starts: Codes,
    minimum: int,
    maximum: int | None,
    *,
    cancellation: Cancellation = NEVER,
) -> Codes:
    """For each start, the number of its pairs in `reachable_pairs`, which are not made where they can be counted."""
    counts = []
    for block in blocks_of(neighbours, starts, maximum):
        found = _pairs_of_block(neighbours, block, minimum, maximum, cancellation=cancellation)
        if len(block) == 1:
            number = int(np.count_nonzero(found.flags)) if isinstance(found, VisitedFlags) else len(_keys(found))
            counts.append(np.array([number], np.int64))
        else:
            counts.append(np.bincount(_keys(found) // max(neighbours.count, 1), minlength=len(block)))
    return np.concatenate(counts) if counts else np.empty(0, np.int64)


def _pairs_of_block(
    neighbours: Followed, block: Codes, minimum: int, maximum: int | None, *, cancellation: Cancellation
) -> "VisitedFlags | NDArray[Any]":
    """The pairs of a block of starts, as ``start's position * count of nodes + node``: as flags, or ascending."""
    keys: VisitedFlags | NDArray[Any] = block[:0]
    if maximum != 0:
        keys = _levels(neighbours, block, max(minimum, 1), maximum, cancellation=cancellation)
    if minimum == 0:
        themselves = np.arange(len(block), dtype=np.int64) * neighbours.count + block
        if isinstance(keys, VisitedFlags):
            keys.add(themselves)
        else:
            keys = distinct(np.concatenate((keys, themselves)))
    return keys


def _keys(found: "VisitedFlags | NDArray[Any]") -> NDArray[Any]:
    return found.all() if isinstance(found, VisitedFlags) else found


def blocks_of(neighbours: Sized, starts: Codes, maximum: int | None) -> Iterator[Codes]:
    """Starts in groups that make about as many pairs as fit a block, by what two steps are expected to reach."""
    if len(starts) < 2:
        if len(starts):
            yield starts
        return
    degrees = neighbours.degrees(starts).astype(np.float64)
    if maximum != 1:
        degrees *= max(neighbours.edge_count / max(neighbours.count, 1), 1.0)
    ends = np.cumsum(degrees + 1)
    cuts = np.searchsorted(ends, np.arange(_BLOCK_PAIRS, ends[-1], _BLOCK_PAIRS)) + 1
    for block in np.split(starts, cuts):
        if len(block):
            yield block


def _levels(
    neighbours: Followed, starts: Codes, minimum: int, maximum: int | None, *, cancellation: Cancellation
) -> "VisitedFlags | NDArray[Any]":
    """Every pair whose distance is within the bounds, as ``start's position * count of nodes + node``.

    From distance 1 on, they are all that were visited, so those of the last level may be marked several times.
    """
    count = neighbours.count
    size = len(starts) * count
    # Twice the size must fit, because visited pairs are marked in an additional bit.
    width = np.int32 if 2 * size < 2**31 else np.int64
    visited: VisitedFlags | VisitedInOrder = VisitedFlags(size) if size <= FLAGS else VisitedInOrder(width)
    is_one = len(starts) == 1
    level: NDArray[Any] = starts if is_one else np.arange(0, size, count, dtype=width) + starts.astype(width)
    kept = []
    distance = 0
    while len(level) and (maximum is None or distance < maximum):
        if is_one:
            pairs = neighbours.ends(level)
        else:
            at = level % count
            origins, nodes = neighbours.expand(at, level - at)
            pairs = origins + nodes
        distance += 1
        cancellation.check()
        if distance == maximum and minimum <= 1 and isinstance(visited, VisitedFlags):
            visited.add(pairs)
            return visited
        level = visited.fresh(pairs)
        if distance >= minimum:
            kept.append(level)
    if minimum <= 1:
        return visited if isinstance(visited, VisitedFlags) else visited.all()
    return np.sort(np.concatenate(kept)) if len(kept) > 1 else (kept or [level[:0]])[0]


class VisitedFlags:
    """Remembers pairs by a flag for every possible one."""

    def __init__(self, size: int) -> None:
        self.flags = np.zeros(size, dtype=np.bool_)

    def add(self, pairs: NDArray[Any]) -> None:
        """Pairs that are seen now."""
        self.flags[pairs] = True

    def fresh(self, pairs: NDArray[Any]) -> NDArray[Any]:
        """The pairs that were not seen before, each once, ascending; they are seen now."""
        new = distinct(pairs[~self.flags[pairs]])
        self.flags[new] = True
        return new

    def all(self) -> NDArray[Any]:
        """Every pair that was seen, ascending."""
        return np.flatnonzero(self.flags)


class VisitedInOrder:
    """Remembers pairs in their order. Old and new ones are sorted together, distinguished by the lowest bit."""

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


# --- counting rows along walks ---


@dataclass(frozen=True, slots=True)
class _Weights:
    """In how many ways each of these nodes continues; a node that is not here does not."""

    ids: pa.Array
    values: Codes

    def at(self, ids: pa.Array) -> Codes:
        """The weights of other nodes, in their order."""
        if ids is self.ids:
            return self.values
        places = pc.index_in(ids, value_set=self.ids)
        weights = np.where(places.is_valid().to_numpy(zero_copy_only=False), 1, 0)
        return weights * self.values[places.fill_null(0).to_numpy()] if len(self.values) else weights * 0


def row_count(walks: Sequence[Walk], walker: Walker, narrowed: Mapping[str, Ids], counts: Mapping[str, int]) -> int:
    """The number of rows that the walks make together.

    Each walk begins at a variable that is bound before it, so from the last walk to the first, what continues at the
    end of a walk is known when the walk is counted. `counts` has the number of ids of scanned variables.
    """
    weights: dict[str, _Weights] = {}
    for walk in reversed(walks):
        is_forward = walk.start == walk.source.variable
        end = walk.destination.variable if is_forward else walk.source.variable
        prepared = walker.prepare(walk, narrowed.get(walk.start), narrowed.get(end))
        ways = _ways(prepared, weights.pop(end, None))
        before = weights.get(walk.start)
        if before is not None:
            ways = ways * before.at(prepared.start_ids)
        weights[walk.start] = _Weights(prepared.start_ids, ways)
    total = 1
    touched = {end.variable for walk in walks for end in (walk.source, walk.destination)}
    for each in weights.values():
        total *= int(each.values.sum())
    for variable, count in counts.items():
        if variable not in touched:
            total *= count
    return total


def _ways(prepared: Prepared, onward: _Weights | None) -> Codes:
    """For each node in how many ways a walk from it goes on."""
    weight = onward.at(prepared.end_ids) if onward is not None else None
    if prepared.wanted is not None:
        weight = prepared.wanted.astype(np.int64) if weight is None else weight * prepared.wanted
    ways = np.zeros(len(prepared.start_ids), dtype=np.int64)
    if (prepared.minimum, prepared.maximum) == (1, 1):
        neighbours = prepared.neighbours
        if weight is None:
            ways[prepared.starts] = neighbours.degrees(prepared.starts)
        else:
            sums = np.concatenate(([0], np.cumsum(weight[neighbours.targets])))
            offsets = neighbours.offsets
            ways[prepared.starts] = sums[offsets[prepared.starts + 1]] - sums[offsets[prepared.starts]]
        return ways
    for begin, end in prepared.pairs():
        # Pairs come ascending by their start, so each start is one run.
        if weight is None:
            ways += np.bincount(begin, minlength=len(ways))
        else:
            sums = np.concatenate(([0], np.cumsum(weight[end])))
            cuts = np.flatnonzero(np.diff(begin, prepend=-1))
            ways[begin[cuts]] = sums[np.append(cuts[1:], len(begin))] - sums[cuts]
    return ways
