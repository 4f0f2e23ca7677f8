"""Makes an error of OmniGraph the beginning of the message that Spark shows for it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import OmnigraphError

_WITHOUT_FRAMES = "SPARK_HIDE_TRACEBACK"


@contextmanager
def brief_failures() -> Iterator[None]:
    """Errors of OmniGraph leave a Python worker of Spark without the frames of Python around them.

    A worker that fails reads this variable when it reports its error, and ends right after it. In other processes the
    error keeps its frames.
    """
    try:
        yield
    except OmnigraphError:
        os.environ[_WITHOUT_FRAMES] = "1"
        raise
