"""Runs of pipelines that are killed at every step, and at any moment: each input row is in the graph exactly once."""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.failpoints import Point, Writer, WriteStep
from omnigraph.pipelines import read_pipeline
from tests.crash.children import SOAKING, Children
from tests.crash.spark_moments import ROOT, Moments, kill, of_environment, wait_until_gone
from tests.crash.till import PROGRAM, make_till, problems_of
from tests.spark_session import QUICKLY_COMPILED

PIPELINE_STEPS = (
    Point.PIPELINE_SOURCES_READ,
    Point.PIPELINE_ROWS_CHECKED,
    Point.PIPELINE_ROWS_REJECTED,
    Point.PIPELINE_BATCH_LOADED,
)
STEPS = (
    *PIPELINE_STEPS,
    *(f"{Writer.LOAD}.{step}" for step in WriteStep),
    *(Point.SIDECAR_WRITE, Point.TABLE_BEFORE_COMMIT, Point.PUBLISH_BEFORE_SWAP, Point.PUBLISH_AFTER_SWAP),
    Point.SIDECAR_DELETE,
)
"""The steps of a batch that is written directly."""
STEPS_OF_REVIEWS = (
    *(Point.BRANCH_LINE_CREATED, Point.BRANCH_CREATED),
    *(f"{Writer.LOAD}.{WriteStep.TABLE_STAGED}", f"{Writer.LOAD}.{WriteStep.AFTER_PHASE_B}"),
    *(Point.PIPELINE_BATCH_LOADED, Point.BRANCH_BEFORE_DELETE, Point.BRANCH_DELETED, Point.PIPELINE_BATCH_MERGED),
)
"""The steps of a batch that is written on a branch of its own and merged."""
RANDOM_KILLS = 50 if SOAKING else 5
ON_SPARK = pytest.mark.skipif(not SOAKING, reason="each kill starts a Spark: in `make soak`")


def problems_in(folder: Path) -> list[str]:
    """What the checker finds."""
    with og.open(folder / "till.omni", durability="fast") as graph:
        exported = graph.export()
        assert not isinstance(exported, int)
        batches = [each.batch for each in graph.commits.list() if each.application == "till" and each.batch is not None]
        return problems_of(folder / "landing", exported, batches)


def finish(folder: Path, engine: str = "local") -> None:
    """Lets a process run until nothing is new."""
    code, errors = Children(PROGRAM).ended(folder=str(folder), engine=engine, failpoints="")
    assert code == 0, errors


# --- in this process ---


@pytest.mark.parametrize("is_reviewed", [False, True], ids=["direct", "reviewed"])
def test_a_run_that_is_killed_at_every_step_loses_and_doubles_nothing(
    tmp_path: Path, is_reviewed: bool, kills: Callable[[int], None]
) -> None:
    steps = STEPS_OF_REVIEWS if is_reviewed else STEPS
    folder = make_till(tmp_path / "till", files=len(steps) + 1, is_reviewed=is_reviewed)
    for step in steps:
        code, errors = Children(PROGRAM).ended(folder=str(folder), engine="local", failpoints=f"{step}=crash")
        assert code == -signal.SIGKILL, (step, errors)
    assert problems_in(folder) != []  # there is more to come
    finish(folder)
    assert problems_in(folder) == []
    kills(len(steps))


@pytest.mark.long
def test_a_run_that_is_killed_at_any_moment_loses_and_doubles_nothing(
    tmp_path: Path, kills: Callable[[int], None]
) -> None:
    chance = random.Random(5)  # noqa: S311
    folder = make_till(tmp_path / "till", files=3 * RANDOM_KILLS)
    for _ in range(RANDOM_KILLS):
        with Children(PROGRAM).next() as child:
            child.tell(folder=str(folder), engine="local", failpoints="")
            assert child.stdout.readline() == "working\n"
            for _ in range(chance.randrange(3)):
                child.stdout.readline()
            time.sleep(chance.uniform(0, 0.4))
            child.kill()
            _, errors = child.communicate()
        assert child.returncode == -signal.SIGKILL
        assert "Traceback" not in errors
    finish(folder)
    assert problems_in(folder) == []
    kills(RANDOM_KILLS)


def test_the_checker_finds_rows_that_are_lost_or_doubled(tmp_path: Path) -> None:
    folder = make_till(tmp_path / "till", files=2)
    finish(folder)
    assert problems_in(folder) == []
    graph = og.open(folder / "till.omni")
    graph.load({"Receipt": [{"number": 0, "price": 1.5}]})
    graph.mutate("query gone { delete Receipt where number = 1 }")
    assert problems_in(folder) == [
        "lost 1 times: ('Receipt', 1, 3.0)",
        "there 1 times too often: ('Receipt', 0, 1.5)",
    ]


# --- on Spark ---


@ON_SPARK
def test_workers_that_are_killed_in_each_stage_of_a_batch_lose_and_double_nothing(
    spark: SparkSession, tmp_path: Path, kills: Callable[[int], None]
) -> None:
    folder = make_till(tmp_path / "till", files=1)
    moments = Moments(tmp_path, dict.fromkeys(("reading", "checking"), kill))
    with og.open(folder / "till.omni") as graph, moments.awaited():
        read_pipeline(folder / "till.yaml").run(graph, engine="spark")
    assert moments.missed == set()
    assert problems_in(folder) == []
    kills(2)


@contextlib.contextmanager
def spark_run(folder: Path, mark: str, failpoints: str) -> Iterator[subprocess.Popen[str]]:
    """A process that runs the pipeline on a Spark of its own; `mark` is in the environment of all that it starts."""
    start = "from omnigraph.spark.sessions import session; session('local[2]')"
    environment = {**os.environ, **QUICKLY_COMPILED, "OMNIGRAPH_SPARK_RECORD": "off", "OMNIGRAPH_MARK": mark}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", f"{start}{PROGRAM}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment,
    ) as child:
        assert child.stdin is not None
        child.stdin.write(json.dumps({"folder": str(folder), "engine": "spark", "failpoints": failpoints}) + "\n")
        child.stdin.flush()
        try:
            yield child
        finally:
            child.kill()


def kill_all(mark: str) -> int:
    """Kills the driver, its JVM and all workers at once; returns how many they were."""
    found = of_environment(mark)
    for process in found:
        with contextlib.suppress(ProcessLookupError):
            kill(process)
    return len(found)


@ON_SPARK
@pytest.mark.parametrize("is_whole_run", [False, True], ids=["driver", "whole run"])
def test_a_run_on_spark_that_is_killed_at_a_step_is_finished_by_the_next(
    tmp_path: Path, is_whole_run: bool, kills: Callable[[int], None]
) -> None:
    folder = make_till(tmp_path / "till", files=len(STEPS) + 1)
    killed = 0
    for number, step in enumerate(STEPS):
        mark = str(tmp_path / f"mark{number}")
        action = "pause" if is_whole_run else "crash"
        with spark_run(folder, mark, f"{step}={action}") as child:
            if is_whole_run:
                _wait_until_stopped(child)
                killed += kill_all(mark)
            assert child.wait(300) == -signal.SIGKILL, (step, child.stderr.read() if child.stderr else "")
            killed += not is_whole_run
        wait_until_gone(mark)
    finish(folder)
    assert problems_in(folder) == []
    kills(killed)


@ON_SPARK
def test_runs_on_spark_that_are_killed_at_any_moment_lose_and_double_nothing(
    tmp_path: Path, kills: Callable[[int], None]
) -> None:
    chance = random.Random(6)  # noqa: S311
    folder = make_till(tmp_path / "till", files=RANDOM_KILLS)
    killed = 0
    for number in range(RANDOM_KILLS):
        mark = str(tmp_path / f"mark{number}")
        with spark_run(folder, mark, "") as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "working\n"
            time.sleep(chance.uniform(0, 8))
            victims = of_environment(mark)
            if chance.random() < 0.5:
                killed += kill_all(mark)
            elif chance.random() < 0.5:
                kill(child.pid)
                killed += 1
            else:  # a JVM or a worker: the driver fails or tries again
                kill(chance.choice([each for each in victims if each != child.pid] or [child.pid]))
                killed += 1
                time.sleep(chance.uniform(0, 2))
                kill_all(mark)
            child.wait(300)
        wait_until_gone(mark)
    finish(folder)
    assert problems_in(folder) == []
    kills(killed)


def _wait_until_stopped(child: subprocess.Popen[Any]) -> None:
    """Until a process has stopped itself at a failpoint."""
    deadline = time.monotonic() + 300
    while True:
        assert child.poll() is None, child.stderr.read() if child.stderr else ""
        assert time.monotonic() < deadline
        state = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[0]
        if state == "T":
            return
        time.sleep(0.01)
