"""Rows come in the same order, however it is found."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.query.row_order import RowOrder, first_in_order
from omnigraph.resident.numbers import sortable_numbers

_TYPES = (pa.int64(), pa.int32(), pa.uint8(), pa.date32(), pa.timestamp("ms", "UTC"), pa.float64())


@pytest.mark.parametrize("count", [5, 400])
@given(data=st.data())
def test_numbers_days_and_instants_are_ordered_as_their_values(count: int, data: st.DataObject) -> None:
    chance = np.random.default_rng(data.draw(st.integers(0, 1000)))
    types = data.draw(st.lists(st.sampled_from(_TYPES), min_size=1, max_size=3))
    descending = [data.draw(st.booleans()) for _ in types]
    limit = data.draw(st.none() | st.integers(1, count))
    columns = [pa.array(chance.integers(0, 6, count)).cast(pa.int32()).cast(pa.int64()) for _ in types]
    columns = [_of_type(each, type) for each, type in zip(columns, types, strict=True)]
    keys = [RowOrder(sortable_numbers(each), down) for each, down in zip(columns, descending, strict=True)]
    assert all(isinstance(key.values, np.ndarray) for key in keys)
    values = [column.to_pylist() for column in columns]
    expected = list(range(count))
    for each, down in reversed([*zip(values, descending, strict=True)]):
        expected.sort(key=each.__getitem__, reverse=down)
    found = first_in_order(keys, count, limit).tolist()
    rows: list[list[Any]] = [[each[at] for each in values] for at in found]
    assert rows == [[each[at] for each in values] for at in expected[:limit]]


def test_the_smallest_whole_number_comes_last_when_descending() -> None:
    numbers = np.array([-(2**63), 0, 2**63 - 1] * 20, np.int64)
    found = first_in_order([RowOrder(numbers, descending=True), RowOrder(np.arange(60))], 60, None)
    assert numbers[found].tolist() == sorted(numbers.tolist(), reverse=True)


def _of_type(numbers: pa.Array, type: pa.DataType) -> pa.Array:
    return numbers.cast(pa.int32()).cast(type) if type == pa.date32() else numbers.cast(type)
