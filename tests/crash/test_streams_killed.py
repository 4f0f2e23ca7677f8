"""Streams that are killed at every named step, and at random, have each row exactly once when they are started again.

What was streamed is judged by `tests.crash.stream_checker`, which reads only the input and an export.
"""

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import omnigraph as og
from omnigraph.failpoints import Point, Writer, WriteStep
from omnigraph.parts.scratch import INCOMING
from tests.behaviour.streams import (
    APPLIED,
    SOURCE_STEPS,
    HeldSource,
    HeldStream,
    held_streams,
    jvm_of,
    write_lines,
)
from tests.crash.children import SOAKING
from tests.crash.spark_moments import until
from tests.crash.stream_checker import CHECKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "node Person { name: String @key, age: I32? }\nnode Note { text: String }"
NOTE, PERSON = "text string", "name string, age int"
SINK_STEPS = (
    Point.STREAM_ROWS_STAGED,
    Point.STREAM_BEFORE_LOAD,
    *(f"{Writer.LOAD}.{step}" for step in WriteStep),
    Point.STREAM_AFTER_LOAD,
    Point.STREAM_FILES_REMOVED,
)
STEPS = (*SINK_STEPS, *SOURCE_STEPS)
_GROUPS = [STEPS[first::4] for first in range(4)]
"""Steps at which streams of one driver stop: more of them at once would keep the others waiting."""
CASES = [
    pytest.param(whole, steps, id=f"{'the whole run' if whole else 'the driver'} {number}")
    for whole, usual in ((True, 1), (False, 0))
    for number, steps in enumerate(_GROUPS)
    if SOAKING or number == usual
]
"""Other steps are for `make soak`; in every run of the tests, a worker is killed at each of them."""
_PATIENCE = 300.0
_AT_ONCE = 3


def stream_stopping_at(step: str, folder: Path) -> tuple[str, HeldStream]:
    """A stream of three batches that stops in the second, and how its outcome is checked.

    Every second step of the sink is one of a merge.
    """
    (folder / step).mkdir()
    graph = og.init(folder / step / "graph", SCHEMA, durability="fast")
    if step in SOURCE_STEPS:
        source = og.init(folder / step / "source", SCHEMA, durability="fast")
        source.load({"Person": [{"name": "Ada", "age": 1}, {"name": "Bob"}]})
        source.mutate('query q { update Person set { age: 2 } where name = "Ada" insert Person { name: "Cid" } }')
        source.mutate('query q { delete Person where name = "Bob" }')
        stream = HeldStream(str(folder / step), graph.uri, APPLIED, step, source=source.uri)
        return "copies", stream
    merges = SINK_STEPS.index(step) % 2 == 1
    for number in range(3):
        row = {"name": f"p{number % 2}", "age": number} if merges else {"text": f"note {number}"}
        write_lines(folder / step / "in", number, row)
    options = {"type": "Person", "mode": "merge"} if merges else {"type": "Note"}
    stream = HeldStream(str(folder / step), graph.uri, options, step, columns=PERSON if merges else NOTE)
    return "merged" if merges else "appended", stream


def assert_each_row_once(kind: str, stream: HeldStream) -> None:
    folder = Path(stream.folder)
    graph = og.open(stream.graph, durability="fast")
    export(graph, folder / "exported.jsonl")
    (folder / "commits.json").write_text(json.dumps([each.as_json() for each in graph.commits.list()]))
    given = folder / "in"
    if kind == "copies":
        given = folder / "source.jsonl"
        export(og.open(stream.source, "r"), given)
    assert CHECKS[kind](given, folder / "exported.jsonl", folder / "commits.json") == [], stream.hold
    assert sum(each.application is not None for each in graph.commits.list()) == 3, stream.hold
    incoming = Path(graph.uri) / INCOMING
    assert not incoming.exists() or list(incoming.iterdir()) == [], stream.hold


def export(graph: og.Graph, file: Path) -> None:
    graph.export(file)


def assert_restart(spark: "SparkSession", streams: Sequence[tuple[str, HeldStream]]) -> None:
    """Starts all streams again, some at a time, and judges what they have written."""
    for first in range(0, len(streams), _AT_ONCE):
        for query in [stream.write(spark).start() for _, stream in streams[first : first + _AT_ONCE]]:
            query.awaitTermination()
    for kind, stream in streams:
        assert_each_row_once(kind, stream)


@pytest.mark.long
@pytest.mark.parametrize(("whole", "steps"), CASES)
def test_a_run_or_its_driver_that_is_killed_at_any_step_loses_and_doubles_nothing(
    spark: "SparkSession", tmp_path: Path, kills: Callable[[int], None], whole: bool, steps: Sequence[str]
) -> None:
    streams = [stream_stopping_at(step, tmp_path) for step in steps]
    with held_streams([stream for _, stream in streams], str(tmp_path / "mark")) as driver:
        if not whole:
            # The processes that have stopped outlive their driver, and go on beside the queries that are started again.
            for number in (jvm_of(driver.pid), driver.pid):
                os.kill(number, signal.SIGKILL)
            for _, stream in streams:
                if (stopped := stream.stopped) is not None:
                    os.kill(stopped, signal.SIGCONT)
            assert_restart(spark, streams)
    if whole:
        assert_restart(spark, streams)
    kills(len(streams))


def test_a_worker_that_is_killed_at_any_step_loses_and_doubles_nothing(
    spark: "SparkSession", tmp_path: Path, kills: Callable[[int], None]
) -> None:
    spark.dataSource.register(HeldSource)
    streams = [stream_stopping_at(step, tmp_path) for step in STEPS]
    queries = [stream.write(spark, held=True).start() for _, stream in streams]
    killed: set[str] = set()
    for _ in until(_PATIENCE):
        for _, stream in streams:
            if stream.hold not in killed and (number := stream.stopped) is not None:
                os.kill(number, signal.SIGKILL)
                killed.add(stream.hold)
        if not any(query.isActive for query in queries):
            break
    assert killed == set(STEPS)
    for query, (_, stream) in zip(queries, streams, strict=True):
        if stream.hold in (Point.STREAM_ROWS_STAGED, Point.STREAM_CHANGES_READ):
            query.awaitTermination()  # Spark has run the task again
        else:
            with pytest.raises(PySparkException):
                query.awaitTermination()
    assert_restart(spark, streams)
    kills(len(streams))
