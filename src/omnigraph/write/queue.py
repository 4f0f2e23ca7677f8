"""A queue of threads: whoever came first is next.

A plain lock goes to whoever happens to run when it is given back. Under load that is often the one that gave it back,
and others wait for many times as long.
"""

import threading
from collections import deque


class Queue:
    """A lock that threads get in the order in which they asked for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Lock] = deque()

    def acquire(self, timeout: float) -> bool:
        """Whether it is this thread's turn, at the latest after so many seconds."""
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
            return turn.acquire(timeout=timeout) or self._left(turn)
        except BaseException:
            if self._left(turn):
                self.release()
            raise

    def release(self) -> None:
        """Lets the next thread have it."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_taken = False

    def _left(self, turn: threading.Lock) -> bool:
        """Leaves the queue; True when the turn has come at the last moment."""
        with self._lock:
            if turn in self._waiting:
                self._waiting.remove(turn)
                return False
        return True
