"""``df.write.format("omnigraph")``: a frame becomes one commit, or nothing."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

import omnigraph as og
from omnigraph.parts.scratch import INCOMING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = """
node Person { name: String @key, age: I32?, size: U32 @default(1), mark: Vector(2)?, seen: DateTime?, big: U64? }
edge Knows: Person -> Person { since: Date? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA, durability="fast")


def people(spark: "SparkSession", *names: str, **columns: str) -> "DataFrame":
    frame = spark.createDataFrame([(name,) for name in names], "name string").repartition(2)
    return frame.selectExpr("name", *(f"{value} AS {name}" for name, value in columns.items()))


def save(frame: "DataFrame", graph: og.Graph, type: str = "Person", mode: str = "append", **options: str) -> None:
    frame.write.format("omnigraph").option("type", type).options(**options).mode(mode).save(graph.uri)


def ages(graph: og.Graph, branch: str = "main") -> dict[str, Any]:
    rows = graph.snapshot(branch).table("node:Person").scan(["id", "age"]).to_pylist()
    return {row["id"]: row["age"] for row in rows}


def test_a_frame_is_appended_as_one_commit(spark: "SparkSession", graph: og.Graph) -> None:
    frame = people(
        spark,
        "Ada",
        "Bob",
        age="cast(36 AS smallint)",
        mark="array(1.5D, 2D)",
        seen="timestamp '2026-01-31 12:00:00.123456+00:00'",
        big="cast('18446744073709551615' AS decimal(20,0))",
    )
    save(frame, graph, actor="ada", message="from the warehouse")
    ada = graph.entity("Person", "Ada")
    assert ada is not None
    assert (ada["age"], ada["size"], ada["mark"], ada["big"]) == (36, 1, [1.5, 2.0], 2**64 - 1)
    assert ada["seen"].isoformat() == "2026-01-31T12:00:00.123000+00:00"
    assert [commit.actor for commit in graph.commits.list()] == ["ada", None]
    assert graph.commits.list()[0].message == "from the warehouse"
    knows = spark.createDataFrame([("Ada", "Bob")], "from string, to string")
    save(knows, graph, "Knows")
    assert graph.commits.list()[0].message == "load Knows"
    assert graph.snapshot().table("edge:Knows").count() == 1
    assert not list((Path(graph.uri) / INCOMING).iterdir())


def test_a_frame_is_merged_or_takes_the_place_of_all(spark: "SparkSession", graph: og.Graph) -> None:
    save(people(spark, "Ada", "Bob", age="1"), graph)
    frame = people(spark, "Ada", "Cid", age="2")
    written = frame.write.format("omnigraph").option("type", "Person").option("branch", "b").option("from", "main")
    written.option("mode", "merge").mode("append").save(graph.uri)
    assert (ages(graph), ages(graph, "b")) == ({"Ada": 1, "Bob": 1}, {"Ada": 2, "Bob": 1, "Cid": 2})
    save(people(spark, "Dan", age="3"), graph, mode="overwrite")
    assert ages(graph) == {"Dan": 3}


def test_what_is_wrong_is_told_and_nothing_is_written(spark: "SparkSession", graph: og.Graph) -> None:
    save(people(spark, "Ada"), graph)
    with pytest.raises(PySparkException, match="there is already one with the id `Ada`"):
        save(people(spark, "Zoe", "Ada"), graph)
    with pytest.raises(PySparkException, match="no such property; did you mean `age`"):
        save(people(spark, "Zoe", agee="1"), graph)
    unknown = people(spark, "Zoe").write.format("omnigraph").option("type", "Person").option("mode", "upsert")
    with pytest.raises(PySparkException, match="invalid mode 'upsert': expected `append`, `merge` or `overwrite`"):
        unknown.mode("append").save(graph.uri)
    with pytest.raises(PySparkException, match="type `Persn`"):
        save(people(spark, "Zoe"), graph, "Persn")
    assert ages(graph) == {"Ada": None}
    assert not list((Path(graph.uri) / INCOMING).iterdir())


def test_a_task_that_fails_leaves_nothing(spark: "SparkSession", graph: og.Graph) -> None:
    with pytest.raises(PySparkException):
        save(people(spark, "Ada", age="assert_true(false, 'broken')"), graph)
    assert ages(graph) == {}
    assert not list((Path(graph.uri) / INCOMING).iterdir())


def test_what_is_read_can_be_written_again(spark: "SparkSession", graph: og.Graph, tmp_path: Path) -> None:
    save(people(spark, "Ada", mark="array(1.5D, 2D)", big="cast(7 AS decimal(20,0))"), graph)
    other = og.init(tmp_path / "other", SCHEMA, durability="fast")
    frame = spark.read.format("omnigraph").option("type", "Person").load(graph.uri)
    save(frame, other)
    assert other.entity("Person", "Ada") == graph.entity("Person", "Ada")
