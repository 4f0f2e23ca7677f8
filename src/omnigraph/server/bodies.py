"""Reads the bodies of requests, within their limits, and strict JSON."""

import asyncio
import re
import zlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.types import Message, Receive, Scope

from omnigraph.errors import TooLarge
from omnigraph.server.admission import Ticket
from omnigraph.server.errors import BadRequest, TooSlow, UnsupportedMedia
from omnigraph.server.waiting import await_in_time
from omnigraph.strict_json import check_unique_names

_GZIP = 16 + zlib.MAX_WBITS
_PIECE = 256 * 1024
_STRETCH = 16 * 1024
_MEMBERS_AT_ONCE = 64
"""After this many empty gzip members in a row, other requests get their turn."""
_MOST_VALUES = 200_000
"""Of one JSON body: it is parsed and checked while other requests wait. Use a load for more."""
_MOST_FIELDS = 100
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


class RequestBody:
    """The body of one request: counted, and decompressed if its Content-Encoding is gzip.

    `limit` is that of JSON; a route that takes more raises it before it reads. It holds for the bytes that are sent and
    for the bytes that they decompress to, which may be many more, or none. They are decompressed up to the limit, one
    piece at a time, so that other requests are answered in between.
    """

    def __init__(self, scope: Scope, receive: Receive, *, limit: int, timeout: float) -> None:
        self.limit = limit
        self.ticket: Ticket | None = None
        self.received = 0
        self._sent = 0
        self._receive = receive
        self._timeout = timeout
        self._declared: int | None = None
        self._gzip: _Gzip | None = None
        self._pieces: Iterator[bytes] = iter(())
        self._is_complete = False
        self._ended = False
        encoding, is_chunked = b"", False
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                self._declared = int(value)
            elif name == b"content-encoding":
                encoding = value.strip().lower()
            elif name == b"transfer-encoding":
                is_chunked = True
        self._expected = self._declared if self._declared is not None or is_chunked else 0
        if encoding in (b"gzip", b"x-gzip"):
            self._gzip = _Gzip()
        self._is_readable = encoding in (b"", b"identity", b"gzip", b"x-gzip")

    @property
    def is_left(self) -> bool:
        """Whether much of the body may not have been received yet."""
        return not self._is_complete and (self._expected is None or self._expected - self.received > _PIECE)

    async def receive(self) -> Message:
        """The `receive` of ASGI. It raises `UnsupportedMedia`, `TooLarge`, `TooBusy`, `TooSlow` and `BadRequest`."""
        if self._ended:
            return await self._receive()
        if not self._is_readable:
            raise UnsupportedMedia("unsupported Content-Encoding: expected gzip or identity")
        if self._declared is not None and self._declared > self.limit:
            raise TooLarge(self.limit)
        while True:
            for piece in self._pieces:
                # Received data is processed without waiting, so other requests would not get their turn.
                await asyncio.sleep(0)
                if piece:
                    return self._count_piece(piece, more=True)
            if self._is_complete:
                self._ended = True
                return self._count_piece(b"", more=False)
            message = await self._next()
            if message["type"] != "http.request":
                self._is_complete = self._ended = True
                return message
            self._is_complete = not message.get("more_body", False)
            content = message.get("body", b"")
            if self._gzip is None:
                self._ended = self._is_complete
                return self._count_piece(content, more=not self._is_complete)
            self._sent += len(content)
            if self._sent > self.limit:
                raise TooLarge(self.limit)
            self._pieces = self._gzip.pieces(content, last=self._is_complete)

    async def _next(self) -> Message:
        try:
            return await await_in_time(cast("Coroutine[Any, Any, Message]", self._receive()), self._timeout)
        except TimeoutError:
            raise TooSlow(f"no data of the body was received for {self._timeout:g} s") from None

    def _count_piece(self, piece: bytes, *, more: bool) -> Message:
        self.received += len(piece)
        if self.received > self.limit:
            raise TooLarge(self.limit)
        if piece and self.ticket is not None:
            self.ticket.take(len(piece))
        return {"type": "http.request", "body": piece, "more_body": more}


class _Gzip:
    """Decompresses a body in pieces of bounded size; several gzip members in a row are one body."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)

    def pieces(self, data: bytes, *, last: bool) -> Iterator[bytes]:
        """The decompressed pieces of some bytes, in short steps; a step without output gives an empty piece."""
        rest = memoryview(data)
        members = 0
        try:
            while rest:
                if self._member.eof:
                    self._member = zlib.decompressobj(_GZIP)
                    members += 1
                # Zlib copies unused input, so it is given short stretches: members may be tiny.
                stretch = rest[:_STRETCH]
                piece = self._member.decompress(stretch, _PIECE)
                left = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
                rest = rest[len(stretch) - len(left) :]
                if piece or members == _MEMBERS_AT_ONCE:
                    members = 0
                    yield piece
            yield b""
        except zlib.error as error:
            raise BadRequest("the body is not valid gzip, which its Content-Encoding names") from error
        if last and not self._member.eof:
            raise BadRequest("the gzip of the body is truncated")


class JsonRequest(Request):
    """A request whose JSON is parsed strictly: valid UTF-8, finite numbers, bounded nesting."""

    async def json(self) -> Any:
        """The body, parsed once."""
        if not hasattr(self, "_json"):
            content = await self.body()
            if _has_many_values(content):
                raise BadRequest(f"the body has too many values: expected at most {_MOST_VALUES:,}")
            try:
                self._json = from_json(content, allow_inf_nan=False, cache_strings="keys")
                check_unique_names(content.decode())
            except ValueError as error:
                raise BadRequest(f"the body is not JSON: {error}") from error
            if isinstance(self._json, dict) and len(self._json) > _MOST_FIELDS:
                raise BadRequest(f"the body has too many fields: expected at most {_MOST_FIELDS}")
        return self._json


def _has_many_values(content: bytes) -> bool:
    """Whether JSON has more values than a body may have, by its separators, without parsing it."""
    most = _separators(content)
    if not _MOST_VALUES < most <= 10 * _MOST_VALUES:
        return most > _MOST_VALUES
    # Every string has two quotes, every second string may be a name, and removing this many would take seconds.
    if content.count(b'"') - content.count(b'\\"') > 4 * _MOST_VALUES:
        return True
    return _separators(_TEXT.sub(b"", content)) > _MOST_VALUES


def _separators(content: bytes) -> int:
    return content.count(b",") + content.count(b":")


class JsonRoute(APIRoute):
    """A route whose JSON is parsed strictly; the `route_class` of an `APIRouter`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        takes_json = self.body_field is not None

        async def check_and_handle(request: Request) -> Response:
            if takes_json:
                check_media_type(request)
            return await handler(JsonRequest(request.scope, request.receive))

        return check_and_handle


def check_media_type(request: Request) -> None:
    """Raises `UnsupportedMedia` for a body whose Content-Type is not JSON."""
    headers = request.headers
    given = headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if not given and headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    if given != "application/json" and not (given.startswith("application/") and given.endswith("+json")):
        raise UnsupportedMedia("unsupported Content-Type: expected application/json")
