"""Merges between branches whose schemas differ: what was done to rows is merged, and nothing is lost in silence."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.history import MergeResult
from omnigraph.embedding.fill import MockModel
from tests.behaviour.people import write
from tests.behaviour.test_cli import omnigraph_cli

FIRST = """
node Person { name: String @key, age: I32?, city: String?, nick: String? }
node City { name: String @key, size: I32? }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City
"""
SECOND = """
node Human @rename_from("Person") {
    name: String @key, years: I64? @rename_from("age"), city: String?, nick: String?
    rank: I32 @default(3), note: String?
}
node City { name: String @key, size: I32? }
edge Knows: Human -> Human { since: I32? }
edge LivesIn: Human -> City
"""
WITHOUT_NICK = FIRST.replace(", nick: String?", "")
WITHOUT_CITIES = "\n".join(line for line in FIRST.splitlines() if "City" not in line)
START = """
    insert Person { name: "Ada", age: 1, city: "Oslo", nick: "A" } insert Person { name: "Bob", age: 2 }
    insert City { name: "Oslo" } insert Knows { id: "ab", from: "Ada", to: "Bob", since: 1 }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with a branch `b`."""
    graph = og.init(tmp_path / "graph.omni", FIRST, durability="fast")
    write(graph, START)
    graph.branches.create("b")
    return graph


def rows(graph: og.Graph, key: str, branch: str = "main") -> dict[str, dict[str, Any]]:
    found = graph.snapshot(branch).table(key).scan().to_pylist()
    return {row.pop("id"): row for row in found}


def conflicts(graph: og.Graph, **options: Any) -> list[tuple[str, str, str, str | None]]:
    """The conflicts of a merge, which are the same whether it is tried or done."""
    tried = graph.merge("b", dry_run=True, **options).conflicts
    if tried:
        with pytest.raises(og.MergeConflicts) as caught:
            graph.merge("b", **options)
        assert caught.value.conflicts == tried
    return [(each.kind, each.type, each.id, each.property) for each in tried]


# --- rows of an older schema ---


def test_rows_of_an_older_schema_are_merged_as_the_newer_has_them(graph: og.Graph) -> None:
    graph.schema.apply(SECOND)
    write(graph, 'update Person set { age: 9 } where name = "Bob" insert Person { name: "Cid", age: 3 }', "b")
    write(graph, 'insert Knows { id: "bc", from: "Bob", to: "Cid" } delete Person where name = "Ada"', "b")
    merged = graph.merge("b")
    assert merged.changes == {
        "Human": {"inserted": 1, "updated": 1, "deleted": 1},
        "Knows": {"inserted": 1, "updated": 0, "deleted": 1},
    }
    assert (merged.schema, merged.as_json()["schema"]) == ((1, 2), {"from": 1, "to": 2})
    assert rows(graph, "node:Human") == {
        "Bob": {"name": "Bob", "years": 9, "city": None, "nick": None, "rank": 3, "note": None},
        "Cid": {"name": "Cid", "years": 3, "city": None, "nick": None, "rank": 3, "note": None},
    }
    assert graph.merge("b").kind == "AlreadyUpToDate"


def test_the_change_of_a_schema_is_no_change_of_rows(graph: og.Graph) -> None:
    graph.schema.apply(SECOND)
    write(graph, 'delete Person where name = "Ada"', "b")
    assert conflicts(graph) == []
    assert graph.merge("b", dry_run=True).changes["Human"] == {"inserted": 0, "updated": 0, "deleted": 1}


def test_what_a_branch_does_not_know_stays_as_it_is(graph: og.Graph) -> None:
    graph.schema.apply(SECOND)
    graph.schema.apply(SECOND.replace("@default(3)", "@default(4)"))
    write(graph, 'update Human set { note: "kept", rank: 8 } where name = "Bob"')
    write(graph, 'update Human set { city: "Rome" } where name = "Ada"')
    write(graph, "update Person set { age: 9 } where age >= 1", "b")
    assert conflicts(graph) == [
        ("DivergentUpdate", "Human", "Ada", None),
        ("DivergentUpdate", "Human", "Bob", None),
    ]
    graph.merge("b", strategy="theirs")
    assert rows(graph, "node:Human") == {
        "Ada": {"name": "Ada", "years": 9, "city": "Oslo", "nick": "A", "rank": 3, "note": None},
        "Bob": {"name": "Bob", "years": 9, "city": None, "nick": None, "rank": 8, "note": "kept"},
    }


def test_cells_are_merged_across_schemas(graph: og.Graph) -> None:
    graph.schema.apply(SECOND)
    write(graph, 'update Human set { note: "n", city: "Rome" } where name = "Ada"')
    write(graph, 'update Person set { age: 9 } where name = "Ada"', "b")
    graph.merge("b", cells=True)
    ada = {"name": "Ada", "years": 9, "city": "Rome", "nick": "A", "rank": 3, "note": "n"}
    assert rows(graph, "node:Human")["Ada"] == ada


def test_a_value_that_we_gave_to_what_came_is_not_deleted_in_silence(graph: og.Graph) -> None:
    graph.schema.apply(SECOND)
    write(graph, 'update Human set { note: "kept" } where name = "Bob"')
    write(graph, 'delete Person where name = "Bob"', "b")
    assert ("DeleteVsUpdate", "Human", "Bob", None) in conflicts(graph)


# --- a branch that has taken over the schema ---


def test_what_a_branch_did_after_it_took_over_a_schema_is_merged(graph: og.Graph) -> None:
    write(graph, 'update Person set { age: 9 } where name = "Bob"', "b")
    graph.schema.apply(SECOND)
    graph.schema.catch_up("b")
    write(graph, 'update Human set { note: "b", rank: 5 } where name = "Ada"', "b")
    write(graph, 'insert Human { name: "Cid" }')
    merged = graph.merge("b")
    assert (merged.changes, merged.schema) == ({"Human": {"inserted": 0, "updated": 2, "deleted": 0}}, None)
    found = rows(graph, "node:Human")
    assert (found["Ada"]["note"], found["Ada"]["rank"], found["Bob"]["years"], found["Bob"]["rank"]) == ("b", 5, 9, 3)
    write(graph, 'update Human set { rank: 6 } where name = "Bob"')
    assert graph.merge("main", "b").kind == "FastForward"
    assert rows(graph, "node:Human", "b") == rows(graph, "node:Human")


def test_both_may_change_what_came_to_both(graph: og.Graph) -> None:
    graph.schema.apply(SECOND)
    graph.schema.catch_up("b")
    write(graph, 'update Human set { rank: 5 } where name = "Ada" update Human set { rank: 7 } where name = "Bob"', "b")
    write(graph, 'update Human set { rank: 6 } where name = "Ada" update Human set { note: "n" } where name = "Bob"')
    assert conflicts(graph, cells=True) == [("DivergentUpdate", "Human", "Ada", "rank")]
    (conflict,) = graph.merge("b", cells=True, dry_run=True).conflicts
    assert (conflict.base, conflict.ours, conflict.theirs) == (3, 6, 5)
    graph.merge("b", cells=True, strategy="ours")
    found = rows(graph, "node:Human")
    assert (found["Ada"]["rank"], found["Bob"]["rank"], found["Bob"]["note"]) == (6, 7, "n")


def test_a_type_that_came_to_both_is_merged_by_id(graph: og.Graph) -> None:
    graph.schema.apply(FIRST + "node Shop { name: String @key, size: I32? }")
    graph.schema.catch_up("b")
    write(graph, 'insert Shop { name: "one" } insert Shop { name: "two", size: 1 }', "b")
    write(graph, 'insert Shop { name: "two", size: 2 } insert Shop { name: "three" }')
    assert conflicts(graph) == [("DivergentInsert", "Shop", "two", None)]
    write(graph, 'update Shop set { size: 1 } where name = "two"')
    assert graph.merge("b").changes == {"Shop": {"inserted": 1, "updated": 0, "deleted": 0}}


def test_bases_with_different_schemas_leave_in_doubt_what_differs_between_them(graph: og.Graph) -> None:
    graph.branches.create("a")
    write(graph, 'update Person set { city: "A" } where name = "Ada"', "a")
    write(graph, 'update Person set { city: "B" } where name = "Bob"', "b")
    graph.schema.apply(SECOND)
    graph.schema.catch_up("a")
    for name in ("a", "b"):
        graph.branches.create(f"old-{name}", name)
    graph.merge("old-b", "a")
    graph.schema.catch_up("b")
    graph.merge("old-a", "b")
    assert graph.merge("b", "a", dry_run=True).conflicts == ()
    write(graph, 'update Human set { rank: 5 } where name = "Ada"', "b")
    (conflict,) = graph.merge("b", "a", dry_run=True).conflicts
    assert (conflict.kind, conflict.id, conflict.base) == ("DivergentUpdate", "Ada", None)
    assert (conflict.ours["rank"], conflict.theirs["rank"]) == (3, 5)


def test_a_branch_with_an_older_schema_must_take_it_over_before_it_merges_a_newer_one(graph: og.Graph) -> None:
    graph.schema.apply(SECOND)
    graph.schema.apply(SECOND.replace("note: String?", "note: String?, more: Bool?"))
    with pytest.raises(og.SchemaBehind) as caught:
        graph.merge("main", "b", dry_run=True)
    assert caught.value.details == {"branch": "b", "schema": 1, "source": "main", "source_schema": 3}
    assert "omnigraph schema catch-up b" in str(caught.value)
    graph.schema.catch_up("b")
    assert graph.merge("main", "b").kind == "Merged"


# --- what was dropped ---


def test_values_of_a_dropped_property_are_one_conflict_which_ours_resolves(graph: og.Graph) -> None:
    graph.schema.apply(WITHOUT_NICK)
    write(
        graph,
        'update Person set { nick: "B", age: 5 } where name = "Bob" insert Person { name: "Cid", nick: "C" }',
        "b",
    )
    for strategy in (None, "theirs"):
        assert conflicts(graph, strategy=strategy) == [("DroppedProperty", "Person", "", "nick")]
    (conflict,) = graph.merge("b", dry_run=True).conflicts
    assert conflict.theirs == 2
    assert json.loads(json.dumps(conflict.as_json()))["theirs"] == 2
    assert graph.merge("b", strategy="ours").changes == {"Person": {"inserted": 1, "updated": 1, "deleted": 0}}
    assert rows(graph, "node:Person")["Bob"] == {"name": "Bob", "age": 5, "city": None}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('update Person set { age: 5 } where name = "Ada"', id="a value that was there before"),
        pytest.param('update Person set { nick: null } where name = "Ada"', id="a value that was taken away"),
        pytest.param('delete Person where name = "Ada"', id="an entity that was deleted"),
        pytest.param('insert Person { name: "Cid" }', id="an entity without one"),
    ],
)
def test_nothing_is_lost_of_a_dropped_property_that_nobody_set(graph: og.Graph, text: str) -> None:
    graph.schema.apply(WITHOUT_NICK)
    write(graph, text, "b")
    assert conflicts(graph) == []
    graph.merge("b")


def test_an_update_of_nothing_but_a_dropped_property_touches_no_row_of_ours(graph: og.Graph) -> None:
    graph.schema.apply(WITHOUT_NICK)
    write(graph, 'update Person set { nick: "B" } where name = "Bob"', "b")
    write(graph, 'update Person set { age: 7 } where name = "Bob"')
    merged = graph.merge("b", strategy="ours")
    assert merged.changes == {}
    assert rows(graph, "node:Person")["Bob"]["age"] == 7


def test_a_property_that_came_to_a_branch_and_was_dropped_before_it_is_merged(graph: og.Graph) -> None:
    graph.schema.apply(FIRST.replace("nick: String?", "nick: String?, rank: I32 @default(3)"))
    graph.schema.catch_up("b")
    write(graph, 'update Person set { age: 5 } where name = "Ada"', "b")
    graph.schema.apply(FIRST)
    assert conflicts(graph) == []
    write(graph, 'update Person set { rank: 4 } where name = "Bob"', "b")
    assert conflicts(graph) == [("DroppedProperty", "Person", "", "rank")]
    assert graph.merge("b", strategy="ours").changes == {"Person": {"inserted": 0, "updated": 1, "deleted": 0}}


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ('insert City { name: "Rome" } update City set { size: 5 } where name = "Oslo"', 2),
        ('delete City where name = "Oslo"', 0),
        ('update Person set { age: 5 } where name = "Ada"', 0),
    ],
)
def test_rows_of_a_dropped_type_are_one_conflict_which_ours_resolves(graph: og.Graph, text: str, lost: int) -> None:
    graph.schema.apply(WITHOUT_CITIES)
    write(graph, text, "b")
    assert conflicts(graph, strategy="theirs") == [("DroppedType", "City", "", None)] * bool(lost)
    assert [each.theirs for each in graph.merge("b", dry_run=True).conflicts] == [lost] * bool(lost)
    graph.merge("b", strategy="ours")
    assert "node:City" not in graph.snapshot().manifest.pins


def test_a_type_that_came_to_a_branch_and_was_dropped_before_it_is_merged(graph: og.Graph) -> None:
    graph.schema.apply(FIRST + "node Shop { name: String @key }")
    graph.schema.catch_up("b")
    graph.schema.apply(FIRST)
    assert conflicts(graph) == []
    write(graph, 'insert Shop { name: "one" }', "b")
    assert conflicts(graph) == [("DroppedType", "Shop", "", None)]


def test_the_command_line_tells_what_was_dropped_and_which_schemas_met(graph: og.Graph) -> None:
    graph.schema.apply(WITHOUT_NICK.replace("size: I32?", "size: I64?"))
    write(graph, 'update Person set { nick: "B", age: 5 } where name = "Bob"', "b")
    refused = omnigraph_cli("branch", "merge", "b", graph.uri)
    assert refused.returncode == 3
    assert "DroppedProperty" in refused.stderr
    assert "1 row" in refused.stderr
    assert "--strategy ours leaves them behind" in refused.stderr
    done = omnigraph_cli("branch", "merge", "b", graph.uri, "--strategy", "ours")
    assert (done.returncode, "converted to schema 2 of main" in done.stderr) == (0, True)
    behind = omnigraph_cli("branch", "merge", "main", graph.uri, "--into", "b", "--json")
    assert (behind.returncode, json.loads(behind.stderr or behind.stdout)["error"]["code"]) == (3, "schema_behind")


# --- rules that came ---


RANGE = ("nick: String?", "nick: String?, @range(age, 0..9)")
CHECK = ("nick: String?", 'nick: String?, @check(city, "^[A-Z]")')
ENUM = ("city: String?", "city: enum(Oslo, Rome)?")
UNIQUE = ("city: String?", "city: String? @unique")


@pytest.mark.parametrize(
    ("rule", "text", "conflict"),
    [
        (RANGE, 'insert Person { name: "Cid", age: 10 }', ("ValueConstraintViolation", "Cid", "age")),
        (RANGE, 'update Person set { age: 10 } where name = "Bob"', ("ValueConstraintViolation", "Bob", "age")),
        (CHECK, 'insert Person { name: "Cid", city: "bonn" }', ("ValueConstraintViolation", "Cid", "city")),
        (ENUM, 'update Person set { city: "Bonn" } where name = "Bob"', ("ValueConstraintViolation", "Bob", "city")),
        (UNIQUE, 'update Person set { city: "Oslo" } where name = "Bob"', ("UniqueViolation", "Bob", "city")),
    ],
)
def test_rules_that_came_are_kept_by_what_is_merged(
    graph: og.Graph, rule: tuple[str, str], text: str, conflict: tuple[str, str, str]
) -> None:
    graph.schema.apply(FIRST.replace(*rule))
    write(graph, text, "b")
    kind, id, property = conflict
    assert conflicts(graph) == [(kind, "Person", id, property)]


def test_a_number_of_edges_that_came_is_kept_by_what_is_merged(graph: og.Graph) -> None:
    graph.schema.apply(FIRST.replace("edge Knows: Person -> Person", "edge Knows: Person -> Person @card(0..1)"))
    write(graph, 'insert Knows { from: "Ada", to: "Ada" }', "b")
    assert [each[:3] for each in conflicts(graph)] == [("CardinalityViolation", "Knows", "Ada")]


# --- vectors ---

TEXTS = "node Doc { slug: String @key, text: String, title: String?, rank: I32? }"
WITH_VECTOR = TEXTS.replace("rank", 'vec: Vector(4) @embed("text", model="mock/x"), rank')


def vectors(graph: og.Graph) -> dict[str, list[float]]:
    return {name: row["vec"] for name, row in rows(graph, "node:Doc").items()}


def mocked(text: str) -> list[float]:
    vector: list[float] = MockModel().vectors([text], 4)[0].tolist()
    return vector


def documents(folder: Path, schema: str) -> og.Graph:
    graph = og.init(folder / "graph.omni", schema, durability="fast")
    write(graph, 'insert Doc { slug: "a", text: "one", title: "A" } insert Doc { slug: "b", text: "two", title: "B" }')
    graph.branches.create("b")
    return graph


def merged_documents(graph: og.Graph, **options: Any) -> MergeResult:
    """What a branch that knows nothing of vectors does to both documents, and a new one."""
    write(graph, 'update Doc set { rank: 1 } where slug = "a" update Doc set { text: "TWO" } where slug = "b"', "b")
    write(graph, 'insert Doc { slug: "c", text: "three", title: "C" }', "b")
    return graph.merge("b", **options)


def test_rows_of_a_branch_without_vectors_get_those_of_their_texts(tmp_path: Path) -> None:
    graph = documents(tmp_path, TEXTS)
    graph.schema.apply(WITH_VECTOR)
    merged_documents(graph)
    assert vectors(graph) == {"a": mocked("one"), "b": mocked("TWO"), "c": mocked("three")}


def test_a_vector_that_we_have_stays_with_its_text(tmp_path: Path) -> None:
    graph = documents(tmp_path, TEXTS)
    graph.schema.apply(WITH_VECTOR.replace("Vector(4)", "Vector(4)?"))
    graph.embed("Doc")
    write(graph, 'update Doc set { vec: [9, 9, 9, 9] } where slug = "a"')
    merged_documents(graph)
    assert vectors(graph) == {"a": [9, 9, 9, 9], "b": mocked("TWO"), "c": mocked("three")}


def test_vectors_of_another_text_are_no_change_of_rows(tmp_path: Path) -> None:
    graph = documents(tmp_path, WITH_VECTOR.replace("Vector(4)", "Vector(4)?"))
    graph.schema.apply(WITH_VECTOR.replace("Vector(4)", "Vector(4)?").replace('@embed("text"', '@embed("title"'))
    write(graph, 'update Doc set { text: "ours" } where slug = "a"')
    write(graph, 'update Doc set { title: "theirs" } where slug = "a"', "b")
    merged = merged_documents(graph, cells=True)
    assert merged.changes == {"Doc": {"inserted": 1, "updated": 2, "deleted": 0}}
    assert vectors(graph) == {"a": mocked("theirs"), "b": mocked("B"), "c": mocked("C")}


def test_a_branch_that_took_over_vectors_brings_its_own(tmp_path: Path) -> None:
    graph = documents(tmp_path, TEXTS)
    graph.schema.apply(WITH_VECTOR)
    graph.schema.catch_up("b")
    write(graph, 'update Doc set { text: "ONE" } where slug = "a"')
    write(graph, 'update Doc set { vec: [9, 9, 9, 9], title: "x" } where slug = "a"', "b")
    merged_documents(graph, cells=True)
    assert vectors(graph) == {"a": mocked("ONE"), "b": mocked("TWO"), "c": mocked("three")}
    assert rows(graph, "node:Doc")["a"]["rank"] == 1
