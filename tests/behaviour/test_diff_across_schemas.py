"""Diffs across changes of the schema: rows that were changed, and nothing that only their schema was."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.api.history import Change
from tests.behaviour.contents import diff_counts
from tests.behaviour.people import write
from tests.conftest import carry_rows

FIRST = """
node Person { name: String @key, age: I32?, city: String?, nick: String? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32?, note: String? }
"""
SECOND = """
node Human @rename_from("Person") {
    name: String @key, years: I64? @rename_from("age"), city: String?, rank: I32 @default(3)
}
edge Knows: Human -> Human { begun: I32? @rename_from("since"), note: String? }
node Town { name: String @key }
"""
START = """
    insert Person { name: "Ada", age: 1, nick: "A" } insert Person { name: "Bob", age: 2 }
    insert Knows { id: "ab", from: "Ada", to: "Bob", since: 1 } insert City { name: "Oslo" }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph.omni", FIRST, durability="fast")
    write(graph, START)
    return graph


def short(changes: Iterable[Change]) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [(each.type, each.kind, each.id, each.changed_properties) for each in changes]


def test_a_change_of_the_schema_changes_no_entity_of_types_that_stay(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.schema.apply(SECOND)
    after = graph.snapshot()
    assert short(graph.diff(before, after)) == [("City", "delete", "Oslo", ("name",))]
    assert short(graph.diff(after, before)) == [("City", "insert", "Oslo", ("name",))]
    assert diff_counts(before, after) == {"City": {"inserted": 0, "updated": 0, "deleted": 1}}
    assert [len(list(block.changes())) for block in graph.changes()] == [0, 4, 1]


def test_what_was_changed_is_shown_under_the_names_of_the_right_side(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.schema.apply(SECOND)
    write(
        graph,
        'update Human set { years: 5, rank: 4 } where name = "Ada" update Knows set { note: "x" } where id = "ab"',
    )
    write(graph, 'delete Human where name = "Bob" insert Human { name: "Cid" }')
    assert short(graph.diff(before, "main", ["Human"])) == [
        ("Human", "insert", "Cid", ("name", "rank")),
        ("Human", "update", "Ada", ("years",)),
        ("Human", "delete", "Bob", ("name", "years")),
    ]
    _, update, delete = graph.diff(before, "main", ["Person"])
    assert update.before == {"id": "Ada", "name": "Ada", "years": 1, "city": None, "nick": "A"}
    assert update.after == {"id": "Ada", "name": "Ada", "years": 5, "city": None, "rank": 4}
    assert delete.before == {"id": "Bob", "name": "Bob", "years": 2, "city": None, "nick": None}
    back = {each.id: each for each in graph.diff("main", before, ["Human"])}
    assert (back["Ada"].type, back["Ada"].changed_properties) == ("Person", ("age",))
    assert back["Ada"].before == {"id": "Ada", "name": "Ada", "age": 5, "city": None, "rank": 4}
    assert json.loads(json.dumps(update.as_json()))["changed_properties"] == ["years"]


def test_a_property_that_got_the_name_of_a_dropped_one_is_another(graph: og.Graph) -> None:
    before = graph.snapshot()
    renamed = FIRST.replace("nick: String?", 'nick: String? @rename_from("city")').replace(" city: String?,", "")
    graph.schema.apply(FIRST.replace(", nick: String?", ""))
    graph.schema.apply(renamed)
    assert list(graph.diff(before, "main")) == []
    write(graph, 'update Person set { nick: "new" } where name = "Ada"')
    (change,) = graph.diff(before, "main")
    assert change.changed_properties == ("nick",)
    assert change.before == {"id": "Ada", "name": "Ada", "age": 1, "nick": None}, "that is the city, which was null"


def test_a_type_that_was_dropped_and_declared_again_is_two_types(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.schema.apply(FIRST.replace("node City { name: String @key }", ""))
    graph.schema.apply(FIRST)
    write(graph, 'insert City { name: "Oslo" } insert City { name: "Rome" }')
    assert [(each.kind, each.type, each.id) for each in graph.diff(before, "main", ["City"])] == [
        ("insert", "City", "Oslo"),
        ("insert", "City", "Rome"),
        ("delete", "City", "Oslo"),
    ]
    assert diff_counts(before, graph.snapshot()) == {"City": {"inserted": 2, "updated": 0, "deleted": 1}}


def test_types_are_named_as_either_side_calls_them(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.schema.apply(SECOND)
    write(graph, 'update Human set { city: "Oslo" } where name = "Ada"')
    for name in ("Person", "Human"):
        assert short(graph.diff(before, "main", [name])) == [("Human", "update", "Ada", ("city",))]
    with pytest.raises(og.NotFound):
        list(graph.diff(before, "main", ["Nobody"]))


def test_branches_that_have_one_schema_by_different_ways_differ_by_their_rows_alone(graph: og.Graph) -> None:
    graph.branches.create("b")
    graph.schema.apply(FIRST.replace("city: String?", "city: String?, rank: I32 @default(3)"))
    graph.schema.apply(SECOND.replace("@default(3)", "@default(4)"))
    graph.schema.catch_up("b")
    assert list(graph.diff("main", "b")) == []
    write(graph, 'update Human set { rank: 9 } where name = "Ada"', "b")
    write(graph, 'update Human set { years: 9 } where name = "Bob"')
    assert sorted(short(graph.diff("main", "b"))) == [
        ("Human", "update", "Ada", ("rank",)),
        ("Human", "update", "Bob", ("years",)),
    ]


@pytest.mark.parametrize("is_carried", [False, True])
def test_what_differs_between_branches_that_caught_up_is_found_by_a_small_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_carried: bool
) -> None:
    """Rows that carried ones replace are found by their ids, for which there is an index."""
    carry_rows(monkeypatch, 512 if is_carried else 0)
    graph = og.init(tmp_path / "graph.omni", FIRST, durability="fast")
    graph.load({"Person": [{"name": f"n{number}", "age": number, "city": f"c{number}"} for number in range(30_000)]})
    if is_carried:
        graph.ensure_indices()
    graph.branches.create("b")
    graph.schema.apply(SECOND)
    graph.schema.catch_up("b")
    write(graph, 'update Human set { rank: 9 } where name = "n7"', "b")
    write(graph, 'update Human set { years: 9 } where name = "n8"')
    left, right = graph.snapshot("b"), graph.snapshot()
    tables = [each.table("node:Human") for each in (left, right)]
    size = sum(each.bytes for each in tables[0].fragment_sizes())
    for table in tables:
        table.dataset.io_stats_incremental()
    assert sorted(each.id for each in graph.diff(left, right)) == ["n7", "n8"]
    assert sum(int(table.dataset.io_stats_incremental().read_bytes) for table in tables) < size / 4
