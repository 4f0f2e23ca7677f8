"""A table of few edges or keys on a disk is read without indexes that nobody declared, with the same answers."""

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person { since: I32? @index }
"""
IMPLICIT = ("id_btree", "topology")
HOP = "query q { match { $p: Person  $p knows $q } return { $p.id, $q.id } }"
SETTING, TOPOLOGY = "OMNIGRAPH_INDEXED_EDGES", "OMNIGRAPH_TOPOLOGY_EDGES"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return _graph_at(tmp_path / "graph")


def test_only_declared_indexes_of_few_edges_are_built_and_the_others_are_pending_with_a_reason(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SETTING)
    monkeypatch.delenv(TOPOLOGY)
    result = graph.ensure_indices(engine="local")
    assert result.built == {"node:Person": ("id_btree", "name_btree", "name_inverted"), "edge:Knows": ("since_btree",)}
    reasons = {
        name: f"expected at least {enough} edges, found 99; fewer are read without an index"
        for name, enough in (("id_btree", "1,048,576"), ("topology", "65,536"))
    }
    assert result.pending == {"edge:Knows": reasons}
    states = {each.name: (each.state, each.reason) for each in graph.indexes() if each.table_key == "edge:Knows"}
    pending = {name: ("pending", reason) for name, reason in reasons.items()}
    assert states == {**pending, "since_btree": ("complete", None)}
    assert graph.ensure_indices(engine="local").commit is None


def test_optimize_does_not_build_them_either(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SETTING)
    monkeypatch.delenv(TOPOLOGY)
    graph.optimize(engine="local")
    assert _built(graph) == {"since_btree"}


def test_the_setting_says_from_how_many_edges_on_they_are_built(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, "100")
    monkeypatch.setenv(TOPOLOGY, "100")
    graph.ensure_indices(engine="local")
    assert _built(graph) == {"since_btree"}
    graph.mutate('query q { insert Knows { from: "p1", to: "p9" } }')
    graph.ensure_indices(engine="local")
    assert _built(graph) == {"since_btree", *IMPLICIT}


def test_a_setting_that_is_not_a_positive_number_is_refused(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTING, "0")
    with pytest.raises(og.UsageError, match="invalid OMNIGRAPH_INDEXED_EDGES '0': expected a number above zero"):
        graph.ensure_indices(engine="local")


def test_indexes_that_exist_are_kept_up_to_date_by_optimize(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.ensure_indices(engine="local")
    monkeypatch.delenv(SETTING)
    monkeypatch.delenv(TOPOLOGY)
    graph.load({"Knows": pa.table({"from": ["p1"], "to": ["p50"]})}, engine="local")
    graph.optimize(engine="local")
    edges = [each for each in graph.indexes() if each.table_key == "edge:Knows" and each.name != "topology"]
    assert {each.name: each.state for each in edges} == dict.fromkeys(("id_btree", "since_btree"), "complete")


def test_steps_and_deletes_are_the_same_with_and_without_them(
    tmp_path: Path, graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed = _graph_at(tmp_path / "indexed")
    indexed.ensure_indices(engine="local")
    monkeypatch.delenv(SETTING)
    monkeypatch.delenv(TOPOLOGY)
    graph.ensure_indices(engine="local")
    assert not _built(graph) & {*IMPLICIT}
    assert "id_btree" in _built(indexed)
    for each in (graph, indexed):
        each.mutate('query q { delete Person where name = "p7" }')
    left = [{tuple(row.values()) for row in each.query(HOP).rows()} for each in (graph, indexed)]
    assert left[0] == left[1] == {(f"p{number}", f"p{number + 1}") for number in range(99) if number not in (6, 7)}


def _graph_at(folder: Path) -> og.Graph:
    graph = og.init(folder, SCHEMA)
    people = pa.table({"name": [f"p{number}" for number in range(100)]})
    ends = {"from": [f"p{number}" for number in range(99)], "to": [f"p{number + 1}" for number in range(99)]}
    graph.load({"Person": people, "Knows": pa.table({**ends, "since": list(range(99))})}, engine="local")
    return graph


def _built(graph: og.Graph) -> set[str]:
    found = [each for each in graph.indexes() if each.table_key == "edge:Knows"]
    return {each.name for each in found if each.state in ("complete", "partial")}


def test_the_words_of_few_keys_are_indexed_only_if_that_is_declared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = "node Tag { slug: String @key }\nnode Topic { slug: String @key @index }"
    graph = og.init(tmp_path / "keys", schema, durability="fast")
    slugs = pa.table({"slug": [f"no {number}" for number in range(50)]})
    graph.load({"Tag": slugs, "Topic": slugs}, engine="local")
    search = 'query q { match { $t: Tag  search($t.slug, "7") } return { $t.slug } }'
    assert graph.query(search).rows() == [{"t.slug": "no 7"}]
    monkeypatch.setenv("OMNIGRAPH_INDEXED_KEYS", "51")
    result = graph.ensure_indices(engine="local")
    declared = ("id_btree", "slug_btree")
    assert result.built == {"node:Tag": declared, "node:Topic": (*declared, "slug_inverted")}
    reason = "expected at least 51 keys, found 50; fewer are read without an index"
    assert result.pending == {"node:Tag": {"slug_inverted": reason}}
    assert graph.query(search).rows() == [{"t.slug": "no 7"}]
    graph.mutate('query q { insert Tag { slug: "no 50" } }')
    assert graph.ensure_indices(engine="local").built == {"node:Tag": ("slug_inverted",)}
    assert graph.query(search).rows() == [{"t.slug": "no 7"}]
    assert "through the index slug_inverted" in graph.explain(search)
