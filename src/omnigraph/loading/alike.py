"""Reads NDJSON lines that differ in nothing but some values, in a fraction of the time that a parser of JSON takes.

Programs write the records of one type alike: the same keys in the same order, with the same spaces. So the first line
gives a pattern. The others are split at their quotes, which are never within a text where there is no backslash. Then
all lines are put together again from the pattern and the values that were found. If the result is the same text, byte
by byte, every line means what the pattern means with these values. Otherwise a parser has to read them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from omnigraph.catalog import EdgeType, EntityType, PropertyType, Scalar, arrow_type
from omnigraph.catalog import Enum as EnumType
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.catalog.types import INTEGERS
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.strict_json import read_json

_BLOCK_BYTES = 1 << 22
_MOST_QUOTES = 200
_NUMBER = re.compile(r"([\s:,{}]*)(-?[0-9]+)([\s,}]*)")
_FIRST_NUMBER, _FIRST_CONTROL = 1_000_000, 0x20
_KINDS = 4
"""How many pieces at the beginning of a line name its type, as in ``{"edge": "Knows"``."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """A value in a line: a whole piece between two quotes, or a number with what is around it in a piece."""

    piece: int
    before: str = ""
    after: str = ""
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Lines as constant texts and slots, in their order; `places` says where in a record the slots are."""

    parts: Sequence[str | _Slot]
    pieces: int
    places: Mapping[tuple[str, ...], _Slot]


def rows_alike(entity: EntityType, text: bytes, count: int) -> dict[str, pa.Array] | None:
    """The records of `count` lines as columns, null where nothing is given; None when they are not alike.

    The caller knows that the text is valid UTF-8, and that all lines begin with the same kind and name.
    """
    if b"\\" in text:
        return None
    pattern = _pattern_of(text[: text.find(b"\n")] if b"\n" in text else text)
    types = None if pattern is None else _types_of(entity, pattern)
    if pattern is None or types is None:
        return None
    try:
        values = _values_of(pattern, types, text, count)
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError):
        return None
    if values is None:
        return None
    columns = {name: values.get(("data", name)) for name in (*entity.properties, ID)}
    if isinstance(entity, EdgeType):
        columns |= {SOURCE: values[("from",)], DESTINATION: values[("to",)]}
    return {
        name: pa.nulls(count, _column_type(entity, name)) if column is None else column
        for name, column in columns.items()
    }


def _column_type(entity: EntityType, name: str) -> pa.DataType:
    return arrow_type(entity.properties[name].type) if name in entity.properties else pa.string()


# --- the pattern ---


def _pattern_of(line: bytes) -> _Pattern | None:
    """What a line says of those like it; None for one with values that are neither texts nor whole numbers."""
    pieces = line.decode().split('"')
    if len(pieces) > _MOST_QUOTES or len(pieces) % 2 == 0:
        return None
    parts: list[str | _Slot] = []
    for number, piece in enumerate(pieces):
        if number:
            parts.append('"')
        found = _NUMBER.fullmatch(piece) if number % 2 == 0 else None
        if found is not None:
            before, after = found[1], found[3]
            parts += [before, _Slot(number, before, after, is_number=True), after]
        elif number % 2 and number >= _KINDS and not pieces[number + 1].lstrip().startswith(":"):
            parts.append(_Slot(number))
        else:
            parts.append(piece)
    return _with_places(parts, len(pieces))


def _with_places(parts: Sequence[str | _Slot], pieces: int) -> _Pattern | None:
    """A pattern with the places of its slots: those where a reader finds numbers that stand for them."""
    slots = [part for part in parts if isinstance(part, _Slot)]
    numbers = iter(range(_FIRST_NUMBER, _FIRST_NUMBER + len(slots)))
    try:
        record = read_json("".join(part if isinstance(part, str) else str(next(numbers)) for part in parts))
    except ValueError:
        return None
    places = {place: value for place, value in _leaves(record) if place not in (("type",), ("edge",))}
    if sorted(map(str, places.values())) != [str(_FIRST_NUMBER + number) for number in range(len(slots))]:
        return None
    return _Pattern(parts, pieces, {place: slots[int(value) - _FIRST_NUMBER] for place, value in places.items()})


def _leaves(record: Any, place: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(record, dict) and (record or place == ("data",)):
        for name, value in record.items():
            yield from _leaves(value, (*place, name))
    else:
        yield place, record


def _types_of(entity: EntityType, pattern: _Pattern) -> dict[tuple[str, ...], pa.DataType] | None:
    """The type of the column of each place; None if a record of this type has no such value there."""
    expected: dict[tuple[str, ...], PropertyType] = {
        ("data", name): declared.type for name, declared in entity.properties.items()
    }
    expected.setdefault(("data", ID), Scalar.STRING)
    if isinstance(entity, EdgeType):
        expected |= {("from",): Scalar.STRING, ("to",): Scalar.STRING}
        if not {("from",), ("to",)} <= pattern.places.keys():
            return None
    for place, slot in pattern.places.items():
        if place not in expected or not _takes(expected[place], is_number=slot.is_number):
            return None
    return {place: arrow_type(expected[place]) for place in pattern.places}


def _takes(type: PropertyType, *, is_number: bool) -> bool:
    """Whether a whole number, or a text, is a value of a type exactly as it is written."""
    if is_number:
        return type in INTEGERS
    return type is Scalar.STRING or isinstance(type, EnumType)


# --- the values ---


def _values_of(
    pattern: _Pattern, types: Mapping[tuple[str, ...], pa.DataType], text: bytes, count: int
) -> dict[tuple[str, ...], pa.Array] | None:
    names = {slot: f"f{slot.piece}" for slot in pattern.places.values()}
    if not names:
        return None
    table = pa.csv.read_csv(
        pa.py_buffer(text),
        read_options=pa.csv.ReadOptions(
            block_size=_BLOCK_BYTES, autogenerate_column_names=True, use_threads=pa.cpu_count() > 1
        ),
        parse_options=pa.csv.ParseOptions(delimiter='"', quote_char=False, ignore_empty_lines=False),
        convert_options=pa.csv.ConvertOptions(
            include_columns=[*names.values()],
            column_types=dict.fromkeys(names.values(), pa.string()),
            strings_can_be_null=False,
        ),
    )
    if table.num_rows != count:
        return None
    values: dict[tuple[str, ...], pa.Array] = {}
    spelled: dict[_Slot, pa.Array] = {}
    for place, slot in pattern.places.items():
        column = table[names[slot]].combine_chunks()
        if slot.is_number:
            column = _within(column, slot).cast(types[place])
            spelled[slot] = column.cast(pa.string())
        elif _has_control_character(column):
            return None
        else:
            spelled[slot], column = column, column.cast(types[place])
        values[place] = column
    return values if _is_same(pattern, spelled, text) else None


def _within(column: pa.Array, slot: _Slot) -> pa.Array:
    """The numbers in pieces, without what is around them in the first line."""
    stop = -len(slot.after) if slot.after else None
    return pc.binary_slice(column.cast(pa.binary()), len(slot.before), stop).cast(pa.string())


def _has_control_character(column: pa.Array) -> bool:
    """Whether a text has what JSON allows in texts only behind a backslash."""
    _, offsets, content = column.buffers()
    if content is None:
        return False
    first, last = np.frombuffer(offsets, np.int32)[[column.offset, column.offset + len(column)]]
    return bool(np.frombuffer(content, np.uint8)[first:last].min(initial=_FIRST_CONTROL) < _FIRST_CONTROL)


def _is_same(pattern: _Pattern, spelled: Mapping[_Slot, pa.Array], text: bytes) -> bool:
    """Whether the values in the pattern make exactly this text, of which the last line may have no end."""
    joined: list[Any] = []
    for part in (*pattern.parts, "\n"):
        if isinstance(part, _Slot):
            joined.append(spelled[part])
        elif joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    lines = pc.binary_join_element_wise(*joined, "")
    content = lines.buffers()[2]
    size = int(np.frombuffer(lines.buffers()[1], np.int32)[lines.offset + len(lines)])
    if size - len(text) not in (0, 1) or (size > len(text) and text.endswith(b"\n")):
        return False
    same: bool = content.slice(0, len(text)).equals(pa.py_buffer(text))
    return same
