"""Queries on a real graph: what they return, in which shapes, and at which moment of its history."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.conftest import SOCIAL_SCHEMA

QUERIES = """
query friends($name: String) {
    match { $p: Person { name: $name }  $p $k:knows $f }
    return { $f.name, $k.since, $f.age as age }
    order { $f.name }
}
query reach($name: String) {
    match { $p: Person { name: $name }  $p knows{1,3} $f  not { $f worksAt $_ } }
    return { count($f) as n }
}
query named($start: String) {
    match { $x: Named  $x.name starts_with $start }
    return { $x, $x.name }
    order { $x.name desc }
}
query add { insert Person { name: "Eve", bio: "late" } insert Knows { from: "Ada", to: "Eve" } }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph.omni", SOCIAL_SCHEMA)
    people = [{"type": "Person", "data": {"name": name, "bio": f"{name} writes", "age": age}}
              for name, age in (("Ada", 36), ("Bob", None), ("Cid", 5))]  # fmt: skip
    edges = [
        {"edge": "Knows", "from": a, "to": b, "data": {"since": "2020-01-02"}}
        for a, b in (("Ada", "Bob"), ("Bob", "Cid"))
    ]
    work = [{"type": "Company", "data": {"name": "ACME"}}, {"edge": "WorksAt", "from": "Cid", "to": "ACME"}]
    (tmp_path / "data.jsonl").write_text("\n".join(json.dumps(record) for record in [*people, *edges, *work]))
    graph.load(tmp_path / "data.jsonl")
    return graph


def test_a_query_returns_typed_rows(graph: og.Graph) -> None:
    result = graph.query(QUERIES, "friends", {"name": "Ada"})
    assert result.columns == ["f.name", "k.since", "age"]
    assert [str(field.type) for field in result.to_arrow().schema] == ["string", "date32[day]", "int32"]
    assert result.as_json()["rows"] == [{"f.name": "Bob", "k.since": "2020-01-02", "age": None}]
    assert result.commit_id == graph.snapshot().commit_id


def test_a_result_has_the_shapes_that_people_use(graph: og.Graph) -> None:
    result = graph.query(QUERIES, "named", {"start": ""})
    assert len(result) == 4
    assert [row["x.name"] for row in result] == ["Cid", "Bob", "Ada", "ACME"]
    assert list(result.to_pandas()["x.name"]) == ["Cid", "Bob", "Ada", "ACME"]
    assert result.rows()[3]["x"] == {"type": "Company", "id": "ACME", "name": "ACME"}
    shown = result._repr_html_()
    assert shown.startswith("<table>")
    assert "Ada" in shown


def test_a_query_reads_the_past(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.mutate(QUERIES, "add")
    now = graph.query(QUERIES, "friends", {"name": "Ada"})
    assert [row["f.name"] for row in now] == ["Bob", "Eve"]
    for past in (before, before.commit_id, before.commit.manifest_version, before.commit.created_at):
        assert [row["f.name"] for row in graph.query(QUERIES, "friends", {"name": "Ada"}, snapshot=past)] == ["Bob"]


def test_reachability_and_absence_in_one_query(graph: og.Graph) -> None:
    assert graph.query(QUERIES, "reach", {"name": "Ada"}).rows() == [{"n": 1}]


def test_a_query_may_come_from_a_file_whose_name_errors_tell(graph: og.Graph, tmp_path: Path) -> None:
    file = tmp_path / "wrong.gq"
    file.write_text("query q { match { $p: Persn } return { $p } }")
    with pytest.raises(og.QueryError, match=r"wrong\.gq:1:23"):
        graph.query(file)


def test_parameters_in_place_of_the_name_are_told_where_they_belong(graph: og.Graph) -> None:
    misplaced: Any = {"name": "Ada"}
    for ask in (graph.query, graph.mutate, graph.explain):
        with pytest.raises(og.UsageError, match="params="):
            ask(QUERIES, misplaced)


def test_an_explanation_names_every_scan_and_its_columns(graph: og.Graph) -> None:
    text = graph.explain(QUERIES, "friends", {"name": "Ada"})
    assert "edge:Knows" in text
    assert "bio" not in text


def test_wrong_parameters_and_mutations_are_refused(graph: og.Graph) -> None:
    with pytest.raises(og.ParameterError, match=r"\$name"):
        graph.query(QUERIES, "friends")
    with pytest.raises(og.UsageError, match="writes; run it with mutate"):
        graph.query(QUERIES, "add")


def test_one_off_queries_and_mutations_need_no_header(graph: og.Graph, tmp_path: Path) -> None:
    text = 'match { $p: Person { name: "Ada" }  $p knows $f } return { $f.* }'
    rows = graph.query(f"query q {{ {text} }}").rows()
    assert [row["f.name"] for row in rows] == ["Bob"]
    (tmp_path / "one.gq").write_text(text)
    assert (
        graph.query(text).rows() == graph.query(tmp_path / "one.gq").rows() == graph.prepare(text).run().rows() == rows
    )
    assert graph.explain(text).replace("\nquery\n", "\nquery q\n") == graph.explain(f"query q {{ {text} }}")
    changed = graph.mutate('match { $p: Person { name: "Ada" }  $p knows $f } update $f set { age: $p.age }')
    assert (changed.affected, changed.commit and changed.commit.message) == ({"nodes": 1, "edges": 0}, "mutate")
    assert graph.query(text).rows()[0]["f.age"] == 36
    gone = graph.mutate('delete Person where name = "Bob"', message="gone")
    assert (gone.commit and gone.commit.message) == "gone"
    assert graph.query(text).rows() == []
    with pytest.raises(og.UsageError, match=r"^this query writes; run it with mutate"):
        graph.query("delete Person where age = 1")
    with pytest.raises(og.UsageError, match=r"^this query writes; run it with mutate"):
        graph.prepare("delete Person where age = 1")
    with pytest.raises(og.UsageError, match=r"^this query reads; run it with query"):
        graph.mutate(text)


def test_a_list_is_a_column_of_no_rows_too(graph: og.Graph) -> None:
    result = graph.query('query q() { match { $p: Person { name: "nobody" } } return { $p.name, ["x"] as l } }')
    assert (result.columns, result.rows()) == (["p.name", "l"], [])
