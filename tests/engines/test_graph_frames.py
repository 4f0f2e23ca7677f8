"""A graph in the shape of GraphFrames, and the way back."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import omnigraph as og

SCHEMA = """
node Person { name: String @key, age: I32?, rank: F64? }
node Company { name: String @key, rank: F64? }
edge Knows: Person -> Person { since: Date? }
edge WorksAt: Person -> Company
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return filled(tmp_path_factory.mktemp("frames"))


def filled(folder: Path) -> og.Graph:
    """Two people who know each other; the id of one is that of a company, too."""
    graph = og.init(folder / "graph.omni", SCHEMA, durability="fast")
    graph.load({"Person": [{"name": "Ada", "age": 36}, {"name": "Bob"}], "Company": [{"name": "Ada"}]})
    graph.load(
        {
            "Knows": [{"id": "k1", "from": "Ada", "to": "Bob", "since": "2020-01-02"}],
            "WorksAt": [{"id": "w1", "from": "Bob", "to": "Ada"}],
        }
    )
    return graph


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: row["id"])


def test_vertices_and_edges_have_the_shape_that_graphframes_takes(graph: og.Graph, spark: SparkSession) -> None:
    vertices, edges = og.spark.graph_tables(graph)
    assert rows(vertices.select("id", "type", "name", "age")) == [
        {"id": "Company:Ada", "type": "Company", "name": "Ada", "age": None},
        {"id": "Person:Ada", "type": "Person", "name": "Ada", "age": 36},
        {"id": "Person:Bob", "type": "Person", "name": "Bob", "age": None},
    ]
    assert edges.columns == ["id", "src", "dst", "type", "since"]
    assert [(row["src"], row["dst"], row["type"]) for row in rows(edges)] == [
        ("Person:Ada", "Person:Bob", "Knows"),
        ("Person:Bob", "Company:Ada", "WorksAt"),
    ]


def test_types_and_states_are_chosen_as_for_an_analysis(spark: SparkSession, tmp_path: Path) -> None:
    graph = filled(tmp_path)
    before = graph.snapshot()
    graph.mutate('query q { insert Person { name: "Cleo" } }')
    assert og.spark.graph_tables(graph, edges="Knows").vertices.count() == 3
    assert og.spark.graph_tables(graph, edges="Knows", snapshot=before).vertices.count() == 2
    assert og.spark.graph_tables(graph, nodes=["Company"]).edges.columns == ["id", "src", "dst", "type"]
    with pytest.raises(og.NotFound, match="Knws"):
        og.spark.graph_tables(graph, edges=["Knws"])


def test_types_that_may_not_be_read_are_denied(graph: og.Graph, spark: SparkSession, tmp_path: Path) -> None:
    rules = tmp_path / "policy.yaml"
    rules.write_text("rules:\n- {id: readers, actors: [eve], actions: [read], types: [Person, Knows]}\n", "utf-8")
    restricted = og.open(graph.uri, policy=rules, actor="eve")
    assert og.spark.graph_tables(restricted, edges="Knows").vertices.count() == 2
    for chosen in ({}, {"nodes": "Company"}):
        with pytest.raises(og.PolicyDenied):
            og.spark.graph_tables(restricted, **chosen)


def test_what_was_computed_for_vertices_is_loaded_as_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    graph = filled(tmp_path)
    vertices, edges = og.spark.graph_tables(graph)
    ranked = vertices.withColumn("rank", sql.length("id").cast("double"))
    found = og.spark.load_graph_frame(graph, (ranked, edges), message="ranks")
    assert (found.nodes, found.edges) == ({"Company": 1, "Person": 2}, {"Knows": 1, "WorksAt": 1})
    assert graph.entity("Person", "Ada") == {"id": "Ada", "name": "Ada", "age": 36, "rank": 10.0}
    assert graph.entity("Company", "Ada") == {"id": "Ada", "name": "Ada", "rank": 11.0}
    assert graph.snapshot().scan("edge:Knows", columns=["id", "src", "dst"]).to_pylist() == [
        {"id": "k1", "src": "Ada", "dst": "Bob"}
    ]
    assert graph.commits.list()[0].message == "ranks"
    og.spark.load_graph_frame(graph, (vertices.withColumn("rank", sql.lit(2.5)), None), branch="scores", from_="main")
    assert [(graph.entity("Person", "Bob", at=each) or {})["rank"] for each in ("main", "scores")] == [10.0, 2.5]


def test_a_graph_that_others_made_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", "node Person { name: String @key }\nedge Knows: Person -> Person")
    people = spark.createDataFrame([("a", "a"), ("b", "b")], "id string, name string")
    known = spark.createDataFrame([("a", "b")], "src string, dst string")

    class Given:
        vertices, edges = people, known

    found = og.spark.load_graph_frame(graph, Given, mode="append")
    assert (found.nodes, found.edges) == ({"Person": 2}, {"Knows": 1})


@pytest.mark.parametrize(
    ("vertices", "edges", "problem"),
    [
        ("select 'a' as id, 'Person' as type, 1.0 as pagerank", None, "`pagerank` is not a property of any node type"),
        ("select 'a' as id, 'Persn' as type", None, "Persn"),
        ("select 'a' as id, cast(null as string) as type", None, "a row in the frame of nodes has no type"),
        ("select 'a' as id", None, "needs a column `type`: the schema has 2 node types"),
        (None, "select 'a' as src, 'Knows' as type", "has no column `dst`"),
        (None, None, "there is nothing to load"),
    ],
)
def test_frames_that_do_not_fit_are_refused(
    graph: og.Graph, spark: SparkSession, vertices: str | None, edges: str | None, problem: str
) -> None:
    before = graph.snapshot().commit_id
    given = tuple(None if each is None else spark.sql(each) for each in (vertices, edges))
    with pytest.raises(og.OmnigraphError, match=problem):
        og.spark.load_graph_frame(graph, given)
    assert graph.snapshot().commit_id == before


def test_properties_that_make_no_common_column_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    schema = "node A { key: String @key, size: I32? }\nnode B { key: String @key, size: F64? }"
    graph = og.init(tmp_path / "graph.omni", schema)
    with pytest.raises(og.UsageError, match=r"`A\.size` is I32 and `B\.size` is F64, which cannot be one column"):
        og.spark.graph_tables(graph)
    assert og.spark.graph_tables(graph, nodes="A").vertices.columns == ["id", "type", "key", "size"]


def test_a_graphframe_needs_its_package_and_its_jar(graph: og.Graph, spark: SparkSession) -> None:
    try:
        frame = og.spark.graph_frame(graph)
    except og.UsageError as error:
        pytest.skip(str(error))
    assert frame.vertices.count() == 3
    assert frame.inDegrees.count() == 2
