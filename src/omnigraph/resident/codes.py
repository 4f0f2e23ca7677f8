"""Columns in memory as numbers of their distinct values."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.resident.ids import pick
from omnigraph.resident.numbers import numbers_of


@dataclass(frozen=True, slots=True)
class Codes:
    """A column as numbers of its distinct values, which are ascending and numbered from 1; null is 0."""

    codes: NDArray[np.int64]
    values: pa.Array

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes + self.values.nbytes)


def encode(values: pa.Array) -> Codes:
    """Values as numbers of the distinct ones; both zeros of a float are one value."""
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))
    encoded = values if isinstance(values, pa.DictionaryArray) else values.dictionary_encode()
    indices = encoded.indices
    order = numbers_of(pc.sort_indices(encoded.dictionary))
    ranks = np.zeros(len(order) + 1, np.int64)  # the last is that of null
    ranks[order] = np.arange(1, len(order) + 1)
    codes = ranks[numbers_of(indices.fill_null(len(order)) if indices.null_count else indices)]
    return Codes(codes, pick(encoded.dictionary, order))


def encode_lists(values: pa.Array) -> Codes:
    """Lists as numbers of the distinct ones, which are ordered by their elements."""
    lists = [None if each is None else tuple(each) for each in values.to_pylist()]
    ordered = sorted({each for each in lists if each is not None})
    numbers: dict[Any, int] = {each: number for number, each in enumerate(ordered, 1)}
    codes = np.array([numbers.get(each, 0) for each in lists], np.int64)
    return Codes(codes, pa.array([list(each) for each in ordered], values.type))


@dataclass(frozen=True, slots=True)
class LateCodes:
    """A column of an overlay as numbers of the distinct values of base and overlay."""

    codes: NDArray[np.int64]
    values: pa.Array
    ranks: NDArray[np.int64] | None
    """The number of each value of the base; None where the overlay has no other values."""

    @property
    def nbytes(self) -> int:
        ranks = 0 if self.ranks is None else self.ranks.nbytes + self.values.nbytes
        return int(self.codes.nbytes + ranks)


def late_codes(base: Codes, column: pa.Array) -> LateCodes:
    """The codes of a column of an overlay, beside those of the base."""
    late = encode(column)
    places = pc.index_in(late.values, value_set=base.values)
    if not places.null_count:
        numbers = np.concatenate(([0], numbers_of(places) + 1))
        return LateCodes(numbers[late.codes], base.values, None)
    both = encode(pa.concat_arrays([base.values, late.values]))
    ranks = np.concatenate(([0], both.codes))
    numbers = np.concatenate(([0], both.codes[len(base.values) :]))
    return LateCodes(numbers[late.codes], both.values, ranks[: len(base.values) + 1])
