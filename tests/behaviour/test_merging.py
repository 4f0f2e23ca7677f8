"""Merges find the right base and every conflict, and a feed tells what each commit changed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.history import MergeKind, MergeResult
from omnigraph.failpoints import Writer
from omnigraph.merging.merge import MergeOptions, merge
from omnigraph.session.writes import WriteOrder
from omnigraph.write import WriteAttempt
from tests.behaviour.people import (
    ages,
    other_handle,
    set_age,
    small_world,
    write,
)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return small_world(tmp_path)


# --- merges and their bases ---


def test_merges_of_branches_that_go_on_have_the_last_merge_as_their_base(graph: og.Graph) -> None:
    graph.branches.create("b")
    for age in range(2, 5):
        set_age(graph, age, "b")
        assert graph.merge("b").kind is (MergeKind.FAST_FORWARD if age == 2 else MergeKind.MERGED)
        set_age(graph, age, name="Bob")
    assert graph.merge("main", "b").kind is MergeKind.FAST_FORWARD
    assert ages(graph, "b") == ages(graph) == {"Ada": 4, "Bob": 4}
    assert graph.merge("b").kind is MergeKind.FAST_FORWARD
    assert graph.merge("main", "b").kind is MergeKind.FAST_FORWARD


def test_a_branch_that_both_sides_merged_is_their_base(graph: og.Graph) -> None:
    for name in ("shared", "a", "b"):
        graph.branches.create(name)
    set_age(graph, 2, "shared")
    for name in ("a", "b"):
        graph.merge("shared", name)
    set_age(graph, 1, "a")
    graph.merge("a", "b")
    assert ages(graph, "b")["Ada"] == 1


def test_what_one_side_took_back_of_a_deleted_branch_is_not_lost_in_silence(graph: og.Graph) -> None:
    for name in ("shared", "a", "b"):
        graph.branches.create(name)
    set_age(graph, 2, "shared")
    for name in ("a", "b"):
        graph.merge("shared", name)
    graph.branches.delete("shared")
    set_age(graph, 1, "a")
    # The base is a commit of the deleted branch: Ada was 2 there, and `a` alone has changed it since.
    preview = graph.merge("a", "b", dry_run=True)
    if preview.conflicts:
        assert [each.id for each in preview.conflicts] == ["Ada"]
    else:
        graph.merge("a", "b")
        assert ages(graph, "b")["Ada"] == 1


def test_what_one_side_restored_of_a_deleted_branchs_removal_is_not_lost_in_silence(graph: og.Graph) -> None:
    write(graph, 'insert City { name: "Oslo" }')
    for name in ("shared", "a", "b"):
        graph.branches.create(name)
    write(graph, 'delete City where name = "Oslo"', "shared")
    for name in ("a", "b"):
        graph.merge("shared", name)
    graph.branches.delete("shared")
    write(graph, 'insert City { name: "Oslo" }', "a")
    preview = graph.merge("a", "b", dry_run=True)
    if preview.conflicts:
        assert [each.id for each in preview.conflicts] == ["Oslo"]
    else:
        graph.merge("a", "b")
        assert graph.snapshot("b").table("node:City").count() == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param('update Knows set { since: 5 } where id = "ab"', 'delete Person where name = "Ada"', id="an edge"),
        pytest.param(
            'update Person set { age: 5 } where name = "Ada" insert Knows { id: "new", from: "Ada", to: "Bob" }',
            'delete Person where name = "Ada"',
            id="a node with a new edge",
        ),
    ],
)
def test_conflicts_are_the_same_whichever_way_it_is_merged(graph: og.Graph, one: str, other: str) -> None:
    graph.branches.create("one")
    graph.branches.create("other")
    write(graph, one, "one")
    write(graph, other, "other")
    forth, back = (graph.merge(*pair, dry_run=True).conflicts for pair in (("one", "other"), ("other", "one")))
    assert {(each.kind, each.type, each.id) for each in forth} == {(each.kind, each.type, each.id) for each in back}


def test_a_merge_is_told_when_what_it_found_the_same_on_both_sides_is_no_longer_so(graph: og.Graph) -> None:
    graph.branches.create("b")
    for name in ("main", "b"):
        set_age(graph, 2, name)
    request = WriteOrder(kind=Writer.MERGE, branch="main", actor=None, message="late")

    def overtaken() -> None:
        with graph._session.writes.attempt(request) as attempt:
            set_age(other_handle(graph), 1)
            merge(attempt, graph._session.branches, "b", MergeOptions())

    # Merged after what the other writer did, it would have made Ada 2 again.
    with pytest.raises(og.Conflict):
        overtaken()
    graph.merge("b")
    assert ages(graph)["Ada"] == 2


def test_histories_long_enough_to_be_compacted_merge_and_differ_as_short_ones(graph: og.Graph) -> None:
    for number in range(12):
        write(graph, f'insert Person {{ name: "m{number}", age: 0 }}')
    graph.branches.create("a")
    graph.branches.create("b")
    expected = {name: ages(graph) for name in ("a", "b")}
    for number in range(18):
        for (name, state), first in zip(expected.items(), (0, 6), strict=True):
            known = f"m{first + number % 6}"
            set_age(graph, number + 1, name, known)
            write(graph, f'insert Person {{ name: "{name}{number}" }}', name)
            state |= {known: number + 1, f"{name}{number}": None}
        if number % 5 == 0:
            write(graph, f'delete Person where name = "b{number}"', "b")
            del expected["b"][f"b{number}"]
    assert {name: ages(graph, name) for name in expected} == expected
    changed = {each.id for each in graph.diff("a", "b")}
    assert changed == {id for id, _ in expected["a"].items() ^ expected["b"].items()}
    base = ages(graph)
    result = graph.merge("a", "b")
    both = {**base, **{id: age for side in expected.values() for id, age in side.items() if base.get(id, "") != age}}
    assert ages(graph, "b") == both
    assert result.changes == {"Person": {"inserted": 18, "updated": 6, "deleted": 0}}
    state = dict(base)
    for block in graph.changes(branch="b"):
        for change in block.changes():
            state.pop(change.id, None)
            if change.after is not None:
                state[change.id] = change.after["age"]
    assert state == both


RULES = """
node Person { name: String @key, mail: String? @unique, age: I32? }
node City { name: String @key }
edge LivesIn: Person -> City @card(0..1)
"""


@pytest.fixture
def ruled(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "ruled", RULES, durability="fast")
    write(graph, 'insert Person { name: "Ada" } insert Person { name: "Bob" }')
    write(graph, 'insert City { name: "Oslo" } insert City { name: "Rome" }')
    graph.branches.create("one")
    graph.branches.create("other")
    return graph


def test_values_that_must_be_unique_and_meet_in_a_merge_are_a_conflict(ruled: og.Graph) -> None:
    write(ruled, 'update Person set { mail: "x@x" } where name = "Ada"', "one")
    write(ruled, 'update Person set { mail: "x@x" } where name = "Bob"', "other")
    for source, into, id in (("one", "other", "Ada"), ("other", "one", "Bob")):
        with pytest.raises(og.MergeConflicts) as caught:
            ruled.merge(source, into, strategy="theirs")
        assert [(each.kind.value, each.type, each.id) for each in caught.value.conflicts] == [
            ("UniqueViolation", "Person", id)
        ]


def test_too_many_edges_that_meet_in_a_merge_are_a_conflict(ruled: og.Graph) -> None:
    write(ruled, 'insert LivesIn { from: "Ada", to: "Oslo" }', "one")
    write(ruled, 'insert LivesIn { from: "Ada", to: "Rome" } insert LivesIn { from: "Bob", to: "Rome" }', "other")
    for pair in (("one", "other"), ("other", "one")):
        with pytest.raises(og.MergeConflicts) as caught:
            ruled.merge(*pair)
        assert [(each.kind.value, each.type, each.id) for each in caught.value.conflicts] == [
            ("CardinalityViolation", "LivesIn", "Ada")
        ]


def test_all_conflicts_are_told_at_once(ruled: og.Graph) -> None:
    write(ruled, 'update Person set { mail: "x@x", age: 1 } where name = "Ada"', "one")
    write(ruled, 'insert Person { name: "Cid", age: 1 } delete City where name = "Rome"', "one")
    write(ruled, 'insert Person { name: "Cid", age: 2 } update Person set { age: 2 } where name = "Ada"', "other")
    write(ruled, 'insert LivesIn { id: "l", from: "Bob", to: "Rome" }', "other")
    for pair in (("one", "other"), ("other", "one")):
        found = ruled.merge(*pair, dry_run=True).conflicts
        assert sorted((each.kind.value, each.id) for each in found) == [
            ("DivergentInsert", "Cid"),
            ("DivergentUpdate", "Ada"),
            ("OrphanEdge", "l"),
        ]


def test_a_criss_cross_merges_what_both_sides_agree_on(graph: og.Graph) -> None:
    graph.branches.create("a")
    graph.branches.create("b")
    set_age(graph, 2, "a")
    set_age(graph, 3, "b", "Bob")
    graph.branches.create("a-then", from_="a")
    graph.branches.create("b-then", from_="b")
    graph.merge("b", "a-then")
    graph.merge("a", "b-then")
    write(graph, 'insert Person { name: "Cid" }', "a-then")
    assert graph.merge("a-then", "b-then").kind is MergeKind.MERGED
    assert ages(graph, "b-then") == {"Ada": 2, "Bob": 3, "Cid": None}


def test_merging_makes_no_sense_with_itself_or_with_what_is_not_there(graph: og.Graph) -> None:
    with pytest.raises(og.UsageError):
        graph.merge("main")
    with pytest.raises(og.NotFound):
        graph.merge("nowhere")
    with pytest.raises(og.NotFound):
        graph.merge("main", "nowhere")
    with pytest.raises(og.UsageError):
        graph.merge("b", strategy="mine")


# --- the feed ---


def _ids(blocks: Iterator[Any]) -> list[str]:
    return [block.commit.graph_commit_id for block in blocks]


def test_a_feed_goes_on_from_its_cursor(graph: og.Graph) -> None:
    graph.branches.create("b")
    own = [set_age(graph, age, "b").graph_commit_id for age in (2, 3, 4)]
    blocks = [*graph.changes(branch="b")]
    assert _ids(iter(blocks))[-3:] == own
    at = {block.commit.graph_commit_id: block.cursor for block in blocks}
    assert _ids(graph.changes(at[own[0]], "b")) == own[1:]
    assert _ids(other_handle(graph).changes(at[own[2]], "b")) == []
    set_age(graph, 9)
    assert _ids(graph.changes(at[own[2]], "b")) == []
    graph.merge("main", "b", strategy="theirs")
    (block,) = graph.changes(at[own[2]], "b")
    assert [(each.id, each.kind.value, each.changed_properties) for each in block.changes()] == [
        ("Ada", "update", ("age",))
    ]
    assert json.loads(json.dumps(block.as_json()))["changes"][0]["after"]["age"] == 9


def test_a_feed_of_a_branch_has_the_branchs_own_commits(graph: og.Graph) -> None:
    graph.branches.create("b")
    assert _ids(graph.changes(branch="b")) == []
    own = [set_age(graph, age, "b").graph_commit_id for age in (2, 3)]
    blocks = [*graph.changes(branch="b")]
    assert _ids(iter(blocks)) == own
    assert [len([*block.changes()]) for block in blocks] == [1, 1]


def test_cursors_of_other_branches_and_no_cursors_are_refused(graph: og.Graph) -> None:
    graph.branches.create("a")
    graph.branches.create("b")
    cursor = [*graph.changes()][-1].cursor
    for wrong in (cursor, "", "x", "é", "W10", cursor[:-5]):
        with pytest.raises(og.UsageError):
            [*graph.changes(wrong, "b")]


@pytest.mark.usefixtures("rows_in_tables")
def test_a_merge_wins_in_the_end_against_writers_that_are_quicker(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("b")
    set_age(graph, 5, "b")
    attempts = []

    def overtaken(attempt: WriteAttempt, **rest: Any) -> MergeResult:
        attempts.append(attempt)
        if len(attempts) == 1:
            set_age(other_handle(graph), 7, name="Bob")
        return merge(attempt, **rest)

    monkeypatch.setattr("omnigraph.verbs.merge.run_merge", overtaken)
    graph.merge("b")
    assert len(attempts) == 2
    assert ages(graph) == {"Ada": 5, "Bob": 7}
