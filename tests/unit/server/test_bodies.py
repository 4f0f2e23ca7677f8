"""How much of a body is read, and of what kind."""

import asyncio
import gzip
from collections.abc import Sequence

import pytest
from starlette.types import Message

from omnigraph.errors import OmnigraphError, TooLarge
from omnigraph.server.bodies import RequestBody, _has_many_values
from omnigraph.server.errors import BadRequest, TooSlow, UnsupportedMedia


def read(pieces: Sequence[bytes], limit: int = 1000, *, complete: bool = True, **headers: str) -> bytes:
    """The body that arrives in pieces, as a route gets it."""

    async def run() -> bytes:
        left = list(pieces)

        async def receive() -> Message:
            if not left:
                await asyncio.sleep(60)
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or not complete}

        named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        body = RequestBody({"headers": named}, receive, limit=limit, timeout=0.01)
        found, more = b"", True
        while more:
            message = await body.receive()
            found, more = found + message["body"], message["more_body"]
        return found

    return asyncio.run(run())


def test_a_body_comes_as_it_was_sent() -> None:
    assert read([b"a", b"", b"bc"]) == b"abc"
    assert read([b""]) == b""


@pytest.mark.parametrize("pieces", [1, 2, 7, 1000])
def test_a_compressed_body_comes_decompressed_however_it_is_cut(pieces: int) -> None:
    plain = bytes(range(256)) * 3
    packed = gzip.compress(plain[:300]) + gzip.compress(plain[300:])
    size = max(1, len(packed) // pieces)
    assert read([packed[at : at + size] for at in range(0, len(packed), size)], content_encoding="gzip") == plain


def test_a_body_that_says_that_it_is_too_large_is_not_read() -> None:
    with pytest.raises(TooLarge):
        read([], content_length="1001")


def test_a_body_that_does_not_say_how_large_it_is_is_read_up_to_the_limit() -> None:
    assert len(read([b"x" * 500, b"x" * 500], transfer_encoding="chunked")) == 1000
    with pytest.raises(TooLarge):
        read([b"x" * 500, b"x" * 501], transfer_encoding="chunked")


def test_a_bomb_is_decompressed_no_further_than_to_the_limit() -> None:
    with pytest.raises(TooLarge):
        read([gzip.compress(b"0" * 10_000_000)], content_encoding="gzip")


@pytest.mark.parametrize(
    ("pieces", "encoding", "error"),
    [
        ([b"plain"], "gzip", BadRequest),
        ([gzip.compress(b"x" * 99)[:-9]], "gzip", BadRequest),
        ([gzip.compress(b"x") + b"rest"], "gzip", BadRequest),
        ([b"x"], "br", UnsupportedMedia),
        ([b"x"], "gzip, gzip", UnsupportedMedia),
    ],
)
def test_what_cannot_be_decompressed_is_refused(
    pieces: list[bytes], encoding: str, error: type[OmnigraphError]
) -> None:
    with pytest.raises(error):
        read(pieces, content_encoding=encoding)


@pytest.mark.parametrize(
    ("content", "many"),
    [
        (b'["' + b'", "'.join([b"x"] * 200_000) + b'"]', False),
        (b'["' + b'", "'.join([b"x"] * 500_000) + b'"]', True),
        (b'{"a": "' + b",:" * 500_000 + b'\\\\"}', False),
        (b'{"a": "' + b',\\"' * 900_000 + b'"}', False),
        (b"[" + b"1," * 200_001 + b"1]", True),
    ],
)
def test_values_are_counted_outside_of_texts(content: bytes, many: bool) -> None:
    assert _has_many_values(content) == many


def test_a_client_that_stops_sending_is_not_waited_for() -> None:
    with pytest.raises(TooSlow):
        read([b"x"], complete=False)
