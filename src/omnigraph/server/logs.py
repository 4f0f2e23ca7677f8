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


def request_line(level: str, exchange: Exchange, *, seconds: float, received: int) -> str:
    """The line about a request that was answered: what `JsonLines` makes of its fields, in a fifth of the time."""
    actor = "null" if exchange.actor is None else _quoted(exchange.actor)
    graph = "null" if exchange.graph is None else _quoted(exchange.graph)
    code = "null" if exchange.code is None else _quoted(exchange.code)
    return (
        f'{{"time": "{_time_of(time.time())}", "level": "{level}", "logger": "{REQUESTS}", "message": "request", '
        f'"request_id": {_quoted(exchange.request_id)}, "actor": {actor}, "graph": {graph}, '
        f'"method": {_quoted(exchange.method)}, "path": {_quoted(exchange.path)}, "route": {_quoted(exchange.route)}, '
        f'"status": {exchange.status}, "code": {code}, "ms": {round(seconds * 1000, 2)}, "received": {received}, '
        f'"sent": {exchange.sent_bytes}, "client": {_quoted(exchange.client)}, '
        f'"cancelled": {"true" if exchange.cancellation.is_stopped else "false"}}}\n'
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
        """Writes a line before the event loop, which calls this, waits for anything."""
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
            # A log that cannot be written is no reason to refuse requests.
            with suppress(OSError, ValueError):
                self.stream.write("".join([self._waiting.popleft() for _ in range(len(self._waiting))]))
        finally:
            self.release()


def json_log_handler() -> JsonLogHandler | None:
    """The handler of `json_logs`, inside such a block."""
    handlers = logging.getLogger().handlers
    return handlers[0] if len(handlers) == 1 and isinstance(handlers[0], JsonLogHandler) else None


@contextmanager
def json_logs(level: int = logging.INFO) -> Iterator[None]:
    """Logs records of OmniGraph from this level, and warnings of other packages, to stderr as lines of JSON."""
    handler = JsonLogHandler(sys.stderr)
    root, ours = logging.getLogger(), logging.getLogger("omnigraph")
    before = root.handlers[:], root.level, ours.level
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    ours.setLevel(level)
    try:
        yield
    finally:
        handler.flush()
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        ours.setLevel(before[2])
