"""Logs as lines of JSON on stderr, one event a line."""

import asyncio
import json
import logging
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any, TextIO

from omnigraph.server.exchange import Exchange

REQUESTS = "omnigraph.server"
"""The name of the logger of requests."""

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


_ENCODER = json.JSONEncoder(default=str)


class JsonLines(logging.Formatter):
    """Formats a record, with its `extra` fields, as one line of JSON.

    JSON escapes the texts of clients, so they can neither end a line nor control a terminal.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "time": _time_of(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _USUAL}
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = self.formatException(record.exc_info)
        return _ENCODER.encode(line)


def _time_of(seconds: float) -> str:
    """An instant with milliseconds. The part that is the same for a whole second is made once."""
    whole, millis = divmod(int(seconds * 1000), 1000)
    return f"{_second(whole)}.{millis:03d}+00:00"


@lru_cache(2)
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def request_about(exchange: Exchange) -> str:
    """The middle of a line about a request: what requests of a client to a route have in common."""
    actor = "null" if exchange.actor is None else _quoted(exchange.actor)
    graph = "null" if exchange.graph is None else _quoted(exchange.graph)
    return (
        f'"actor": {actor}, "graph": {graph}, "method": {_quoted(exchange.method)}, "path": {_quoted(exchange.path)}, '
        f'"route": {_quoted(exchange.route)}'
    )


def request_line(
    request_id: str,
    about: str,
    client: str,
    *,
    status: int,
    seconds: float,
    received: int,
    sent: int,
    level: str = "info",
    code: str | None = None,
    cancelled: bool = False,
) -> str:
    """The line about a request that was answered, without its beginning, which has the time.

    It is what `JsonLines` makes of the same fields, in a fifth of the time.
    """
    return (
        f'"level": "{level}", "logger": "{REQUESTS}", "message": "request", '
        f'"request_id": {_quoted(request_id)}, {about}, "status": {status}, '
        f'"code": {"null" if code is None else _quoted(code)}, "ms": {round(seconds * 1000, 2)}, '
        f'"received": {received}, "sent": {sent}, "client": {_quoted(client)}, '
        f'"cancelled": {"true" if cancelled else "false"}}}\n'
    )


class JsonLogHandler(logging.StreamHandler[TextIO]):
    """Writes records as lines of JSON, and lines that need no record: to make one takes longer than a short read.

    The lines about all requests that the event loop answers in one turn are written with one call into the system.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(JsonLines())
        self._waiting: deque[str] = deque()

    def add_line(self, line: str) -> None:
        """Writes a line, with the time, before the event loop, which calls this, waits for anything."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(line)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record, after the lines that wait."""
        self._write_waiting()
        super().emit(record)

    def flush(self) -> None:
        """Writes the lines that wait."""
        self._write_waiting()
        super().flush()

    def _write_waiting(self) -> None:
        self.acquire()
        try:
            if self._waiting:
                start = f'{{"time": "{_time_of(time.time())}", '
                lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
                # Requests are answered even if the log cannot be written.
                with suppress(OSError, ValueError):
                    self.stream.write(start + start.join(lines))
        finally:
            self.release()


class _Installed:
    """What `json_logs` has installed."""

    handler: JsonLogHandler | None = None


def json_log_handler() -> JsonLogHandler | None:
    """The handler of `json_logs`, inside such a block."""
    return _Installed.handler


@contextmanager
def json_logs(level: int = logging.INFO) -> Iterator[None]:
    """Logs records of OmniGraph from this level, and warnings of other packages, to stderr as lines of JSON."""
    handler = JsonLogHandler(sys.stderr)
    root, ours = logging.getLogger(), logging.getLogger("omnigraph")
    before = root.handlers[:], root.level, ours.level
    root.handlers[:] = [handler]
    _Installed.handler = handler
    root.setLevel(logging.WARNING)
    ours.setLevel(level)
    try:
        yield
    finally:
        handler.flush()
        _Installed.handler = None
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        ours.setLevel(before[2])
