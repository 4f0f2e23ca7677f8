"""What every request passes first: it gets an id, is let in or not, is counted, and leaves a line in the log."""

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnigraph.errors import OmnigraphError, Unavailable
from omnigraph.server.bodies import Body
from omnigraph.server.entering import OPEN_PATHS, enter
from omnigraph.server.exchange import Exchange, bind
from omnigraph.server.hosting import Hosting
from omnigraph.server.metrics import UNKNOWN_ROUTE
from omnigraph.server.problems import TooSlow, answer_to, note_failure

_logger = logging.getLogger("omnigraph.server")
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_LONGEST_PATH = 512
_PIECE = 64 * 1024
ABORT = "omnigraph.abort"
"""The extension of a scope that ends its connection at once."""


class Observing:
    """The outermost layer of the application. No error gets past it, and none is told of in two ways."""

    def __init__(self, app: ASGIApp, hosting: Hosting) -> None:
        self._app = app
        self._hosting = hosting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            exchange = self._begun(scope)
            try:
                await self._answer(exchange, scope, receive, send)
            finally:
                self._end(exchange, scope)

    def _begun(self, scope: Scope) -> Exchange:
        client = scope.get("client")
        exchange = Exchange(
            request_id=self._request_id(scope),
            method=scope["method"],
            path=scope["path"][:_LONGEST_PATH],
            client=client[0] if client else "",
        )
        bind(scope, exchange)
        self._hosting.in_flight[exchange.request_id] = exchange
        self._hosting.metrics.in_flight.inc()
        return exchange

    def _request_id(self, scope: Scope) -> str:
        """The id that the client gave, if it is one, and no other request in flight has it; else a new one."""
        for name, value in scope["headers"]:
            if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
                given: str = value.decode("ascii")
                if given not in self._hosting.in_flight:
                    return given
        return secrets.token_hex(12)

    async def _answer(self, exchange: Exchange, scope: Scope, receive: Receive, send: Send) -> None:
        settings = self._hosting.settings
        sending = self._sending(exchange, send)
        try:
            exchange.body = Body(scope, receive, limit=settings.max_body_bytes, timeout=settings.client_timeout)
            enter(self._hosting, exchange, scope)
            await self._app(scope, exchange.body.receive, sending)
            return
        except asyncio.CancelledError:
            if not self._hosting.draining:
                raise
            failure: Exception = Unavailable("the server had to stop; only the history tells whether a write was made")
        except Exception as error:
            failure = _cause(error) if exchange.status else error
        if exchange.status:
            note_failure(failure, exchange)
            await _abort(scope)
        else:
            await answer_to(failure, exchange, hidden=self._hosting.hidden)(scope, receive, sending)

    def _sending(self, exchange: Exchange, send: Send) -> Send:
        """Sends with the id of the request, and in pieces, so that a client has time for each and holds but one."""
        timeout = self._hosting.settings.client_timeout

        async def sent(message: Message) -> None:
            try:
                async with asyncio.timeout(timeout):
                    await send(message)
            except TimeoutError:
                raise TooSlow(f"the client read nothing for {timeout:g} s") from None

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                message["headers"] = self._headers(exchange, message.get("headers", ()))
                await sent(message)
                return
            body, more = message.get("body", b""), message.get("more_body", False)
            exchange.sent_bytes += len(body)
            while len(body) > _PIECE:
                await sent({"type": "http.response.body", "body": body[:_PIECE], "more_body": True})
                body = memoryview(body)[_PIECE:]
            await sent({"type": "http.response.body", "body": bytes(body), "more_body": more})

        return sending

    def _headers(self, exchange: Exchange, given: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        headers = [*given, (b"x-request-id", exchange.request_id.encode("ascii"))]
        if self._hosting.draining and (b"connection", b"close") not in headers:
            headers.append((b"connection", b"close"))
        return headers

    def _end(self, exchange: Exchange, scope: Scope) -> None:
        hosting = self._hosting
        if exchange.ticket is not None:
            exchange.ticket.release()
        hosting.in_flight.pop(exchange.request_id, None)
        hosting.metrics.in_flight.dec()
        seconds = time.monotonic() - exchange.began
        route = getattr(scope.get("route"), "path", UNKNOWN_ROUTE)
        received = exchange.body.received if exchange.body is not None else 0
        hosting.metrics.answered(
            route,
            exchange.method,
            exchange.status,
            seconds=seconds,
            received=received,
            sent=exchange.sent_bytes,
            code=exchange.code,
        )
        if exchange.cancellation.is_stopped:
            hosting.metrics.cancelled.inc()
        _log(exchange, route, seconds=seconds, received=received)


def _cause(error: Exception) -> Exception:
    """What was raised after the answer had begun; Starlette says of what it knows to answer that it is too late."""
    cause = error.__cause__
    return cause if isinstance(error, RuntimeError) and isinstance(cause, Exception) else error


async def _abort(scope: Scope) -> None:
    """Ends the connection without the end of the answer."""
    abort = scope.get("extensions", {}).get(ABORT)
    if abort is not None:
        abort()
        await asyncio.sleep(0)  # Uvicorn hears of it, or it would complain that the answer has no end


def _log(exchange: Exchange, route: str, *, seconds: float, received: int) -> None:
    """One line a request. What failed in a way that the client is not told is told here, with its traceback."""
    level = logging.INFO
    if exchange.failure is not None:
        level = logging.WARNING if isinstance(exchange.failure, OmnigraphError) else logging.ERROR
    elif exchange.path in OPEN_PATHS:
        level = logging.DEBUG
    if not _logger.isEnabledFor(level):
        return
    fields = {
        "request_id": exchange.request_id,
        "actor": exchange.actor,
        "graph": exchange.graph,
        "method": exchange.method,
        "path": exchange.path,
        "route": route,
        "status": exchange.status,
        "code": exchange.code,
        "ms": round(seconds * 1000, 2),
        "received": received,
        "sent": exchange.sent_bytes,
        "client": exchange.client,
        "cancelled": exchange.cancellation.is_stopped,
    }
    _logger.log(level, "request", extra=fields, exc_info=exchange.failure)
