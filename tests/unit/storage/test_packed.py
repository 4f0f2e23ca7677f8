"""Numbers that are packed to the bits that they need come back as they were."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.storage.packed import MOST_BITS, bits_for, pack_numbers, packed_size, unpack_at, unpack_groups


@given(st.integers(1, MOST_BITS), st.integers(0, 70), st.randoms(use_true_random=False))
def test_numbers_of_any_width_come_back(bits: int, count: int, chance: object) -> None:
    values = np.array([chance.getrandbits(bits) for _ in range(count)], np.uint64)  # type: ignore[attr-defined]
    data = np.frombuffer(pack_numbers(values, bits), np.uint8)
    assert len(data) == packed_size(count, bits)
    assert np.array_equal(unpack_groups(data, bits, -(-count // 8))[:count], values)
    places = np.arange(count)[::-3]
    assert np.array_equal(unpack_at(data, bits, places), values[places])


def test_more_numbers_than_are_packed_at_once_come_back() -> None:
    values = np.arange(200_000, dtype=np.uint64)
    data = np.frombuffer(pack_numbers(values, 18), np.uint8)
    assert np.array_equal(unpack_groups(data, 18, 25_000), values)


@pytest.mark.parametrize(("most", "bits"), [(0, 1), (1, 1), (2, 2), (255, 8), (256, 9), (2**40, 41)])
def test_numbers_take_as_many_bits_as_the_largest_needs(most: int, bits: int) -> None:
    assert bits_for(most) == bits
