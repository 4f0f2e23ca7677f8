"""How much memory tables may take, and the one lock under which they are read."""

import threading
from collections.abc import Callable
from typing import Protocol
from weakref import WeakSet


class DoesNotFit(Exception):
    """What a query needs is larger than the memory that tables may take."""


class TakesMemory(Protocol):
    """Something whose size is counted as long as anybody holds it."""

    @property
    def nbytes(self) -> int:
        """Its bytes now."""
        ...


class MemoryBound:
    """A bound on the bytes of everything that was counted and is still held by somebody.

    `make_room` forgets what can be spared, and says whether there was something.
    """

    def __init__(self, most_bytes: float = float("inf"), make_room: Callable[[], bool] = lambda: False) -> None:
        self.most_bytes = most_bytes
        self.lock = threading.RLock()
        self._make_room = make_room
        self._held: WeakSet[TakesMemory] = WeakSet()
        self._reserved = 0

    @property
    def nbytes(self) -> int:
        """The bytes in use, and those that are reserved."""
        return sum(each.nbytes for each in tuple(self._held)) + self._reserved

    def count(self, held: TakesMemory) -> None:
        """Counts something from here on."""
        self._held.add(held)

    def reserve(self, size: int) -> None:
        """Makes room for bytes that will be read; raises `DoesNotFit` if there is none."""
        with self.lock:
            while self.nbytes + size > self.most_bytes:
                if not self._make_room():
                    raise DoesNotFit

    def reading(self) -> "Reading":
        """A read whose bytes are reserved batch by batch, until it is done."""
        return Reading(self)


class Reading:
    """The bytes of a read that goes on."""

    def __init__(self, memory: MemoryBound) -> None:
        self._memory, self.size = memory, 0

    def __enter__(self) -> "Reading":
        return self

    def add(self, size: int) -> None:
        """Reserves the bytes of a batch."""
        self._memory.reserve(size)
        self._memory._reserved += size
        self.size += size

    def __exit__(self, *_: object) -> None:
        self._memory._reserved -= self.size
