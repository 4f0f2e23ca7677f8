"""The edges of a search of paths, read from tables, and what it finds as rows of relations."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compiler.ir import Direction, PathSearch
from omnigraph.compiler.paths import EDGES, LENGTH, NODES, WEIGHT
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import NegativeWeight
from omnigraph.query.adjacency import Codes, codes_of, encode_ids
from omnigraph.query.cancelling import Cancellation
from omnigraph.query.leaves import Ids
from omnigraph.query.shortest import Ends, FoundPaths, Numbers, find_paths
from omnigraph.query.steps import (
    DESTINATION_END,
    EDGE,
    PATH,
    SOURCE_END,
    GraphReader,
    PathEdges,
    PathWalk,
)
from omnigraph.resident.ids import flat
from omnigraph.resident.links import Csr, sort_edges
from omnigraph.resident.numbers import numbers_of, spread, stretches

_WAYS: Mapping[tuple[Direction, bool], tuple[bool, ...]] = {
    (Direction.FORWARD, False): (False,),
    (Direction.FORWARD, True): (True,),
    (Direction.BACKWARD, False): (True,),
    (Direction.BACKWARD, True): (False,),
    (Direction.EITHER, False): (False, True),
    (Direction.EITHER, True): (False, True),
}
"""For a direction, and whether it is followed in reverse: from which ends edges are followed, backward or not."""


@dataclass(slots=True, kw_only=True)
class TableGraph:
    """The edges of tables, whose nodes are numbered by type and by id. It belongs to one search."""

    search: PathSearch
    ranges: Mapping[str, range]
    """The numbers of the nodes of each type."""
    ids: Mapping[str, pa.Array]
    """The ids of the nodes of each type, ascending."""
    begins: Codes
    finishes: Codes
    tables: Sequence[tuple[str, pa.Table]]
    """The name and the rows of each table; edges are numbered through all of them."""
    _sorted: dict[bool, Csr] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Above all numbers of nodes."""
        return max((each.stop for each in self.ranges.values()), default=0)

    @property
    def edge_count(self) -> int:
        """The number of edges."""
        return len(self.begins)

    @property
    def end_ranges(self) -> tuple[range, range]:
        """The numbers of the nodes at which a path may begin, and of those at which it may end."""
        begin, end = self.search.ends
        return self.ranges[begin], self.ranges[end]

    def _csr(self, *, backward: bool) -> Csr:
        found = self._sorted.get(backward)
        if found is None:
            begins, ends = (self.finishes, self.begins) if backward else (self.begins, self.finishes)
            found = self._sorted[backward] = sort_edges(begins, ends, np.arange(len(begins)), self.count)
        return found

    def degrees(self, nodes: Numbers, *, reverse: bool = False) -> Codes:
        """How many edges some nodes have."""
        ways = _WAYS[self.search.direction, reverse]
        total: Codes = np.zeros(len(nodes), np.int64)
        for way in ways:
            total += self._csr(backward=way).stretches(nodes)[1]
        return total

    def ends(self, nodes: Numbers, *, reverse: bool) -> Numbers:
        """The nodes that are one edge away from some nodes."""
        found = []
        for way in _WAYS[self.search.direction, reverse]:
            csr = self._csr(backward=way)
            found.append(csr.ends[stretches(*csr.stretches(nodes))])
        return np.concatenate(found)

    def follow(self, nodes: Numbers, *, reverse: bool) -> tuple[Numbers, Numbers, Numbers]:
        """All edges of some nodes. A loop is the same edge both ways, and followed once."""
        parts = []
        for number, way in enumerate(_WAYS[self.search.direction, reverse]):
            csr = self._csr(backward=way)
            places, ends, edges = spread(*csr.stretches(nodes), csr.ends, csr.edges)
            if number:
                keep = ends != nodes[places]
                places, ends, edges = places[keep], ends[keep], edges[keep]
            parts.append((places, ends, edges))
        places, ends, edges = (np.concatenate(each) for each in zip(*parts, strict=True))
        return places, ends, edges

    def weights(self, name: str) -> NDArray[np.float64]:
        """A property of all edges, NaN where it is null."""
        return np.concatenate([weights_of(rows[name], f"{table}.{name}") for table, rows in self.tables])

    def edge_ranks(self, edges: Numbers) -> Codes:
        """What sorts edges by their ids, and then by their types."""
        tables = np.searchsorted(self._table_stops(), edges, side="right")
        return ranks_of(self.edge_ids(edges), tables)

    def node_ranks(self, nodes: Numbers) -> Codes:
        """What sorts nodes of one type by their ids: their numbers."""
        return np.asarray(nodes)

    def node_ids(self, nodes: Numbers) -> pa.Array:
        """The ids of nodes."""
        return pa.concat_arrays(list(self.ids.values())).take(pa.array(nodes))

    def edge_ids(self, edges: Numbers) -> pa.Array:
        """The ids of edges."""
        chunks = [chunk for _, rows in self.tables for chunk in rows[ID].chunks]
        return flat(pa.chunked_array(chunks, pa.string()).take(pa.array(edges)))

    def _table_stops(self) -> Codes:
        return np.cumsum([rows.num_rows for _, rows in self.tables])


def weights_of(values: pa.Array | pa.ChunkedArray, property: str) -> NDArray[np.float64]:
    """Numbers of edges as weights, NaN for null; raises `NegativeWeight` for a number below zero."""
    least = pc.min(values).as_py()
    if least is not None and least < 0:
        raise NegativeWeight(property, least)
    floats = flat(values.cast(pa.float64(), safe=False))
    found: NDArray[np.float64] = numbers_of(floats.fill_null(float("nan")) if floats.null_count else floats)
    return found


def ranks_of(ids: pa.Array, kinds: Numbers) -> Codes:
    """What sorts ids, and equal ones by their kinds."""
    order = numbers_of(
        pc.sort_indices(pa.table([ids, pa.array(kinds)], ["id", "kind"]), [("id", "ascending"), ("kind", "ascending")])
    )
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _read_graph(
    reader: GraphReader, step: PathWalk, given: Mapping[str, Sequence[pa.Array]], cancellation: Cancellation
) -> TableGraph:
    """The edges of a search; `given` are ids of nodes that take part without edges too."""
    search = step.search
    columns = (SOURCE, DESTINATION, *((ID,) if step.is_traced else ()), *((search.weight,) if search.weight else ()))
    tables = [(table, reader.scan(table.table_key, columns=columns, check=cancellation.hold)) for table in step.tables]
    texts: dict[str, list[pa.ChunkedArray]] = {type: [] for type in step.node_types}
    for table, rows in tables:
        texts[table.source].append(rows[SOURCE])
        texts[table.destination].append(rows[DESTINATION])
    ids: dict[str, pa.Array] = {}
    ranges: dict[str, range] = {}
    codes: dict[str, Codes] = {}
    start = 0
    for type, columns_of_type in texts.items():
        chunks = [chunk for each in columns_of_type for chunk in each.chunks]
        chunks += [each.cast(pa.string()) for each in given.get(type, ())]
        ids[type], codes[type] = encode_ids(pa.chunked_array(chunks, type=pa.string()))
        codes[type] += start
        ranges[type] = range(start, start + len(ids[type]))
        start += len(ids[type])
    cancellation.check()
    used = dict.fromkeys(texts, 0)
    begins, finishes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for table, rows in tables:
        for type, found in ((table.source, begins), (table.destination, finishes)):
            found.append(codes[type][used[type] : used[type] + rows.num_rows])
            used[type] += rows.num_rows
    return TableGraph(
        search=search,
        ranges=ranges,
        ids=ids,
        begins=np.concatenate(begins),
        finishes=np.concatenate(finishes),
        tables=[(table.type, rows) for table, rows in tables],
    )


@dataclass(frozen=True, slots=True)
class TablePaths:
    """The paths that a search found in tables."""

    graph: TableGraph
    found: FoundPaths

    def rows(self, step: PathWalk) -> pa.Table:
        """The rows of the relation of the paths."""
        found, graph = self.found, self.graph
        columns: dict[str, Any] = {
            SOURCE_END: lambda: graph.node_ids(found.sources),
            DESTINATION_END: lambda: graph.node_ids(found.destinations),
            ID: lambda: pa.array(np.arange(found.count)),
            LENGTH: lambda: pa.array(found.lengths),
            WEIGHT: lambda: pa.array(found.weights),
            NODES: lambda: lists_of(found.node_offsets, graph.node_ids(found.nodes)),
            EDGES: lambda: lists_of(found.edge_offsets, graph.edge_ids(found.edges)),
        }
        return pa.table([columns[name]() for name in step.relation.fields], schema=step.relation.schema)

    def edge_rows(self, step: PathEdges) -> pa.Table:
        """The rows of the relation of the edges of the paths, from the first to the last of each."""
        found, graph = self.found, self.graph
        places, befores, afters, edges = steps_of(found)
        begins, ends = (graph.ranges[each.type] for each in (step.source, step.destination))
        fits = (befores >= begins.start) & (befores < begins.stop) & (afters >= ends.start) & (afters < ends.stop)
        places, befores, afters, edges = places[fits], befores[fits], afters[fits], edges[fits]
        columns: dict[str, Any] = {
            PATH: lambda: pa.array(places),
            SOURCE_END: lambda: graph.node_ids(befores),
            DESTINATION_END: lambda: graph.node_ids(afters),
            EDGE: lambda: graph.edge_ids(edges),
        }
        return pa.table([columns[name]() for name in step.relation.fields], schema=step.relation.schema)


def steps_of(found: FoundPaths) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Each edge of each path: the position of the path, the nodes before and after the edge, and the edge."""
    places = np.repeat(np.arange(found.count), found.lengths)
    at = np.arange(len(places)) + places
    return places, found.nodes[at], found.nodes[at + 1], found.edges


def lists_of(offsets: Codes, values: pa.Array) -> pa.Array:
    """Lists of values that follow each other."""
    if offsets[-1] >= 2**31:
        return pa.LargeListArray.from_arrays(pa.array(offsets), values).cast(pa.list_(values.type))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)


def search_tables(
    reader: GraphReader, step: PathWalk, sources: Ids | None, destinations: Ids | None, cancellation: Cancellation
) -> TablePaths:
    """The paths of a step, between ids that are known, or between all nodes."""
    given: list[pa.Array | None] = []
    for ids in (sources, destinations):
        is_explicit = ids is not None and (ids.narrowing or step.search.minimum == 0)
        given.append(flat(pc.unique(ids.values())) if ids is not None and is_explicit else None)
    extra: dict[str, list[pa.Array]] = {}
    if step.search.minimum == 0:
        for ids, end in zip(given, (step.source, step.destination), strict=True):
            if ids is not None:
                extra.setdefault(end.type, []).append(ids)
    graph = _read_graph(reader, step, extra, cancellation)
    numbers: list[Numbers | None] = []
    for ids, end in zip(given, (step.source, step.destination), strict=True):
        numbers.append(None if ids is None else codes_of(ids, graph.ids[end.type]) + graph.ranges[end.type].start)
    ends = Ends(sources=numbers[0], destinations=numbers[1])
    found = find_paths(graph, step.search, ends, is_traced=step.is_traced, cancellation=cancellation)
    return TablePaths(graph, found)
