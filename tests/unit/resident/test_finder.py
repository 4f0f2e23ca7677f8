"""Rows that small writes look up are found in memory as the tables have them."""

import random
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.write import carried

SCHEMA = "node Person { name: String @key, age: I32? }"
WRITES = """
query put($name: String, $age: I32) { insert Person { name: $name, age: $age } }
query remove($name: String) { delete Person where name = $name }
"""
NAMES = [f"p{number}" for number in range(40)]


@pytest.mark.parametrize("bound", [512, 24])
def test_rows_are_found_in_what_is_carried_joined_and_folded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: int
) -> None:
    monkeypatch.setattr(carried, "CARRIED_ROWS", bound)
    chance = random.Random(7)  # noqa: S311
    graph = og.init(tmp_path / "graph", SCHEMA)
    graph.load({"Person": [{"name": name, "age": -1} for name in NAMES[:20]]})
    folded = joined = False
    for step in range(120):
        name = chance.choice(NAMES)
        if chance.random() < 0.3:
            graph.mutate(WRITES, "remove", {"name": name})
        else:
            graph.mutate(WRITES, "put", {"name": name, "age": step})
        if chance.random() < 0.2:  # what is in memory moves forward
            graph.query("query all { match { $p: Person } return { $p.name } }")
        at = graph.snapshot()
        table = at.table("node:Person")
        joined = joined or any(delta.count > 1 for delta in table.deltas)
        folded = folded or table.version > 2
        ids = pa.array(chance.sample(NAMES, 10))
        found = at.rows_with_ids("node:Person", ids, ("id", "age")).sort_by("id")
        assert found.equals(table.rows_with_ids(ids, ("id", "age")).sort_by("id"))
    assert joined if bound > 32 else folded
