"""Indexes built by Spark tasks are those built in the process."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.storage.indexes import NEAREST_PROBES, NEAREST_REFINE, VECTOR_METRIC

SCHEMA = """
node Doc {
    name: String @key
    body: String? @index("substring")
    open: Bool? @index
    tags: [String]? @index
    place: Vector(4)? @index
}
edge Cites: Doc -> Doc
"""


def place(number: int) -> list[float]:
    """One of 300 directions."""
    angle = number * math.tau / 300
    return [math.cos(angle), math.sin(angle), 0, 0]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_all_kinds_of_indexes_are_built_and_serve(tmp_path: Path, spark: SparkSession, engine: str) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    records: list[dict[str, Any]] = []
    for at in range(300):
        data = {"name": f"d{at}", "body": f"body {at}", "tags": [f"t{at % 3}"], "place": place(at)}
        records.append({"type": "Doc", "data": data})
    records += [{"edge": "Cites", "from": f"d{at}", "to": "d0"} for at in range(5)]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, records)))
    graph.load(tmp_path / "data.jsonl")
    result = graph.ensure_indices(engine=engine)
    assert result.pending == {}
    assert {each.state for each in graph.indexes()} == {"complete"}
    query = 'query q { match { $d: Doc $d.body contains "dy 29" $d.tags contains "t2" } return { $d.name as name } }'
    assert sorted(row["name"] for row in graph.query(query)) == ["d29", "d290", "d293", "d296", "d299"]
    table = graph.snapshot().table("node:Doc")
    search = {
        "column": "place",
        "q": place(299),
        "k": 1,
        "metric": VECTOR_METRIC,
        "nprobes": NEAREST_PROBES,
        "refine_factor": NEAREST_REFINE,
    }
    assert table.dataset.to_table(columns=["id", "_distance"], nearest=search)["id"].to_pylist() == ["d299"]
    assert table.dataset.to_table(columns=["id"], full_text_query="290")["id"].to_pylist() == ["d290"]
