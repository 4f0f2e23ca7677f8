"""A change of a schema on Spark leaves the graph that it leaves in the process, and refuses the same rows."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph as og

SCHEMA = """
node Doc { name: String @key, text: String, size: I32?, kind: String? }
edge Cites: Doc -> Doc { weight: F32? }
"""
CHANGED = """
node Paper @rename_from("Doc") {
    name: String @key
    text: String
    pages: I64? @rename_from("size")
    kind: enum(a, b)?
    tags: [String] @default(["x"])
    place: Vector(4) @embed("text", model="mock/one")
    @range(pages, 0..)
    @unique(text)
}
edge Cites: Paper -> Paper @card(0..2) { weight: F64?, note: String @default("-") }
"""


@pytest.fixture
def graphs(tmp_path: Path, spark: SparkSession) -> dict[str, og.Graph]:
    """Two graphs of the same content, each with a branch that has a row more, by the engine that is to change it."""
    assert spark
    made = {}
    for engine in ("local", "spark"):
        made[engine] = og.init(tmp_path / f"{engine}.omni", SCHEMA, durability="fast")
        rows = [{"name": f"d{at}", "text": f"t{at}", "size": at, "kind": "ab"[at % 2]} for at in range(9)]
        made[engine].load({"Doc": rows[:5], "Cites": [{"id": "c", "from": "d1", "to": "d2", "weight": 0.1}]})
        made[engine].load({"Doc": rows[5:]})
        made[engine].branches.create("b")
        made[engine].load({"Doc": [{"name": "late", "text": "l"}]}, branch="b")
    return made


def content(graph: og.Graph, branch: str) -> dict[str, Any]:
    snapshot = graph.snapshot(branch)
    return {key: snapshot.table(key).scan().sort_by("id").to_pylist() for key in snapshot.manifest.pins}


def test_both_engines_leave_the_same_graph(graphs: dict[str, og.Graph]) -> None:
    for engine, graph in graphs.items():
        assert graph.schema.apply(CHANGED, engine=engine).schema.number == 2
        assert graph.schema.catch_up("b", engine=engine).schema.number == 2
    local, on_spark = graphs["local"], graphs["spark"]
    assert content(on_spark, "main") == content(local, "main")
    assert content(on_spark, "b") == content(local, "b")
    assert len(content(local, "b")["node:Paper"]) == 10


def test_both_engines_refuse_the_same_rows(graphs: dict[str, og.Graph]) -> None:
    narrow = CHANGED.replace("0..)", "2..7)").replace("enum(a, b)", "enum(b)")
    found = []
    for engine, graph in graphs.items():
        with pytest.raises(og.ValidationError) as raised:
            graph.schema.apply(narrow, engine=engine)
        found.append((sorted(raised.value.violations), raised.value.total))
        assert graph.schema.at().number == 1
    assert found[0] == found[1]
    assert found[0][1] == 8
