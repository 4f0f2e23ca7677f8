"""The edges of a search of paths in memory, and the paths that were found as values of a variable."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog import Scalar, arrow_type
from omnigraph.catalog.model import ID
from omnigraph.compiler import ir
from omnigraph.compiler.ir import Direction
from omnigraph.compiler.paths import EDGES, LENGTH, NODES, WEIGHT
from omnigraph.dataclass_later import dataclass
from omnigraph.query.path_tables import lists_of, ranks_of, steps_of, weights_of
from omnigraph.query.shortest import FoundPaths, Numbers
from omnigraph.query.walks import OPPOSITE
from omnigraph.resident.codes import Codes, encode
from omnigraph.resident.links import Links
from omnigraph.resident.numbers import distinct, stretches
from omnigraph.resident.tables import Ordinals, ResidentTable


@dataclass(frozen=True, slots=True)
class EdgesOfType:
    """The edges of a type: numbered from `first` on, between nodes that are numbered by their types."""

    type: str
    links: Links
    source: str
    destination: str
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidentGraph:
    """Edges between tables in memory. Nodes and edges are numbered by their types, and in these by their ordinals."""

    search: ir.PathSearch
    nodes: Mapping[str, ResidentTable]
    """The tables of the types of nodes, in the order in which they are numbered."""
    ranges: Mapping[str, range]
    """The numbers of the nodes of each type."""
    edges: Sequence[EdgesOfType]

    @classmethod
    def of(
        cls, search: ir.PathSearch, nodes: Mapping[str, ResidentTable], edges: Iterable[tuple[str, Links, str, str]]
    ) -> "ResidentGraph":
        """The graph of a search: its tables of nodes by type, and its edges with the types of their ends."""
        ranges, start = {}, 0
        for type, table in nodes.items():
            ranges[type] = range(start, start + table.count)
            start += table.count
        numbered, first = [], 0
        for type, links, source, destination in edges:
            numbered.append(EdgesOfType(type, links, source, destination, first))
            first += links.edges.count
        return cls(search=search, nodes=nodes, ranges=ranges, edges=numbered)

    @property
    def count(self) -> int:
        """Above all numbers of nodes."""
        return max((each.stop for each in self.ranges.values()), default=0)

    @property
    def edge_count(self) -> int:
        """About how many edges there are."""
        return sum(len(each.links.base.begins) for each in self.edges)

    @property
    def end_ranges(self) -> tuple[range, range]:
        """The numbers of the nodes at which a path may begin, and of those at which it may end."""
        begin, end = self.search.ends
        return self.ranges[begin], self.ranges[end]

    def _ways(self, *, reverse: bool) -> Iterator[tuple[EdgesOfType, Direction, str, str]]:
        """How edges are followed: those of which type, and from which type of nodes to which."""
        direction = OPPOSITE[self.search.direction] if reverse else self.search.direction
        for edges in self.edges:
            if direction is not Direction.BACKWARD and (
                direction is Direction.FORWARD or edges.source != edges.destination
            ):
                yield edges, Direction.FORWARD, edges.source, edges.destination
            if direction is not Direction.FORWARD and (
                direction is Direction.BACKWARD or edges.source != edges.destination
            ):
                yield edges, Direction.BACKWARD, edges.destination, edges.source
            if direction is Direction.EITHER and edges.source == edges.destination:
                yield edges, direction, edges.source, edges.destination

    def _of_type(self, nodes: Numbers, type: str) -> tuple[Numbers | None, Ordinals]:
        """The positions of the nodes of a type, or None for all, and their ordinals."""
        if len(self.ranges) == 1:
            return None, nodes
        among = self.ranges[type]
        at = np.flatnonzero((nodes >= among.start) & (nodes < among.stop))
        return at, nodes[at] - among.start

    def degrees(self, nodes: Numbers, *, reverse: bool = False) -> NDArray[np.int64]:
        """About how many edges some nodes have."""
        total = np.zeros(len(nodes), np.int64)
        for edges, direction, begin, _ in self._ways(reverse=reverse):
            at, ordinals = self._of_type(nodes, begin)
            total[slice(None) if at is None else at] += edges.links.degrees(ordinals, direction)
        return total

    def ends(self, nodes: Numbers, *, reverse: bool) -> Numbers:
        """The nodes that are one edge away from some nodes."""
        found = []
        for edges, direction, begin, end in self._ways(reverse=reverse):
            _, ordinals = self._of_type(nodes, begin)
            found.append(edges.links.ends(ordinals, direction) + self.ranges[end].start)
        return np.concatenate(found).astype(np.int64, copy=False) if found else np.empty(0, np.int64)

    def follow(self, nodes: Numbers, *, reverse: bool) -> tuple[Numbers, Numbers, Numbers]:
        """All edges of some nodes. A loop is the same edge both ways, and followed once."""
        parts = [(np.empty(0, np.int64),) * 3]
        for edges, direction, begin, end in self._ways(reverse=reverse):
            at, ordinals = self._of_type(nodes, begin)
            places, ends, followed = edges.links.follow(ordinals, direction)
            parts.append(
                (
                    places if at is None else at[places],
                    ends.astype(np.int64) + self.ranges[end].start,
                    followed.astype(np.int64) + edges.first,
                )
            )
        places, ends, followed = (np.concatenate(each) for each in zip(*parts, strict=True))
        return places, ends, followed

    def weights(self, name: str) -> NDArray[np.float64]:
        """A property of all edges, NaN where it is null and where an edge is gone."""
        found = []
        for edges in self.edges:
            table = edges.links.edges
            weights = np.full(table.count, np.nan)
            there = table.everything()
            weights[there] = weights_of(table.values(name, there), f"{edges.type}.{name}")
            found.append(weights)
        return np.concatenate(found)

    def edge_ranks(self, edges: Numbers) -> NDArray[np.int64]:
        """What sorts edges by their ids, and then by their types."""
        if len(edges) < 2:
            return np.zeros(len(edges), np.int64)
        kinds = np.searchsorted([each.first for each in self.edges], edges, side="right")
        return ranks_of(self.edge_ids(edges), kinds)

    def node_ranks(self, nodes: Numbers) -> NDArray[np.int64]:
        """What sorts nodes of one type by their ids."""
        known = distinct(nodes)
        if len(known) < 2:
            return np.zeros(len(nodes), np.int64)
        return ranks_of(self.node_ids(known), np.zeros(len(known), np.int64))[np.searchsorted(known, nodes)]

    def node_ids(self, nodes: Numbers) -> pa.Array:
        """The ids of nodes."""
        parts = [(table, self.ranges[type].start, self.ranges[type].stop) for type, table in self.nodes.items()]
        return _ids_of(parts, nodes)

    def edge_ids(self, edges: Numbers) -> pa.Array:
        """The ids of edges."""
        parts = [(each.links.edges, each.first, each.first + each.links.edges.count) for each in self.edges]
        return _ids_of(parts, edges)


def _ids_of(parts: Sequence[tuple[ResidentTable, int, int]], numbers: Numbers) -> pa.Array:
    """The ids of entities that are numbered through some tables."""
    if len(parts) == 1:
        return parts[0][0].values(ID, numbers)
    found, places = [pa.array([], pa.string())], np.empty(len(numbers), np.int64)
    count = 0
    for table, start, stop in parts:
        at = np.flatnonzero((numbers >= start) & (numbers < stop))
        found.append(table.values(ID, numbers[at] - start))
        places[at] = np.arange(count, count + len(at))
        count += len(at)
    return pa.concat_arrays(found).take(pa.array(places))


@dataclass(frozen=True, slots=True)
class PathValues:
    """The paths of a search as what a variable is bound to: the ordinal of a path is its number."""

    graph: ResidentGraph
    found: FoundPaths

    def and_others(self, others: FoundPaths) -> "PathValues":
        """These paths, and others of the same search after them."""
        mine = self.found
        weights = None
        if mine.weights is not None and others.weights is not None:
            weights = np.concatenate((mine.weights, others.weights))
        joined = FoundPaths(
            sources=np.concatenate((mine.sources, others.sources)),
            destinations=np.concatenate((mine.destinations, others.destinations)),
            lengths=np.concatenate((mine.lengths, others.lengths)),
            weights=weights,
            nodes=np.concatenate((mine.nodes, others.nodes)),
            edges=np.concatenate((mine.edges, others.edges)),
        )
        return replace(self, found=joined)

    def steps(self, paths: Ordinals) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Each edge of some paths: the position of the path, the nodes before and after the edge, and the edge."""
        found = self.found
        lengths = found.lengths[paths]
        some = replace(
            found,
            sources=found.sources[paths],
            destinations=found.destinations[paths],
            lengths=lengths,
            weights=None,
            nodes=found.nodes[stretches(found.node_offsets[paths], lengths + 1)],
            edges=found.edges[stretches(found.edge_offsets[paths], lengths)],
        )
        return steps_of(some)

    # --- as `ValueTable` ---

    @property
    def count(self) -> int:
        """The number of paths."""
        return self.found.count

    def rows(self, ordinals: Ordinals) -> Ordinals:
        """The same numbers."""
        return ordinals

    def values(self, name: str, ordinals: Ordinals) -> pa.Array:
        """A value of some paths, in their order."""
        found = self.found
        if name == LENGTH:
            return pa.array(found.lengths[ordinals], arrow_type(Scalar.I64))
        if name == WEIGHT:
            assert found.weights is not None
            return pa.array(found.weights[ordinals])
        lengths = found.lengths[ordinals] + (name == NODES)
        offsets = np.concatenate(([0], np.cumsum(lengths)))
        if name == NODES:
            ids = self.graph.node_ids(found.nodes[stretches(found.node_offsets[ordinals], lengths)])
        else:
            assert name == EDGES
            ids = self.graph.edge_ids(found.edges[stretches(found.edge_offsets[ordinals], lengths)])
        return lists_of(offsets, ids)

    def values_at(self, name: str, rows: Ordinals) -> pa.Array:
        """The same."""
        return self.values(name, rows)

    def few_values(self, name: str, rows: Sequence[int]) -> pa.Array:
        """A value of a few paths."""
        return self.values(name, np.array(rows, np.int64))

    def codes(self, name: str, ordinals: Ordinals | None = None) -> Codes:
        """A value of some paths, or of all, as numbers of the distinct ones."""
        return encode(self.values(name, np.arange(self.count) if ordinals is None else ordinals))

    def has_at_once(self, names: Iterable[str]) -> bool:
        """The ids of nodes and edges may have to be read."""
        return not {NODES, EDGES} & {*names}

    def bytes_at(self, name: str, rows: Ordinals) -> int:
        """How many bytes a value of some paths takes, on average."""
        return self.expected_bytes(name, len(rows))

    def expected_bytes(self, name: str, count: int) -> int:
        """How many bytes a value of some paths takes, on average: ids as numbers."""
        size = {NODES: self.found.nodes, EDGES: self.found.edges}.get(name, self.found.lengths).nbytes
        return count * int(size) // max(self.count, 1)


_NOTHING = np.empty(0, np.int64)
NO_PATHS = PathValues(
    ResidentGraph(
        search=ir.PathSearch(
            variable="",
            source="",
            destination="",
            edges=(),
            ends=("", ""),
            direction=Direction.FORWARD,
            minimum=0,
            maximum=0,
        ),
        nodes={},
        ranges={},
        edges=(),
    ),
    FoundPaths(
        sources=_NOTHING,
        destinations=_NOTHING,
        lengths=_NOTHING,
        weights=np.empty(0),
        nodes=_NOTHING,
        edges=_NOTHING,
    ),
)
"""What a variable has before anything was searched, because there were no rows to search for."""


def join_paths(
    found: FoundPaths, sources: Numbers | None, destinations: Numbers | None, count: int
) -> tuple[Ordinals, Ordinals]:
    """Which paths continue which rows, of which one end is known or both: the position of the row, and the path.

    `count` is above all numbers of nodes.
    """
    if destinations is None:
        keys, wanted = found.sources, sources
    elif sources is None:
        keys, wanted = found.destinations, destinations
    else:
        keys, wanted = found.sources * count + found.destinations, sources * count + destinations
    assert wanted is not None
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    firsts = np.searchsorted(ordered, wanted, "left")
    degrees = np.searchsorted(ordered, wanted, "right") - firsts
    return np.repeat(np.arange(len(wanted)), degrees), order[stretches(firsts, degrees)]
