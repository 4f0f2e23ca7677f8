"""Typechecks and lowers a query that reads."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from omnigraph.catalog import Catalog, List, Scalar, Vector
from omnigraph.catalog.types import INTEGERS
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.expressions import Expressions
from omnigraph.compiler.functions import Comparisons
from omnigraph.compiler.optional import find_required, refuse_optional
from omnigraph.compiler.scope import VariableScope
from omnigraph.compiler.stages import carry_columns
from omnigraph.compiler.values import hint_of_unknown
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Findings, Span, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax import query_ast as ast
from omnigraph.syntax.printer import print_expression

_NEVER = ir.Comparison(ir.Constant(1, Scalar.I64), ast.Operator.EQUAL, ir.Constant(2, Scalar.I64))
_OTHER_PROPERTY = "compare two properties in a filter of their own: `$x.a = $y.b`"


class ReadCompiler:
    """Lowers one read; what cannot be lowered is reported and left out, so that the rest is still checked."""

    def __init__(
        self, catalog: Catalog, parameters: Mapping[str, ir.ParameterValue | None], findings: Findings
    ) -> None:
        self._catalog = catalog
        self._parameters = parameters
        self._findings = findings
        self._results: list[tuple[Span, ir.Expression]] = []

    def lower(self, read: ast.ReadBody, name: Span) -> ir.Read:
        """The typed form of the read called at `name`; meaningful only when no error was reported."""
        return self.lower_in_scope(read, name)[0]

    def lower_in_scope(self, read: ast.ReadBody, name: Span) -> tuple[ir.Read, VariableScope]:
        """The typed form of a read, and the scope of what it returns."""
        stages: list[ir.Read] = []
        around: VariableScope | None = None
        for each in read.stages:
            scope = self._scope(around)
            stages.append(self._lower_part(each, each.span, scope, "with"))
            around = carry_columns(each.shape.returns, stages[-1].columns, scope)
        scope = self._scope(around)
        lowered = self._lower_part(read, name, scope, "return")
        return replace(lowered, stages=tuple(stages)), scope

    def _lower_part(self, read: ast.ReadBody, name: Span, scope: VariableScope, keyword: str) -> ir.Read:
        """A stage, or what comes after the stages."""
        self._results = []
        if not read.shape.returns:
            self._findings.report(Code.EMPTY_QUERY, f"`{keyword}` has no columns", name)
        pattern = self.lower_match(read.match, name, scope)
        return ir.Read(pattern=pattern, shape=self._shape(read.shape, scope))

    def lower_match(self, clauses: Sequence[ast.Clause], name: Span, scope: VariableScope) -> ir.Pattern:
        """The typed form of a pattern, whose variables are then those of the scope."""
        pattern = self._pattern(clauses, scope)
        if not scope.variables and scope.parent is None:
            self._findings.report(Code.EMPTY_QUERY, "`match` binds no variable", name, "bind a variable: `$x: Type`")
        return pattern

    def lower_nested(self, clauses: Sequence[ast.Clause], scope: VariableScope) -> ir.Pattern:
        """The pattern of a `not`, `exists` or `count` that is nested in one with this scope."""
        refused = "`optional` cannot be used in the pattern of `not`, `exists` or `count`"
        hint = "leave it out: what is optional does not decide whether a pattern is found"
        return self._pattern(refuse_optional(clauses, refused, hint, self._findings), self._scope(scope))

    def _scope(self, parent: VariableScope | None, *, is_optional: bool = False) -> VariableScope:
        parameters = frozenset(self._parameters)
        return VariableScope(self._catalog, self._findings, parameters, parent, is_optional=is_optional)

    def result_values(self, scope: VariableScope, columns: Iterable[ir.OutputColumn]) -> Expressions:
        """Reads what is computed of the columns of a result."""
        return self._expressions(scope, in_result=True, columns={each.name: each.expression for each in columns})

    def _expressions(
        self, scope: VariableScope, *, in_result: bool = False, columns: Mapping[str, ir.Expression] | None = None
    ) -> Expressions:
        return Expressions(
            scope, self._parameters, self._findings, self.lower_nested, in_result=in_result, columns=columns
        )

    # --- match ---

    def _pattern(self, clauses: Sequence[ast.Clause], scope: VariableScope) -> ir.Pattern:
        clauses, lost = find_required(clauses, scope)
        scope.bind(clauses)
        scope.leave_unresolved(lost)
        written = [clause for clause in clauses if isinstance(clause, ast.OptionalClause)]
        optional = [found for clause in written if (found := self._optional(clause, scope)) is not None]
        values = self._expressions(scope)
        conditions = [each for clause in clauses for each in self._conditions(clause, values)]
        if scope.is_impossible:
            conditions.append(_NEVER)
        absent = [self._absent(clause, scope) for clause in clauses if isinstance(clause, ast.Negation)]
        return ir.Pattern(
            nodes=scope.own_nodes(),
            traversals=tuple(scope.traversals),
            paths=tuple(scope.paths),
            path_steps=tuple(scope.path_steps),
            conditions=tuple(conditions),
            absent=tuple(absent),
            optional=tuple(optional),
        )

    def _optional(self, clause: ast.OptionalClause, scope: VariableScope) -> ir.Pattern | None:
        """An optional pattern, whose variables are visible from now on; None if it has none and so changes nothing."""
        if not clause.clauses:
            self._findings.report(Code.EMPTY_QUERY, "`optional` without a pattern adds nothing", clause.span)
        inner = self._scope(scope, is_optional=True)
        pattern = self._pattern(clause.clauses, inner)
        scope.adopt(inner)
        if pattern.variables:
            return pattern
        message = "this optional pattern binds no variable, so it changes nothing"
        hint = "write its conditions around it, or bind an edge: `$a $e:edge $b`"
        self._findings.report(Code.NEEDLESS_OPTIONAL, message, clause.span, hint)
        return None

    def _absent(self, clause: ast.Negation, scope: VariableScope) -> ir.Pattern:
        if not clause.clauses:
            self._findings.report(Code.EMPTY_QUERY, "`not` without a pattern excludes nothing", clause.span)
        return self.lower_nested(clause.clauses, scope)

    def _conditions(self, clause: ast.Clause, values: Expressions) -> Iterator[ir.Condition]:
        match clause:
            case ast.Binding(variable, _, properties):
                for assignment in properties:
                    access = ast.PropertyAccess(variable, assignment.property, span=assignment.span)
                    yield from self._property_condition(access, assignment.value, values)
            case ast.Filter(condition):
                yield from values.conditions(condition)

    def _property_condition(
        self, access: ast.PropertyAccess, value: ast.Expression, values: Expressions
    ) -> Iterator[ir.Condition]:
        """``{ property: value }`` in a binding means that they are equal."""
        is_known = isinstance(value, nodes.Literal) or values.is_carried(value)
        if not is_known and values.known_value(value, _OTHER_PROPERTY) is None:
            return
        condition = Comparisons(values).comparison(access, ast.Operator.EQUAL, value, value.span)
        if condition is not None:
            yield condition

    # --- return, having, order, limit, offset ---

    def _shape(self, shape: ast.ShapeClause, scope: VariableScope) -> ir.Shape:
        plain = self._expressions(scope, in_result=True)
        projections = projections_of(shape.returns, plain)
        columns = lower_columns(projections, lambda each: self._result(each, plain), self._findings)
        aggregated = any(ir.has_aggregate(column.expression) for column in columns)
        if aggregated:
            self._check_groups(columns, projections)
        grouped = aggregated or shape.distinct
        result = _Result(frozenset(column.expression for column in columns), aggregated, grouped)
        values = self.result_values(scope, columns)
        having = self._having(shape.having, result, values)
        order = self._order(shape.order, result, values)
        limit, offset = self._row_count(shape.limit, "limit"), self._row_count(shape.offset, "offset")
        self._check_rankings(shape.limit, grouped=grouped)
        return ir.Shape(columns=columns, having=having, order=order, limit=limit, offset=offset, grouped=grouped)

    def _result(self, expression: ast.Expression, values: Expressions) -> ir.Expression | None:
        lowered = values.value(expression)
        if lowered is not None:
            self._results.append((expression.span, lowered))
        return lowered

    def _having(
        self, conditions: Sequence[ast.Expression], result: "_Result", values: Expressions
    ) -> tuple[ir.Condition, ...]:
        if conditions and not result.grouped:
            message = "`having` selects groups, and these rows are not grouped"
            hint = "write a condition on single rows as a clause of `match`"
            self._findings.report(Code.HAVING_NOT_GROUPED, message, conditions[0].span, hint)
            return ()
        lowered = []
        for each in conditions:
            for condition in values.conditions(each):
                problem = result.problem_of(condition)
                if problem is None:
                    lowered.append(condition)
                else:
                    message = f"`having` uses {problem}"
                    self._findings.report(Code.HAVING_NOT_GROUPED, message, each.span, "add it to `return`")
        return tuple(lowered)

    def _order(self, keys: Iterable[ast.OrderKey], result: "_Result", values: Expressions) -> tuple[ir.SortKey, ...]:
        lowered = []
        for key in keys:
            is_name = isinstance(key.expression, ast.BareName)
            expression = values.value(key.expression) if is_name else self._result(key.expression, values)
            if expression is None:
                continue
            problem = order_problem(expression)
            if problem is not None:
                self._findings.report(Code.OPERATOR_NOT_DEFINED, problem, key.span)
                continue
            problem = None if isinstance(expression, ir.Ranking) else result.problem_of(expression)
            if problem is not None:
                message = f"`order` uses {problem}"
                self._findings.report(Code.ORDER_NOT_GROUPED, message, key.span, "add it to `return`")
                continue
            best_is_large = isinstance(expression, ir.TextScore | ir.RankFusion)
            lowered.append(ir.SortKey(expression, best_is_large if key.descending is None else key.descending))
        return tuple(lowered)

    def _check_groups(self, columns: Iterable[ir.OutputColumn], written: Iterable[ast.Projection]) -> None:
        """A column of groups is a key, or computed of keys and aggregates."""
        keys = [column.expression for column in columns if not ir.has_aggregate(column.expression)]
        spans = {name_of(projection): projection.span for projection in written}
        for column in columns:
            if ir.has_aggregate(column.expression) and not _is_of_groups(column.expression, keys):
                message = f"{quoted(column.name)} combines an aggregate with a value that is not a column itself"
                hint = "rows are grouped by the columns without an aggregate; return the value as one of them"
                self._findings.report(Code.NOT_GROUPED, message, spans[column.name], hint)

    def _row_count(self, count: ast.Expression | None, word: str) -> ir.Expression | None:
        """The number of rows in a `limit` or an `offset`."""
        message = f"{'an' if word == 'offset' else 'a'} {word} must be a whole number"
        match count:
            case None:
                return None
            case nodes.IntLiteral(number) if 0 <= number < 2**63:
                return ir.Constant(number, Scalar.I64)
            case ast.Variable(name) if name not in self._parameters:
                hint = hint_of_unknown(name, [f"${each}" for each in self._parameters], self._findings)
                self._findings.report(Code.UNKNOWN_VARIABLE, f"no parameter {quoted('$' + name)}", count.span, hint)
                return None
            case ast.Variable(name):
                parameter = self._parameters[name]
                if parameter is None or (parameter.type in INTEGERS and not parameter.nullable):
                    return parameter
                message += f", but {quoted('$' + name)} is {parameter.type}{'?' if parameter.nullable else ''}"
        hint = f"write `{word} 10`, or `{word} $n` with a parameter `$n: I64`"
        self._findings.report(Code.INVALID_LIMIT, message, count.span, hint)
        return None

    def _check_rankings(self, limit: ast.Expression | None, *, grouped: bool) -> None:
        for span, expression in self._results:
            if limit is None and _ranks_vectors(expression):
                message = "without a `limit`, `nearest` would rank the whole graph"
                self._findings.report(Code.NEAREST_NEEDS_LIMIT, message, span, "add `limit 10`")
            if grouped and any(isinstance(each, ir.Ranking) for each in ir.expressions_in(expression)):
                message = "a ranking is a value of each row, not of a group"
                self._findings.report(Code.FUNCTION_NOT_ALLOWED, message, span)


def lower_columns(
    projections: Iterable[ast.Projection],
    lower: Callable[[ast.Expression], ir.Expression | None],
    findings: Findings,
) -> tuple[ir.OutputColumn, ...]:
    """The columns of a result, whose names must differ."""
    columns: dict[str, ir.OutputColumn] = {}
    for projection in projections:
        name = name_of(projection)
        expression = lower(projection.expression)
        if name in columns:
            message = f"two columns are called {quoted(name)}"
            hint = "name one with `as`, or leave it out"
            findings.report(Code.DUPLICATE_COLUMN, message, projection.span, hint)
        elif expression is not None:
            columns[name] = ir.OutputColumn(name, expression)
    return tuple(columns.values())


@dataclass(frozen=True, slots=True)
class _Result:
    """What the rows of a result have in common: which values are computed of a group, and which of a single row."""

    columns: frozenset[ir.Expression]
    aggregated: bool
    grouped: bool

    def problem_of(self, expression: ir.Expression) -> str | None:
        """What a value is that no row of the result has."""
        if ir.has_aggregate(expression) and not self.aggregated:
            return "an aggregate, and `return` has none"
        if not self.grouped or _is_of_groups(expression, self.columns):
            return None
        if self.aggregated:
            return "a value of single rows, but rows are grouped"
        return "a value that is not a column of `return distinct`"


def projections_of(written: Iterable[ast.Projection | ast.AllProperties], values: Expressions) -> list[ast.Projection]:
    """The columns of a result, with those behind `$x.*` written out."""
    projections = []
    for each in written:
        if isinstance(each, ast.AllProperties):
            projections += [ast.Projection(access, span=each.span) for access in values.properties_of(each)]
        else:
            projections.append(each)
    return projections


def name_of(projection: ast.Projection) -> str:
    """The name of a column: the one it is given, or as it is written, without the dollar."""
    return projection.alias or print_expression(projection.expression, sigil="")


def _is_of_groups(expression: ir.Expression, known: Collection[ir.Expression]) -> bool:
    """Whether a value is the same in all rows of a group, of which these values are."""
    if isinstance(expression, ir.Aggregate) or expression in known:
        return True
    if isinstance(expression, ir.Column) and ir.Entity(expression.variable) in known:
        return True
    if isinstance(expression, ir.Column | ir.Entity | ir.SubPattern | ir.TextMatch | ir.SameEntity | ir.Ranking):
        return False
    return all(_is_of_groups(part, known) for part in ir.parts_of(expression))


def _ranks_vectors(expression: ir.Expression) -> bool:
    return any(isinstance(each, ir.VectorDistance) for each in ir.expressions_in(expression))


def order_problem(expression: ir.Expression) -> str | None:
    """Why rows cannot be ordered by a value."""
    if isinstance(expression, ir.Entity):
        return "entities have no order; order by one of their properties"
    if isinstance(expression.type, List | Vector) or expression.type is Scalar.BLOB:
        return f"values of {expression.type} have no order"
    return None
