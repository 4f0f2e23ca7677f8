"""Locks between processes: what a lock is, whoever keeps it."""

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import quote, unquote

from omnigraph.errors import UsageError

LOCK_FOLDER = "__locks"

_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has a lock, for those who wait for it."""

    host: str
    pid: int
    purpose: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} ({self.purpose}, since {self.since})"


UNKNOWN_HOLDER = "a process that has not said its name"


class Taken(Exception):
    """The lock is another's, and stayed so for as long as we were told to wait."""

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


class Lock(Protocol):
    """A lock that is held."""

    def check(self) -> None:
        """Raises `FenceLost` when the lock may be another's by now."""

    def release(self) -> None:
        """Lets the next one have it."""


class Locks(Protocol):
    """The locks of one place."""

    @property
    def patience(self) -> float:
        """How many seconds it takes to know that a holder is dead."""

    def look(self, names: Iterable[str]) -> None:
        """Notes who has these locks, so that the time to wait for the dead among them begins for all at once."""

    def take(self, name: str, purpose: str, wait: float) -> Lock:
        """A lock; raises `Taken` when it is still another's after so many seconds."""


def this_holder(purpose: str) -> Holder:
    """This process, as others get to see it."""
    return Holder(socket.gethostname(), os.getpid(), purpose, datetime.now(UTC).isoformat(timespec="seconds"))


def lock_file(name: str) -> str:
    """The name of a lock's file or object."""
    return f"{LOCK_FOLDER}/{quote(name, safe='')}"


def lock_name(file: str) -> str:
    """The lock that a file or object is of."""
    return unquote(file.rpartition("/")[2])


def count_setting(variable: str, default: int) -> int:
    """A number of things, at least one, that the environment may set."""
    text = os.environ.get(variable, str(default))
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text)):
        raise UsageError(f"{variable} is a number above zero, not {text!r}")
    return int(text)


def seconds_setting(variable: str, default: float, least: float = 0.0) -> float:
    """A time in seconds that the environment may set."""
    text = os.environ.get(variable, str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not least <= seconds < float("inf"):
        raise UsageError(f"{variable} is a number of seconds, at least {least:g}, not {text!r}")
    return seconds
