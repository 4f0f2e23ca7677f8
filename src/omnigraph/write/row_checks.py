"""Checks that one row can pass or fail alone, over whole columns at once.

Each rule is one function over the column that it is about, so that whoever has only that column can ask it too.
`origins` says where a row comes from, for those who know.
"""

import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from omnigraph.catalog import Check, EntityType, Enum, List, NodeType, Property, Range, rows_not_finite
from omnigraph.compute_later import pc
from omnigraph.diagnostics import any_of, quoted
from omnigraph.violations import Violation
from omnigraph.write.change import NOWHERE, Origins, TableChange


def row_violations(change: TableChange) -> Iterator[Violation]:
    """Everything that is wrong with single rows: missing values, enums, ranges, checks."""
    entity, rows, origins = change.entity, change.rows, change.origins
    for declared in entity.properties.values():
        yield from missing_values(entity, declared, rows[declared.name], origins)
        yield from outside_enum(entity, declared, rows[declared.name], origins)
    if isinstance(entity, NodeType):
        for rule in entity.ranges:
            yield from outside_range(entity, rule, rows[rule.property], origins)
        for check in entity.checks:
            yield from check_mismatches(entity, check, rows[check.property], origins)


def missing_values(
    entity: EntityType, declared: Property, column: pa.ChunkedArray, origins: Origins = NOWHERE
) -> Iterator[Violation]:
    """Every row without a value that must have one."""
    if declared.nullable or not column.null_count:
        return
    for row in _positions(pc.is_null(column)):
        yield origins.violation(entity, declared.name, "a value is required", row)


def not_finite(
    entity: EntityType, declared: Property, column: pa.ChunkedArray, origins: Origins = NOWHERE
) -> Iterator[Violation]:
    """Every row with NaN or an infinity in a number, a list or a vector.

    This is about values that a write brings. Those that a graph holds already may stay beside others that change, and
    go from branch to branch, so it is not among `row_violations`.
    """
    for row in rows_not_finite(column):
        yield origins.violation(entity, declared.name, f"{_first_not_finite(column[row])} is not a finite number", row)


def outside_enum(
    entity: EntityType, declared: Property, column: pa.ChunkedArray, origins: Origins = NOWHERE
) -> Iterator[Violation]:
    """Every text that is none of the values of its enum, in a list each of its own."""
    type = declared.type
    if isinstance(type, List) and isinstance(type.element, Enum):
        values = type.element.values
        parents, texts = pc.list_parent_indices(column), pc.list_flatten(column)
        wrong = pc.invert(pc.is_in(texts, value_set=pa.array(values, pa.string())))
        rows = parents.filter(wrong).to_pylist()
        for row, value in zip(rows, texts.filter(wrong).to_pylist(), strict=True):
            yield origins.violation(entity, declared.name, _not_in(value, values), row)
    elif isinstance(type, Enum):
        outside = pc.invert(pc.is_in(column, value_set=pa.array(type.values, pa.string())))
        for row in _positions(pc.and_(outside, pc.is_valid(column))):
            yield origins.violation(entity, declared.name, _not_in(column[row].as_py(), type.values), row)


def outside_range(
    entity: EntityType, rule: Range, column: pa.ChunkedArray, origins: Origins = NOWHERE
) -> Iterator[Violation]:
    """Every number outside the bounds of a `@range`."""
    outside = pa.chunked_array([pa.repeat(False, len(column))])
    if rule.low is not None:
        outside = pc.or_kleene(outside, pc.less(column, _bound_scalar(rule.low, column.type)))
    if rule.high is not None:
        outside = pc.or_kleene(outside, pc.greater(column, _bound_scalar(rule.high, column.type)))
    low, high = ("" if bound is None else str(bound) for bound in (rule.low, rule.high))
    for row in _positions(outside):
        problem = f"{column[row].as_py()} is outside {low}..{high}"
        yield origins.violation(entity, rule.property, problem, row)


def check_mismatches(
    entity: EntityType, check: Check, column: pa.ChunkedArray, origins: Origins = NOWHERE
) -> Iterator[Violation]:
    """Every text in which the pattern of a `@check` is not found."""
    failed = pc.invert(pc.match_substring_regex(column, check.pattern))
    for row in _positions(failed):
        problem = f"{quoted(column[row].as_py())} does not match {quoted(check.pattern)}"
        yield origins.violation(entity, check.property, problem, row)


def _bound_scalar(bound: int | float, type: pa.DataType) -> pa.Scalar:
    """A bound to compare numbers of a type with; a whole one that the type cannot hold becomes its last number.

    A range has numbers of its type within its bounds, or the schema would not have it. So none is parted wrongly, and
    Arrow need not find a type for a large unsigned number and a negative one.
    """
    if isinstance(bound, float) or not pa.types.is_integer(type):
        return pa.scalar(bound)
    limits = np.iinfo(type.to_pandas_dtype())
    return pa.scalar(min(max(bound, int(limits.min)), int(limits.max)), type)


def _first_not_finite(value: pa.Scalar) -> float:
    plain = value.as_py()
    numbers: list[float] = plain if isinstance(plain, list) else [plain]
    return next(number for number in numbers if not math.isfinite(number))


def _not_in(value: str, values: tuple[str, ...]) -> str:
    return f"{quoted(value)} is not one of {any_of(values)}"


def _positions(mask: pa.ChunkedArray) -> list[int]:
    """The rows where a mask is true; null is not true."""
    positions: list[int] = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()
    return positions
