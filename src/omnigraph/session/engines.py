"""Starts the chosen engine: this process, or Spark, which is imported and started only when it is needed."""
# ruff: noqa: PLC0415

import logging
from typing import TYPE_CHECKING, Any

from omnigraph.api.progress import Choice, Report
from omnigraph.api.words import SPARK
from omnigraph.parts.choice import choose_engine
from omnigraph.parts.engine import Engine, InProcess

if TYPE_CHECKING:
    from omnigraph.api.data import QueryResult
    from omnigraph.query import Cancellation, Plan
    from omnigraph.versioning import Snapshot

__all__ = ["answer_on_spark", "choose_engine", "start_engine", "to_frame"]

_logger = logging.getLogger("omnigraph.engine")


def start_engine(choice: Choice, report: Report, frame: Any = None, *, threads: int | None = None) -> Engine:
    """The chosen engine; Spark uses the session of `frame`, if given. Spark is logged, as its start takes seconds."""
    if choice.engine != SPARK:
        return InProcess(report, threads)
    from omnigraph import spark

    _logger.info("%s", choice)
    return spark.SparkEngine(spark.session() if frame is None else frame.sparkSession, report)


def answer_on_spark(choice: Choice, plan: "Plan", snapshot: "Snapshot", cancellation: "Cancellation") -> "QueryResult":
    """The result of a planned read on Spark. It is collected on demand, or at once if the query can be cancelled."""
    from omnigraph import spark

    _logger.info("%s", choice)
    return spark.read_on_spark(plan, snapshot, cancellation)


def to_frame(table: Any) -> Any:
    """Rows of a query as a data frame of the Spark session, which is started if there is none."""
    from omnigraph import spark

    return spark.frame_of(table)
