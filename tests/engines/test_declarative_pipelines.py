"""The project of the documentation runs with `spark-pipelines run`: a graph is a sink and a source of its flows."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.spark.java import find_java
from tests.behaviour.streams import kill_all
from tests.crash.spark_moments import ROOT
from tests.engines.clusters import HOST
from tests.spark_session import QUICKLY_COMPILED

PAGE = ROOT / "docs" / "guide" / "streams.md"
SCHEMA = "node Customer { number: I64 @key, name: String, country: String? }"


def block_with(text: str) -> str:
    """The example of the page that has a text."""
    (found,) = (each for each in PAGE.read_text().split("```text\n")[1:] if text in each.partition("```")[0])
    return found.partition("```")[0]


@pytest.mark.long
def test_the_project_of_the_documentation_writes_a_graph_and_reads_its_changes(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "transformations").mkdir(parents=True)
    for file, text in (("spark-pipeline.yml", "libraries:"), ("transformations/shop.py", "dp.create_sink")):
        (project / file).write_text(block_with(text).replace("/data/", f"{tmp_path}/"))
    graph = og.init(tmp_path / "shop.omni", SCHEMA, durability="fast")
    graph.load({"Customer": [{"number": 1, "name": "Ada", "country": "UK"}]})
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/1.json").write_text('{"number": 1, "name": "Ada L"}\n{"number": 2, "name": "Bob"}\n{}\n')
    mark = str(tmp_path / "mark")
    environment = {
        **os.environ,
        **QUICKLY_COMPILED,
        "JAVA_HOME": str(find_java().home_for_scripts()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": HOST,
        "OMNIGRAPH_MARK": mark,
    }
    command = [str(Path(sys.executable).with_name("spark-pipelines")), "run"]
    try:
        ended = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=500, check=False
        )
    finally:
        kill_all(mark)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Run is COMPLETED" in ended.stdout + ended.stderr
    rows = {row["number"]: row["name"] for row in graph.snapshot().table("node:Customer").scan().to_pylist()}
    assert rows == {1: "Ada L", 2: "Bob"}
    assert [(each.application, each.batch) for each in graph.commits.list()][:1] == [("shop/customers", 0)]
    changes = pq.read_table(project / "spark-warehouse" / "customer_changes").to_pylist()
    assert (1, "Ada", "insert", 2) in {
        (row["number"], row["name"], row["_change_type"], row["_commit_version"]) for row in changes
    }
    counts = pq.read_table(project / "spark-warehouse" / "countries").to_pylist()
    assert sum(row["count"] for row in counts) in (1, 2)  # before the flow into the graph, or after it
