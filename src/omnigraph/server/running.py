"""Runs the server: binds, says where, answers until it is told to stop, and stops without breaking anything off."""

import asyncio
import json
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import uvicorn
from prometheus_client import disable_created_metrics
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from omnigraph.errors import OmnigraphError, Unavailable
from omnigraph.parts.choice import OFF, SPARK_SWITCH
from omnigraph.server.app import app_of, policy_for
from omnigraph.server.hosting import Hosting
from omnigraph.server.logs import json_logs
from omnigraph.server.observing import ABORT
from omnigraph.server.problems import RETRY_AFTER
from omnigraph.server.scratch import remove_left_over
from omnigraph.server.settings import Settings
from omnigraph.server.tokens import tokens_of_environment

_logger = logging.getLogger("omnigraph.server")

_KEEP_ALIVE_SECONDS = 75
"""Longer than proxies keep connections, so that it is they who end them."""
_HEADER_SECONDS = 30
_LONGEST_HEAD = 64 * 1024
"""Of the headers of a request, or of what else stands around its body, which nobody else counts."""
_MOST_HEADERS = 200
_CANCELLED_SECONDS = 5
"""How long a query has to end after it was cancelled."""
_TICK = 0.05


def serve(settings: Settings) -> None:
    """Serves until SIGTERM or SIGINT. The first line on stdout says where; SIGHUP reads tokens and policy again."""
    disable_created_metrics()  # type: ignore[no-untyped-call]
    remove_left_over()
    with nullcontext() if settings.spark else _spark_off(), json_logs():
        app = app_of(settings)
        if settings.unauthenticated:
            _logger.warning("nobody is asked for a token: who reaches this server may use it")
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
        )
        _Server(config, app.state.hosting).run([_bound(settings)])
        _end(app.state.hosting)


@contextmanager
def _spark_off() -> Iterator[None]:
    """No request of a client starts Spark while this is entered."""
    before = os.environ.get(SPARK_SWITCH)
    os.environ[SPARK_SWITCH] = OFF
    try:
        yield
    finally:
        del os.environ[SPARK_SWITCH]
        if before is not None:
            os.environ[SPARK_SWITCH] = before


def _bound(settings: Settings) -> socket.socket:
    try:
        [(family, *_), *_] = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise Unavailable(f"the server cannot listen at {where}: {error.strerror}") from error


def _end(hosting: Hosting) -> None:
    """Ends the process. Writes that are still at work are left to recovery, as if they had been killed."""
    hosting.shutdown()
    if left := len(hosting.working):
        _logger.warning("stopped in the middle of work, which recovery will settle", extra={"left": left})
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)
    _logger.info("stopped")


class _Protocol(HttpToolsProtocol):
    """Uvicorn's reader of requests, which also ends connections at once, and those whose headers do not end."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.without_body = 0
        self.on_late = self.loop.call_later(_HEADER_SECONDS, self.transport.abort)
        if len(self.connections) > _most_connections():
            self._refuse("503 Service Unavailable", "the server has as many connections as it takes", Unavailable.code)

    def connection_lost(self, exc: Exception | None) -> None:
        self.on_late.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.without_body += len(data)
        super().data_received(data)
        if self.without_body > _LONGEST_HEAD and not self.transport.is_closing():
            self._refuse("431 Request Header Fields Too Large", "the headers of the request are too long")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.without_body = 0
        self.on_late.cancel()
        self.on_late = self.loop.call_later(_HEADER_SECONDS, self.transport.abort)
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope["extensions"] = {ABORT: self.transport.abort}

    def on_headers_complete(self) -> None:
        self.on_late.cancel()
        self.without_body = 0
        super().on_headers_complete()
        # What comes after the body in the form of headers is none: it has not passed where headers are looked at.
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > _MOST_HEADERS:
            raise ValueError("too many headers")

    def on_body(self, body: bytes) -> None:
        self.without_body = 0
        super().on_body(body)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - it is Uvicorn's
        """Answers what is not HTTP."""
        self._refuse("400 Bad Request", "the request is not HTTP")

    def _refuse(self, status: str, problem: str, code: str = "bad_request") -> None:
        body = json.dumps({"error": problem, "code": code, "request_id": ""})
        headers = f"content-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}"
        if code == Unavailable.code:
            headers += f"\r\nretry-after: {RETRY_AFTER}"
        self.transport.write(f"HTTP/1.1 {status}\r\n{headers}\r\n\r\n{body}".encode())
        self.transport.close()


def _most_connections() -> int:
    """Half of what the process may have open: the rest is for the files of graphs."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2


class _Server(uvicorn.Server):
    """Uvicorn's server, which stops in another way: it refuses what is new until what is in flight is done."""

    def __init__(self, config: uvicorn.Config, hosting: Hosting) -> None:
        super().__init__(config)
        self._hosting = hosting
        self._stopping: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        assert sockets
        host, port = sockets[0].getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={address}\n")
        sys.stdout.flush()
        _logger.info("serving", extra={"address": address, "graphs": sorted(self._hosting.graphs)})

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handlers = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop, signal.SIGHUP: self._read_again}
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        try:
            yield
        finally:
            for number in handlers:
                loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if self._stopping is None:
            self._hosting.draining = True
            self._stopping = asyncio.get_running_loop().create_task(self._stop_when_done())
        else:  # told twice: whoever waits in front of it has no more patience
            self._hosting.cancel_all()
            self.should_exit = self.force_exit = True

    async def _stop_when_done(self) -> None:
        hosting, grace = self._hosting, self._hosting.settings.grace_seconds
        _logger.info("stopping", extra={"in_flight": len(hosting.in_flight), "grace_seconds": grace})
        await self._idle(grace)
        if hosting.in_flight:
            _logger.warning("grace is over, queries are cancelled", extra={"in_flight": hosting.cancel_all()})
            await self._idle(_CANCELLED_SECONDS)
        self.should_exit = True

    async def _idle(self, seconds: float) -> None:
        """Until nothing is in flight, but no longer than this."""
        until = time.monotonic() + seconds
        while self._hosting.in_flight and time.monotonic() < until:
            await asyncio.sleep(_TICK)

    def _read_again(self) -> None:
        self._read_tokens()
        self._read_policy()

    def _read_policy(self) -> None:
        try:
            policy = policy_for(self._hosting.settings)
        except OmnigraphError as error:
            _logger.error("the policy stays as it is: %s", error)
            return
        if policy is not None:
            self._hosting.obey(policy)
            _logger.info("the policy was read")

    def _read_tokens(self) -> None:
        if self._hosting.settings.unauthenticated:
            return
        try:
            tokens = tokens_of_environment()
        except OmnigraphError as error:
            _logger.error("the tokens stay as they are: %s", error)
            return
        if tokens.is_empty:
            _logger.error("the tokens stay as they are: there are none any more")
            return
        self._hosting.tokens = tokens
        _logger.info("tokens were read", extra={"tokens": len(tokens.digests)})
