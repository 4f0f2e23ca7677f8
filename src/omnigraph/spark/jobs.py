"""One Spark job that can be watched and cancelled, in a session of this process's JVM or over Spark Connect.

A job runs in a thread of its own, and another one counts what is done. So the caller's thread is free to report
progress, and Ctrl-C meets it there and not in the middle of a call to the JVM.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, Protocol

from py4j.protocol import Py4JError
from pyspark import InheritableThread, SparkContext
from pyspark.sql import DataFrame, Row, SparkSession

from omnigraph.spark.interrupts import held_back

_POLL = 0.1
_LONGEST_GOODBYE = 20.0


class Job(Protocol):
    """How the two kinds of sessions watch and cancel what one thread of theirs runs."""

    def begin(self) -> None:
        """Called in the job's thread before it runs anything: what it runs from now on is this job's."""

    def end(self) -> None:
        """Called in the job's thread when it is done."""

    def completed(self) -> int:
        """How many of its tasks are done."""

    def cancel(self) -> None:
        """Ends what the thread runs, and refuses what it would still begin."""

    def active(self) -> bool:
        """Whether something of it runs on."""


class _ClassicJob:
    """A job group, which a SparkContext can follow and cancel by its name."""

    def __init__(self, context: SparkContext, stage: str) -> None:
        self._context, self._stage = context, stage
        self._group = f"omnigraph-{uuid.uuid4().hex}"

    def begin(self) -> None:
        self._context.setJobGroup(self._group, f"omnigraph: {self._stage}", interruptOnCancel=True)

    def end(self) -> None:
        """The thread ends, and its properties with it."""

    def completed(self) -> int:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        # The last stage is the one with the tasks; those before it, if there are any, only bring its rows.
        return max((stage.numCompletedTasks for stage in stages[-1:] if stage is not None), default=0)

    def cancel(self) -> None:
        # A plain cancel does not know a job that the JVM is about to begin.
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._group)

    def active(self) -> bool:
        tracker = self._context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group)]
        return any(job is not None and job.status == "RUNNING" for job in jobs)


class _ConnectJob:
    """A tag, by which a Connect server interrupts; progress comes with the answers of the server."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._tag = f"omnigraph-{uuid.uuid4().hex}"
        self._thread: int | None = None
        self._completed = 0

    def begin(self) -> None:
        self._thread = threading.get_ident()
        self._session.addTag(self._tag)
        self._session.registerProgressHandler(self._heard)

    def end(self) -> None:
        self._session.removeProgressHandler(self._heard)
        self._session.removeTag(self._tag)

    def _heard(self, stages: Iterable[Any] | None, **_: Any) -> None:
        # A handler hears of every job of the session, each in the thread that runs it.
        if threading.get_ident() == self._thread:
            self._completed = max((stage.num_completed_tasks for stage in [*(stages or ())][-1:]), default=0)

    def completed(self) -> int:
        return self._completed

    def cancel(self) -> None:
        self._session.interruptTag(self._tag)

    def active(self) -> bool:
        return False


def is_classic(session: SparkSession) -> bool:
    """Whether the session has its JVM in this process's hands, and not at the other end of Spark Connect."""
    return hasattr(session, "_jsparkSession")


@contextmanager
def tagged(session: SparkSession, tag: str) -> Iterator[Callable[[], object]]:
    """Gives what cancels all jobs that this thread begins in the block; any thread may call it.

    In a classic session its own tags would not reach the thread of the JVM that collects rows as Arrow.
    """
    if not is_classic(session):
        session.addTag(tag)
        try:
            yield lambda: session.interruptTag(tag)
        finally:
            session.removeTag(tag)
        return
    context = session.sparkContext
    context.addJobTag(tag)
    try:
        yield lambda: context.cancelJobsWithTag(tag)
    finally:
        context.removeJobTag(tag)


def rows_of(frame: DataFrame, *, stage: str, watch: Callable[[int], None]) -> list[Row]:
    """All rows of a frame; `watch` is told how many tasks are done, when that changes.

    Whatever ends the wait early, Ctrl-C or an error of `watch`, also ends the job.
    """
    session = frame.sparkSession
    job: Job = _ClassicJob(session.sparkContext, stage) if is_classic(session) else _ConnectJob(session)
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
        _follow(thread, job, session, watch)
    except BaseException:
        with held_back():
            _abandon(thread, job)
        raise
    [rows] = outcome
    if isinstance(rows, BaseException):
        raise rows
    return rows


def _follow(thread: threading.Thread, job: Job, session: SparkSession, watch: Callable[[int], None]) -> None:
    """Starts the job's thread, waits for it, and tells `watch` what another one counts.

    The thread that waits asks the JVM nothing, and so it can be interrupted.
    """
    counts: SimpleQueue[int | None] = SimpleQueue()

    def count() -> None:
        try:
            while thread.is_alive():
                counts.put(job.completed())
                thread.join(_POLL)
        except Py4JError:
            thread.join()  # the JVM is gone, and the job says so itself
        finally:
            counts.put(None)

    counting = InheritableThread(count, session=session, name=f"{thread.name}-progress", daemon=True)
    with held_back():
        thread.start()
        counting.start()
    seen = 0
    while (completed := counts.get()) is not None:
        if completed > seen:
            seen = completed
            watch(seen)
    thread.join()


def _abandon(thread: threading.Thread, job: Job) -> None:
    """Cancels the job and waits until nothing of it runs."""
    deadline = time.monotonic() + _LONGEST_GOODBYE
    while thread.is_alive() and time.monotonic() < deadline:
        job.cancel()
        thread.join(0.5)
    while job.active() and time.monotonic() < deadline:
        time.sleep(_POLL)
