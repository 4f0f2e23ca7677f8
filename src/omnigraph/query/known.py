"""Values that are known before anything is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from omnigraph.catalog import PropertyType, Scalar, Value
from omnigraph.catalog.types import NUMBERS
from omnigraph.compiler import ir
from omnigraph.storage.predicates import PredicateKind, choice_predicate, column_predicate
from omnigraph.syntax.query_ast import Operator

KNOWN = ir.Constant | ir.ParameterValue | ir.ListOf | ir.Now


@dataclass(frozen=True, slots=True)
class Known:
    """A value and its type; only null has none."""

    value: Value | None
    type: PropertyType | None


class KnownValues:
    """The values of one run of a query."""

    def __init__(self, parameters: Mapping[str, Value | None], now: datetime) -> None:
        self._parameters = parameters
        instant = now.astimezone(UTC)
        self._now = instant.replace(microsecond=instant.microsecond // 1000 * 1000)

    def of(self, expression: ir.Expression) -> Known | None:
        """The value of an expression, or None when it depends on what is read."""
        match expression:
            case ir.Constant(value, type):
                return Known(value, type)
            case ir.ParameterValue(name, type):
                return Known(self._parameters[name], type)
            case ir.Now(type):
                return Known(self._now, type)
            case ir.ListOf(items, type):
                values = [
                    item.value if isinstance(item, ir.Constant) else self._parameters[item.name] for item in items
                ]
                # A null among the choices equals nothing, so it is no choice.
                return Known(tuple(each for each in values if each is not None and not isinstance(each, tuple)), type)
        return None


def holds(left: Known, operator: Operator, right: Known) -> bool:
    """Whether a comparison of two known values holds."""
    if left.value is None or right.value is None or left.type is None or right.type is None:
        return False
    if operator is Operator.CONTAINS and isinstance(left.value, tuple):
        found = choice_predicate("", right.type, left.value, left.type)
        return not isinstance(found, bool) and right.value in found.values
    if operator is Operator.CONTAINS:
        return str(right.value) in str(left.value)
    if operator is Operator.STARTS_WITH:
        return str(left.value).startswith(str(right.value))
    type = Scalar.F64 if left.type in NUMBERS else left.type
    if isinstance(left.value, int) and isinstance(right.value, int):
        type = left.type
    found = column_predicate("", type, operator, right.value, right.type)
    if isinstance(found, bool):
        return found
    return _passes(left.value, found.test, found.values)


def _passes(value: Value, test: PredicateKind, values: tuple[Value, ...]) -> bool:
    if test is PredicateKind.KNOWN:
        return True
    (bound,) = values
    match test:
        case PredicateKind.EQUAL:
            return value == bound
        case PredicateKind.NOT_EQUAL:
            return value != bound
        case PredicateKind.LESS:
            return value < bound  # type: ignore[operator]
        case PredicateKind.LESS_OR_EQUAL:
            return value <= bound  # type: ignore[operator]
        case PredicateKind.GREATER:
            return value > bound  # type: ignore[operator]
        case _:
            return value >= bound  # type: ignore[operator]
