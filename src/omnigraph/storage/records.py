"""Records: small JSON documents with a checksum, so that a damaged one is never taken for what was written.

The checksum is that of the content and not of its bytes: a record that somebody has formatted again is still whole. A
record without one was written by an older version. It can be read, and nothing vouches for it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from omnigraph.errors import Damaged

_CHECKSUM = "checksum"
_METHOD = "sha256:"
_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True)
class Record:
    """What a record says. `verified` tells whether a checksum vouches for it."""

    content: dict[str, Any]
    verified: bool


def checksum_of(content: Any) -> str:
    """The checksum of a JSON value, whatever the order of its keys and the spaces between them."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return _METHOD + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def encode_record(content: Mapping[str, Any]) -> bytes:
    """A record as it is written. Its content is made of JSON values, and its keys are texts."""
    return json.dumps({**content, _CHECKSUM: checksum_of(content)}, indent=1, ensure_ascii=True).encode()


def decode_record(uri: str, data: bytes) -> Record:
    """The record in a file; raises `Damaged` for one that is not as it was written."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Damaged(uri, f"is not a JSON document: {error}") from error
    if not isinstance(content, dict):
        raise Damaged(uri, "is not a record: expected a JSON object")
    expected = content.pop(_CHECKSUM, None)
    if expected is not None and expected != checksum_of(content):
        raise Damaged(uri, "does not have the checksum that it was written with")
    return Record(content, expected is not None)


def decode_as(kind: type[_Kind], uri: str, content: Mapping[str, Any]) -> _Kind:
    """The content of a record as a dataclass, with every field of its declared type; `Damaged` for any other.

    Only values of exactly these types are taken: the text "3" is not a version, although a number could be made of it.
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
