"""One Spark job that can be watched and cancelled, in a session of this process's JVM or over Spark Connect.

A job runs in a thread of its own, and another one counts its finished tasks. So the caller's thread is free to report
progress, and Ctrl-C arrives there and not in the middle of a call to the JVM.
"""

import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeAlias

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.sql import DataFrame, Row, SparkSession

_POLL_SECONDS = 0.1
_CANCEL_SECONDS = 20.0


@contextmanager
def defer_interrupts() -> Iterator[None]:
    """Delays Ctrl-C to the end of the block, in which this thread calls the JVM.

    An interrupt between a call and its answer would break the connection, and the handler of PySpark would use the same
    connection. The handler from before is restored, with one exception: if that was Python's own, a handler that the
    block has installed stays.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield  # signals arrive in the main thread only, and a handler that is not Python's cannot be restored
        return
    received: list[int] = []

    def note(number: int, _: object) -> None:
        received.append(number)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if before is not signal.default_int_handler or signal.getsignal(signal.SIGINT) is note:
            signal.signal(signal.SIGINT, before)
    if received:
        signal.raise_signal(signal.SIGINT)


class _ClassicJob:
    """A job group, which a SparkContext can watch and cancel by its name."""

    def __init__(self, context: SparkContext, stage: str) -> None:
        self._context, self._stage = context, stage
        self._group = f"omnigraph-{uuid.uuid4().hex}"

    def begin(self) -> None:
        """Is called in the job's thread first: everything that the thread runs afterwards belongs to the job."""
        self._context.setJobGroup(self._group, f"omnigraph: {self._stage}", interruptOnCancel=True)

    def end(self) -> None:
        """Is called in the job's thread at last. Nothing to do: the properties of a thread end with it."""

    def _infos(self) -> list[Any]:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        return [job for job in jobs if job is not None]

    def count_finished_tasks(self) -> int:
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(stage) for job in self._infos() for stage in job.stageIds]
        # The last stage is the one with the tasks; those before it, if there are any, only provide its rows.
        return max((stage.numCompletedTasks for stage in stages[-1:] if stage is not None), default=0)

    def cancel(self) -> None:
        """Cancels what the thread runs, and what it would still begin."""
        # A plain cancel does not know a job that the JVM is about to begin.
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)

    def is_running(self) -> bool:
        return any(job.status == "RUNNING" for job in self._infos())


class _ConnectJob:
    """A tag, by which a Connect server cancels; progress comes with the answers of the server."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._tag = f"omnigraph-{uuid.uuid4().hex}"
        self._thread: int | None = None
        self._finished_tasks = 0

    def begin(self) -> None:
        self._thread = threading.get_ident()
        self._session.addTag(self._tag)
        self._session.registerProgressHandler(self._note_progress)

    def end(self) -> None:
        self._session.removeProgressHandler(self._note_progress)
        self._session.removeTag(self._tag)

    def _note_progress(self, stages: Iterable[Any] | None, **_: Any) -> None:
        # A handler is called for every job of the session, each time in the thread that runs the job.
        if threading.get_ident() == self._thread:
            self._finished_tasks = max((stage.num_completed_tasks for stage in [*(stages or ())][-1:]), default=0)

    def count_finished_tasks(self) -> int:
        return self._finished_tasks

    def cancel(self) -> None:
        self._session.interruptTag(self._tag)

    def is_running(self) -> bool:
        return False


_Job: TypeAlias = _ClassicJob | _ConnectJob


def is_classic(session: SparkSession) -> bool:
    """Whether the session has a JVM that belongs to this process, and is not one of Spark Connect."""
    return hasattr(session, "_jsparkSession")


@contextmanager
def tag_jobs(session: SparkSession, tag: str) -> Iterator[Callable[[], object]]:
    """Gives a function that cancels all jobs that this thread begins in the block; any thread may call it."""
    # In a classic session its own tags would not reach the thread of the JVM that collects rows as Arrow.
    context = session.sparkContext if is_classic(session) else None
    add, remove, cancel = (
        (session.addTag, session.removeTag, session.interruptTag)
        if context is None
        else (context.addJobTag, context.removeJobTag, context.cancelJobsWithTag)
    )
    add(tag)
    try:
        yield lambda: cancel(tag)
    finally:
        remove(tag)


def collect_rows(frame: DataFrame, *, stage: str, on_progress: Callable[[int], None]) -> list[Row]:
    """All rows of a frame; `on_progress` is called with the number of finished tasks when it changes.

    Whatever ends the wait early, Ctrl-C or an error of `on_progress`, also ends the job.
    """
    session = frame.sparkSession
    job: _Job = _ClassicJob(session.sparkContext, stage) if is_classic(session) else _ConnectJob(session)
    outcome: list[list[Row] | BaseException] = []

    def run() -> None:
        try:
            job.begin()
            try:
                outcome.append(frame.collect())
            finally:
                job.end()
        except BaseException as error:  # raised again in the thread that waits
            outcome.append(error)

    thread = InheritableThread(run, session=session, name=f"omnigraph-{stage}", daemon=True)
    try:
        _follow(thread, job, session, on_progress)
    except BaseException:
        with defer_interrupts():
            _abandon(thread, job)
        raise
    [rows] = outcome
    if isinstance(rows, BaseException):
        raise rows
    return rows


def _follow(thread: threading.Thread, job: _Job, session: SparkSession, on_progress: Callable[[int], None]) -> None:
    """Starts the job's thread, waits for it, and reports what another thread counts.

    The thread that waits does not call the JVM, so it can be interrupted.
    """
    counts: SimpleQueue[int | None] = SimpleQueue()

    def count() -> None:
        try:
            while thread.is_alive():
                counts.put(job.count_finished_tasks())
                thread.join(_POLL_SECONDS)
        except Py4JError:
            thread.join()  # the JVM has ended, and the job raises that itself
        finally:
            counts.put(None)

    counting = InheritableThread(count, session=session, name=f"{thread.name}-progress", daemon=True)
    with defer_interrupts():
        thread.start()
        counting.start()
    seen = 0
    while (finished := counts.get()) is not None:
        if finished > seen:
            seen = finished
            on_progress(seen)
    thread.join()


def _abandon(thread: threading.Thread, job: _Job) -> None:
    """Cancels the job and waits until nothing of it runs."""
    deadline = time.monotonic() + _CANCEL_SECONDS
    while thread.is_alive() and time.monotonic() < deadline:
        job.cancel()
        thread.join(0.5)
    while job.is_running() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
