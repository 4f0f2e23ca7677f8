"""Runs bulk work as Spark jobs: one Python task for each part, with Arrow, DuckDB and Lance inside the task.

Spark decides where and when a part is worked on, and does it again when a worker is lost; the rows never enter the JVM.
Nothing but data frames is used, so a job runs in the same way in an embedded session, on a cluster and over Spark
Connect. The Python of the workers has OmniGraph installed, because a function of a module travels by its name.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from omnigraph.api.progress import Progress, Report, no_report
from omnigraph.errors import EngineFailed, OmnigraphError
from omnigraph.spark.interrupts import held_back
from omnigraph.spark.jobs import is_classic, rows_of
from omnigraph.spark.tasks import ROW, Batches, Outcome, error_in, task_of_partition, task_of_parts

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")
_REMOTE_SLOTS = 8


class SparkEngine:
    """Runs the parts as the tasks of a session's jobs."""

    name = "spark"

    def __init__(self, session: SparkSession, report: Report = no_report) -> None:
        self.session = session
        self._report = report

    @cached_property
    def slots(self) -> int:
        """The tasks that the session runs at the same time; over Spark Connect what its settings say of that."""
        if is_classic(self.session):
            with held_back():
                return self.session.sparkContext.defaultParallelism
        told = self.session.conf.get("spark.default.parallelism", None)
        return int(told) if told else self._partitions_of_a_range()

    def _partitions_of_a_range(self) -> int:
        """A range without a number of partitions has as many as the session has slots."""
        try:
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
        with held_back():
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

        `work` gets the number of the partition and its rows as record batches; it is called for an empty partition,
        too. Spark may join small partitions of a shuffle before it comes to that, so the numbers only tell the
        partitions of one job apart.
        """
        with held_back():
            results = frame.mapInArrow(task_of_partition(stage, work), ROW)
        return self._results(stage, results, total=None, rows=rows)

    def _results(
        self, stage: str, frame: DataFrame, *, total: int | None, rows: Callable[[_Result], int] | None
    ) -> list[_Result]:
        """Runs the job. How many parts there are is not known before the end when the frame decides that."""
        self._report(Progress(stage, 0, total or 0))
        try:
            collected = rows_of(
                frame, stage=stage, watch=lambda done: self._report(Progress(stage, done, total or done))
            )
        except (PySparkException, Py4JError) as error:
            # Not raised from it: pages of Java say nothing that this does not.
            raise failure(stage, str(error)) from None
        outcomes = sorted((Outcome(*row) for row in collected), key=lambda outcome: outcome.part)
        for outcome in outcomes:
            if outcome.failed:
                raise outcome.value
        results: list[_Result] = [outcome.value for outcome in outcomes]
        counted = None if rows is None else sum(rows(result) for result in results)
        self._report(Progress(stage, len(results), len(results), counted))
        return results


def failure(stage: str, message: str) -> OmnigraphError:
    """The error that a task raised, found in the message of Spark's, or what Spark says itself."""
    return error_in(message) or EngineFailed(stage, _problem(message))


def _problem(message: str) -> str:
    """What is wrong, without the pages of Java around it. Spark has nothing but its message to tell that."""
    if "Python worker exited unexpectedly" in message:
        return "a worker ended unexpectedly, at each attempt"
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith("at ")), "no reason was given")[:500]
