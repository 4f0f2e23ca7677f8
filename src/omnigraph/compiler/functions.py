"""Typechecks and lowers the functions of the query language: aggregates, rankings and text search."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from omnigraph.catalog import Enum, List, PropertyType, Scalar, Vector
from omnigraph.catalog.types import INTEGERS, NUMBERS
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.scope import ResolvedProperty
from omnigraph.compiler.values import (
    AGGREGATES,
    Values,
    are_comparable,
    expression_text,
    is_known,
    is_orderable,
    kind_of,
    operator_problem,
    right_type,
    sum_type,
    type_of,
)
from omnigraph.diagnostics import Span, did_you_mean, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax import query_ast as ast

DEFAULT_FUSION_K = 60
MAX_EDITS = 2

_USAGE = {
    "count": "count($x) or count($x.property)",
    "sum": "sum($x.property) of a number",
    "avg": "avg($x.property) of a number",
    "min": "min($x.property) of something that has an order",
    "max": "max($x.property) of something that has an order",
    "collect": "collect($x.property) of one value a row",
    "nearest": "nearest($x.vector, $query)",
    "bm25": "bm25($x.text, $query)",
    "rrf": "rrf(nearest($x.vector, $query), bm25($x.text, $words), k=60)",
    "search": "search($x.text, $words)",
    "fuzzy": "fuzzy($x.text, $words) or fuzzy($x.text, $words, 1)",
    "match_text": "match_text($x.text, $words)",
}


class Functions:
    """Reads aggregates, rankings and searches, whose arguments are values of one scope."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._report = values.report

    def of_rows(self, call: ast.FunctionCall) -> ir.Expression | None:
        """An aggregate or a ranking, whose arguments are values of a row."""
        return self._aggregate(call) if call.function in AGGREGATES else self._ranking(call)

    def _arity(self, call: ast.FunctionCall, least: int, most: int, keywords: Sequence[str] = ()) -> bool:
        """Whether a call has as many arguments as its function takes; reports if not."""
        if call.distinct and call.function not in AGGREGATES:
            refuse_distinct(call, self._report)
            return False
        for keyword in call.keywords:
            if keyword.name not in keywords:
                message = f"{quoted(call.function)} has no argument {quoted(keyword.name)}"
                self._report(Code.WRONG_ARGUMENTS, message, keyword.span, did_you_mean(keyword.name, keywords))
                return False
        if least <= len(call.arguments) <= most:
            return True
        count = str(least) if least == most else f"{least} to {most}"
        message = (
            f"{quoted(call.function)} takes {count} argument{'' if count == '1' else 's'}, not {len(call.arguments)}"
        )
        self._report(Code.WRONG_ARGUMENTS, message, call.span, _USAGE.get(call.function))
        return False

    def _aggregate(self, call: ast.FunctionCall) -> ir.Aggregate | None:
        if not self._arity(call, 1, 1):
            return None
        function = ir.AggregateFunction(call.function)
        argument = self._values.value(call.arguments[0])
        if argument is None:
            return None
        # Of the extremes, it makes no difference whether equal values count once.
        distinct = call.distinct and function not in (ir.AggregateFunction.MIN, ir.AggregateFunction.MAX)
        if not is_known(argument):
            if function is ir.AggregateFunction.COUNT:
                return ir.Aggregate(function, argument, Scalar.I64, nullable=False, distinct=distinct)
            given = type_of(argument)
            type = None if given is None else _aggregate_type(function, given)
            if type is not None:
                nullable = function is not ir.AggregateFunction.COLLECT
                return ir.Aggregate(function, argument, type, nullable, distinct)
        message = f"{quoted(call.function)} cannot be computed of {kind_of(argument)}"
        hint = _USAGE.get(call.function)
        if function is ir.AggregateFunction.COLLECT and isinstance(argument, ir.Entity):
            hint = f"collect the ids: `collect(${argument.variable}.id)`"
        self._report(Code.WRONG_ARGUMENTS, message, call.arguments[0].span, hint)
        return None

    def _ranking(self, call: ast.FunctionCall) -> ir.Ranking | None:
        match call.function:
            case "nearest":
                return self._nearest(call)
            case "bm25":
                searched = self._searched_text(call, 2, 2)
                return ir.TextScore(*searched) if searched is not None else None
            case _:
                return self._fusion(call)

    def _nearest(self, call: ast.FunctionCall) -> ir.VectorDistance | None:
        searched = self._searched_column(call, 2, 2)
        if searched is None:
            return None
        column, resolved = searched
        if not isinstance(column.type, Vector):
            message = f"`nearest` searches a Vector, but {expression_text(call.arguments[0])} is {column.type}"
            self._report(Code.WRONG_ARGUMENTS, message, call.arguments[0].span)
            return None
        given = call.arguments[1]
        if isinstance(given, nodes.ListLiteral):
            query: ir.Expression | None = self._values.constant(given, column.type)
        else:
            query = self._values.known_value(given)
        type = type_of(query)
        if query is None or type == column.type:
            return ir.VectorDistance(column, query) if query is not None else None
        if type is not Scalar.STRING:
            message = f"`nearest` expects a {column.type} or a text, found {kind_of(query)}"
            self._report(Code.WRONG_ARGUMENTS, message, given.span)
            return None
        model = resolved.embedding.model if resolved.embedding is not None else None
        if resolved.embedding is None:
            message = f"no model fills {expression_text(call.arguments[0])}, so the configured model is used"
            hint = "it must be the model that computed the vectors; otherwise the order has no meaning"
            self._report(Code.UNRECORDED_MODEL, message, given.span, hint)
        return ir.VectorDistance(column, ir.EmbeddedText(query, model, column.type.dimension))

    def _fusion(self, call: ast.FunctionCall) -> ir.RankFusion | None:
        # `rrf(a, b, 60)` is `rrf(a, b, k=60)`: no ranking is a number.
        constants = [each for each in call.arguments[-1:] if isinstance(each, nodes.IntLiteral)]
        call = replace(call, arguments=call.arguments[: len(call.arguments) - len(constants)])
        if not self._arity(call, 2, 8, keywords=("k",)):
            return None
        rankings = []
        for argument in call.arguments:
            if not isinstance(argument, ast.FunctionCall) or argument.function not in ("nearest", "bm25"):
                message = "`rrf` fuses rankings: calls of `nearest` and `bm25`"
                self._report(Code.WRONG_ARGUMENTS, message, argument.span, _USAGE["rrf"])
                return None
            ranking = self._ranking(argument)
            if not isinstance(ranking, ir.VectorDistance | ir.TextScore):
                return None
            rankings.append(ranking)
        if len({ranking.column.variable for ranking in rankings}) > 1:
            self._report(Code.WRONG_ARGUMENTS, "`rrf` fuses rankings of one variable", call.span)
            return None
        k = self._fusion_k([*constants, *(keyword.value for keyword in call.keywords)])
        return ir.RankFusion(tuple(rankings), k) if k is not None else None

    def _fusion_k(self, given: Sequence[ast.Expression]) -> int | None:
        if not given:
            return DEFAULT_FUSION_K
        if len(given) > 1:
            self._report(Code.WRONG_ARGUMENTS, "`k` is given twice", given[1].span)
            return None
        value = given[0]
        if isinstance(value, nodes.IntLiteral) and 1 <= value.value <= 1_000_000:
            return value.value
        self._report(Code.WRONG_ARGUMENTS, "`k` is a whole number from 1", value.span)
        return None

    # --- text search ---

    def text_match(self, call: ast.FunctionCall) -> ir.TextMatch | None:
        """A search in a text."""
        kind = ir.TextMatchKind(call.function)
        searched = self._searched_text(call, 2, 3 if kind is ir.TextMatchKind.FUZZY else 2)
        if searched is None:
            return None
        edits = None
        if len(call.arguments) == 3:
            edits = self._edits(call.arguments[2])
            if edits is None:
                return None
        return ir.TextMatch(kind, *searched, edits)

    def _edits(self, expression: ast.Expression) -> ir.Expression | None:
        value = self._values.known_value(expression)
        if isinstance(value, ir.Constant) and isinstance(expression, nodes.IntLiteral):
            if 0 <= expression.value <= MAX_EDITS:
                return value
        elif value is None or (isinstance(value, ir.ParameterValue) and value.type in INTEGERS):
            return value
        self._report(Code.WRONG_ARGUMENTS, f"the edits of `fuzzy` are 0 to {MAX_EDITS}", expression.span)
        return None

    def _searched_text(self, call: ast.FunctionCall, least: int, most: int) -> tuple[ir.Column, ir.Expression] | None:
        """The text property and the query text of a full-text function."""
        searched = self._searched_column(call, least, most)
        if searched is None:
            return None
        column, resolved = searched
        if column.type is not Scalar.STRING:
            message = (
                f"{quoted(call.function)} searches a String, but {expression_text(call.arguments[0])} is {column.type}"
            )
            self._report(Code.WRONG_ARGUMENTS, message, call.arguments[0].span)
            return None
        query = self._values.known_value(call.arguments[1])
        if query is None:
            return None
        if query.type is not Scalar.STRING:
            message = f"{quoted(call.function)} expects a text, found {kind_of(query)}"
            self._report(Code.WRONG_ARGUMENTS, message, call.arguments[1].span)
            return None
        if not resolved.indexed:
            message = f"{expression_text(call.arguments[0])} has no index, so every text is read"
            hint = f"add `@index` to {quoted(column.name)} in the schema"
            self._report(Code.SEARCH_WITHOUT_INDEX, message, call.arguments[0].span, hint)
        return column, query

    def _searched_column(
        self, call: ast.FunctionCall, least: int, most: int
    ) -> tuple[ir.Column, ResolvedProperty] | None:
        if not self._arity(call, least, most):
            return None
        first = call.arguments[0]
        if isinstance(first, ast.PropertyAccess):
            return self._values.column(first)
        message = f"{quoted(call.function)} searches a property such as `$x.bio`"
        self._report(Code.WRONG_ARGUMENTS, message, first.span, _USAGE.get(call.function))
        return None


def refuse_distinct(call: ast.FunctionCall, report: Callable[..., None]) -> None:
    """Reports that a function has no `distinct`."""
    message = f"{quoted(call.function)} does not take `distinct`"
    report(Code.WRONG_ARGUMENTS, message, call.span, "only aggregates do: `count(distinct $x.property)`")


def _aggregate_type(function: ir.AggregateFunction, type: PropertyType) -> PropertyType | None:
    match function:
        case ir.AggregateFunction.SUM:
            return sum_type(type) if type in NUMBERS else None
        case ir.AggregateFunction.AVG:
            return Scalar.F64 if type in NUMBERS else None
        case ir.AggregateFunction.COLLECT:
            return List(type) if isinstance(type, Scalar | Enum) and type is not Scalar.BLOB else None
        case _:
            return type if is_orderable(type) else None


# --- comparisons ---


class Comparisons:
    """Reads comparisons, whose sides are values of one scope."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._report = values.report

    def comparison(
        self, left: ast.Expression, operator: ast.Operator, right: ast.Expression, span: Span
    ) -> ir.Comparison | ir.SameEntity | None:
        """``left operator right``, with literals read as what the other side is.

        A list property that is `=` a single value, either way round, contains it.
        """
        if operator is ast.Operator.EQUAL:
            if self._is_list_property(left) and not self._is_list(right):
                operator = ast.Operator.CONTAINS
            elif self._is_list_property(right) and not self._is_list(left):
                left, operator, right = right, ast.Operator.CONTAINS, left
        sides = self._sides(left, operator, right)
        if sides is None:
            return None
        low, high = sides
        if isinstance(low, ir.Entity) or isinstance(high, ir.Entity):
            return self._same_entity(low, operator, high, span)
        if low.type is None or high.type is None:
            self._report(Code.NULL_COMPARISON, "a comparison with null never matches", span)
            return ir.Comparison(low, operator, high)
        if isinstance(low, ir.Constant) and isinstance(high, ir.Constant):
            self._report(Code.CONSTANT_CONDITION, "this condition is the same for every row", span)
        problem = operator_problem(operator, low.type)
        if problem is not None:
            self._report(Code.OPERATOR_NOT_DEFINED, problem, span)
            return None
        if not are_comparable(right_type(operator, low.type), high.type):
            message = f"{low.type} cannot be compared with {high.type}"
            if operator is ast.Operator.CONTAINS:
                message = f"{low.type} cannot contain {high.type}"
            is_time = {low.type, high.type} == {Scalar.DATE, Scalar.DATETIME}
            hint = "convert one of them: `cast($x.date as DateTime)`, or `cast(now() as Date)`" if is_time else None
            self._report(Code.INCOMPARABLE, message, span, hint)
            return None
        return ir.Comparison(low, operator, high)

    def _is_list_property(self, expression: ast.Expression) -> bool:
        return isinstance(expression, ast.PropertyAccess) and self._is_list(expression)

    def _is_list(self, expression: ast.Expression) -> bool:
        """Whether an expression is a list: a property, a parameter or a literal."""
        if isinstance(expression, ast.PropertyAccess | ast.Variable):
            return isinstance(type_of(self._values.value(expression)), List)
        return isinstance(expression, nodes.ListLiteral | ast.ListExpression)

    def _sides(
        self, left: ast.Expression, operator: ast.Operator, right: ast.Expression
    ) -> tuple[ir.Expression, ir.Expression] | None:
        """Both sides lowered. A literal takes the type that the other side asks of it."""
        if _is_typed_literal(left) and not _is_typed_literal(right):
            high = self._values.value(right)
            low = self._literal_beside(left, _left_type(left, operator, high)) if high else None
        else:
            low = self._values.value(left)
            type = type_of(low)
            if low is not None and type is not None and operator_problem(operator, type) is None:
                high = self._literal_beside(right, right_type(operator, type))
            else:
                high = self._values.value(right) if low is not None else None
        return (low, high) if low is not None and high is not None else None

    def _literal_beside(self, expression: ast.Expression, type: PropertyType | None) -> ir.Expression | None:
        if type is None or not _is_typed_literal(expression):
            return self._values.value(expression)
        assert isinstance(expression, nodes.Literal)
        if _has_fraction(expression) and (type in INTEGERS or (isinstance(type, List) and type.element in INTEGERS)):
            return self._values.value(expression)
        return self._values.constant(expression, type)

    def _same_entity(
        self, left: ir.Expression, operator: ast.Operator, right: ir.Expression, span: Span
    ) -> ir.SameEntity | None:
        message = "an entity is compared with a value"
        if isinstance(left, ir.Entity) and isinstance(right, ir.Entity):
            if operator not in (ast.Operator.EQUAL, ast.Operator.NOT_EQUAL):
                message = "an entity can only be `=` or `!=` another"
            elif self._values.scope.may_be_same(left.variable, right.variable):
                negated = operator is ast.Operator.NOT_EQUAL
                nullable = left.nullable or right.nullable
                return ir.SameEntity(left.variable, right.variable, negated=negated, nullable=nullable)
            else:
                names = f"{quoted('$' + left.variable)} and {quoted('$' + right.variable)}"
                self._report(Code.INCOMPARABLE, f"{names} are never the same entity", span)
                return None
        self._report(Code.ENTITY_AS_VALUE, message, span, "compare one of its properties, such as `$x.id`")
        return None


def _is_typed_literal(expression: ast.Expression) -> bool:
    """Whether an expression is a literal whose type depends on what it stands beside."""
    return isinstance(expression, nodes.Literal) and not isinstance(expression, nodes.NullLiteral)


def _has_fraction(literal: nodes.Literal) -> bool:
    """Whether a number, or one in a list, is compared as a float also with a whole number."""
    items = literal.items if isinstance(literal, nodes.ListLiteral) else (literal,)
    return any(isinstance(item, nodes.FloatLiteral) for item in items)


def _left_type(literal: ast.Expression, operator: ast.Operator, right: ir.Expression) -> PropertyType | None:
    """What a literal to the left of an operator is, by what stands to its right."""
    type = type_of(right)
    is_choice = operator is ast.Operator.CONTAINS and isinstance(literal, nodes.ListLiteral)
    return List(type) if is_choice and isinstance(type, Scalar | Enum) else type
