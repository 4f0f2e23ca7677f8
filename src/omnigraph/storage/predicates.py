"""Conditions that compare one column with known values, in a form that all engines evaluate in the same way.

Numbers are compared exactly, whatever their types. A literal whose number type is not that of the column is converted
to the column's type here, because Lance would refuse it and DuckDB would round.
"""

import math
import operator as operators
import struct
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

from omnigraph.catalog import Enum, List, PropertyType, Scalar
from omnigraph.catalog.types import FLOATS, INTEGER_BOUNDS, INTEGERS
from omnigraph.catalog.values import ScalarValue, Value
from omnigraph.dataclass_later import dataclass
from omnigraph.syntax.query_ast import Operator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIRRORED = {
    Operator.EQUAL: Operator.EQUAL,
    Operator.NOT_EQUAL: Operator.NOT_EQUAL,
    Operator.LESS: Operator.GREATER,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
"""The equivalent operator with the sides exchanged, for operators that have one."""

_MOST_PARTS = 16
"""With more texts than this, a substring index is not searched for each of them."""
_UPWARD = frozenset({Operator.GREATER, Operator.GREATER_OR_EQUAL})
_ELEMENT_TYPES = {
    Scalar.I32: "INT",
    Scalar.I64: "BIGINT",
    Scalar.U32: "INT UNSIGNED",
    Scalar.U64: "BIGINT UNSIGNED",
    Scalar.F32: "FLOAT",
    Scalar.F64: "DOUBLE",
}


class PredicateKind(StrEnum):
    """The kind of a test of a column."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    PART = "contains"
    PREFIX = "starts_with"
    ELEMENT = "array_has"
    ONE_OF = "IN"
    KNOWN = "IS NOT NULL"


_COMPARISONS: dict[PredicateKind, Callable[[Any, Any], bool]] = {
    PredicateKind.EQUAL: operators.eq,
    PredicateKind.NOT_EQUAL: operators.ne,
    PredicateKind.LESS: operators.lt,
    PredicateKind.LESS_OR_EQUAL: operators.le,
    PredicateKind.GREATER: operators.gt,
    PredicateKind.GREATER_OR_EQUAL: operators.ge,
}


@dataclass(frozen=True, slots=True)
class ColumnPredicate:
    """A test of a column against values of the column's type (of its element type for `ELEMENT`)."""

    column: str
    type: PropertyType
    test: PredicateKind
    values: tuple[ScalarValue, ...] = ()

    @property
    def value_type(self) -> PropertyType:
        return self.type.element if isinstance(self.type, List) else self.type


Reduced: TypeAlias = ColumnPredicate | bool
"""A predicate, or its result if it is the same for all rows."""


def column_predicate(
    column: str, type: PropertyType, operator: Operator, value: Value, value_type: PropertyType
) -> Reduced:
    """``column operator value``; False when it holds for no row."""
    if operator is Operator.STARTS_WITH:
        return ColumnPredicate(column, type, PredicateKind.PREFIX, (_scalar(value),))
    if operator is Operator.CONTAINS:
        if not isinstance(type, List):
            return ColumnPredicate(column, type, PredicateKind.PART, (_scalar(value),))
        found = _comparison(column, type.element, Operator.EQUAL, _round_value(_scalar(value), value_type))
        return (
            ColumnPredicate(column, type, PredicateKind.ELEMENT, found.values)
            if isinstance(found, ColumnPredicate)
            else False
        )
    return _comparison(column, type, operator, _round_value(_scalar(value), value_type))


def choice_predicate(column: str, type: PropertyType, choices: Value, choice_type: PropertyType) -> Reduced:
    """``[a, b] contains column``."""
    assert isinstance(choices, tuple)
    element = choice_type.element if isinstance(choice_type, List) else choice_type
    values: dict[ScalarValue, None] = {}
    for choice in choices:
        found = _comparison(column, type, Operator.EQUAL, _round_value(choice, element))
        if isinstance(found, ColumnPredicate):
            values[found.values[0]] = None
    return ColumnPredicate(column, type, PredicateKind.ONE_OF, tuple(values)) if values else False


def _scalar(value: Value) -> ScalarValue:
    assert not isinstance(value, tuple)
    return value


def _round_value(value: ScalarValue, type: PropertyType) -> ScalarValue:
    """A value as its own type holds it: an F32 has fewer digits than Python's float."""
    return as_f32(float(value)) if type is Scalar.F32 and isinstance(value, int | float) else value


def as_f32(value: float) -> float:
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return narrow


def _comparison(column: str, type: PropertyType, operator: Operator, value: ScalarValue) -> Reduced:
    if type in INTEGERS and isinstance(value, int | float):
        return _with_integer(column, Scalar(type), operator, value)
    if type in FLOATS and isinstance(value, int | float):
        return _with_float(column, Scalar(type), operator, value)
    return ColumnPredicate(column, type, PredicateKind(operator.value), (value,))


def _with_integer(column: str, type: Scalar, operator: Operator, value: int | float) -> Reduced:
    """An integer column compared with any number: the bound becomes the equivalent integer."""
    low, high = INTEGER_BOUNDS[type]
    if value < low:
        return _between(column, type, operator, None, low)
    if value > high:
        return _between(column, type, operator, high, None)
    if isinstance(value, float) and not value.is_integer():
        return _between(column, type, operator, math.floor(value), math.ceil(value))
    return ColumnPredicate(column, type, PredicateKind(operator.value), (int(value),))


def _with_float(column: str, type: Scalar, operator: Operator, value: int | float) -> Reduced:
    wide = float(value)
    if type is Scalar.F32:
        near = as_f32(wide)
        if near != wide:
            below, above = (near, _next_f32(near)) if near < wide else (-_next_f32(-near), near)
            bounds = (None if math.isinf(each) else each for each in (below, above))
            return _between(column, type, operator, *bounds)
    return ColumnPredicate(column, type, PredicateKind(operator.value), (wide + 0.0,))


def _next_f32(value: float) -> float:
    """The next larger F32."""
    if math.isinf(value):
        return struct.unpack("<f", struct.pack("<I", 0xFF7FFFFF))[0] if value < 0 else value
    (bits,) = struct.unpack("<i", struct.pack("<f", value + 0.0))
    bits = bits + 1 if bits >= 0 else bits - 1
    return struct.unpack("<f", struct.pack("<i", bits))[0]  # type: ignore[no-any-return]


def _between(
    column: str, type: Scalar, operator: Operator, below: int | float | None, above: int | float | None
) -> Reduced:
    """A comparison with a value that the type cannot hold: it lies between two values of the type, or beyond all."""
    if operator is Operator.EQUAL:
        return False
    if operator is Operator.NOT_EQUAL:
        return ColumnPredicate(column, type, PredicateKind.KNOWN)
    upward = operator in _UPWARD
    bound = above if upward else below
    if bound is None:
        return False
    beyond = (below if upward else above) is None
    if beyond:
        return ColumnPredicate(column, type, PredicateKind.KNOWN)
    return ColumnPredicate(
        column, type, PredicateKind.GREATER_OR_EQUAL if upward else PredicateKind.LESS_OR_EQUAL, (bound,)
    )


# --- the text of a pushed filter ---


def lance_filter(predicates: tuple[ColumnPredicate, ...], substrings: Collection[str] = ()) -> str | None:
    """All predicates as one filter in Lance's SQL, or None when there is nothing to filter.

    `substrings` are the columns with a substring index. It is used only for `contains`, so equality adds this test.
    """
    tests = []
    for predicate in predicates:
        tests.append(_lance_predicate(predicate))
        is_whole = predicate.test in (PredicateKind.EQUAL, PredicateKind.ONE_OF)
        if predicate.column in substrings and is_whole and len(predicate.values) <= _MOST_PARTS:
            tests.append(_has_part(predicate))
    return " AND ".join(tests) or None


def _has_part(predicate: ColumnPredicate) -> str:
    name = quoted_column(predicate.column)
    parts = [f"contains({name}, {literal})" for literal in _literals(predicate.values)]
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"


def _lance_predicate(predicate: ColumnPredicate) -> str:
    name = quoted_column(predicate.column)
    literals = _literals(predicate.values)
    match predicate.test:
        case PredicateKind.KNOWN:
            return f"{name} IS NOT NULL"
        case PredicateKind.ONE_OF:
            return f"{name} IN ({', '.join(literals)})"
        case PredicateKind.ELEMENT:
            tests = [f"array_has({name}, {_element(literal, predicate.value_type)})" for literal in literals]
            return tests[0] if len(tests) == 1 else f"({' OR '.join(tests)})"
        case PredicateKind.PART | PredicateKind.PREFIX:
            return f"{predicate.test}({name}, {literals[0]})"
        case PredicateKind.EQUAL if len(literals) > 1:
            return f"{name} IN ({', '.join(literals)})"
        case PredicateKind.NOT_EQUAL if len(literals) > 1:
            return f"{name} NOT IN ({', '.join(literals)})"
        case PredicateKind.LESS | PredicateKind.GREATER_OR_EQUAL:
            return f"{name} {predicate.test} {literals[-1]}"
        case _:
            return f"{name} {predicate.test} {literals[0]}"


def _literals(values: Iterable[ScalarValue]) -> list[str]:
    """The values as literals. Lance orders -0.0 before 0.0 and treats them as different, so a zero becomes both."""
    literals = []
    for value in values:
        if isinstance(value, float) and value == 0:
            literals += ["0.0", "-0.0"]
        else:
            literals.append(lance_literal(value))
    return literals


def _element(literal: str, type: PropertyType) -> str:
    """A literal that is compared with elements of a list: Lance does not convert it to their type."""
    return f"CAST({literal} AS {_ELEMENT_TYPES[Scalar(type)]})" if type in _ELEMENT_TYPES else literal


def among(column: str, values: Iterable[ScalarValue]) -> str:
    """A filter for the rows whose column has one of these values."""
    literals = ", ".join(_literals(values))
    return f"{quoted_column(column)} IN ({literals})" if literals else "false"


def holds(predicate: ColumnPredicate, value: Any) -> bool:
    """Whether a value passes a predicate: the same rule as the filter, for rows that storage does not have yet."""
    if value is None:
        return False
    if predicate.value_type is Scalar.F32:
        value = [as_f32(each) for each in value] if isinstance(value, list | tuple) else as_f32(value)
    match predicate.test:
        case PredicateKind.KNOWN:
            return True
        case PredicateKind.ONE_OF:
            return value in predicate.values
        case PredicateKind.ELEMENT | PredicateKind.PART:
            return predicate.values[0] in value
        case PredicateKind.PREFIX:
            return bool(value.startswith(predicate.values[0]))
        case test:
            return bool(_COMPARISONS[test](value, predicate.values[0]))


def quoted_column(name: str) -> str:
    """A column's name in Lance's SQL, quoted, because the case of other names is folded."""
    return f"`{name.replace('`', '``')}`"


def lance_literal(value: ScalarValue) -> str:
    """A value as a literal of Lance's SQL, safe against injection.

    In a text only quotes are doubled: there are no other escapes. The smallest I64 is cast from a text, because its
    digits without the sign do not fit into an I64.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int() if value == INTEGER_BOUNDS[Scalar.I64][0]:
            return f"CAST('{value}' AS BIGINT)"
        case int():
            return str(value)
        case float():
            return repr(value)
        case datetime():
            return f"to_timestamp_millis({(value - _EPOCH) // timedelta(milliseconds=1)})"
        case date():
            return f"CAST('{value.isoformat()}' AS DATE)"
    raise TypeError(f"unsupported type of a literal: {value.__class__.__name__}")


def is_text(type: PropertyType) -> bool:
    """Whether values of this type are texts."""
    return type is Scalar.STRING or isinstance(type, Enum)
