"""Decides where bulk work runs: in this process, or on Spark; and says why."""

import os
from collections.abc import Callable, Iterable

from omnigraph.api.progress import Choice
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import any_of
from omnigraph.errors import UsageError
from omnigraph.extras import SPARK as SPARK_EXTRA
from omnigraph.extras import missing_packages

AUTO, LOCAL, SPARK = "auto", "local", "spark"
LARGE_RECORDS = 500_000
SPARK_SWITCH, OFF = "OMNIGRAPH_SPARK", "off"
"""The variable that keeps a process from starting Spark, whoever asks for it."""
_CONFIGURED = ("OMNIGRAPH_SPARK_MASTER", "OMNIGRAPH_SPARK_REMOTE")


def choose_engine(asked: str, reasons: Callable[[], Iterable[str | Choice]]) -> Choice:
    """The engine that was asked for. Of `auto`: Spark where a cluster is configured or there are reasons for it.

    A reason is a text, or a choice that was made for a reason.
    """
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
        if isinstance(reason, str):
            return spark_for(reason)
        return spark_for(reason.why) if reason.engine == SPARK else reason
    return Choice(LOCAL, "the work is small")


def spark_for(reason: str) -> Choice:
    """Spark for a reason, where it is installed and not off; the work runs in this process otherwise."""
    if _is_off():
        return Choice(LOCAL, f"Spark is off, though {reason}")
    if missing_packages(SPARK_EXTRA):
        return Choice(LOCAL, f"Spark is not installed (pip install 'omnigraph[spark]'), though {reason}")
    return Choice(SPARK, reason)


# --- how long a load takes, measured on cores of 2024 with local disks; `docs/guide/pipeline.md` explains the model ---

LINE_BYTES_A_SECOND = 80_000_000
"""How much NDJSON or CSV one core of this process loads in a second."""
ROWS_A_SECOND = 800_000
"""How many rows of tables it loads in a second."""
MERGE_FACTOR = 2
"""A merge reads what is there, and writes it again."""
START_SECONDS = 8.0
"""What a session of Spark takes to start, until its first task has imported what it needs."""
JOBS_SECONDS = 1.0
"""What the jobs of a load take without their work."""
TASK_FACTOR = 1.3
"""How much longer the same work takes as tasks of Spark, which write keys to files and are started one by one."""
_SMALL_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Machine:
    """What this process has: how many parts it works on at a time, its cores, and the slots of a session that runs."""

    threads: int
    cores: int
    session_slots: int | None = None
    """None if no session of Spark runs."""

    @property
    def slots(self) -> int:
        """How many tasks Spark would run at a time. A session that is not there yet would be one on these cores."""
        return self.cores if self.session_slots is None else self.session_slots


def core_seconds(*, line_bytes: int = 0, rows: int = 0, merges: bool = False) -> float:
    """How long one core of this process would take for a load."""
    seconds = line_bytes / LINE_BYTES_A_SECOND + rows / ROWS_A_SECOND
    return seconds * MERGE_FACTOR if merges else seconds


def choose_for_work(seconds: float, machine: Machine) -> Choice:
    """The engine on which so much work of one core ends first; ties and doubts go to this process."""
    here = seconds / machine.threads
    start = START_SECONDS if machine.session_slots is None else 0.0
    there = start + JOBS_SECONDS + TASK_FACTOR * seconds / machine.slots
    if here < _SMALL_SECONDS:
        return Choice(LOCAL, "the work is small")
    times = f"about {here:.0f} s in {machine.threads} threads and {there:.0f} s on Spark with {machine.slots} slots"
    begun = "" if machine.session_slots is not None else f", of which {START_SECONDS:.0f} s to start"
    return Choice(SPARK if there < here else LOCAL, f"it takes {times}{begun}")


def _is_off() -> bool:
    return os.environ.get(SPARK_SWITCH) == OFF


def size_reasons(*, records: int) -> Iterable[str]:
    """Reasons that the number of records gives to run on Spark."""
    if records > LARGE_RECORDS:
        yield f"the input has about {records:,} records (threshold: {LARGE_RECORDS:,})"


def row_reasons(rows: int, threshold: int, work: str) -> Iterable[str]:
    """Reasons that the number of rows of a graph gives to run some work on Spark."""
    if rows > threshold:
        yield f"there are {rows:,} rows to {work} (threshold: {threshold:,})"
