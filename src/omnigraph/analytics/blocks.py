"""A graph whose edges do not fit into memory: its edges in blocks on scratch files, and vectors of values in blocks.

Nodes have the numbers that they have in memory: the order of types and ids. A block is a range of nodes with the edges
that end there, ordered by groups of blocks where they begin. A task works on one block: it holds a value for each node
of the block and of one group, and some million edges, whatever the size of the graph and of the block.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from ulid import ULID

from omnigraph.analytics.edges import Edges, Floats, Numbers, Positions, run_starts
from omnigraph.analytics.numbered import NumberedGraph, Selection, read_nodes, weights_of
from omnigraph.api.progress import Report
from omnigraph.catalog import EdgeType
from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import ensure
from omnigraph.parts.engine import Engine
from omnigraph.parts.scratch import Files, Piece, scratch_files
from omnigraph.storage.carrying import TableAt, place_of
from omnigraph.storage.tables import array_of, fragment_groups, numbers_in
from omnigraph.versioning import Snapshot

_MOST_BLOCKS = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much a task holds at a time; tests make it little."""

    nodes: int = 1 << 22
    """Nodes of a group of blocks."""

    edges: int = 1 << 22
    """Edges that are read or computed together, and of a block on the average."""


USUAL = Sizes()


@dataclass(frozen=True, slots=True)
class Layout:
    """How nodes are divided into blocks, and blocks into groups whose values are read together."""

    nodes: int
    block_nodes: int
    group_blocks: int

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.nodes // self.block_nodes)

    @property
    def group_nodes(self) -> int:
        """How many nodes a group has; the last one may have fewer."""
        return self.block_nodes * self.group_blocks

    def bounds(self, block: int) -> tuple[int, int]:
        """The first node of a block, and the one after its last."""
        return block * self.block_nodes, min((block + 1) * self.block_nodes, self.nodes)

    def groups(self) -> Iterator[tuple[int, range]]:
        """The number of each group, and its blocks."""
        for number, first in enumerate(range(0, self.blocks, self.group_blocks)):
            yield number, range(first, min(first + self.group_blocks, self.blocks))

    def cut(self, nodes: NDArray[np.integer]) -> Positions:
        """Where the nodes of each block begin and end among ascending nodes: one more number than blocks."""
        firsts = np.append(np.arange(self.blocks) * self.block_nodes, self.nodes)
        return np.searchsorted(nodes, firsts)


def plan_layout(nodes: int, edges: int, slots: int, sizes: Sizes) -> Layout:
    """Blocks for every slot, with few enough nodes and, where nodes have about as many edges, few enough edges."""
    wanted = max(slots, -(-nodes // sizes.nodes), -(-edges // sizes.edges))
    block_nodes = max(1, -(-nodes // min(wanted, _MOST_BLOCKS)))
    return Layout(nodes, block_nodes, max(1, sizes.nodes // block_nodes))


# --- what tasks are given, and what they return ---


@dataclass(frozen=True, slots=True)
class _Ids:
    """Ascending ids of one type in a scratch file, and the number of the first of them."""

    least: str
    first: int
    piece: Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What all tasks that read edges share."""

    layout: Layout
    sizes: Sizes
    scratch: Files
    ids: dict[str, tuple[_Ids, ...]]
    weight: str | None
    both_ways: bool
    measures: bool
    """Whether the weights of the edges that leave each node are added up."""


@dataclass(frozen=True, slots=True)
class _EdgePart:
    edge: EdgeType
    table: TableAt
    fragments: tuple[int, ...]


Pieces: TypeAlias = tuple[Piece | None, ...]
"""For each block what was spilled for it, or nothing."""

Columns: TypeAlias = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class _Divided:
    """The edges of a part by the block where they end, and the weights of their begins by block."""

    edges: list[Pieces]
    strengths: list[Pieces]
    count: int


@dataclass(frozen=True, slots=True)
class _BlockPart:
    number: int
    edges: tuple[Piece, ...]
    strengths: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Edges that begin in one group, ordered by their ends; and each end with the place of its first edge."""

    group: int
    edges: Piece
    ends: Piece


@dataclass(frozen=True, slots=True)
class Block:
    """The edges that end in a range of nodes, in chunks; and the weight of the edges that leave each of the nodes."""

    number: int
    chunks: tuple[_Chunk, ...]
    strengths: Piece | None


@dataclass(frozen=True, slots=True)
class Incoming:
    """Some of the edges that end in a block, by their ends, and the values of the nodes where they begin."""

    values: NDArray[Any]
    weights: Floats | None
    ends: Numbers
    """Nodes of the block, counted from its first, each once."""

    starts: Numbers
    """Where the edges of each of them begin."""


@dataclass(slots=True)
class BlockedGraph:
    """A graph in blocks. `names` has all nodes, and no edges."""

    names: NumberedGraph
    layout: Layout
    scratch: Files
    engine: Engine
    blocks: list[Block]
    edge_count: int
    _kept: set[str] = field(default_factory=set)

    def keep_vectors(self, vectors: Iterable[Piece]) -> None:
        """Removes the files of the vectors that were kept before, except those of `vectors`."""
        names = {self.scratch.file_of(piece) for piece in vectors}
        self.scratch.remove(self._kept - names)
        self._kept = names

    def read_vector(self, vectors: Sequence[Piece], name: str) -> NDArray[Any]:
        """The values of all nodes."""
        return np.concatenate([read_array(self.scratch, piece, name) for piece in vectors])


# --- scratch files as arrays ---


def read_array(scratch: Files, piece: Piece, name: str) -> NDArray[Any]:
    """A column of a piece; it cannot be written to."""
    column = scratch.get(piece)[name]
    return numbers_in(column)


def write_arrays(scratch: Files, **columns: NDArray[Any]) -> Piece:
    """Arrays of one length as a piece of a file of their own."""
    return scratch.put([_table(columns)])[0]


def spill_by_block(scratch: Files, cuts: Positions, columns: Columns) -> Pieces:
    """Rows that are ordered by block as one file, with a piece for each block that has some."""
    bounds = cuts.tolist()
    filled = [number for number in range(len(bounds) - 1) if bounds[number] < bounds[number + 1]]
    tables = [
        _table({name: values[bounds[number] : bounds[number + 1]] for name, values in columns.items()})
        for number in filled
    ]
    found: dict[int, Piece] = dict(zip(filled, scratch.put(tables), strict=True)) if filled else {}
    return tuple(found.get(number) for number in range(len(bounds) - 1))


def pieces_of(spilled: Iterable[Pieces], block: int) -> tuple[Piece, ...]:
    """What several tasks have spilled for one block."""
    return tuple(piece for pieces in spilled if (piece := pieces[block]) is not None)


def _table(columns: Columns) -> pa.Table:
    return pa.table({name: array_of(values) for name, values in columns.items()})


# --- from tables to blocks ---


@contextmanager
def blocked_graph(
    snapshot: Snapshot,
    selection: Selection,
    engine: Engine,
    report: Report,
    *,
    both_ways: bool,
    measures: bool,
    sizes: Sizes = USUAL,
) -> Iterator[BlockedGraph]:
    """The selected part of a graph in blocks, on scratch files that are there while the block of code runs.

    Raises:
        UsageError: There are too many nodes, or a weight is missing or below zero.
    """
    names = read_nodes(snapshot, selection, report)
    tables = {edge.name: snapshot.table(edge.table_key) for edge in selection.edges}
    count = sum(table.count() for table in tables.values())
    layout = plan_layout(names.edges.count, count << both_ways, engine.slots, sizes)
    with scratch_files(snapshot.location, str(ULID())) as scratch:
        job = _Job(
            layout=layout,
            sizes=sizes,
            scratch=scratch,
            ids=dict(_spill_ids(names, scratch, sizes)),
            weight=selection.weight,
            both_ways=both_ways,
            measures=measures,
        )
        rows = max(1, min(sizes.edges, -(-count // engine.slots)))
        divided: list[_Divided] = []
        for edge in selection.edges:
            table = tables[edge.name]
            groups = fragment_groups(table.fragment_sizes(), rows=rows)
            parts = [_EdgePart(edge, place_of(table), group) for group in groups]
            divided += engine.run(f"reading {edge.name}", partial(_divide_edges, job), parts, rows=_count)
        edges = [pieces for each in divided for pieces in each.edges]
        strengths = [pieces for each in divided for pieces in each.strengths]
        wanted = [
            _BlockPart(number, pieces_of(edges, number), pieces_of(strengths, number))
            for number in range(layout.blocks)
        ]
        blocks = engine.run("dividing edges", partial(_build_block, job), wanted)
        scratch.remove({scratch.file_of(piece) for pieces in (*edges, *strengths) for piece in pieces if piece})
        yield BlockedGraph(names, layout, scratch, engine, blocks, sum(each.count for each in divided))


def _count(divided: _Divided) -> int:
    return divided.count


def _spill_ids(names: NumberedGraph, scratch: Files, sizes: Sizes) -> Iterator[tuple[str, tuple[_Ids, ...]]]:
    """The ids of each type, where every task can read them."""
    for type, ids, start in zip(names.types, names.ids, names.starts.tolist(), strict=False):
        found = []
        for first in range(0, len(ids), sizes.nodes):
            some = ids.slice(first, sizes.nodes)
            [piece] = scratch.put([pa.table({"id": some})])
            found.append(_Ids(some[0].as_py(), start + first, piece))
        yield type, tuple(found)


def _divide_edges(job: _Job, part: _EdgePart) -> _Divided:
    """Reads edges, and spills them as numbers, by the block of the node where they end."""
    columns = [SOURCE, DESTINATION, *([job.weight] if job.weight else [])]
    batches = part.table.open().fragment_batches(part.fragments, columns)
    edges: list[Pieces] = []
    strengths: list[Pieces] = []
    count = 0
    for rows in _tables_of(batches, job.sizes.edges):
        begin, end = (
            _numbers_of(job, type, rows[column])
            for type, column in ((part.edge.source, SOURCE), (part.edge.destination, DESTINATION))
        )
        weights = weights_of(part.edge, job.weight, rows[job.weight]) if job.weight else None
        found = Edges(job.layout.nodes, begin, end, weights)
        found = found.both_ways() if job.both_ways else found
        blocks = (found.end // job.layout.block_nodes).astype(np.uint16)
        order = np.argsort(blocks, kind="stable")
        cuts = np.searchsorted(blocks[order], np.arange(job.layout.blocks + 1))
        values: Columns = {"begin": found.begin[order], "end": found.end[order]}
        if weights is not None:
            values["weight"] = found.weight()[order]
        edges.append(spill_by_block(job.scratch, cuts, values))
        if job.measures:
            nodes, sums = _sum_by_node(found)
            strengths.append(spill_by_block(job.scratch, job.layout.cut(nodes), {"node": nodes, "sum": sums}))
        count += rows.num_rows
    return _Divided(edges, strengths, count)


def _tables_of(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Batches together, up to some rows."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        for first in range(0, batch.num_rows, most):
            some = batch.slice(first, most)
            if held and count + some.num_rows > most:
                yield pa.Table.from_batches(held)
                held, count = [], 0
            held.append(some)
            count += some.num_rows
    if count:
        yield pa.Table.from_batches(held)


def _numbers_of(job: _Job, type: str, values: pa.ChunkedArray) -> Numbers:
    """The numbers of nodes by their ids. The ids of a type are looked through once, some million at a time."""
    numbers = np.full(len(values), -1, dtype=np.int32)
    pieces = job.ids[type]
    for index, ids in enumerate(pieces):
        chosen = None
        if len(pieces) > 1:
            inside = pc.greater_equal(values, ids.least)
            if index + 1 < len(pieces):
                inside = pc.and_(inside, pc.less(values, pieces[index + 1].least))
            chosen = np.flatnonzero(inside.to_numpy())
        wanted = values if chosen is None else values.take(array_of(chosen))
        if not len(wanted):
            continue
        known = job.scratch.get(ids.piece)["id"].combine_chunks()
        places = _places_of(wanted, known)
        found = np.where(places < 0, -1, places + ids.first)
        numbers[slice(None) if chosen is None else chosen] = found
    ensure(not (numbers < 0).any(), "an edge has both its ends in every snapshot")
    return numbers


def _places_of(wanted: pa.ChunkedArray, known: pa.Array) -> NDArray[np.integer]:
    """The place of each value among known ones, -1 for others; a hash table is made of the fewer of both."""
    if len(known) <= len(wanted):
        return np.asarray(pc.index_in(wanted, value_set=known).fill_null(-1))
    encoded = wanted.combine_chunks().dictionary_encode()
    found = np.asarray(pc.index_in(known, value_set=encoded.dictionary).fill_null(-1))
    places = np.full(len(encoded.dictionary), -1, dtype=np.int64)
    is_wanted = np.flatnonzero(found >= 0)
    places[found[is_wanted]] = is_wanted
    found_at: Positions = places[numbers_in(encoded.indices)]
    return found_at


def _sum_by_node(edges: Edges) -> tuple[Numbers, Floats]:
    """The nodes where edges begin, ascending, each with the weight of its edges."""
    if edges.count <= 4 * len(edges):
        sums = np.bincount(edges.begin, weights=edges.weights, minlength=edges.count)
        present = np.bincount(edges.begin, minlength=edges.count) if edges.weights is not None else sums
        nodes = np.flatnonzero(present).astype(np.int32)
        return nodes, sums[nodes].astype(np.float64)
    order = np.argsort(edges.begin, kind="stable")
    begin = edges.begin[order]
    starts = run_starts(begin)
    return begin[starts], np.add.reduceat(edges.weight()[order], starts)


def _build_block(job: _Job, part: _BlockPart) -> Block:
    """Puts the edges that end in a block into chunks, ordered by the group where they begin and by their end."""
    first, last = job.layout.bounds(part.number)
    strengths = None
    if job.measures:
        sums = np.zeros(last - first)
        for piece in part.strengths:
            nodes = read_array(job.scratch, piece, "node")
            sums[nodes - first] += read_array(job.scratch, piece, "sum")
        strengths = write_arrays(job.scratch, strength=sums)
    chunks: list[_Chunk] = []
    for rows in _tables_of(
        (batch for piece in part.edges for batch in job.scratch.get(piece).to_batches()), job.sizes.edges
    ):
        begin, end = numbers_in(rows["begin"]), numbers_in(rows["end"]) - np.int32(first)
        groups = begin // np.int32(job.layout.group_nodes)
        order = np.argsort(groups.astype(np.int64) << 32 | end, kind="stable")
        begin, end, groups = begin[order], end[order], groups[order]
        weights = numbers_in(rows["weight"])[order] if job.weight else None
        starts = run_starts(groups)
        tables: list[pa.Table] = []
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(groups)], strict=True):
            group = int(groups[start])
            places = run_starts(end[start:stop])
            edges: Columns = {"begin": begin[start:stop] - np.int32(group * job.layout.group_nodes)}
            if weights is not None:
                edges["weight"] = weights[start:stop]
            ends: Columns = {"end": end[start:stop][places], "start": places.astype(np.int32)}
            tables += [_table(edges), _table(ends)]
        pieces = job.scratch.put(tables)
        chunks += map(_Chunk, groups[starts].tolist(), pieces[::2], pieces[1::2])
    return Block(part.number, tuple(sorted(chunks, key=lambda chunk: chunk.group)), strengths)


# --- what an iteration does with a block ---


@dataclass(frozen=True, slots=True)
class Vectors:
    """A column of values for each block, as an iteration left them."""

    layout: Layout
    scratch: Files
    pieces: tuple[Piece, ...]
    name: str

    def of_block(self, number: int) -> NDArray[Any]:
        """The values of the nodes of a block."""
        return read_array(self.scratch, self.pieces[number], self.name)

    def of_groups(self, wanted: Callable[[int], bool]) -> Iterator[tuple[int, NDArray[Any]]]:
        """The values of the nodes of each wanted group, one group after the other."""
        for number, blocks in self.layout.groups():
            if wanted(number):
                yield number, np.concatenate([self.of_block(block) for block in blocks])


def incoming_edges(block: Block, group: int, values: NDArray[Any], scratch: Files) -> Iterator[Incoming]:
    """The edges that begin in a group and end in a block, some million at a time."""
    for chunk in block.chunks:
        if chunk.group == group:
            edges, ends = scratch.get(chunk.edges), scratch.get(chunk.ends)
            weights = numbers_in(edges["weight"]) if "weight" in edges.column_names else None
            yield Incoming(
                values[numbers_in(edges["begin"])], weights, numbers_in(ends["end"]), numbers_in(ends["start"])
            )


def groups_of(block: Block) -> set[int]:
    """The groups where the edges of a block begin."""
    return {group for group, _ in groupby(block.chunks, key=lambda chunk: chunk.group)}
