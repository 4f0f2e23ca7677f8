"""How keys become ids."""

import json
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.catalog import PropertyType, Scalar, UnspellableKey, Value, derived_ids, node_id


@pytest.mark.parametrize(
    ("value", "type", "spelling"),
    [
        ("Ada", Scalar.STRING, "Ada"),
        ("", Scalar.STRING, ""),
        (True, Scalar.BOOL, "true"),
        (-7, Scalar.I32, "-7"),
        (2**64 - 1, Scalar.U64, "18446744073709551615"),
        (date(2026, 1, 31), Scalar.DATE, "2026-01-31"),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), Scalar.DATETIME, "2026-01-31T12:00:00Z"),
        (datetime(2026, 1, 31, 12, 0, 0, 5_000, tzinfo=UTC), Scalar.DATETIME, "2026-01-31T12:00:00.005Z"),
        (0.1, Scalar.F64, "0.1"),
        (1.0, Scalar.F64, "1"),
        (0.0, Scalar.F64, "0"),
        (-0.0, Scalar.F64, "0"),
        (-0.0, Scalar.F32, "0"),
        (0.1, Scalar.F32, "0.1"),
    ],
)
def test_one_key_property_keeps_its_canonical_spelling(value: Value, type: PropertyType, spelling: str) -> None:
    assert node_id([value], [type]) == spelling


def test_several_key_properties_become_a_json_array() -> None:
    assert (
        node_id(["Ada", 36, date(2026, 1, 31)], [Scalar.STRING, Scalar.I32, Scalar.DATE]) == '["Ada","36","2026-01-31"]'
    )
    assert node_id(['a"b', "c"], [Scalar.STRING, Scalar.STRING]) == '["a\\"b","c"]'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_what_has_no_spelling_is_no_key(value: float | None) -> None:
    with pytest.raises(UnspellableKey):
        node_id([value], [Scalar.F64])


@given(
    st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.integers(-5, 5)), unique=True, max_size=5)
)
def test_different_keys_have_different_ids(keys: list[tuple[str, int]]) -> None:
    ids = [node_id(key, [Scalar.STRING, Scalar.I64]) for key in keys]
    assert len(set(ids)) == len(keys)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_reads_back_from_its_spelling(value: float) -> None:
    assert float(node_id([value], [Scalar.F64])) == value


@given(st.lists(st.tuples(st.dates(), st.booleans()), min_size=1, max_size=5))
def test_a_batch_and_a_single_row_spell_alike(rows: list[tuple[date, bool]]) -> None:
    columns = [pa.array([row[0] for row in rows], pa.date32()), pa.array([row[1] for row in rows])]
    assert derived_ids(columns).to_pylist() == [node_id(row, [Scalar.DATE, Scalar.BOOL]) for row in rows]
    assert all(isinstance(json.loads(each), list) for each in derived_ids(columns).to_pylist())


def test_an_empty_batch_has_no_ids() -> None:
    assert derived_ids([pa.array([], pa.float64())]).to_pylist() == []
