"""What a read returns: the columns that are needed for it, and how the answer is put together from them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from omnigraph.catalog import Scalar
from omnigraph.catalog.model import ID
from omnigraph.compiler import ir
from omnigraph.query import steps
from omnigraph.query.levels import Bound, KnownValues, Level
from omnigraph.query.relational import Sql
from omnigraph.query.words import words_of

TYPE_FIELD = "type"
Ranked: TypeAlias = ir.Column | ir.VectorDistance | ir.TextScore
"""What is one field of one variable."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The returned columns and the order of a read over the variables of its outermost pattern."""

    read: ir.Read
    level: Level
    values: KnownValues
    _scores: dict[ir.Expression, tuple[Bound, str]] = field(default_factory=dict)

    # --- what is needed ---

    def ask(self) -> None:
        """Tells every variable which of its columns the answer needs."""
        for expression in self.expressions():
            for bound, name in self._columns_of(expression):
                if name == steps.TYPE or not name.startswith("@"):
                    bound.needs[name] = None

    def expressions(self) -> Iterable[ir.Expression]:
        """What is returned, and what the rows are ordered by."""
        yield from (column.expression for column in self.read.columns)
        yield from (key.expression for key in self.read.order)

    def _columns_of(self, expression: ir.Expression) -> list[tuple[Bound, str]]:
        """The fields behind an expression."""
        match expression:
            case ir.Column(variable, name):
                return [(self.level.lookup(variable), name)]
            case ir.Entity(variable):
                bound = self.level.lookup(variable)
                return [(bound, name) for _, name in entity_fields(bound)]
            case ir.Aggregate(_, ir.Column() as argument):
                return self._columns_of(argument)
            case ir.VectorDistance() | ir.TextScore():
                return [self.score(expression)]
            case ir.RankFusion(rankings):
                return [self.score(ranking) for ranking in rankings]
        return []

    def score(self, ranking: ir.VectorDistance | ir.TextScore) -> tuple[Bound, str]:
        """The variable that is ranked, and its field with the score."""
        if ranking not in self._scores:
            bound, name = self.level.lookup(ranking.column.variable), ranking.column.name
            computed: steps.Computed
            if isinstance(ranking, ir.TextScore):
                known = self.values.of(ranking.query)
                words = words_of(str(known.value)) if known is not None and known.value is not None else []
                corpus = tuple(steps.TableScan(each.table_key, each.name, (name,)) for each in bound.entities)
                computed = steps.Relevance(name, tuple(words), corpus)
            else:
                computed = steps.Distance(name, self._query_vector(ranking.query))
            self._scores[ranking] = bound, bound.add_computed(computed)
        return self._scores[ranking]

    def _query_vector(self, query: ir.Expression | ir.EmbeddedText) -> tuple[float, ...] | steps.TextToEmbed | None:
        if isinstance(query, ir.EmbeddedText):
            known = self.values.of(query.text)
            if known is None or known.value is None:
                return None
            return steps.TextToEmbed(str(known.value), query.model, query.dimension)
        known = self.values.of(query)
        value = known.value if known is not None else None
        return tuple(float(each) for each in value) if isinstance(value, tuple) else None  # type: ignore[arg-type]

    # --- without a relational engine ---

    def direct(self) -> tuple[steps.Direct, tuple[steps.Output, ...]]:
        """The answer from the only relation there is."""
        (bound,) = self.level.own.values()
        assert bound.relation is not None
        relation = bound.relation
        outputs: list[steps.Output] = []
        for column in self.read.columns:
            known = self.values.of(column.expression)
            if known is not None:
                outputs.append(steps.ConstantOutput(column.name, known.value, known.type))
            elif isinstance(column.expression, Ranked):
                index = relation.fields.index(self._field(column.expression))
                outputs.append(steps.ValueOutput(column.name, index, column.expression.type))
            else:
                fields = [(label, relation.fields.index(name), name) for label, name in entity_fields(bound)]
                outputs.append(steps.EntityOutput(column.name, _typed_outputs(bound, fields)))
        order = [
            steps.DirectSort(relation.alias(self._field(key.expression)), key.descending, _nulls_first(key))
            for key in self.read.order
            if isinstance(key.expression, Ranked)
        ]
        names = (ID, *((steps.TYPE,) if bound.is_tagged else ()))
        ties = [steps.DirectSort(relation.alias(name), descending=False, nulls_first=True) for name in names]
        return steps.Direct((*order, *ties)), tuple(outputs)

    def _field(self, expression: Ranked) -> str:
        """The field of its variable that an expression is."""
        return expression.name if isinstance(expression, ir.Column) else self.score(expression)[1]

    def best(self, count: int) -> steps.Best | None:
        """What is asked of the ranking that the rows are ordered by first, if they are, best first."""
        keys = [key for key in self.read.order if self.values.of(key.expression) is None]
        if not keys or not isinstance(keys[0].expression, ir.VectorDistance | ir.TextScore):
            return None
        if keys[0].descending is isinstance(keys[0].expression, ir.VectorDistance):
            return None
        return steps.Best(self.score(keys[0].expression)[1], count, settled=len(keys) == 1)

    # --- with one ---

    def relational(self, sql: Sql, limit: int | None) -> tuple[steps.Relational, tuple[steps.Output, ...]]:
        """The answer as a statement over all relations."""
        writer = _Columns(self, sql)
        outputs = tuple(writer.output(column) for column in self.read.columns)
        statement = (writer.grouped_statement if self.read.grouped else writer.plain_statement)(self.read.order)
        if limit is not None:
            statement = statement.limit(limit, copy=False)
        return steps.Relational(statement, sql.parameters), outputs


@dataclass(slots=True)
class _Columns:
    """Collects the columns of the statement: what is computed of a row, and what is returned."""

    answer: Answer
    sql: Sql
    inner: dict[str, exp.Expr] = field(default_factory=dict)
    selected: list[exp.Expr] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    ordinals: dict[ir.Expression, int] = field(default_factory=dict)

    def output(self, column: ir.OutputColumn) -> steps.Output:
        """How a returned column is taken from what the statement selects."""
        expression = column.expression
        known = self.answer.values.of(expression)
        if known is not None:
            return steps.ConstantOutput(column.name, known.value, known.type)
        if isinstance(expression, ir.Entity):
            bound = self.answer.level.lookup(expression.variable)
            fields = [(label, self._entity_field(bound, name), name) for label, name in entity_fields(bound)]
            return steps.EntityOutput(column.name, _typed_outputs(bound, fields))
        assert not isinstance(expression, ir.Constant)
        if expression not in self.ordinals:
            self.ordinals[expression] = self._select(self._outer(expression))
        return steps.ValueOutput(column.name, self.ordinals[expression], expression.type)

    def plain_statement(self, order: Sequence[ir.SortKey]) -> exp.Select:
        """A row of the answer for each row of the pattern."""
        keys = [_sort_key(self._outer(key.expression), key) for key in self._sorting(order)]
        for bound in self.answer.level.own.values():
            keys += [_ascending_key(self._row(each)) for each in self.sql.identity(bound)]
        if not self.selected:
            self._select(keys[-1].this.copy())
        return self._statement().order_by(*keys, copy=False)

    def grouped_statement(self, order: Sequence[ir.SortKey]) -> exp.Select:
        """A row for each group. A column that is the same in each row is a key too, so no rows make no group."""
        if any(self.answer.values.of(column.expression) is not None for column in self.answer.read.columns):
            self._key(self._row(exp.Literal.number(0)))
        keys = [_sort_key(self._outer(key.expression), key) for key in self._sorting(order)]
        keys += [_ascending_key(exp.column(name)) for name in self.keys]
        if not self.inner:
            self._row(exp.Literal.number(0))
        statement = self._statement()
        if self.keys:
            statement = statement.group_by(*(exp.column(name) for name in self.keys), copy=False)
            statement = statement.order_by(*keys, copy=False)
        return statement

    def _statement(self) -> exp.Select:
        columns = [exp.alias_(expression, name) for name, expression in self.inner.items()]
        rows = self.sql.select(self.answer.level, columns).subquery("q")
        returned = [exp.alias_(expression, f"o{index}") for index, expression in enumerate(self.selected)]
        return exp.Select(expressions=returned).from_(rows)

    def _sorting(self, order: Sequence[ir.SortKey]) -> list[ir.SortKey]:
        return [key for key in order if self.answer.values.of(key.expression) is None]

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
        if self.answer.read.grouped and column.name not in self.keys:
            self.keys.append(column.name)
        return column

    def _entity_field(self, bound: Bound, name: str) -> int:
        column = self._row(self.sql.column(bound, name))
        if not self.answer.read.grouped:
            return self._select(column)
        if name in (ID, steps.TYPE):
            return self._select(self._key(column))
        # The id decides all other columns, so any of a group's values is the value.
        return self._select(exp.AnyValue(this=column))

    def _outer(self, expression: ir.Expression) -> exp.Expr:
        """The value of an expression over the columns of the inner statement."""
        lookup = self.answer.level.lookup
        match expression:
            case ir.Column(variable, name):
                return self._key(self._row(self.sql.column(lookup(variable), name)))
            case ir.Aggregate():
                return self._aggregate(expression)
            case ir.VectorDistance() | ir.TextScore():
                return self._row(self.sql.column(*self.answer.score(expression)))
            case ir.RankFusion(rankings, k):
                return self._row(self._rank_fusion(rankings, k))
        raise TypeError(expression)

    def _aggregate(self, aggregate: ir.Aggregate) -> exp.Expr:
        argument = aggregate.argument
        if isinstance(argument, ir.Entity):
            return exp.Count(this=exp.Star())
        column: exp.Expr = self._row(self.sql.column(self.answer.level.lookup(argument.variable), argument.name))
        if aggregate.type is Scalar.F64:
            # Where nothing is cast, whole numbers are added up; each engine does that in a type that holds the sum.
            column = exp.Cast(this=column, to=exp.DataType(this=exp.DataType.Type.DOUBLE))
        functions: dict[ir.AggregateFunction, type[exp.AggFunc]] = {
            ir.AggregateFunction.COUNT: exp.Count,
            ir.AggregateFunction.SUM: exp.Sum,
            ir.AggregateFunction.AVG: exp.Avg,
            ir.AggregateFunction.MIN: exp.Min,
            ir.AggregateFunction.MAX: exp.Max,
        }
        return functions[aggregate.function](this=column)

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


def entity_fields(bound: Bound) -> list[tuple[str, str]]:
    """The fields of a whole entity: how each is called, and which column it is."""
    if bound.interface is not None:
        shared = [name for name in bound.interface.properties if name != ID]
        return [(TYPE_FIELD, steps.TYPE), (ID, ID), *((name, name) for name in shared)]
    (entity,) = bound.entities
    own = [name for name in entity.properties if name not in entity.system_columns]
    return [(name, name) for name in (*entity.system_columns, *own)]


def _typed_outputs(bound: Bound, fields: Iterable[tuple[str, int, str]]) -> tuple[steps.ValueOutput, ...]:
    """The fields of an entity; the field with the name of its type is a String."""
    return tuple(steps.ValueOutput(label, index, bound.type_of(name)) for label, index, name in fields)


def _ascending_key(expression: exp.Expr) -> exp.Ordered:
    return exp.Ordered(this=expression.copy(), desc=False, nulls_first=True)


def _sort_key(expression: exp.Expr, key: ir.SortKey) -> exp.Ordered:
    """A key of the order. Null comes first ascending and last descending; a missing distance is the worst one."""
    return exp.Ordered(this=expression.copy(), desc=key.descending, nulls_first=_nulls_first(key))


def _nulls_first(key: ir.SortKey) -> bool:
    is_distance = isinstance(key.expression, ir.VectorDistance)
    return key.descending if is_distance else not key.descending
