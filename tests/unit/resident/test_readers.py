"""Single values of columns in memory are those that Arrow gives."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.resident.ids import IdIndex
from omnigraph.resident.readers import reader_of, values_of

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
_VALUES = {
    pa.string(): _TEXTS,
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.date32(): st.dates(),
    pa.timestamp("ms", "UTC"): st.datetimes(timezones=st.just(UTC)).map(
        lambda instant: instant.replace(microsecond=instant.microsecond // 1000 * 1000)
    ),
}


@pytest.mark.parametrize("type", list(_VALUES), ids=str)
@given(data=st.data())
def test_a_reader_gives_the_values_of_its_column(type: pa.DataType, data: st.DataObject) -> None:
    values: list[Any] = data.draw(st.lists(_VALUES[type] | st.none(), max_size=20))
    start = data.draw(st.integers(0, len(values)))
    column = pa.array(values, type).slice(start)
    reader = reader_of(column)
    assert reader is not None
    assert [reader.read(row) for row in range(len(column))] == column.to_pylist() == values_of(column)


def test_instants_have_the_zone_that_arrow_gives_them() -> None:
    column = pa.array([datetime(2026, 1, 31, tzinfo=UTC)], pa.timestamp("ms", "UTC"))
    reader = reader_of(column)
    assert reader is not None
    zones = {each.tzinfo for each in (*column.to_pylist(), *values_of(column), reader.read(0))}
    assert len(zones) == 1


def test_a_reader_knows_the_bytes_of_a_text() -> None:
    reader = reader_of(pa.array(["", "ä", None, "abc"]))
    assert reader is not None
    assert [reader.size(row) for row in (0, 1, 3)] == [0, 2, 3]


@pytest.mark.parametrize("type", [pa.bool_(), pa.timestamp("us"), pa.list_(pa.string())], ids=str)
def test_other_types_are_left_to_arrow(type: pa.DataType) -> None:
    assert reader_of(pa.nulls(2, type)) is None


@given(ids=st.lists(_TEXTS, unique=True, max_size=40), other=_TEXTS)
def test_every_id_is_found_and_no_other(ids: list[str], other: str) -> None:
    index = IdIndex(pa.array([*ids, None], pa.string()))
    assert [index.find(id) for id in ids] == list(range(len(ids)))
    assert (index.find(other) >= 0) == (other in ids)
