"""In which order the relations of a pattern are made, and how they hang together.

The order is decided without statistics: first what conditions pin down, then along the edges from there, so that each
step finds its variable narrowed by the steps before it.
"""

from collections.abc import Sequence
from dataclasses import field

import pyarrow as pa

from omnigraph.catalog import Catalog, EdgeType, NodeType, arrow_type
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compiler import ir
from omnigraph.compiler.paths import EDGES, NODES, node_types
from omnigraph.dataclass_later import dataclass
from omnigraph.query.levels import EXACT, Bound, Level, OnColumn, by_id
from omnigraph.query.steps import (
    DESTINATION_END,
    EDGE,
    PATH,
    SOURCE_END,
    TYPE,
    EdgeScan,
    End,
    NodeScan,
    PathEdges,
    PathTable,
    PathWalk,
    Relation,
    Step,
    TableScan,
    TextMatching,
    Walk,
)
from omnigraph.storage.predicates import lance_filter

_PINNED, _EQUAL, _FILTERED, _OPEN, _UNSCANNED = range(5)


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """A field of a relation."""

    relation: Relation
    field: str


@dataclass(frozen=True, slots=True)
class FieldMatch:
    """Two places that hold the id of one variable; `type` is the type it must have, where it may have others."""

    place: FieldPlace
    bound: Bound
    other: FieldPlace
    type: str | None = None


@dataclass(slots=True)
class StepOrder:
    """The steps of all levels in their order, and for each variable where its id stands."""

    catalog: Catalog
    steps: list[Step] = field(default_factory=list)
    anchors: dict[int, FieldPlace] = field(default_factory=dict)
    meetings: dict[str, list[FieldMatch]] = field(default_factory=dict)
    relations: dict[int, list[Relation]] = field(default_factory=dict)
    known: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _resolved: set[int] = field(default_factory=set)

    def begin_at_stage(self, level: Level, relation: Relation) -> None:
        """Says that the rows of a level continue those of a stage, whose relation has all that is carried on."""
        assert level.parent is not None
        self.relations[id(level)] = [relation]
        self.meetings[relation.name] = []
        for bound in level.parent.own.values():
            assert bound.relation is not None
            self.anchors[id(bound)] = FieldPlace(bound.relation, ID)
            self._resolved.add(id(bound))

    def add(self, level: Level) -> None:
        """Adds the steps of a level; those of the levels around it are there already."""
        self.relations.setdefault(id(level), [])
        pending: list[ir.Connection] = list(level.pattern.connections)
        nodes = [level.own[node.variable] for node in level.pattern.nodes]
        for bound in nodes:
            if not bound.needs_scan:
                self._move_conditions(bound, level)
        while True:
            rest = [bound for bound in nodes if id(bound) not in self._resolved]
            following = [each for each in pending if self._may_follow(each, rest, level)]
            if following:
                best = min(following, key=lambda each: self._effort(each, level))
                pending.remove(best)
                self._connect(best, level)
                continue
            if not rest:
                return
            start = min(rest, key=_rank)
            first = _leading_edge(pending, level, _rank(start))
            if first is not None:
                pending.remove(first)
                self._connect(first, level)
            else:
                self._resolve(start, level)

    # --- single steps ---

    def _move_conditions(self, bound: Bound, level: Level) -> None:
        """Leaves conditions on the id of a node that is not scanned to the rest; equality also says where to start."""
        for predicate in bound.predicates:
            level.residual.append(OnColumn(bound, predicate))
            if predicate.test in EXACT:
                self.known[bound.key] = tuple(str(value) for value in predicate.values)
        if bound.key in self.known:
            self._resolved.add(id(bound))

    def _ends_resolved(self, connection: ir.Connection, level: Level) -> int:
        return sum(id(level.lookup(name)) in self._resolved for name in (connection.source, connection.destination))

    def _may_follow(self, connection: ir.Connection, rest: Sequence[Bound], level: Level) -> bool:
        """Whether what is resolved leads on over a connection.

        A search of paths between two given nodes sees little of the graph, so it waits for nodes that are given.
        """
        if isinstance(connection, ir.PathStep):
            return id(level.lookup(connection.path)) in self._resolved
        if isinstance(connection, ir.PathSearch) and any(_rank(bound) == _PINNED for bound in rest):
            return False
        return self._ends_resolved(connection, level) > 0

    def _effort(self, connection: ir.Connection, level: Level) -> tuple[bool, int, float]:
        """What connections are ordered by: searches of paths come late, when both of their ends are known."""
        is_path = isinstance(connection, ir.PathSearch)
        return is_path, 2 - self._ends_resolved(connection, level), _hops(connection)

    def _connect(self, connection: ir.Connection, level: Level) -> None:
        match connection:
            case ir.PathSearch():
                self._search_paths(connection, level)
            case ir.PathStep():
                self._step_along(connection, level)
            case _:
                self._traverse(connection, level)

    def _resolve(self, bound: Bound, level: Level) -> None:
        self._resolved.add(id(bound))
        if bound.needs_scan and bound.relation is None:
            self._scan(bound, level)

    def _scan(self, bound: Bound, level: Level) -> None:
        fields = [ID, *(name for name in bound.needs if name not in (ID, TYPE))]
        types = [arrow_type(bound.type_of(name)) for name in fields]
        if bound.is_tagged or TYPE in bound.needs:
            fields, types = [*fields, TYPE], [*types, pa.string()]
        columns = dict.fromkeys(name for name in fields if name != TYPE)
        columns |= dict.fromkeys(each.column for each in bound.computed)
        relation = self._relation(bound, fields, types, level)
        tables = tuple(
            TableScan(
                entity.table_key,
                entity.name,
                tuple(columns),
                lance_filter(tuple(by_id(entity, bound.predicates)), entity.substrings),
            )
            for entity in bound.entities
        )
        self._meet(FieldPlace(relation, ID), bound, None)
        self.anchors[id(bound)] = FieldPlace(relation, ID)
        self.steps.append(
            NodeScan(
                relation=relation,
                variable=bound.key,
                tables=tables,
                computed=tuple(bound.computed),
                required=tuple(bound.required),
            )
        )

    def _relation(self, bound: Bound | None, fields: list[str], types: list[pa.DataType], level: Level) -> Relation:
        """A relation with the given fields, and those that are computed of the variable it is for."""
        computed = bound.computed if bound is not None else []
        fields = [*fields, *(f"@{index}" for index in range(len(computed)))]
        types = [*types, *(pa.bool_() if isinstance(each, TextMatching) else pa.float32() for each in computed)]
        name = f"r{len(self.steps)}"
        schema = pa.schema([pa.field(f"c{index}", type) for index, type in enumerate(types)])
        relation = Relation(name, tuple(fields), schema)
        if bound is not None:
            bound.relation = relation
        self.relations[id(level)].append(relation)
        self.meetings[name] = []
        return relation

    def _traverse(self, traversal: ir.Traversal | ir.EdgeBinding, level: Level) -> None:
        edge = self.catalog.edges[traversal.edge]
        source, destination = level.lookup(traversal.source), level.lookup(traversal.destination)
        types = (edge.source, edge.destination)
        if traversal.direction is ir.Direction.BACKWARD:
            types = (edge.destination, edge.source)
        ends = (
            End(source.key, types[0], is_outer=not level.is_own(source)),
            End(destination.key, types[1], is_outer=not level.is_own(destination)),
        )
        step: EdgeScan | Walk
        if isinstance(traversal, ir.EdgeBinding):
            step = self._edge_scan(traversal, edge, ends, level)
        else:
            step = self._walk(traversal, edge, ends, level)
        self._meet(FieldPlace(step.relation, SOURCE_END), source, types[0])
        self._meet(FieldPlace(step.relation, DESTINATION_END), destination, types[1])
        self.steps.append(step)
        self._resolve_ends((source, destination), level)

    def _resolve_ends(self, ends: tuple[Bound, Bound], level: Level) -> None:
        for bound in ends:
            if id(bound) not in self._resolved or (bound.needs_scan and bound.relation is None):
                self._resolve(bound, level)

    def _ends_of(self, connection: ir.PathSearch | ir.PathStep, level: Level) -> tuple[End, End]:
        source, destination = level.lookup(connection.source), level.lookup(connection.destination)
        return (
            End(source.key, connection.ends[0], is_outer=not level.is_own(source)),
            End(destination.key, connection.ends[1], is_outer=not level.is_own(destination)),
        )

    def _search_paths(self, search: ir.PathSearch, level: Level) -> None:
        bound = level.own[search.variable]
        source, destination = level.lookup(search.source), level.lookup(search.destination)
        fields = [SOURCE_END, DESTINATION_END, ID, *(name for name in bound.needs if name != ID)]
        types = [pa.string(), pa.string(), pa.int64(), *(arrow_type(bound.type_of(name)) for name in fields[3:])]
        relation = self._relation(bound, fields, types, level)
        edges = [self.catalog.edges[name] for name in search.edges]
        ends = self._ends_of(search, level)
        self.anchors[id(bound)] = FieldPlace(relation, ID)
        self._resolved.add(id(bound))
        self._meet(FieldPlace(relation, SOURCE_END), source, search.ends[0])
        self._meet(FieldPlace(relation, DESTINATION_END), destination, search.ends[1])
        self.steps.append(
            PathWalk(
                relation=relation,
                variable=bound.key,
                search=search,
                tables=tuple(PathTable(each.table_key, each.name, each.source, each.destination) for each in edges),
                node_types=node_types(edges),
                source=ends[0],
                destination=ends[1],
                is_traced=bound.is_stepped or bool({NODES, EDGES} & bound.needs.keys()),
            )
        )
        self._resolve_ends((source, destination), level)

    def _step_along(self, step: ir.PathStep, level: Level) -> None:
        """A relation of the edges of paths; the edges themselves are read where more than their ids is needed."""
        path = level.lookup(step.path)
        source, destination = level.lookup(step.source), level.lookup(step.destination)
        fields = [SOURCE_END, DESTINATION_END, PATH, *(() if step.variable is None else (EDGE,))]
        types = [pa.string(), pa.string(), pa.int64(), pa.string()][: len(fields)]
        relation = self._relation(None, fields, types, level)
        ends = self._ends_of(step, level)
        self.steps.append(PathEdges(relation=relation, path=path.key, source=ends[0], destination=ends[1]))
        self._meet(FieldPlace(relation, PATH), path, None)
        self._meet(FieldPlace(relation, SOURCE_END), source, step.ends[0])
        self._meet(FieldPlace(relation, DESTINATION_END), destination, step.ends[1])
        if step.variable is not None:
            place, bound = FieldPlace(relation, EDGE), level.own[step.variable]
            self.anchors[id(bound)] = place
            if any(name != ID for name in bound.needs) or bound.predicates or bound.computed:
                binding = ir.EdgeBinding(
                    source=step.source,
                    destination=step.destination,
                    edge=step.edges[0],
                    direction=step.direction,
                    variable=step.variable,
                )
                scan = self._edge_scan(binding, self.catalog.edges[step.edges[0]], ends, level)
                self._meet(FieldPlace(scan.relation, SOURCE_END), source, step.ends[0])
                self._meet(FieldPlace(scan.relation, DESTINATION_END), destination, step.ends[1])
                self.meetings[scan.relation.name].append(FieldMatch(FieldPlace(scan.relation, ID), bound, place))
                self.steps.append(scan)
        self._resolve_ends((source, destination), level)

    def _walk(self, traversal: ir.Traversal, edge: EdgeType, ends: tuple[End, End], level: Level) -> Walk:
        relation = self._relation(None, [SOURCE_END, DESTINATION_END], [pa.string()] * 2, level)
        bounds = level.lookup(traversal.source), level.lookup(traversal.destination)
        ranks = [_rank(bound) if id(bound) in self._resolved else _UNSCANNED + 1 for bound in bounds]
        return Walk(
            relation=relation,
            table_key=edge.table_key,
            direction=traversal.direction,
            minimum=traversal.minimum,
            maximum=traversal.maximum,
            source=ends[0],
            destination=ends[1],
            start=bounds[0].key if ranks[0] <= ranks[1] else bounds[1].key,
        )

    def _edge_scan(self, traversal: ir.EdgeBinding, edge: EdgeType, ends: tuple[End, End], level: Level) -> EdgeScan:
        bound = level.own[traversal.variable]
        own = [ID, *(name for name in bound.needs if name != ID)]
        types = [pa.string(), pa.string(), *(arrow_type(bound.type_of(name)) for name in own)]
        relation = self._relation(bound, [SOURCE_END, DESTINATION_END, *own], types, level)
        columns = dict.fromkeys((*own, SOURCE, DESTINATION, *(each.column for each in bound.computed)))
        self.anchors[id(bound)] = FieldPlace(relation, ID)
        return EdgeScan(
            relation=relation,
            variable=bound.key,
            table=TableScan(
                edge.table_key, edge.name, tuple(columns), lance_filter(tuple(bound.predicates), edge.substrings)
            ),
            source=ends[0],
            destination=ends[1],
            direction=traversal.direction,
            computed=tuple(bound.computed),
            required=tuple(bound.required),
        )

    def _meet(self, place: FieldPlace, bound: Bound, type: str | None) -> None:
        """Says that the id of a variable stands here too, or first stands here."""
        anchor = self.anchors.get(id(bound))
        if anchor is None:
            self.anchors[id(bound)] = place
        else:
            needed = type if bound.is_tagged else None
            self.meetings[place.relation.name].append(FieldMatch(place, bound, anchor, needed))


def _hops(connection: ir.Connection) -> float:
    if isinstance(connection, ir.EdgeBinding | ir.PathStep):
        return 1
    return float("inf") if connection.maximum is None else connection.maximum


def _rank(bound: Bound) -> int:
    """How few entities a variable is likely to stand for, few first."""
    tests = {each.test for each in bound.predicates}
    if bound.is_carried:
        return _EQUAL
    if bound.is_pinned:
        return _PINNED
    if tests & EXACT:
        return _EQUAL
    if (tests or bound.required) and bound.needs_scan:
        # Without a scan nothing is known of the ids that pass, and a walk cannot begin there.
        return _FILTERED
    is_node = all(isinstance(entity, NodeType) for entity in bound.entities)
    return _OPEN if is_node and bound.needs_scan else _UNSCANNED


def _leading_edge(pending: list[ir.Connection], level: Level, rank: int) -> ir.Connection | None:
    """What to begin with when no node is a better start: an edge with conditions, or any if no node is read."""
    bindings = [each for each in pending if isinstance(each, ir.EdgeBinding)]
    if bindings:
        best = min(bindings, key=lambda each: _rank(level.own[each.variable]))
        if _rank(level.own[best.variable]) < min(rank, _OPEN):
            return best
    if rank < _UNSCANNED:
        return None
    leading = [each for each in pending if each.ends_with_ids and not isinstance(each, ir.PathStep)]
    return min(leading, key=lambda each: isinstance(each, ir.PathSearch))
