"""The conditions of an update or delete: as a filter on what is committed, and on rows that are not yet."""

import struct
from collections.abc import Callable, Mapping
from typing import Any

from omnigraph.catalog import List, Scalar
from omnigraph.compiler import ir
from omnigraph.storage import sql_name, typed_literal
from omnigraph.syntax.query_ast import Operator

Resolve = Callable[[ir.Expression], Any]
"""The value of an expression that is known before anything is read."""

_COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: lambda left, right: left == right,
    Operator.NOT_EQUAL: lambda left, right: left != right,
    Operator.LESS: lambda left, right: left < right,
    Operator.LESS_OR_EQUAL: lambda left, right: left <= right,
    Operator.GREATER: lambda left, right: left > right,
    Operator.GREATER_OR_EQUAL: lambda left, right: left >= right,
    Operator.CONTAINS: lambda left, right: right in left,
    Operator.STARTS_WITH: lambda left, right: left.startswith(right),
}


def sql_condition(conditions: tuple[ir.Comparison, ...], resolve: Resolve) -> str:
    """All conditions as one filter for storage; a comparison with null holds nowhere."""
    return " AND ".join(_sql(condition, resolve) for condition in conditions) or "true"


def _sql(condition: ir.Comparison, resolve: Resolve) -> str:
    column, value = condition.left, resolve(condition.right)
    assert isinstance(column, ir.Column)
    if value is None:
        return "false"
    name = sql_name(column.name)
    literal = typed_literal(value, column.type.element if isinstance(column.type, List) else column.type)
    match condition.operator:
        case Operator.CONTAINS if isinstance(column.type, List):
            return f"array_has({name}, {literal})"
        case Operator.CONTAINS:
            return f"contains({name}, {literal})"
        case Operator.STARTS_WITH:
            return f"starts_with({name}, {literal})"
        case operator:
            return f"{name} {operator.value} {literal}"


def holds(conditions: tuple[ir.Comparison, ...], row: Mapping[str, Any], resolve: Resolve) -> bool:
    """Whether a row meets all conditions: the same rule, for rows that storage does not have yet."""
    return all(_holds(condition, row, resolve) for condition in conditions)


def _holds(condition: ir.Comparison, row: Mapping[str, Any], resolve: Resolve) -> bool:
    column, right = condition.left, resolve(condition.right)
    assert isinstance(column, ir.Column)
    left = row[column.name]
    if left is None or right is None:
        return False
    if column.type is Scalar.F32:
        left, right = _as_f32(left), _as_f32(right)
    return _COMPARE[condition.operator](left, right)


def _as_f32(value: float) -> float:
    single: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return single
