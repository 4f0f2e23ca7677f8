"""A change of a schema checks and fills rows on Spark as it does in the process."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.errors import ValidationError
from omnigraph.evolution.columns import column_work, write_all_columns
from omnigraph.evolution.rules import new_rule_violations
from omnigraph.parts.engine import Engine, InProcess
from omnigraph.spark import SparkEngine
from omnigraph.storage.columns import stage_columns
from omnigraph.storage.commits import commit_staged
from omnigraph.violations import Violation

SCHEMA = """
node Doc { name: String @key, text: String?, size: I32?, kind: String? }
edge Cites: Doc -> Doc
"""
RULED = """
node Paper @rename_from("Doc") {
    name: String @key
    text: String?
    pages: I64? @rename_from("size")
    kind: enum(a, b)?
    place: Vector(4) @embed("text", model="mock/one")
    @range(pages, ..40)
    @unique(text)
}
edge Cites: Paper -> Paper @card(1..1)
"""
FILLED = """
node Doc {
    name: String @key
    text: String?
    size: I64?
    kind: String?
    tags: [String] @default(["x"])
    label: String @default("none")
    place: Vector(4) @embed("label", model="mock/one")
}
edge Cites: Doc -> Doc { weight: F64 @default(0.5) }
"""


@pytest.fixture(params=["local", "spark"])
def engine(request: pytest.FixtureRequest, spark: SparkSession) -> Engine:
    return InProcess() if request.param == "local" else SparkEngine(spark)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Fifty rows in two fragments."""
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA, durability="fast")
    rows = [{"name": f"d{at:02}", "text": f"t{at % 45}", "size": at, "kind": "ab"[at % 2]} for at in range(50)]
    graph.load({"Doc": rows[:30]})
    graph.load({"Doc": [*rows[30:49], {"name": "d49", "kind": "c"}]})
    graph.load({"Cites": [{"from": row["name"], "to": "d00"} for row in [*rows[:49], rows[7]]]})
    return graph


@pytest.mark.parametrize("keys", [1_000, 10])
def test_rows_that_break_rules_are_found(
    graph: og.Graph, engine: Engine, keys: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.parts.buckets.KEYS_A_BUCKET", keys)
    faults = new_rule_violations(graph.snapshot(), graph.schema.plan(RULED), engine)
    expected = [
        Violation("Paper", "kind", "`c` is not one of `a` or `b`", id="d49"),
        Violation("Paper", "place", "a value is required, and `text` has no text to compute it from", id="d49"),
        *(Violation("Paper", "pages", f"{at} is outside ..40", id=f"d{at}") for at in range(41, 49)),
    ]
    assert [each for each in faults.shown if each.rule == "value"] == expected
    others = sorted((each.rule, each.type, each.id) for each in faults.shown if each.rule != "value")
    assert others == [
        ("cardinality", "Cites", "d07"),
        ("cardinality", "Cites", "d49"),
        *(("unique", "Paper", f"d{at}") for at in range(45, 49)),
    ]
    assert faults.total == len(faults.shown)


def test_columns_are_filled(graph: og.Graph, engine: Engine) -> None:
    snapshot = graph.snapshot()
    work = column_work(snapshot, graph.schema.plan(FILLED))
    tables = {key: snapshot.table(key) for key in work}
    written = write_all_columns(tables, work, engine)
    for key, each in work.items():
        for staged in stage_columns(tables[key], each.layout, written[key], "test"):
            tables[key] = commit_staged(tables[key], staged)
    docs = tables["node:Doc"].scan().sort_by("name").to_pylist()
    assert [row["size"] for row in docs] == [*range(49), None]
    assert {(row["label"], *row["tags"]) for row in docs} == {("none", "x")}
    assert len({tuple(row["place"]) for row in docs}) == 1
    assert tables["edge:Cites"].scan(["weight"])["weight"].to_pylist() == [0.5] * 50


def test_a_row_that_cannot_have_a_vector_is_named(graph: og.Graph, engine: Engine) -> None:
    snapshot = graph.snapshot()
    work = column_work(snapshot, graph.schema.plan(RULED))
    tables = {key: snapshot.table(key) for key in work}
    with pytest.raises(ValidationError) as raised:
        write_all_columns(tables, work, engine)
    assert [each.id for each in raised.value.violations] == ["d49"]
