"""Answers short reads as soon as their bytes are there: without the parser, a task, and what other requests need.

A client sends the same headers with each request of a connection, and to parse and check them again takes as long as a
lookup. So what was found out about the head of a request is kept. A request that is there as a whole, and whose head is
known, is answered before the event loop waits again, together with all others that came in the same turn: they look for
the newest commit once. Everything else goes its usual way, where heads become known.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable
from hashlib import sha256
from typing import Any, NamedTuple, Protocol, TypeAlias, cast

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from omnigraph.errors import Unauthenticated
from omnigraph.server.admission import holder_of
from omnigraph.server.auth import Tokens, bearer_actor
from omnigraph.server.errors import error_response
from omnigraph.server.exchange import Exchange
from omnigraph.server.logs import REQUESTS, json_log_handler, request_about, request_line
from omnigraph.server.middleware import new_request_id, report_request
from omnigraph.server.plain_requests import Plain, graph_in, plain_kind, receive_nothing, stored_query_in
from omnigraph.server.responses import JSON, LEAST_COMPRESSED
from omnigraph.server.short_reads import ShortReads
from omnigraph.server.state import ServerState
from omnigraph.verbs.query import StateAtHand, state_at_hand

_logger = logging.getLogger(REQUESTS)
_BEGINNING = b"POST /graphs/"
_HEAD_END = b"\r\n\r\n"
_LONGEST_HEAD = 4096
_MOST_HEADS = 4096
_UNUSUAL = frozenset({b"expect", b"upgrade", b"x-request-id"})
"""The headers of requests that are answered in another way, or are different each time."""

_Headers: TypeAlias = Iterable[tuple[bytes, bytes]]
_States: TypeAlias = dict[int, StateAtHand | None]


class AskingConnection(Protocol):
    """A connection, as those see it who answer its requests."""

    @property
    def client_host(self) -> str:
        """The address of the client."""

    @property
    def usual_headers(self) -> _Headers:
        """The headers that all responses have."""

    def answer(self, response: bytes) -> None:
        """Sends the response to the request that waits."""

    def parse(self, data: bytes) -> None:
        """Answers the request that waits in the usual way."""


class _KnownHead(NamedTuple):
    """What the line and the headers of a request say."""

    graph: str
    path: str
    kind: Plain
    actor: str | None
    about: str
    """The same, for the log."""
    holder: str | None
    """Whose budget it takes; None: that of the address of its client."""
    length: int
    """Of the body."""
    encodings: list[tuple[bytes, bytes]]
    """Its headers Accept-Encoding."""

    def exchange(self, request_id: str, client: str, began: float) -> Exchange:
        """One request that begins with this head."""
        return Exchange(
            request_id=request_id,
            method="POST",
            path=self.path,
            client=client,
            actor=self.actor,
            graph=self.graph,
            route=self.kind.route,
            began=began,
        )


class _Request(NamedTuple):
    """A request that waits for its answer."""

    connection: AskingConnection
    head: _KnownHead
    data: bytes
    began: float


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
        self._waiting: list[_Request] = []
        self._usual_headers: _Headers = ()
        self._usual_start = b""

    def take(self, connection: AskingConnection, data: bytes) -> bool:
        """Whether received bytes are one request with a known head, which is answered before the event loop waits."""
        if not data.startswith(_BEGINNING):
            return False
        end = data.find(_HEAD_END) + len(_HEAD_END)
        head = self._heads.get(sha256(data[:end]).digest())
        if head is None or head.length != len(data) - end:
            return False
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.answer_waiting)
        self._waiting.append(_Request(connection, head, data, time.monotonic()))
        return True

    def answer_waiting(self) -> None:
        """Answers all requests that wait. What they look at is looked at once, after the last of them was received."""
        waiting, self._waiting = self._waiting, []
        states: _States = {}
        for request in waiting:
            response = self._response(request, states)
            if response is None:
                request.connection.parse(request.data)
            else:
                request.connection.answer(response)

    def _response(self, request: _Request, states: _States) -> bytes | None:
        """The response to a request; None if it is not a short read, or is refused: its route has the errors."""
        connection, head, data, began = request
        server = self._state
        if self._tokens is not server.tokens or server.draining:
            return None
        client = connection.client_host
        graph = server.acting_graph(head.graph, head.actor)
        if graph is None or not server.admission.has_room(head.holder or holder_of(None, client)):
            return None
        session = graph._session
        shared = id(session.shared)
        if shared not in states:
            states[shared] = state_at_hand(session)
        state = states[shared]
        if state is None:
            return None
        request_id = new_request_id()
        try:
            stored = stored_query_in(head.path, head.kind)
            content = self._short_reads.answer(graph, state, data[-head.length :], stored)
        except Exception as error:
            return self._error(error, head.exchange(request_id, client, began), connection.usual_headers, head.length)
        if content is None:
            return None
        sent = len(content)
        if sent < LEAST_COMPRESSED:
            response = b"%scontent-length: %d\r\ncontent-type: application/json\r\nx-request-id: %s\r\n\r\n%s" % (
                self._start(connection.usual_headers),
                sent,
                request_id.encode(),
                content,
            )
        else:
            compressed = self._compress(content, head)
            if compressed is None:
                return None
            headers, content = compressed
            response = _response(200, [*connection.usual_headers, *headers], request_id, content)
            sent = len(content)
        self._report(request, request_id, client, sent)
        return response

    def _start(self, headers: _Headers) -> bytes:
        """The beginning of a usual response, which is the same for a second."""
        if headers is not self._usual_headers:
            self._usual_headers, self._usual_start = headers, STATUS_LINE[200] + _lines(headers)
        return self._usual_start

    def _compress(self, content: bytes, head: _KnownHead) -> tuple[_Headers, bytes] | None:
        """The headers and the body of an answer that may be compressed; None if this takes long, and needs a thread."""
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        response = self._compressed(Response(content, media_type=JSON))
        sending = cast(
            "Coroutine[Any, Any, None]",
            response({"type": "http", "headers": head.encodings}, receive_nothing, send),
        )
        try:
            sending.send(None)
        except StopIteration:
            start, body = sent
            return start["headers"], body["body"]
        sending.close()
        return None

    def _error(self, error: Exception, exchange: Exchange, headers: _Headers, received: int) -> bytes:
        failed = error_response(error, exchange, hidden=self._state.hidden)
        content = bytes(failed.body)
        exchange.status, exchange.sent_bytes = failed.status_code, len(content)
        report_request(self._state, exchange, received=received)
        return _response(failed.status_code, [*headers, *failed.raw_headers], exchange.request_id, content)

    def _report(self, request: _Request, request_id: str, client: str, sent: int) -> None:
        """Counts and logs a request that was answered: what `report_request` does, with what is known of its head."""
        head, began = request.head, request.began
        handler = json_log_handler()
        if handler is None or not _logger.isEnabledFor(logging.INFO):
            exchange = head.exchange(request_id, client, began)
            exchange.status, exchange.sent_bytes = 200, sent
            report_request(self._state, exchange, received=head.length)
            return
        seconds = time.monotonic() - began
        received = head.length
        self._state.metrics.requests.count(
            head.kind.route, "POST", 200, seconds=seconds, received=received, sent=sent, code=None
        )
        handler.add_line(
            request_line(request_id, head.about, client, status=200, seconds=seconds, received=received, sent=sent)
        )

    def learn(self, data: bytes, scope: Scope) -> None:
        """Remembers the head of a request that was received as a whole, as the parser and authentication read it."""
        end = data.find(_HEAD_END) + len(_HEAD_END)
        if not (data.startswith(_BEGINNING) and end <= _LONGEST_HEAD):
            return
        kind = plain_kind(scope)
        if kind not in (Plain.QUERY, Plain.CALL):
            return
        given: dict[bytes, bytes] = dict(scope["headers"])
        is_kept = given.get(b"connection", b"keep-alive").lower() == b"keep-alive" and scope["http_version"] == "1.1"
        length = int(given[b"content-length"])
        if not is_kept or _UNUSUAL & given.keys() or length != len(data) - end:
            return
        server = self._state
        if self._tokens is not server.tokens or len(self._heads) >= _MOST_HEADS:
            self._tokens = server.tokens
            self._heads.clear()
        try:
            actor = None if server.settings.unauthenticated else bearer_actor(server.tokens, scope)
        except Unauthenticated:
            return
        encodings = [each for each in scope["headers"] if each[0] == b"accept-encoding"]
        path = scope["path"]
        head = _KnownHead(graph_in(path, kind), path, kind, actor, "", None, length, encodings)
        about = request_about(head.exchange("", "", 0.0))
        holder = None if actor is None else holder_of(actor, "")
        self._heads[sha256(data[:end]).digest()] = head._replace(about=about, holder=holder)


def _response(status: int, headers: _Headers, request_id: str, content: bytes) -> bytes:
    lines = _lines([*headers, (b"x-request-id", request_id.encode())])
    return STATUS_LINE[status] + lines + b"\r\n" + content


def _lines(headers: _Headers) -> bytes:
    return b"".join([b"%s: %s\r\n" % each for each in headers])
