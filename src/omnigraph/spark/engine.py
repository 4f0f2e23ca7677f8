"""Runs bulk work as Spark jobs: one Python task for each part, with Arrow, DuckDB and Lance inside the task.

Spark decides where and when a part runs, and repeats it when a worker is lost; rows never enter the JVM. Only data
frames are used, so a job runs in the same way in an embedded session, on a cluster and over Spark Connect. OmniGraph
must be installed in the Python of the workers, because functions are pickled by name.
"""

import pickle
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from omnigraph.api.progress import Progress, Report, no_report
from omnigraph.errors import EngineFailed, OmnigraphError
from omnigraph.spark.jobs import collect_rows, defer_interrupts, is_classic
from omnigraph.spark.tasks import ROW, Batches, error_in, task_of_partition, task_of_parts

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


class SparkEngine:
    """Runs the parts as the tasks of a session's jobs."""

    name = "spark"

    def __init__(self, session: SparkSession, report: Report = no_report) -> None:
        self.session = session
        self._report = report

    @cached_property
    def slots(self) -> int:
        """How many tasks the session runs at the same time."""
        if is_classic(self.session):
            with defer_interrupts():
                return self.session.sparkContext.defaultParallelism
        if setting := self.session.conf.get("spark.default.parallelism", None):
            return int(setting)
        try:
            # A range without a number of partitions has as many as the session has slots.
            return self.session.range(0, 4096).selectExpr("spark_partition_id() AS part").distinct().count()
        except PySparkException as error:
            raise EngineFailed("count slots", _problem(str(error))) from None

    def run(
        self,
        stage: str,
        work: Callable[[_Part], _Result],
        parts: Sequence[_Part],
        *,
        rows: Callable[[_Result], int] | None = None,
    ) -> list[_Result]:
        if not parts:
            self._report(Progress(stage, 0, 0, None if rows is None else 0))
            return []
        with defer_interrupts():
            numbers = self.session.range(0, len(parts), 1, len(parts))
            frame = numbers.mapInArrow(task_of_parts(stage, work, parts), ROW)
        return self._results(stage, frame, total=len(parts), rows=rows)

    def run_frame(
        self,
        stage: str,
        work: Callable[[int, Batches], _Result],
        frame: DataFrame,
        *,
        rows: Callable[[_Result], int] | None = None,
    ) -> list[_Result]:
        """The result of each partition of a frame, in the order of the partitions.

        `work` gets the number of the partition and its rows as record batches, also for an empty partition. Spark may
        join small partitions of a shuffle first, so the numbers only distinguish the partitions of one job.
        """
        with defer_interrupts():
            results = frame.mapInArrow(task_of_partition(stage, work), ROW)
        return self._results(stage, results, total=None, rows=rows)

    def _results(
        self, stage: str, frame: DataFrame, *, total: int | None, rows: Callable[[_Result], int] | None
    ) -> list[_Result]:
        """Runs the job. The number of parts is not known before the end if the frame decides it."""
        self._report(Progress(stage, 0, total or 0))
        try:
            collected = collect_rows(
                frame, stage=stage, on_progress=lambda done: self._report(Progress(stage, done, total or done))
            )
        except (PySparkException, Py4JError) as error:
            raise find_failure(stage, str(error)) from None
        results: list[_Result] = []
        for _part, failed, payload in sorted(collected):
            value = pickle.loads(payload)  # noqa: S301 - our own worker wrote it
            if failed:
                raise value
            results.append(value)
        counted = None if rows is None else sum(rows(result) for result in results)
        self._report(Progress(stage, len(results), len(results), counted))
        return results


def find_failure(stage: str, message: str) -> OmnigraphError:
    """The error that a task raised, found in the message of Spark's error, or an error with the reason Spark gives.

    It is not raised from Spark's error: the Java stack trace adds nothing.
    """
    return error_in(message) or EngineFailed(stage, _problem(message))


def _problem(message: str) -> str:
    """The reason without the Java stack trace. Spark gives it only as text."""
    if "Python worker exited unexpectedly" in message:
        return "a worker process ended unexpectedly at each attempt"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("at ")), "no reason was given")[:500]
