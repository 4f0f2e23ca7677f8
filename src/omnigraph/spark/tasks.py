"""What happens in a Spark task: one function is called on one part, and its result or its error becomes a row.

An error that says that the input is wrong would be the same at every attempt. It comes back as a row, so that Spark
does not try the task again. Any other error fails the task, and Spark tries it once more; what the last attempt raised
is found again in the message of the failure, because that is the only thing that every kind of session brings back.
"""

import base64
import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from omnigraph.errors import EngineFailed, OmnigraphError, StorageError

ROW = "part long, failed boolean, payload binary"
_SCHEMA = pa.schema([("part", pa.int64()), ("failed", pa.bool_()), ("payload", pa.binary())])
_MARK = "omnigraph-task-error:"
_MARKED = re.compile(_MARK + r"([A-Za-z0-9+/=]+);")
_LONGEST_PROBLEM = 2_000
_LARGEST_ERROR = 16_000

Batches = Iterator[pa.RecordBatch]


class _TaskFailed(Exception):
    """Carries an error of ours, pickled in its message, through the JVM."""


def task_of_parts(stage: str, work: Callable[[Any], Any], parts: Sequence[Any]) -> Callable[[Batches], Batches]:
    """A task for the numbers of some parts: each becomes a row with the result of `work` on that part.

    All parts travel to every worker, but a task unpacks only its own: of many buckets, all would take long.
    """
    packed = [pickle.dumps(part) for part in parts]

    def task(batches: Batches) -> Batches:
        _limit_threads()
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield _row(stage, index, lambda: work(pickle.loads(packed[index])))  # noqa: B023, S301 - called at once

    return task


def task_of_partition(stage: str, work: Callable[[int, Batches], Any]) -> Callable[[Batches], Batches]:
    """A task for the rows of a partition: all of them become one row with the result of `work`."""

    def task(batches: Batches) -> Batches:
        _limit_threads()
        context = TaskContext.get()
        assert context is not None
        index = context.partitionId()
        yield _row(stage, index, lambda: work(index, batches))

    return task


def _row(stage: str, index: int, work: Callable[[], Any]) -> pa.RecordBatch:
    try:
        failed, value = False, work()
    except OmnigraphError as error:
        if isinstance(error, StorageError):
            raise _TaskFailed(_marked(stage, error)) from error
        failed, value = True, error
    except Exception as error:
        raise _TaskFailed(_marked(stage, error)) from error
    return pa.RecordBatch.from_pydict({"part": [index], "failed": [failed], "payload": [pickle.dumps(value)]}, _SCHEMA)


@contextmanager
def task_of_rows(stage: str) -> Iterator[None]:
    """Around a task that makes rows: it takes its own cores, and its error is found again in the message of Spark's."""
    _limit_threads()
    try:
        yield
    except Exception as error:
        raise _TaskFailed(_marked(stage, error)) from error


def _marked(stage: str, error: Exception) -> str:
    """An error as text: ours as it is, any other as a failure of the stage that says what it was."""
    failure = error if isinstance(error, OmnigraphError) else EngineFailed(stage, described(error))
    pickled = pickle.dumps(failure)
    if len(pickled) > _LARGEST_ERROR:
        pickled = pickle.dumps(EngineFailed(stage, described(error)))
    return f"{_MARK}{base64.b64encode(pickled).decode()};"


def described(error: BaseException) -> str:
    """What an error of another library is, in at most a few lines."""
    return f"{type(error).__name__}: {error}"[:_LONGEST_PROBLEM]


def error_in(message: str) -> OmnigraphError | None:
    """The error that a task put into the message of its failure, if it did."""
    found = _MARKED.search(message)
    if found is None:
        return None
    error = pickle.loads(base64.b64decode(found[1]))  # noqa: S301 - our own worker wrote it
    return error if isinstance(error, OmnigraphError) else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one part."""

    part: int
    failed: bool
    payload: bytes

    @property
    def value(self) -> Any:
        return pickle.loads(self.payload)  # noqa: S301 - our own worker wrote it


def _limit_threads() -> None:
    """Each of the tasks on a machine takes only its own cores, or they would stand in each other's way.

    Whoever uses DuckDB in a task asks `pyarrow.cpu_count` for the number of threads.
    """
    context = TaskContext.get()
    cores = max(1, context.cpus()) if context is not None else 1
    pa.set_cpu_count(cores)
    pa.set_io_thread_count(2 * cores)
    os.environ.setdefault("LANCE_CPU_THREADS", str(cores))
    os.environ.setdefault("LANCE_IO_THREADS", str(4 * cores))
    os.environ.setdefault("RAYON_NUM_THREADS", str(cores))
