"""A pattern with its variables resolved and its conditions sorted by where they are decided.

A condition on one variable and known values is pushed into the scan of that variable. What relates variables, and what
a nested pattern asks of a variable around it, is left for the relational rest.
"""

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa

from omnigraph.catalog import Catalog, EntityType, Interface, NodeType, PropertyType, Scalar, Value
from omnigraph.catalog.keys import node_id
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import NUMBERS
from omnigraph.compiler import ir
from omnigraph.compiler.paths import PathType
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import ParameterError
from omnigraph.operations import evaluate
from omnigraph.query.computing import ColumnTest, Resolved, constant_array, mirror_comparison, resolve
from omnigraph.query.steps import Computed as ComputedField
from omnigraph.query.steps import Relation, TextMatching
from omnigraph.query.words import words_of
from omnigraph.storage.predicates import (
    ColumnPredicate,
    PredicateKind,
    Reduced,
    choice_predicate,
    column_predicate,
)
from omnigraph.syntax.query_ast import Operator

DEFAULT_EDITS, MAX_EDITS = 1, 2
EXACT = frozenset({PredicateKind.EQUAL, PredicateKind.ONE_OF})
"""The kinds of predicates that give the values that a column can have."""


# --- values that are known before anything is read ---

_COMPARISONS: Mapping[PredicateKind, Callable[[Any, Any], bool]] = {
    PredicateKind.EQUAL: operator.eq,
    PredicateKind.NOT_EQUAL: operator.ne,
    PredicateKind.LESS: operator.lt,
    PredicateKind.LESS_OR_EQUAL: operator.le,
    PredicateKind.GREATER: operator.gt,
    PredicateKind.GREATER_OR_EQUAL: operator.ge,
}


@dataclass(frozen=True, slots=True)
class Known:
    """A value and its type; only null has none."""

    value: Value | None
    type: PropertyType | None


class KnownValues:
    """The values of one run of a query."""

    def __init__(self, parameters: Mapping[str, Value | None], now: datetime) -> None:
        self._parameters = parameters
        self._now = now

    def value_of(self, expression: ir.ParameterValue | ir.Constant) -> Value | None:
        """The value of a parameter or a constant."""
        return self._parameters[expression.name] if isinstance(expression, ir.ParameterValue) else expression.value

    def of(self, expression: ir.Expression) -> Known | None:
        """The value of an expression, or None when it depends on what is read."""
        match expression:
            case ir.ParameterValue(name, type):
                return Known(self._parameters[name], type)
            case ir.Constant(value, type):
                return Known(value, type)
            case ir.Now(type):
                instant = self._now.astimezone(UTC)
                return Known(instant.replace(microsecond=instant.microsecond // 1000 * 1000), type)
            case ir.ListOf(items, type):
                values = [
                    item.value if isinstance(item, ir.Constant) else self._parameters[item.name] for item in items
                ]
                # A null in the list equals nothing, so it is left out.
                return Known(tuple(each for each in values if each is not None and not isinstance(each, tuple)), type)
            case ir.Call() | ir.Comparison():
                return self._compute(expression)
        return None

    def _compute(self, expression: ir.Call | ir.Comparison) -> Known | None:
        """The value of an expression that is computed of known values only."""
        if isinstance(expression, ir.Comparison):
            left, right = self.of(expression.left), self.of(expression.right)
            if left is None or right is None:
                return None
            is_null = left.value is None or right.value is None
            return Known(None if is_null else holds(left, expression.operator, right), Scalar.BOOL)
        arguments = []
        for each in expression.arguments:
            known = self.of(each)
            if known is None:
                return None
            arguments.append(known)
        constants = [ir.Constant(each.value, each.type or expression.type) for each in arguments]
        found = evaluate(expression.operation, [constant_array(each, 1) for each in constants], expression.type)[
            0
        ].as_py()
        if isinstance(found, datetime):
            found = found.astimezone(UTC)
        return Known(tuple(found) if isinstance(found, list) else found, expression.type)


class Page:
    """Which rows are wanted, by their positions in the order: from `first` on, and only those before `end`."""

    # No dataclass: one is needed before the first query, and declaring that would take longer than answering it.
    __slots__ = ("end", "first")

    def __init__(self, first: int = 0, end: int | None = None) -> None:
        self.first = first
        self.end = end

    @property
    def count(self) -> int | None:
        """How many rows are wanted at most."""
        return None if self.end is None else self.end - self.first

    @property
    def is_empty(self) -> bool:
        """Whether no row is wanted."""
        return self.count == 0

    def of_rows(self, rows: pa.Table) -> pa.Table:
        """The wanted rows of all, or of all before the end."""
        first = min(self.first, rows.num_rows)
        return rows.slice(first, self.count)


ALL_ROWS = Page()
_LAST_ROW = 2**63 - 1


def page_of(shape: ir.Shape, values: KnownValues, query: str) -> Page:
    """Which rows are wanted; raises `ParameterError` for a number below zero.

    Of a part of a union, no rows are left out before the limit: others may come before them.
    """
    if not shape.is_cut:
        return ALL_ROWS
    first = _row_count(shape.offset, values, query, "an offset") if shape.offset is not None else 0
    if shape.limit is None:
        return Page(first)
    end = min(first + _row_count(shape.limit, values, query, "a limit"), _LAST_ROW)
    return Page(0 if shape.is_part else first, end)


def _row_count(count: ir.Expression, values: KnownValues, query: str, what: str) -> int:
    known = values.of(count)
    assert known is not None
    assert isinstance(known.value, int)
    if known.value < 0:
        assert isinstance(count, ir.ParameterValue)
        raise ParameterError(query, [(count.name, f"is {known.value}: expected {what} of 0 or more")])
    return min(known.value, _LAST_ROW)


def holds(left: Known, comparison: Operator, right: Known) -> bool:
    """Whether a comparison of two known values holds."""
    if left.value is None or right.value is None or left.type is None or right.type is None:
        return False
    if comparison is Operator.CONTAINS and isinstance(left.value, tuple):
        found = choice_predicate("", right.type, left.value, left.type)
        return not isinstance(found, bool) and right.value in found.values
    if comparison is Operator.CONTAINS:
        return str(right.value) in str(left.value)
    if comparison is Operator.STARTS_WITH:
        return str(left.value).startswith(str(right.value))
    type = Scalar.F64 if left.type in NUMBERS else left.type
    if isinstance(left.value, int) and isinstance(right.value, int):
        type = left.type
    found = column_predicate("", type, comparison, right.value, right.type)
    if isinstance(found, bool):
        return found
    return found.test is PredicateKind.KNOWN or bool(_COMPARISONS[found.test](left.value, found.values[0]))


# --- variables and conditions ---


@dataclass(slots=True, eq=False)
class Bound:
    """A variable while its query is planned: what is needed of it, and what is known about it.

    One that a stage carries on stands in the relation of the stage, with all that is needed of it. Its `origin` is the
    variable that it was in that stage; the values of the stage, which are the columns of one variable, have none.
    """

    key: str
    entities: tuple[EntityType, ...]
    interface: Interface | None = None
    is_reached: bool = False
    path: ir.PathSearch | None = None
    """The search whose paths the variable is bound to."""
    is_stepped: bool = False
    """Whether the edges of its paths are asked for one by one."""
    is_optional: bool = False
    """Whether it is null where the optional pattern that binds it does not fit."""
    needs: dict[str, None] = field(default_factory=dict)
    predicates: list[ColumnPredicate] = field(default_factory=list)
    computed: list[ComputedField] = field(default_factory=list)
    required: list[str] = field(default_factory=list)
    relation: Relation | None = None
    is_carried: bool = False
    origin: "Bound | None" = None

    @property
    def is_tagged(self) -> bool:
        """Whether an id alone does not tell an entity, because nodes of several types are meant."""
        return len(self.entities) != 1 and self.path is None

    @property
    def is_pinned(self) -> bool:
        """Whether a condition gives the ids that the variable can have."""
        return any(map(gives_id, self.predicates))

    @property
    def only_type(self) -> EntityType | None:
        return self.entities[0] if len(self.entities) == 1 else None

    @property
    def needs_scan(self) -> bool:
        """Whether the edges around a node do not tell everything that is asked of it."""
        others = any(name != ID for name in self.needs) or any(each.column != ID for each in self.predicates)
        return not self.is_carried and (not self.is_reached or others or bool(self.computed))

    def type_of(self, column: str) -> PropertyType:
        """The type of a property or system column, which all types of the variable share."""
        if self.path is not None:
            return PathType("", self.path.weight is not None).properties[column].type
        properties = (
            self.entities[0].properties if self.entities else self.interface.properties if self.interface else {}
        )
        return properties[column].type if column in properties else Scalar.STRING

    def add_computed(self, computed: ComputedField) -> str:
        """The field for something computed of each row; the same thing is computed once."""
        if self.origin is not None:
            name = self.origin.add_computed(computed)
            self.needs[name] = None
            return name
        if computed not in self.computed:
            self.computed.append(computed)
        return f"@{self.computed.index(computed)}"


@dataclass(frozen=True, slots=True)
class Operand:
    """A side of a comparison: a column, or a value."""

    bound: Bound | None
    column: str
    known: Known
    type: PropertyType


@dataclass(frozen=True, slots=True)
class OnColumn:
    """A predicate on a variable that is bound elsewhere, or not scanned."""

    bound: Bound
    predicate: ColumnPredicate


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison that relates columns."""

    left: Operand
    operator: Operator
    right: Operand


@dataclass(frozen=True, slots=True)
class Same:
    """Whether two variables are one entity."""

    left: Bound
    right: Bound
    negated: bool


@dataclass(frozen=True, slots=True)
class Holds:
    """Whether a computed field is true."""

    bound: Bound
    field: str


@dataclass(frozen=True, slots=True)
class Computed:
    """A condition that is computed of the values of a row. What is known in it is a constant."""

    condition: Resolved


Residual: TypeAlias = OnColumn | Compared | Same | Holds | Computed


@dataclass(slots=True, eq=False)
class Level:
    """One pattern: the outermost, what is inside a `not`, or an optional one.

    Around the outermost is what a stage carries on to it.
    """

    pattern: ir.Pattern
    parent: "Level | None" = None
    own: dict[str, Bound] = field(default_factory=dict)
    residual: list[Residual] = field(default_factory=list)
    absent: list["Level"] = field(default_factory=list)
    optional: list["Level"] = field(default_factory=list)
    is_optional: bool = False
    asked: dict[int, "Level"] = field(default_factory=dict)
    """The patterns that expressions ask for, by the identity of their `ir.SubPattern`."""
    is_empty: bool = False

    def lookup(self, name: str) -> Bound:
        """The variable of this name, here or around."""
        found = self._lookup_here(name)
        if found is not None:
            return found
        assert self.parent is not None, name
        return self.parent.lookup(name)

    def _lookup_here(self, name: str) -> Bound | None:
        inner = (found for each in self.optional if (found := each._lookup_here(name)) is not None)
        return self.own.get(name) or next(inner, None)

    def visible(self) -> Iterator[Bound]:
        """The variables of this pattern, and then those of its optional ones."""
        yield from self.own.values()
        for each in self.optional:
            yield from each.visible()

    @property
    def fits_never(self) -> bool:
        """Whether this is an optional pattern of which nothing is found, whatever the data."""
        around = self.parent is not None and self.parent.fits_never
        return self.is_optional and (self.is_empty or around)

    def is_own(self, bound: Bound) -> bool:
        return any(bound is each for each in self.own.values())


class LevelBuilder:
    """Resolves a pattern, outermost first."""

    def __init__(self, query: str, catalog: Catalog, values: KnownValues) -> None:
        self._query = query
        self._catalog = catalog
        self._values = values
        self._count = 0

    def level(self, pattern: ir.Pattern, parent: Level | None = None, *, is_optional: bool = False) -> Level:
        """A pattern with everything it asks of its variables and of those around it."""
        level = Level(pattern, parent, is_optional=is_optional)
        reached = {end for each in pattern.connections for end in each.ends_with_ids}
        suffix = "" if parent is None else f"'{self._count}"
        self._count += 1
        for node in pattern.nodes:
            types = tuple(self._catalog.nodes[name] for name in node.types)
            interface = self._catalog.interfaces[node.interface] if node.interface else None
            level.own[node.variable] = Bound(
                node.variable + suffix, types, interface, node.variable in reached, is_optional=is_optional
            )
        for variable, edge in pattern.bound_edges:
            level.own[variable] = Bound(variable + suffix, (self._catalog.edges[edge],), is_optional=is_optional)
        for path in pattern.paths:
            level.own[path.variable] = Bound(path.variable + suffix, (), path=path, is_optional=is_optional)
        for step in pattern.path_steps:
            level.lookup(step.path).is_stepped = True
        for optional in pattern.optional:
            level.optional.append(self.level(optional, level, is_optional=True))
        for condition in pattern.conditions:
            self._place(condition, level)
        for nested in pattern.absent:
            inner = self.level(nested, level)
            if not inner.is_empty:
                level.absent.append(inner)
        for bound in level.own.values():
            if bound.only_type is not None:
                bound.predicates = by_id(bound.only_type, bound.predicates)
        return level

    # --- conditions ---

    def _place(self, condition: ir.Condition, level: Level) -> None:
        match condition:
            case ir.SameEntity(left, right, negated):
                level.residual.append(Same(level.lookup(left), level.lookup(right), negated))
            case ir.TextMatch():
                self._place_text_match(condition, level)
            case ir.Comparison():
                self._place_comparison(condition, level)
            case ir.Call("not", (ir.Call("is null", (ir.Column(_, name, type) as column,)),)):
                self._place_predicate(column, ColumnPredicate(name, type, PredicateKind.KNOWN), level)
            case _:
                self._place_computed(condition, level)

    def _place_computed(self, condition: ir.Condition, level: Level) -> None:
        resolved = resolve(condition, self._values)
        if isinstance(resolved, ir.Constant):
            level.is_empty |= resolved.value is not True
            return
        self.ask(resolved, level)
        level.residual.append(Computed(resolved))

    def ask(self, expression: Resolved, level: Level) -> None:
        """Tells the variables around an expression which of their columns it needs, and resolves its patterns."""
        match expression:
            case ColumnTest(column):
                self.ask(column, level)
            case ir.Column(variable, name):
                level.lookup(variable).needs[name] = None
            case ir.SubPattern(_, pattern):
                if id(expression) not in level.asked:
                    level.asked[id(expression)] = self.level(pattern, level)
            case ir.TextMatch():
                self.text_field(expression, level)
            case _:
                for part in ir.parts_of(expression):
                    self.ask(part, level)

    def _place_comparison(self, condition: ir.Comparison, level: Level) -> None:
        left, operator, right = condition.left, condition.operator, condition.right
        low, high = self._values.of(left), self._values.of(right)
        if low is not None and high is not None:
            level.is_empty |= not holds(low, operator, high)
        elif _is_null(low) or _is_null(high):
            level.is_empty = True
        elif isinstance(left, ir.Column) and high is not None:
            assert high.value is not None
            assert high.type is not None
            self._place_predicate(left, column_predicate(left.name, left.type, operator, high.value, high.type), level)
        elif (
            isinstance(right, ir.Column)
            and low is not None
            and (found := mirror_comparison(low, operator, right)) is not None
        ):
            self._place_predicate(right, found, level)
        elif not all(isinstance(side, ir.Column) or known for side, known in ((left, low), (right, high))):
            self._place_computed(condition, level)
        else:
            sides = (self._operand(left, low, level), self._operand(right, high, level))
            level.residual.append(Compared(sides[0], operator, sides[1]))

    def _place_predicate(self, column: ir.Column, found: Reduced, level: Level) -> None:
        bound = level.lookup(column.variable)
        if isinstance(found, bool):
            level.is_empty |= not found
        elif level.is_own(bound) and bound.path is None:
            bound.predicates.append(found)
        else:
            bound.needs[column.name] = None
            level.residual.append(OnColumn(bound, found))

    def _operand(self, expression: ir.Expression, known: Known | None, level: Level) -> Operand:
        if known is not None:
            assert known.type is not None
            return Operand(None, "", known, known.type)
        assert isinstance(expression, ir.Column)
        bound = level.lookup(expression.variable)
        bound.needs[expression.name] = None
        return Operand(bound, expression.name, Known(None, None), expression.type)

    def _place_text_match(self, condition: ir.TextMatch, level: Level) -> None:
        found = self.text_field(condition, level)
        if found is None:
            level.is_empty = True
        elif level.is_own(found[0]):
            found[0].required.append(found[1])
        else:
            level.residual.append(Holds(*found))

    def text_field(self, condition: ir.TextMatch, level: Level) -> tuple[Bound, str] | None:
        """The variable and its field that says whether a search finds something; None if it never does."""
        query, edits = self._values.of(condition.query), self._edits(condition)
        words = words_of(str(query.value)) if query is not None and query.value is not None else ()
        if not words or edits is None:
            return None
        bound = level.lookup(condition.column.variable)
        return bound, bound.add_computed(TextMatching(condition.column.name, condition.kind, tuple(words), edits))

    def _edits(self, condition: ir.TextMatch) -> int | None:
        if condition.kind is not ir.TextMatchKind.FUZZY:
            return 0
        if condition.edits is None:
            return DEFAULT_EDITS
        known = self._values.of(condition.edits)
        if known is None or known.value is None:
            return None
        assert isinstance(known.value, int)
        if not 0 <= known.value <= MAX_EDITS and isinstance(condition.edits, ir.ParameterValue):
            problem = f"is {known.value}, but the edits of `fuzzy` are 0 to {MAX_EDITS}"
            raise ParameterError(self._query, [(condition.edits.name, problem)])
        return known.value


def levels_below(level: Level) -> Iterator[Level]:
    """A level and all that are nested in it, outermost first, and what is optional before what uses its variables.

    Of an optional level of which nothing is found only the variables are needed, which are null.
    """
    yield level
    for optional in level.optional:
        yield from levels_below(optional)
    for inner in (*level.absent, *level.asked.values()):
        if not inner.is_empty and not level.fits_never:
            yield from levels_below(inner)


def gives_id(predicate: ColumnPredicate) -> bool:
    """Whether a predicate gives the id, or a choice of ids."""
    return predicate.column == ID and predicate.test in EXACT


def _is_null(known: Known | None) -> bool:
    return known is not None and known.value is None


def by_id(entity: EntityType, predicates: list[ColumnPredicate]) -> list[ColumnPredicate]:
    """Asks for the id where a whole key is given: the id is derived from it and always indexed."""
    if not isinstance(entity, NodeType) or not entity.key:
        return predicates
    given = {each.column: each for each in predicates if each.test is PredicateKind.EQUAL}
    if not all(name in given for name in entity.key):
        return predicates
    used = [given[name] for name in entity.key]
    derived = node_id([each.values[0] for each in used], [each.type for each in used])
    others = [each for each in predicates if all(each is not one for one in used)]
    return [ColumnPredicate(ID, Scalar.STRING, PredicateKind.EQUAL, (derived,)), *others]
