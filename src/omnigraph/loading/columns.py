"""Turns JSON values into Arrow columns of a property's type: whole columns at once, value by value where that fails.

The common cases go through Arrow in one call. Only a column that has something unusual in it is read value by value,
which also finds the exact value that is wrong.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Enum as EnumType
from omnigraph.catalog import (
    List,
    OutOfRange,
    PropertyType,
    Scalar,
    Vector,
    WrongType,
    all_finite,
    arrow_type,
    value_from_json,
)
from omnigraph.catalog.types import FLOATS, INTEGERS

type_of = type  # the parameter `type` below is a property's

Report = Callable[[int, str], None]
"""Takes the position of a wrong value and what is wrong with it."""

_TEXT, _NUMBER, _NONE = frozenset({str}), frozenset({int, float}), frozenset({type(None)})


def flat(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def json_column(values: Sequence[Any], type: PropertyType, report: Report) -> pa.Array:
    """The column of these values; a wrong one is reported and becomes null."""
    kinds = frozenset(map(type_of, values)) - _NONE
    target = arrow_type(type)
    if not kinds:
        return pa.nulls(len(values), target)
    column = _whole_column(values, kinds, type, target)
    if column is not None and all_finite(column):
        return column
    return pa.array([_value(value, type, position, report) for position, value in enumerate(values)], target)


def _whole_column(
    values: Sequence[Any], kinds: frozenset[type], type: PropertyType, target: pa.DataType
) -> pa.Array | None:
    """The column as Arrow makes it in one call, if it means by these values what we mean; otherwise None."""
    try:
        if kinds <= _direct_kinds(type) or (isinstance(type, Vector) and kinds == {list} and _all_numbers(values)):
            return pa.array(values, target)
        if kinds == _TEXT and type in (Scalar.DATE, Scalar.DATETIME):
            return pa.array(values, pa.string()).cast(target)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        pass
    return None


def _direct_kinds(type: PropertyType) -> frozenset[type]:
    """The Python classes of JSON values that Arrow turns into this type exactly as we would."""
    if type is Scalar.STRING or isinstance(type, EnumType):
        return _TEXT
    if type is Scalar.BOOL:
        return frozenset({bool})
    if type in INTEGERS:
        return frozenset({int})
    if type in FLOATS:
        return _NUMBER
    return frozenset()


def _all_numbers(values: Sequence[Any]) -> bool:
    return all({item.__class__ for item in value} <= _NUMBER for value in values if value is not None)


def _value(value: Any, type: PropertyType, position: int, report: Report) -> Any:
    if value is None:
        return None
    try:
        read = value_from_json(value, type)
    except (WrongType, OutOfRange) as error:
        report(position, str(error))
        return None
    return list(read) if isinstance(type, List | Vector) and isinstance(read, tuple) else read
