"""In which order the relations of a pattern are made, and how they hang together.

The order is decided without statistics: first what conditions pin down, then along the edges from there, so that each
step finds its variable narrowed by the steps before it.
"""

from dataclasses import field

import pyarrow as pa

from omnigraph.catalog import Catalog, EdgeType, NodeType, arrow_type
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compiler import ir
from omnigraph.dataclass_later import dataclass
from omnigraph.query.levels import EXACT, Bound, Level, OnColumn, by_id
from omnigraph.query.steps import (
    DESTINATION_END,
    SOURCE_END,
    TYPE,
    EdgeScan,
    End,
    NodeScan,
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
        pending = list(level.pattern.traversals)
        nodes = [level.own[node.variable] for node in level.pattern.nodes]
        for bound in nodes:
            if not bound.needs_scan:
                self._move_conditions(bound, level)
        while True:
            following = [each for each in pending if self._ends_resolved(each, level)]
            if following:
                best = min(following, key=lambda each: (2 - self._ends_resolved(each, level), _hops(each)))
                pending.remove(best)
                self._traverse(best, level)
                continue
            rest = [bound for bound in nodes if id(bound) not in self._resolved]
            if not rest:
                return
            start = min(rest, key=_rank)
            first = _leading_edge(pending, level, _rank(start))
            if first is not None:
                pending.remove(first)
                self._traverse(first, level)
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

    def _ends_resolved(self, traversal: ir.Traversal | ir.EdgeBinding, level: Level) -> int:
        return sum(id(level.lookup(name)) in self._resolved for name in (traversal.source, traversal.destination))

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
        for bound in (source, destination):
            if id(bound) not in self._resolved or (bound.needs_scan and bound.relation is None):
                self._resolve(bound, level)

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


def _hops(traversal: ir.Traversal | ir.EdgeBinding) -> float:
    if isinstance(traversal, ir.EdgeBinding):
        return 1
    return float("inf") if traversal.maximum is None else traversal.maximum


def _rank(bound: Bound) -> int:
    """How few entities a variable is likely to stand for, few first."""
    tests = {each.test for each in bound.predicates}
    if bound.is_carried:
        return _EQUAL
    if bound.is_pinned:
        return _PINNED
    if tests & EXACT:
        return _EQUAL
    if tests or bound.required:
        return _FILTERED
    is_node = all(isinstance(entity, NodeType) for entity in bound.entities)
    return _OPEN if is_node and bound.needs_scan else _UNSCANNED


def _leading_edge(
    pending: list[ir.Traversal | ir.EdgeBinding], level: Level, rank: int
) -> ir.Traversal | ir.EdgeBinding | None:
    """The traversal to begin with when no node is a better start: an edge with conditions, or any if none is read."""
    bindings = [each for each in pending if isinstance(each, ir.EdgeBinding)]
    if bindings:
        best = min(bindings, key=lambda each: _rank(level.own[each.variable]))
        if _rank(level.own[best.variable]) < min(rank, _OPEN):
            return best
    if rank < _UNSCANNED:
        return None
    return next(each for each in pending if isinstance(each, ir.EdgeBinding) or each.minimum > 0)
