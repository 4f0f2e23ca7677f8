"""Walks along edges in the process: from a small start by asking for its edges, else over the whole adjacency."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compiler.ir import Direction
from omnigraph.query.adjacency import Adjacency, AdjacencyCache, Codes, Neighbours, adjacency_of, codes_of
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.query.leaves import Ids
from omnigraph.query.reach import reached
from omnigraph.query.source import GraphReader
from omnigraph.query.steps import Walk
from omnigraph.storage.predicates import among

SMALL_FRONTIER = 256
"""Up to how many nodes have their edges read by a filter; beyond, all edges are read once and kept."""

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
        for begin, end in reached(self.neighbours, self.starts, *bounds, cancellation=self.cancellation):
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
        prepared = self.prepared(walk, start, end)
        blocks = []
        for block in prepared.pairs():
            self.cancellation.hold(sum(each.nbytes for each in block))
            blocks.append(block)
        begins = _ids(prepared.start_ids, [begin for begin, _ in blocks])
        ends = _ids(prepared.end_ids, [end for _, end in blocks])
        if len(prepared.lonely):
            begins, ends = (pa.concat_arrays([each.cast(pa.string()), prepared.lonely]) for each in (begins, ends))
        return (begins, ends) if walk.start == walk.source.variable else (ends, begins)

    def prepared(self, walk: Walk, start: Ids | None, end: Ids | None) -> Prepared:
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
            edges = self._edges(walk, None)
            return adjacency_of(edges[SOURCE], edges[DESTINATION], is_one_type=_is_one_type(walk))

        return self.cache.get_or_build(walk.table_key, version, build, cancellation=self.cancellation)

    def _edges(self, walk: Walk, filter: str | None) -> pa.Table:
        """Edges that pass a filter are this query's own; an adjacency of all of them is kept for all queries."""

        def check(size: int) -> None:
            self.cancellation.hold(size if filter is not None else 0)

        return self.reader.scan(walk.table_key, columns=(SOURCE, DESTINATION), filter=filter, check=check)

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
            filter = among(begin, names)
            if direction is Direction.EITHER:
                filter = f"{filter} OR {among(end, names)}"
            edges = self._edges(walk, filter)
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
