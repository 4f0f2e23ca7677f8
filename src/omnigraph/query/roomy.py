"""Runs a function where there is room for deep recursion, whatever the stack of the calling thread is.

DuckDB binds and plans nested queries by recursion in C++, about 7 KiB of stack for each. Where the stack ends, the
process does too: there is no error to catch. Threads may have as little as 128 KiB, depending on the platform and on
who started them.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

ResultT = TypeVar("ResultT")

STACK_BYTES = 16 * 1024 * 1024
_starting = threading.Lock()


def run_with_room(function: Callable[[], ResultT]) -> ResultT:
    """What a function returns or raises, called in a thread with a large stack."""
    results: list[ResultT] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="omnigraph-deep-query", daemon=True)
    # The size is a setting of the process: others that start a thread meanwhile get more stack than they need.
    with _starting:
        before = threading.stack_size(STACK_BYTES)
        try:
            thread.start()
        finally:
            threading.stack_size(before)
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
