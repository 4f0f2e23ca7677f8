"""The relational rest of a read as SQL that DuckDB and Spark both understand.

Values are parameters, never text. Whole entities come out as their columns: what is put together from them is the same
for both engines, and no SQL can name the fields of a struct as freely as a schema can.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field

from sqlglot import exp

from omnigraph.catalog import List, PropertyType, Scalar, Value
from omnigraph.catalog.types import FLOATS, NUMBERS
from omnigraph.catalog.values import ScalarValue
from omnigraph.compiler import ir
from omnigraph.dataclass_later import dataclass
from omnigraph.query.computing import ColumnTest, Resolved
from omnigraph.query.levels import (
    Bound,
    Compared,
    Computed,
    Holds,
    Level,
    LevelBuilder,
    OnColumn,
    Operand,
    Residual,
    Same,
)
from omnigraph.query.ordering import FieldMatch, FieldPlace, StepOrder
from omnigraph.query.sql_text import operation_of
from omnigraph.query.steps import TYPE, Relation
from omnigraph.storage.predicates import ColumnPredicate, PredicateKind, is_text
from omnigraph.syntax.query_ast import Operator, SubPatternKind

_SQL_TYPES = {
    Scalar.STRING: exp.DataType(this=exp.DataType.Type.VARCHAR),
    Scalar.BOOL: exp.DataType(this=exp.DataType.Type.BOOLEAN),
    Scalar.I32: exp.DataType(this=exp.DataType.Type.INT),
    Scalar.I64: exp.DataType(this=exp.DataType.Type.BIGINT),
    # Spark has no unsigned integers; these hold all their values.
    Scalar.U32: exp.DataType(this=exp.DataType.Type.BIGINT),
    Scalar.U64: exp.DataType(
        this=exp.DataType.Type.DECIMAL,
        expressions=[exp.DataTypeParam(this=exp.Literal.number(each)) for each in (20, 0)],
    ),
    Scalar.F32: exp.DataType(this=exp.DataType.Type.FLOAT),
    Scalar.F64: exp.DataType(this=exp.DataType.Type.DOUBLE),
    Scalar.DATE: exp.DataType(this=exp.DataType.Type.DATE),
    Scalar.DATETIME: exp.DataType(this=exp.DataType.Type.TIMESTAMPTZ),
}
_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}


@dataclass(slots=True)
class Joined:
    """Relations that are joined: the first, how the others are joined to it, and what ties them to others."""

    first: exp.Table
    others: list[exp.Join] = field(default_factory=list)
    outer: list[exp.Expr] = field(default_factory=list)


@dataclass(slots=True)
class Sql:
    """Writes the conditions and joins of a planned pattern."""

    ordered: StepOrder
    texts: LevelBuilder
    """Knows the fields of searches."""
    parameters: dict[str, Value] = field(default_factory=dict)

    def select(self, level: Level, columns: Iterable[exp.Expr]) -> exp.Select:
        """The columns for each way in which the pattern is found; variables around it may be used.

        Each of its optional patterns must be one join.
        """
        joined = self.join(self.ordered.relations[id(level)])
        select = exp.Select(expressions=list(columns)).from_(joined.first)
        select.set("joins", [*joined.others, *map(self.left_join, level.optional)])
        for condition in (*joined.outer, *self.conditions(level)):
            select = select.where(condition, copy=False)
        return select.where(exp.false(), copy=False) if level.is_empty else select

    def relations_of(self, optional: Level) -> list[Relation]:
        """The relations that an optional pattern adds to the rows of what is around it."""
        inner = (relation for each in optional.optional for relation in self.relations_of(each))
        return [*self.ordered.relations[id(optional)], *inner]

    def join(self, relations: Sequence[Relation]) -> Joined:
        """Relations joined with each other."""
        here = {relation.name for relation in relations}
        joined = Joined(_table(relations[0]))
        for relation in relations:
            conditions: list[exp.Expr] = []
            for meeting in self.ordered.meetings[relation.name]:
                # A nested query may name the variables around it only in `WHERE`.
                inside = meeting.other.relation.name in here and relation is not relations[0]
                (conditions if inside else joined.outer).append(self._match_condition(meeting))
            if relation is not relations[0]:
                joined.others.append(join_of(_table(relation), conditions))
        return joined

    def left_join(self, level: Level) -> exp.Join:
        """The relations of an optional pattern, joined to the rows of what is around it."""
        joined = self.join(self.relations_of(level))
        table: exp.Expr = joined.first
        if joined.others:
            table.set("joins", joined.others)
            table = exp.Subquery(this=table)
        conditions = [exp.false()] if level.fits_never else [*joined.outer, *self.conditions(level)]
        return exp.Join(this=table, side="LEFT", on=exp.and_(*conditions) if conditions else exp.true())

    def conditions(self, level: Level) -> list[exp.Expr]:
        """What must hold beside the joins of a pattern."""
        conditions = [self._residual(each, level) for each in level.residual]
        return [*conditions, *(exp.Not(this=self._exists(inner)) for inner in level.absent)]

    def _exists(self, level: Level) -> exp.Expr:
        """Whether a nested pattern is found at least once; never null."""
        if self.ordered.relations[id(level)]:
            return exp.Exists(this=self.select(level, [exp.Literal.number(1)]))
        # Only conditions on what is around: null is not found.
        conditions = self.conditions(level)
        together = exp.and_(*conditions) if conditions else exp.true()
        return exp.Coalesce(this=exp.Paren(this=together), expressions=[exp.false()])

    def _match_condition(self, meeting: FieldMatch) -> exp.Expr:
        same = exp.EQ(this=at(meeting.place), expression=at(meeting.other))
        if meeting.type is None:
            return same
        tag = exp.EQ(this=self.tag(meeting.bound), expression=exp.Literal.string(meeting.type))
        return exp.and_(same, tag)

    # --- values ---

    def id(self, bound: Bound) -> exp.Expr:
        """The id of a variable."""
        return at(self.ordered.anchors[id(bound)])

    def tag(self, bound: Bound) -> exp.Expr:
        """The name of the node type of a variable that ranges over several."""
        assert bound.relation is not None
        return at(FieldPlace(bound.relation, TYPE))

    def identity(self, bound: Bound) -> list[exp.Expr]:
        """What tells an entity from all others of its variable."""
        return [self.id(bound), self.tag(bound)] if bound.is_tagged else [self.id(bound)]

    def column(self, bound: Bound, name: str) -> exp.Expr:
        """A column of a variable, or a field that is computed of it."""
        if bound.relation is None or name not in bound.relation.fields:
            return self.id(bound)
        return at(FieldPlace(bound.relation, name))

    def value(self, value: ScalarValue, type: PropertyType) -> exp.Expr:
        """A known value, as a parameter of its type."""
        name = f"v{len(self.parameters)}"
        self.parameters[name] = value
        return exp.Cast(this=exp.Placeholder(this=name), to=sql_type(type))

    # --- conditions ---

    def _residual(self, condition: Residual, level: Level) -> exp.Expr:
        match condition:
            case OnColumn(bound, predicate):
                return self.predicate(self.column(bound, predicate.column), predicate)
            case Compared(left, operator, right):
                return self._comparison(left, operator, right)
            case Holds(bound, name):
                return self.column(bound, name)
            case Same(left, right, negated):
                return self._same(left, right, negated=negated)
            case Computed(expression):
                return self.expression(expression, level)

    def expression(self, expression: Resolved, level: Level) -> exp.Expr:
        """A computed value, over the relations of a pattern and of those around it."""
        match expression:
            case ir.Constant(value, type):
                return self._constant(value, type)
            case ir.Column(variable, name):
                return self.column(level.lookup(variable), name)
            case ColumnTest(column, predicate):
                return exp.Paren(this=self.predicate(self.expression(column, level), predicate))
            case ir.Call(operation, arguments):
                return operation_of(operation, [self.expression(each, level) for each in arguments])
            case ir.SameEntity(left, right, negated):
                same = self._same(level.lookup(left), level.lookup(right), negated=negated)
                return exp.Paren(this=same)
            case ir.TextMatch():
                found = self.texts.text_field(expression, level)
                if found is None:
                    return exp.false()
                holds = self.column(*found)
                return exp.Coalesce(this=holds, expressions=[exp.false()]) if found[0].is_optional else holds
            case ir.SubPattern(kind):
                return self._sub_pattern(kind, level.asked[id(expression)])
        raise TypeError(expression)

    def _constant(self, value: Value | None, type: PropertyType | None) -> exp.Expr:
        if isinstance(type, List):
            element = exp.DataType(this=exp.DataType.Type.ARRAY, expressions=[sql_type(type.element)], nested=True)
            if not isinstance(value, tuple):
                return exp.Cast(this=exp.null(), to=element)
            items = [self.value(each, type.element) for each in value]
            return exp.Cast(this=exp.Array(expressions=items), to=element)
        if value is None:
            return exp.Cast(this=exp.null(), to=sql_type(type or Scalar.BOOL))
        assert not isinstance(value, tuple)
        assert type is not None
        return self.value(value, type)

    def _sub_pattern(self, kind: SubPatternKind, level: Level) -> exp.Expr:
        if kind is SubPatternKind.EXISTS:
            return exp.false() if level.is_empty else exp.Paren(this=self._exists(level))
        number = exp.DataType(this=exp.DataType.Type.BIGINT)
        if level.is_empty:
            return exp.Cast(this=exp.Literal.number(0), to=number)
        if self.ordered.relations[id(level)]:
            count = self.select(level, [exp.Count(this=exp.Star())])
            return exp.Cast(this=exp.Subquery(this=count), to=number)
        branch = exp.If(this=self._exists(level), true=exp.Literal.number(1))
        return exp.Cast(this=exp.Case(ifs=[branch], default=exp.Literal.number(0)), to=number)

    def _same(self, left: Bound, right: Bound, *, negated: bool) -> exp.Expr:
        conditions: list[exp.Expr] = [exp.EQ(this=self.id(left), expression=self.id(right))]
        if left.is_tagged or right.is_tagged:
            conditions.append(exp.EQ(this=self._type_name(left), expression=self._type_name(right)))
        same = exp.and_(*conditions)
        if (left.is_optional or right.is_optional) and len(conditions) > 1:
            # Null is the answer for what is missing, also where the types differ.
            both = (exp.Not(this=exp.Is(this=self.id(each), expression=exp.null())) for each in (left, right))
            same = exp.Case(ifs=[exp.If(this=exp.and_(*both), true=same)])
        return exp.Not(this=exp.Paren(this=same)) if negated else same

    def _type_name(self, bound: Bound) -> exp.Expr:
        return self.tag(bound) if bound.is_tagged else exp.Literal.string(bound.entities[0].name)

    def predicate(self, column: exp.Expr, predicate: ColumnPredicate) -> exp.Expr:
        """A predicate of a column; null where the column is, unless it asks for what is known."""
        values = [self.value(each, predicate.value_type) for each in predicate.values]
        match predicate.test:
            case PredicateKind.KNOWN:
                return exp.Not(this=exp.Is(this=column, expression=exp.null()))
            case PredicateKind.ONE_OF:
                return exp.In(this=column, expressions=values)
            case PredicateKind.ELEMENT:
                return exp.ArrayContains(this=column, expression=values[0])
            case PredicateKind.PART:
                return exp.Contains(this=column, expression=values[0])
            case PredicateKind.PREFIX:
                return exp.StartsWith(this=column, expression=values[0])
            case comparison:
                return _COMPARISONS[comparison](this=column, expression=values[0])

    def _comparison(self, left: Operand, operator: Operator, right: Operand) -> exp.Expr:
        low, high = self._operand(left), self._operand(right)
        if operator is Operator.STARTS_WITH:
            return exp.StartsWith(this=low, expression=high)
        if operator is Operator.CONTAINS:
            listed = isinstance(left.type, List)
            return (exp.ArrayContains if listed else exp.Contains)(this=low, expression=high)
        if left.type != right.type and left.type in NUMBERS and {left.type, right.type} & FLOATS:
            # Of an integer and an F32, engines would make an F32, which has fewer digits than either.
            double = _SQL_TYPES[Scalar.F64]
            low, high = exp.Cast(this=low, to=double.copy()), exp.Cast(this=high, to=double.copy())
        return _COMPARISONS[operator](this=low, expression=high)

    def _operand(self, operand: Operand) -> exp.Expr:
        if operand.bound is not None:
            return self.column(operand.bound, operand.column)
        assert operand.known.value is not None
        assert not isinstance(operand.known.value, tuple)
        return self.value(operand.known.value, operand.type)


def sql_type(type: PropertyType) -> exp.DataType:
    """The type of SQL that holds all values of a scalar type, on both engines."""
    return _SQL_TYPES[Scalar.STRING if is_text(type) else Scalar(str(type))].copy()


def at(place: FieldPlace) -> exp.Expr:
    """A field of a relation, in SQL."""
    return exp.column(place.relation.alias(place.field), table=place.relation.name)


def join_of(table: exp.Expr, conditions: Sequence[exp.Expr]) -> exp.Join:
    """A join by conditions, or of every row with every row."""
    return exp.Join(this=table, on=exp.and_(*conditions)) if conditions else exp.Join(this=table, kind="CROSS")


def _table(relation: Relation) -> exp.Table:
    return exp.to_table(relation.name)
