"""Runs the server: binds, prints the address, serves until a signal, and shuts down gracefully."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext

import uvicorn
from fastapi import FastAPI

from omnigraph.errors import OmnigraphError, Unavailable
from omnigraph.parts.choice import OFF, SPARK_SWITCH
from omnigraph.server.app import load_policy, make_app
from omnigraph.server.auth import environment_tokens
from omnigraph.server.logs import json_logs
from omnigraph.server.protocol import Protocol
from omnigraph.server.scratch import remove_left_over
from omnigraph.server.settings import ServerSettings
from omnigraph.server.state import ServerState

_logger = logging.getLogger("omnigraph.server")

_KEEP_ALIVE_SECONDS = 75
"""Longer than the idle timeouts of proxies, so that they close idle connections first."""
_CANCELLED_SECONDS = 5
"""The time that cancelled queries have to end."""
_TICK = 0.05


def serve(settings: ServerSettings) -> None:
    """Serves until SIGTERM or SIGINT. The first line on stdout has the address; SIGHUP reloads tokens and policy."""
    remove_left_over()
    with nullcontext() if settings.spark else _spark_off(), json_logs():
        lifecycle = _Lifecycle()
        app = make_app(settings, lifecycle.run)
        if settings.unauthenticated:
            _logger.warning("authentication is off: everybody who reaches this server may use it")
        config = uvicorn.Config(
            app,
            http=Protocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=1,
        )
        listening = _bind(settings)
        # What is there now stays. Looking through it for garbage again and again takes longer than short reads do.
        gc.collect()
        gc.freeze()
        lifecycle.serve(config, listening)
        _end(app.state.server)


@contextmanager
def _spark_off() -> Iterator[None]:
    """Prevents requests from starting Spark while the block runs."""
    before = os.environ.get(SPARK_SWITCH)
    os.environ[SPARK_SWITCH] = OFF
    try:
        yield
    finally:
        del os.environ[SPARK_SWITCH]
        if before is not None:
            os.environ[SPARK_SWITCH] = before


def _bind(settings: ServerSettings) -> socket.socket:
    try:
        [(family, *_), *_] = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise Unavailable(f"the server cannot listen at {where}: {error.strerror}") from error


def _end(state: ServerState) -> None:
    """Ends the process. Writes that are still running are left to recovery, as after a kill."""
    state.shutdown()
    if left := len(state.working):
        _logger.warning("stopped with work in progress, which recovery will complete or undo", extra={"left": left})
        logging.shutdown()
        sys.stdout.flush()
        os._exit(0)
    _logger.info("stopped")


class _Lifecycle:
    """Starts and stops a server: while it stops, it refuses new requests and waits for those in flight."""

    _server: uvicorn.Server
    _listening: socket.socket
    _state: ServerState
    _stopping: asyncio.Task[None] | None = None

    def serve(self, config: uvicorn.Config, listening: socket.socket) -> None:
        """Serves until a signal stops it."""
        self._server, self._listening = uvicorn.Server(config), listening
        self._server.run([listening])

    @asynccontextmanager
    async def run(self, app: FastAPI) -> AsyncIterator[None]:
        """The lifespan of the application. Its signal handlers replace those that uvicorn has installed before."""
        self._state = app.state.server
        loop = asyncio.get_running_loop()
        handlers = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop, signal.SIGHUP: self._reload}
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        host, port = self._listening.getsockname()[:2]
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        sys.stdout.write(f"OMNIGRAPH_LISTEN_ADDR={address}\n")
        sys.stdout.flush()
        _logger.info("serving", extra={"address": address, "graphs": sorted(self._state.graphs)})
        yield
        for number in handlers:
            loop.remove_signal_handler(number)

    def _stop(self) -> None:
        if self._stopping is None:
            self._state.draining = True
            self._stopping = asyncio.get_running_loop().create_task(self._stop_when_done())
        else:  # the second signal stops at once
            self._state.cancel_all()
            self._server.should_exit = self._server.force_exit = True

    async def _stop_when_done(self) -> None:
        state, grace = self._state, self._state.settings.grace_seconds
        _logger.info("stopping", extra={"in_flight": len(state.in_flight), "grace_seconds": grace})
        await self._wait_until_idle(grace)
        if state.in_flight:
            _logger.warning("the grace period is over; cancelling queries", extra={"in_flight": state.cancel_all()})
            await self._wait_until_idle(_CANCELLED_SECONDS)
        self._server.should_exit = True

    async def _wait_until_idle(self, seconds: float) -> None:
        """Waits until no request is in flight, at most this long."""
        until = time.monotonic() + seconds
        while self._state.in_flight and time.monotonic() < until:
            await asyncio.sleep(_TICK)

    def _reload(self) -> None:
        self._read_tokens()
        self._read_policy()

    def _read_policy(self) -> None:
        try:
            policy = load_policy(self._state.settings)
        except OmnigraphError as error:
            _logger.error("the policy was not reloaded: %s", error)
            return
        if policy is not None:
            self._state.apply_policy(policy)
            _logger.info("the policy was reloaded")

    def _read_tokens(self) -> None:
        if self._state.settings.unauthenticated:
            return
        try:
            tokens = environment_tokens()
        except OmnigraphError as error:
            _logger.error("the tokens were not reloaded: %s", error)
            return
        if tokens.is_empty:
            _logger.error("the tokens were not reloaded: there are none")
            return
        self._state.tokens = tokens
        _logger.info("the tokens were reloaded", extra={"tokens": len(tokens.digests)})
