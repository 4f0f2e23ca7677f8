"""Compresses answers for clients that ask for it, where it is worth it."""

import asyncio
import zlib

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_GZIP = 16 + zlib.MAX_WBITS
_LEVEL = 1
_WORTH_BYTES = 1024
_ASIDE_BYTES = 128 * 1024
"""What is larger is compressed in a thread, so that other requests do not wait for it."""
_COMPRESSED_TYPES = (b"application/json", b"application/x-ndjson", b"text/")


class Compressing:
    """A layer of the application that gzips texts. Arrow is left alone, as it is read in place."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _accepts_gzip(scope):
            await self._app(scope, receive, _Compressed(send))
        else:
            await self._app(scope, receive, send)


class _Compressed:
    """The `send` of one request; it is known with the first part of the answer whether it is compressed."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._gzip: zlib._Compress | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            return
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._start is not None:
            start, self._start = self._start, None
            if (more or len(body) >= _WORTH_BYTES) and _is_worth_it(start):
                self._gzip = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP)
                start["headers"] = _compressed_headers(start["headers"])
            await self._send(start)
        if self._gzip is None:
            await self._send(message)
        else:
            await self._send({**message, "body": await _compressed(self._gzip, body, more=more)})


async def _compressed(gzip: "zlib._Compress", body: bytes, *, more: bool) -> bytes:
    def compressed() -> bytes:
        return gzip.compress(body) + gzip.flush(zlib.Z_SYNC_FLUSH if more else zlib.Z_FINISH)

    return await asyncio.to_thread(compressed) if len(body) > _ASIDE_BYTES else compressed()


def _accepts_gzip(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"accept-encoding":
            for each in value.lower().split(b","):
                coding, _, weight = each.partition(b";")
                if coding.strip() == b"gzip":
                    return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


def _is_worth_it(start: Message) -> bool:
    headers = dict(start["headers"])
    return b"content-encoding" not in headers and headers.get(b"content-type", b"").startswith(_COMPRESSED_TYPES)


def _compressed_headers(given: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    headers = [each for each in given if each[0] not in (b"content-length", b"vary")]
    return [*headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
