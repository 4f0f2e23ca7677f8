"""Computed values at the time of a run: what is known is replaced by its value, and the rest is ready for an engine.

A comparison of a column with a known value becomes a predicate, as it is where it is pushed into a scan; so it means
the same in both places. Other comparisons become operations on values of one type.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import pyarrow as pa

from omnigraph.catalog import List, PropertyType, Scalar, arrow_type
from omnigraph.catalog.types import FLOATS, INTEGERS, NUMBERS
from omnigraph.compiler import ir
from omnigraph.compiler.expressions import call
from omnigraph.dataclass_later import dataclass
from omnigraph.operations import evaluate
from omnigraph.storage.predicates import (
    MIRRORED,
    ColumnPredicate,
    PredicateKind,
    Reduced,
    choice_predicate,
    column_predicate,
)
from omnigraph.syntax.query_ast import Operator

if TYPE_CHECKING:
    from omnigraph.query.levels import Known, KnownValues

_COMPARISONS = {
    Operator.EQUAL: "equal",
    Operator.NOT_EQUAL: "not_equal",
    Operator.LESS: "less",
    Operator.LESS_OR_EQUAL: "less_equal",
    Operator.GREATER: "greater",
    Operator.GREATER_OR_EQUAL: "greater_equal",
    Operator.STARTS_WITH: "starts_with",
}


@dataclass(frozen=True, slots=True)
class ColumnTest:
    """A predicate on a column of a variable; null where the column is."""

    column: ir.Column
    predicate: ColumnPredicate
    type: PropertyType = Scalar.BOOL
    nullable: bool = True


Resolved: TypeAlias = ir.Expression | ColumnTest


def resolve(expression: ir.Expression, values: "KnownValues") -> Resolved:
    """An expression in which what is known is a constant, and what is compared an operation or a test."""
    known = values.of(expression)
    if known is not None:
        return ir.Constant(known.value, known.type or getattr(expression, "type", None))
    match expression:
        case ir.Comparison():
            return _resolve_comparison(expression, values)
        case ir.Call(operation, arguments, type, nullable):
            resolved = tuple(resolve(_argument_of(operation, each), values) for each in arguments)
            return ir.Call(operation, resolved, type, nullable)  # type: ignore[arg-type]  # tests are values, too
        case _:
            return expression


def fit_sum(value: ir.Expression) -> ir.Expression:
    """A sum of whole numbers as a value of its type, null where this cannot hold it; any other value as it is.

    Engines add up in a type that holds every sum. A sum that does not fit is an error only where it is returned.
    """
    return call(_fitting(value.type), value) if is_whole_sum(value) else value


def is_whole_sum(value: ir.Expression) -> TypeGuard[ir.Aggregate]:
    """Whether a value is a sum of whole numbers, which its type may not hold."""
    return isinstance(value, ir.Aggregate) and value.function is ir.AggregateFunction.SUM and value.type in INTEGERS


def _fitting(type: PropertyType) -> str:
    return f"integer to {type}"


def _argument_of(operation: str, value: ir.Expression) -> ir.Expression:
    """What an operation computes with. Asked whether it is null is the sum itself, as comparisons compare it."""
    is_exact = is_whole_sum(value) and operation in ("is null", _fitting(value.type))
    return value if is_exact else fit_sum(value)


def _resolve_comparison(comparison: ir.Comparison, values: "KnownValues") -> Resolved:
    left, operator, right = comparison.left, comparison.operator, comparison.right
    low, high = values.of(left), values.of(right)
    if (low is not None and low.value is None) or (high is not None and high.value is None):
        return ir.Constant(None, Scalar.BOOL)
    if isinstance(left, ir.Column) and high is not None:
        assert high.value is not None
        assert high.type is not None
        return _test(left, column_predicate(left.name, left.type, operator, high.value, high.type))
    if isinstance(right, ir.Column) and low is not None:
        found = mirror_comparison(low, operator, right)
        if found is not None:
            return _test(right, found)
    one, other = resolve(left, values), resolve(right, values)
    if operator is Operator.CONTAINS:
        return _contains(one, other)
    assert not isinstance(one, ir.Entity)
    assert not isinstance(other, ir.Entity)
    if {one.type, other.type} & FLOATS and one.type != other.type:
        one, other = _as_float(one), _as_float(other)
    return call(_COMPARISONS[operator], one, other)  # type: ignore[arg-type]


def mirror_comparison(known: "Known", operator: Operator, column: ir.Column) -> Reduced | None:
    """``value operator column`` as a predicate of the column, where it is one."""
    assert known.value is not None
    assert known.type is not None
    if operator is Operator.CONTAINS and isinstance(known.value, tuple):
        return choice_predicate(column.name, column.type, known.value, known.type)
    turned = MIRRORED.get(operator)
    return column_predicate(column.name, column.type, turned, known.value, known.type) if turned is not None else None


def _test(column: ir.Column, found: Reduced) -> Resolved:
    """A predicate; where it is the same for all values, it is still null for null."""
    if found is False or found is True or found.test is PredicateKind.KNOWN:
        return call("not_equal" if found is False else "equal", column, column)
    return ColumnTest(column, found)


def _contains(holder: Resolved, value: Resolved) -> Resolved:
    assert not isinstance(holder, ir.Entity)
    assert not isinstance(value, ir.Entity)
    if not isinstance(holder.type, List):
        return call("contains", holder, value)  # type: ignore[arg-type]
    element = holder.type.element
    if isinstance(holder, ir.Constant):
        assert isinstance(holder.value, tuple)
        choices: list[Resolved] = [ir.Constant(each, element) for each in holder.value]
        if element in NUMBERS and element != value.type and {element, value.type} & FLOATS:
            value, choices = _as_float(value), [_as_float(each) for each in choices]
        return call("in", value, *choices)  # type: ignore[arg-type]
    return call("has", holder, value)  # type: ignore[arg-type]


def _as_float(value: Resolved) -> Resolved:
    assert not isinstance(value, ir.Entity)
    if value.type is Scalar.F64:
        return value
    if isinstance(value, ir.Constant):
        assert isinstance(value.value, int | float)
        return ir.Constant(float(value.value), Scalar.F64)
    return call("convert to F64", value)  # type: ignore[arg-type]


def compute(
    expression: Resolved, leaf: Callable[[Resolved], pa.Array | None], repeat: Callable[[ir.Constant], pa.Array]
) -> pa.Array:
    """The values of a resolved expression, row by row. `leaf` has those that no operation computes."""
    found = leaf(expression)
    if found is not None:
        return found
    if isinstance(expression, ir.Constant):
        return repeat(expression)
    assert isinstance(expression, ir.Call), expression
    arguments = [compute(each, leaf, repeat) for each in expression.arguments]
    return evaluate(expression.operation, arguments, expression.type)


def constant_array(constant: ir.Constant, count: int) -> pa.Array:
    """A known value, as often as there are rows."""
    type = pa.null() if constant.type is None else arrow_type(constant.type)
    value = list(constant.value) if isinstance(constant.value, tuple) else constant.value
    return pa.repeat(pa.scalar(value, type), count) if count else pa.nulls(0, type)
