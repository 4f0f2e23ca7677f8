"""Everything that needs Spark: the session, the engine that runs bulk work on it, and what reads and writes there.

Names are imported when they are first used, so that `omnigraph.spark` is there without loading Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from omnigraph.spark.engine import SparkEngine
    from omnigraph.spark.sessions import session, stop
    from pyspark_omnigraph import DataSource

__all__ = ["DataSource", "SparkEngine", "session", "stop"]

_HOMES = {
    "DataSource": "pyspark_omnigraph",
    "SparkEngine": "omnigraph.spark.engine",
    "session": "omnigraph.spark.sessions",
    "stop": "omnigraph.spark.sessions",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
