"""Everything that needs Spark: the session, the engine that runs bulk work on it, and what reads and writes there.

Names are imported when they are first used, so that `omnigraph.spark` is there without loading Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from omnigraph.extras import SPARK, require_extra

if TYPE_CHECKING:
    from omnigraph.datasource.graph_frames import GraphTables, graph_frame, graph_tables, load_graph_frame
    from omnigraph.spark.engine import SparkEngine
    from omnigraph.spark.executor import frame_of, read_on_spark
    from omnigraph.spark.sessions import session, stop
    from pyspark_omnigraph import DataSource

__all__ = [
    "DataSource",
    "GraphTables",
    "SparkEngine",
    "frame_of",
    "graph_frame",
    "graph_tables",
    "load_graph_frame",
    "read_on_spark",
    "session",
    "stop",
]

_HOMES = {
    "DataSource": "pyspark_omnigraph",
    "GraphTables": "omnigraph.datasource.graph_frames",
    "SparkEngine": "omnigraph.spark.engine",
    "frame_of": "omnigraph.spark.executor",
    "graph_frame": "omnigraph.datasource.graph_frames",
    "graph_tables": "omnigraph.datasource.graph_frames",
    "load_graph_frame": "omnigraph.datasource.graph_frames",
    "read_on_spark": "omnigraph.spark.executor",
    "session": "omnigraph.spark.sessions",
    "stop": "omnigraph.spark.sessions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require_extra(SPARK, "Spark")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
