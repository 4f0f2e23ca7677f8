"""A pipeline gives the same graph in this process and on Spark, with the same counts and rejected rows."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import omnigraph as og
from omnigraph.pipelines import PipelineRun, read_pipeline
from tests.behaviour.shop import TEXT, content, make_shop, write_customers, write_orders

VALUES = """
pipeline: values
sources:
  things: {files: things.parquet}
  lines: {files: lines.csv, columns: {name: string, size: int, day: date}}
views:
  sized: |
    select l.name, l.size / 2 as half, coalesce(t.note, 'none') as note, l.day, year(l.day) as year,
           case when l.size > 2 then 'large' else 'small' end as kind, split(t.note, ' ') as words
    from lines l left join things t on t.name = l.name
nodes:
  Thing:
    view: sized
    properties:
      {name: lower(name), half: half, note: note, day: day, year: year, kind: kind, words: words}
"""

ALL = """
query all {
    match { $t: Thing }
    return {
        $t.name as name, $t.half as half, $t.note as note, $t.year as year, $t.kind as kind, $t.words as words
    }
    order { name }
}
"""


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> str:
    return str(request.param)


def outcome(run: PipelineRun) -> Any:
    """What must be the same on both."""
    return run.sources, run.nodes, run.edges, [(each.name, each.violations, each.rows) for each in run.expectations]


def test_runs_give_the_same_graph(tmp_path: Path, spark: SparkSession) -> None:
    found = {}
    for engine in ("local", "spark"):
        folder = tmp_path / engine
        folder.mkdir()
        graph, shop = make_shop(folder)
        first = shop.run(graph, engine=engine)
        assert (first.engine, first.rejected_rows) == (engine, 2)
        write_customers(folder, 2, [(9, "Zoe, of \n Graz", "at")])
        write_orders(folder, 2, [(9, "C", 2, 1.0)])
        second = shop.run(graph, engine=engine)
        third = shop.run(graph, engine=engine, replay=[first.run])
        assert shop.run(graph, engine=engine).commit is None
        rejected = [
            {key: value for key, value in row.items() if key != "__run"}
            for row in pq.read_table(folder / "rejected" / first.run / "customers").to_pylist()
        ]
        found[engine] = content(graph), outcome(first), outcome(second), outcome(third), rejected
    assert found["local"] == found["spark"]


def test_expressions_give_the_same_values(tmp_path: Path, engine: str) -> None:
    pq.write_table(pa.table({"name": ["A", "B"], "note": ["x y", None]}), tmp_path / "things.parquet")
    (tmp_path / "lines.csv").write_text("name,size,day\nA,3,2024-02-29\nB,,\nC,1,2020-01-01\n")
    (tmp_path / "values.yaml").write_text(VALUES)
    graph = og.init(
        tmp_path / "graph",
        """
        node Thing {
            name: String @key, half: F64?, note: String?, day: Date?, year: I64?, kind: String?, words: [String]?
        }
        """,
    )
    read_pipeline(tmp_path / "values.yaml").run(graph, engine=engine)
    names = ("name", "half", "note", "year", "kind", "words")
    assert graph.query(ALL).table.to_pylist() == [
        dict(zip(names, row, strict=True))
        for row in (
            ("a", 1.5, "x y", 2024, "large", ["x", "y"]),
            ("b", None, "none", None, "small", None),
            ("c", 0.5, "none", 2020, "small", None),
        )
    ]


def people(spark: SparkSession) -> DataFrame:
    """Rows that a function makes."""
    return spark.createDataFrame([("Ada", 36), ("Bob", 41)], "name string, age int")


def test_data_frames_of_functions_and_formats_of_spark_are_sources(tmp_path: Path, spark: SparkSession) -> None:
    spark.createDataFrame([("Ada", "Bob")], "one string, other string").write.parquet(str(tmp_path / "knows"))
    text = f"""
pipeline: people
sources:
  people: {{function: "tests.engines.test_pipelines_on_both:people"}}
  knows: {{spark: parquet, options: {{path: "{tmp_path}/knows"}}}}
nodes:
  Person: {{view: people}}
edges:
  Knows: {{view: knows, from: one, to: other, id: "concat(one, '-', other)"}}
"""
    graph = og.init(tmp_path / "graph", "node Person { name: String @key, age: I32? }\nedge Knows: Person -> Person")
    done = read_pipeline(text, folder=tmp_path).run(graph)
    assert (done.engine, done.why) == ("spark", "the source `people` is a data frame of Spark")
    assert (done.nodes, done.edges) == ({"Person": 2}, {"Knows": 1})


def test_what_duckdb_does_not_accept_runs_on_spark(tmp_path: Path, spark: SparkSession) -> None:
    text = TEXT.replace("trim(name)", "soundex(trim(name))")
    graph, shop = make_shop(tmp_path, text)
    assert shop.validate(graph) == ()
    done = shop.run(graph)
    assert (done.engine, done.why) == ("spark", "DuckDB does not accept the definition")
    assert [each["data"]["name"] for each in content(graph) if each.get("type") == "Customer"] == ["A300", "B100"]
