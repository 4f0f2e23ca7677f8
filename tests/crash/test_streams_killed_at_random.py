"""Four streams at once, of which a worker, the driver or the whole run is killed again and again, at any moment.

Lines are appended to one graph and merged into another, whose changes go to a copy and to Parquet. In the end each row
is there exactly once, as `tests.crash.stream_checker` finds, and changes are those of the states.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import omnigraph as og
from omnigraph.datasource.change_rows import BEFORE, CHANGE, VERSION
from tests.behaviour.streams import APPLIED, COPY, jvm_of, kill_all, read_lines, write_lines
from tests.crash.children import SOAKING
from tests.crash.spark_moments import ROOT, of_environment, until
from tests.crash.stream_checker import check_appended, check_changes, check_copied, check_merged
from tests.crash.test_streams_killed import export
from tests.spark_session import QUICKLY_COMPILED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

SCHEMA = "node Person { name: String @key, age: I32? }\nnode Note { text: String }"
KINDS = ["worker", "driver", "run"]
KILLS = 50 if SOAKING else len(KINDS)
_DRIVER = "import sys; from tests.crash.test_streams_killed_at_random import follow; follow(sys.argv[1])"
_PATIENCE = 300.0


def streams_in(spark: "SparkSession", folder: Path) -> "dict[str, DataStreamWriter]":
    """The streams, each with its checkpoint."""
    notes = read_lines(spark, folder / "notes", "text string").writeStream.format("omnigraph")
    people = read_lines(spark, folder / "people", "name string, age int").writeStream.format("omnigraph")
    changed = spark.readStream.format("omnigraph").options(type="Person", startingVersion="1", maxCommitsPerTrigger="2")
    changes = changed.load(str(folder / "people.omni"))
    copied = changes.selectExpr(*COPY).writeStream.format("omnigraph").options(**APPLIED)
    streams = {
        "notes": notes.options(type="Note", path=f"{folder}/notes.omni"),
        "people": people.options(type="Person", mode="merge", path=f"{folder}/people.omni"),
        "copy": copied.options(path=f"{folder}/copy.omni"),
        "changes": changes.writeStream.format("parquet").options(path=f"{folder}/changes"),
    }
    return {name: each.option("checkpointLocation", f"{folder}/checkpoints/{name}") for name, each in streams.items()}


def follow(folder: str) -> None:
    """Runs the streams, and starts one that has failed again, until it is killed."""
    from omnigraph.spark.sessions import session  # noqa: PLC0415 - heavy

    streams = streams_in(session("local[3]"), Path(folder))
    queries = {name: stream.start() for name, stream in streams.items()}
    sys.stdout.write("following\n")
    sys.stdout.flush()
    while True:
        for name, query in queries.items():
            if not query.isActive:
                queries[name] = streams[name].start()
        time.sleep(0.02)


@contextmanager
def driver(folder: Path, mark: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, **QUICKLY_COMPILED, "OMNIGRAPH_SPARK_RECORD": "off", "OMNIGRAPH_MARK": mark}
    command = [sys.executable, "-W", "ignore", "-c", _DRIVER, str(folder)]
    with (
        (folder / "errors").open("a") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=ROOT,
            env=environment,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "following\n", (folder / "errors").read_text()
            yield process
        finally:
            kill_all(mark)


@pytest.mark.long
def test_streams_that_are_killed_at_random_have_each_row_exactly_once(
    spark: "SparkSession", tmp_path: Path, kills: Callable[[int], None]
) -> None:
    chance = random.Random(22)  # noqa: S311
    for name in ("notes", "people", "copy"):
        og.init(tmp_path / f"{name}.omni", SCHEMA, durability="fast")
    killed = Counter[str]()
    mark, files = str(tmp_path / "mark"), write_more(tmp_path, 0)
    while killed.total() < KILLS:
        with driver(tmp_path, mark) as process:
            alive = True
            while alive and killed.total() < KILLS:
                files = write_more(tmp_path, files)
                time.sleep(chance.uniform(0, 3.0))
                kind = chance.choices(KINDS, (3, 1, 1))[0] if SOAKING else KINDS[killed.total()]
                assert process.poll() is None, (tmp_path / "errors").read_text()
                kill_some(kind, process.pid, mark, chance)
                killed[kind] += 1
                alive = kind == "worker"
    for query in [stream.trigger(availableNow=True).start() for stream in streams_in(spark, tmp_path).values()]:
        query.awaitTermination()
    # What was merged by the last batches was not there yet when the streams of changes were started.
    for name in ("copy", "changes"):
        streams_in(spark, tmp_path)[name].trigger(availableNow=True).start().awaitTermination()
    assert judged(spark, tmp_path) == []
    kills(killed.total())


def write_more(folder: Path, files: int) -> int:
    """Two more files for each stream of lines; gives how many there are."""
    for number in (files, files + 1):
        write_lines(folder / "notes", number, *({"text": f"note {number}.{row}"} for row in range(5)))
        people = ({"name": f"p{(number * 7 + row) % 23}", "age": number} for row in range(5))
        write_lines(folder / "people", number, *people)
    return files + 2


def kill_some(kind: str, process: int, mark: str, chance: random.Random) -> None:
    """Kills one process of a driver, the driver without its processes, or all of them."""
    if kind == "run":
        kill_all(mark)
        return
    jvm = jvm_of(process)
    if kind == "driver":
        chosen = [jvm, process]
    else:
        workers: list[int] = []
        for _ in until(_PATIENCE):
            workers = [each for each in of_environment(mark) if each not in (jvm, process)]
            if workers:
                break
        chosen = [chance.choice(workers)]
    for number in chosen:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def judged(spark: "SparkSession", folder: Path) -> list[str]:
    """What is wrong with the outcome."""
    graphs = {name: og.open(folder / f"{name}.omni", durability="fast") for name in ("notes", "people", "copy")}
    for name, graph in graphs.items():
        export(graph, folder / f"{name}.jsonl")
        (folder / f"{name}.commits").write_text(json.dumps([each.as_json() for each in graph.commits.list()]))
    diffs = (
        _change(block.commit.manifest_version, change.kind.value, change.after, change.before)
        for block in graphs["people"].changes(types="Person")
        for change in block.changes()
    )
    rows = spark.read.parquet(str(folder / "changes")).collect()
    changes = (_change(row[VERSION], row[CHANGE], *_sides(row.asDict(recursive=True))) for row in rows)
    return [
        *check_appended(folder / "notes", folder / "notes.jsonl", folder / "notes.commits"),
        *check_merged(folder / "people", folder / "people.jsonl", folder / "people.commits"),
        *check_copied(folder / "people.jsonl", folder / "copy.jsonl", folder / "copy.commits"),
        *check_changes(changes, diffs),
    ]


def _sides(row: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    after = {name: row[name] for name in ("id", "name", "age")}
    return (None if row[CHANGE] == "delete" else after), row[BEFORE]


def _change(version: int, kind: str, after: Any, before: Any) -> dict[str, Any]:
    return {"version": version, "kind": kind, "after": after, "before": before}
