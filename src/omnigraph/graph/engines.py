"""Where work runs, once that is decided: in this process, or on Spark, which is imported and started only then."""
# ruff: noqa: PLC0415

import sys
from typing import TYPE_CHECKING, Any

from omnigraph.parts.choice import SPARK, Choice
from omnigraph.parts.engine import Engine, InProcess, Report

if TYPE_CHECKING:
    from omnigraph.query import Cancellation, Plan
    from omnigraph.query.reading import QueryResult
    from omnigraph.versioning import Snapshot


def engine_of(choice: Choice, report: Report, frame: Any = None, *, threads: int | None = None) -> Engine:
    """The engine that was chosen; a frame has a session of its own. Spark is told, for starting it takes seconds."""
    if choice.engine != SPARK:
        return InProcess(report, threads)
    from omnigraph import spark

    sys.stderr.write(f"{choice}\n")
    return spark.SparkEngine(spark.session() if frame is None else frame.sparkSession, report)


def answer_on_spark(choice: Choice, plan: "Plan", snapshot: "Snapshot", cancellation: "Cancellation") -> "QueryResult":
    """The answer of a planned read; it is collected when it is needed, or at once if that may be cancelled."""
    from omnigraph.spark.executor import read_on_spark

    sys.stderr.write(f"{choice}\n")
    return read_on_spark(plan, snapshot, cancellation)


def to_frame(table: Any) -> Any:
    """Rows of a query as a data frame of the Spark session that is there, or is started now."""
    from omnigraph.spark.executor import frame_of

    return frame_of(table)
