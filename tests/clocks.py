"""Gives a process a clock of its own, as a machine would have whose clock is wrong.

Files keep the times that their store gives them. What measures durations goes on as before.
"""

import datetime
import sys
import time

MINUTE, HOUR, DAY = 60, 3_600, 86_400


def skew_clock(seconds: float) -> None:
    """From here on, what OmniGraph takes for the time is ahead by so many seconds; behind, if they are below zero."""
    real_seconds, real_nanoseconds = time.time, time.time_ns
    ahead = datetime.timedelta(seconds=seconds)

    class Skewed(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Skewed":
            return cls.fromtimestamp((datetime.datetime.now(tz) + ahead).timestamp(), tz)

    time.time = lambda: real_seconds() + seconds
    time.time_ns = lambda: real_nanoseconds() + int(seconds * 1e9)
    for name, module in [*sys.modules.items()]:
        if name.startswith("omnigraph") and getattr(module, "datetime", None) is datetime.datetime:
            module.__dict__["datetime"] = Skewed
