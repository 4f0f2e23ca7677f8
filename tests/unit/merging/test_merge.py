"""Merges of whole graphs, decided in memory: every kind of conflict, which side wins, and what both began with."""

from collections.abc import Mapping
from typing import Any

import pytest

from omnigraph.api.history import ConflictKind, MergeConflict, MergeKind
from omnigraph.errors import SchemaBehind
from omnigraph.merging.three_way import Strategy
from tests.unit.merging.memory import MemoryGraph, Rows, compare_in_memory, schemas

SCHEMA = """
node Person { name: String @key, age: I32?, mail: String? @unique, @range(age, 0..150) }
node Pet { tag: String @key }
edge Owns: Person -> Pet @card(0..2) { since: I32? }
"""
FORK = {"base": [], "ours": ["base"], "theirs": ["base"]}
STRATEGIES: tuple[Strategy, Strategy] = ("ours", "theirs")


@pytest.fixture(autouse=True)
def _tables_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    compare_in_memory(monkeypatch)


def person(name: str, **values: Any) -> dict[str, Any]:
    return {"id": name, "name": name, **values}


def pet(tag: str) -> dict[str, Any]:
    return {"id": tag, "tag": tag}


def owns(id: str, source: str, destination: str) -> dict[str, Any]:
    return {"id": id, "src": source, "dst": destination}


def forked(base: Rows, ours: Rows, theirs: Rows) -> MemoryGraph:
    return MemoryGraph(FORK, schemas(SCHEMA), {"base": base, "ours": ours, "theirs": theirs})


def conflicts(graph: MemoryGraph, **options: Any) -> list[MergeConflict]:
    return [*graph.merge("theirs", "ours", **options).conflicts]


# --- which merge it is ---


def test_what_we_have_already_is_not_merged() -> None:
    graph = MemoryGraph({"theirs": [], "ours": ["theirs"]}, schemas(SCHEMA), {})
    result = graph.merge("theirs", "ours")
    assert (result.kind, result.merged_commit_id, result.changes) == (MergeKind.ALREADY_UP_TO_DATE, "theirs", {})


def test_where_we_did_nothing_it_is_a_fast_forward() -> None:
    content: Mapping[str, Rows] = {"ours": {"Person": [person("ada")]}, "theirs": {"Person": [person("bob")]}}
    result = MemoryGraph({"ours": [], "theirs": ["ours"]}, schemas(SCHEMA), content).merge("theirs", "ours")
    assert result.kind is MergeKind.FAST_FORWARD
    assert result.changes == {"Person": {"inserted": 1, "updated": 0, "deleted": 1}}
    assert result.commit is None, "a merge that is only tried makes no commit"


def test_what_only_one_side_did_is_merged_and_counted() -> None:
    graph = forked(
        {"Person": [person("ada"), person("bob"), person("cem")]},
        {"Person": [person("ada", age=1), person("bob"), person("cem")], "Pet": [pet("rex")]},
        {"Person": [person("ada"), person("bob", age=2), person("dan")]},
    )
    result = graph.merge("theirs", "ours")
    assert (result.kind, result.conflicts) == (MergeKind.MERGED, ())
    assert result.changes == {"Person": {"inserted": 1, "updated": 1, "deleted": 1}}


# --- every kind of conflict ---

BASE: Rows = {"Person": [person("ada"), person("bob")], "Pet": [pet("rex")]}
DIVERGED: dict[ConflictKind, tuple[Rows, Rows]] = {
    ConflictKind.DIVERGENT_INSERT: (
        {**BASE, "Pet": [pet("rex")], "Person": [*BASE["Person"], person("cem", age=1)]},
        {**BASE, "Person": [*BASE["Person"], person("cem", age=2)]},
    ),
    ConflictKind.DIVERGENT_UPDATE: (
        {**BASE, "Person": [person("ada", age=1), person("bob")]},
        {**BASE, "Person": [person("ada", age=2), person("bob")]},
    ),
    ConflictKind.DELETE_VS_UPDATE: (
        {**BASE, "Person": [person("bob")]},
        {**BASE, "Person": [person("ada", age=2), person("bob")]},
    ),
}


@pytest.mark.parametrize("kind", DIVERGED)
def test_what_both_sides_did_differently_is_a_conflict_unless_a_strategy_decides(kind: ConflictKind) -> None:
    graph = forked(BASE, *DIVERGED[kind])
    (found,) = conflicts(graph)
    assert (found.kind, found.type, found.property) == (kind, "Person", None)
    assert [conflicts(graph, strategy=each) for each in STRATEGIES] == [[], []]


@pytest.mark.parametrize(("strategy", "updated"), [("ours", {}), ("theirs", {"Person": 1})])
def test_the_side_that_a_strategy_names_wins(strategy: Strategy, updated: dict[str, int]) -> None:
    result = forked(BASE, *DIVERGED[ConflictKind.DIVERGENT_UPDATE]).merge("theirs", "ours", strategy=strategy)
    assert {name: counts["updated"] for name, counts in result.changes.items()} == updated


def test_cells_that_both_set_differently_are_a_conflict_of_that_property() -> None:
    graph = forked(
        {"Person": [person("ada")]},
        {"Person": [person("ada", age=1, mail="a@x")]},
        {"Person": [person("ada", age=2)]},
    )
    (found,) = conflicts(graph, cells=True)
    assert (found.property, found.base, found.ours, found.theirs) == ("age", None, 1, 2)
    assert [conflicts(graph, cells=True, strategy=each) for each in STRATEGIES] == [[], []]


def test_their_edge_at_a_node_that_we_deleted_is_an_orphan() -> None:
    graph = forked(BASE, {**BASE, "Pet": []}, {**BASE, "Owns": [owns("e", "ada", "rex")]})
    (found,) = conflicts(graph)
    assert found == MergeConflict(ConflictKind.ORPHAN_EDGE, "Owns", "e", "dst", theirs="rex")


def test_our_edge_at_a_node_that_they_deleted_is_an_orphan() -> None:
    graph = forked(BASE, {**BASE, "Owns": [owns("e", "ada", "rex")]}, {**BASE, "Pet": []})
    (found,) = conflicts(graph)
    assert found == MergeConflict(ConflictKind.ORPHAN_EDGE, "Owns", "e", "dst", ours="rex")


def test_an_edge_that_goes_with_its_node_is_not_an_orphan() -> None:
    base = {**BASE, "Owns": [owns("e", "ada", "rex")]}
    assert conflicts(forked(base, base, {**BASE, "Pet": []})) == []


def test_an_edge_at_a_node_in_conflict_is_not_reported_besides() -> None:
    graph = forked(
        BASE,
        {**BASE, "Person": [person("ada", age=1), person("bob")], "Owns": [owns("e", "ada", "rex")]},
        {**BASE, "Person": [person("bob")]},
    )
    assert [(each.kind, each.id) for each in conflicts(graph)] == [(ConflictKind.DELETE_VS_UPDATE, "ada")]


def test_a_unique_value_that_both_sides_gave_is_a_conflict() -> None:
    graph = forked(
        BASE,
        {**BASE, "Person": [person("ada", mail="x"), person("bob")]},
        {**BASE, "Person": [person("ada"), person("bob", mail="x")]},
    )
    (found,) = conflicts(graph)
    assert (found.kind, found.type, found.id) == (ConflictKind.UNIQUE_VIOLATION, "Person", "bob")
    assert [len(conflicts(graph, strategy=each)) for each in STRATEGIES] == [1, 1], "no strategy resolves it"


def test_more_edges_together_than_a_node_may_have_are_a_conflict() -> None:
    pets = {**BASE, "Pet": [pet("rex"), pet("tom"), pet("kit")]}
    graph = forked(
        pets,
        {**pets, "Owns": [owns("e", "ada", "rex"), owns("f", "ada", "tom")]},
        {**pets, "Owns": [owns("g", "ada", "kit")]},
    )
    assert [(each.kind, each.type) for each in conflicts(graph)] == [(ConflictKind.CARDINALITY_VIOLATION, "Owns")]


# --- across schemas ---


def evolved(later: str, base: Rows, ours: Rows, theirs: Rows) -> MemoryGraph:
    """We have changed the schema since the base; they have not."""
    content = {"base": base, "ours": ours, "theirs": theirs}
    return MemoryGraph(FORK, schemas(SCHEMA, later), content, numbers={"ours": 2})


def test_a_value_that_a_rule_of_ours_does_not_allow_is_a_conflict() -> None:
    graph = evolved(SCHEMA.replace("0..150", "0..99"), BASE, BASE, {**BASE, "Person": [person("ada", age=120)]})
    found = conflicts(graph)
    assert [(each.kind, each.id, each.property) for each in found] == [
        (ConflictKind.VALUE_CONSTRAINT_VIOLATION, "ada", "age")
    ]


WITHOUT_PETS = "node Person { name: String @key, age: I32?, mail: String? @unique, @range(age, 0..150) }"


def test_what_they_did_to_a_type_that_we_dropped_is_one_conflict() -> None:
    people = {"Person": BASE["Person"]}
    graph = evolved(WITHOUT_PETS, BASE, people, {**BASE, "Pet": [pet("rex"), pet("tom")]})
    assert conflicts(graph) == [MergeConflict(ConflictKind.DROPPED_TYPE, "Pet", "", theirs=1)]
    assert conflicts(graph, strategy="ours") == []
    assert len(conflicts(graph, strategy="theirs")) == 1
    assert conflicts(evolved(WITHOUT_PETS, BASE, people, {**BASE, "Pet": []})) == [], "a delete loses nothing"


def test_values_that_they_set_for_a_property_that_we_dropped_are_one_conflict() -> None:
    later = SCHEMA.replace("mail: String? @unique, ", "")
    graph = evolved(later, BASE, BASE, {**BASE, "Person": [person("ada", mail="x"), person("cem", mail="y")]})
    found = MergeConflict(ConflictKind.DROPPED_PROPERTY, "Person", "", property="mail", theirs=2)
    assert conflicts(graph) == [found]
    assert conflicts(graph, strategy="ours") == []


def test_a_property_that_they_do_not_know_keeps_what_we_have() -> None:
    later = SCHEMA.replace("age: I32?", 'age: I32?, town: String? @default("Rome")')
    ours = {**BASE, "Person": [person("ada", town="Bonn"), person("bob", town="Rome")]}
    theirs = {**BASE, "Person": [person("ada", age=3), person("bob")]}
    graph = evolved(later, BASE, ours, theirs)
    result = graph.merge("theirs", "ours", cells=True)
    assert result.conflicts == ()
    assert result.changes == {"Person": {"inserted": 0, "updated": 1, "deleted": 0}}
    assert (result.schema is not None, result.schema and (result.schema.from_, result.schema.to)) == (True, (1, 2))


def test_a_schema_change_alone_changes_no_row() -> None:
    later = SCHEMA.replace("age: I32?", 'age: I32?, town: String? @default("Rome")')
    ours = {**BASE, "Person": [person("ada", town="Rome"), person("bob", town="Rome")]}
    result = evolved(later, BASE, ours, BASE).merge("theirs", "ours")
    assert (result.conflicts, result.changes) == ((), {})


def test_a_branch_with_a_newer_schema_is_refused() -> None:
    catalogs = schemas(SCHEMA, WITHOUT_PETS)
    graph = MemoryGraph(FORK, catalogs, {}, numbers={"theirs": 2})
    with pytest.raises(SchemaBehind):
        graph.merge("theirs", "ours")


# --- what both began with ---

CRISS_CROSS = {
    "base": [],
    "left": ["base"],
    "right": ["base"],
    "ours": ["left", "right"],
    "theirs": ["right", "left"],
}


def test_where_two_bases_differ_only_what_both_sides_have_is_merged() -> None:
    content: dict[str, Rows] = {
        "base": {"Person": [person("ada"), person("bob")]},
        "left": {"Person": [person("ada", age=1), person("bob")]},
        "right": {"Person": [person("ada", age=2), person("bob")]},
        "ours": {"Person": [person("ada", age=1), person("bob")]},
        "theirs": {"Person": [person("ada", age=2), person("bob", age=5)]},
    }
    (found,) = MemoryGraph(CRISS_CROSS, schemas(SCHEMA), content).merge("theirs", "ours").conflicts
    assert (found.kind, found.id, found.base) == (ConflictKind.DIVERGENT_UPDATE, "ada", None)
    content["theirs"] = {"Person": [person("ada", age=1), person("bob", age=5)]}
    assert MemoryGraph(CRISS_CROSS, schemas(SCHEMA), content).merge("theirs", "ours").conflicts == ()


def test_an_older_base_stands_in_for_one_on_a_deleted_branch() -> None:
    parents = {"base": [], "side": ["base"], "main": ["base"], "ours": ["main", "side"], "theirs": ["side"]}
    content: dict[str, Rows] = {
        "base": {"Person": [person("ada")]},
        "side": {"Person": [person("ada", age=1)]},
        "main": {"Person": [person("ada")]},
        "ours": {"Person": [person("ada", age=1)]},
        "theirs": {"Person": [person("ada", age=2)]},
    }
    graph = MemoryGraph(parents, schemas(SCHEMA), content)
    assert graph.merge("theirs", "ours").conflicts == (), "only they changed it since the side branch"
    without = MemoryGraph(parents, schemas(SCHEMA), content, deleted=["side"])
    (found,) = without.merge("theirs", "ours").conflicts
    assert (found.id, found.base) == ("ada", None), "it is not known whether we changed it"
