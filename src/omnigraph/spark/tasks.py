"""The code of a Spark task: one function is called on one part, and its result or its error becomes a row.

An error of the input would occur at every attempt. It is returned as a row, so that Spark does not repeat the task. Any
other error fails the task, and Spark repeats it. The error of the last attempt is read from the message of the failure,
because that is the only thing that every kind of session returns.
"""

import base64
import os
import pickle
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from omnigraph.errors import EngineFailed, OmnigraphError, StorageError

ROW = "part long, failed boolean, payload binary"
_SCHEMA = pa.schema([("part", pa.int64()), ("failed", pa.bool_()), ("payload", pa.binary())])
_MARK = "omnigraph-task-error:"
_MARKED = re.compile(_MARK + r"([A-Za-z0-9+/=]+);")
_MAX_PROBLEM_CHARACTERS = 2_000
_MAX_ERROR_BYTES = 16_000

Batches = Iterator[pa.RecordBatch]


class _TaskFailed(Exception):
    """Carries an error, pickled in its message, through the JVM."""

    def __init__(self, stage: str, error: Exception) -> None:
        """An error of ours as it is, any other as a failure of the stage."""
        summary = EngineFailed(stage, f"{type(error).__name__}: {error}"[:_MAX_PROBLEM_CHARACTERS])
        pickled = pickle.dumps(error if isinstance(error, OmnigraphError) else summary)
        if len(pickled) > _MAX_ERROR_BYTES:
            pickled = pickle.dumps(summary)
        super().__init__(_mark(pickled))


def task_of_parts(stage: str, work: Callable[[Any], Any], parts: Sequence[Any]) -> Callable[[Batches], Batches]:
    """A task for the numbers of parts: each becomes a row with the result of `work` on that part.

    All parts are sent to every worker, but a task unpickles only its own, because all of them would take long.
    """
    packed = [pickle.dumps(part) for part in parts]

    def task(batches: Batches) -> Batches:
        _limit_threads()
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield _row(stage, index, lambda: work(pickle.loads(packed[index])))  # noqa: B023, S301 - called at once

    return task


def task_of_partition(stage: str, work: Callable[[int, Batches], Any]) -> Callable[[Batches], Batches]:
    """A task for the rows of a partition: they become one row with the result of `work`."""

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
    except Exception as error:
        if isinstance(error, StorageError) or not isinstance(error, OmnigraphError):
            raise _TaskFailed(stage, error) from error
        failed, value = True, error
    return pa.RecordBatch.from_pydict({"part": [index], "failed": [failed], "payload": [pickle.dumps(value)]}, _SCHEMA)


@contextmanager
def task_of_rows(stage: str) -> Iterator[None]:
    """Wraps a task that makes rows: it uses its own cores, and its error can be read from the message of Spark's."""
    _limit_threads()
    try:
        yield
    except Exception as error:
        raise _TaskFailed(stage, error) from error


def message_with(error: OmnigraphError) -> str:
    """What Spark is to fail with instead of an error, so that `error_in` finds it."""
    return f"{error} {_mark(pickle.dumps(error))}"


def _mark(pickled: bytes) -> str:
    return f"{_MARK}{base64.b64encode(pickled).decode()};"


def error_in(message: str) -> OmnigraphError | None:
    """The error that a task or an expression has written into the message of its failure, if any."""
    found = _MARKED.search(message)
    if found is None:
        return None
    error = pickle.loads(base64.b64decode(found[1]))  # noqa: S301 - our own worker wrote it
    return error if isinstance(error, OmnigraphError) else None


def _limit_threads() -> None:
    """Limits this process to the cores of its task, because other tasks run on the same machine.

    Code that uses DuckDB in a task takes the number of threads from `pyarrow.cpu_count`.
    """
    context = TaskContext.get()
    cores = max(1, context.cpus()) if context is not None else 1
    pa.set_cpu_count(cores)
    pa.set_io_thread_count(2 * cores)
    os.environ.setdefault("LANCE_CPU_THREADS", str(cores))
    os.environ.setdefault("LANCE_IO_THREADS", str(4 * cores))
    os.environ.setdefault("RAYON_NUM_THREADS", str(cores))
