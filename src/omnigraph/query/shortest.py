"""Finds shortest paths over edges that are numbers: level by level from all origins, or from both ends of a pair.

First it is found how far nodes are, without looking at single edges. Then the edges are followed back from the ends of
the paths, to nodes that are one level nearer; so only edges of shortest paths are looked at. What remains are layers of
nodes with edges from each to the next, and paths are read off them.

Paths are ordered by their number of edges, and then by the ids of their edges from the first to the last. So all
executors, which number nodes and edges in different ways, find the same path where one of several is asked for.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.compiler import ir
from omnigraph.dataclass_later import dataclass
from omnigraph.query.adjacency import Codes
from omnigraph.query.cancelling import Cancellation
from omnigraph.query.walks import FLAGS, VisitedFlags, VisitedInOrder, blocks_of
from omnigraph.resident.numbers import distinct, stretches

Numbers: TypeAlias = NDArray[Any]
"""Numbers of nodes or edges."""

_FEW_PAIRS = 64
"""Up to this many pairs are searched one by one, each from both ends."""


class PathGraph(Protocol):
    """The edges that a path may have, as numbers. Nodes of several types are numbered together.

    `reverse` follows edges against the direction of the path.
    """

    @property
    def count(self) -> int:
        """Above all numbers of nodes."""
        ...

    @property
    def edge_count(self) -> int:
        """About how many edges there are."""
        ...

    @property
    def end_ranges(self) -> tuple[range, range]:
        """The numbers of the nodes at which a path may begin, and of those at which it may end."""
        ...

    def degrees(self, nodes: Numbers, *, reverse: bool = False) -> Codes:
        """About how many edges some nodes have."""
        ...

    def ends(self, nodes: Numbers, *, reverse: bool) -> Numbers:
        """The nodes that are one edge away from some nodes, in any order; one may be there several times."""
        ...

    def follow(self, nodes: Numbers, *, reverse: bool) -> tuple[Numbers, Numbers, Numbers]:
        """All edges of some nodes: the position of the node, the node at the other end, and the edge."""
        ...

    def weights(self, name: str) -> NDArray[np.float64]:
        """A property of edges by their numbers, NaN where it is null. Raises `NegativeWeight` for a negative one."""
        ...

    def edge_ranks(self, edges: Numbers) -> Codes:
        """What sorts edges by their ids, and edges of several types with the same id by their type."""
        ...

    def node_ranks(self, nodes: Numbers) -> Codes:
        """What sorts nodes of one type by their ids."""
        ...

    def node_ids(self, nodes: Numbers) -> pa.Array:
        """The ids of nodes."""
        ...

    def edge_ids(self, edges: Numbers) -> pa.Array:
        """The ids of edges."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Between which nodes paths are searched. None stands for all nodes at which a path may begin or end.

    With `are_pairs`, each source belongs to the destination at the same position, and no pair is there twice.
    Otherwise both are distinct, and every source is searched with every destination.
    """

    sources: Numbers | None
    destinations: Numbers | None
    are_pairs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRows:
    """Paths of the same number of edges: a row for each, with its nodes and edges from the first to the last.

    Of paths that were only measured, there are the first and the last node, and no edges.
    """

    nodes: Numbers
    edges: Numbers
    length: int
    ranks: Numbers
    """The ranks of the edges: what sorts paths with the same ends."""
    weights: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPaths:
    """Paths by the ids of their first and last nodes, then by their number of edges and by the ids of their edges.

    The nodes and edges of all paths follow each other; a path has one node more than edges.
    """

    sources: Numbers
    destinations: Numbers
    lengths: Codes
    weights: NDArray[np.float64] | None
    nodes: Numbers
    edges: Numbers

    @property
    def count(self) -> int:
        """The number of paths."""
        return len(self.lengths)

    @property
    def edge_offsets(self) -> Codes:
        """Where the edges of each path begin, and where those of the last end."""
        return np.concatenate(([0], np.cumsum(self.lengths)))

    @property
    def node_offsets(self) -> Codes:
        """Where the nodes of each path begin, and where those of the last end."""
        return np.concatenate(([0], np.cumsum(self.lengths + 1)))


def find_paths(
    graph: PathGraph, search: ir.PathSearch, ends: Ends, *, is_traced: bool, cancellation: Cancellation
) -> FoundPaths:
    """The shortest paths between some nodes; their nodes and edges only if `is_traced`."""
    if search.weight is not None:
        from omnigraph.query.weighted_paths import find_weighted  # noqa: PLC0415 - few searches weigh paths

        rows = find_weighted(graph, search, ends, is_traced=is_traced, cancellation=cancellation)
    else:
        rows = _find_unweighted(graph, search, ends, is_traced=is_traced, cancellation=cancellation)
    return _in_order(graph, rows, is_traced=is_traced, is_weighted=search.weight is not None)


def empty_paths(nodes: Numbers, *, is_weighted: bool = False) -> PathRows:
    """The paths of no edge from nodes to themselves."""
    nothing = np.empty((len(nodes), 0), np.int64)
    weights = np.zeros(len(nodes)) if is_weighted else None
    return PathRows(nodes=nodes.reshape(-1, 1), edges=nothing, length=0, ranks=nothing, weights=weights)


def nodes_both_ends(graph: PathGraph, ends: Ends) -> Numbers:
    """The nodes from which a path to themselves is asked for."""
    if ends.are_pairs:
        assert ends.sources is not None
        assert ends.destinations is not None
        return np.asarray(ends.sources[ends.sources == ends.destinations])
    both = [
        np.arange(among.start, among.stop) if given is None else given
        for given, among in zip((ends.sources, ends.destinations), graph.end_ranges, strict=True)
    ]
    return np.intersect1d(both[0], both[1], assume_unique=True)


# --- paths with the fewest edges ---


def _find_unweighted(
    graph: PathGraph, search: ir.PathSearch, ends: Ends, *, is_traced: bool, cancellation: Cancellation
) -> list[PathRows]:
    rows = [empty_paths(nodes_both_ends(graph, ends))] if search.minimum == 0 else []
    if search.maximum == 0:
        return rows
    if ends.are_pairs or all(given is not None and len(given) == 1 for given in (ends.sources, ends.destinations)):
        assert ends.sources is not None
        assert ends.destinations is not None
        if len(ends.sources) <= (_FEW_PAIRS if len(distinct(ends.sources)) == len(ends.sources) else 1):
            for source, destination in zip(ends.sources.tolist(), ends.destinations.tolist(), strict=True):
                if source != destination or search.minimum > 0:
                    pair = _Pair(graph, search, source, destination, cancellation)
                    rows += pair.rows(is_traced=is_traced)
            return rows
    begins, others, reverse = ends.sources, ends.destinations, False
    if begins is None and others is not None:
        reverse = True
    elif begins is not None and others is not None:
        reverse = len(distinct(others)) < len(distinct(begins))
    if reverse:
        begins, others = others, begins
    among = graph.end_ranges[reverse]
    origins = np.arange(among.start, among.stop) if begins is None else distinct(begins)
    for block in blocks_of(graph, origins, search.maximum):
        cancellation.check()
        wanted = _pairs_to_find(graph, block, begins if ends.are_pairs else None, others, graph.end_ranges[not reverse])
        levels = _Levels(graph, search, block, wanted, reverse, cancellation)
        rows += levels.rows(is_traced=is_traced)
    return rows


class Wanted(Protocol):
    """Which pairs of an origin and a node are asked for."""

    total: float
    """How many pairs there are at most."""

    def holds(self, keys: Numbers) -> NDArray[np.bool_]:
        """Whether pairs are asked for."""
        ...


class _WantedNodes:
    """The same nodes for each origin."""

    def __init__(self, count: int, nodes: Numbers | range, origins: int) -> None:
        self._count = count
        self._is_wanted = np.zeros(count, np.bool_)
        self._is_wanted[np.arange(nodes.start, nodes.stop) if isinstance(nodes, range) else nodes] = True
        self.total: float = float("inf") if isinstance(nodes, range) else len(nodes) * origins

    def holds(self, keys: Numbers) -> NDArray[np.bool_]:
        found: NDArray[np.bool_] = self._is_wanted[keys % self._count]
        return found


class _WantedPairs:
    """Certain pairs."""

    def __init__(self, keys: Numbers) -> None:
        self._keys = keys
        self.total: float = len(keys)

    def holds(self, keys: Numbers) -> NDArray[np.bool_]:
        return is_among(keys, self._keys)


def _pairs_to_find(
    graph: PathGraph, block: Codes, begins: Numbers | None, others: Numbers | None, among: range
) -> Wanted:
    """The pairs that are asked for of some origins; `begins` are those of pairs."""
    if begins is not None:
        assert others is not None
        of_block = is_among(begins, block)
        return _WantedPairs(np.sort(np.searchsorted(block, begins[of_block]) * graph.count + others[of_block]))
    return _WantedNodes(graph.count, among if others is None else others, len(block))


def is_among(keys: Numbers, ordered: Numbers) -> NDArray[np.bool_]:
    """Which keys are among others, which are ascending."""
    if not len(ordered):
        return np.zeros(len(keys), np.bool_)
    at = np.searchsorted(ordered, keys)
    at[at == len(ordered)] = 0
    found: NDArray[np.bool_] = ordered[at] == keys
    return found


@dataclass(slots=True)
class _Levels:
    """A search from several origins; a key is the position of an origin times the count of nodes, plus a node."""

    graph: PathGraph
    search: ir.PathSearch
    origins: Codes
    wanted: Wanted
    reverse: bool
    cancellation: Cancellation

    def rows(self, *, is_traced: bool) -> list[PathRows]:
        """The paths of at least one edge."""
        levels, found = self._spread_out()
        if is_traced or self.search.every:
            layers = trace_back(self.graph, levels, found, reverse=self.reverse, cancellation=self.cancellation)
            return layers.rows(self.graph, every=self.search.every, is_traced=is_traced, cancellation=self.cancellation)
        rows = []
        for length, keys in enumerate(found):
            if len(keys):
                nodes = np.stack((self.origins[keys // self.graph.count], keys % self.graph.count), axis=1)
                rows.append(measured_rows(nodes[:, ::-1] if self.reverse else nodes, length))
        return rows

    def _spread_out(self) -> tuple[list[Numbers], list[Numbers]]:
        """The nodes of each level, and those of them that are asked for."""
        graph, count, search = self.graph, self.graph.count, self.search
        size, is_one = len(self.origins) * count, len(self.origins) == 1
        visited: VisitedFlags | VisitedInOrder = VisitedFlags(size) if size <= FLAGS else VisitedInOrder(np.int64)
        level = np.arange(len(self.origins), dtype=np.int64) * count + self.origins
        levels, found = [level], [level[:0]]
        left = self.wanted.total
        if search.minimum == 0:
            left -= int(np.count_nonzero(self.wanted.holds(level)))
        while len(level) and left > 0 and (search.maximum is None or len(levels) <= search.maximum):
            if is_one:
                keys = graph.ends(level, reverse=self.reverse)
            else:
                at = level % count
                places, ends, _ = graph.follow(at, reverse=self.reverse)
                keys = (level - at)[places] + ends
            level = visited.fresh(keys)
            self.cancellation.hold(level.nbytes)
            hits = level[self.wanted.holds(level)]
            if search.minimum == 0:
                hits = hits[hits % count != self.origins[hits // count]]
            left -= len(hits)
            found.append(hits if len(levels) >= search.minimum else hits[:0])
            levels.append(level)
        return levels, found


def measured_rows(nodes: Numbers, length: int) -> PathRows:
    """Paths of which only the ends and the length are known."""
    nothing = np.empty((len(nodes), 0), np.int64)
    return PathRows(nodes=nodes, edges=nothing, length=length, ranks=nothing)


@dataclass(slots=True)
class _Pair:
    """A search between two nodes, from both of them: always on from the side that has fewer edges to follow."""

    graph: PathGraph
    search: ir.PathSearch
    source: int
    destination: int
    cancellation: Cancellation

    def rows(self, *, is_traced: bool) -> list[PathRows]:
        """The paths of at least one edge."""
        sides = [[np.array([self.source])], [np.array([self.destination])]]
        met = self._meet(sides)
        length = len(sides[0]) + len(sides[1]) - 2
        if met is None or length < self.search.minimum:
            return []
        if not is_traced and not self.search.every:
            return [measured_rows(np.array([[self.source, self.destination]]), length)]
        there, back = (
            trace_back(
                self.graph,
                levels,
                [*(levels[0][:0] for _ in levels[1:]), met],
                reverse=bool(side),
                cancellation=self.cancellation,
            )
            for side, levels in enumerate(sides)
        )
        turned = [(child, parent, edges) for parent, child, edges in reversed(back.steps)]
        whole = Layers(
            states=[*there.states, *reversed(back.states[:-1])],
            steps=[*there.steps, *turned],
            found=[*(met[:0] for _ in range(length)), np.array([self.destination])],
            count=self.graph.count,
            ends_first=False,
        )
        return whole.rows(self.graph, every=self.search.every, is_traced=is_traced, cancellation=self.cancellation)

    def _meet(self, sides: list[list[Numbers]]) -> Numbers | None:
        """Adds levels to both sides until they have a node in common: these nodes, or None if there is no path."""
        visited = VisitedFlags(self.graph.count), VisitedFlags(self.graph.count)
        maximum = self.search.maximum
        while maximum is None or len(sides[0]) + len(sides[1]) - 2 < maximum:
            efforts = [
                int(self.graph.degrees(levels[-1], reverse=bool(side)).sum()) for side, levels in enumerate(sides)
            ]
            side = int(efforts[1] < efforts[0])
            level = visited[side].fresh(self.graph.ends(sides[side][-1], reverse=bool(side)))
            self.cancellation.hold(level.nbytes)
            if not len(level):
                return None
            sides[side].append(level)
            met: Numbers = level[is_among(level, sides[1 - side][-1])]
            if len(met):
                return met
        return None


# --- layers of nodes, and the paths that they have ---


@dataclass(slots=True, kw_only=True)
class Layers:
    """States, which are keys of nodes, by their distance, ascending in each layer; all of them are on paths.

    `steps` has for each layer but the first its edges to the layer before: the positions of the states in the layer
    before and in this one, and the edges. `found` are the states at which paths end. With `ends_first`, the first layer
    is the end of the paths, and they begin at `found`.
    """

    states: list[Numbers]
    steps: list[tuple[Numbers, Numbers, Numbers]]
    found: list[Numbers]
    count: int
    ends_first: bool

    def rows(self, graph: PathGraph, *, every: bool, is_traced: bool, cancellation: Cancellation) -> list[PathRows]:
        """The paths: one for each state that was found, or `every` one. Which is first matters if `is_traced`."""
        if not self.steps:
            return []
        known = distinct(np.concatenate([edges for _, _, edges in self.steps]))
        ranks = graph.edge_ranks(known) if is_traced else known
        reader = _Reader(self, [ranks[np.searchsorted(known, edges)] for _, _, edges in self.steps], cancellation)
        choose = reader.all_paths if every else reader.first_paths
        return [choose(length) for length, found in enumerate(self.found) if length and len(found)]


@dataclass(slots=True)
class _Reader:
    """Reads paths off layers, from the layer where they were found back to the first one."""

    layers: Layers
    ranks: list[Numbers]
    """The ranks of the edges of each step."""
    cancellation: Cancellation
    _best: list[Numbers] | None = None

    def first_paths(self, length: int) -> PathRows:
        """The path that comes first for each state that was found at a distance."""
        if self._best is None:
            self._best = self._choose_edges()
        places = np.searchsorted(self.layers.states[length], self.layers.found[length])
        chosen: list[Numbers] = []
        for layer in range(length, 0, -1):
            at = self._best[layer - 1][places]
            chosen.append(at)
            places = self.layers.steps[layer - 1][0][at]
        return self._path_rows(chosen, length)

    def _choose_edges(self) -> list[Numbers]:
        """For each layer and state the position of the first edge of the path that comes first.

        Paths to one layer have the same number of edges. So their order follows from the order of their parts in the
        layer before, and from the edge in between: whichever comes first on the path decides.
        """
        order = np.zeros(len(self.layers.states[0]), np.int64)
        best = []
        for (parents, children, _), ranks in zip(self.layers.steps, self.ranks, strict=True):
            self.cancellation.check()
            keys = (order[parents], ranks) if self.layers.ends_first else (ranks, order[parents])
            sequence = np.lexsort((*keys, children))
            is_first = np.ones(len(sequence), np.bool_)
            is_first[1:] = children[sequence[1:]] != children[sequence[:-1]]
            at = sequence[is_first]
            best.append(at)
            order = np.empty(len(at), np.int64)
            order[np.lexsort(tuple(key[at] for key in keys))] = np.arange(len(at))
        return best

    def all_paths(self, length: int) -> PathRows:
        """Every path for the states that were found at a distance."""
        places = np.searchsorted(self.layers.states[length], self.layers.found[length])
        self.cancellation.hold(8 * (3 * length + 1) * self._number_of_paths(places, length))
        chosen: list[Numbers] = []
        for layer in range(length, 0, -1):
            parents, children, _ = self.layers.steps[layer - 1]
            by_child = np.argsort(children, kind="stable")
            firsts = np.searchsorted(children, places, "left", sorter=by_child)
            degrees = np.searchsorted(children, places, "right", sorter=by_child) - firsts
            rows = np.repeat(np.arange(len(places)), degrees)
            at = by_child[stretches(firsts, degrees)]
            chosen = [*(each[rows] for each in chosen), at]
            places = parents[at]
        return self._path_rows(chosen, length)

    def _number_of_paths(self, places: Numbers, length: int) -> int:
        counts: NDArray[Any] = np.ones(len(self.layers.states[0]))
        for (parents, children, _), states in zip(
            self.layers.steps[:length], self.layers.states[1 : length + 1], strict=True
        ):
            counts = np.bincount(children, weights=counts[parents], minlength=len(states))
        return int(min(counts[places].sum(), 2.0**60))

    def _path_rows(self, chosen: list[Numbers], length: int) -> PathRows:
        """The paths over edges that were chosen by their position, those of the layer of `length` first."""
        steps, states, count = self.layers.steps, self.layers.states, self.layers.count
        edges, ranks = [], []
        nodes = [states[length][steps[length - 1][1][chosen[0]]] % count]
        for layer, at in zip(range(length, 0, -1), chosen, strict=True):
            parents, _, of_step = steps[layer - 1]
            edges.append(of_step[at])
            ranks.append(self.ranks[layer - 1][at])
            nodes.append(states[layer - 1][parents[at]] % count)
        if not self.layers.ends_first:
            nodes, edges, ranks = nodes[::-1], edges[::-1], ranks[::-1]
        return PathRows(
            nodes=np.stack(nodes, axis=1),
            edges=np.stack(edges, axis=1),
            length=length,
            ranks=np.stack(ranks, axis=1),
        )


def trace_back(
    graph: PathGraph, levels: Sequence[Numbers], found: Sequence[Numbers], *, reverse: bool, cancellation: Cancellation
) -> Layers:
    """The layers of all shortest paths to the states that were found, out of the levels of a search."""
    count = graph.count
    states = found[-1]
    kept, steps = [states], []
    for distance in range(len(levels) - 1, 0, -1):
        at = states % count
        places, ends, edges = graph.follow(at, reverse=not reverse)
        parents = (states - at)[places] + ends
        is_nearer = is_among(parents, levels[distance - 1])
        parents, children, edges = parents[is_nearer], places[is_nearer], edges[is_nearer]
        states = distinct(np.concatenate((found[distance - 1], parents)))
        cancellation.hold(3 * parents.nbytes + states.nbytes)
        steps.append((np.searchsorted(states, parents), children, edges))
        kept.append(states)
    return Layers(states=kept[::-1], steps=steps[::-1], found=list(found), count=count, ends_first=reverse)


# --- all paths in their order ---


def _in_order(graph: PathGraph, rows: Iterable[PathRows], *, is_traced: bool, is_weighted: bool) -> FoundPaths:
    """The paths of several lengths in one order, their nodes and edges one after the other."""
    rows = [each for each in rows if len(each.nodes)]
    counts = [len(each.nodes) for each in rows]
    nothing = np.empty(0, np.int64)

    def join_parts(parts: Sequence[Numbers]) -> Numbers:
        return np.concatenate(parts).astype(np.int64) if parts else nothing

    sources = join_parts([each.nodes[:, 0] for each in rows])
    destinations = join_parts([each.nodes[:, -1] for each in rows])
    lengths = np.repeat(np.array([each.length for each in rows], np.int64), counts)
    within = join_parts([_order_of_rows(each) for each in rows])
    order = np.lexsort((within, lengths, graph.node_ranks(destinations), graph.node_ranks(sources)))
    weights: NDArray[np.float64] | None = None
    if is_weighted:
        parts: list[Any] = [np.empty(0), *(each.weights for each in rows)]
        weights = np.concatenate(parts)[order]
    nodes = edges = nothing
    if is_traced:
        nodes = _gather(join_parts([each.nodes.ravel() for each in rows]), lengths + 1, order)
        edges = _gather(join_parts([each.edges.ravel() for each in rows]), lengths, order)
    return FoundPaths(
        sources=sources[order],
        destinations=destinations[order],
        lengths=lengths[order],
        weights=weights,
        nodes=nodes,
        edges=edges,
    )


def _order_of_rows(rows: PathRows) -> Numbers:
    """For each path its place among those of the same length by the ranks of their edges."""
    order = np.empty(len(rows.nodes), np.int64)
    columns = tuple(rows.ranks.T[::-1])
    order[np.lexsort(columns) if columns else np.arange(len(order))] = np.arange(len(order))
    return order


def _gather(values: Numbers, lengths: Numbers, order: Numbers) -> Numbers:
    """Stretches of values in another order."""
    firsts = np.concatenate(([0], np.cumsum(lengths)))[:-1]
    found: Numbers = values[stretches(firsts[order], lengths[order])]
    return found
