"""How many reads run at once."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from omnigraph.server import scheduler as product
from omnigraph.server.scheduler import ReadScheduler


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def test_no_more_quick_work_runs_at_once_than_may(pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    # However long a thread is kept from running, its work is quick.
    monkeypatch.setattr(product, "_QUICK_SECONDS", 600)
    running: list[int] = []
    most: list[int] = []

    def work(number: int) -> int:
        running.append(number)
        most.append(len(running))
        running.remove(number)
        return number

    async def all_of_it() -> list[int]:
        scheduler = ReadScheduler(pool, set(), at_once=1)
        return await asyncio.gather(*(scheduler.schedule(lambda number=number: work(number)) for number in range(100)))  # type: ignore[misc]

    assert asyncio.run(all_of_it()) == [*range(100)]
    assert max(most) == 1


def test_what_is_not_quick_keeps_nobody_waiting(pool: ThreadPoolExecutor) -> None:
    blocked = threading.Event()
    working: set[Future[Any]] = set()

    async def both() -> tuple[bool, int]:
        scheduler = ReadScheduler(pool, working, at_once=1)
        long = scheduler.schedule(lambda: blocked.wait(60))
        quick = await asyncio.wait_for(scheduler.schedule(lambda: 2), 30)
        blocked.set()
        return await long, quick

    assert asyncio.run(both()) == (True, 2)
    pool.shutdown()
    assert not working


def test_an_error_is_that_of_its_own_work(pool: ThreadPoolExecutor) -> None:
    async def both() -> Sequence[Any]:
        scheduler = ReadScheduler(pool, set(), at_once=1)
        return await asyncio.gather(
            scheduler.schedule(lambda: 1 // 0), scheduler.schedule(lambda: 2), return_exceptions=True
        )

    wrong, right = asyncio.run(both())
    assert isinstance(wrong, ZeroDivisionError)
    assert right == 2


def test_work_that_nobody_waits_for_is_not_begun(pool: ThreadPoolExecutor) -> None:
    done: list[str] = []

    async def three() -> None:
        scheduler = ReadScheduler(pool, set(), at_once=1)
        first = scheduler.schedule(lambda: done.append("first"))
        given_up = scheduler.schedule(lambda: done.append("given up"))
        last = scheduler.schedule(lambda: done.append("last"))
        given_up.cancel()
        await asyncio.gather(first, last)

    asyncio.run(three())
    assert done == ["first", "last"]
