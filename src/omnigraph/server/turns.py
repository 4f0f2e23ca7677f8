"""How many reads run at once: few, as long as they are quick.

Threads of Python take turns on a processor. With more of them than processors nothing is done sooner, but each waits
for all others, and a write, which has many steps, waits at every step. What is not done after a while may be waiting
for storage, or is long; it keeps its thread, and others begin beside it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

_Result = TypeVar("_Result")

_QUICK_SECONDS = 0.1


@dataclass(slots=True, eq=False)
class _Turn:
    """Work, and where its result goes."""

    work: Callable[[], Any]
    answer: asyncio.Future[Any]
    began: float = 0.0


class Turns:
    """The turns of one pool of threads: so many at once. They belong to the event loop: no other thread calls this.

    What the threads are at is among those `working`.
    """

    def __init__(self, pool: ThreadPoolExecutor, working: set[Future[Any]], *, at_once: int) -> None:
        self._pool = pool
        self._working = working
        self._at_once = at_once
        self._waiting: deque[_Turn] = deque()
        self._quick: set[_Turn] = set()
        self._looks = False

    def begun(self, work: Callable[[], _Result]) -> asyncio.Future[_Result]:
        """What `work` gives, when it has had its turn. It is not begun if nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        turn = _Turn(work, loop.create_future())
        self._waiting.append(turn)
        self._begin()
        if self._waiting and not self._looks:
            self._looks = True
            loop.call_later(_QUICK_SECONDS / 2, self._look)
        return turn.answer

    def _begin(self) -> None:
        """Begins what is next, as long as there is room."""
        while self._waiting and len(self._quick) < self._at_once:
            turn = self._waiting.popleft()
            if turn.answer.done():
                continue
            turn.began = time.monotonic()
            future = self._pool.submit(turn.work)
            self._quick.add(turn)
            self._working.add(future)
            future.add_done_callback(self._when_done(turn))

    def _when_done(self, turn: _Turn) -> Callable[[Future[Any]], None]:
        loop = asyncio.get_running_loop()

        def end(future: Future[Any]) -> None:
            self._quick.discard(turn)
            self._begin()
            if turn.answer.done():
                return
            if future.cancelled():
                turn.answer.cancel()
            elif (error := future.exception()) is not None:
                turn.answer.set_exception(error)
            else:
                turn.answer.set_result(future.result())

        def done(future: Future[Any]) -> None:
            self._working.discard(future)
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, future)

        return done

    def _look(self) -> None:
        """Lets others begin beside what is not quick; looks again while somebody waits."""
        late = time.monotonic() - _QUICK_SECONDS
        self._quick = {turn for turn in self._quick if turn.began >= late}
        self._begin()
        self._looks = bool(self._waiting)
        if self._looks:
            asyncio.get_running_loop().call_later(_QUICK_SECONDS / 2, self._look)
