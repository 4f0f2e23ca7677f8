"""Bulk work as a list of parts and one function: what an engine is, and the one that runs in this process.

A part is a small value that says what to work on: a range of bytes of a file, some row groups, some fragments of a
table, a bucket of keys. The function does the work with Arrow, DuckDB and Lance and returns a small value. So the same
job runs as a loop in this process or as one task for each part on a cluster, and rows never pass through the engine.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Generic, Protocol, TypeVar

from omnigraph.api.progress import Progress, Report, no_report

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")
_MOST_THREADS = 8


def available_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Engine(Protocol):
    """Something that runs one function over many parts."""

    @property
    def name(self) -> str:
        """``local`` or ``spark``."""

    @property
    def slots(self) -> int:
        """How many parts are worked on at the same time, more or less."""

    def run(
        self,
        stage: str,
        work: Callable[[_Part], _Result],
        parts: Sequence[_Part],
        *,
        rows: Callable[[_Result], int] | None = None,
    ) -> list[_Result]:
        """The result of each part, in the order of the parts.

        `work` and the parts may be sent to other processes, so they pickle. A part may be worked on more than once, and
        only one of the results counts: what `work` writes has names of its own each time. An error that `work` raises
        for good is raised here, and then no work goes on. `rows` says how many rows a result stands for.
        """


class InProcess:
    """Runs the parts in threads of this process: Arrow, DuckDB and Lance do their work outside the interpreter lock."""

    name = "local"

    def __init__(self, report: Report = no_report, threads: int | None = None) -> None:
        self._report = report
        self.slots = threads or min(available_cores(), _MOST_THREADS)

    def with_slots(self, count: int) -> "InProcess":
        """The same engine, which works on `count` parts at the same time."""
        return InProcess(self._report, count)

    def run(
        self,
        stage: str,
        work: Callable[[_Part], _Result],
        parts: Sequence[_Part],
        *,
        rows: Callable[[_Result], int] | None = None,
    ) -> list[_Result]:
        tally = Tally(stage, len(parts), self._report, rows)
        if len(parts) <= 1 or self.slots == 1:
            return [tally.count(work(part)) for part in parts]
        with ThreadPoolExecutor(min(self.slots, len(parts)), "omnigraph-bulk") as pool:
            futures = [pool.submit(work, part) for part in parts]
            try:
                for future in as_completed(futures):
                    tally.count(future.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
            return [future.result() for future in futures]


class Tally(Generic[_Result]):
    """Counts the results of a stage and reports how far it is."""

    def __init__(self, stage: str, total: int, report: Report, rows: Callable[[_Result], int] | None) -> None:
        self._progress = Progress(stage, 0, total, None if rows is None else 0)
        self._report = report
        self._rows = rows
        report(self._progress)

    def count(self, result: _Result) -> _Result:
        """The result, after it was counted."""
        before = self._progress
        rows = None if self._rows is None or before.rows is None else before.rows + self._rows(result)
        self._progress = Progress(before.stage, before.done + 1, before.total, rows)
        self._report(self._progress)
        return result
