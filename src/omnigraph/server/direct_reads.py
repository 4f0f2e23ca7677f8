"""Answers short reads as soon as their bytes are there: without the parser, a task, and what other requests need.

A client sends the same headers with each request of a connection, and to parse and check them again takes as long as a
lookup. So what was found out about the head of a request is kept. A request that is there as a whole, and whose head is
known, is answered by one call. Everything else goes its usual way, where heads become known.
"""

from collections.abc import Callable, Coroutine, Iterable
from hashlib import sha256
from typing import Any, NamedTuple, cast

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from omnigraph.errors import Unauthenticated
from omnigraph.server.admission import holder_of
from omnigraph.server.auth import Tokens, bearer_actor
from omnigraph.server.errors import error_response
from omnigraph.server.exchange import Exchange
from omnigraph.server.middleware import new_request_id, report_request
from omnigraph.server.responses import JSON, LEAST_COMPRESSED
from omnigraph.server.short_reads import ROUTE, ShortReads, graph_in, may_be_short, receive_nothing
from omnigraph.server.state import ServerState

_BEGINNING = b"POST /graphs/"
_HEAD_END = b"\r\n\r\n"
_LONGEST_HEAD = 4096
_MOST_HEADS = 4096
_UNUSUAL = frozenset({b"expect", b"upgrade", b"x-request-id"})
"""The headers of requests that are answered in another way, or are different each time."""

_Headers = Iterable[tuple[bytes, bytes]]


class _KnownHead(NamedTuple):
    """What the line and the headers of a request say."""

    graph: str
    path: str
    actor: str | None
    length: int
    """Of the body."""
    encodings: list[tuple[bytes, bytes]]
    """Its headers Accept-Encoding."""


class DirectReads:
    """Answers short reads whose heads are known. Only the event loop calls it.

    Heads contain tokens, so only their digests are kept, and no longer than the tokens are valid.
    """

    def __init__(self, state: ServerState, short_reads: ShortReads, compressed: Callable[[ASGIApp], ASGIApp]) -> None:
        self._state = state
        self._short_reads = short_reads
        self._compressed = compressed
        self._heads: dict[bytes, _KnownHead] = {}
        self._tokens: Tokens = state.tokens
        self._usual_headers: _Headers = ()
        self._usual_start = b""

    def answer(self, data: bytes, client: str, headers: _Headers) -> bytes | None:
        """The response to what was received, if it is one short read and nothing else; None otherwise.

        `client` is the address it comes from, and `headers` are those that all responses have.
        """
        if not data.startswith(_BEGINNING):
            return None
        end = data.find(_HEAD_END) + len(_HEAD_END)
        known = self._heads.get(sha256(data[:end]).digest())
        state = self._state
        if known is None or known.length != len(data) - end or self._tokens is not state.tokens or state.draining:
            return None
        graph = state.acting_graph(known.graph, known.actor)
        if graph is None or not state.admission.has_room(holder_of(known.actor, client)):
            return None
        exchange = Exchange(
            request_id=new_request_id(),
            method="POST",
            path=known.path,
            client=client,
            actor=known.actor,
            graph=known.graph,
            route=ROUTE,
        )
        try:
            content = self._short_reads.answer(graph, data[end:])
        except Exception as error:
            response = self._error(error, exchange, headers)
        else:
            if content is None:
                return None
            if len(content) < LEAST_COMPRESSED:
                exchange.status, exchange.sent_bytes = 200, len(content)
                response = self._start(headers) + (
                    b"content-length: %d\r\ncontent-type: application/json\r\nx-request-id: %s\r\n\r\n%s"
                    % (len(content), exchange.request_id.encode(), content)
                )
            else:
                compressed = self._compress(content, known, exchange, headers)
                if compressed is None:
                    return None
                response = compressed
        report_request(state, exchange, received=known.length)
        return response

    def _start(self, headers: _Headers) -> bytes:
        """The beginning of a usual response, which is the same for a second."""
        if headers is not self._usual_headers:
            self._usual_headers, self._usual_start = headers, STATUS_LINE[200] + _lines(headers)
        return self._usual_start

    def _error(self, error: Exception, exchange: Exchange, headers: _Headers) -> bytes:
        failed = error_response(error, exchange, hidden=self._state.hidden)
        return _response(exchange, failed.status_code, [*headers, *failed.raw_headers], bytes(failed.body))

    def _compress(self, content: bytes, known: _KnownHead, exchange: Exchange, headers: _Headers) -> bytes | None:
        """The response with a content that may be compressed; None if this would take long, and needs a thread."""
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "headers": known.encodings}
        response = self._compressed(Response(content, media_type=JSON))
        sending = cast("Coroutine[Any, Any, None]", response(scope, receive_nothing, send))
        try:
            sending.send(None)
        except StopIteration:
            start, body = sent
            return _response(exchange, start["status"], [*headers, *start["headers"]], body["body"])
        sending.close()
        return None

    def learn(self, data: bytes, scope: Scope) -> None:
        """Remembers the head of a request that was received as a whole, as the parser and authentication read it."""
        end = data.find(_HEAD_END) + len(_HEAD_END)
        if not (data.startswith(_BEGINNING) and end <= _LONGEST_HEAD and may_be_short(scope)):
            return
        given: dict[bytes, bytes] = dict(scope["headers"])
        is_kept = given.get(b"connection", b"keep-alive").lower() == b"keep-alive" and scope["http_version"] == "1.1"
        length = int(given[b"content-length"])
        if not is_kept or _UNUSUAL & given.keys() or length != len(data) - end:
            return
        state = self._state
        if self._tokens is not state.tokens or len(self._heads) >= _MOST_HEADS:
            self._tokens = state.tokens
            self._heads.clear()
        try:
            actor = None if state.settings.unauthenticated else bearer_actor(state.tokens, scope)
        except Unauthenticated:
            return
        encodings = [each for each in scope["headers"] if each[0] == b"accept-encoding"]
        path = scope["path"]
        known = _KnownHead(graph_in(path), path, actor, length, encodings)
        self._heads[sha256(data[:end]).digest()] = known


def _response(exchange: Exchange, status: int, headers: list[tuple[bytes, bytes]], content: bytes) -> bytes:
    """A response as bytes, which is noted in its exchange."""
    exchange.status, exchange.sent_bytes = status, len(content)
    lines = _lines([*headers, (b"x-request-id", exchange.request_id.encode())])
    return STATUS_LINE[status] + lines + b"\r\n" + content


def _lines(headers: _Headers) -> bytes:
    return b"".join(b"%s: %s\r\n" % each for each in headers)
