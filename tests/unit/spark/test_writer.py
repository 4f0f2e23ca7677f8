"""``df.write.format("omnigraph")``: a frame becomes one commit, or nothing."""

from collections.abc import Callable, Iterator
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


def staged(graph: og.Graph) -> list[Path]:
    folder = Path(graph.uri) / INCOMING
    return list(folder.iterdir()) if folder.exists() else []


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
    assert staged(graph) == []


def test_a_frame_is_merged_or_takes_the_place_of_all(spark: "SparkSession", graph: og.Graph) -> None:
    save(people(spark, "Ada", "Bob", age="1"), graph)
    frame = people(spark, "Ada", "Cid", age="2")
    written = frame.write.format("omnigraph").option("type", "Person").option("branch", "b").option("from", "main")
    written.option("mode", "merge").mode("append").save(graph.uri)
    assert (ages(graph), ages(graph, "b")) == ({"Ada": 1, "Bob": 1}, {"Ada": 2, "Bob": 1, "Cid": 2})
    save(people(spark, "Dan", age="3"), graph, mode="overwrite")
    assert ages(graph) == {"Dan": 3}
    save(people(spark, "Dan").where("false"), graph, mode="overwrite")
    assert ages(graph) == {}


def test_what_is_wrong_is_told_and_nothing_is_written(spark: "SparkSession", graph: og.Graph) -> None:
    save(people(spark, "Ada"), graph)
    with pytest.raises(PySparkException, match="there is already one with the id `Ada`"):
        save(people(spark, "Zoe", "Ada"), graph)
    with pytest.raises(PySparkException, match="no such property; did you mean `age`"):
        save(people(spark, "Zoe", agee="1"), graph)
    unknown = people(spark, "Zoe").write.format("omnigraph").option("type", "Person").option("mode", "upsert")
    with pytest.raises(PySparkException, match="invalid mode 'upsert': expected `append`, `merge`, `apply`"):
        unknown.mode("append").save(graph.uri)
    with pytest.raises(PySparkException, match="type `Persn`"):
        save(people(spark, "Zoe"), graph, "Persn")
    assert ages(graph) == {"Ada": None}
    assert staged(graph) == []


def test_a_task_that_fails_leaves_nothing(spark: "SparkSession", graph: og.Graph) -> None:
    with pytest.raises(PySparkException):
        save(people(spark, "Ada", age="assert_true(false, 'broken')"), graph)
    assert ages(graph) == {}
    assert staged(graph) == []


def test_what_is_read_can_be_written_again(spark: "SparkSession", graph: og.Graph, tmp_path: Path) -> None:
    save(people(spark, "Ada", mark="array(1.5D, 2D)", big="cast(7 AS decimal(20,0))"), graph)
    other = og.init(tmp_path / "other", SCHEMA, durability="fast")
    frame = spark.read.format("omnigraph").option("type", "Person").load(graph.uri)
    save(frame, other)
    assert other.entity("Person", "Ada") == graph.entity("Person", "Ada")


def test_an_error_begins_with_what_is_wrong(spark: "SparkSession", graph: og.Graph) -> None:
    save(people(spark, "Ada"), graph)
    with pytest.raises(PySparkException) as caught:
        save(people(spark, "Ada"), graph)
    spark_says, _, rest = str(caught.value).partition("omnigraph.errors.ValidationError: ")
    assert "\n" not in spark_says
    assert rest.startswith("1 violation, nothing was written\n  Person partition ")
    assert "Traceback" not in rest


def test_unknown_options_of_a_write_are_refused(spark: "SparkSession", graph: og.Graph) -> None:
    with pytest.raises(PySparkException, match="unknown option `brnach`: did you mean `branch`"):
        save(people(spark, "Ada"), graph, brnach="b")
    with pytest.raises(PySparkException, match="the option `versionAsOf` is for reading: remove it to write"):
        save(people(spark, "Ada"), graph, versionAsOf="1")
    with pytest.raises(PySparkException, match="the option `filter` is for reading"):
        save(people(spark, "Ada"), graph, filter="age > 3")
    assert ages(graph) == {}


@pytest.fixture
def sql(spark: "SparkSession", graph: og.Graph) -> Iterator[Callable[[str], list[Any]]]:
    """Runs SQL; the table `people` of Spark's catalog is the type `Person`, and what is inserted is merged."""
    options = f"graph '{graph.uri}', type 'Person', mode 'merge', actor 'ada'"
    spark.sql(f"CREATE TABLE people USING omnigraph OPTIONS ({options})")
    yield lambda text: spark.sql(text).collect()
    spark.sql("DROP TABLE IF EXISTS people")


def test_a_table_of_the_catalog_is_read_and_written(sql: Callable[[str], list[Any]], graph: og.Graph) -> None:
    sql("INSERT INTO people (name, age, size) VALUES ('Ada', 36, 2), ('Bob', 1, 3)")
    assert [tuple(row) for row in sql("SELECT id, age FROM people ORDER BY id")] == [("Ada", 36), ("Bob", 1)]
    sql("INSERT INTO people (name, age, size) SELECT name, age + 1, size FROM people WHERE name = 'Bob'")
    assert ages(graph) == {"Ada": 36, "Bob": 2}
    sql("INSERT OVERWRITE people SELECT * FROM people WHERE name = 'Ada'")
    assert ages(graph) == {"Ada": 36}
    assert {commit.actor for commit in graph.commits.list()} == {"ada", None}
    assert sql("SELECT id FROM people WITH (filter = 'age > 40')") == []


def test_rows_of_a_table_are_not_written_to_it_by_mistake(
    sql: Callable[[str], list[Any]], spark: "SparkSession", graph: og.Graph
) -> None:
    sql("INSERT INTO people (name, age, size) VALUES ('Ada', 36, 2)")
    with pytest.raises(PySparkException, match="the path of the graph is missing"):
        spark.table("people").write.format("omnigraph").option("type", "Person").mode("overwrite").save()
    assert ages(graph) == {"Ada": 36}


def test_a_table_has_no_options_that_are_unknown(spark: "SparkSession", graph: og.Graph) -> None:
    with pytest.raises(PySparkException, match="unknown option `typo`: did you mean `type`"):
        spark.sql(f"CREATE TABLE wrong USING omnigraph OPTIONS (graph '{graph.uri}', type 'Person', typo 'x')")
