"""When tasks of a Spark job run, which processes work on them, and a driver that dies just then."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.bulk import buckets, sources
from omnigraph.bulk.engine import Progress, Report
from omnigraph.failpoints import armed
from tests.spark_session import QUICKLY_COMPILED

ROOT = Path(__file__).parents[2]
PART_BYTES = 1_300
KEYS_A_BUCKET = 40
DRIVER = "import sys; from tests.crash.spark_moments import drive; drive(sys.stdin.readline())"
_PATIENCE = 120.0


class Moments:
    """Does something while the tasks of a stage run, once for each stage that is named.

    How fast the tasks are does not matter: a thread looks for them all the time from before the first one.
    """

    def __init__(self, session: SparkSession, actions: dict[str, Callable[[], None]]) -> None:
        self.missed = set(actions)
        self._session, self._actions = session, actions
        self._threads: list[threading.Thread] = []

    def report(self, progress: Progress) -> None:
        """To be given to a load."""
        if progress.stage in self._actions and progress.done == 0 and progress.total:
            thread = threading.Thread(target=self._act, args=(progress.stage,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(_PATIENCE)

    def _act(self, stage: str) -> None:
        tracker = self._session.sparkContext.statusTracker()
        for _ in until(_PATIENCE):
            infos = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
            if any(info is not None and info.numActiveTasks for info in infos):
                self._actions.pop(stage)()
                self.missed.discard(stage)
                return


def until(patience: float) -> Any:
    """Rounds, a few milliseconds apart, until so many seconds are over."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        yield
        time.sleep(0.005)


def failed_tasks(session: SparkSession) -> int:
    """How many attempts of tasks have failed in the stages that run."""
    tracker = session.sparkContext.statusTracker()
    infos = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
    return sum(info.numFailedTasks for info in infos if info is not None)


def kill_a_worker(session: SparkSession) -> None:
    """Kills the Python processes of the session one by one, until one of them was at work."""
    before = failed_tasks(session)
    for _ in until(_PATIENCE):
        for worker in workers_of(os.getpid()):
            os.kill(worker, signal.SIGKILL)
            for _ in until(0.3):
                if failed_tasks(session) > before:
                    return
    raise AssertionError("no worker was at work")


def workers_of(driver: int) -> list[int]:
    """The processes that a daemon of PySpark below a driver has forked."""
    parents = {int(folder.name): _parent(folder) for folder in Path("/proc").iterdir() if folder.name.isdigit()}
    daemons = {pid for pid in parents if _is_daemon(pid) and driver in _above(parents, pid)}
    return [pid for pid, parent in parents.items() if parent in daemons]


def _above(parents: dict[int, int], pid: int) -> list[int]:
    found = []
    while pid := parents.get(pid, 0):
        found.append(pid)
    return found


def _parent(folder: Path) -> int:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return 0


def _is_daemon(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def of_environment(text: str) -> list[int]:
    """The processes that have a text in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and text.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended
            continue
    return found


def wait_until_gone(mark: str, seconds: float = 60.0) -> None:
    """Waits until no process has a mark in its environment."""
    for _ in until(seconds):
        left = of_environment(mark)
        if not left:
            return
    raise AssertionError(f"still there: {left}")


# --- drivers ---


def driver(mark: str) -> subprocess.Popen[str]:
    """A process that starts Spark and waits for its load on stdin; `mark` is in the environment of all it starts."""
    return subprocess.Popen(
        [sys.executable, "-c", DRIVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **QUICKLY_COMPILED, "OMNIGRAPH_SPARK_RECORD": "off", "OMNIGRAPH_MARK": mark},
    )


def drive(job: str) -> None:
    """What such a process does: a load in many small parts, in which it dies at a failpoint or while a stage runs."""
    from omnigraph.spark.sessions import session  # noqa: PLC0415 - heavy

    told = json.loads(job)
    sources.PART_BYTES, buckets.KEYS_A_BUCKET = PART_BYTES, KEYS_A_BUCKET
    report: Report = lambda _: None  # noqa: E731
    running = session("local[2]")
    if told["stage"]:
        report = Moments(running, {told["stage"]: lambda: os.kill(os.getpid(), signal.SIGKILL)}).report
    with armed(told["failpoints"]):
        og.open(told["uri"]).load(told["data"], engine="spark", report=report)
    raise AssertionError("it should be dead")
