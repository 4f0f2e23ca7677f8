"""Stops a query early: when it is cancelled, when its time is up, or when it holds too much memory.

A query asks `Cancellation.check` wherever it can stop, which is between steps, levels of a walk and batches of a scan.
Work that runs for long without a check, like a statement of DuckDB, is watched: its caller gives a callback that
interrupts it.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import QueryCancelled, QueryExceedsMemory, QueryTimedOut, UsageError

_logger = logging.getLogger(__name__)

# An interrupt that comes before the work that it is meant for has begun is lost, so it is repeated until the work ends.
_REPEATED_AFTER = 0.05
_CHECKED_ITEMS = 1024
_Item = TypeVar("_Item")


class Cancellation:
    """Whether a query must stop. Any thread may ask, and any may cancel it.

    With a `timeout`, it stops that number of seconds after it was created, and with `max_bytes`, when the rows that the
    query holds in memory, its result included, are more than that. `count` is called with these bytes, and stops the
    query by raising an error. Whatever stops `parent` stops it too.
    """

    def __init__(
        self,
        timeout: float | None = None,
        *,
        parent: "Cancellation | None" = None,
        max_bytes: int | None = None,
        count: Callable[[int], object] | None = None,
    ) -> None:
        if timeout is not None and not timeout > 0:
            raise UsageError(f"invalid timeout {timeout!r}: expected a number of seconds above 0")
        if max_bytes is not None and not max_bytes > 0:
            raise UsageError(f"invalid max_bytes {max_bytes!r}: expected a number above 0")
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._parent = parent if parent is not NEVER else None
        self._cancelled = False
        self._max_bytes = max_bytes
        self._held_bytes = 0
        self._report_bytes = count

    @property
    def deadline(self) -> float | None:
        """When it stops by itself, in the time of `time.monotonic`."""
        given = (self._deadline, self._parent.deadline if self._parent is not None else None)
        return min((each for each in given if each is not None), default=None)

    @property
    def max_bytes(self) -> int | None:
        """The limit of bytes that the query may hold, if there is one."""
        given = (self._max_bytes, self._parent.max_bytes if self._parent is not None else None)
        return min((each for each in given if each is not None), default=None)

    @property
    def is_stopped(self) -> bool:
        """Whether the query must stop."""
        return self._reason() is not None

    def cancel(self) -> None:
        """Stops the query: `QueryCancelled` is raised where it runs, unless it has ended before."""
        self._cancelled = True
        _CLOCK.wake()

    def check(self) -> None:
        """Raises `QueryCancelled` or `QueryTimedOut` when the query must stop."""
        reason = self._reason()
        if reason is not None:
            raise reason

    def hold(self, size: int) -> None:
        """Counts bytes that the query has read or made; raises `QueryExceedsMemory` for too many, or like `check`.

        Only the thread of the query calls it. Memory that is freed stays counted.
        """
        self.check()
        self._count(size)

    @property
    def held_bytes(self) -> int:
        """The bytes that are counted now."""
        return self._held_bytes

    def release_to(self, held_bytes: int) -> None:
        """Takes back what was counted since then: for work that was given up and is done in another way."""
        size = self._held_bytes - held_bytes
        if size:
            self._count(-size)

    def _count(self, size: int) -> None:
        self._held_bytes += size
        if self._max_bytes is not None and self._held_bytes > self._max_bytes:
            raise QueryExceedsMemory(self._max_bytes)
        if self._report_bytes is not None:
            self._report_bytes(size)
        if self._parent is not None:
            self._parent._count(size)

    def _reason(self) -> QueryCancelled | QueryTimedOut | None:
        if self._cancelled:
            return QueryCancelled()
        if self._deadline is not None and time.monotonic() >= self._deadline:
            assert self._timeout is not None
            return QueryTimedOut(self._timeout)
        return self._parent._reason() if self._parent is not None else None

    @contextmanager
    def watching(self, interrupt: Callable[[], object]) -> Iterator[None]:
        """Calls `interrupt` in another thread, perhaps repeatedly, if the query must stop within the `with` block.

        It is never called before or after the block. The error of the interrupted work is replaced by that of `check`.
        """
        self.check()
        watch = _CLOCK.begin(self, interrupt)
        try:
            yield
        except Exception:
            _CLOCK.end(watch)
            self.check()
            raise
        finally:
            _CLOCK.end(watch)


class _Never(Cancellation):
    """A cancellation that never happens and costs nothing."""

    def __init__(self) -> None:
        self._timeout, self._deadline, self._parent, self._cancelled, self._max_bytes = None, None, None, False, None
        self._held_bytes = 0

    def cancel(self) -> None:
        raise UsageError("the query was started without a cancellation and cannot be cancelled")

    def check(self) -> None:
        return

    def hold(self, size: int) -> None:  # noqa: ARG002
        return

    @contextmanager
    def watching(self, interrupt: Callable[[], object]) -> Iterator[None]:  # noqa: ARG002
        yield


NEVER: Cancellation = _Never()
"""For a query that runs to its end."""


def cancellation_of(timeout: float | None, cancellation: Cancellation | None) -> Cancellation:
    """The cancellation of a query with a timeout, a cancellation of its caller, both or neither."""
    if timeout is None:
        return NEVER if cancellation is None else cancellation
    return Cancellation(timeout, parent=cancellation)


def check_each(items: Iterable[_Item], cancellation: Cancellation) -> Iterator[_Item]:
    """The same items, with a check of the cancellation every thousand items."""
    for number, item in enumerate(items):
        if not number % _CHECKED_ITEMS:
            cancellation.check()
        yield item


# --- the thread that interrupts ---


@dataclass(frozen=True, slots=True, eq=False)
class _Watch:
    cancellation: Cancellation
    interrupt: Callable[[], object]


class _Clock:
    """One thread for all watched queries of a process, which begins with the first.

    It sleeps until the first deadline that it knew of when it went to sleep. A later deadline is seen when it wakes up,
    so a query that ends in time costs two operations on a set.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._watches: set[_Watch] = set()
        self._wakes_at: float | None = None
        self._thread: threading.Thread | None = None

    def begin(self, cancellation: Cancellation, interrupt: Callable[[], object]) -> _Watch:
        watch = _Watch(cancellation, interrupt)
        deadline = cancellation.deadline
        with self._changed:
            self._watches.add(watch)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="omnigraph-cancelling", daemon=True)
                self._thread.start()
            if cancellation.is_stopped or (
                deadline is not None and (self._wakes_at is None or deadline < self._wakes_at)
            ):
                self._changed.notify()
        return watch

    def end(self, watch: _Watch) -> None:
        """Ends a watch: nothing is interrupted by it after this returns."""
        with self._changed:
            self._watches.discard(watch)

    def wake(self) -> None:
        with self._changed:
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while True:
                now = time.monotonic()
                self._wakes_at = self._interrupt_stopped(now)
                self._changed.wait(None if self._wakes_at is None else max(self._wakes_at - now, 0.001))

    def _interrupt_stopped(self, now: float) -> float | None:
        """Interrupts all queries that must stop, and returns when to look again, if that is known."""
        times = []
        for watch in self._watches:
            if watch.cancellation.is_stopped:
                times.append(now + _REPEATED_AFTER)
                try:
                    watch.interrupt()
                except Exception:
                    _logger.exception("could not interrupt a query that must stop")
            elif watch.cancellation.deadline is not None:
                times.append(watch.cancellation.deadline)
        return min(times, default=None)


_CLOCK = _Clock()
