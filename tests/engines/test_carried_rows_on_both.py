"""Rows that the manifest carries are sent to the tasks of Spark with what they hide, and all jobs see them."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from tests.behaviour.people import carried, fold
from tests.behaviour.test_carried_rows import READS
from tests.behaviour.test_carried_rows import graph as _graph

graph = _graph


@pytest.mark.parametrize("name", READS)
def test_queries_see_what_the_process_sees(graph: og.Graph, spark_for_few_rows: SparkSession, name: str) -> None:
    text = f"query q {{ {READS[name]} }}"
    assert graph.query(text, engine="spark").rows() == graph.query(text).rows()


def test_frames_of_a_type_have_the_rows_of_their_moment(graph: og.Graph, spark: SparkSession) -> None:
    def read(**options: str | int) -> list[tuple[str, int | None]]:
        frame = spark.read.format("omnigraph").options(type="Person", **options).load(graph.uri)
        return sorted((row["name"], row["age"]) for row in frame.select("name", "age").collect())

    frame = spark.read.format("omnigraph").options(type="Person").load(graph.uri)
    before, old, small = read(), read(filter="age > 40"), read(partition_rows=3)
    assert ("new", 41) in before
    assert ("p10", 1) in before
    assert "p04" not in dict(before)
    assert old == [(name, age) for name, age in before if age is not None and age > 40]
    assert small == before
    fold(graph)
    assert (read(), read(filter="age > 40")) == (before, old)
    graph.mutate('query q { delete Person where name = "new" }')
    assert sorted((row["name"], row["age"]) for row in frame.collect()) == before


def test_an_export_has_them(graph: og.Graph, spark_for_few_rows: SparkSession, tmp_path: Path) -> None:
    expected = graph.export()
    assert not isinstance(expected, int)
    graph.export(tmp_path / "out.jsonl", engine="spark")
    lines = (tmp_path / "out.jsonl").read_text("utf-8").splitlines()
    assert sorted(map(_sorted_json, lines)) == sorted(map(_sorted_json, expected))


def _sorted_json(line: str) -> str:
    return json.dumps(json.loads(line), sort_keys=True)


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_load_is_on_top_of_them(graph: og.Graph, spark_for_few_rows: SparkSession, tmp_path: Path, mode: str) -> None:
    names = ["new", "p10"] if mode == "merge" else []
    people = [{"type": "Person", "data": {"name": name, "age": 70}} for name in [*names, "later"]]
    link = {"edge": "Knows", "from": "new", "to": "later", "data": {"id": "kl"}}
    (tmp_path / "more.jsonl").write_text("\n".join(map(json.dumps, [*people, link])))
    text = "query q { match { $p: Person } return { $p.name as name, $p.age as age } }"
    before = {row["name"]: row["age"] for row in graph.query(text).rows()}
    graph.load(tmp_path / "more.jsonl", mode, engine="spark")
    assert carried(graph) == 0
    after = {row["name"]: row["age"] for row in graph.query(text).rows()}
    assert after == before | dict.fromkeys([*names, "later"], 70)


def test_a_load_that_names_a_node_that_is_gone_is_refused(
    graph: og.Graph, spark_for_few_rows: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "more.jsonl").write_text(json.dumps({"edge": "Knows", "from": "p04", "to": "p05"}))
    with pytest.raises(og.ValidationError, match="p04"):
        graph.load(tmp_path / "more.jsonl", "append", engine="spark")
