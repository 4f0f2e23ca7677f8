"""Logs as lines of JSON on stderr, one event a line."""

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

_USUAL = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


FIELDS = "omnigraph_fields"
"""The attribute of a record that has its fields together, which is quicker than to tell them from those of logging."""

_UNUSED = ("logThreads", "logProcesses", "logMultiprocessing")
"""The switches of logging for what no line shows, and what takes time to find for each record."""

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
        fields = getattr(record, FIELDS, None)
        line |= fields or {name: value for name, value in vars(record).items() if name not in _USUAL}
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


@contextmanager
def json_logs(level: int = logging.INFO) -> Iterator[None]:
    """Logs records of OmniGraph from this level, and warnings of other packages, to stderr as lines of JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root, ours = logging.getLogger(), logging.getLogger("omnigraph")
    before = root.handlers[:], root.level, ours.level
    unused = {name: getattr(logging, name) for name in _UNUSED}
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    ours.setLevel(level)
    vars(logging).update(dict.fromkeys(_UNUSED, False))
    try:
        yield
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        ours.setLevel(before[2])
        vars(logging).update(unused)
