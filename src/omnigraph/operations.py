"""What each operator and function of the query language computes: its types, its nulls, and how each engine does it.

An operation takes values of exact types. `Overload` says which operation a function or an operator stands for, by the
types of what it is given. The engines must agree on every value, so a text is compared and measured by its characters
(Unicode code points), a day and an instant are numbers since 1970 in UTC, and a result that has no representable value
is null and never an error, an infinity or NaN.

In SQL an operation is a text with a place for each argument: `@0` is the first. `write_operation` puts the arguments
there. One that is long and needed more than once is bound to a name, so that the text grows with the expression and
not exponentially.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.api.values import iso_datetime
from omnigraph.catalog import Enum, List, PropertyType, Scalar, arrow_type
from omnigraph.catalog.types import INTEGER_BOUNDS, INTEGERS, NUMBERS
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass

_DAY = 86_400_000
_FIRST_DAY, _LAST_DAY = date(1, 1, 1).toordinal() - 719_163, date(9999, 12, 31).toordinal() - 719_163
"""The days that a Date can be, counted from 1970-01-01."""
_FIRST_MS, _LAST_MS = _FIRST_DAY * _DAY, (_LAST_DAY + 1) * _DAY - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Numbers: TypeAlias = NDArray[Any]
Computed: TypeAlias = tuple[Numbers, NDArray[np.bool_] | None]
"""Results, and where there is none."""


class Nulls(StrEnum):
    """When a result is null."""

    STRICT = "strict"
    """If an argument is."""
    PARTIAL = "partial"
    """If an argument is, or if there is no representable value."""
    OWN = "own"
    """As the operation says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation. `arrow` gets arrays of one length; without nulls of arguments, unless its nulls are its own."""

    name: str
    gives: PropertyType | None
    """The type of the result; None if it follows from the arguments."""
    nulls: Nulls
    arrow: Callable[..., Any]
    duckdb: str | Callable[[int], str]
    spark: str | Callable[[int], str]

    def template(self, dialect: str, count: int) -> str:
        """The SQL for a number of arguments: `@0` is the first of them."""
        text = self.duckdb if dialect == DUCKDB else self.spark
        return text if isinstance(text, str) else text(count)


DUCKDB, SPARK = "duckdb", "spark"


# --- SQL ---

_SHORT = 64
_PLACE = r"@(\d+)"
_BOUND = {
    DUCKDB: ("list_transform([{{{fields}}}], lambda x: {body})[1]", "'a{at}': {value}"),
    SPARK: ("transform(array(named_struct({fields})), x -> {body})[0]", "'a{at}', {value}"),
}


def repeats_arguments(name: str, count: int, dialect: str) -> bool:
    """Whether the SQL of an operation with `count` arguments has one of them several times."""
    places = re.findall(_PLACE, operations()[name].template(dialect, count))
    return len({*places}) < len(places)


def write_operation(name: str, arguments: Sequence[str], dialect: str) -> str:
    """The SQL of an operation of these arguments, which are SQL."""
    template = operations()[name].template(dialect, len(arguments))
    places = [int(each) for each in re.findall(_PLACE, template)]
    long = [
        at
        for at, value in enumerate(arguments)
        if places.count(at) > 1 and (len(value) > _SHORT or "SELECT" in value.upper())
    ]
    if not long:
        return f"({re.sub(_PLACE, lambda place: arguments[int(place[1])], template)})"
    # Whatever the body names must be bound: a query within it could not be named there.
    body = re.sub(_PLACE, lambda place: f"x.a{place[1]}", template)
    around, field = _BOUND[dialect]
    fields = ", ".join(field.format(at=at, value=value) for at, value in enumerate(arguments))
    return around.format(fields=fields, body=body)


# --- Arrow and numpy ---


def evaluate(name: str, arguments: Sequence[pa.Array], type: PropertyType) -> pa.Array:
    """The results of an operation, row by row, for arrays of one length."""
    operation = operations()[name]
    if operation.nulls is Nulls.OWN:
        return operation.arrow(type, *arguments)
    wanted = arrow_type(type)
    missing = _missing(arguments)
    if missing is not None:
        if missing.all():
            return pa.nulls(len(missing), wanted)
        there = pa.array(~missing)
        results = operation.arrow(*(each.filter(there) for each in arguments))
        places = np.cumsum(~missing) - 1
        return _as_array(results, wanted).take(pa.array(places, mask=missing))
    return _as_array(operation.arrow(*arguments), wanted)


def _missing(arrays: Iterable[pa.Array]) -> NDArray[np.bool_] | None:
    missing: NDArray[np.bool_] | None = None
    for each in arrays:
        if each.null_count:
            found = _truths(each.is_null())
            missing = found if missing is None else missing | found
    return missing


def _as_array(results: Any, wanted: pa.DataType) -> pa.Array:
    if isinstance(results, tuple):
        values, invalid = results
        if pa.types.is_date32(wanted):
            values = values.astype(np.int32)
        if pa.types.is_temporal(wanted):
            found = pa.array(values, mask=invalid)
            return found.view(wanted)
        return pa.array(values, mask=invalid).cast(wanted)
    if isinstance(results, list):
        return pa.array(results, wanted)
    return results if results.type == wanted else results.cast(wanted)


def _numbers(array: pa.Array) -> Numbers:
    """The numbers of an array without nulls; days and milliseconds of days and instants."""
    if pa.types.is_date32(array.type):
        return np.from_dlpack(array.view(pa.int32())).astype(np.int64)
    if pa.types.is_timestamp(array.type):
        return np.from_dlpack(array.view(pa.int64()))
    return np.from_dlpack(array)


def _truths(array: pa.Array) -> NDArray[np.bool_]:
    return np.from_dlpack(array.cast(pa.uint8())).view(np.bool_)


def _by_numbers(function: Callable[..., Computed]) -> Callable[..., Any]:
    def arrow(*arrays: pa.Array) -> Computed:
        with np.errstate(all="ignore"):
            return function(*map(_numbers, arrays))

    return arrow


def _by_values(function: Callable[..., Any]) -> Callable[..., Any]:
    """Computes value by value, each combination of values once."""

    def arrow(*arrays: pa.Array) -> list[Any]:
        known: dict[tuple[Any, ...], Any] = {}
        found = []
        for values in zip(*(each.to_pylist() for each in arrays), strict=True):
            key = tuple(tuple(value) if isinstance(value, list) else value for value in values)
            if key not in known:
                known[key] = function(*values)
            found.append(known[key])
        return found

    return arrow


# --- whole numbers ---


def _plus(left: Numbers, right: Numbers) -> Computed:
    result = left + right
    return result, ((left ^ result) & (right ^ result)) < 0


def _minus(left: Numbers, right: Numbers) -> Computed:
    result = left - right
    return result, ((left ^ right) & (left ^ result)) < 0


def _times(left: Numbers, right: Numbers) -> Computed:
    result = left * right
    size = np.abs(left.astype(np.float64) * right.astype(np.float64))
    invalid = size >= 2.0**64
    for at in np.flatnonzero((size >= 2.0**62) & ~invalid):
        invalid[at] = not -(2**63) <= int(left[at]) * int(right[at]) < 2**63
    return result, invalid


def _modulo(left: Numbers, right: Numbers) -> Computed:
    invalid = right == 0
    return np.fmod(left, np.where(invalid, 1, right)), invalid


def _absolute(values: Numbers) -> Computed:
    return np.abs(values), values == np.iinfo(np.int64).min


def _to_i64(values: Numbers) -> Computed:
    if values.dtype == np.uint64:
        return values.astype(np.int64), values > np.uint64(2**63 - 1)
    return values.astype(np.int64), None


# --- other numbers ---


def _finite(values: Numbers) -> Computed:
    """A zero has one form."""
    return values + 0.0, ~np.isfinite(values)


def _of_floats(function: Callable[..., Numbers]) -> Callable[..., Computed]:
    return lambda *values: _finite(function(*values))


def _round(values: Numbers) -> Numbers:
    whole = np.trunc(values)
    found: Numbers = whole + np.copysign(np.abs(values - whole) >= 0.5, values)
    return found


def _float_to_integer(low: int, high: int) -> Callable[[Numbers], Computed]:
    def convert(values: Numbers) -> Computed:
        whole = np.trunc(values.astype(np.float64))
        # The bounds of 64 bits are not floats; what is beyond them is at least the next power of two.
        invalid = ~((whole >= float(low)) & ((whole <= float(high)) if high < 2**53 else (whole < float(high + 1))))
        return np.where(invalid, 0.0, whole).astype(np.uint64 if high >= 2**63 else np.int64), invalid

    return convert


def _integer_to_integer(low: int, high: int) -> Callable[[Numbers], Computed]:
    def convert(values: Numbers) -> Computed:
        invalid = np.zeros(len(values), np.bool_)
        if int(np.iinfo(values.dtype).min) < low:
            invalid |= values < np.array(low, values.dtype)
        if int(np.iinfo(values.dtype).max) > high:
            invalid |= values > np.array(high, values.dtype)
        return np.where(invalid, np.array(0, values.dtype), values).astype(
            np.uint64 if high >= 2**63 else np.int64
        ), invalid

    return convert


def _to_f32(values: Numbers) -> Computed:
    narrow = values.astype(np.float32)
    return narrow + np.float32(0), ~np.isfinite(narrow)


# --- comparisons ---


def _compares(function: str) -> Callable[..., Any]:
    def arrow(left: pa.Array, right: pa.Array) -> pa.Array:
        if left.type != right.type:
            # numpy compares whole numbers of all types exactly.
            return pa.array(getattr(np, function)(_numbers(left), _numbers(right)))
        return getattr(pc, function)(left, right)

    return arrow


# --- texts ---

_BLANKS = " \t\r\n"


_UPPER = str.maketrans("ßᾀᾁᾂᾃᾄᾅᾆᾇᾐᾑᾒᾓᾔᾕᾖᾗᾠᾡᾢᾣᾤᾥᾦᾧᾳῃῳ", "ẞᾈᾉᾊᾋᾌᾍᾎᾏᾘᾙᾚᾛᾜᾝᾞᾟᾨᾩᾪᾫᾬᾭᾮᾯᾼῌῼ")
_LOWER = str.maketrans("İ", "i")
"""Letters whose counterpart is one letter, where Python and Java give several."""


def _changes_case(change: Callable[[str], str], exceptions: Mapping[int, int], quickly: str) -> Callable[..., Any]:
    def one(text: str) -> str:
        return "".join(changed if len(changed := change(each)) == 1 else each for each in text.translate(exceptions))

    def arrow(texts: pa.Array) -> Any:
        if pc.all(pc.string_is_ascii(texts), min_count=0).as_py():
            return getattr(pc, quickly)(texts)
        return _by_values(one)(texts)

    return arrow


def _spark_case(change: str, exceptions: Mapping[int, int]) -> str:
    """By letter: as a whole, Java changes the number of letters, and an S by what follows it."""
    before, after = ("".join(map(chr, each)) for each in (exceptions.keys(), exceptions.values()))
    letters = f"split(translate(@0, '{before}', '{after}'), '')"
    changed = f"transform({letters}, c -> CASE WHEN char_length({change}(c)) = 1 THEN {change}(c) ELSE c END)"
    return f"CASE WHEN octet_length(@0) = char_length(@0) THEN {change}(@0) ELSE array_join({changed}, '') END"


def _substring(text: str, start: int, length: int) -> str | None:
    return text[start : start + length] if start >= 0 and length >= 0 else None


def _rest_of(text: str, start: int) -> str | None:
    return text[start:] if start >= 0 else None


# --- days and instants ---


class Unit(StrEnum):
    """What spans of time are counted in, and days and instants are cut to."""

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    HOUR = "hour"
    MINUTE = "minute"
    SECOND = "second"
    MILLISECOND = "millisecond"


_CALENDAR = (Unit.YEAR, Unit.QUARTER, Unit.MONTH)
_MONTHS = {Unit.YEAR: 12, Unit.QUARTER: 3, Unit.MONTH: 1}
_DAYS = {Unit.WEEK: 7, Unit.DAY: 1}
_MILLISECONDS = {Unit.HOUR: 3_600_000, Unit.MINUTE: 60_000, Unit.SECOND: 1000, Unit.MILLISECOND: 1}
DATE_UNITS = (*_CALENDAR, *_DAYS)
_MONDAY = 3
"""1970-01-01 was a Thursday: the days since the Monday before."""


def _months_of(days: Numbers) -> Numbers:
    """The months since January 1970."""
    return days.astype("M8[D]").astype("M8[M]").astype(np.int64)


def _first_days(months: Numbers) -> Numbers:
    return months.astype("M8[M]").astype("M8[D]").astype(np.int64)


def _day_of_month(days: Numbers) -> Numbers:
    return days - _first_days(_months_of(days)) + 1


def _unit_of_days(unit: Unit) -> Callable[[Numbers], Numbers]:
    """How many units have begun since 1970."""
    if unit in _MONTHS:
        return lambda days: _months_of(days) // _MONTHS[unit]
    return lambda days: (days + (_MONDAY if unit is Unit.WEEK else 0)) // _DAYS[unit]


def _cut_days(unit: Unit) -> Callable[[Numbers], Computed]:
    number_of = _unit_of_days(unit)

    def cut(days: Numbers) -> Computed:
        number = number_of(days)
        if unit in _MONTHS:
            return _first_days(number * _MONTHS[unit]), None
        return _known_days(number * _DAYS[unit] - (_MONDAY if unit is Unit.WEEK else 0))

    return cut


def _known_days(days: Numbers) -> Computed:
    return days, (days < _FIRST_DAY) | (days > _LAST_DAY)


def _known_instants(instants: Numbers) -> Computed:
    return instants, (instants < _FIRST_MS) | (instants > _LAST_MS)


def _add_months(days: Numbers, months: Numbers) -> Computed:
    """The same day some months later, or the last one of that month."""
    limit = 12 * 10_000
    invalid = np.abs(months) > limit
    there = _months_of(days) + np.where(invalid, 0, months)
    first, following = _first_days(there), _first_days(there + 1)
    found, outside = _known_days(np.minimum(first + _day_of_month(days) - 1, following - 1))
    return found, outside | invalid if outside is not None else invalid


def _add_days(days: Numbers, more: Numbers) -> Computed:
    most = np.int64(_LAST_DAY - _FIRST_DAY)
    invalid = np.abs(more) > most
    found, outside = _known_days(days + np.where(invalid, 0, more))
    return found, invalid if outside is None else invalid | outside


def _add_instants(instants: Numbers, more: Numbers) -> Computed:
    most = np.int64(_LAST_MS - _FIRST_MS)
    invalid = (more > most) | (more < -most)
    found, outside = _known_instants(instants + np.where(invalid, 0, more))
    return found, invalid if outside is None else invalid | outside


# --- casts ---

# Without braces, which have a meaning in the texts that Spark is given.
_INTEGER_TEXT = r"-?[0-9]+"
_FLOAT_TEXT = r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?"
_DATE_TEXT = r"(000[1-9]|00[1-9][0-9]|0[1-9][0-9][0-9]|[1-9][0-9][0-9][0-9])-[0-9][0-9]-[0-9][0-9]"
_DATETIME_TEXT = (
    _DATE_TEXT + r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9][0-9]?[0-9]?)?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])"
)
_LONGEST = 400
"""Longer texts are not numbers, as in the source of a query."""


def _text_to_integer(low: int, high: int) -> Callable[[str], int | None]:
    def convert(text: str) -> int | None:
        number = int(text) if len(text) <= _LONGEST and re.fullmatch(_INTEGER_TEXT, text) else None
        return number if number is not None and low <= number <= high else None

    return convert


def _text_to_float(text: str) -> float | None:
    if len(text) > _LONGEST or not re.fullmatch(_FLOAT_TEXT, text):
        return None
    number = float(text)
    return number + 0.0 if np.isfinite(number) else None


def _text_to_date(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if re.fullmatch(_DATE_TEXT, text) else None
    except ValueError:
        return None


def _text_to_datetime(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if re.fullmatch(_DATETIME_TEXT, text) else None
    except (ValueError, OverflowError):
        return None


# --- operations that decide about nulls themselves ---


def _and(_type: PropertyType, *conditions: pa.Array) -> pa.Array:
    found = conditions[0]
    for each in conditions[1:]:
        found = pc.and_kleene(found, each)
    return found


def _or(_type: PropertyType, *conditions: pa.Array) -> pa.Array:
    found = conditions[0]
    for each in conditions[1:]:
        found = pc.or_kleene(found, each)
    return found


def _coalesce(type: PropertyType, *values: pa.Array) -> pa.Array:
    wanted = arrow_type(type)
    found = values[0].cast(wanted)
    for each in values[1:]:
        if not found.null_count:
            break
        found = _choose(found.is_valid(), found, each.cast(wanted))
    return found


def _case(type: PropertyType, *parts: pa.Array) -> pa.Array:
    """Conditions and values in turn, and the value where no condition holds, from the last to the first."""
    wanted = arrow_type(type)
    found = parts[-1].cast(wanted)
    for at in range(len(parts) - 3, -1, -2):
        condition = parts[at]
        holds = condition.fill_null(False) if condition.null_count else condition
        found = _choose(holds, parts[at + 1].cast(wanted), found)
    return found


def _choose(first: pa.Array, one: pa.Array, other: pa.Array) -> pa.Array:
    """Values of one array or of the other. Arrow itself does not choose between lists of all types."""
    places = np.arange(len(first)) + np.where(_truths(first), 0, len(first))
    return pa.concat_arrays([one, other]).take(pa.array(places))


def _is_in(_type: PropertyType, value: pa.Array, *choices: pa.Array) -> pa.Array:
    found = pa.array(np.zeros(len(value), np.bool_))
    for each in choices:
        found = pc.or_(found, evaluate("equal", (value, each), Scalar.BOOL).fill_null(False))
    return found if not value.null_count else _choose(value.is_valid(), found, pa.nulls(len(value), pa.bool_()))


# --- the table ---

Rows: TypeAlias = Iterable[tuple[str, PropertyType | None, Nulls, Callable[..., Any], Any, Any]]
"""Name, result type, nulls, and the three forms of operations."""


def _matches(pattern: str, value: str, dialect: str) -> str:
    """What is made of a text that matches a pattern as a whole."""
    if dialect == DUCKDB:
        return f"CASE WHEN length(@0) <= {_LONGEST} AND regexp_full_match(@0, '{pattern}') THEN {value} END"
    escaped = pattern.replace("\\", "\\\\")
    return f"CASE WHEN char_length(@0) <= {_LONGEST} AND @0 RLIKE '^({escaped})\\\\z' THEN {value} END"


def _between(low: str | int, high: str | int, value: str) -> str:
    return f"CASE WHEN @0 BETWEEN {low} AND {high} THEN {value} END"


_INTEGER_SQL = {Scalar.I32: "INTEGER", Scalar.I64: "BIGINT", Scalar.U32: "BIGINT", Scalar.U64: "DECIMAL(20, 0)"}
"""Types in both dialects. Spark has no unsigned ones; these hold all their values."""
_SPARK_DATE_OF = "date_from_unix_date(CAST(floor(unix_millis(@0) / 86400000D) AS INT))"
_DUCKDB_DATE_OF = "(DATE '1970-01-01' + CAST(floor(epoch_ms(@0) / 86400000::DOUBLE) AS INTEGER))"
_GREATEST_F32 = "3.4028235677973366E38"
"""From this number on, the nearest F32 is infinity."""


def _floor_sql(number: str, divisor: int) -> str:
    return f"CAST(floor({number} / CAST({divisor} AS DOUBLE)) AS BIGINT)"


def _integers() -> Rows:
    i64, partial = Scalar.I64, Nulls.PARTIAL
    wide = "TRY_CAST(CAST(@0 AS HUGEINT) {} CAST(@1 AS HUGEINT) AS BIGINT)"
    yield "plus I64", i64, partial, _by_numbers(_plus), wide.format("+"), "try_add(@0, @1)"
    yield "minus I64", i64, partial, _by_numbers(_minus), wide.format("-"), "try_subtract(@0, @1)"
    yield "times I64", i64, partial, _by_numbers(_times), wide.format("*"), "try_multiply(@0, @1)"
    modulo = "CAST(CASE WHEN @1 <> 0 THEN CAST(@0 AS HUGEINT) % CAST(@1 AS HUGEINT) END AS BIGINT)"
    yield "modulo I64", i64, partial, _by_numbers(_modulo), modulo, "try_mod(@0, @1)"
    absolute = "TRY_CAST(abs(CAST(@0 AS HUGEINT)) AS BIGINT)", "CASE WHEN @0 < 0 THEN try_subtract(0L, @0) ELSE @0 END"
    yield "abs I64", i64, partial, _by_numbers(_absolute), *absolute
    yield "convert to I64", i64, partial, _by_numbers(_to_i64), "TRY_CAST(@0 AS BIGINT)", "try_cast(@0 AS BIGINT)"


def _floats() -> Rows:
    f64, strict, partial = Scalar.F64, Nulls.STRICT, Nulls.PARTIAL
    # Of arithmetic in SQL, an infinity or NaN may come. `finite` is put around it.
    for name, function, sign in (
        ("plus", np.add, "+"),
        ("minus", np.subtract, "-"),
        ("times", np.multiply, "*"),
        ("divided", np.divide, "/"),
        ("modulo", np.fmod, "%"),
    ):
        sql = f"@0 {sign} @1"
        spark = sql
        if sign in "/%":
            sql = f"CASE WHEN @1 <> 0 THEN {sql} END"
            spark = "try_divide(@0, @1)" if sign == "/" else "try_mod(@0, @1)"
        yield f"{name} F64", f64, partial, _by_numbers(_of_floats(function)), sql, spark
    finite = "CASE WHEN isfinite(@0) THEN @0 + 0.0::DOUBLE END"
    spark = "CASE WHEN @0 > -double('Infinity') AND @0 < double('Infinity') THEN @0 + 0.0D END"
    yield "finite", f64, partial, _by_numbers(_finite), finite, spark
    yield "abs F64", f64, strict, _by_numbers(_of_floats(np.abs)), "abs(@0)", "abs(@0)"
    # Spark gives whole numbers of 64 bits. From 2 ** 52 on, all floats are whole.
    roundings: tuple[tuple[str, Callable[[Numbers], Numbers]], ...]
    roundings = ("round", _round), ("floor", np.floor), ("ceil", np.ceil)
    for name, whole in roundings:
        spark = f"CASE WHEN abs(@0) < 4503599627370496D THEN CAST({name}(@0) AS DOUBLE) ELSE @0 END"
        yield f"{name} F64", f64, strict, _by_numbers(_of_floats(whole)), f"{name}(@0) + 0.0::DOUBLE", spark
    convert = "CAST(@0 AS DOUBLE)"
    yield (
        "convert to F64",
        f64,
        strict,
        _by_numbers(lambda values: _finite(values.astype(np.float64))),
        convert,
        convert,
    )


def _conditions() -> Rows:
    bool_, strict, own = Scalar.BOOL, Nulls.STRICT, Nulls.OWN
    for name, sign in (
        ("equal", "="),
        ("not_equal", "<>"),
        ("less", "<"),
        ("less_equal", "<="),
        ("greater", ">"),
        ("greater_equal", ">="),
    ):
        yield name, bool_, strict, _compares(name), f"@0 {sign} @1", f"@0 {sign} @1"
    has_part = _by_values(lambda text, part: part in text)
    yield "contains", bool_, strict, has_part, "contains(@0, @1)", "contains(@0, @1)"
    begins = _by_values(lambda text, part: text.startswith(part))
    yield "starts_with", bool_, strict, begins, "starts_with(@0, @1)", "startswith(@0, @1)"
    has_element = _by_values(lambda elements, value: value in elements)
    yield "has", bool_, strict, has_element, "list_contains(@0, @1)", "array_contains(@0, @1)"
    yield "not", bool_, strict, _arrow_function("invert"), "NOT @0", "NOT @0"
    yield "is null", bool_, own, lambda _type, value: value.is_null(), "@0 IS NULL", "@0 IS NULL"

    def join_by(word: str) -> Callable[[int], str]:
        return lambda count: f" {word} ".join(f"@{at}" for at in range(count))

    yield "and", bool_, own, _and, join_by("AND"), join_by("AND")
    yield "or", bool_, own, _or, join_by("OR"), join_by("OR")

    def among(count: int) -> str:
        return f"@0 IN ({', '.join(f'@{at}' for at in range(1, count))})" if count > 1 else "@0 IS NULL AND NULL"

    yield "in", bool_, own, _is_in, among, among


def _arrow_function(name: str) -> Callable[..., Any]:
    """A function of Arrow, looked up when it is first used."""

    def arrow(*arrays: pa.Array) -> pa.Array:
        return getattr(pc, name)(*arrays)

    return arrow


def _choices() -> Rows:
    def coalesce(count: int) -> str:
        return f"COALESCE({', '.join(f'@{at}' for at in range(count))})"

    def case(count: int) -> str:
        branches = " ".join(f"WHEN @{at} THEN @{at + 1}" for at in range(0, count - 1, 2))
        return f"CASE {branches} ELSE @{count - 1} END"

    yield "coalesce", None, Nulls.OWN, _coalesce, coalesce, coalesce
    yield "case", None, Nulls.OWN, _case, case, case


def _texts() -> Rows:
    string, i64, strict, partial = Scalar.STRING, Scalar.I64, Nulls.STRICT, Nulls.PARTIAL
    lower, upper = (
        _changes_case(str.lower, _LOWER, "ascii_lower"),
        _changes_case(str.upper, _UPPER, "ascii_upper"),
    )
    yield "lower", string, strict, lower, "lower(@0)", _spark_case("lower", _LOWER)
    yield "upper", string, strict, upper, "upper(@0)", _spark_case("upper", _UPPER)
    yield "length", i64, strict, _arrow_function("utf8_length"), "length(@0)", "CAST(char_length(@0) AS BIGINT)"
    size = "CAST(len(@0) AS BIGINT)", "CAST(array_size(@0) AS BIGINT)"
    yield "size", i64, strict, _arrow_function("list_value_length"), *size
    most = 2**31 - 2
    # Known numbers are cast before the condition is asked, also those below zero.
    start, length = (f"CAST(greatest(least({each}, {most}), 0) AS INTEGER)" for each in ("@1", "@2"))
    within = f"substring(@0, {start} + 1, {length})"
    sql = f"CASE WHEN @1 >= 0 AND @2 >= 0 THEN {within} END"
    yield "substring of length", string, partial, _by_values(_substring), sql, sql
    rest = f"CASE WHEN @1 >= 0 THEN substring(@0, {start} + 1) END"
    yield "substring to the end", string, partial, _by_values(_rest_of), rest, rest

    def concat(count: int) -> str:
        return " || ".join(f"@{at}" for at in range(count))

    yield "concat", string, strict, _by_values(lambda *parts: "".join(parts)), concat, concat
    replace = _by_values(lambda text, part, other: text.replace(part, other) if part else text)
    yield "replace", string, strict, replace, "replace(@0, @1, @2)", "replace(@0, @1, @2)"
    blanks = "' ' || chr(9) || chr(10) || chr(13)"
    trim = _by_values(lambda text: text.strip(_BLANKS))
    yield "trim", string, strict, trim, f"trim(@0, {blanks})", f"trim(BOTH {blanks} FROM @0)"
    # Spark takes a pattern. What is quoted in it ends with `\\E`.
    quoted = "concat('\\\\Q', replace(@1, '\\\\E', '\\\\E\\\\\\\\E\\\\Q'), '\\\\E')"
    split = "CASE WHEN @1 <> '' THEN string_split(@0, @1) END", f"CASE WHEN @1 <> '' THEN split(@0, {quoted}, -1) END"
    yield "split", List(string), partial, _by_values(lambda text, by: text.split(by) if by else None), *split


def _plain(function: Callable[[Numbers], Numbers]) -> Callable[..., Any]:
    """A function of numbers that has a result for all of them."""
    return _by_numbers(lambda values: (function(values), None))


def _clock(unit: Unit, of: int, most: int) -> Rows:
    """The operations of a unit that has `of` milliseconds, and of which the next larger unit has `most`."""
    i64, instant, strict = Scalar.I64, Scalar.DATETIME, Nulls.STRICT
    duckdb, spark = _floor_sql("epoch_ms(@0)", of), _floor_sql("unix_millis(@0)", of)
    part = "({0} % {1} + {1}) % {1}"
    hand = _plain(lambda instants: instants // of % most)
    yield unit.value, i64, strict, hand, part.format(duckdb, most), part.format(spark, most)
    yield f"number of {unit}", i64, strict, _plain(lambda instants: instants // of), duckdb, spark
    cut = _plain(lambda instants: instants // of * of)
    duckdb, spark = f"make_timestamptz({duckdb} * {of * 1000})", f"timestamp_millis({spark} * {of})"
    yield f"cut to {unit}", instant, strict, cut, duckdb, spark


def _times_and_days() -> Rows:
    i64, day, instant, strict, partial = Scalar.I64, Scalar.DATE, Scalar.DATETIME, Nulls.STRICT, Nulls.PARTIAL
    date_of = _plain(lambda instants: instants // _DAY)
    yield "date of", day, strict, date_of, _DUCKDB_DATE_OF, _SPARK_DATE_OF
    duckdb = "make_timestamptz(CAST(@0 - DATE '1970-01-01' AS BIGINT) * 86400000000)"
    spark = "timestamp_millis(CAST(unix_date(@0) AS BIGINT) * 86400000)"
    yield "datetime of", instant, strict, _plain(lambda days: days * _DAY), duckdb, spark
    parts: dict[str, Callable[[Numbers], Numbers]] = {
        "year": lambda days: _months_of(days) // 12 + 1970,
        "month": lambda days: _months_of(days) % 12 + 1,
        "day": _day_of_month,
    }
    for name, function in parts.items():
        sql = f"CAST({name}(@0) AS BIGINT)"
        yield name, i64, strict, _plain(function), sql, sql
    for (unit, of), most in zip(_MILLISECONDS.items(), (24, 60, 60, 1000), strict=True):
        yield from _clock(unit, of, most)
    for unit in DATE_UNITS:
        months = f"(CAST(year(@0) AS BIGINT) * 12 + month(@0) - 1 - {1970 * 12})"
        duckdb = spark = _floor_sql(months, _MONTHS.get(unit, 1))
        if unit in _DAYS:
            shift = _MONDAY if unit is Unit.WEEK else 0
            duckdb = _floor_sql(f"(@0 - DATE '1970-01-01' + {shift})", _DAYS[unit])
            spark = _floor_sql(f"(unix_date(@0) + {shift})", _DAYS[unit])
        yield f"number of {unit}", i64, strict, _plain(_unit_of_days(unit)), duckdb, spark
        # The week of the first day begins on it: 0001-01-01 was a Monday.
        duckdb, spark = f"CAST(date_trunc('{unit}', @0) AS DATE)", f"trunc(@0, '{unit}')"
        cut = _by_numbers(_cut_days(unit))
        yield f"cut to {unit}", day, strict, cut, duckdb, "@0" if unit is Unit.DAY else spark
    known_day = "CASE WHEN @0 BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN @0 END"
    yield "known day", day, partial, _by_numbers(_known_days), known_day, known_day
    known = "CASE WHEN {}(@0) BETWEEN {} AND {} THEN @0 END"
    duckdb, spark = (known.format(number, _FIRST_MS, _LAST_MS) for number in ("epoch_ms", "unix_millis"))
    yield "known instant", instant, partial, _by_numbers(_known_instants), duckdb, spark
    duckdb, spark = "CAST(@0 + to_months(CAST(@1 AS INTEGER)) AS DATE)", "add_months(@0, CAST(@1 AS INT))"
    yield "day plus months", day, partial, _by_numbers(_add_months), duckdb, spark
    duckdb, spark = "(@0 + CAST(@1 AS INTEGER))", "date_add(@0, CAST(@1 AS INT))"
    yield "day plus days", day, partial, _by_numbers(_add_days), duckdb, spark

    def add_months(instants: Numbers, months: Numbers) -> Computed:
        days, invalid = _add_months(instants // _DAY, months)
        return days * _DAY + instants % _DAY, invalid

    months = "CAST(@1 AS INTEGER)"
    duckdb = f"make_timestamptz(epoch_us(make_timestamp(epoch_us(@0)) + to_months({months})))"
    rest = f"(unix_millis(@0) - {_floor_sql('unix_millis(@0)', _DAY)} * {_DAY})"
    day_after = f"CAST(unix_date(add_months({_SPARK_DATE_OF}, {months})) AS BIGINT)"
    spark = f"timestamp_millis({day_after} * {_DAY} + {rest})"
    yield "instant plus months", instant, partial, _by_numbers(add_months), duckdb, spark
    duckdb, spark = "make_timestamptz((epoch_ms(@0) + @1) * 1000)", "timestamp_millis(unix_millis(@0) + @1)"
    yield "instant plus milliseconds", instant, partial, _by_numbers(_add_instants), duckdb, spark


def _casts() -> Rows:
    strict, partial = Nulls.STRICT, Nulls.PARTIAL
    for to, (low, high) in INTEGER_BOUNDS.items():
        sql = _between(low, high, f"CAST(@0 AS {_INTEGER_SQL[to]})")
        yield f"integer to {to}", to, partial, _by_numbers(_integer_to_integer(low, high)), sql, sql
        # A float is compared with floats: the bounds of 64 bits are not among them, but the numbers next to them are.
        below, above = (f"{low - 1}.0", ">") if high < 2**53 else (f"{low}.0", ">="), f"{high + 1}.0"
        if to is Scalar.U64:
            below = ("-1.0", ">")
        fits = f"@0 {below[1]} CAST({below[0]} AS DOUBLE) AND @0 < CAST({above} AS DOUBLE)"
        wide = "HUGEINT" if high > 2**63 else "BIGINT"
        duckdb = f"CASE WHEN {fits} THEN CAST(CAST(trunc(@0) AS {wide}) AS {_INTEGER_SQL[to]}) END"
        spark = f"CASE WHEN {fits} THEN CAST(@0 AS {_INTEGER_SQL[to]}) END"
        if to is Scalar.U64:
            # Of a float, Spark makes a decimal with only the digits that tell it from other floats.
            half = "9223372036854775808"
            upper = f"CAST(CAST(CAST(@0 - {half}D AS BIGINT) AS DECIMAL(20, 0)) + {half} AS DECIMAL(20, 0))"
            lower = "CAST(CAST(@0 AS BIGINT) AS DECIMAL(20, 0))"
            spark = f"CASE WHEN {fits} THEN CASE WHEN @0 >= {half}D THEN {upper} ELSE {lower} END END"
        yield f"float to {to}", to, partial, _by_numbers(_float_to_integer(low, high)), duckdb, spark
        whole = _by_values(_text_to_integer(low, high))
        read = {DUCKDB: "TRY_CAST(@0 AS HUGEINT)", SPARK: "try_cast(@0 AS DECIMAL(38, 0))"}
        fitting = f"CASE WHEN {{}} BETWEEN {low} AND {high} THEN CAST(@0 AS {_INTEGER_SQL[to]}) END"
        duckdb, spark = (_matches(_INTEGER_TEXT, fitting.format(read[each]), each) for each in (DUCKDB, SPARK))
        yield f"text to {to}", to, partial, whole, duckdb, spark
        truth = f"CAST(CAST(@0 AS INTEGER) AS {_INTEGER_SQL[to]})"
        yield f"truth to {to}", to, strict, lambda values: values.cast(pa.uint8()), truth, truth
    narrow = f"CASE WHEN abs(@0) < {_GREATEST_F32} THEN CAST(@0 + CAST(0 AS DOUBLE) AS FLOAT) END"
    yield "float to F32", Scalar.F32, partial, _by_numbers(_to_f32), narrow, narrow
    texts = (
        _matches(_FLOAT_TEXT, "TRY_CAST(@0 AS DOUBLE)", DUCKDB),
        _matches(_FLOAT_TEXT, "try_cast(@0 AS DOUBLE)", SPARK),
    )
    yield "text to F64", Scalar.F64, partial, _by_values(_text_to_float), *texts
    string = Scalar.STRING
    yield "integer to String", string, strict, _by_values(str), "CAST(@0 AS VARCHAR)", "CAST(@0 AS STRING)"
    truth = "CASE WHEN @0 THEN 'true' WHEN NOT @0 THEN 'false' END"
    yield "truth to String", string, strict, _by_values(lambda value: "true" if value else "false"), truth, truth
    truth = "CASE @0 WHEN 'true' THEN true WHEN 'false' THEN false END"
    yield "text to Bool", Scalar.BOOL, partial, _by_values({"true": True, "false": False}.get), truth, truth
    yield "day to String", string, strict, _by_values(date.isoformat), "CAST(@0 AS VARCHAR)", "CAST(@0 AS STRING)"
    form = "strftime(make_timestamp(epoch_us(@0)), '%Y-%m-%dT%H:%M:%S{}Z')"
    duckdb = f"CASE WHEN epoch_ms(@0) % 1000 = 0 THEN {form.format('')} ELSE {form.format('.%g')} END"
    of_day = f"(unix_millis(@0) - {_floor_sql('unix_millis(@0)', _DAY)} * {_DAY})"

    def two(divisor: int, most: int) -> str:
        return f"lpad(CAST({of_day} div {divisor} % {most} AS STRING), 2, '0')"

    clock = f"concat({two(3_600_000, 24)}, ':', {two(60_000, 60)}, ':', {two(1000, 60)})"
    rest = f"{of_day} % 1000"
    rest = f"CASE WHEN {rest} = 0 THEN '' ELSE concat('.', lpad(CAST({rest} AS STRING), 3, '0')) END"
    spark = f"concat(CAST({_SPARK_DATE_OF} AS STRING), 'T', {clock}, {rest}, 'Z')"
    yield "instant to String", string, strict, _by_values(iso_datetime), duckdb, spark
    texts = (
        _matches(_DATE_TEXT, "TRY_CAST(@0 AS DATE)", DUCKDB),
        _matches(_DATE_TEXT, "try_cast(@0 AS DATE)", SPARK),
    )
    yield "text to Date", Scalar.DATE, partial, _by_values(_text_to_date), *texts
    texts = (
        _matches(_DATETIME_TEXT, "TRY_CAST(@0 AS TIMESTAMPTZ)", DUCKDB),
        _matches(_DATETIME_TEXT, "try_cast(@0 AS TIMESTAMP)", SPARK),
    )
    yield "text to DateTime", Scalar.DATETIME, partial, _by_values(_text_to_datetime), *texts


@cache
def operations() -> Mapping[str, Operation]:
    """All operations, by the names that `ir.Call` has. Made when the first value is computed."""
    families = (_integers, _floats, _conditions, _choices, _texts, _times_and_days, _casts)
    return {
        name: Operation(name=name, gives=gives, nulls=nulls, arrow=arrow, duckdb=duckdb, spark=spark)
        for family in families
        for name, gives, nulls, arrow, duckdb, spark in family()
    }


# --- functions ---


@dataclass(frozen=True, slots=True)
class Overload:
    """The operation that a function is for some types. `takes` has them; the last one may come `at_most` times."""

    takes: tuple[PropertyType, ...]
    operation: str
    at_most: int = 1

    def gives(self) -> PropertyType:
        """The type of the result."""
        found = operations()[self.operation].gives
        assert found is not None
        return found

    def conversions(self, types: Sequence[PropertyType | None]) -> list[str | None] | None:
        """For each argument the operation that makes it what is taken, None for none; None if they do not fit."""
        least = len(self.takes)
        if not least <= len(types) < least + self.at_most:
            return None
        takes = [*self.takes, *[self.takes[-1]] * (len(types) - least)] if self.takes else []
        found: list[str | None] = []
        for given, wanted in zip(types, takes, strict=True):
            if (
                given == wanted
                or (isinstance(given, Enum) and wanted is Scalar.STRING)
                or (isinstance(given, List) and isinstance(wanted, List))
            ):
                found.append(None)
            elif (given, wanted) in CONVERSIONS:
                found.append(CONVERSIONS[given, wanted])
            else:
                return None
        return found


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language, and what it is for which types: the first overload that fits."""

    usage: str
    overloads: tuple[Overload, ...]


CONVERSIONS: Mapping[tuple[PropertyType | None, PropertyType], str] = {
    **{(each, Scalar.I64): "convert to I64" for each in INTEGERS if each is not Scalar.I64},
    **{(each, Scalar.F64): "convert to F64" for each in NUMBERS if each is not Scalar.F64},
    (Scalar.DATETIME, Scalar.DATE): "date of",
    (Scalar.DATE, Scalar.DATETIME): "datetime of",
}
"""What is converted without a cast: numbers to those that are computed with, days and instants to each other."""

_I64, _F64, _TEXT, _DATE, _INSTANT = Scalar.I64, Scalar.F64, Scalar.STRING, Scalar.DATE, Scalar.DATETIME
_ANY_LIST = List(Scalar.STRING)


def _number(name: str) -> tuple[Overload, ...]:
    return Overload((_I64,), f"{name} I64"), Overload((_F64,), f"{name} F64")


FUNCTIONS: Mapping[str, Function] = {
    "lower": Function("lower($x.text)", (Overload((_TEXT,), "lower"),)),
    "upper": Function("upper($x.text)", (Overload((_TEXT,), "upper"),)),
    "length": Function("length($x.text)", (Overload((_TEXT,), "length"),)),
    "substring": Function(
        "substring($x.text, 0, 3), with the first character at 0",
        (
            Overload((_TEXT, _I64), "substring to the end"),
            Overload((_TEXT, _I64, _I64), "substring of length"),
        ),
    ),
    "concat": Function('concat($x.first, " ", $x.last)', (Overload((_TEXT, _TEXT), "concat", at_most=63),)),
    "replace": Function('replace($x.text, "old", "new")', (Overload((_TEXT, _TEXT, _TEXT), "replace"),)),
    "trim": Function("trim($x.text)", (Overload((_TEXT,), "trim"),)),
    "split": Function('split($x.text, ",")', (Overload((_TEXT, _TEXT), "split"),)),
    "size": Function("size($x.list)", (Overload((_ANY_LIST,), "size"),)),
    "abs": Function("abs($x.number)", _number("abs")),
    "round": Function("round($x.number)", (Overload((_I64,), "convert to I64"), Overload((_F64,), "round F64"))),
    "floor": Function("floor($x.number)", (Overload((_I64,), "convert to I64"), Overload((_F64,), "floor F64"))),
    "ceil": Function("ceil($x.number)", (Overload((_I64,), "convert to I64"), Overload((_F64,), "ceil F64"))),
    "year": Function("year($x.date)", (Overload((_DATE,), "year"),)),
    "month": Function("month($x.date)", (Overload((_DATE,), "month"),)),
    "day": Function("day($x.date)", (Overload((_DATE,), "day"),)),
    "hour": Function("hour($x.datetime)", (Overload((_INSTANT,), "hour"),)),
    "minute": Function("minute($x.datetime)", (Overload((_INSTANT,), "minute"),)),
    "second": Function("second($x.datetime)", (Overload((_INSTANT,), "second"),)),
    "millisecond": Function("millisecond($x.datetime)", (Overload((_INSTANT,), "millisecond"),)),
}
"""The functions that are computed of their arguments, row by row."""

ARITHMETIC: Mapping[str, tuple[Overload, ...]] = {
    sign: (
        *((Overload((_I64, _I64), f"{name} I64"),) if sign != "/" else ()),
        Overload((_F64, _F64), f"{name} F64"),
    )
    for sign, name in (("+", "plus"), ("-", "minus"), ("*", "times"), ("/", "divided"), ("%", "modulo"))
}
UNFINITE = frozenset({"plus F64", "minus F64", "times F64", "divided F64", "modulo F64"})
"""Operations of which SQL may make an infinity or NaN; `finite` is put around them."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time. Months are added first, then days, then milliseconds."""

    months: int = 0
    days: int = 0
    milliseconds: int = 0

    def __neg__(self) -> "Duration":
        return Duration(-self.months, -self.days, -self.milliseconds)


_DURATION = (
    r"(-)?P(?=.)(?:([0-9]+)Y)?(?:([0-9]+)M)?(?:([0-9]+)W)?(?:([0-9]+)D)?"
    r"(?:T(?=.)(?:([0-9]+)H)?(?:([0-9]+)M)?(?:([0-9]+)(?:\.([0-9]{1,3}))?S)?)?"
)
_MOST_MONTHS, _MOST_DAYS = 12 * 10_000, 366 * 10_000


def parse_duration(text: str) -> Duration | None:
    """The span that a text such as ``P1Y2M10DT2H30M`` writes; None if it writes none of at most 10,000 years."""
    found = re.fullmatch(_DURATION, text) if len(text) < 100 else None
    if found is None:
        return None
    years, months, weeks, days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[1:8])
    whole = Duration(
        12 * years + months,
        7 * weeks + days,
        3_600_000 * hours + 60_000 * minutes + 1000 * seconds + int((found[9] or "0").ljust(3, "0")),
    )
    if whole.months > _MOST_MONTHS or whole.days > _MOST_DAYS or whole.milliseconds > _MOST_DAYS * _DAY:
        return None
    return -whole if found[1] else whole


def cast_operations(given: PropertyType, to: PropertyType) -> tuple[str, ...] | None:
    """The operations that make a value of another type, one after the other; None if there is no such cast."""
    if given == to or (isinstance(given, Enum) and to is Scalar.STRING):
        return ()
    if not isinstance(given, Scalar | Enum) or not isinstance(to, Scalar):
        return None
    text = given is Scalar.STRING or isinstance(given, Enum)
    integer = given in INTEGERS
    match to:
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            if given in (Scalar.F32, Scalar.F64):
                return (*(("convert to F64",) if given is Scalar.F32 else ()), f"float to {to}")
            kind = "integer" if integer else "text" if text else "truth" if given is Scalar.BOOL else None
            return (f"{kind} to {to}",) if kind else None
        case Scalar.F64 | Scalar.F32:
            narrow = ("float to F32",) if to is Scalar.F32 else ()
            if text:
                return ("text to F64", "finite", *narrow)
            if given in NUMBERS:
                return (*(() if given is Scalar.F64 else ("convert to F64",)), *narrow)
        case Scalar.STRING:
            kinds = {Scalar.BOOL: "truth", Scalar.DATE: "day", Scalar.DATETIME: "instant"}
            kind = "integer" if integer else kinds.get(given) if isinstance(given, Scalar) else None
            return (f"{kind} to String",) if kind else None
        case Scalar.BOOL:
            return ("text to Bool",) if text else None
        case Scalar.DATE:
            return ("text to Date",) if text else ("date of",) if given is Scalar.DATETIME else None
        case Scalar.DATETIME if text:
            return ("text to DateTime", "known instant")
        case Scalar.DATETIME:
            return ("datetime of",) if given is Scalar.DATE else None
    return None


def common_type(types: Iterable[PropertyType]) -> PropertyType | None:
    """The type that holds what values of these types are chosen from; None if there is none."""
    kinds = set(types)
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= INTEGERS:
        return Scalar.I64
    if kinds <= NUMBERS:
        return Scalar.F64
    if all(each is Scalar.STRING or isinstance(each, Enum) for each in kinds):
        return Scalar.STRING
    return None
