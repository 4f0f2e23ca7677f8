"""A load of many edges writes them by their ends; whoever loads and asks notices nothing of it."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.loading import tasks

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person { since: I32, note: String? @unique }
"""
EDGES = [("c", "a", 1), ("a", "c", 2), ("b", "a", 3), ("a", "b", 4), ("a", "c", 5)]
PEOPLE = [json.dumps({"type": "Person", "data": {"name": name}}) for name in "abc"]


@pytest.fixture(autouse=True)
def order_all_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "ORDERED_EDGES", 2)


def edge(start: str, end: str, since: int, **data: str) -> str:
    return json.dumps({"edge": "Knows", "from": start, "to": end, "data": {"since": since, **data}})


def load(tmp_path: Path, lines: list[str]) -> og.Graph:
    (tmp_path / "rows.jsonl").write_text("\n".join([*PEOPLE, *lines]))
    graph = og.init(tmp_path / "graph", SCHEMA)
    graph.load(tmp_path / "rows.jsonl", engine="local")
    return graph


def test_the_rows_lie_by_their_ends_and_ids_ascend(tmp_path: Path) -> None:
    graph = load(tmp_path, [edge(*each) for each in EDGES])
    rows = graph.snapshot().table("edge:Knows").plain.scan(["id", "src", "dst", "since"]).to_pylist()
    assert [(row["src"], row["dst"], row["since"]) for row in rows] == [
        ("a", "b", 4),
        ("a", "c", 2),
        ("a", "c", 5),
        ("b", "a", 3),
        ("c", "a", 1),
    ]
    assert [row["id"] for row in rows] == sorted(row["id"] for row in rows)


def test_a_query_finds_the_edges_with_their_values(tmp_path: Path) -> None:
    graph = load(tmp_path, [edge(*each) for each in EDGES])
    found = graph.query("query q { match { $p: Person  $p $k:knows $q } return { $p.name, $q.name, $k.since } }").rows()
    assert sorted(tuple(row.values()) for row in found) == sorted(EDGES)


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ([edge("c", "a", 1), edge("z", "a", 2), edge("a", "b", 3)], 5),
        ([edge("c", "a", 1, note="x"), edge("b", "a", 2), edge("a", "b", 3, note="x")], 6),
    ],
)
def test_a_mistake_is_reported_with_the_line_of_its_record(tmp_path: Path, wrong: list[str], line: int) -> None:
    with pytest.raises(og.ValidationError) as raised:
        load(tmp_path, wrong)
    assert {each.line for each in raised.value.violations} & {line, 4}
    assert all(each.line in (line, 4) for each in raised.value.violations)
