"""Reads single values of a column in memory, as Python has them, and all values of days and instants.

Arrow takes about a microsecond to give out one value, and seven for an instant. A text or a number is found in its
memory in a quarter of that, and a day or an instant is computed of its number.
"""

import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta, tzinfo
from functools import cache
from typing import Any, Protocol

import pyarrow as pa

from omnigraph.resident.numbers import numbers_of

_NUMBERS = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.uint8(): "B",
    pa.uint16(): "H",
    pa.uint32(): "I",
    pa.uint64(): "Q",
    pa.float32(): "f",
    pa.float64(): "d",
}
"""The types of numbers, with the format of one in memory."""


_INSTANT = pa.timestamp("ms", "UTC")
_FIRST_DAY = date(1970, 1, 1).toordinal()


class ValueReader(Protocol):
    """Reads one value at a time. Safe to share between threads."""

    def read(self, row: int) -> Any:
        """The value of a row."""

    def size(self, row: int) -> int:
        """The bytes of the value of a row."""


def reader_of(column: pa.Array) -> ValueReader | None:
    """What reads the values of a column one by one; None for types whose values are not read in this way."""
    reader: ValueReader
    if column.type == pa.string():
        reader = _TextReader(column)
    elif column.type in _NUMBERS:
        reader = _NumberReader(column)
    elif column.type == _INSTANT:
        reader = _MomentReader(_NumberReader(column.view(pa.int64())), _instant)
    elif column.type == pa.date32():
        reader = _MomentReader(_NumberReader(column.view(pa.int32())), _day)
    else:
        return None
    return _NullableReader(reader, column) if column.null_count else reader


class _TextReader:
    __slots__ = ("_data", "_offsets")

    def __init__(self, column: pa.Array) -> None:
        _, offsets, data = column.buffers()
        self._offsets = _numbers(offsets, "i", column.offset, len(column) + 1)
        self._data = memoryview(b"" if data is None else data)

    def read(self, row: int) -> str:
        offsets = self._offsets
        return str(self._data[offsets[row] : offsets[row + 1]], "utf-8")

    def size(self, row: int) -> int:
        size: int = self._offsets[row + 1] - self._offsets[row]
        return size


class _NumberReader:
    __slots__ = ("_values", "read")

    def __init__(self, column: pa.Array) -> None:
        self._values = _numbers(column.buffers()[1], _NUMBERS[column.type], column.offset, len(column))
        self.read = self._values.__getitem__

    def size(self, row: int) -> int:  # noqa: ARG002
        size: int = self._values.itemsize
        return size


class _MomentReader:
    """Reads days and instants."""

    __slots__ = ("_reader", "_to_moment", "size")

    def __init__(self, reader: _NumberReader, to_moment: Callable[[int], date]) -> None:
        self._reader, self._to_moment, self.size = reader, to_moment, reader.size

    def read(self, row: int) -> date:
        return self._to_moment(self._reader.read(row))


@cache
def _zone() -> tzinfo | None:
    """The zone of the instants that Arrow gives out, which depends on what is installed."""
    instant: datetime = pa.scalar(0, _INSTANT).as_py()
    return instant.tzinfo


@cache
def _first_instant() -> datetime:
    return datetime(1970, 1, 1, tzinfo=_zone())


def _instant(milliseconds: int) -> datetime:
    return _first_instant() + timedelta(milliseconds=milliseconds)


def _day(days: int) -> date:
    return date.fromordinal(_FIRST_DAY + days)


def values_of(column: pa.Array) -> list[Any]:
    """All values of a column as Python has them."""
    values: list[Any]
    if column.null_count or column.type not in (_INSTANT, pa.date32()):
        values = column.to_pylist()
    elif column.type == _INSTANT:
        first = _first_instant()
        numbers = numbers_of(column.view(pa.int64())).tolist()
        values = [first + timedelta(milliseconds=each) for each in numbers]
    else:
        values = numbers_of(column.view(pa.int32())).astype("M8[D]").tolist()
    return values


class _NullableReader:
    """Reads a column in which some values are null."""

    __slots__ = ("_is_there", "_offset", "_reader")

    def __init__(self, reader: ValueReader, column: pa.Array) -> None:
        self._reader = reader
        self._is_there, self._offset = memoryview(column.buffers()[0]), column.offset

    def read(self, row: int) -> Any:
        at = row + self._offset
        return self._reader.read(row) if self._is_there[at >> 3] >> (at & 7) & 1 else None

    def size(self, row: int) -> int:
        return self._reader.size(row)


def _numbers(buffer: pa.Buffer | None, format: Any, offset: int, count: int) -> Any:
    """Some numbers in the memory of a column."""
    size = struct.calcsize(format)
    return memoryview(b"" if buffer is None else buffer)[offset * size : (offset + count) * size].cast(format)
