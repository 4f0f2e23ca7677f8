"""Loads on Spark whose workers, driver or input are lost in the middle: all of a load is there once, or none of it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.failpoints import Writer, WriteStep
from omnigraph.storage.locks import LOCK_FOLDER
from tests.crash import spark_moments
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.crash.spark_moments import ROOT, Moments, driver, kill, wait_until_gone
from tests.spark_session import QUICKLY_COMPILED

SCHEMA = """
node Person { name: String @key, age: I32?, mail: String? @unique }
edge Knows: Person -> Person
"""
PEOPLE = 120
Rows = tuple[list[tuple[str, int | None]], list[tuple[str, str]]]

EMPTY: Rows = ([], [])
ALL: Rows = (
    sorted((f"p{number}", number % 90) for number in range(PEOPLE)),
    sorted((f"p{number}", f"p{(7 * number) % PEOPLE}") for number in range(PEOPLE)),
)


def records(people: range, age: int | None = None) -> list[dict[str, Any]]:
    """People, each with one edge; without `age`, as `ALL` has them."""
    nodes = [
        {"type": "Person", "data": {"name": f"p{number}", "age": number % 90 if age is None else age}}
        for number in people
    ]
    if age is not None:
        return nodes
    edges = [{"edge": "Knows", "from": f"p{number}", "to": f"p{(7 * number) % PEOPLE}"} for number in people]
    return [record for pair in zip(nodes, edges, strict=True) for record in pair]


def lines(path: Path, *given: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in given))
    return path


def rows_of(graph: og.Graph) -> Rows:
    snapshot = graph.snapshot()
    people = snapshot.table("node:Person").scan(["name", "age"]).to_pylist()
    knows = snapshot.table("edge:Knows").scan(["src", "dst"]).to_pylist()
    return sorted((row["name"], row["age"]) for row in people), sorted((row["src"], row["dst"]) for row in knows)


def files_of(graph: og.Graph) -> set[Path]:
    """The files with the rows of all tables, seen by a version or not."""
    return {path for path in Path(graph.uri).rglob("data/*.lance") if path.is_file()}


def scratch_of(graph: og.Graph) -> list[Path]:
    folder = Path(graph.uri) / "__bulk"
    return [path for path in folder.iterdir() if path.name != LOCK_FOLDER] if folder.exists() else []


def assert_sound(graph: og.Graph, rows: Rows) -> None:
    """Exactly these rows, in a graph on which nothing of a dead load lies."""
    assert rows_of(graph) == rows
    assert graph.recoveries.pending() == []
    assert scratch_of(graph) == []
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA, durability="fast")


@pytest.fixture
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some files of a few kilobytes are many parts, and a few hundred keys many buckets."""
    monkeypatch.setattr("omnigraph.loading.sources.PART_BYTES", spark_moments.PART_BYTES)
    monkeypatch.setattr("omnigraph.parts.buckets.KEYS_A_BUCKET", spark_moments.KEYS_A_BUCKET)


@pytest.mark.usefixtures("in_small_parts")
def test_workers_that_are_killed_in_two_stages_of_a_merge_lose_and_double_nothing(
    spark: SparkSession, graph: og.Graph, tmp_path: Path, kills: Callable[[int], None]
) -> None:
    graph.load(lines(tmp_path / "first.jsonl", *records(range(0, PEOPLE, 2), age=5)), engine="local")
    moments = Moments(tmp_path, dict.fromkeys(("reading", "merging"), kill))
    with moments.awaited():
        result = graph.load(lines(tmp_path / "data.jsonl", *records(range(PEOPLE))), "merge", engine="spark")
    assert moments.missed == set()
    assert (result.nodes, result.edges) == ({"Person": PEOPLE}, {"Knows": PEOPLE})
    assert_sound(graph, ALL)
    kills(2)


@dataclass(frozen=True, slots=True)
class Death:
    """When a driver dies: while the tasks of a stage run, or at a failpoint; and whether its load is complete then."""

    stage: str | None = None
    failpoints: str = ""
    complete: bool = False


DEATHS = [
    Death(stage="reading"),
    Death(stage="checking"),
    Death(failpoints=f"{Writer.LOAD}.{WriteStep.TABLE_STAGED}=crash@2"),
    Death(failpoints=f"{Writer.LOAD}.{WriteStep.AFTER_PHASE_B}=crash", complete=True),
]


@pytest.mark.long
def test_a_driver_that_is_killed_leaves_no_process_and_all_or_nothing(
    spark: SparkSession, tmp_path: Path, kills: Callable[[int], None]
) -> None:
    data = lines(tmp_path / "data.jsonl", *records(range(PEOPLE)))
    mark = str(tmp_path / "mark")
    graphs = [og.init(tmp_path / f"graph{number}", SCHEMA, durability="fast") for number in range(len(DEATHS))]
    # Two at a time, as there may be no more cores than that.
    for first in range(0, len(DEATHS), 2):
        pairs = [*zip(graphs, DEATHS, strict=True)][first : first + 2]
        with contextlib.ExitStack() as ended:
            drivers = [ended.enter_context(driver(mark)) for _ in pairs]
            for child, (graph, death) in zip(drivers, pairs, strict=True):
                assert child.stdin is not None
                told = {"uri": graph.uri, "data": str(data), "stage": death.stage, "failpoints": death.failpoints}
                folder = Path(f"{graph.uri}-moments")
                folder.mkdir()
                child.stdin.write(json.dumps({**told, "folder": str(folder)}) + "\n")
                child.stdin.flush()
            for child, (_, death) in zip(drivers, pairs, strict=True):
                _, errors = child.communicate(timeout=300)
                assert child.returncode == -signal.SIGKILL, (death, errors)
    wait_until_gone(mark)
    for graph, death in zip(graphs, DEATHS, strict=True):
        assert len(scratch_of(graph)) == 1
        reopened = og.open(graph.uri, durability="fast")
        assert rows_of(reopened) == (ALL if death.complete else EMPTY), death
        again = records(range(0, PEOPLE, 40), age=7) if death.complete else records(range(PEOPLE))
        reopened.load(lines(tmp_path / "again.jsonl", *again), "merge", engine="spark")
        aged = {f"p{number}": 7 for number in range(0, PEOPLE, 40)} if death.complete else {}
        assert_sound(reopened, (sorted((name, aged.get(name, age)) for name, age in ALL[0]), ALL[1]))
    kills(len(DEATHS))


# What a shell starts in the background ignores Ctrl-C, and so would whoever it starts. One of the tasks waits for it.
COMMAND = """
import signal, sys, threading
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)
from omnigraph.cli.main import run
from tests.crash.spark_moments import Moments
with Moments(Path(sys.argv.pop(1)), {"reading": lambda _: threading.Event().wait()}).awaited():
    run()
"""


def test_ctrl_c_on_the_command_ends_it_and_all_that_it_started(graph: og.Graph, tmp_path: Path) -> None:
    many, moments = tmp_path / "many", tmp_path / "moments"
    many.mkdir()
    moments.mkdir()
    for number in range(400):
        lines(many / f"{number}.jsonl", *records(range(number, number + 1), age=1))
    mark = str(tmp_path / "mark")
    command = [sys.executable, "-c", COMMAND, str(moments)]
    command += ["load", graph.uri, "--data", str(many), "--engine", "spark"]
    environment = {**os.environ, **QUICKLY_COMPILED, "OMNIGRAPH_SPARK_RECORD": "off", "OMNIGRAPH_MARK": mark}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        deadline = time.monotonic() + 240
        while not (moments / "reading").is_symlink():
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=240)
    assert child.returncode in (1, 130), errors
    assert "Traceback" not in errors
    assert output == ""
    wait_until_gone(mark)
    assert scratch_of(graph) == []
    assert rows_of(graph) == EMPTY
    graph.load(lines(tmp_path / "data.jsonl", *records(range(PEOPLE))), engine="local")
    assert_sound(graph, ALL)


@pytest.mark.usefixtures("in_small_parts")
def test_an_input_that_is_lost_in_the_middle_leaves_nothing(
    spark: SparkSession, graph: og.Graph, tmp_path: Path
) -> None:
    data = lines(tmp_path / "data.jsonl", *records(range(PEOPLE)))
    moments = Moments(tmp_path, {"reading": lambda _: data.unlink()}, before_work=True)
    with pytest.raises(og.StorageError) as caught, moments.awaited():
        graph.load(data, engine="spark")
    assert "data.jsonl" in str(caught.value)
    assert_sound(graph, EMPTY)
    graph.load(lines(data, *records(range(PEOPLE))), engine="local")
    assert_sound(graph, ALL)


@pytest.mark.usefixtures("in_small_parts")
def test_a_table_that_cannot_be_written_leaves_nothing(spark: SparkSession, graph: og.Graph, tmp_path: Path) -> None:
    data = lines(tmp_path / "data.jsonl", *records(range(PEOPLE)))
    pin = graph.snapshot().manifest.pins["edge:Knows"]
    folder = Path(graph.uri) / pin.path / "data"
    if folder.exists():
        folder.rmdir()
    folder.touch()  # even root cannot make a file below a file
    with pytest.raises(og.StorageError):
        graph.load(data, engine="spark")
    assert_sound(graph, EMPTY)
    folder.unlink()
    graph.load(data, engine="local")
    assert_sound(graph, ALL)


@pytest.mark.usefixtures("in_small_parts")
def test_rows_that_were_written_before_a_check_failed_are_removed(
    spark: SparkSession, graph: og.Graph, tmp_path: Path
) -> None:
    graph.load(lines(tmp_path / "data.jsonl", *records(range(PEOPLE))), engine="local")
    before = files_of(graph)
    dangling = {"edge": "Knows", "from": "q5", "to": "nobody"}
    people = [{"type": "Person", "data": {"name": f"q{number}"}} for number in range(200)]
    with pytest.raises(og.ValidationError, match="nobody"):
        graph.load(lines(tmp_path / "more.jsonl", *people, dangling), engine="spark")
    assert files_of(graph) == before
    assert_sound(graph, ALL)
