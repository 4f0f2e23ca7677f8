"""Reads the bodies of requests: no more than is allowed, and JSON only where it is JSON."""

import asyncio
import re
import zlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.routing import Match
from starlette.types import Message, Receive, Scope

from omnigraph.errors import TooLarge
from omnigraph.server.admission import Ticket
from omnigraph.server.problems import BadRequest, TooSlow, UnsupportedMedia
from omnigraph.strict_json import check_unique_names

_GZIP = 16 + zlib.MAX_WBITS
_PIECE = 256 * 1024
_STRETCH = 16 * 1024
_MEMBERS_AT_ONCE = 64
"""Of gzip: after so many files in a row that unpack to nothing, other requests get their turn."""
_COMMON = "/graphs/{id}"
_VARIABLE = re.compile(r"\{[^}]*\}")
_MOST_VALUES = 200_000
"""In one body of JSON: it is read and checked while other requests wait. What is more than that is a load."""
_MOST_FIELDS = 100
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)


class Body:
    """The body of one request as it comes in: counted, and decompressed where its client says that it is compressed.

    `limit` is that of JSON; a route that takes more raises it before it reads. It holds for the bytes that are sent and
    for what they unpack to: compressed bytes may unpack to very many, and to none. They are unpacked no further than to
    the limit, and a piece at a time, so that other requests are answered in between.
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
        self._came = False
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
        """Whether much of the body may still be on its way."""
        return not self._came and (self._expected is None or self._expected - self.received > _PIECE)

    async def receive(self) -> Message:
        """The `receive` of ASGI. It raises `UnsupportedMedia`, `TooLarge`, `TooBusy`, `TooSlow` and `BadRequest`."""
        if self._ended:
            return await self._receive()
        if not self._is_readable:
            raise UnsupportedMedia("a body is compressed with gzip, or not at all")
        if self._declared is not None and self._declared > self.limit:
            raise TooLarge(self.limit)
        while True:
            for piece in self._pieces:
                # What has come already is received without waiting, so nobody else would have a turn.
                await asyncio.sleep(0)
                if piece:
                    return self._counted(piece, more=True)
            if self._came:
                self._ended = True
                return self._counted(b"", more=False)
            message = await self._next()
            if message["type"] != "http.request":
                self._came = self._ended = True
                return message
            self._came = not message.get("more_body", False)
            content = message.get("body", b"")
            if self._gzip is None:
                self._ended = self._came
                return self._counted(content, more=not self._came)
            self._sent += len(content)
            if self._sent > self.limit:
                raise TooLarge(self.limit)
            self._pieces = self._gzip.pieces(content, last=self._came)

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._receive()
        except TimeoutError:
            raise TooSlow(f"nothing of the body came for {self._timeout:g} s") from None

    def _counted(self, piece: bytes, *, more: bool) -> Message:
        self.received += len(piece)
        if self.received > self.limit:
            raise TooLarge(self.limit)
        if piece and self.ticket is not None:
            self.ticket.take(len(piece))
        return {"type": "http.request", "body": piece, "more_body": more}


class _Gzip:
    """Decompresses a body in pieces of a bounded size; several files of gzip in a row are one."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(_GZIP)

    def pieces(self, data: bytes, *, last: bool) -> Iterator[bytes]:
        """What comes of some bytes, in steps that take moments each; an empty piece is a step that gave nothing."""
        rest = memoryview(data)
        members = 0
        try:
            while rest:
                if self._member.eof:
                    self._member = zlib.decompressobj(_GZIP)
                    members += 1
                # Zlib copies what it is given and does not use, so files that are tiny are cut out of a short stretch.
                stretch = rest[:_STRETCH]
                piece = self._member.decompress(stretch, _PIECE)
                left = self._member.unused_data if self._member.eof else self._member.unconsumed_tail
                rest = rest[len(stretch) - len(left) :]
                if piece or members == _MEMBERS_AT_ONCE:
                    members = 0
                    yield piece
            yield b""
        except zlib.error as error:
            raise BadRequest("the body is not gzip, though its Content-Encoding says so") from error
        if last and not self._member.eof:
            raise BadRequest("the body ends in the middle of its gzip")


class JsonRequest(Request):
    """A request whose JSON is read strictly: no invalid UTF-8, no numbers that JSON lacks, no endless nesting."""

    async def json(self) -> Any:
        """The body, read once."""
        if not hasattr(self, "_json"):
            content = await self.body()
            if _has_many_values(content):
                raise BadRequest(f"a body has at most {_MOST_VALUES:,} values")
            try:
                self._json = from_json(content, allow_inf_nan=False, cache_strings="keys")
                check_unique_names(content.decode())
            except ValueError as error:
                raise BadRequest(f"the body is not JSON: {error}") from error
            if isinstance(self._json, dict) and len(self._json) > _MOST_FIELDS:
                raise BadRequest(f"a body has at most {_MOST_FIELDS} fields")
        return self._json


def _has_many_values(content: bytes) -> bool:
    """Whether JSON has more values than a body may have, told by what stands between them, without reading it."""
    most = _separators(content)
    if not _MOST_VALUES < most <= 10 * _MOST_VALUES:
        return most > _MOST_VALUES
    # Every text has two quotes, every second text may be a name, and to take out as many would take seconds.
    if content.count(b'"') - content.count(b'\\"') > 4 * _MOST_VALUES:
        return True
    return _separators(_TEXT.sub(b"", content)) > _MOST_VALUES


def _separators(content: bytes) -> int:
    return content.count(b",") + content.count(b":")


class JsonRoute(APIRoute):
    """The class of routes that take JSON; an `APIRouter` is made with it as its `route_class`."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self._landmark = max(_VARIABLE.split(path.removeprefix(_COMMON)), key=len) or path

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a request is for this route; that most are not, a fixed part of its path tells at once."""
        return super().matches(scope) if self._landmark in scope["path"] else (Match.NONE, {})

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        takes_json = self.body_field is not None

        async def checked(request: Request) -> Response:
            if takes_json:
                check_media_type(request)
            return await handler(JsonRequest(request.scope, request.receive))

        return checked


def check_media_type(request: Request) -> None:
    """Raises `UnsupportedMedia` for a body that does not say that it is JSON."""
    headers = request.headers
    given = headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if not given and headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    if given != "application/json" and not (given.startswith("application/") and given.endswith("+json")):
        raise UnsupportedMedia("this takes a body of Content-Type application/json")
