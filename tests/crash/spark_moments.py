"""What happens while a task of a Spark job is at work, and a driver that dies just then."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.failpoints import armed
from omnigraph.loading import sources
from omnigraph.parts import buckets
from omnigraph.spark.engine import SparkEngine
from tests.spark_session import QUICKLY_COMPILED

ROOT = Path(__file__).parents[2]
PART_BYTES = 1_300
KEYS_A_BUCKET = 40
DRIVER = "import sys; from tests.crash.spark_moments import drive; drive(sys.stdin.readline())"
_PATIENCE = 240.0


class Moments:
    """Does something while a task of a stage is at work, once for each stage that is named.

    The first task that comes so far says which process it is, and waits until that is done. So it does not matter how
    fast anybody is. It waits before its work, or when only its answer is missing. Its `folder` is one that the tasks
    reach, and that no other moments use.
    """

    def __init__(self, folder: Path, actions: dict[str, Callable[[int], None]], *, before_work: bool = False) -> None:
        self.missed = set(actions)
        self._folder, self._actions, self._before_work = folder, actions, before_work

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """What runs on Spark in the block has these moments."""
        run = SparkEngine.run

        def with_a_moment(engine: SparkEngine, stage: str, work: Any, parts: Any, **options: Any) -> Any:
            if stage not in self._actions:
                return run(engine, stage, work, parts, **options)
            held = _Held(work, self._folder / stage, self._before_work)
            acting = threading.Thread(target=self._act, args=(stage, held), daemon=True)
            acting.start()
            results = run(engine, stage, held, parts, **options)
            acting.join()
            return results

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SparkEngine, "run", with_a_moment)
            yield

    def _act(self, stage: str, held: "_Held") -> None:
        for _ in until(_PATIENCE):
            if held.place.is_symlink():
                self._actions[stage](int(held.place.readlink().name))
                self.missed.discard(stage)
                held.over.touch()
                return


@dataclass(frozen=True, slots=True)
class _Held:
    """The work of a stage, of which one task waits for what is to happen meanwhile; `place` is a link to its number."""

    work: Callable[[Any], Any]
    place: Path
    before_work: bool

    @property
    def over(self) -> Path:
        return self.place.with_suffix(".over")

    def __call__(self, part: Any) -> Any:
        if self.before_work:
            self._wait()
        result = self.work(part)
        if not self.before_work:
            self._wait()
        return result

    def _wait(self) -> None:
        try:
            self.place.symlink_to(str(os.getpid()))
        except FileExistsError:
            return
        for _ in until(_PATIENCE):
            if self.over.exists():
                return


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def until(patience: float) -> Any:
    """Rounds, a few milliseconds apart, until so many seconds are over."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        yield
        time.sleep(0.005)


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


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


def wait_until_gone(mark: str, seconds: float = _PATIENCE) -> None:
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
    session("local[2]")
    deaths = Moments(Path(told["folder"]), {told["stage"]: lambda _: kill(os.getpid())} if told["stage"] else {})
    with armed(told["failpoints"]), deaths.awaited():
        og.open(told["uri"]).load(told["data"], engine="spark")
    raise AssertionError("it should be dead")
