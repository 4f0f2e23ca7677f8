"""Checks that one row can pass or fail alone, over whole columns at once."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog import Enum, List, NodeType, Property
from omnigraph.diagnostics import any_of, quoted
from omnigraph.violations import Violation
from omnigraph.write.change import TableChange


def row_violations(change: TableChange) -> Iterator[Violation]:
    """Everything that is wrong with single rows: missing values, enums, ranges, checks."""
    for declared in change.entity.properties.values():
        column = change.rows[declared.name]
        if not declared.nullable and column.null_count:
            yield from _at(change, declared.name, pc.is_null(column), "a value is required")
        yield from _enum_violations(change, declared, column)
    if isinstance(change.entity, NodeType):
        yield from _rule_violations(change, change.entity)


def _enum_violations(change: TableChange, declared: Property, column: pa.ChunkedArray) -> Iterator[Violation]:
    type = declared.type
    values = type.values if isinstance(type, Enum) else ()
    if isinstance(type, List) and isinstance(type.element, Enum):
        values = type.element.values
        parents, column = pc.list_parent_indices(column), pc.list_flatten(column)
        wrong = pc.invert(pc.is_in(column, value_set=pa.array(values, pa.string())))
        rows = parents.filter(wrong).to_pylist()
        for row, value in zip(rows, column.filter(wrong).to_pylist(), strict=True):
            yield change.origins.violation(change.entity, declared.name, _not_in(value, values), row)
    elif values:
        outside = pc.invert(pc.is_in(column, value_set=pa.array(values, pa.string())))
        wrong = pc.and_(outside, pc.is_valid(column))
        for row in _positions(wrong):
            yield change.origins.violation(change.entity, declared.name, _not_in(column[row].as_py(), values), row)


def _not_in(value: str, values: tuple[str, ...]) -> str:
    return f"{quoted(value)} is not one of {any_of(values)}"


def _rule_violations(change: TableChange, node: NodeType) -> Iterator[Violation]:
    for rule in node.ranges:
        column = change.rows[rule.property]
        outside = pa.chunked_array([pa.repeat(False, change.rows.num_rows)])
        if rule.low is not None:
            outside = pc.or_kleene(outside, pc.less(column, pa.scalar(rule.low)))
        if rule.high is not None:
            outside = pc.or_kleene(outside, pc.greater(column, pa.scalar(rule.high)))
        low, high = ("" if bound is None else str(bound) for bound in (rule.low, rule.high))
        for row in _positions(outside):
            problem = f"{column[row].as_py()} is outside {low}..{high}"
            yield change.origins.violation(change.entity, rule.property, problem, row)
    for check in node.checks:
        column = change.rows[check.property]
        failed = pc.invert(pc.match_substring_regex(column, check.pattern))
        for row in _positions(failed):
            problem = f"{quoted(column[row].as_py())} does not match {quoted(check.pattern)}"
            yield change.origins.violation(change.entity, check.property, problem, row)


def _at(change: TableChange, name: str, mask: pa.ChunkedArray, problem: str) -> Iterator[Violation]:
    for row in _positions(mask):
        yield change.origins.violation(change.entity, name, problem, row)


def _positions(mask: pa.ChunkedArray) -> list[int]:
    """The rows where a mask is true; null is not true."""
    positions: list[int] = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()
    return positions
