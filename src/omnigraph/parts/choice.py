"""Decides where bulk work runs: in this process, or on Spark; and says why."""

import os
from collections.abc import Callable, Iterable

from omnigraph.api.progress import Choice
from omnigraph.diagnostics import any_of
from omnigraph.errors import UsageError
from omnigraph.extras import SPARK as SPARK_EXTRA
from omnigraph.extras import missing_packages

AUTO, LOCAL, SPARK = "auto", "local", "spark"
LARGE_BYTES = 64 * 1024 * 1024
LARGE_RECORDS = 500_000
SPARK_SWITCH, OFF = "OMNIGRAPH_SPARK", "off"
"""The variable that keeps a process from starting Spark, whoever asks for it."""
_CONFIGURED = ("OMNIGRAPH_SPARK_MASTER", "OMNIGRAPH_SPARK_REMOTE")


def choose_engine(asked: str, reasons: Callable[[], Iterable[str]]) -> Choice:
    """The engine that was asked for. Of `auto`: Spark where a cluster is configured or there are reasons for it."""
    if asked not in (AUTO, LOCAL, SPARK):
        raise UsageError(f"the engine is {any_of((AUTO, LOCAL, SPARK))}, not {asked!r}")
    if asked == SPARK and _is_off():
        raise UsageError("Spark is off here: the engine is auto or local")
    if asked != AUTO:
        return Choice(asked, "it was asked for")
    for variable in _CONFIGURED:
        if os.environ.get(variable) and not _is_off():
            return Choice(SPARK, f"{variable} is set")
    for reason in reasons():
        return spark_for(reason)
    return Choice(LOCAL, "the work is small")


def spark_for(reason: str) -> Choice:
    """Spark for a reason, where it is installed and not off; the work runs in this process otherwise."""
    if _is_off():
        return Choice(LOCAL, f"Spark is off, though {reason}")
    if missing_packages(SPARK_EXTRA):
        return Choice(LOCAL, f"Spark is not installed (pip install 'omnigraph[spark]'), though {reason}")
    return Choice(SPARK, reason)


def _is_off() -> bool:
    return os.environ.get(SPARK_SWITCH) == OFF


def size_reasons(*, size: int = 0, records: int = 0) -> Iterable[str]:
    """Reasons that the size of an input gives to run on Spark."""
    if size > LARGE_BYTES:
        yield f"the input is {size / 2**20:,.0f} MiB (threshold: {LARGE_BYTES >> 20} MiB)"
    if records > LARGE_RECORDS:
        yield f"the input has about {records:,} records (threshold: {LARGE_RECORDS:,})"


def row_reasons(rows: int, threshold: int, work: str) -> Iterable[str]:
    """Reasons that the number of rows of a graph gives to run some work on Spark."""
    if rows > threshold:
        yield f"there are {rows:,} rows to {work} (threshold: {threshold:,})"
