"""Pushed filters mean in Lance what the condition means."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance
from omnigraph.catalog import List, PropertyType, Scalar, arrow_type
from omnigraph.storage.predicates import (
    ColumnPredicate,
    PredicateKind,
    column_predicate,
    holds,
    lance_filter,
    quoted_column,
)
from omnigraph.syntax.query_ast import Operator

TEXTS = st.one_of(
    st.text(),
    st.sampled_from(
        ["", "'", "''", "\\'", "\0", "a\0b", "`", '"', "--", "/* */", "%", "_", "\n", "\u202e", "😀", "; DROP"]
    ),
)
VALUES: dict[Scalar, st.SearchStrategy[Any]] = {
    Scalar.STRING: TEXTS,
    Scalar.BOOL: st.booleans(),
    Scalar.I32: st.integers(-(2**31), 2**31 - 1),
    Scalar.I64: st.integers(-(2**63), 2**63 - 1) | st.just(-(2**63)),
    Scalar.U32: st.integers(0, 2**32 - 1),
    Scalar.U64: st.integers(0, 2**64 - 1) | st.just(2**64 - 1),
    Scalar.F32: st.floats(allow_nan=False, allow_infinity=False, width=32),
    Scalar.F64: st.floats(allow_nan=False, allow_infinity=False),
    Scalar.DATE: st.dates(),
    Scalar.DATETIME: st.datetimes(timezones=st.just(UTC)).map(
        lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)
    ),
}


def passing(path: Path, type: PropertyType, values: list[Any], predicate: ColumnPredicate) -> list[Any]:
    """The values that pass, by Lance."""
    table = pa.table({predicate.column: pa.array(values, arrow_type(type))})
    dataset = lance.write_dataset(table, str(path), mode="overwrite")
    return list(dataset.to_table(filter=lance_filter((predicate,)))[predicate.column].to_pylist())


@settings(max_examples=150)
@given(data=st.data())
def test_every_value_finds_itself_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    type = data.draw(st.sampled_from(list(VALUES)))
    wanted, others = data.draw(VALUES[type]), data.draw(st.lists(VALUES[type], max_size=3))
    path = tmp_path_factory.getbasetemp() / "values"
    values = [wanted, *others, None]
    same = [value for value in values if value == wanted]
    for test in (PredicateKind.EQUAL, PredicateKind.ONE_OF):
        assert passing(path, type, values, ColumnPredicate("x", type, test, (wanted,))) == same
    unequal = [value for value in values if value is not None and value != wanted]
    assert passing(path, type, values, ColumnPredicate("x", type, PredicateKind.NOT_EQUAL, (wanted,))) == unequal
    lists = [None, [], *([value] for value in values[:-1])]
    found = passing(path, List(type), lists, ColumnPredicate("x", List(type), PredicateKind.ELEMENT, (wanted,)))
    assert found == [[value] for value in same]


NUMBERS = [-(2**63), -(2**31) - 1, -1.5, -1, -0.0, 0, 1e-60, 0.1, 1, 1.5, 2**24 + 1, 2**31, 2**53 + 1, 2**64 - 1, 1e300]
COMPARE: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: lambda a, b: a == b,
    Operator.NOT_EQUAL: lambda a, b: a != b,
    Operator.LESS: lambda a, b: a < b,
    Operator.LESS_OR_EQUAL: lambda a, b: a <= b,
    Operator.GREATER: lambda a, b: a > b,
    Operator.GREATER_OR_EQUAL: lambda a, b: a >= b,
}
COLUMNS: dict[Scalar, list[int | float]] = {
    Scalar.I32: [-(2**31), -2, -1, 0, 1, 2, 2**24 + 1, 2**31 - 1],
    Scalar.U32: [0, 1, 2, 2**32 - 1],
    Scalar.I64: [-(2**63), -2, -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1],
    Scalar.U64: [0, 1, 2, 2**53 + 1, 2**64 - 1],
    Scalar.F32: [float(np.float32(each)) for each in (-3e38, -1.5, -1, 0, 1e-45, 0.1, 1, 2**24, 3e38)],
    Scalar.F64: [-1e300, -1.5, 0.0, 1e-60, 0.1, 1.0, float(2**53), 1e300],
}


@pytest.mark.parametrize("type", COLUMNS)
def test_numbers_of_different_types_compare_by_value(tmp_path: Path, type: Scalar) -> None:
    values = COLUMNS[type]
    dataset = lance.write_dataset(pa.table({"x": pa.array([*values, None], arrow_type(type))}), str(tmp_path))
    for operator, compare in COMPARE.items():
        for number in NUMBERS:
            given = Scalar.F64 if isinstance(number, float) else Scalar.I64
            # Beside a float, a whole number has the digits of one.
            shown = float(number) if type is Scalar.F64 else number
            predicate = column_predicate("x", type, operator, number, given)
            found = (
                dataset.to_table(filter=lance_filter((predicate,)))["x"].to_pylist()
                if isinstance(predicate, ColumnPredicate)
                else []
            )
            assert found == [value for value in values if compare(value, shown)], (operator, number)


def test_a_literal_beside_an_f32_has_the_digits_of_one(tmp_path: Path) -> None:
    predicate = column_predicate("x", Scalar.F32, Operator.EQUAL, 0.1, Scalar.F32)
    assert isinstance(predicate, ColumnPredicate)
    assert passing(tmp_path / "x", Scalar.F32, [0.1, 0.2], predicate) == [float(np.float32(0.1))]


def test_column_names_keep_their_case_and_may_be_keywords(tmp_path: Path) -> None:
    for name in ("select", "aB", "from", "_x"):
        predicate = ColumnPredicate(name, Scalar.I32, PredicateKind.EQUAL, (1,))
        assert passing(tmp_path / name, Scalar.I32, [1, 2], predicate) == [1]
    assert quoted_column("a`b") == "`a``b`"


def test_moments_before_1970_are_exact(tmp_path: Path) -> None:
    moment = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    predicate = ColumnPredicate("x", Scalar.DATETIME, PredicateKind.LESS, (moment,))
    earlier = moment.replace(microsecond=998_000)
    assert passing(tmp_path / "x", Scalar.DATETIME, [earlier, moment], predicate) == [earlier]


@pytest.mark.parametrize("type", [Scalar.F32, Scalar.F64])
@pytest.mark.parametrize("zero", [0.0, -0.0])
@pytest.mark.parametrize("operator", COMPARE)
def test_both_zeros_are_one_number(tmp_path: Path, type: Scalar, zero: float, operator: Operator) -> None:
    values = [-1.0, -0.0, 0.0, 1.0, None]
    predicate = column_predicate("x", type, operator, zero, type)
    assert isinstance(predicate, ColumnPredicate)
    expected = [value for value in values if value is not None and COMPARE[operator](value, 0)]
    assert passing(tmp_path / "t", type, values, predicate) == expected
    assert [value for value in values if holds(predicate, value)] == expected
