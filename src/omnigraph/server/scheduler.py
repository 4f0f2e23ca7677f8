"""Limits how many quick reads run at once.

With more threads of Python than cores nothing is done sooner, but each thread waits for all others, and a write, which
has many steps, waits at every step. A read that takes longer may be waiting for storage; it keeps its thread, and
others start beside it.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import Any, TypeVar

from omnigraph.dataclass_later import dataclass

_Result = TypeVar("_Result")

_QUICK_SECONDS = 0.1


class Threads(Enum):
    """Which threads do some work, so that one kind of it leaves threads to the others."""

    READS = "reads"
    WRITES = "writes"
    """Mutations, most of which wait for others and are published together with them."""
    SLOW = "slow"
    """What may take minutes and much memory: loads, schema changes, analyses, maintenance."""


@dataclass(slots=True, eq=False)
class _Task:
    """Work that waits or runs, and the future of its result."""

    work: Callable[[], Any]
    answer: asyncio.Future[Any]
    started: float = 0.0


class ReadScheduler:
    """Starts at most `at_once` quick reads in a pool of threads. Only the event loop calls it.

    The work of the threads is in `working`.
    """

    def __init__(self, pool: ThreadPoolExecutor, working: set[Future[Any]], *, at_once: int) -> None:
        self._pool = pool
        self._working = working
        self._at_once = at_once
        self._waiting: deque[_Task] = deque()
        self._quick: set[_Task] = set()
        self._is_checking = False

    def schedule(self, work: Callable[[], _Result]) -> asyncio.Future[_Result]:
        """The result of `work`, once it had its task. It does not start if its future was cancelled before."""
        loop = asyncio.get_running_loop()
        task = _Task(work, loop.create_future())
        self._waiting.append(task)
        self._start_next()
        if self._waiting and not self._is_checking:
            self._is_checking = True
            loop.call_later(_QUICK_SECONDS / 2, self._check_late)
        return task.answer

    def _start_next(self) -> None:
        """Starts the next work, as long as there is room."""
        while self._waiting and len(self._quick) < self._at_once:
            task = self._waiting.popleft()
            if task.answer.done():
                continue
            task.started = time.monotonic()
            future = self._pool.submit(task.work)
            self._quick.add(task)
            self._working.add(future)
            future.add_done_callback(self._end_callback(task))

    def _end_callback(self, task: _Task) -> Callable[[Future[Any]], None]:
        loop = asyncio.get_running_loop()

        def end(future: Future[Any]) -> None:
            self._quick.discard(task)
            self._start_next()
            if task.answer.done():
                return
            if future.cancelled():
                task.answer.cancel()
            elif (error := future.exception()) is not None:
                task.answer.set_exception(error)
            else:
                task.answer.set_result(future.result())

        def on_done(future: Future[Any]) -> None:
            self._working.discard(future)
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, future)

        return on_done

    def _check_late(self) -> None:
        """Stops counting work that is not quick, so that other work starts; repeats while work waits."""
        late = time.monotonic() - _QUICK_SECONDS
        self._quick = {task for task in self._quick if task.started >= late}
        self._start_next()
        self._is_checking = bool(self._waiting)
        if self._is_checking:
            asyncio.get_running_loop().call_later(_QUICK_SECONDS / 2, self._check_late)
