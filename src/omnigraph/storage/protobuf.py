"""Protobuf messages, read and written field by field, without what describes them.

Lance keeps its metadata in such messages, and lends no reader for some of them.
"""

from collections.abc import Iterator
from typing import NamedTuple


class MessageField(NamedTuple):
    """One field: its number, its value (a number, or bytes for anything else), and all of it as it stands."""

    number: int
    value: int | bytes
    raw: bytes


def message_fields(message: bytes) -> Iterator[MessageField]:
    """The fields of a message in order. What is no message raises `IndexError`."""
    at = 0
    while at < len(message):
        start = at
        key, at = _number(message, at)
        match key & 7:
            case 0:
                value, at = _number(message, at)
                yield MessageField(key >> 3, value, message[start:at])
                continue
            case 1:
                length = 8
            case 2:
                length, at = _number(message, at)
            case 5:
                length = 4
            case kind:
                raise IndexError(f"no field is of kind {kind}")
        if at + length > len(message):
            raise IndexError(at + length)
        yield MessageField(key >> 3, message[at : at + length], message[start : at + length])
        at += length


def number_field(number: int, value: int) -> bytes:
    """A field that is a number; zero is told by leaving the field out."""
    return _encoded(number << 3) + _encoded(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """A field that is text or bytes."""
    return _encoded(number << 3 | 2) + _encoded(len(value)) + value


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and the place after it."""
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _encoded(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
