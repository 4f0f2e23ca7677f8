"""A read as a program over tables in memory: made once for a query and a schema, whatever the parameters.

A program has the operations of a pattern in the order in which they run. What depends on values (null parameters, ids
that follow from keys, limits) is decided when they are bound. Reads that need more than a program can do have none, and
are planned as statements: searches of texts, rankings, variables of several types, and values that are not kept in
memory.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import TypeAlias

import pyarrow as pa

from omnigraph.catalog import Catalog, EntityType, List, NodeType, PropertyType, Scalar, Vector, arrow_type
from omnigraph.catalog.keys import node_id
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import FLOATS, INTEGERS
from omnigraph.compiler import ir
from omnigraph.compiler.paths import EDGES, NODES, PathType, node_types
from omnigraph.compiler.values import is_known
from omnigraph.dataclass_later import dataclass
from omnigraph.query.computing import mirror_comparison
from omnigraph.query.levels import KnownValues, holds
from omnigraph.query.steps import PathTable
from omnigraph.query.walks import OPPOSITE
from omnigraph.storage.predicates import MIRRORED, Reduced, column_predicate, is_text
from omnigraph.syntax.query_ast import Operator, SubPatternKind

_NO_COLUMNS = pa.schema([])
PATHS = "path:"
"""With this begins the name of what has the values of paths, as a table has those of nodes."""


class NoProgram(Exception):
    """A read that no program answers."""


# --- conditions ---


@dataclass(frozen=True, slots=True)
class Test:
    """A column of a variable beside a known value. `is_mirrored` means that the value stands on the left."""

    variable: str
    table: str
    column: ir.Column
    operator: Operator
    value: ir.Expression
    is_mirrored: bool

    def bind(self, values: KnownValues) -> Reduced:
        """The predicate for the values of a run; False if no row can pass."""
        known = values.of(self.value)
        assert known is not None
        if known.value is None or known.type is None:
            return False
        if not self.is_mirrored:
            return column_predicate(self.column.name, self.column.type, self.operator, known.value, known.type)
        found = mirror_comparison(known, self.operator, self.column)
        if found is None:
            raise NoProgram
        return found

    @property
    def may_give_value(self) -> bool:
        """Whether it leaves few values of the column."""
        return self.operator is Operator.EQUAL or (self.is_mirrored and self.operator is Operator.CONTAINS)


@dataclass(frozen=True, slots=True)
class KnownComparison:
    """A comparison of two known values: whether a pattern can match at all."""

    left: ir.Expression
    operator: Operator
    right: ir.Expression

    def bind(self, values: KnownValues) -> bool:
        """Whether it holds."""
        left, right = values.of(self.left), values.of(self.right)
        assert left is not None
        assert right is not None
        return holds(left, self.operator, right)


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """A comparison of columns of variables, with the tables of these."""

    left: ir.Column
    operator: Operator
    right: ir.Column
    tables: tuple[str, str]


@dataclass(frozen=True, slots=True)
class Identity:
    """Whether two variables of one type are the same entity, or are not."""

    left: str
    right: str
    negated: bool


@dataclass(frozen=True, slots=True)
class NestedProgram:
    """A pattern that an expression asks for. `shared` are the variables that it has from around."""

    pattern: "PatternProgram"
    shared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """What expressions over some variables need: the tables of these, and patterns by the identity of `SubPattern`."""

    tables: Mapping[str, str]
    nested: Mapping[int, NestedProgram]

    def variables(self, expression: ir.Expression) -> Iterator[str]:
        """The variables that must be bound before an expression can be computed."""
        for each in ir.expressions_in(expression):
            if isinstance(each, ir.Column | ir.Entity):
                yield each.variable
            elif isinstance(each, ir.SubPattern):
                yield from self.nested[id(each)].shared


@dataclass(frozen=True, slots=True)
class ComputedCondition:
    """A condition that is computed of the values of a row."""

    condition: ir.Condition
    scope: Scope


Condition: TypeAlias = Test | ColumnComparison | Identity | ComputedCondition


# --- operations ---


@dataclass(frozen=True, slots=True)
class ByIds:
    """Binds a variable to the nodes whose ids, or whose keys, are given."""

    variable: str
    table: str
    key: tuple[Test, ...]
    """The tests that give the id: one on the id itself, or one for each part of the key."""
    tests: tuple[Test, ...]
    text: ir.ParameterValue | ir.Constant | None
    """What is the id as a text, if it is one text or whole number that is given."""

    def ids(self, values: KnownValues) -> Sequence[str]:
        """The ids, which nodes may or may not have."""
        if self.text is not None:
            text = values.value_of(self.text)
            return () if text is None else (str(text),)
        found = [test.bind(values) for test in self.key]
        given = [each.values for each in found if not isinstance(each, bool)]
        if len(given) < len(found):
            return ()
        first = self.key[0].column
        if first.name == ID:
            return [str(value) for value in given[0]]
        if len(given) == 1 and is_text(first.type):
            return [str(given[0][0])]
        return [node_id([each[0] for each in given], [test.column.type for test in self.key])]


@dataclass(frozen=True, slots=True)
class Scan:
    """Binds a variable to all entities of a table that pass tests."""

    variable: str
    table: str
    tests: tuple[Test, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeStep:
    """Follows edges from `start` to `end`, which may be bound before.

    With `edge`, there is a row for each edge, which is bound to that variable. Otherwise each pair of nodes that is
    `minimum` to `maximum` edges apart counts once.
    """

    start: str
    end: str
    table: str
    direction: ir.Direction
    is_end_bound: bool
    minimum: int = 1
    maximum: int | None = 1
    edge: str | None = None
    tests: tuple[Test, ...] = ()
    edge_tests: tuple[Test, ...] = ()
    may_lack_start: bool = False
    """Whether `start` may be bound to nothing, by an optional pattern. No edge leads on from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPaths:
    """Binds a variable to the shortest paths between two others, of which at least one is bound before."""

    search: ir.PathSearch
    key: str
    """What has the values of the paths, as a table has those of nodes."""
    tables: tuple[PathTable, ...]
    nodes: tuple[tuple[str, str], ...]
    """The types of the nodes, with their tables."""
    opens: str | None
    """The end that is bound by the paths."""
    tests: tuple[Test, ...]
    """The tests of that end."""
    may_lack_ends: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AlongPath:
    """Follows a path that is bound: a row for each of its edges, with the nodes before and after it."""

    step: ir.PathStep
    key: str
    binds: tuple[str, ...]
    """The nodes that are not bound before."""
    tests: tuple[Test, ...]
    """The tests of what is bound here."""
    may_lack_path: bool


@dataclass(frozen=True, slots=True)
class Where:
    """Keeps the rows that meet conditions on variables that are bound."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Without:
    """Keeps the rows for which a nested pattern is not found. `shared` are the variables that it has from around."""

    pattern: "PatternProgram"
    shared: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Optionally:
    """Continues each row by every way in which a nested pattern is found, or once by nothing.

    `shared` are the variables that it has from around, and `binds` those that it adds, which are nothing together.
    """

    pattern: "PatternProgram"
    shared: tuple[str, ...]
    binds: tuple[str, ...]
    is_counted: bool = False
    """Whether all that matters afterwards is how many rows there are, and whether variables are bound."""


Operation: TypeAlias = ByIds | Scan | EdgeStep | FindPaths | AlongPath | Where | Without | Optionally

Bindable: TypeAlias = EntityType | PathType
"""What a variable can be bound to."""


@dataclass(frozen=True, slots=True)
class PatternProgram:
    """The operations of one pattern. If a constant does not hold, the pattern is not found."""

    constants: tuple[KnownComparison, ...]
    operations: tuple[Operation, ...]
    live: tuple[frozenset[str] | None, ...]
    """For each operation the variables that are needed after it, where rows are only grouped; None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A read over tables in memory."""

    read: ir.Read
    pattern: PatternProgram
    entities: Mapping[str, Bindable]
    """The types of the variables of the outermost pattern, and of those that a stage carries on to it."""
    ties: tuple[str, ...]
    """The variables by which ties are broken, in this order."""
    optional: frozenset[str]
    """Those that may be bound to nothing."""
    tables: Mapping[str, frozenset[str]]
    """The tables that are needed in memory, and their columns."""
    links: Mapping[str, tuple[str, str]]
    """The tables of edges that are followed, with the tables of their ends."""
    schema: pa.Schema
    """The columns of the answer."""
    names: tuple[str, ...]
    """Their names."""
    is_pinned: bool
    """Whether it begins at given ids, so that little is read."""
    scope: Scope
    """What the values of the answer need."""
    is_computed: bool
    """Whether it computes values, whose size follows from nothing that is known before."""
    point: tuple[ByIds, tuple[str, ...]] | None
    """For a read of one node by its id and nothing else: how it is found, and the columns that are returned."""
    stages: tuple["Program", ...] = ()
    """What runs before, each from the rows of the one before."""
    traced: frozenset[str] = frozenset()
    """The variables of paths of which the nodes or edges are needed."""
    is_sorted: bool = True
    """Whether the order of its rows matters; if not, and all are wanted, they need not be sorted."""

    def explain(self) -> Iterator[str]:
        """The operations for people, a line each."""
        for stage in self.stages:
            yield from stage.explain()
            yield f"carry on {', '.join(stage.names)}"
        yield from _explain(self.pattern, "")
        for column in self.read.shape.columns:
            yield from _explain_nested(column.expression, self.scope, "")


def _explain(pattern: PatternProgram, indent: str) -> Iterator[str]:
    for operation in pattern.operations:
        match operation:
            case ByIds(variable, table, key):
                columns = ", ".join(test.column.name for test in key)
                yield f"{indent}find ${variable} in {table} by {columns}"
            case Scan(variable, table):
                yield f"{indent}scan ${variable} in {table}"
            case EdgeStep():
                most = "" if operation.maximum is None else operation.maximum
                hops = "" if (operation.minimum, operation.maximum) == (1, 1) else f" {{{operation.minimum},{most}}}"
                how = f"{operation.direction}, ${operation.start} → ${operation.end}"
                yield f"{indent}follow {operation.table}{hops} {how}"
            case FindPaths(search=search):
                yield f"{indent}find paths ${search.variable} by {', '.join(search.edges)}"
                yield from _explain_tests(operation.tests, indent)
                continue
            case AlongPath(step=step):
                yield f"{indent}follow ${step.path}: ${step.source} → ${step.destination}"
                yield from _explain_tests(operation.tests, indent)
                continue
            case Where(conditions):
                yield f"{indent}keep rows that meet {len(conditions)} condition{'s' if len(conditions) > 1 else ''}"
                for each in conditions:
                    if isinstance(each, ComputedCondition):
                        yield from _explain_nested(each.condition, each.scope, indent + "  ")
                continue
            case Without(nested) | Optionally(nested):
                yield f"{indent}{'without' if isinstance(operation, Without) else 'optionally'}"
                yield from _explain(nested, indent + "  ")
                continue
        others = operation.edge_tests if isinstance(operation, EdgeStep) else ()
        yield from _explain_tests((*operation.tests, *others), indent)


def _explain_tests(tests: Sequence[Test], indent: str) -> Iterator[str]:
    if tests:
        yield f"{indent}  where {', '.join(f'{test.column.name} {test.operator.value}' for test in tests)}"


def _explain_nested(expression: ir.Expression, scope: Scope, indent: str) -> Iterator[str]:
    for each in ir.expressions_in(expression):
        if isinstance(each, ir.SubPattern):
            yield f"{indent}{'look for' if each.kind is SubPatternKind.EXISTS else 'count'}"
            yield from _explain(scope.nested[id(each)].pattern, indent + "  ")


# --- making a program ---


def program_of(read: ir.Read, catalog: Catalog) -> Program | None:
    """The program of a read; None if it needs more than a program can do."""
    try:
        return _Maker(catalog).program(read)
    except NoProgram:
        return None


@dataclass(slots=True)
class _Maker:
    catalog: Catalog
    tables: dict[str, set[str]] = field(default_factory=dict)
    links: dict[str, tuple[str, str]] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    """The variables that may be bound to nothing where they are used next."""
    traced: set[str] = field(default_factory=set)
    """The variables of paths of which the nodes or edges are needed."""
    searches: int = 0

    def program(self, read: ir.Read) -> Program:
        """The program of a read after those of its stages."""
        stages: list[Program] = []
        around: dict[str, Bindable] = {}
        for stage, following in pairwise((*read.stages, read)):
            program = self._part(stage, around, continues=bool(stages), is_last=False)
            stages.append(replace(program, is_sorted=not following.shape.grouped))
            around = {name: program.entities[variable] for name, variable in stage.shape.entities}
            self.optional = {name for name, variable in stage.shape.entities if variable in program.optional}
        last = self._part(read, around, continues=bool(stages), is_last=True)
        traced = frozenset(self.traced)
        return replace(last, stages=tuple(replace(each, traced=traced) for each in stages), traced=traced)

    def _part(self, read: ir.Read, around: Mapping[str, Bindable], *, continues: bool, is_last: bool) -> Program:
        """The program of a stage, or of what comes after them; `around` are the entities that it continues from."""
        optional = frozenset((*self.optional, *read.pattern.optional_variables))
        pattern, entities, is_pinned = self._pattern(read.pattern, around)
        ties = read.pattern.variables
        own = {name: entities[name] for name in (*around, *ties)}
        shape = read.shape
        nested: dict[int, NestedProgram] = {}
        for expression in shape.expressions:
            if is_last or not isinstance(expression, ir.Entity):
                self._need(expression, entities, nested)
            elif isinstance(entities[expression.variable], PathType):
                self.traced.add(expression.variable)
        scope = _scope(entities, nested)
        is_whole = is_last and not continues
        counts = shape.grouped and not shape.having and all(ir.is_row_count(each.expression) for each in shape.columns)
        if counts and read.pattern.traversals and not optional and not is_pinned and is_whole:
            raise NoProgram  # the number of rows is found without making them
        if shape.grouped:
            needed, counted = _grouped_variables(shape, scope)
            pattern = _narrow(pattern, needed, counted)
        return Program(
            read=read,
            pattern=pattern,
            entities=own,
            ties=(ir.STAGE, *ties) if continues else ties,
            optional=optional,
            tables={key: frozenset(columns) for key, columns in self.tables.items()},
            links=self.links,
            schema=_schema(shape, own) if is_last else _NO_COLUMNS,
            names=tuple(each.name for each in shape.columns),
            is_pinned=is_pinned,
            scope=scope,
            is_computed=_is_computed(pattern)
            or any(isinstance(part, _COMPUTED) for each in shape.expressions for part in ir.expressions_in(each)),
            point=_point(shape, pattern) if is_whole else None,
        )

    # --- what is needed in memory ---

    def _need(  # noqa: PLR0912 - a branch for each kind of expression
        self, expression: ir.Expression, entities: Mapping[str, Bindable], nested: dict[int, NestedProgram]
    ) -> None:
        match expression:
            case ir.Column():
                self._need_column(expression, entities)
            case ir.Entity(variable):
                entity = entities[variable]
                if isinstance(entity, PathType):
                    self.traced.add(variable)
                    return
                for name, property in entity.properties.items():
                    if property.type is Scalar.BLOB or isinstance(property.type, Vector):
                        raise NoProgram
                    self.tables[entity.table_key].add(name)
                self.tables[entity.table_key].update(entity.system_columns)
            case ir.Aggregate(_, ir.Entity()):
                pass
            case ir.Aggregate(_, argument):
                self._need(argument, entities, nested)
            case ir.SubPattern(_, pattern):
                inner, _, _ = self._pattern(pattern, entities)
                shared = _shared_variables(inner, entities)
                if shared:
                    inner = replace(inner, live=_live_after(inner.operations, frozenset({ROW})))
                nested[id(expression)] = NestedProgram(inner, shared)
            case ir.SameEntity(left, right):
                if entities[left].table_key != entities[right].table_key:
                    raise NoProgram
            case ir.Call() | ir.Comparison():
                for part in ir.parts_of(expression):
                    self._need(part, entities, nested)
            case ir.Constant() | ir.ParameterValue() | ir.ListOf() | ir.Now():
                pass
            case _:
                raise NoProgram

    def _need_column(self, column: ir.Column, entities: Mapping[str, Bindable]) -> None:
        if column.type is Scalar.BLOB or isinstance(column.type, Vector):
            raise NoProgram
        if column.variable == ir.STAGE:
            return
        entity = entities[column.variable]
        if not isinstance(entity, PathType):
            self.tables[entity.table_key].add(column.name)
        elif column.name in (NODES, EDGES):
            self.traced.add(column.variable)

    # --- patterns ---

    def _pattern(
        self, pattern: ir.Pattern, around: Mapping[str, Bindable]
    ) -> tuple[PatternProgram, dict[str, Bindable], bool]:
        entities = dict(around)
        for node in pattern.nodes:
            if node.interface is not None or len(node.types) != 1:
                raise NoProgram
            entities[node.variable] = self.catalog.nodes[node.types[0]]
            self.tables.setdefault(entities[node.variable].table_key, set())
        for each in pattern.traversals:
            self._need_edges(each.edge)
            if isinstance(each, ir.EdgeBinding):
                entities[each.variable] = self.catalog.edges[each.edge]
        for search in pattern.paths:
            for name in search.edges:
                self._need_edges(name)
                if search.weight is not None:
                    self.tables[self.catalog.edges[name].table_key].add(search.weight)
            entities[search.variable] = PathType(f"{PATHS}{self.searches}", search.weight is not None)
            self.searches += 1
        for step in pattern.path_steps:
            self.traced.add(step.path)
            if step.variable is not None:
                entities[step.variable] = self.catalog.edges[step.edges[0]]
        optionals = []
        for optional in pattern.optional:
            nested, inside, _ = self._pattern(optional, entities)
            shared = _shared_variables(nested, entities)
            optionals.append(Optionally(nested, shared, optional.variables))
            self.optional.update(optional.variables)
            entities = inside
        constants: list[KnownComparison] = []
        conditions = list(self._conditions(pattern, entities, constants))
        order = _Order(self.catalog, entities, {ir.STAGE, *around}, conditions, self.optional)
        operations = order.operations(pattern)
        late: list[Operation] = []
        for absent in pattern.absent:
            nested, _, _ = self._pattern(absent, entities)
            shared = _shared_variables(nested, entities)
            (operations if order.bound.issuperset(shared) else late).append(Without(nested, shared))
        for each_optional in optionals:
            operations += [each_optional, *order.bind(each_optional.binds)]
        operations += late
        is_pinned = any(isinstance(each, ByIds) for each in operations)
        program = PatternProgram(tuple(constants), tuple(operations), (None,) * len(operations))
        return program, entities, is_pinned

    def _need_edges(self, name: str) -> None:
        """Edges that are followed, and the nodes at their ends."""
        edge = self.catalog.edges[name]
        ends = self.catalog.nodes[edge.source].table_key, self.catalog.nodes[edge.destination].table_key
        self.links[edge.table_key] = ends
        for key in (edge.table_key, *ends):
            self.tables.setdefault(key, set())

    def _conditions(
        self, pattern: ir.Pattern, entities: Mapping[str, Bindable], constants: list[KnownComparison]
    ) -> Iterator[Condition]:
        for condition in pattern.conditions:
            match condition:
                case ir.SameEntity(left, right, negated):
                    if entities[left].table_key != entities[right].table_key:
                        raise NoProgram
                    yield Identity(left, right, negated)
                case ir.Comparison(ir.Column() as left, operator, ir.Column() as right) if _are_plain(left, right):
                    _check_comparable(left.type, operator, right.type)
                    self._need_column(left, entities)
                    self._need_column(right, entities)
                    both = _table_key(left.variable, entities), _table_key(right.variable, entities)
                    yield ColumnComparison(left, operator, right, both)
                case ir.Comparison(ir.Column() as column, operator, value) if is_known(value):
                    self._need_column(column, entities)
                    table = _table_key(column.variable, entities)
                    yield Test(column.variable, table, column, operator, value, is_mirrored=False)
                case ir.Comparison(value, operator, ir.Column() as column) if is_known(value):
                    if operator is not Operator.CONTAINS and operator not in MIRRORED:
                        raise NoProgram
                    self._need_column(column, entities)
                    table = _table_key(column.variable, entities)
                    yield Test(column.variable, table, column, operator, value, is_mirrored=True)
                case ir.Comparison(left, operator, right) if is_known(left) and is_known(right):
                    constants.append(KnownComparison(left, operator, right))
                case _:
                    nested: dict[int, NestedProgram] = {}
                    self._need(condition, entities, nested)
                    yield ComputedCondition(condition, _scope(entities, nested))


def _table_key(variable: str, entities: Mapping[str, Bindable]) -> str:
    """The table that has the values of a variable; those of a stage have the name of its variable."""
    return ir.STAGE if variable == ir.STAGE else entities[variable].table_key


def _scope(entities: Mapping[str, Bindable], nested: Mapping[int, NestedProgram]) -> Scope:
    return Scope({ir.STAGE: ir.STAGE, **{name: each.table_key for name, each in entities.items()}}, nested)


def _shared_variables(nested: PatternProgram, around: Mapping[str, Bindable]) -> tuple[str, ...]:
    return tuple(name for name in _variables_in(nested) if name in around or name == ir.STAGE)


def _are_plain(left: ir.Column, right: ir.Column) -> bool:
    """Whether two columns are compared as they are; others are converted, or searched in, as computed values are."""
    if ir.STAGE not in (left.variable, right.variable):
        return True
    is_mixed = left.type != right.type and bool({left.type, right.type} & FLOATS)
    return not is_mixed and not isinstance(left.type, List)


def _point(shape: ir.Shape, pattern: PatternProgram) -> tuple[ByIds, tuple[str, ...]] | None:
    if shape.grouped or shape.is_cut or pattern.constants or len(pattern.operations) != 1:
        return None
    (operation,) = pattern.operations
    columns = [each.expression for each in shape.columns]
    if not isinstance(operation, ByIds) or operation.tests:
        return None
    names = tuple(each.name for each in columns if isinstance(each, ir.Column))
    return (operation, names) if len(names) == len(columns) else None


def entity_columns(entity: Bindable) -> list[str]:
    """The fields of a whole entity, in their order."""
    return [*entity.system_columns, *(name for name in entity.properties if name not in entity.system_columns)]


def _schema(shape: ir.Shape, entities: Mapping[str, Bindable]) -> pa.Schema:
    return pa.schema([pa.field(each.name, _output_type(each.expression, entities)) for each in shape.columns])


def _output_type(expression: ir.Expression, entities: Mapping[str, Bindable]) -> pa.DataType:
    if isinstance(expression, ir.Entity):
        entity = entities[expression.variable]
        types = {name: property.type for name, property in entity.properties.items()}
        fields = [pa.field(name, arrow_type(types.get(name, Scalar.STRING))) for name in entity_columns(entity)]
        return pa.struct(fields)
    type = expression.type
    return pa.null() if type is None else arrow_type(type)


def _check_comparable(left: PropertyType, operator: Operator, right: PropertyType) -> None:
    """Columns that Arrow compares as the other engines do: of one type, or whole numbers that fit 64 bits."""
    if operator in (Operator.CONTAINS, Operator.STARTS_WITH):
        if not (is_text(left) and is_text(right)):
            raise NoProgram
        return
    if isinstance(left, List) or isinstance(right, List):
        raise NoProgram
    if left == right or (is_text(left) and is_text(right)):
        return
    if left in INTEGERS and right in INTEGERS and Scalar.U64 not in (left, right):
        return
    raise NoProgram


_COMPUTED = ir.Call | ir.Comparison | ir.SubPattern | ir.SameEntity
ROW = "@row"
"""The column of a frame in which a nested pattern keeps for which row it is looked for."""


def _is_computed(pattern: PatternProgram) -> bool:
    """Whether conditions of a pattern are computed."""
    for operation in pattern.operations:
        match operation:
            case Where(conditions) if any(isinstance(each, ComputedCondition) for each in conditions):
                return True
            case Without(nested) | Optionally(nested) if _is_computed(nested):
                return True
    return False


def _grouped_variables(shape: ir.Shape, scope: Scope) -> tuple[frozenset[str], frozenset[str]]:
    """The variables that groups and their values depend on, and those that are only counted where they are bound.

    Entities that are always bound are as many as rows.
    """
    found: set[str] = set()
    counted: set[str] = set()
    pending = [*shape.expressions]
    while pending:
        each = pending.pop()
        if isinstance(each, ir.Aggregate) and isinstance(each.argument, ir.Entity) and not each.distinct:
            if each.argument.nullable:
                counted.add(each.argument.variable)
            continue
        if isinstance(each, ir.Column | ir.Entity):
            found.add(each.variable)
        elif isinstance(each, ir.SubPattern):
            found.update(scope.variables(each))
        pending += ir.parts_of(each)
    return frozenset(found), frozenset(counted - found)


def _narrow(pattern: PatternProgram, needed: frozenset[str], counted: frozenset[str] = frozenset()) -> PatternProgram:
    """A pattern whose rows keep only variables that are needed in the end or by later operations, or `counted`."""
    live = _live_after(pattern.operations, needed | counted)
    valued = _live_after(pattern.operations, needed)
    operations = [
        _narrow_optional(each, after, of_value) if isinstance(each, Optionally) else each
        for each, after, of_value in zip(pattern.operations, live, valued, strict=True)
    ]
    return replace(pattern, operations=tuple(operations), live=live)


def _narrow_optional(optional: Optionally, live: frozenset[str], valued: frozenset[str]) -> Optionally:
    """An optional pattern by the variables that are needed after it, and those of which not only the presence is."""
    present, needed = (frozenset(optional.binds) & each for each in (live, valued))
    inner = {name for each in optional.pattern.operations if isinstance(each, Optionally) for name in each.binds}
    if not needed and not present & inner:
        return replace(optional, pattern=_narrow(optional.pattern, frozenset({ROW})), is_counted=True)
    return replace(optional, pattern=_narrow(optional.pattern, needed | {ROW}, present - needed))


def _live_after(operations: Sequence[Operation], needed: frozenset[str]) -> tuple[frozenset[str], ...]:
    """For each operation the variables that are needed after it, by those that follow or in the end."""
    found = []
    for operation in reversed(operations):
        found.append(needed)
        match operation:
            case EdgeStep():
                needed |= {operation.start, operation.end} if operation.is_end_bound else {operation.start}
            case Where(conditions):
                needed = needed.union(*(_variables(each) for each in conditions))
            case FindPaths(search=search):
                needed |= {search.source, search.destination} - {operation.opens}
            case AlongPath(step=step):
                needed |= {step.path, step.source, step.destination} - {*operation.binds}
            case Without(_, shared) | Optionally(_, shared):
                needed = needed.union(shared)
            case ByIds() | Scan():
                pass
    return tuple(reversed(found))


def _variables_in(pattern: PatternProgram) -> dict[str, None]:
    """All variables that operations name."""
    found: dict[str, None] = {}
    for operation in pattern.operations:
        match operation:
            case ByIds(variable) | Scan(variable):
                found[variable] = None
            case EdgeStep():
                found |= dict.fromkeys((operation.start, operation.end))
            case FindPaths(search=search):
                found |= dict.fromkeys((search.source, search.destination))
            case AlongPath(step=step):
                found |= dict.fromkeys((step.path, step.source, step.destination))
            case Where(conditions):
                for each in conditions:
                    found |= dict.fromkeys(_variables(each))
            case Without(nested) | Optionally(nested):
                found |= _variables_in(nested)
    return found


def _variables(condition: Condition) -> tuple[str, ...]:
    match condition:
        case Test(variable):
            return (variable,)
        case ColumnComparison(left, _, right):
            return (left.variable, right.variable)
        case Identity(left, right):
            return (left, right)
        case ComputedCondition(expression, scope):
            return tuple(dict.fromkeys(scope.variables(expression)))


_PINNED, _EQUAL, _FILTERED, _OPEN = range(4)


@dataclass(slots=True)
class _Order:
    """Decides which operation comes when: first what is given, then along the edges from there."""

    catalog: Catalog
    entities: Mapping[str, Bindable]
    bound: set[str]
    conditions: list[Condition]
    optional: set[str]

    def bind(self, variables: Iterable[str]) -> Iterator[Where]:
        """The conditions that can be decided once these variables are bound, too."""
        self.bound.update(variables)
        yield from self._where()

    def operations(self, pattern: ir.Pattern) -> list[Operation]:
        found: list[Operation] = []
        pending = list(pattern.connections)
        waiting = {node.variable: None for node in pattern.nodes}
        found += self._where()
        while True:
            ready = [each for each in pending if self._is_ready(each)]
            if ready:
                best = min(ready, key=lambda each: (not self.bound >= {each.source, each.destination}, _hops(each)))
                given = self._given_end(best)
                if given is not None:
                    found.append(self._start(given))
                else:
                    pending.remove(best)
                    found.append(self._follow(best))
            else:
                left = [variable for variable in waiting if variable not in self.bound]
                if not left:
                    return found
                found.append(self._start(min(left, key=self._rank)))
            found += self._where()

    def _tests(self, variable: str) -> tuple[Test, ...]:
        tests = tuple(each for each in self.conditions if isinstance(each, Test) and each.variable == variable)
        self.conditions = [each for each in self.conditions if each not in tests]
        self.bound.add(variable)
        return tests

    def _where(self) -> Iterator[Where]:
        """The conditions whose variables are all bound now."""
        ready = tuple(each for each in self.conditions if self.bound.issuperset(_variables(each)))
        if ready:
            self.conditions = [each for each in self.conditions if each not in ready]
            yield Where(ready)

    def _start(self, variable: str) -> ByIds | Scan:
        entity = self.entities[variable]
        tests = self._tests(variable)
        key = _key_tests(entity, tests)
        if key:
            others = tuple(test for test in tests if test not in key)
            return ByIds(variable, entity.table_key, key, others, _given_text(key))
        return Scan(variable, entity.table_key, tests)

    def _rank(self, variable: str) -> int:
        tests = [each for each in self.conditions if isinstance(each, Test) and each.variable == variable]
        if _key_tests(self.entities[variable], tests):
            return _PINNED
        if any(test.may_give_value for test in tests):
            return _EQUAL
        return _FILTERED if tests else _OPEN

    def _is_ready(self, connection: ir.Connection) -> bool:
        if isinstance(connection, ir.PathStep):
            return connection.path in self.bound
        return bool(self.bound & {connection.source, connection.destination})

    def _given_end(self, connection: ir.Connection) -> str | None:
        """An end of a search of paths that is found by its id, and is not bound yet: searches go on from both ends."""
        if isinstance(connection, ir.PathSearch):
            for end in (connection.source, connection.destination):
                if end not in self.bound and self._rank(end) == _PINNED:
                    return end
        return None

    def _follow(self, connection: ir.Connection) -> Operation:
        match connection:
            case ir.PathSearch():
                return self._search_paths(connection)
            case ir.PathStep():
                return self._step_along(connection)
            case _:
                return self._step(connection)

    def _search_paths(self, search: ir.PathSearch) -> FindPaths:
        edges = [self.catalog.edges[name] for name in search.edges]
        ends = search.source, search.destination
        may_lack_ends = bool(self.optional & {*ends} & self.bound)
        opens = next((end for end in ends if end not in self.bound), None)
        tests = () if opens is None else self._tests(opens)
        self.bound.add(search.variable)
        return FindPaths(
            search=search,
            key=self.entities[search.variable].table_key,
            tables=tuple(PathTable(each.table_key, each.name, each.source, each.destination) for each in edges),
            nodes=tuple((name, self.catalog.nodes[name].table_key) for name in node_types(edges)),
            opens=opens,
            tests=tests,
            may_lack_ends=may_lack_ends,
        )

    def _step_along(self, step: ir.PathStep) -> AlongPath:
        binds = tuple(end for end in dict.fromkeys((step.source, step.destination)) if end not in self.bound)
        found = (*binds, *(() if step.variable is None else (step.variable,)))
        return AlongPath(
            step=step,
            key=self.entities[step.path].table_key,
            binds=binds,
            tests=tuple(test for each in found for test in self._tests(each)),
            may_lack_path=step.path in self.optional,
        )

    def _step(self, traversal: ir.Traversal | ir.EdgeBinding) -> EdgeStep:
        edge = self.catalog.edges[traversal.edge]
        start, end, direction = traversal.source, traversal.destination, traversal.direction
        if start not in self.bound:
            start, end, direction = end, start, OPPOSITE[direction]
        is_end_bound = end in self.bound
        tests = () if is_end_bound else self._tests(end)
        if isinstance(traversal, ir.EdgeBinding):
            return EdgeStep(
                start=start,
                end=end,
                table=edge.table_key,
                direction=direction,
                is_end_bound=is_end_bound,
                edge=traversal.variable,
                tests=tests,
                edge_tests=self._tests(traversal.variable),
                may_lack_start=start in self.optional,
            )
        return EdgeStep(
            start=start,
            end=end,
            table=edge.table_key,
            direction=direction,
            is_end_bound=is_end_bound,
            minimum=traversal.minimum,
            maximum=traversal.maximum,
            tests=tests,
            may_lack_start=start in self.optional,
        )


def _hops(traversal: ir.Connection) -> float:
    if isinstance(traversal, ir.EdgeBinding | ir.PathStep):
        return 1
    if isinstance(traversal, ir.PathSearch):
        return float("inf")
    return float("inf") if traversal.maximum is None else traversal.maximum


def _key_tests(entity: Bindable, tests: Iterable[Test]) -> tuple[Test, ...]:
    """The tests that give the id of a node: one on the id, or an equality for each part of its key."""
    if not isinstance(entity, NodeType):
        return ()
    given: dict[str, Test] = {}
    for test in tests:
        if test.column.name == ID and test.may_give_value:
            return (test,)
        if test.operator is Operator.EQUAL:
            given.setdefault(test.column.name, test)
    return tuple(given[name] for name in entity.key) if entity.key and given.keys() >= {*entity.key} else ()


def _given_text(key: Sequence[Test]) -> ir.ParameterValue | ir.Constant | None:
    """The id that a key gives without being spelled by its type, because it is one text or whole number."""
    test, value = key[0], key[0].value
    if len(key) > 1 or test.is_mirrored or test.operator is not Operator.EQUAL:
        return None
    if not isinstance(value, ir.ParameterValue | ir.Constant):
        return None
    is_text = test.column.type is Scalar.STRING and value.type is Scalar.STRING
    return value if is_text or (test.column.type in INTEGERS and value.type in INTEGERS) else None
