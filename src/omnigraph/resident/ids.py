"""Finds the row of an id among many, in memory."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.compute_later import pc
from omnigraph.resident.readers import reader_of

_AT_ONCE = 1 << 16


class IdIndex:
    """Rows by id: the rows of all ids by their hashes, and where those of each stretch of hashes begin.

    There are about as many stretches as ids, so few ids are compared. It takes 8 to 12 bytes for an id, a tenth of a
    dictionary of Python.
    """

    __slots__ = ("_half", "_reader", "_rows", "_shift", "_starts")

    def __init__(self, ids: pa.Array) -> None:
        bits = len(ids).bit_length() or 1
        self._shift, self._half = 64 - bits, 1 << (bits - 1)
        stretches = np.empty(len(ids), np.int64)
        for start in range(0, len(ids), _AT_ONCE):
            part = ids.slice(start, _AT_ONCE)
            stretches[start : start + len(part)] = np.fromiter(map(hash, part.to_pylist()), np.int64, len(part))
        stretches >>= self._shift
        stretches += self._half
        starts = np.zeros((1 << bits) + 1, np.int32)
        np.cumsum(np.bincount(stretches, minlength=1 << bits), out=starts[1:])
        reader = reader_of(ids)
        assert reader is not None
        self._reader = reader
        self._rows, self._starts = np.argsort(stretches, kind="stable").astype(np.int32).data, starts.data

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes + self._starts.nbytes

    def find(self, id: str) -> int:
        """The row of an id, or -1. Null stands for a row that has no id."""
        starts = self._starts
        stretch = (hash(id) >> self._shift) + self._half
        for at in range(starts[stretch], starts[stretch + 1]):
            row: int = self._rows[at]
            if self._reader.read(row) == id:
                return row
        return -1


_TAKE = pc.get_function("array_take")
_INT64 = pa.int64()


def pick(values: pa.Array, places: NDArray[Any]) -> pa.Array:
    """The values at some places. Arrow's own way to this function takes longer than the function for a few values."""
    indices = np.ascontiguousarray(places, np.int64)
    return _TAKE.call([values, pa.Array.from_buffers(_INT64, len(indices), [None, pa.py_buffer(indices)])])


def size_at(values: pa.Array, places: NDArray[Any]) -> int:
    """How many bytes the values at some places take: texts and bytes exactly, others on average."""
    if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
        offsets = np.frombuffer(values.buffers()[1] or b"", np.int32)
        at = np.asarray(places) + values.offset
        return int((offsets[at + 1] - offsets[at]).sum()) + 4 * len(at)
    return len(places) * int(values.nbytes) // max(len(values), 1)


def flat(values: Any) -> pa.Array:
    """A column as one array, whatever number of chunks it has."""
    if not isinstance(values, pa.ChunkedArray):
        return values
    if values.num_chunks == 1:
        return values.chunk(0)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], values.type)
