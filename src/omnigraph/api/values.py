"""Values of properties as JSON has them."""

import base64
import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, date, datetime
from typing import Any, TypeAlias

BLOB_PREFIX = "base64:"
Row: TypeAlias = Mapping[str, Any]


def iso_datetime(value: datetime) -> str:
    """The canonical spelling of an instant: UTC, with milliseconds only where there are some."""
    precision = "milliseconds" if value.microsecond else "seconds"
    return value.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def value_to_json(value: Any) -> Any:
    """A value in the spelling that a load reads back. Structs and lists keep their shape."""
    match value:
        case datetime():
            return iso_datetime(value)
        case date():
            return value.isoformat()
        case bytes():
            return BLOB_PREFIX + base64.b64encode(value).decode()
        case list() | tuple():
            return [value_to_json(item) for item in value]
        case dict():
            return {name: value_to_json(inner) for name, inner in value.items()}
        case plain:
            return plain


def answer_to_json(value: Any) -> Any:
    """A value of an answer: the same, with null for numbers that JSON does not have."""
    match value:
        case list():
            return [answer_to_json(item) for item in value]
        case dict():
            return {name: answer_to_json(inner) for name, inner in value.items()}
        case float() if not math.isfinite(value):
            return None
        case other:
            return value_to_json(other)


def row_to_json(row: Row | None) -> dict[str, Any] | None:
    """A row, with all its columns."""
    return None if row is None else {name: value_to_json(value) for name, value in row.items()}


def fields_to_json(value: Any) -> dict[str, Any]:
    """The fields of a dataclass that are values of properties, or have their types."""
    return {each.name: value_to_json(getattr(value, each.name)) for each in fields(value)}


def same_value(left: Any, right: Any) -> bool:
    """Whether two values of one column are the same, as storage compares them: NaN is the same as NaN."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same_value, left, right))
    return bool(left == right) or (_is_nan(left) and _is_nan(right))


def same_row(left: Row | None, right: Row | None) -> bool:
    """Whether two rows have the same values; None is a row that does not exist."""
    if left is None or right is None:
        return left is right
    return not differing_columns(left, right)


def differing_columns(left: Row, right: Row) -> tuple[str, ...]:
    """The columns in which two rows differ, in their order; a column that one of them lacks counts as null there."""
    return tuple(name for name in {**left, **right} if not same_value(left.get(name), right.get(name)))


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and value != value  # noqa: PLR0124 - only NaN differs from itself
