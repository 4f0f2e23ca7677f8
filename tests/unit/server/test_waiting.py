"""Awaiting with a time limit: what does not wait has none, and what waits is stopped, cancelled or resumed."""

import asyncio

import pytest

from omnigraph.server.waiting import await_in_time


async def _add(first: int, event: asyncio.Event | None = None) -> int:
    if event is not None:
        await event.wait()
        await asyncio.sleep(0)
    return first + 1


def test_work_that_does_not_wait_gives_its_result() -> None:
    assert asyncio.run(await_in_time(_add(1), 60)) == 2


def test_work_that_waits_goes_on_where_it_was() -> None:
    async def run() -> int:
        event = asyncio.Event()
        asyncio.get_running_loop().call_soon(event.set)
        return await await_in_time(_add(1, event), 60)

    assert asyncio.run(run()) == 2


def test_work_that_waits_too_long_is_stopped() -> None:
    async def run() -> None:
        with pytest.raises(TimeoutError):
            await await_in_time(_add(1, asyncio.Event()), 0.01)

    asyncio.run(run())


def test_an_error_of_the_work_is_raised_before_and_after_it_waits() -> None:
    async def fail(waits: bool) -> None:
        if waits:
            await asyncio.sleep(0)
        raise LookupError

    for waits in (False, True):
        with pytest.raises(LookupError):
            asyncio.run(await_in_time(fail(waits), 60))


def test_a_cancellation_reaches_the_work() -> None:
    cancelled = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def run() -> None:
        task = asyncio.ensure_future(await_in_time(work(), 60))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert cancelled == [True]
