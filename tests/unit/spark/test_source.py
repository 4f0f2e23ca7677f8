"""The format `omnigraph` of Spark: what a data frame of a type holds, and which moment of the graph it sees."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import omnigraph as og
from omnigraph.catalog import compile_schema, table_schema
from omnigraph.spark.types import exchanged_schema, spark_schema, to_spark

SCHEMA = """
node Thing {
    name: String @key
    truth: Bool?
    i32: I32?
    i64: I64?
    u32: U32?
    u64: U64?
    f32: F32?
    f64: F64?
    day: Date?
    instant: DateTime?
    bytes: Blob?
    colour: enum(blue, red)?
    vector: Vector(2)?
    texts: [String]?
    numbers: [U64]?
    days: [Date]?
}
node Empty { name: String @key }
edge Likes: Thing -> Thing { since: Date? }
"""
ADD = """
query add($n: String, $i: I32?) { insert Thing { name: $n, i32: $i } }
query like($a: String, $b: String) { insert Likes { from: $a, to: $b, since: date("2020-01-02") } }
"""
FULL = """{"type": "Thing", "data": {"name": "full", "truth": true, "i32": -5, "i64": -9223372036854775808,
"u32": 4294967295, "u64": 18446744073709551615, "f32": 0.5, "f64": 1e300, "day": "1969-12-31",
"instant": "2020-01-02T03:04:05.678Z", "bytes": "base64:AGE=", "colour": "red", "vector": [1.5, -2],
"texts": ["a", "ü"], "numbers": [18446744073709551615, 0], "days": ["2024-02-29"]}}""".replace("\n", " ")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """Three things, in a fragment each, and an edge."""
    folder = tmp_path_factory.mktemp("source")
    graph = og.init(folder / "graph.omni", SCHEMA, durability="fast")
    (folder / "full.jsonl").write_text(FULL + "\n")
    graph.load(folder / "full.jsonl")
    graph.mutate(ADD, "add", {"n": "bare"})
    graph.mutate(ADD, "add", {"n": "late", "i": 7})
    graph.mutate(ADD, "like", {"a": "full", "b": "bare"})
    return graph


Read = Callable[..., DataFrame]


@pytest.fixture(scope="module")
def read(spark: SparkSession, graph: og.Graph) -> Read:
    """Reads a type of the graph, with options."""

    def frame(type: str = "Thing", **options: Any) -> DataFrame:
        return spark.read.format("omnigraph").options(type=type, **options).load(graph.uri)

    return frame


def names(frame: DataFrame) -> list[str]:
    return sorted(row["name"] for row in frame.select("name").collect())


def test_every_type_of_property_arrives(read: Read) -> None:
    frame = read(filter="name = 'full'")
    assert frame.schema.simpleString() == (
        "struct<id:string,name:string,truth:boolean,i32:int,i64:bigint,u32:bigint,u64:decimal(20,0),f32:float,f64:double,"
        "day:date,instant:timestamp,bytes:binary,colour:string,vector:array<float>,texts:array<string>,"
        "numbers:array<decimal(20,0)>,days:array<date>>"
    )
    assert not frame.schema["vector"].dataType.containsNull  # type: ignore[attr-defined]
    (row,) = frame.toArrow().to_pylist()
    assert row == {
        "id": "full",
        "name": "full",
        "truth": True,
        "i32": -5,
        "i64": -(2**63),
        "u32": 2**32 - 1,
        "u64": Decimal(2**64 - 1),
        "f32": 0.5,
        "f64": 1e300,
        "day": date(1969, 12, 31),
        "instant": datetime(2020, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC),
        "bytes": b"\x00a",
        "colour": "red",
        "vector": [1.5, -2.0],
        "texts": ["a", "ü"],
        "numbers": [Decimal(2**64 - 1), Decimal(0)],
        "days": [date(2024, 2, 29)],
    }
    (bare,) = read(filter="name = 'bare'").collect()
    assert [value for name, value in bare.asDict().items() if name not in ("id", "name")] == [None] * 15


def test_types_go_to_spark(graph: og.Graph) -> None:
    schema = table_schema(compile_schema(SCHEMA).nodes["Thing"])
    table = graph.snapshot().table("node:Thing").scan(schema.names)
    there = exchanged_schema(schema)
    assert spark_schema(schema).names == there.names
    for batch in table.to_batches():
        (moved,) = to_spark([batch], there)
        assert moved.schema == there
        assert moved.to_pylist() == batch.to_pylist()


def test_a_vector_that_is_null_has_no_numbers() -> None:
    vectors = pa.array([None, [1, 2], None, [3, 4], None], pa.list_(pa.float32(), 2))
    entity = pa.StructArray.from_arrays([vectors], ["v"], mask=pa.array([False, False, True, False, False]))
    batch = pa.record_batch([vectors, entity], names=["v", "e"]).slice(1)
    (moved,) = to_spark([batch], exchanged_schema(batch.schema))
    moved.validate(full=True)
    assert moved.to_pylist() == batch.to_pylist()
    assert moved.schema.field("v").type == pa.list_(pa.field("element", pa.float32(), nullable=False))


def test_a_session_finds_the_format_by_itself(spark: SparkSession, graph: og.Graph) -> None:
    fresh = spark.newSession()
    assert fresh.read.format("omnigraph").option("type", "Thing").load(graph.uri).count() == 3


def test_edges_have_their_ends(read: Read) -> None:
    (row,) = read("Likes").collect()
    assert (row["src"], row["dst"], row["since"]) == ("full", "bare", date(2020, 1, 2))


def test_a_type_without_rows_is_an_empty_frame(read: Read) -> None:
    frame = read("Empty")
    assert frame.columns == ["id", "name"]
    assert frame.collect() == []


def test_columns_and_a_filter_are_options(read: Read) -> None:
    frame = read(columns="name, i32", filter="i32 > 0 AND name != 'full'")
    assert [tuple(row) for row in frame.collect()] == [("late", 7)]


def test_a_filter_of_a_frame_is_no_filter_of_another_use(read: Read) -> None:
    frame = read()
    assert frame.filter("name = 'late'").count() == 1
    assert frame.count() == 3


def test_small_fragments_share_a_task_unless_a_task_reads_less(read: Read, graph: og.Graph) -> None:
    fragments = len(graph.snapshot().table("node:Thing").fragment_sizes())
    assert fragments == 3
    assert len(set(read(columns="name").selectExpr("spark_partition_id()").collect())) == 1
    small = read(columns="name", partition_rows="1")
    assert len(set(small.selectExpr("spark_partition_id()").collect())) == fragments
    assert names(small) == ["bare", "full", "late"]


def test_a_frame_keeps_the_state_that_it_was_made_of(read: Read, graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.branches.create("pinned")
    frame = read(branch="pinned")
    graph.mutate(ADD, "add", {"n": "new"}, branch="pinned")
    assert names(frame) == ["bare", "full", "late"]
    assert names(read(branch="pinned")) == ["bare", "full", "late", "new"]
    assert names(read()) == ["bare", "full", "late"]
    assert names(read(snapshot=before.commit_id)) == ["bare", "full", "late"]


def test_the_past_is_read_by_commit_and_by_version(read: Read, graph: og.Graph) -> None:
    (commit,) = [
        each for each in graph.commits.list() if each.manifest_version == graph.snapshot().commit.manifest_version - 2
    ]
    assert names(read(snapshot=commit.graph_commit_id)) == ["bare", "full"]
    assert names(read(version=str(commit.manifest_version))) == ["bare", "full"]


def test_the_past_is_read_in_the_words_of_other_formats(read: Read, graph: og.Graph) -> None:
    newest = graph.snapshot().commit.manifest_version
    (commit,) = [each for each in graph.commits.list() if each.manifest_version == newest - 2]
    graph.tags.create("bare-only", commit.graph_commit_id)
    instant = commit.created_at
    states: list[dict[str, str]] = [
        {"versionAsOf": str(commit.manifest_version)},
        {"versionAsOf": commit.graph_commit_id},
        {"versionAsOf": "bare-only"},
        {"tag": "bare-only"},
        {"snapshot-id": commit.graph_commit_id},
        {"timestampAsOf": instant.isoformat()},
        {"timestampAsOf": instant.replace(tzinfo=None).isoformat(sep=" ")},
        {"as-of-timestamp": str(int(instant.timestamp() * 1000) + 1)},
    ]
    for options in states:
        assert names(read(**options)) == ["bare", "full"], options
    graph.tags.delete("bare-only")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"type": "Thng"}, "no type `Thng`: did you mean `Thing`?"),
        ({"branch": "nowhere"}, "no branch `nowhere`"),
        ({"snapshot": "01J0000000000000000000000Z"}, "no commit `01J0000000000000000000000Z`"),
        ({"fliter": "i32 > 0"}, "unknown option `fliter`: did you mean `filter`?"),
        ({"mode": "merge"}, "unknown option `mode`"),
        ({"timestampAsOf": "yesterday"}, "invalid timestamp 'yesterday': expected a date"),
        ({"timestampAsOf": "1999-01-01"}, "the graph was created later"),
        (
            {"versionAsOf": "1", "timestampAsOf": "2026-01-01"},
            "the options `version` and `timestamp` both name a state",
        ),
        ({"versionAsOf": "1", "version": "1"}, "the options `versionAsOf` and `version` mean the same: remove one"),
        ({"versionAsOf": "nope"}, "no commit `nope`"),
        ({"version": "x"}, "invalid option `version` 'x': expected a number"),
        ({"partition_rows": "0"}, "invalid partition_rows 0: expected at least 1"),
        ({"snapshot": "x", "branch": "main"}, "remove `branch`"),
        ({"snapshot": "x", "version": "1"}, "the options `snapshot` and `version` both name a state: remove one"),
        ({"columns": "name,agee"}, "no column of Thing `agee`"),
        ({"filter": "agee > 3"}, "No field named agee"),
    ],
)
def test_what_is_not_there_is_named(read: Read, options: dict[str, str], problem: str) -> None:
    with pytest.raises(PySparkException) as caught:
        read(**options)
    assert problem in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_place_without_a_graph_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.read.format("omnigraph").option("type", "Thing").load(str(tmp_path))
    assert "there is no graph here" in str(caught.value)
