"""What a query reads and writes: which columns of which tables.

The planner reads no other column, the write path takes its locks from it, policies are asked about it, and `lint` tells
people.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.catalog import Catalog, EntityType, NodeType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compiler import ir


@dataclass(frozen=True, slots=True)
class Access:
    """The tables that a query touches, by table key (``node:Person``, ``edge:Knows``), sorted.

    `asks` are those whose rows its answer tells about, be it only how many there are. That is more than `reads` where
    edges alone tell which nodes there are, and less where a mutation looks up what it must not break.
    """

    reads: Mapping[str, tuple[str, ...]]
    writes: tuple[str, ...]
    asks: tuple[str, ...] = ()


class _Touched:
    """Collects columns and tables."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._reads: dict[str, set[str]] = {}
        self._writes: set[str] = set()
        self._asks: set[str] = set()

    def read(self, entity: EntityType, columns: Iterable[str]) -> None:
        self._reads.setdefault(entity.table_key, set()).update(columns)

    def write(self, entity: EntityType) -> None:
        self._writes.add(entity.table_key)

    def ask(self, entity: EntityType) -> None:
        self._asks.add(entity.table_key)

    def entity(self, name: str) -> EntityType:
        return self.catalog.nodes[name] if name in self.catalog.nodes else self.catalog.edges[name]

    def access(self) -> Access:
        reads = {table: tuple(sorted(columns)) for table, columns in sorted(self._reads.items())}
        return Access(reads, tuple(sorted(self._writes)), tuple(sorted(self._asks)))


def access_of(body: ir.Read | ir.Mutation, catalog: Catalog) -> Access:
    """The tables and columns that a query touches; exactly those, whatever the data."""
    touched = _Touched(catalog)
    if isinstance(body, ir.Read):
        _read(body, touched)
    else:
        for statement in body.statements:
            _statement(statement, touched)
    return touched.access()


def _read(read: ir.Read, touched: _Touched) -> None:
    tables: dict[str, tuple[EntityType, ...]] = {}
    _pattern(read.pattern, tables, touched)
    expressions = [*(column.expression for column in read.columns), *(key.expression for key in read.order)]
    _expressions(expressions, tables, touched)


def _pattern(pattern: ir.Pattern, around: Mapping[str, tuple[EntityType, ...]], touched: _Touched) -> None:
    """Adds what a pattern touches. `around` gains its variables only where it is the outermost."""
    tables = around if isinstance(around, dict) else dict(around)
    reached = {end for traversal in pattern.traversals for end in _ends_with_ids(traversal)}
    for binding in pattern.nodes:
        tables[binding.variable] = tuple(touched.catalog.nodes[name] for name in binding.types)
        for node in tables[binding.variable]:
            touched.ask(node)
        if binding.variable not in reached:
            for node in tables[binding.variable]:
                touched.read(node, (ID,))
    for traversal in pattern.traversals:
        edge = touched.catalog.edges[traversal.edge]
        touched.read(edge, (SOURCE, DESTINATION))
        touched.ask(edge)
        if isinstance(traversal, ir.EdgeBinding):
            tables[traversal.variable] = (edge,)
            touched.read(edge, (ID,))
    for condition in pattern.conditions:
        if not isinstance(condition, ir.SameEntity):
            _expressions(_sides(condition), tables, touched)
    for absent in pattern.absent:
        _pattern(absent, dict(tables), touched)


def _ends_with_ids(traversal: ir.Traversal | ir.EdgeBinding) -> tuple[str, ...]:
    """The ends whose ids the edges themselves tell, so that the node's table need not be read for them.

    Every edge has both its nodes. A path of no edge has only the node it stands on.
    """
    if isinstance(traversal, ir.Traversal) and traversal.minimum == 0:
        return ()
    return (traversal.source, traversal.destination)


def _sides(condition: ir.Comparison | ir.TextMatch) -> Iterable[ir.Expression]:
    return (condition.left, condition.right) if isinstance(condition, ir.Comparison) else (condition.column,)


def _expressions(
    expressions: Iterable[ir.Expression], tables: Mapping[str, tuple[EntityType, ...]], touched: _Touched
) -> None:
    for expression in expressions:
        for variable, columns in _used(expression):
            for entity in tables[variable]:
                if columns is None:
                    touched.read(entity, _all_columns(entity))
                elif any(name != ID for name in columns):
                    touched.read(entity, (ID, *columns))


def _used(expression: ir.Expression) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """The variables of an expression with the columns it needs of each; None means all of them."""
    match expression:
        case ir.Column(variable, name):
            yield variable, (name,)
        case ir.Entity(variable):
            yield variable, None
        case ir.Aggregate(_, ir.Entity(variable)):
            yield variable, ()
        case ir.Aggregate(_, argument):
            yield from _used(argument)
        case ir.VectorDistance(column) | ir.TextScore(column):
            yield from _used(column)
        case ir.RankFusion(rankings):
            for ranking in rankings:
                yield from _used(ranking)


def _all_columns(entity: EntityType) -> tuple[str, ...]:
    return (*entity.system_columns, *entity.properties)


def _statement(statement: ir.Statement, touched: _Touched) -> None:
    entity = touched.entity(statement.type)
    touched.write(entity)
    match statement:
        case ir.InsertNode():
            touched.read(entity, (ID, *_unique_columns(entity)))
        case ir.InsertEdge(_, source, destination):
            touched.read(entity, (ID, SOURCE, *_unique_columns(entity)))
            for end in (source, destination):
                touched.read(touched.catalog.nodes[end.type], (ID,))
        case ir.Update():
            touched.ask(entity)
            touched.read(entity, _all_columns(entity))
        case ir.Delete(_, conditions):
            touched.ask(entity)
            columns = [name for condition in conditions for name in _condition_columns(condition)]
            touched.read(entity, (ID, *columns))
            _cascade(entity, touched)


def _cascade(entity: EntityType, touched: _Touched) -> None:
    """A deleted node takes the edges that touch it along."""
    if isinstance(entity, NodeType):
        for edge in touched.catalog.edges_touching(entity.name):
            touched.read(edge, (ID, SOURCE, DESTINATION))
            touched.write(edge)


def _unique_columns(entity: EntityType) -> Iterator[str]:
    for names in entity.unique:
        yield from names


def _condition_columns(condition: ir.Comparison) -> Iterator[str]:
    for side in (condition.left, condition.right):
        if isinstance(side, ir.Column):
            yield side.name
