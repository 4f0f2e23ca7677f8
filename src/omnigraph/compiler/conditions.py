"""Typechecks and lowers comparisons."""

from omnigraph.catalog import Enum, List, PropertyType, Scalar
from omnigraph.catalog.types import INTEGERS
from omnigraph.codes import Code
from omnigraph.compiler import ir
from omnigraph.compiler.comparing import are_comparable, operator_problem, right_type
from omnigraph.compiler.values import Values, type_of
from omnigraph.diagnostics import Span, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax.query_ast import Expression, Operator


class Comparisons:
    """Reads comparisons, whose sides are values of one scope."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._report = values.report

    def comparison(
        self, left: Expression, operator: Operator, right: Expression, span: Span
    ) -> ir.Comparison | ir.SameEntity | None:
        """``left operator right``, with literals read as what the other side is."""
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
            if operator is Operator.CONTAINS:
                message = f"{low.type} cannot contain {high.type}"
            self._report(Code.INCOMPARABLE, message, span)
            return None
        return ir.Comparison(low, operator, high)

    def _sides(
        self, left: Expression, operator: Operator, right: Expression
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

    def _literal_beside(self, expression: Expression, type: PropertyType | None) -> ir.Expression | None:
        if type is None or not _is_typed_literal(expression):
            return self._values.value(expression)
        assert isinstance(expression, nodes.Literal)
        if _has_fraction(expression) and (type in INTEGERS or (isinstance(type, List) and type.element in INTEGERS)):
            return self._values.value(expression)
        return self._values.constant(expression, type)

    def _same_entity(
        self, left: ir.Expression, operator: Operator, right: ir.Expression, span: Span
    ) -> ir.SameEntity | None:
        message = "an entity is compared with a value"
        if isinstance(left, ir.Entity) and isinstance(right, ir.Entity):
            if operator not in (Operator.EQUAL, Operator.NOT_EQUAL):
                message = "an entity can only be `=` or `!=` another"
            elif self._values.scope.may_be_same(left.variable, right.variable):
                return ir.SameEntity(left.variable, right.variable, negated=operator is Operator.NOT_EQUAL)
            else:
                names = f"{quoted('$' + left.variable)} and {quoted('$' + right.variable)}"
                self._report(Code.INCOMPARABLE, f"{names} are never the same entity", span)
                return None
        self._report(Code.ENTITY_AS_VALUE, message, span, "compare one of its properties, such as `$x.id`")
        return None


def _is_typed_literal(expression: Expression) -> bool:
    """Whether an expression is a literal whose type depends on what it stands beside."""
    return isinstance(expression, nodes.Literal) and not isinstance(expression, nodes.NullLiteral)


def _has_fraction(literal: nodes.Literal) -> bool:
    """Whether a number, or one in a list, is compared as a float also with a whole number."""
    items = literal.items if isinstance(literal, nodes.ListLiteral) else (literal,)
    return any(isinstance(item, nodes.FloatLiteral) for item in items)


def _left_type(literal: Expression, operator: Operator, right: ir.Expression) -> PropertyType | None:
    """What a literal to the left of an operator is, by what stands to its right."""
    type = type_of(right)
    is_choice = operator is Operator.CONTAINS and isinstance(literal, nodes.ListLiteral)
    return List(type) if is_choice and isinstance(type, Scalar | Enum) else type
