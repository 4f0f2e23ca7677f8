"""What a query reads and writes: which columns of which tables.

The planner reads no other column, the write path takes its locks from it, policies are asked about it, and `lint` tells
people.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from itertools import chain
from typing import TypeAlias

from omnigraph.catalog import Catalog, EntityType, NodeType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compiler import ir
from omnigraph.dataclass_later import dataclass

_Tables: TypeAlias = Mapping[str, tuple[EntityType, ...]]


@dataclass(frozen=True, slots=True)
class Access:
    """The tables that a query touches, by table key (``node:Person``, ``edge:Knows``), sorted.

    `asks` are those whose rows its answer tells about, be it only how many there are. That is more than `reads` where
    edges alone tell which nodes there are, and less where a mutation looks up what it must not break. `matched` are
    those that the match of a mutation reads.
    """

    reads: Mapping[str, tuple[str, ...]]
    writes: tuple[str, ...]
    asks: tuple[str, ...] = ()
    matched: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Touched:
    """Collects columns and tables."""

    catalog: Catalog
    reads: dict[str, set[str]] = field(default_factory=dict)
    writes: set[str] = field(default_factory=set)
    asks: set[str] = field(default_factory=set)

    def read(self, entity: EntityType, columns: Iterable[str]) -> None:
        self.reads.setdefault(entity.table_key, set()).update(columns)


def access_of(body: ir.Body, catalog: Catalog) -> Access:
    """The tables and columns that a query touches; exactly those, whatever the data."""
    touched = _Touched(catalog)
    matched: tuple[str, ...] = ()
    match body:
        case ir.Read():
            _read(body, touched)
        case ir.Union(parts=parts):
            for part in parts:
                _read(part, touched)
        case ir.Mutation():
            matched = _match(body, touched)
            for statement in body.statements:
                _statement(statement, touched)
    reads = {table: tuple(sorted(columns)) for table, columns in sorted(touched.reads.items())}
    return Access(reads, tuple(sorted(touched.writes)), tuple(sorted(touched.asks)), matched)


def _read(read: ir.Read, touched: _Touched) -> None:
    """Adds what a read touches."""
    carried: _Tables = {}
    for stage in (*read.stages, read):
        tables = _pattern(stage.pattern, carried, touched)
        # An entity that is carried on is read where something of it is used.
        used = [each for each in stage.shape.expressions if stage is read or not isinstance(each, ir.Entity)]
        _expressions(used, tables, touched)
        carried = {ir.STAGE: (), **{name: tables[variable] for name, variable in stage.shape.entities}}


def _match(mutation: ir.Mutation, touched: _Touched) -> tuple[str, ...]:
    """Adds what the match of a mutation touches, and what its statements compute of it. Returns its tables."""
    if mutation.match is None:
        return ()
    tables = _pattern(mutation.match, {}, touched)
    for read in mutation.reads:
        _expressions(read.shape.expressions, tables, touched)
    return tuple(sorted({*touched.reads, *touched.asks}))


def _pattern(pattern: ir.Pattern, around: _Tables, touched: _Touched) -> _Tables:
    """Adds what a pattern touches. Returns the tables of its variables and of those around it."""
    tables = dict(around)
    reached = {end for each in pattern.connections for end in each.ends_with_ids}
    for binding in pattern.nodes:
        tables[binding.variable] = tuple(touched.catalog.nodes[name] for name in binding.types)
        for node in tables[binding.variable]:
            touched.asks.add(node.table_key)
            if binding.variable not in reached:
                touched.read(node, (ID,))
    for traversal in pattern.traversals:
        edge = touched.catalog.edges[traversal.edge]
        touched.read(edge, (SOURCE, DESTINATION))
        touched.asks.add(edge.table_key)
        if isinstance(traversal, ir.EdgeBinding):
            tables[traversal.variable] = (edge,)
            touched.read(edge, (ID,))
    for path in pattern.paths:
        _path(path, touched)
        tables[path.variable] = ()
    for step in pattern.path_steps:
        if step.variable is not None:
            tables[step.variable] = tuple(touched.catalog.edges[name] for name in step.edges)
    for optional in pattern.optional:
        tables = dict(_pattern(optional, tables, touched))
    _expressions(pattern.conditions, tables, touched)
    for absent in pattern.absent:
        _pattern(absent, tables, touched)
    return tables


def _path(path: ir.PathSearch, touched: _Touched) -> None:
    """Adds what a search of paths touches. A path tells about all nodes on it, of which only the edges are read."""
    for name in path.edges:
        edge = touched.catalog.edges[name]
        touched.read(edge, (ID, SOURCE, DESTINATION, *(() if path.weight is None else (path.weight,))))
        touched.asks.add(edge.table_key)
        touched.asks.update(touched.catalog.nodes[end].table_key for end in (edge.source, edge.destination))


def _expressions(expressions: Iterable[ir.Expression], tables: _Tables, touched: _Touched) -> None:
    for expression in expressions:
        for each in ir.expressions_in(expression):
            if isinstance(each, ir.SubPattern):
                _pattern(each.pattern, tables, touched)
        for variable, columns in _used_columns(expression):
            for entity in tables[variable]:
                if columns is None:
                    touched.read(entity, _all_columns(entity))
                elif any(name != ID for name in columns):
                    touched.read(entity, (ID, *columns))


def _used_columns(expression: ir.Expression) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """The variables of an expression with the columns it needs of each; None means all of them."""
    match expression:
        case ir.Column(variable, name):
            yield variable, (name,)
        case ir.Entity(variable):
            yield variable, None
        case ir.Aggregate(_, ir.Entity(variable)) if not expression.distinct:
            yield variable, ()
        case ir.SameEntity():
            pass
        case _:
            for part in ir.parts_of(expression):
                yield from _used_columns(part)


def _all_columns(entity: EntityType) -> tuple[str, ...]:
    return (*entity.system_columns, *entity.properties)


def _statement(statement: ir.Statement, touched: _Touched) -> None:
    catalog = touched.catalog
    entity = catalog.nodes[statement.type] if statement.type in catalog.nodes else catalog.edges[statement.type]
    touched.writes.add(entity.table_key)
    match statement:
        case ir.InsertNode():
            touched.read(entity, (ID, *chain(*entity.unique)))
        case ir.InsertEdge(_, source, destination):
            touched.read(entity, (ID, SOURCE, *chain(*entity.unique)))
            for end in (source, destination):
                touched.read(catalog.nodes[end.type], (ID,))
        case ir.Update():
            touched.asks.add(entity.table_key)
            touched.read(entity, _all_columns(entity))
        case ir.UpdateMatched():
            touched.read(entity, _all_columns(entity))
        case ir.Delete(_, conditions):
            touched.asks.add(entity.table_key)
            parts = (part for condition in conditions for part in ir.expressions_in(condition))
            touched.read(entity, (ID, *(part.name for part in parts if isinstance(part, ir.Column))))
            _take_edges_along(entity, touched)
        case ir.DeleteMatched():
            touched.read(entity, (ID,))
            _take_edges_along(entity, touched)
    if statement.returning:
        touched.asks.add(entity.table_key)
        touched.read(entity, columns_returned(statement))


def columns_returned(statement: ir.Statement) -> tuple[str, ...]:
    """What the columns of `returning` are computed of."""
    parts = (part for each in statement.returning for part in ir.expressions_in(each.expression))
    return tuple(dict.fromkeys(part.name for part in parts if isinstance(part, ir.Column)))


def _take_edges_along(entity: EntityType, touched: _Touched) -> None:
    """A deleted node takes the edges that touch it along."""
    for edge in touched.catalog.edges_touching(entity.name) if isinstance(entity, NodeType) else ():
        touched.read(edge, (ID, SOURCE, DESTINATION))
        touched.writes.add(edge.table_key)
