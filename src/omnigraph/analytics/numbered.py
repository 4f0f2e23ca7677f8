"""Reads the selected nodes and edges of a graph, with numbers in place of ids.

Ids become numbers a few million edges at a time, over whole columns. Memory then holds the id of every node, the ids
of those few million edges, and 8 bytes for each edge that was read, or 16 with a weight.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.analytics.edges import Edges, Floats, Numbers, Positions
from omnigraph.api.progress import Progress, Report, no_report
from omnigraph.catalog import Catalog, EdgeType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.catalog.types import NUMBERS
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import did_you_mean, quoted
from omnigraph.errors import NotFound, UsageError, ensure
from omnigraph.resident.numbers import distinct
from omnigraph.storage.tables import ROW_ADDRESS, Table
from omnigraph.storage.topology import number_ends, read_late_ends, uses_topology
from omnigraph.versioning import Snapshot

_EDGES_AT_ONCE = 4_000_000
_MOST_NODES = _MOST_TEXT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Selection:
    """The node types and edge types of an analysis, and the edge property that holds the weight."""

    nodes: tuple[str, ...]
    edges: tuple[EdgeType, ...]
    weight: str | None = None


def select_types(
    catalog: Catalog, *, nodes: Sequence[str] | None, edges: Sequence[str] | None, weight: str | None
) -> Selection:
    """The types to analyse, with defaults for those that were not given.

    Without edge types, all that run between the node types; without node types, all that the edges begin or end at.
    """
    node_types = None if nodes is None else {_node_type(catalog, name) for name in nodes}
    if edges is None:
        edge_types = [
            edge
            for edge in catalog.edges.values()
            if node_types is None or {edge.source, edge.destination} <= node_types
        ]
    else:
        edge_types = list({edge.name: edge for edge in (_edge_type(catalog, name) for name in edges)}.values())
    ends = {end for edge in edge_types for end in (edge.source, edge.destination)}
    for edge in edge_types:
        outside = {edge.source, edge.destination} - (ends if node_types is None else node_types)
        if outside:
            raise UsageError(
                f"edge {quoted(edge.name)} leads to {quoted(min(outside))}, which is not among the selected node types"
            )
        _check_weight(edge, weight)
    every = node_types or ends or set(catalog.nodes)
    return Selection(tuple(sorted(every)), tuple(edge_types), weight)


def _node_type(catalog: Catalog, name: str) -> str:
    if name not in catalog.nodes:
        raise NotFound("node type", name, did_you_mean(name, catalog.nodes))
    return name


def _edge_type(catalog: Catalog, name: str) -> EdgeType:
    edge = catalog.edge(name)
    if edge is None:
        raise NotFound("edge type", name, did_you_mean(name, catalog.edges))
    return edge


def _check_weight(edge: EdgeType, weight: str | None) -> None:
    if weight is None:
        return
    declared = edge.properties.get(weight)
    if declared is None:
        raise UsageError(f"edge {quoted(edge.name)} has no property {quoted(weight)} to use as weight")
    if declared.type not in NUMBERS:
        raise UsageError(f"a weight must be a number: {quoted(f'{edge.name}.{weight}')} is {declared.type}")


@dataclass(frozen=True, slots=True)
class NumberedGraph:
    """Nodes in the order of their types and ids, numbered from 0 on; and the edges between the numbers."""

    types: tuple[str, ...]
    ids: tuple[pa.Array, ...]
    """The ids of each type, ascending."""

    edges: Edges

    @property
    def starts(self) -> Positions:
        """The number of the first node of each type, and the number of all nodes."""
        return np.cumsum([0, *map(len, self.ids)])

    def columns(self, numbers: NDArray[Any] | None = None) -> dict[str, pa.ChunkedArray]:
        """The type and id of nodes, by default of all."""
        sizes = np.array([len(ids) for ids in self.ids], dtype=np.int64)
        kinds = pa.array(np.repeat(np.arange(len(self.types), dtype=np.int32), sizes))
        types = pa.DictionaryArray.from_arrays(kinds, pa.array(self.types, pa.string())).cast(pa.string())
        every = {"type": pa.chunked_array([types]), ID: pa.chunked_array([*self.ids], pa.string())}
        if numbers is None:
            return every
        return {name: column.take(pa.array(numbers)) for name, column in every.items()}

    def names(self, numbers: NDArray[Any], valid: NDArray[np.bool_] | None = None) -> pa.Array:
        """The ids of nodes, or ``Type:id`` where there are several node types; null where not valid."""
        positions = pa.array(numbers, mask=None if valid is None else ~valid)
        if len(self.types) == 1:
            return self.ids[0].take(positions)
        used = distinct(numbers if valid is None else numbers[valid])
        parts = self.columns(used)
        spelled = pc.binary_join_element_wise(parts["type"], parts[ID], ":")
        return spelled.take(pa.array(np.searchsorted(used, numbers), mask=None if valid is None else ~valid))

    def number_of(self, name: str) -> int:
        """The number of a node that is named by its id, or as ``Type:id``."""
        kind, colon, rest = name.partition(":")
        found: set[int] = set()
        for type, ids, start in zip(self.types, self.ids, self.starts, strict=False):
            for spelling in {name, rest} if colon and kind == type else {name}:
                place = pc.index(ids, pa.scalar(spelling, pa.string())).as_py()
                if place >= 0:
                    found.add(int(start) + place)
        if not found:
            raise NotFound("node", name)
        if len(found) > 1:
            raise UsageError(f"{quoted(name)} is the id of several nodes: write {quoted('Type:id')}")
        return found.pop()


def read_nodes(snapshot: Snapshot, selection: Selection, report: Report = no_report) -> NumberedGraph:
    """Reads the nodes of the selected part of a graph; the edges are left out."""
    ids = []
    for name in selection.nodes:
        report(Progress(f"reading {name}", 0, 1))
        ids.append(_sort_ids(name, snapshot.scan(snapshot.catalog.nodes[name].table_key, columns=[ID])[ID]))
        report(Progress(f"reading {name}", 1, 1, len(ids[-1])))
    count = sum(map(len, ids))
    if count > _MOST_NODES:
        raise UsageError(f"too many nodes: an analysis reads at most {_MOST_NODES:,}")
    no_numbers: Numbers = np.zeros(0, dtype=np.int32)
    return NumberedGraph(selection.nodes, tuple(ids), Edges(count, no_numbers, no_numbers))


def read_numbered(snapshot: Snapshot, selection: Selection, report: Report = no_report) -> NumberedGraph:
    """Reads the selected part of a graph."""
    nodes = read_nodes(snapshot, selection, report)
    starts = dict(zip(nodes.types, nodes.starts.tolist(), strict=False))
    by_type = dict(zip(nodes.types, nodes.ids, strict=True))
    parts = [
        part
        for edge in selection.edges
        for part in _read_edges(snapshot, edge, selection.weight, ends=_Ends(by_type, starts, edge), report=report)
    ]
    begin = np.concatenate([nodes.edges.begin, *(part[0] for part in parts)])
    end = np.concatenate([nodes.edges.end, *(part[1] for part in parts)])
    weights = None if selection.weight is None else np.concatenate([np.zeros(0), *(part[2] for part in parts)])
    return replace(nodes, edges=Edges(nodes.edges.count, begin, end, weights))


def _sort_ids(type: str, ids: pa.ChunkedArray) -> pa.Array:
    if ids.nbytes > _MOST_TEXT:
        raise UsageError(f"the ids of {quoted(type)} take more than 2 GiB, the most that an analysis can read")
    flat = ids.combine_chunks()
    return flat.take(pc.sort_indices(flat))


@dataclass(frozen=True, slots=True)
class _Ends:
    """The ids at both ends of an edge type, and the number of the first node of each node type."""

    ids: dict[str, pa.Array]
    starts: dict[str, int]
    edge: EdgeType

    def numbers(self, column: str, values: pa.ChunkedArray) -> Numbers:
        """The numbers of nodes that edges begin or end at."""
        node = self.edge.source if column == SOURCE else self.edge.destination
        places = pc.index_in(values, value_set=self.ids[node])
        ensure(not places.null_count, "an edge has both its ends in every snapshot")
        numbers: Numbers = places.to_numpy().astype(np.int32)
        numbers += self.starts[node]
        return numbers

    def numbers_of_ids(self, column: str, ids: pa.Array) -> Numbers:
        """The numbers of nodes by their ids, -1 for ids that no node at this end has; behind them is one more -1."""
        node = self.edge.source if column == SOURCE else self.edge.destination
        places = np.asarray(pc.index_in(ids, value_set=self.ids[node]).fill_null(-1)).astype(np.int32)
        return np.append(np.where(places < 0, places, places + self.starts[node]), -1).astype(np.int32)


def _read_edges(
    snapshot: Snapshot, edge: EdgeType, weight: str | None, *, ends: _Ends, report: Report
) -> Iterator[tuple[Numbers, Numbers, Floats]]:
    """The edges of one type, a few million at a time."""
    table = snapshot.table(edge.table_key)
    stage, total, done = f"reading {edge.name}", table.count(), 0
    report(Progress(stage, 0, total, 0))
    found = _edges_from_topology(table, edge, weight, ends)
    if found is not None:
        report(Progress(stage, total, total, total))
        yield found
        return
    # Most of the time goes into looking up ids, which Arrow does outside the interpreter lock.
    with ThreadPoolExecutor(2, "omnigraph-ends") as pool:
        for block in _blocks(table.batches([SOURCE, DESTINATION, *([weight] if weight else [])])):
            weights = weights_of(edge, weight, block[weight]) if weight else np.zeros(0)
            begin, end = pool.map(ends.numbers, (SOURCE, DESTINATION), (block[SOURCE], block[DESTINATION]))
            yield begin, end, weights
            done += block.num_rows
            report(Progress(stage, done, total, done))


def _edges_from_topology(
    table: Table, edge: EdgeType, weight: str | None, ends: _Ends
) -> tuple[Numbers, Numbers, Floats] | None:
    """All edges of one type, in the order of the table, through its index of topology; None without one."""
    if not uses_topology(table):
        return None
    if weight is None:
        addresses, weights = table.row_addresses(), np.zeros(0)
    else:
        read = table.scan([weight, ROW_ADDRESS])
        addresses, weights = np.asarray(read[ROW_ADDRESS]), weights_of(edge, weight, read[weight])
    numbered = number_ends(table, addresses)
    if numbered is None:
        return None
    late = read_late_ends(table, addresses, numbered)
    sides = []
    for column, numbers in ((SOURCE, numbered.begins), (DESTINATION, numbered.ends)):
        side = ends.numbers_of_ids(column, numbered.ids)[numbers]
        if len(late.rows):
            side[late.rows] = ends.numbers(column, late.ends[column])
        ensure(not (side < 0).any(), "an edge has both its ends in every snapshot")
        sides.append(side)
    return sides[0], sides[1], weights


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _EDGES_AT_ONCE:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def weights_of(edge: EdgeType, weight: str, values: pa.ChunkedArray) -> Floats:
    """The weights of edges; raises `UsageError` when one is missing or below zero."""
    what = quoted(f"{edge.name}.{weight}")
    if values.null_count:
        raise UsageError(f"{what} has no value in {values.null_count} edges: every edge needs a weight")
    weights = values.cast(pa.float64(), safe=False).to_numpy()
    wrong = weights[~(np.isfinite(weights) & (weights >= 0))]
    if len(wrong):
        raise UsageError(f"a weight must not be below zero: {what} is {wrong[0]} in some edge")
    return np.asarray(weights, dtype=np.float64)
