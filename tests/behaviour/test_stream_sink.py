"""A stream of Spark writes each batch into a graph exactly once, also if it loses its checkpoint.

`tests/crash/test_streams_killed.py` has streams that are killed.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import omnigraph as og
from omnigraph.parts.scratch import INCOMING
from tests.behaviour.streams import read_lines, write_lines, write_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Person { name: String @key, age: I32? }
node Note { text: String }
edge Knows: Person -> Person { since: I32? }
"""
NOTE, PERSON = "text string", "name string, age int"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA, durability="fast")


def notes(graph: og.Graph) -> list[str]:
    return sorted(graph.snapshot().table("node:Note").scan(["text"])["text"].to_pylist())


def people(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    rows = graph.snapshot(branch).table("node:Person").scan(["name", "age"]).to_pylist()
    return {row["name"]: row["age"] for row in rows}


def batches(graph: og.Graph) -> list[tuple[str | None, int | None]]:
    """The keys of the loads, oldest first."""
    return [(each.application, each.batch) for each in reversed(graph.commits.list()) if each.application]


def staged(graph: og.Graph) -> list[Path]:
    folder = Path(graph.uri) / INCOMING
    return list(folder.iterdir()) if folder.exists() else []


def test_each_batch_is_one_commit_with_the_query_and_its_number(
    spark: "SparkSession", graph: og.Graph, tmp_path: Path
) -> None:
    for number in range(3):
        write_lines(tmp_path / "in", number, {"text": f"{number} a"}, {"text": f"{number} b"})
    frame = read_lines(spark, tmp_path / "in", NOTE)
    query = write_stream(frame, graph.uri, tmp_path / "checkpoint", type="Note", actor="ada", message="from the lake")
    assert notes(graph) == ["0 a", "0 b", "1 a", "1 b", "2 a", "2 b"]
    assert batches(graph) == [(query, 0), (query, 1), (query, 2)]
    assert (graph.commits.list()[0].actor, graph.commits.list()[0].message) == ("ada", "from the lake")
    write_lines(tmp_path / "in", 3, {"text": "later"})
    assert write_stream(frame, graph.uri, tmp_path / "checkpoint", type="Note") == query
    assert batches(graph)[3:] == [(query, 3)]
    assert "later" in notes(graph)
    assert staged(graph) == []


def test_streams_upsert_and_form_ids_of_edges(spark: "SparkSession", graph: og.Graph, tmp_path: Path) -> None:
    write_lines(tmp_path / "people", 0, {"name": "Ada", "age": 1}, {"name": "Bob", "age": 1})
    write_lines(tmp_path / "people", 1, {"name": "Ada", "age": 2}, {"name": "Cid"})
    into = {"type": "Person", "mode": "merge", "branch": "b", "from": "main"}
    write_stream(read_lines(spark, tmp_path / "people", PERSON), graph.uri, tmp_path / "one", **into)
    assert (people(graph), people(graph, "b")) == ({}, {"Ada": 2, "Bob": 1, "Cid": None})
    for number in range(2):
        write_lines(tmp_path / "knows", number, {"from": "Ada", "to": "Bob", "since": number})
    into = {"type": "Knows", "mode": "merge", "edge_id": "src,dst", "branch": "b"}
    columns = "`from` string, `to` string, since int"
    write_stream(read_lines(spark, tmp_path / "knows", columns), graph.uri, tmp_path / "two", **into)
    assert graph.snapshot("b").table("edge:Knows").scan(["since"])["since"].to_pylist() == [1]


@pytest.fixture
def two_groups(spark: "SparkSession") -> Iterator[None]:
    """Aggregations have two partitions, and not 200."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.unset("spark.sql.shuffle.partitions")


@pytest.mark.usefixtures("two_groups")
def test_the_groups_of_an_aggregation_replace_all_entities_or_are_merged(
    spark: "SparkSession", graph: og.Graph, tmp_path: Path
) -> None:
    write_lines(tmp_path / "in", 0, {"name": "Ada", "age": 1}, {"name": "Bob", "age": 1})
    write_lines(tmp_path / "in", 1, {"name": "Ada", "age": 2})
    sums = read_lines(spark, tmp_path / "in", PERSON).groupBy("name").sum("age")
    sums = sums.selectExpr("name", "cast(`sum(age)` AS int) AS age")
    graph.load({"Person": [{"name": "Old"}]})
    write_stream(sums, graph.uri, tmp_path / "one", output="complete", type="Person")
    assert people(graph) == {"Ada": 3, "Bob": 1}
    graph.load({"Person": [{"name": "Old"}]})
    write_stream(sums, graph.uri, tmp_path / "two", output="complete", type="Person", mode="merge")
    assert people(graph) == {"Ada": 3, "Bob": 1, "Old": None}


def test_a_lost_checkpoint_neither_doubles_nor_drops_rows(
    spark: "SparkSession", graph: og.Graph, tmp_path: Path
) -> None:
    for number in range(3):
        write_lines(tmp_path / "in", number, {"text": f"note {number}"})
    frame = read_lines(spark, tmp_path / "in", NOTE)
    into = {"type": "Note", "txnAppId": "notes"}
    write_stream(frame, graph.uri, tmp_path / "checkpoint", **into)
    shutil.rmtree(tmp_path / "checkpoint")
    write_lines(tmp_path / "in", 3, {"text": "note 3"})
    write_stream(frame, graph.uri, tmp_path / "checkpoint", **into)
    assert notes(graph) == ["note 0", "note 1", "note 2", "note 3"]
    assert batches(graph) == [("notes", number) for number in range(4)]


def test_other_content_under_a_known_batch_is_an_error(spark: "SparkSession", graph: og.Graph, tmp_path: Path) -> None:
    for number in range(4):
        write_lines(tmp_path / "in", number, {"text": f"note {number}"})
    into = {"type": "Note", "application": "notes"}
    write_stream(read_lines(spark, tmp_path / "in", NOTE), graph.uri, tmp_path / "one", **into)
    in_pairs = read_lines(spark, tmp_path / "in", NOTE, files=2)
    with pytest.raises(
        PySparkException, match=r"batch 0 of application `notes` cannot be loaded: .* with other content"
    ):
        write_stream(in_pairs, graph.uri, tmp_path / "two", **into)
    assert len(notes(graph)) == 4
    assert staged(graph) == []


def test_a_batch_without_rows_makes_no_commit_and_the_next_one_is_loaded(
    spark: "SparkSession", graph: og.Graph, tmp_path: Path
) -> None:
    for number, text in enumerate(["first", "", "", "last"]):
        write_lines(tmp_path / "in", number, {"text": text})
    frame = read_lines(spark, tmp_path / "in", NOTE).where("text <> ''")
    for checkpoint in ("one", "two"):
        write_stream(frame, graph.uri, tmp_path / checkpoint, type="Note", application="notes")
        assert notes(graph) == ["first", "last"]
        assert batches(graph) == [("notes", 0), ("notes", 3)]
    write_lines(tmp_path / "in", 0, {"text": ""})
    with pytest.raises(PySparkException, match="batch 0 of application `notes` cannot be loaded"):
        write_stream(frame, graph.uri, tmp_path / "three", type="Note", application="notes")


def test_a_batch_that_is_refused_is_loaded_when_it_is_right(
    spark: "SparkSession", graph: og.Graph, tmp_path: Path
) -> None:
    write_lines(tmp_path / "in", 0, {"name": "Ada", "age": 1})
    write_lines(tmp_path / "in", 1, {"name": "Bob", "age": 1}, {"name": "Ada", "age": 2})
    frame = read_lines(spark, tmp_path / "in", PERSON)
    with pytest.raises(PySparkException, match="there is already one with the id `Ada`"):
        write_stream(frame, graph.uri, tmp_path / "checkpoint", type="Person")
    assert people(graph) == {"Ada": 1}
    broken = frame.selectExpr("name", "if(name = 'Bob', raise_error('broken'), age) AS age")
    with pytest.raises(PySparkException, match="broken"):
        write_stream(broken, graph.uri, tmp_path / "checkpoint", type="Person")
    write_stream(frame, graph.uri, tmp_path / "checkpoint", type="Person", mode="merge")
    assert people(graph) == {"Ada": 2, "Bob": 1}
    assert staged(graph) == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"brnach": "b"}, "unknown option `brnach`: did you mean `branch`"),
        ({"batch": "1"}, "the option `batch` is not for streams, whose batches Spark numbers"),
        ({"txnVersion": "1"}, "the option `txnVersion` is not for streams"),
        ({"mode": "overwrite"}, r"use `.outputMode\('complete'\)`"),
        ({"mode": "upsert"}, "invalid mode 'upsert'"),
        ({"versionAsOf": "1"}, "the option `versionAsOf` is for reading"),
        ({"type": "Nte"}, "type `Nte`"),
    ],
)
def test_options_that_a_stream_cannot_have_are_refused(
    spark: "SparkSession", graph: og.Graph, tmp_path: Path, options: dict[str, str], problem: str
) -> None:
    write_lines(tmp_path / "in", 0, {"text": "note"})
    frame = read_lines(spark, tmp_path / "in", NOTE)
    with pytest.raises(PySparkException, match=problem):
        write_stream(frame, graph.uri, tmp_path / "checkpoint", **{"type": "Note", **options})
    assert notes(graph) == []


def test_a_stream_obeys_the_policy(spark: "SparkSession", graph: og.Graph, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("rules: [{id: all, actors: any, actions: [read]}]")
    write_lines(tmp_path / "in", 0, {"text": "note"})
    frame = read_lines(spark, tmp_path / "in", NOTE)
    with pytest.raises(PySparkException, match="PolicyDenied"):
        write_stream(frame, graph.uri, tmp_path / "checkpoint", type="Note", policy=str(rules), actor="ada")
    assert notes(graph) == []
