"""The answer of a read as one statement over the relations of its steps, for DuckDB and Spark."""

from collections.abc import Iterable, Sequence
from dataclasses import field
from itertools import pairwise

from sqlglot import exp

from omnigraph.catalog import Scalar
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import INTEGERS
from omnigraph.compiler import ir
from omnigraph.dataclass_later import dataclass
from omnigraph.query import steps
from omnigraph.query.answers import COMPUTED, Answer, entity_fields, nulls_first, typed_outputs
from omnigraph.query.computing import ColumnTest, Resolved, fit_sum, resolve
from omnigraph.query.left_joins import select_rows
from omnigraph.query.levels import Bound, Page
from omnigraph.query.relational import Sql
from omnigraph.query.sql_text import operation_of
from omnigraph.query.stages import PlannedStage


def write_statement(stages: Sequence[PlannedStage], sql: Sql) -> tuple[steps.Relational, tuple[steps.Output, ...]]:
    """The statement of the last stage, and how the answer is put together from what it selects.

    Each stage before is a relation of it. Where the next one keeps its order, this has the columns that sort it.
    """
    before: list[exp.Ordered] = []
    written = []
    for stage, following in pairwise(stages):
        writer = _Columns(stage.answer, sql, before)
        statement, before = writer.stage(stage, keeps_order=not following.answer.shape.grouped)
        written.append((stage.relation.name, statement))
    last = stages[-1]
    writer = _Columns(last.answer, sql, before)
    outputs = tuple(writer.output(column) for column in last.answer.shape.columns)
    statement = writer.statement(last.page)
    for name, each in written:
        statement = statement.with_(name, as_=each, copy=False)
    return steps.Relational(statement, writer.sql.parameters), outputs


@dataclass(slots=True)
class _Columns:
    """Collects the columns of the statement: what is computed of a row, and what is returned."""

    answer: Answer
    sql: Sql
    before: Sequence[exp.Ordered] = ()
    """The order of the rows of the stage before."""
    inner: dict[str, exp.Expr] = field(default_factory=dict)
    selected: list[exp.Expr] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    ordinals: dict[ir.Expression, int] = field(default_factory=dict)
    outer: dict[ir.Expression, exp.Expr] = field(default_factory=dict)

    def output(self, column: ir.OutputColumn) -> steps.Output:
        """How a returned column is taken from what the statement selects."""
        expression = column.expression
        known = self.answer.values.of(expression)
        if known is not None:
            return steps.ConstantOutput(column.name, known.value, known.type)
        if isinstance(expression, ir.Entity):
            bound = self.answer.level.lookup(expression.variable)
            fields = [(label, self._entity_field(bound, name), name) for label, name in entity_fields(bound)]
            return steps.EntityOutput(column.name, typed_outputs(bound, fields), expression.nullable)
        assert not isinstance(expression, ir.Constant)
        if expression not in self.ordinals:
            self.ordinals[expression] = self._select(self._outer(expression))
        return steps.ValueOutput(column.name, self.ordinals[expression], expression.type)

    def statement(self, page: Page) -> exp.Select:
        """The wanted rows of the answer in their order, whose columns are called ``o0``, ``o1``, …"""
        order = self._sort_selected(self._order(), "o")
        return _cut(self._select_rows("o"), order, page)

    def stage(self, stage: PlannedStage, *, keeps_order: bool) -> tuple[exp.Select, list[exp.Ordered]]:
        """The rows of a stage as its relation, and the columns of it that have their order, if that is to be kept."""
        for column, bound, name in stage.fields:
            if bound.origin is not None:
                self._entity_field(bound.origin, name)
            else:
                self._select(self._outer(fit_sum(column.expression)))
        order = self._order()
        kept = []
        for key in order if keeps_order else ():
            place = exp.column(f"c{self._select(key.this.copy())}", table=stage.relation.name)
            kept.append(exp.Ordered(this=place, desc=key.args["desc"], nulls_first=key.args["nulls_first"]))
        is_cut = stage.page.end is not None or stage.page.first
        sorting = self._sort_selected(order, "c") if is_cut else []
        return _cut(self._select_rows("c"), sorting, stage.page), kept

    def _order(self) -> list[exp.Ordered]:
        """What the rows are sorted by: where two are equal in all of it, they are equal in what is returned."""
        return self._order_of_groups() if self.answer.shape.grouped else self._order_of_rows()

    def _sort_selected(self, order: list[exp.Ordered], prefix: str) -> list[exp.Ordered]:
        """The same order by selected columns where groups are selected: Spark finds no aggregates above `HAVING`."""
        if not self.answer.shape.having:
            return order
        sorting = []
        for key in order:
            known = (index for index, each in enumerate(self.selected) if each == key.this)
            index = next(known, None)
            place = exp.column(f"{prefix}{self._select(key.this.copy()) if index is None else index}")
            sorting.append(exp.Ordered(this=place, desc=key.args["desc"], nulls_first=key.args["nulls_first"]))
        return sorting

    def _order_of_rows(self) -> list[exp.Ordered]:
        """There is a row of the answer for each row of the pattern."""
        keys = [_sort_key(self._outer(key.expression), key) for key in self._sorting()]
        for each in self.before:
            row = self._row(each.this)
            keys.append(exp.Ordered(this=row, desc=each.args["desc"], nulls_first=each.args["nulls_first"]))
        for bound in self.answer.level.visible():
            keys += [_ascending_key(self._row(each)) for each in self.sql.identity(bound)]
        return keys

    def _order_of_groups(self) -> list[exp.Ordered]:
        """There is a row for each group. What is the same in each row is a key too, so no rows make no group.

        After the keys of the order, groups are sorted by their columns, an entity by its id and then its type.
        """
        ties = [each for key in self.answer.shape.keys for each in self._ties(key)]
        if any(self.answer.values.of(column.expression) is not None for column in self.answer.shape.columns):
            ties.append(_ascending_key(self._key(self._row(exp.Literal.number(0)))))
        # Without keys there is one group, and nothing to sort.
        keys = [_sort_key(self._outer(key.expression), key) for key in self._sorting() if self.keys]
        return [*keys, *ties]

    def _ties(self, key: ir.Expression) -> list[exp.Ordered]:
        """What orders groups by one of their columns."""
        if self.answer.values.of(key) is not None:
            return []
        if not isinstance(key, ir.Entity):
            return [_ascending_key(self._outer(key))]
        bound = self.answer.level.lookup(key.variable)
        return [_ascending_key(self._key(self._row(each))) for each in self.sql.identity(bound)]

    def _select_rows(self, prefix: str) -> exp.Select:
        conditions = [self._of_groups(resolve(each, self.answer.values)) for each in self.answer.shape.having]
        if not self.inner:
            self._row(exp.Literal.number(0))
        if not self.selected:
            self._select(exp.Literal.number(0))
        columns = [exp.alias_(expression, name) for name, expression in self.inner.items()]
        rows = select_rows(self.sql, self.answer.level, columns).subquery("q")
        returned = [exp.alias_(expression, f"{prefix}{index}") for index, expression in enumerate(self.selected)]
        statement = exp.Select(expressions=returned).from_(rows)
        if self.keys:
            statement = statement.group_by(*(exp.column(name) for name in self.keys), copy=False)
        for condition in conditions:
            statement = statement.having(condition, copy=False)
        return statement

    def _sorting(self) -> list[ir.SortKey]:
        return [key for key in self.answer.shape.order if self.answer.values.of(key.expression) is None]

    def _select(self, expression: exp.Expr) -> int:
        self.selected.append(expression)
        return len(self.selected) - 1

    def _row(self, expression: exp.Expr) -> exp.Column:
        """An expression over the relations as a column of the inner statement."""
        for name, known in self.inner.items():
            if known == expression:
                return exp.column(name)
        name = f"i{len(self.inner)}"
        self.inner[name] = expression
        return exp.column(name)

    def _key(self, column: exp.Column) -> exp.Column:
        if self.answer.shape.grouped and column.name not in self.keys:
            self.keys.append(column.name)
        return column

    def _entity_field(self, bound: Bound, name: str) -> int:
        column = self._row(self.sql.column(bound, name))
        if not self.answer.shape.grouped:
            return self._select(column)
        if name in (ID, steps.TYPE):
            return self._select(self._key(column))
        if bound.path is not None:
            self._key(self._row(self.sql.id(bound)))
        # The id decides all other columns, so any of a group's values is the value.
        return self._select(exp.AnyValue(this=column))

    def _outer(self, expression: ir.Expression) -> exp.Expr:
        """The value of an expression over the columns of the inner statement; the same for the same expression."""
        if expression not in self.outer:
            self.outer[expression] = self._write_outer(expression)
        return self.outer[expression].copy()

    def _write_outer(self, expression: ir.Expression) -> exp.Expr:
        lookup = self.answer.level.lookup
        if isinstance(expression, COMPUTED) and not ir.has_aggregate(expression):
            return self._key(self._row(self._of_row(expression)))
        match expression:
            case ir.Column(variable, name):
                return self._key(self._row(self.sql.column(lookup(variable), name)))
            case ir.Call() | ir.Comparison():
                return self._of_groups(resolve(expression, self.answer.values))
            case ir.Aggregate():
                return self._aggregate(expression)
            case ir.VectorDistance() | ir.TextScore():
                return self._row(self.sql.column(*self.answer.score(expression)))
            case ir.RankFusion(rankings, k):
                return self._row(self._rank_fusion(rankings, k))
        raise TypeError(expression)

    def _of_row(self, expression: ir.Expression) -> exp.Expr:
        """A value that is computed over the relations."""
        return self.sql.expression(resolve(expression, self.answer.values), self.answer.level)

    def _of_groups(self, expression: Resolved) -> exp.Expr:
        """A value that is computed of aggregates, of keys, and of constants."""
        if isinstance(expression, ir.Constant):
            return self.sql.expression(expression, self.answer.level)
        keys = [resolve(each, self.answer.values) for each in self.answer.shape.keys]
        if expression in keys:
            return self._outer(self.answer.shape.keys[keys.index(expression)])
        if isinstance(expression, ir.Call):
            return operation_of(expression.operation, [self._of_groups(each) for each in expression.arguments])
        if isinstance(expression, ColumnTest):
            return exp.Paren(this=self.sql.predicate(self._outer(expression.column), expression.predicate))
        return self._outer(expression)

    def _aggregate(self, aggregate: ir.Aggregate) -> exp.Expr:
        argument, distinct = aggregate.argument, aggregate.distinct
        if aggregate.counts_rows:
            return exp.Count(this=exp.Star())
        if isinstance(argument, ir.Entity):
            identity = self._row(self._identity_text(argument))
            return exp.Count(this=exp.Distinct(expressions=[identity]) if distinct else identity)
        column: exp.Expr = self._row(self._of_row(argument))
        if aggregate.function is ir.AggregateFunction.COLLECT:
            return self._collection(column, aggregate)
        is_whole = argument.type in INTEGERS
        if aggregate.function is ir.AggregateFunction.AVG and is_whole:
            return self._average(column, distinct=distinct)
        if aggregate.type is Scalar.F64:
            # Where nothing is cast, whole numbers are added up; each engine does that in a type that holds the sum.
            column = _as_double(column)
        functions: dict[ir.AggregateFunction, type[exp.AggFunc]] = {
            ir.AggregateFunction.COUNT: exp.Count,
            ir.AggregateFunction.SUM: exp.Sum,
            ir.AggregateFunction.AVG: exp.Avg,
            ir.AggregateFunction.MIN: exp.Min,
            ir.AggregateFunction.MAX: exp.Max,
        }
        found = functions[aggregate.function](this=exp.Distinct(expressions=[column]) if distinct else column)
        # A sum of floats may be too large for one.
        return (
            operation_of("finite", [found])
            if aggregate.type is Scalar.F64 and not is_whole and _adds(aggregate)
            else found
        )

    def _average(self, column: exp.Expr, *, distinct: bool) -> exp.Expr:
        """The average of whole numbers, whose sum is exact: as floats, large ones would make small ones disappear."""
        values = exp.Distinct(expressions=[column]) if distinct else column
        parts = [_as_double(function(this=values.copy())) for function in (exp.Sum, exp.Count)]
        return operation_of("divided F64", parts)

    def _identity_text(self, entity: ir.Entity) -> exp.Expr:
        """One value that tells an entity from all others, or null. The name of a type has no colon."""
        identity = self.sql.identity(self.answer.level.lookup(entity.variable))
        if len(identity) == 1:
            return identity[0]
        id, tag = identity
        text = exp.Concat(expressions=[tag, exp.Literal.string(":"), id])
        if not entity.nullable:
            return text
        # An engine may take null for an empty text.
        return exp.Case(ifs=[exp.If(this=exp.Not(this=exp.Is(this=id.copy(), expression=exp.null())), true=text)])

    def _collection(self, column: exp.Expr, aggregate: ir.Aggregate) -> exp.Expr:
        """The values of a group that are not null, in a list. Without any, an engine has an empty list or null."""
        there = exp.Not(this=exp.Is(this=column.copy(), expression=exp.null()))
        values = exp.Distinct(expressions=[column]) if aggregate.distinct else column
        listed = exp.Filter(this=exp.ArrayAgg(this=values), expression=exp.Where(this=there))
        empty = self.sql.expression(ir.Constant((), aggregate.type), self.answer.level)
        return exp.ArraySort(this=exp.Coalesce(this=listed, expressions=[empty]))

    def _rank_fusion(self, rankings: Iterable[ir.VectorDistance | ir.TextScore], k: int) -> exp.Expr:
        """The sum of ``1 / (k + rank)``, where entities of the same score are ranked by id."""
        terms: list[exp.Expr] = []
        for ranking in rankings:
            bound, name = self.answer.score(ranking)
            score = self.sql.column(bound, name)
            best = exp.Ordered(this=score.copy(), desc=isinstance(ranking, ir.TextScore), nulls_first=False)
            order = exp.Order(expressions=[best, *map(_ascending_key, self.sql.identity(bound))])
            rank = exp.Window(this=exp.Anonymous(this="DENSE_RANK"), order=order)
            term: exp.Expr = exp.Div(
                this=exp.Cast(this=exp.Literal.number(1), to=exp.DataType(this=exp.DataType.Type.DOUBLE)),
                expression=exp.Paren(this=exp.Add(this=exp.Literal.number(k), expression=rank)),
            )
            missing = exp.Is(this=score.copy(), expression=exp.null())
            zero = exp.Cast(this=exp.Literal.number(0), to=exp.DataType(this=exp.DataType.Type.DOUBLE))
            terms.append(exp.Case(ifs=[exp.If(this=missing, true=zero)], default=term))
        total = terms[0]
        for term in terms[1:]:
            total = exp.Add(this=total, expression=term)
        return total


def _cut(statement: exp.Select, order: Sequence[exp.Ordered], page: Page) -> exp.Select:
    """The wanted rows of a statement, in their order."""
    if order:
        statement = statement.order_by(*order, copy=False)
    if page.count is not None:
        statement = statement.limit(page.count, copy=False)
    return statement.offset(page.first, copy=False) if page.first else statement


def _ascending_key(expression: exp.Expr) -> exp.Ordered:
    return exp.Ordered(this=expression.copy(), desc=False, nulls_first=True)


def _adds(aggregate: ir.Aggregate) -> bool:
    return aggregate.function in (ir.AggregateFunction.SUM, ir.AggregateFunction.AVG)


def _as_double(value: exp.Expr) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType(this=exp.DataType.Type.DOUBLE))


def _sort_key(expression: exp.Expr, key: ir.SortKey) -> exp.Ordered:
    """A key of the order. Null comes first ascending and last descending; a missing distance is the worst one."""
    return exp.Ordered(this=expression.copy(), desc=key.descending, nulls_first=nulls_first(key))
