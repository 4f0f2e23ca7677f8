"""Values of properties: from literals and JSON, checked against their type, and back to JSON.

In Python a String or enum is a `str`, a Bool a `bool`, an integer an `int`, a float a `float`, a Date a `date`, a
DateTime an aware `datetime` in UTC with milliseconds, a Blob `bytes`, a Vector or list a `tuple`.
"""

import base64
import binascii
import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias

from omnigraph.api.values import BLOB_PREFIX
from omnigraph.catalog.types import FLOATS, INTEGER_BOUNDS, NUMBERS, Enum, List, PropertyType, Scalar, Vector
from omnigraph.diagnostics import any_of, nearest_name, quoted
from omnigraph.syntax import nodes

ScalarValue: TypeAlias = str | bool | int | float | date | datetime | bytes
Value: TypeAlias = ScalarValue | tuple[ScalarValue, ...]

_ISO_DATETIME = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_DECIMAL = re.compile(r"-?[0-9]{1,20}")
_LITERAL_KINDS = {
    nodes.TextLiteral: "a text",
    nodes.BoolLiteral: "a truth value",
    nodes.IntLiteral: "a whole number",
    nodes.FloatLiteral: "a number with a fraction",
    nodes.DateLiteral: "a date",
    nodes.DateTimeLiteral: "a datetime",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class WrongType(ValueError):
    """The value is of another kind than the type asks for."""


class OutOfRange(ValueError):
    """The value is of the right kind, but the type cannot hold it."""


def literal_value(literal: nodes.Literal, type: PropertyType) -> Value | None:
    """The value that a literal is for this type; `WrongType` or `OutOfRange` when it is none.

    Only a number changes its kind: a whole number may stand for a float. A text is never read as a date.
    """
    if isinstance(literal, nodes.NullLiteral):
        return None
    if isinstance(literal, nodes.ListLiteral):
        return _literal_items(literal, type)
    value = literal.value
    match type:
        case Scalar.STRING if isinstance(value, str):
            return value
        case Enum(values) if isinstance(value, str):
            return _member(value, values)
        case Scalar.BOOL if isinstance(value, bool):
            return value
        case Scalar.DATE if isinstance(literal, nodes.DateLiteral):
            return literal.value
        case Scalar.DATETIME if isinstance(literal, nodes.DateTimeLiteral):
            return literal.value
        case Scalar() if type in INTEGER_BOUNDS and isinstance(literal, nodes.IntLiteral):
            return _check_bounds(literal.value, type)
        case Scalar() if type in FLOATS and isinstance(literal, nodes.IntLiteral | nodes.FloatLiteral):
            return _finite(float(literal.value), type)
    raise WrongType(f"{_LITERAL_KINDS[literal.__class__]} is not {_article(type)}")


def _literal_items(literal: nodes.ListLiteral, type: PropertyType) -> Value:
    if not isinstance(type, Vector | List):
        raise WrongType(f"a list is not {_article(type)}")
    element: PropertyType = Scalar.F32 if isinstance(type, Vector) else type.element
    items = tuple(literal_value(item, element) for item in literal.items)
    if isinstance(type, Vector) and len(items) != type.dimension:
        raise OutOfRange(f"a {type} has {type.dimension} numbers, not {len(items)}")
    return tuple(_not_null(item) for item in items)


def _not_null(item: Value | None) -> ScalarValue:
    if item is None or isinstance(item, tuple):
        raise WrongType("an element of a list cannot be null")
    return item


def literal_hint(literal: nodes.Literal, type: PropertyType) -> str | None:
    """How to write what was probably meant by a literal of the wrong kind."""
    if isinstance(literal, nodes.TextLiteral):
        if type is Scalar.DATE:
            return 'write `date("2026-01-31")`'
        if type is Scalar.DATETIME:
            return 'write `datetime("2026-01-31T12:00:00Z")`'
        if type in NUMBERS and _NUMBER.fullmatch(literal.value):
            return f"write the number without quotes: `{literal.value}`"
    if isinstance(literal, nodes.IntLiteral | nodes.FloatLiteral) and type is Scalar.STRING:
        return "write the text in double quotes"
    return None


def value_from_json(given: Any, type: PropertyType) -> Value:
    """The value that a JSON value, or the Python object it could have been, is for this type.

    64-bit integers may come as decimal strings, dates and datetimes as ISO texts (dates also as days since 1970,
    datetimes as milliseconds), blobs as ``"base64:…"``; numpy's scalars and arrays are taken for what they hold. A
    DateTime keeps whole milliseconds. Raises `WrongType` or `OutOfRange`, saying what was found.
    """
    if given.__class__ not in _PLAIN and _package(given) == "numpy":
        given = given.tolist()
    match type:
        case Scalar.STRING if isinstance(given, str):
            return _storable(given)
        case Enum(values) if isinstance(given, str):
            return _member(given, values)
        case Scalar.BOOL if isinstance(given, bool):
            return given
        case Scalar() if type in INTEGER_BOUNDS:
            return _integer(given, type)
        case Scalar() if type in FLOATS and isinstance(given, int | float) and not isinstance(given, bool):
            return _finite(_as_float(given, type), type)
        case Scalar.DATE:
            return _date(given)
        case Scalar.DATETIME:
            return _datetime(given)
        case Scalar.BLOB:
            return _blob(given)
        case Vector(dimension) if isinstance(given, list | tuple):
            if len(given) != dimension:
                raise OutOfRange(f"a {type} has {dimension} numbers, not {len(given)}")
            return tuple(_element(item, Scalar.F32) for item in given)
        case List(element) if isinstance(given, list | tuple):
            return tuple(_element(item, element) for item in given)
    raise WrongType(f"expected {_article(type)}, found {_describe_value(given)}")


_PLAIN = frozenset({str, int, float, bool, list, tuple, dict})


def _package(given: Any) -> str:
    """The top-level package that a value's class comes from."""
    return str(given.__class__.__module__).partition(".")[0]


def _element(given: Any, type: Scalar | Enum) -> ScalarValue:
    return _not_null(value_from_json(given, type))


def _integer(given: Any, type: Scalar) -> int:
    if isinstance(given, str) and _DECIMAL.fullmatch(given):
        given = int(given)
    if isinstance(given, float) and given.is_integer():
        given = int(given)
    if not isinstance(given, int) or isinstance(given, bool):
        raise WrongType(f"expected {_article(type)}, found {_describe_value(given)}")
    return _check_bounds(given, type)


def _as_float(given: int | float, type: Scalar) -> float:
    try:
        return float(given)
    except OverflowError as error:
        raise OutOfRange(f"a number of {len(str(given))} digits does not fit {type}") from error


def _check_bounds(value: int, type: Scalar) -> int:
    low, high = INTEGER_BOUNDS[type]
    if not low <= value <= high:
        raise OutOfRange(f"{value} does not fit {type} ({low} to {high})")
    return value


def _finite(value: float, type: PropertyType) -> float:
    if not math.isfinite(value):
        hint = "; use null for a missing value" if math.isnan(value) else ""
        raise OutOfRange(f"{value} is not a finite number{hint}")
    if type is Scalar.F32:
        try:
            struct.pack("<f", value)
        except OverflowError as error:
            raise OutOfRange(f"{value} does not fit F32") from error
    return value


def _member(value: str, values: tuple[str, ...]) -> str:
    if value in values:
        return value
    nearest = nearest_name(value, values)
    advice = f"did you mean {quoted(nearest)}?" if nearest is not None else f"it is one of {any_of(values)}"
    raise OutOfRange(f"{quoted(value)} is not a value of the enum; {advice}")


def _storable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise OutOfRange("the text has an unpaired surrogate") from error
    return text


def _date(given: Any) -> date:
    if isinstance(given, date) and not isinstance(given, datetime):
        return given
    if isinstance(given, int) and not isinstance(given, bool):
        try:
            return _EPOCH.date() + timedelta(days=given)
        except OverflowError as error:
            raise OutOfRange(f"{given} days is out of range for a Date") from error
    if isinstance(given, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", given):
        try:
            return date.fromisoformat(given)
        except ValueError as error:
            raise OutOfRange(f"{quoted(given)} is not a valid date") from error
    raise WrongType(f"expected a Date such as `2026-01-31`, found {_describe_value(given)}")


def _datetime(given: Any) -> datetime:
    if isinstance(given, int) and not isinstance(given, bool):
        try:
            return _EPOCH + timedelta(milliseconds=given)
        except OverflowError as error:
            raise OutOfRange(f"{given} milliseconds is out of range for a DateTime") from error
    if isinstance(given, str) and _ISO_DATETIME.fullmatch(given):
        try:
            given = datetime.fromisoformat(given)
        except ValueError as error:
            raise OutOfRange(f"{quoted(given)} is not a valid datetime") from error
    if not isinstance(given, datetime):
        raise WrongType(f"expected a DateTime such as `2026-01-31T12:00:00Z`, found {_describe_value(given)}")
    if given.tzinfo is None:
        raise WrongType(f"the DateTime {quoted(given.isoformat())} has no time zone")
    try:
        instant = given.astimezone(UTC)
    except OverflowError as error:
        raise OutOfRange(f"{quoted(given.isoformat())} is out of range for a DateTime") from error
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def _blob(given: Any) -> bytes:
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if isinstance(given, str) and given.startswith(BLOB_PREFIX):
        try:
            return base64.b64decode(given[len(BLOB_PREFIX) :], validate=True)
        except binascii.Error as error:
            raise OutOfRange("the text behind `base64:` is not base64") from error
    raise WrongType(f"expected a Blob as `base64:…`, found {_describe_value(given)}")


def _article(type: PropertyType) -> str:
    text = str(type)
    return f"an {text}" if text[0] in "IFe" else f"a {text}"


def _describe_value(given: Any) -> str:
    match given:
        case None:
            return "null"
        case bool():
            return "true" if given else "false"
        case str():
            return f"the text {quoted(given)}"
        case int() | float():
            return f"the number {quoted(str(given) if not isinstance(given, int) or given.bit_length() < 512 else '…')}"
        case list() | tuple():
            return "a list"
        case dict():
            return "an object"
        case other:
            return f"a Python `{other.__class__.__name__}`"
