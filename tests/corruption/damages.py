"""The ways in which a file can be damaged; each makes other content of what a file has, or none."""

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Damage: TypeAlias = Callable[[bytes, random.Random, Sequence[bytes]], bytes | None]
"""Gives what a file has afterwards, None for a file that is gone; the last are the contents of files of its kind."""

REMOVED = "removed"
REPLACED = "replaced by another"


class NothingToDamage(Exception):
    """This damage is none for this file."""


def _flip(at: Callable[[int, random.Random], int]) -> Damage:
    def damage(content: bytes, numbers: random.Random, others: Sequence[bytes]) -> bytes:
        if not content:
            raise NothingToDamage
        place = at(len(content), numbers)
        changed = bytearray(content)
        changed[place] ^= 1 << numbers.randrange(8)
        return bytes(changed)

    return damage


def _cut(keep: Callable[[int], int]) -> Damage:
    def damage(content: bytes, numbers: random.Random, others: Sequence[bytes]) -> bytes:
        left = max(0, keep(len(content)))
        if not 0 < left < len(content):
            raise NothingToDamage
        return content[:left]

    return damage


def _empty(content: bytes, numbers: random.Random, others: Sequence[bytes]) -> bytes:
    return b""


def _remove(content: bytes, numbers: random.Random, others: Sequence[bytes]) -> None:
    return None


def _replace(content: bytes, numbers: random.Random, others: Sequence[bytes]) -> bytes:
    different = [other for other in others if other != content]
    if not different:
        raise NothingToDamage
    return numbers.choice(different)


def _garbage(content: bytes, numbers: random.Random, others: Sequence[bytes]) -> bytes:
    return numbers.randbytes(max(8, len(content)))


def _zeros(content: bytes, numbers: random.Random, others: Sequence[bytes]) -> bytes:
    return bytes(len(content))


def _edited(change: Callable[[Any, random.Random], Any]) -> Damage:
    """Another value for one field of a JSON document, which stays valid JSON."""

    def damage(content: bytes, numbers: random.Random, others: Sequence[bytes]) -> bytes:
        try:
            document = json.loads(content)
        except ValueError:
            raise NothingToDamage from None
        places = [place for place in _fields(document) if change(place[2], numbers) is not None]
        if not places:
            raise NothingToDamage
        holder, key, value = numbers.choice(places)
        holder[key] = change(value, numbers)
        return json.dumps(document, indent=1).encode()

    return damage


def _fields(document: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Every value in a document, with what holds it and its place there."""
    places = list(document.items()) if isinstance(document, dict) else []
    places += list(enumerate(document)) if isinstance(document, list) else []
    for key, value in places:
        yield document, key, value
        yield from _fields(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


ANY_FLIP = "some byte flipped"
DAMAGES: Mapping[str, Damage] = {
    "first byte flipped": _flip(lambda _size, _: 0),
    "last byte flipped": _flip(lambda size, _: size - 1),
    "middle byte flipped": _flip(lambda size, _: size // 2),
    ANY_FLIP: _flip(lambda size, numbers: numbers.randrange(size)),
    "cut by 1 byte": _cut(lambda size: size - 1),
    "cut by 20 bytes": _cut(lambda size: size - 20),
    "cut by half": _cut(lambda size: size // 2),
    "emptied": _empty,
    REMOVED: _remove,
    REPLACED: _replace,
    "garbage": _garbage,
    "zeros": _zeros,
    "number as text": _edited(lambda value, _: str(value) if _is_number(value) else None),
    "another number": _edited(lambda value, numbers: value + numbers.choice((-1, 1, 7)) if _is_number(value) else None),
    "empty list": _edited(lambda value, _: [] if isinstance(value, list) and value else None),
    "another text": _edited(lambda value, _: value[::-1] if isinstance(value, str) and value != value[::-1] else None),
    "object as list": _edited(lambda value, _: [*value] if isinstance(value, dict) else None),
}

SUBTLE = frozenset(DAMAGES) - {
    "cut by 1 byte",
    "cut by 20 bytes",
    "cut by half",
    "emptied",
    REMOVED,
    "garbage",
    "zeros",
}
"""Damages after which a file may still look like one that was written."""
