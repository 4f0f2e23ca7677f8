"""Holds Ctrl-C back while this thread asks the JVM something.

An interrupt between a question and its answer would cost the connection and print pages of Py4J, and the handler that
PySpark has for it would ask on the same connection. Blocks are short, so nobody notices that they waited.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def held_back() -> Iterator[None]:
    """Ctrl-C in the block counts at its end.

    The handler from before is there again then, but for one case: where that was Python's own, one that the block has
    put there stays.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield  # signals come to the main thread only, and a handler that is not Python's cannot be put back
        return
    pressed: list[int] = []

    def note(number: int, _: object) -> None:
        pressed.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if before is not signal.default_int_handler or signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)
    if pressed:
        signal.raise_signal(signal.SIGINT)
