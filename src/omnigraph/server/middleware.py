"""The outermost middleware: request ids, authentication and admission, errors, metrics and the request log."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from random import Random
from typing import Any, cast

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnigraph.errors import OmnigraphError, RecoveryRequired, Unavailable
from omnigraph.server.admission import holder_of
from omnigraph.server.auth import bearer_actor
from omnigraph.server.bodies import RequestBody
from omnigraph.server.errors import TooSlow, error_response, note_failure
from omnigraph.server.exchange import Exchange, attach_exchange
from omnigraph.server.logs import REQUESTS, json_log_handler, request_about, request_line
from omnigraph.server.metrics import UNKNOWN_ROUTE
from omnigraph.server.plain_mutations import run_mutation
from omnigraph.server.plain_requests import Plain, graph_in, plain_kind, receive_nothing, replay, stored_query_in
from omnigraph.server.responses import JSON, LEAST_COMPRESSED
from omnigraph.server.short_reads import ShortReads
from omnigraph.server.state import ServerState
from omnigraph.server.waiting import await_in_time
from omnigraph.verbs.query import state_at_hand

_logger = logging.getLogger(REQUESTS)
_random = Random()  # noqa: S311 - ids are not secret: the actor decides who may see a request
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LONGEST_PATH = 512
_PIECE = 64 * 1024
_OPEN_PATHS = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""The paths that need no token."""
_REQUESTS = "/requests"
"""Lists and cancels requests in flight. It needs no admission, so that an actor at its limit can make room."""
ABORT = "omnigraph.abort"
"""The extension of a scope that closes its connection at once."""


def new_request_id() -> str:
    """An id for a request that has none."""
    return f"{_random.getrandbits(96):024x}"


class RequestMiddleware:
    """The outermost layer of the application. It answers every error that comes this far."""

    def __init__(
        self, app: ASGIApp, state: ServerState, short_reads: ShortReads, compressed: Callable[[ASGIApp], ASGIApp]
    ) -> None:
        self._app = app
        self._state = state
        self._short_reads = short_reads
        self._compressed = compressed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            exchange = self._begin(scope)
            try:
                await self._answer(exchange, scope, receive, send)
            finally:
                self._end(exchange, scope)

    def _begin(self, scope: Scope) -> Exchange:
        client = scope.get("client")
        exchange = Exchange(
            request_id=self._request_id(scope),
            method=scope["method"],
            path=scope["path"][:_LONGEST_PATH],
            client=client[0] if client else "",
        )
        attach_exchange(scope, exchange)
        self._state.in_flight[exchange.request_id] = exchange
        self._state.metrics.requests.in_flight += 1
        return exchange

    def _request_id(self, scope: Scope) -> str:
        """The id that the client sent, if it is valid and no other request in flight has it; otherwise a new one."""
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                given: str = value.decode("ascii")
                if given not in self._state.in_flight:
                    return given
        return new_request_id()

    async def _answer(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._state.settings
        try:
            exchange.body = RequestBody(scope, receive, limit=settings.max_body_bytes, timeout=settings.client_timeout)
            self._admit(exchange, scope)
            receive_body: Receive = exchange.body.receive
            kind = plain_kind(scope)
            if kind is not None:
                messages = [await receive_body()]
                while messages[-1].get("more_body"):
                    messages.append(await receive_body())
                content = await self._plain_answer(kind, exchange, scope, messages, receive_body)
                if content is not None:
                    await self._send_plain(exchange, content, scope, send)
                    return
                receive_body = replay(messages, receive_body)
            await self._app(scope, receive_body, self._sending(exchange, send))
            return
        except asyncio.CancelledError:
            if not self._state.draining:
                raise
            failure: Exception = Unavailable("the server stopped; check the commits to see whether a write was made")
        except Exception as error:
            failure = _cause(error) if exchange.status else error
        if exchange.status:
            note_failure(failure, exchange)
            await _abort(scope)
        else:
            await error_response(failure, exchange, hidden=self._state.hidden)(
                scope, receive, self._sending(exchange, send)
            )

    async def _plain_answer(
        self, kind: Plain, exchange: Exchange, scope: Scope, messages: list[Message], receive: Receive
    ) -> bytes | None:
        """The answer to a mutation or short read, whose whole body is in messages; None if its route must answer."""
        if messages[-1]["type"] != "http.request":
            return None
        body: bytes = messages[0]["body"] if len(messages) == 1 else b"".join(each["body"] for each in messages)
        id = graph_in(scope["path"], kind)
        graph = self._state.acting_graph(id, exchange.actor)
        if graph is None:
            return None
        exchange.graph, exchange.route = id, kind.route
        exchange.cancellation.check()
        if kind is Plain.MUTATION:
            try:
                return await run_mutation(self._state, exchange, graph, body=body, receive=receive)
            except RecoveryRequired:
                self._state.recover(id)
                raise
        state = state_at_hand(graph._session)
        if state is None:
            return None
        return self._short_reads.answer(graph, state, body, stored_query_in(scope["path"], kind))

    async def _send_plain(self, exchange: Exchange, content: bytes, scope: Scope, send: Send) -> None:
        if len(content) >= LEAST_COMPRESSED:
            response = self._compressed(Response(content, media_type=JSON))
            await response(scope, receive_nothing, self._sending(exchange, send))
            return
        length = str(len(content)).encode("ascii")
        headers = self._headers(exchange, ((b"content-length", length), (b"content-type", b"application/json")))
        exchange.status, exchange.sent_bytes = 200, len(content)
        await self._send_in_time(send, {"type": "http.response.start", "status": 200, "headers": headers})
        await self._send_in_time(send, {"type": "http.response.body", "body": content, "more_body": False})

    async def _send_in_time(self, send: Send, message: Message) -> None:
        timeout = self._state.settings.client_timeout
        try:
            await await_in_time(cast("Coroutine[Any, Any, None]", send(message)), timeout)
        except TimeoutError:
            raise TooSlow(f"the client did not read for {timeout:g} s") from None

    def _admit(self, exchange: Exchange, scope: Scope) -> None:
        """Sets the actor and the ticket of a request; raises `Unauthenticated`, `Unavailable` or `TooBusy`."""
        if scope["path"] in _OPEN_PATHS:
            return
        if not self._state.settings.unauthenticated:
            exchange.actor = bearer_actor(self._state.tokens, scope)
        if scope["path"] == _REQUESTS or scope["path"].startswith(f"{_REQUESTS}/"):
            return
        if self._state.draining:
            raise Unavailable("the server is shutting down")
        exchange.ticket = self._state.admission.admit(holder_of(exchange.actor, exchange.client))
        if exchange.body is not None:
            exchange.body.ticket = exchange.ticket

    def _sending(self, exchange: Exchange, send: Send) -> Send:
        """Sends with the id of the request, in pieces: each has the time limit, and one is in memory."""
        send_in_time = partial(self._send_in_time, send)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"] = self._headers(exchange, message.get("headers", ()))
                await send_in_time(message)
                return
            body, more = message.get("body", b""), message.get("more_body", False)
            exchange.sent_bytes += len(body)
            while len(body) > _PIECE:
                await send_in_time({"type": "http.response.body", "body": body[:_PIECE], "more_body": True})
                body = memoryview(body)[_PIECE:]
            await send_in_time({"type": "http.response.body", "body": bytes(body), "more_body": more})

        return sending

    def _headers(self, exchange: Exchange, given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        headers = [*given, (b"x-request-id", exchange.request_id.encode("ascii"))]
        if self._state.draining and (b"connection", b"close") not in headers:
            headers.append((b"connection", b"close"))
        return headers

    def _end(self, exchange: Exchange, scope: Scope) -> None:
        state = self._state
        if exchange.ticket is not None:
            exchange.ticket.release()
        state.in_flight.pop(exchange.request_id, None)
        state.metrics.requests.in_flight -= 1
        exchange.route = exchange.route or str(getattr(scope.get("route"), "path", UNKNOWN_ROUTE))
        report_request(state, exchange, received=exchange.body.received if exchange.body is not None else 0)


def _cause(error: Exception) -> Exception:
    """The error that was raised after the response started; Starlette wraps errors that it has a handler for."""
    cause = error.__cause__
    return cause if isinstance(error, RuntimeError) and isinstance(cause, Exception) else error


async def _abort(scope: Scope) -> None:
    """Closes the connection without the end of the response."""
    abort = scope.get("extensions", {}).get(ABORT)
    if abort is not None:
        abort()
        await asyncio.sleep(0)  # lets uvicorn notice it, before it reports an incomplete response


def report_request(state: ServerState, exchange: Exchange, *, received: int) -> None:
    """Counts and logs a request that was answered."""
    seconds = time.monotonic() - exchange.began
    counts = state.metrics.requests
    counts.count(
        exchange.route,
        exchange.method,
        exchange.status,
        seconds=seconds,
        received=received,
        sent=exchange.sent_bytes,
        code=exchange.code,
    )
    if exchange.cancellation.is_stopped:
        counts.cancelled += 1
    _log(exchange, seconds=seconds, received=received)


def _log(exchange: Exchange, *, seconds: float, received: int) -> None:
    """Logs one line for each request, with the traceback of an error that the client is not given."""
    failure = exchange.failure
    level = logging.INFO
    if failure is not None:
        level = logging.WARNING if isinstance(failure, OmnigraphError) else logging.ERROR
    elif exchange.path in _OPEN_PATHS:
        level = logging.DEBUG
    if not _logger.isEnabledFor(level):
        return
    handler = json_log_handler()
    if handler is not None and failure is None:
        line = request_line(
            exchange.request_id,
            request_about(exchange),
            exchange.client,
            level="info" if level == logging.INFO else "debug",
            status=exchange.status,
            code=exchange.code,
            seconds=seconds,
            received=received,
            sent=exchange.sent_bytes,
            cancelled=exchange.cancellation.is_stopped,
        )
        handler.add_line(line)
        return
    fields = {
        "request_id": exchange.request_id,
        "actor": exchange.actor,
        "graph": exchange.graph,
        "method": exchange.method,
        "path": exchange.path,
        "route": exchange.route,
        "status": exchange.status,
        "code": exchange.code,
        "ms": round(seconds * 1000, 2),
        "received": received,
        "sent": exchange.sent_bytes,
        "client": exchange.client,
        "cancelled": exchange.cancellation.is_stopped,
    }
    _logger.log(level, "request", extra=fields, exc_info=failure)
