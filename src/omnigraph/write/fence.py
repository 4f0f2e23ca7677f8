"""The write fence: whoever commits to a table holds its lock, against threads and against other processes."""

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self
from weakref import WeakValueDictionary

from omnigraph.diagnostics import any_of
from omnigraph.errors import FenceHeld, InternalError
from omnigraph.storage.environment import seconds_setting
from omnigraph.storage.location import Location
from omnigraph.storage.locks import Lock, Taken, locks_at


class Queue:
    """A lock that threads get in the order in which they asked for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        """Waits up to `timeout` seconds for the turn of this thread; whether it came."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            if timeout <= 0:
                return False
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        try:
            return turn.acquire(timeout=timeout) or self._leave(turn)
        except BaseException:
            if self._leave(turn):
                self.release()
            raise

    def release(self) -> None:
        """Gives the lock to the next thread."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False

    def _leave(self, turn: threading.Lock) -> bool:
        """Leaves the queue; True when the turn has come at the last moment."""
        with self._lock:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return False
        return True


EXISTENCE = "branch"
"""The lock of those who create or delete a branch, or write to it without writing a table."""
WAIT_SECONDS = seconds_setting("OMNIGRAPH_WRITE_WAIT", 60.0)

_registry_lock = threading.Lock()
# A queue is there as long as somebody stands in it.
_queues: WeakValueDictionary[tuple[str, str], Queue] = WeakValueDictionary()


class WriteFence:
    """The locks of one writer, all given back at the end of the `with` block.

    They are taken in sorted order and all at once, so that no two writers wait for each other in a circle. Threads of
    one process queue up first, in the order in which they come, and the first asks for the lock between processes.
    """

    def __init__(self, graph: Location, branch: str, purpose: str) -> None:
        self._graph = graph
        self._branch = branch
        self._purpose = purpose
        self._locks = locks_at(graph)
        self._held: dict[str, tuple[Queue, Lock]] = {}
        self._watched: list[Lock] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._held:
            queue, lock = self._held.popitem()[1]
            try:
                lock.release()
            finally:
                queue.release()

    @property
    def names(self) -> frozenset[str]:
        """The locks that it has."""
        return frozenset(self._held)

    @property
    def patience(self) -> float:
        """How many seconds it takes to be sure that another holder is dead."""
        return self._locks.patience

    def take(self, table_keys: Iterable[str], wait: float = WAIT_SECONDS) -> None:
        """Takes the locks of all these tables; raises `FenceHeld` when one is not released within `wait` seconds.

        A writer that took locks before must ask for none that it lacks.
        """
        for table_key, began in self._in_turn(table_keys):
            self._take(table_key, began, wait)

    def take_free(self, table_keys: Iterable[str], wait: float = WAIT_SECONDS) -> dict[str, FenceHeld]:
        """Takes the locks that become free within `wait` seconds; for the others, returns who holds them."""
        held = {}
        for table_key, began in self._in_turn(table_keys):
            try:
                self._take(table_key, began, wait)
            except FenceHeld as error:
                held[table_key] = error
        return held

    def _in_turn(self, table_keys: Iterable[str]) -> Iterator[tuple[str, float]]:
        """The tables whose locks are to be taken, in the order in which everybody takes them, and since when."""
        wanted = sorted({*table_keys} - self._held.keys())
        if wanted and self._held:
            lacking = f"a writer holds {any_of(sorted(self._held))} and asks for {any_of(wanted)}"
            raise InternalError(f"locks are taken all at once, or two writers could wait for each other, but {lacking}")
        began = time.monotonic()
        if len(wanted) > 1:
            self._locks.look(self._name(table_key) for table_key in wanted)
        return ((table_key, began) for table_key in wanted)

    def _take(self, table_key: str, began: float, wait: float) -> None:
        name = self._name(table_key)
        with _registry_lock:
            queue = _queues.setdefault((self._graph.uri, name), Queue())
        if not queue.acquire(wait - (time.monotonic() - began)):
            raise FenceHeld(table_key, self._branch, "another thread of this process", time.monotonic() - began)
        try:
            lock = self._locks.take(name, self._purpose, max(0.0, wait - (time.monotonic() - began)))
        except Taken as error:
            queue.release()
            raise FenceHeld(table_key, self._branch, error.holder, time.monotonic() - began) from None
        except BaseException:
            queue.release()
            raise
        self._held[table_key] = (queue, lock)

    def _name(self, table_key: str) -> str:
        return f"{self._branch}/{table_key}"

    def check(self) -> None:
        """Raises `FenceLost` when a lock may be another's by now."""
        for lock in (*(lock for _, lock in self._held.values()), *self._watched):
            lock.check()

    def watch_all(self, other: "WriteFence") -> None:
        """From here on a check is also one of all locks that another fence holds."""
        self._watched += [lock for _, lock in other._held.values()]

    def watch(self, lock: Lock) -> None:
        """From here on a check is also one of this lock, which is its holder's to give back."""
        self._watched.append(lock)
