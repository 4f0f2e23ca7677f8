"""Records: small JSON documents with a checksum, so that a damaged one is never taken for what was written.

The checksum is that of the content and not of its bytes: a record that was formatted again is still whole. A record
without a checksum was written by an older version. It can be read, but is not verified.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from omnigraph.errors import Damaged
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at

_CHECKSUM = "checksum"
_METHOD = "sha256:"
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Record:
    """The content of a record. `verified` says whether it has a checksum."""

    content: dict[str, Any]
    verified: bool


def checksum_of(content: Any) -> str:
    """The checksum of a JSON value, whatever the order of its keys and the spaces between them."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _METHOD + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def encode_record(content: Mapping[str, Any]) -> bytes:
    """A record as it is written. Its content is made of JSON values, and its keys are texts."""
    return json.dumps({**content, _CHECKSUM: checksum_of(content)}, indent=1, ensure_ascii=True).encode()


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
    converted to a number.
    """
    try:
        found: _Kind = _adapter(cast("Any", kind)).validate_json(json.dumps(content), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise Damaged(uri, f"cannot be understood: {place + ': ' if place else ''}{first['msg']}") from error
    return found


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
