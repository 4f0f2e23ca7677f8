"""Diffs: exactly what was done between two commits, and nothing read of what was not."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.history import Change, ChangeKind
from omnigraph.catalog import Catalog, compile_schema
from omnigraph.changes import diff_snapshots
from omnigraph.versioning import Snapshot
from tests.behaviour.contents import diff_counts
from tests.conftest import SOCIAL_SCHEMA

PEOPLE = 'insert Person { name: "Ada", bio: "x", age: 1 } insert Person { name: "Bob", bio: "y" } '
FRIENDS = 'insert Knows { from: "Ada", to: "Bob", since: date("2020-01-02") } '


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph.omni", SOCIAL_SCHEMA, durability="fast")
    mutate(graph, PEOPLE + FRIENDS + 'insert Company { name: "ACME" } insert Note { id: "n", text: "a" }')
    return graph


def mutate(graph: og.Graph, body: str, parameters: str = "", **given: Any) -> None:
    graph.mutate(f"query q({parameters}) {{ {body} }}", params=given)


def load(graph: og.Graph, folder: Path, *records: dict[str, Any], mode: str = "append") -> None:
    (folder / "data.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
    graph.load(folder / "data.jsonl", mode=mode)


def short(changes: Iterator[Change]) -> list[tuple[str, str, str, tuple[str, ...]]]:
    return [(each.type, each.kind, each.id, each.changed_properties) for each in changes]


def test_a_diff_is_exactly_what_the_mutations_did(graph: og.Graph) -> None:
    before = graph.snapshot()
    mutate(graph, 'insert Person { name: "Cid", bio: "z" } insert Knows { id: "k2", from: "Bob", to: "Cid" }')
    mutate(graph, 'update Person set { age: 2, bio: "new" } where name = "Ada"')
    mutate(graph, 'delete Note where id = "n" insert Company { name: "B", size: 2 }')
    assert short(diff_snapshots(before, graph.snapshot())) == [
        ("Person", "insert", "Cid", ("name", "bio", "embedding")),
        ("Person", "update", "Ada", ("age", "bio", "embedding")),
        ("Company", "insert", "B", ("name", "size")),
        ("Note", "delete", "n", ("text",)),
        ("Knows", "insert", "k2", ("src", "dst")),
    ]
    assert diff_counts(before, graph.snapshot()) == {
        "Person": {"inserted": 1, "updated": 1, "deleted": 0},
        "Company": {"inserted": 1, "updated": 0, "deleted": 0},
        "Note": {"inserted": 0, "updated": 0, "deleted": 1},
        "Knows": {"inserted": 1, "updated": 0, "deleted": 0},
    }


def test_a_diff_backwards_undoes_what_the_diff_forwards_does(graph: og.Graph) -> None:
    before = graph.snapshot()
    mutate(graph, 'insert Person { name: "Cid", bio: "z" } update Person set { age: 2 } where name = "Ada"')
    mutate(graph, 'delete Person where name = "Bob"')
    forth = {(each.type, each.id): each for each in diff_snapshots(before, graph.snapshot())}
    back = {(each.type, each.id): each for each in diff_snapshots(graph.snapshot(), before)}
    assert [each.kind for each in forth.values()] == ["insert", "update", "delete", "delete"]
    assert forth.keys() == back.keys()
    assert all((each.before, each.after) == (back[key].after, back[key].before) for key, each in forth.items())


def test_an_update_has_the_whole_entity_before_and_after(graph: og.Graph) -> None:
    before = graph.snapshot()
    mutate(graph, 'update Person set { tags: ["a"], photo: $photo } where name = "Ada"', "$photo: Blob", photo=b"hi")
    (change,) = diff_snapshots(before, graph.snapshot())
    assert change.before == graph.entity("Person", "Ada", at=before)
    assert change.after == graph.entity("Person", "Ada")
    assert change.changed_properties == ("tags", "photo")
    document = json.loads(json.dumps(change.as_json()))
    assert (document["type"], document["id"], document["kind"]) == ("Person", "Ada", "update")
    assert document["before"]["photo"] is None
    assert (document["after"]["photo"], document["after"]["tags"]) == ("base64:aGk=", ["a"])
    assert document["changed_properties"] == ["tags", "photo"]


def test_what_was_done_and_undone_is_no_difference(graph: og.Graph) -> None:
    before = graph.snapshot()
    mutate(graph, 'update Person set { age: 2 } where name = "Ada" insert Note { id: "m", text: "" }')
    mutate(graph, 'update Person set { age: 1 } where name = "Ada" delete Note where id = "m"')
    assert list(diff_snapshots(before, graph.snapshot())) == []
    assert diff_counts(before, graph.snapshot()) == {}


def test_loads_in_every_mode_are_seen_for_what_they_change(graph: og.Graph, tmp_path: Path) -> None:
    start = graph.snapshot()
    load(graph, tmp_path, *({"type": "Counter", "data": {"number": number}} for number in range(3_000)))
    filled = graph.snapshot()
    assert diff_counts(start, filled) == {"Counter": {"inserted": 3_000, "updated": 0, "deleted": 0}}
    assert [each.id for each in diff_snapshots(start, filled)] == [str(number) for number in range(3_000)]
    load(graph, tmp_path, {"type": "Company", "data": {"name": "ACME", "size": 7}}, mode="merge")
    assert short(diff_snapshots(filled, graph.snapshot())) == [("Company", "update", "ACME", ("size",))]
    again = ({"type": "Counter", "data": {"number": number}} for number in range(2_999, 3_001))
    load(graph, tmp_path, *again, mode="overwrite")
    counts = diff_counts(filled, graph.snapshot(), types=["Counter"])
    assert counts == {"Counter": {"inserted": 1, "updated": 0, "deleted": 2_999}}


def test_many_small_commits_add_up_to_what_they_left(graph: og.Graph) -> None:
    before = graph.snapshot()
    for number in range(40):
        mutate(
            graph, f'insert Note {{ id: "n{number}", text: "" }} update Person set {{ age: {number} }} where age >= 0'
        )
    changes = list(diff_snapshots(before, graph.snapshot()))
    assert {each.id for each in changes if each.kind is ChangeKind.INSERT} == {f"n{number}" for number in range(40)}
    assert short(iter(changes[:1])) == [("Person", "update", "Ada", ("age",))]
    assert len(changes) == 41


def test_tables_that_did_not_change_are_not_opened(graph: og.Graph) -> None:
    before = graph.snapshot()
    mutate(graph, 'insert Note { id: "m", text: "" }')
    after = graph.snapshot()
    assert [each.id for each in diff_snapshots(before, after)] == ["m"]
    assert diff_counts(before, after) == {"Note": {"inserted": 1, "updated": 0, "deleted": 0}}
    assert set(before._tables) == set(after._tables) == {"node:Note"}


def test_an_index_is_no_change(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.ensure_indices()
    assert graph.snapshot().manifest.pins != before.manifest.pins
    assert list(diff_snapshots(before, graph.snapshot())) == []


def test_types_can_be_chosen_and_must_be_known(graph: og.Graph) -> None:
    before = graph.snapshot()
    mutate(graph, 'insert Note { id: "m", text: "" } insert Company { name: "B" } delete Knows where src = "Ada"')
    assert [each.type for each in diff_snapshots(before, graph.snapshot(), ["knows", "Note"])] == ["Note", "Knows"]
    assert list(diff_counts(before, graph.snapshot(), ["Company"])) == ["Company"]
    with pytest.raises(og.NotFound):
        list(diff_snapshots(before, graph.snapshot(), ["Nobody"]))


# --- catalogs that are not the same ---


def without(snapshot: Snapshot, *names: str) -> Snapshot:
    """A snapshot from before some types were there."""
    catalog: Catalog = compile_schema(SOCIAL_SCHEMA)
    smaller = replace(
        catalog,
        nodes={name: each for name, each in catalog.nodes.items() if name not in names},
        edges={name: each for name, each in catalog.edges.items() if name not in names},
    )
    pins = {key: pin for key, pin in snapshot.manifest.pins.items() if key.partition(":")[2] not in names}
    return Snapshot(snapshot.location, smaller, replace(snapshot.manifest, pins=pins))


def test_a_type_that_only_one_side_has_is_empty_on_the_other(graph: og.Graph) -> None:
    now = graph.snapshot()
    before = without(now, "Person", "Knows")
    assert short(diff_snapshots(before, now))[:2] == [
        ("Person", "insert", "Ada", ("name", "age", "bio", "embedding")),
        ("Person", "insert", "Bob", ("name", "bio", "embedding")),
    ]
    assert [(each.type, each.kind) for each in diff_snapshots(now, before)] == [
        ("Person", "delete"),
        ("Person", "delete"),
        ("Knows", "delete"),
    ]
    assert diff_counts(now, before)["Person"] == {"inserted": 0, "updated": 0, "deleted": 2}
    assert [each.id for each in diff_snapshots(now, before, types=["Person"])] == ["Ada", "Bob"]
