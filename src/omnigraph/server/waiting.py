"""Awaits with a time limit, which is set only if there is something to wait for."""

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


async def await_in_time(work: Coroutine[Any, Any, _Result], seconds: float) -> _Result:
    """The result of `work`; raises `TimeoutError` if it takes longer.

    Most bodies have arrived when they are asked for, and most answers fit into the buffer of a connection. Then `work`
    does not wait at all, and a time limit would cost more than `work` itself.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as end:
        result: _Result = end.value
        return result
    async with asyncio.timeout(seconds):
        return await _resume(work, waits_for)


@coroutine
def _resume(work: Coroutine[Any, Any, _Result], waits_for: Any) -> Generator[Any, Any, _Result]:
    """Awaits the rest of a coroutine that has begun to wait."""
    while True:
        try:
            try:
                given = yield waits_for
            except BaseException as error:  # also a cancellation, which is for the coroutine
                waits_for = work.throw(error)
            else:
                waits_for = work.send(given)
        except StopIteration as end:
            result: _Result = end.value
            return result
