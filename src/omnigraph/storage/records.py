"""Records: small JSON documents with a checksum, so that a damaged one is never taken for what was written.

The checksum is that of the content and not of its bytes: a record that was formatted again is still whole. A record
without a checksum was written by an older version. It can be read, but is not verified.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args, get_type_hints

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged
from omnigraph.lazy import importing
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_CHECKSUM = "checksum"
_METHOD = "sha256:"
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Record:
    """The content of a record. `verified` says whether it has a checksum."""

    content: dict[str, Any]
    verified: bool


def checksum_of(content: Any) -> str:
    """The checksum of a JSON value, whatever the order of its keys and the spaces between them."""
    text = _CANONICAL.encode(content)
    return _METHOD + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def encode_record(content: Mapping[str, Any], *, indent: int | None = 1) -> bytes:
    """A record as it is written. Its content is made of JSON values, and its keys are texts.

    Without an indent, it is on one line, which is made several times faster.
    """
    return json.dumps({**content, _CHECKSUM: checksum_of(content)}, indent=indent, ensure_ascii=True).encode()


def read_record(kind: type[_Kind], location: Location, file: str) -> _Kind | None:
    """The record in a file as a dataclass, or None when there is no such file; raises `Damaged` for any other."""
    content = objects_at(location).read(file)
    return None if content is None else decode_as(kind, location.child(file).uri, content)


def decode_as(kind: type[_Kind], uri: str, data: bytes) -> _Kind:
    """A record as a dataclass, with every field of its declared type; raises `Damaged` for any other."""
    return from_content(kind, uri, decode_record(uri, data).content)


def decode_record(uri: str, data: bytes) -> Record:
    """A record with any content; raises `Damaged` when it is not what was written."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(uri, f"is not a JSON document: {error}") from error
    if not isinstance(content, dict):
        raise Damaged(uri, "is not a record: expected a JSON object")
    expected = content.pop(_CHECKSUM, None)
    if expected is not None and expected != checksum_of(content):
        raise Damaged(uri, "does not match its recorded checksum")
    return Record(content, expected is not None)


def from_content(kind: type[_Kind], uri: str, content: Mapping[str, Any]) -> _Kind:
    """The content of a record as a dataclass.

    Only values of exactly the declared types are accepted: the text "3" is not a version, although it could be
    converted to a number. Small records are decoded here; pydantic, whose import takes long, decodes all others and
    finds what is wrong with a damaged one.
    """
    try:
        plain: _Kind = _decode_plain(kind, content)
    except ValueError:
        return _decode_any(kind, uri, content)
    return plain


def _decode_any(kind: type[_Kind], uri: str, content: Mapping[str, Any]) -> _Kind:
    with importing:
        from pydantic import ValidationError  # noqa: PLC0415

    try:
        found: _Kind = _adapter(cast("Any", kind)).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Damaged(uri, f"cannot be understood: {place + ': ' if place else ''}{first['msg']}") from error
    return found


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    with importing:
        from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter(kind)


_PLAIN = (str, int, bool, NoneType)


class _NotPlain(ValueError):
    """The content has other values than its dataclass declares, or the dataclass declares others than plain ones."""


def _decode_plain(kind: Any, content: Any) -> Any:
    """A dataclass whose fields are plain values, times in UTC, JSON objects, and dataclasses of the same kind.

    Raises `ValueError` for everything else, be it valid or not.
    """
    if not isinstance(content, Mapping):
        raise _NotPlain
    hints, required = _declared_fields(kind)
    if not required <= content.keys() <= hints.keys():
        raise _NotPlain
    return kind(**{name: _plain_value(hints[name], value) for name, value in content.items()})


def _plain_value(hint: Any, value: Any) -> Any:
    if isinstance(hint, tuple) and type(value) in hint:
        if isinstance(value, str):
            value.encode()  # not with half a character
        return value
    if hint is datetime and type(value) is str:
        time = datetime.fromisoformat(value)
        if time.tzinfo is UTC and time.isoformat() == value:
            return time
    if hint == dict[str, Any] and type(value) is dict:
        json.dumps(value, ensure_ascii=False).encode()
        return value
    if hint == list[int] and type(value) is list and all(type(each) is int for each in value):
        return value
    if isinstance(hint, type) and is_dataclass(hint):
        return _decode_plain(hint, value)
    raise _NotPlain


@cache
def _declared_fields(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The types of the fields, a tuple of types for a plain one; and the names of those without a default."""
    hints = {}
    for name, hint in get_type_hints(kind).items():
        types = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        hints[name] = types if all(each in _PLAIN for each in types) else hint
    return hints, frozenset(
        each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING
    )
