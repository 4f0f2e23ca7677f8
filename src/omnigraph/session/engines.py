"""Starts the chosen engine: this process, or Spark, which is imported and started only when it is needed."""
# ruff: noqa: PLC0415

import logging
import sys
from typing import TYPE_CHECKING, Any

from omnigraph.api.data import LoadMode
from omnigraph.api.progress import Choice, Report
from omnigraph.api.words import SPARK
from omnigraph.parts.choice import Machine, choose_engine
from omnigraph.parts.engine import Engine, InProcess, available_cores

if TYPE_CHECKING:
    from omnigraph.api.data import ExplainLoadRequest, LoadRequest, QueryResult
    from omnigraph.loading.inputs import LoadInput
    from omnigraph.query import Cancellation, Plan
    from omnigraph.query.unions import UnionPlan
    from omnigraph.versioning import Snapshot

__all__ = ["answer_on_spark", "choose_engine", "choose_load_engine", "start_engine", "this_machine", "to_frame"]

_logger = logging.getLogger("omnigraph.engine")


def choose_load_engine(request: "LoadRequest | ExplainLoadRequest", given: "LoadInput") -> Choice:
    """The engine of a load."""
    merges = request.mode in (LoadMode.MERGE, LoadMode.APPLY)
    return choose_engine(request.engine, lambda: given.reasons_for_engine(this_machine(), merges=merges))


def this_machine() -> Machine:
    """The threads and cores of this process, and the session of Spark that it has."""
    slots = None
    if "pyspark.sql" in sys.modules:  # without it there is no session, and importing it takes seconds
        from omnigraph.spark.sessions import running_slots

        slots = running_slots()
    return Machine(InProcess().slots, available_cores(), slots)


def start_engine(choice: Choice, report: Report, frame: Any = None, *, threads: int | None = None) -> Engine:
    """The chosen engine; Spark uses the session of `frame`, if given. Spark is logged, as its start takes seconds."""
    if choice.engine != SPARK:
        return InProcess(report, threads)
    from omnigraph import spark

    _logger.info("%s", choice)
    return spark.SparkEngine(spark.session() if frame is None else frame.sparkSession, report)


def answer_on_spark(
    choice: Choice, plan: "Plan | UnionPlan", snapshot: "Snapshot", cancellation: "Cancellation"
) -> "QueryResult":
    """The result of a planned read on Spark. It is collected on demand, or at once if the query can be cancelled."""
    from omnigraph import spark

    _logger.info("%s", choice)
    return spark.read_on_spark(plan, snapshot, cancellation)


def to_frame(table: Any) -> Any:
    """Rows of a query as a data frame of the Spark session, which is started if there is none."""
    from omnigraph import spark

    return spark.frame_of(table)
