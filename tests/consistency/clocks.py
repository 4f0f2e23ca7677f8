"""Clocks that are wrong: libfaketime, where Debian's package is installed, moves the time of day of a process.

The monotonic clock and the times of files stay as they are, as on a machine whose clock was set wrong.
"""

import os
import select
import time
from functools import cache
from pathlib import Path
from typing import SupportsIndex

_LIBRARIES = (
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
)


@cache
def library() -> Path | None:
    """Where libfaketime is, if it is."""
    named = os.environ.get("OMNIGRAPH_FAKETIME")
    candidates = [Path(named)] if named else [Path(each) for each in _LIBRARIES]
    return next((path for path in candidates if path.exists()), None)


def environment(seconds: int) -> dict[str, str]:
    """What makes a process believe that it is so many seconds later; nothing for none, or without libfaketime."""
    found = library()
    if not seconds or found is None:
        return {}
    return {
        "LD_PRELOAD": str(found),
        "FAKETIME": f"{seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "NO_FAKE_STAT": "1",
        "FAKETIME_DISABLE_SHM": "1",
    }


def mend_sleep() -> None:
    """Makes `time.sleep` work under libfaketime, which takes the moment that it waits for for a time of day."""
    if "FAKETIME" in os.environ:
        time.sleep = _sleep


def _sleep(seconds: float | SupportsIndex, /) -> None:
    select.select([], [], [], float(seconds))
