"""Rows in Python: when two are the same, and what they are in JSON."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from omnigraph.catalog import value_to_json

Row: TypeAlias = Mapping[str, Any]


def same_value(left: Any, right: Any) -> bool:
    """Whether two values of one column are the same, as storage compares them: NaN is the same as NaN."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same_value, left, right))
    return bool(left == right) or (_is_nan(left) and _is_nan(right))


def same_row(left: Row | None, right: Row | None) -> bool:
    """Whether two rows have the same values; None is a row that is not there."""
    if left is None or right is None:
        return left is right
    return not differing_columns(left, right)


def differing_columns(left: Row, right: Row) -> tuple[str, ...]:
    """The columns in which two rows differ, in their order; what only one of them has is null in the other."""
    return tuple(name for name in {**left, **right} if not same_value(left.get(name), right.get(name)))


def json_value(value: Any) -> Any:
    """A value of a row as JSON, in the spelling that a load reads."""
    return value_to_json(tuple(value) if isinstance(value, list) else value)


def json_row(row: Row | None) -> dict[str, Any] | None:
    """A row as JSON, with all its columns."""
    return None if row is None else {name: json_value(value) for name, value in row.items()}


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value  # noqa: PLR0124 - only NaN differs from itself
