"""The values of one run of a mutation: known before anything is read, or computed of rows."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pyarrow as pa

from omnigraph.catalog import List, OutOfRange, PropertyType, Scalar, Value, WrongType, arrow_type, value_from_json
from omnigraph.catalog.types import FLOATS, INTEGER_BOUNDS, INTEGERS
from omnigraph.compiler import ir
from omnigraph.errors import ParameterError
from omnigraph.query.computing import ColumnTest, Resolved, compute, constant_array, resolve
from omnigraph.query.levels import KnownValues
from omnigraph.query.matching import test_values
from omnigraph.storage.predicates import as_f32

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = Sequence[Mapping[str, Any]]


class RunValues:
    """The values of one run; `now()` is one instant in all of them."""

    def __init__(self, query: str, parameters: Mapping[str, Value | None]) -> None:
        instant = datetime.now(UTC)
        self.now = instant.replace(microsecond=instant.microsecond // 1000 * 1000)
        self.known = KnownValues(parameters, self.now)
        self._query = query
        self._parameters = parameters

    def of(self, expression: ir.Expression) -> Any:
        """A value that is the same for all rows."""
        match expression:
            case ir.ListOf(items):
                return tuple(self.of(item) for item in items)
            case ir.BlobOfText(ir.ParameterValue(name)):
                text = self._parameters[name]
                return None if text is None else self._blob_of(name, text)
        found = self.known.of(expression)
        assert found is not None, expression
        return found.value

    def _blob_of(self, name: str, text: Value) -> Value:
        """The bytes of a text parameter that is written to a Blob."""
        try:
            return value_from_json(text, Scalar.BLOB)
        except (WrongType, OutOfRange) as error:
            raise ParameterError(self._query, [(name, f"does not fit: {error}")]) from error

    def resolve(self, expression: ir.Expression) -> Resolved:
        """An expression with what is known replaced by its value."""
        return resolve(expression, self.known)


def compute_column(expression: Resolved, count: int, column: Callable[[ir.Column], pa.Array]) -> pa.Array:
    """The values of a resolved expression for rows of which `column` has the columns."""

    def leaf(each: Resolved) -> pa.Array | None:
        match each:
            case ir.Column():
                return column(each)
            case ColumnTest(tested, predicate):
                return test_values(predicate, column(tested))
        return None

    return compute(expression, leaf, lambda constant: constant_array(constant, count))


def column_of_rows(rows: Rows) -> Callable[[ir.Column], pa.Array]:
    """The columns of rows that are mappings."""
    made: dict[str, pa.Array] = {}

    def column(wanted: ir.Column) -> pa.Array:
        if wanted.name not in made:
            made[wanted.name] = pa.array([row[wanted.name] for row in rows], arrow_type(wanted.type))
        return made[wanted.name]

    return column


def column_of_table(table: pa.Table) -> Callable[[ir.Column], pa.Array]:
    """The columns of a table, as operations take them."""

    def column(wanted: ir.Column) -> pa.Array:
        found = table[wanted.name].combine_chunks()
        type = arrow_type(wanted.type)
        return found if found.type == type else found.cast(type)

    return column


# --- values that are written ---


class ValueDoesNotFit(Exception):
    """A computed value that its property cannot hold; the text says why."""


def fit_value(value: Any, given: PropertyType | None, to: PropertyType) -> Any:
    """A computed value as its property holds it; raises `ValueDoesNotFit`."""
    if value is None or given == to:
        return value
    if isinstance(given, List) and isinstance(to, List):
        return [fit_value(each, given.element, to.element) for each in value]
    if to in INTEGERS:
        low, high = INTEGER_BOUNDS[Scalar(to)]
        if not low <= value <= high:
            raise ValueDoesNotFit(f"{value} does not fit {to}")
    elif to in FLOATS:
        found = as_f32(float(value)) if to is Scalar.F32 else float(value)
        if given in INTEGERS and int(found) != value:
            raise ValueDoesNotFit(f"{value} has more digits than {to} holds")
        if found in (float("inf"), float("-inf")):
            raise ValueDoesNotFit(f"{value} does not fit {to}")
        return found
    return value


def is_same(value: Any, other: Any, type: PropertyType) -> bool:
    """Whether a property would hold the same after one value is replaced by another."""
    if value is None or other is None:
        return value is other
    if isinstance(value, list | tuple):
        element = type.element if isinstance(type, List) else Scalar.F32
        return len(value) == len(other) and all(is_same(*pair, element) for pair in zip(value, other, strict=True))
    if type is Scalar.F32:
        value, other = as_f32(value), as_f32(other)
    # Minus zero is another value than zero, and NaN is never the same.
    return bool(value == other) and (type not in FLOATS or str(value) == str(other))
