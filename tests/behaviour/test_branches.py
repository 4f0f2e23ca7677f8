"""Branches: cheap to create, alone in what they write, whole in what they show."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.api.history import MergeKind
from omnigraph.failpoints import Writer
from omnigraph.session.writes import WriteOrder
from omnigraph.versioning.refs import Ref
from tests.behaviour.people import (
    TABLES,
    ages,
    files,
    forks,
    names,
    other_handle,
    set_age,
    small_world,
    write,
)
from tests.manifest_files import ref_file, write_ref


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return small_world(tmp_path)


# --- creating ---


def test_a_new_branch_shows_what_its_parent_shows_and_copies_nothing(graph: og.Graph) -> None:
    before = files(graph, "nodes", "edges")
    info = graph.branches.create("feature")
    assert files(graph, "nodes", "edges") == before
    assert info.head == graph.snapshot().commit
    assert (info.name, info.ahead, info.behind) == ("feature", 0, 0)
    assert info.created_at is not None
    assert graph.snapshot("feature").manifest.pins == graph.snapshot().manifest.pins
    assert ages(graph, "feature") == {"Ada": 1, "Bob": 1}
    query = 'query q { match { $p: Person { name: "Ada" } $p knows $f } return { $f.name } }'
    assert graph.query(query, branch="feature").rows() == graph.query(query).rows() != []


def test_branches_are_listed_main_first_and_then_by_name(graph: og.Graph) -> None:
    for name in ("z", "feature/b", "feature/a", "Ä_x"):
        graph.branches.create(name)
    assert names(graph) == ["main", *sorted(["z", "feature/b", "feature/a", "Ä_x"])]
    assert graph.branches.list()[0].created_at is None
    set_age(graph, 2)
    set_age(graph, 3, "z")
    set_age(graph, 4, "z")
    counts = {each.name: (each.ahead, each.behind) for each in graph.branches.list()}
    assert counts == {"main": (0, 0), "z": (2, 1), "feature/a": (0, 1), "feature/b": (0, 1), "Ä_x": (0, 1)}
    listed = json.loads(json.dumps([each.as_json() for each in graph.branches.list()]))
    assert [each["name"] for each in listed] == names(graph)


def test_a_name_is_taken_once(graph: og.Graph) -> None:
    graph.branches.create("a")
    with pytest.raises(og.BranchExists):
        graph.branches.create("a")
    with pytest.raises(og.UsageError):
        graph.branches.create("main")
    with pytest.raises(og.NotFound):
        graph.branches.create("b", from_="nowhere")
    assert names(graph) == ["main", "a"]


def test_a_branch_begins_at_any_commit_of_any_branch(graph: og.Graph) -> None:
    old = graph.snapshot().commit_id
    set_age(graph, 2)
    graph.branches.create("side", from_=old)
    assert ages(graph, "side")["Ada"] == 1
    first = set_age(graph, 10, "side")
    set_age(graph, 11, "side")
    graph.branches.create("later", from_=first.graph_commit_id)
    assert ages(graph, "later")["Ada"] == 10
    set_age(graph, 12, "later", "Bob")
    assert ages(graph, "later") == {"Ada": 10, "Bob": 12}
    assert (ages(graph)["Ada"], ages(graph, "side")) == (2, {"Ada": 11, "Bob": 1})
    infos = {each.name: (each.ahead, each.behind) for each in graph.branches.list()}
    assert infos == {"main": (0, 0), "side": (2, 1), "later": (2, 1)}


def test_of_those_who_create_one_name_at_the_same_time_one_succeeds(graph: og.Graph) -> None:
    def create(_: int) -> str:
        try:
            return other_handle(graph).branches.create("race").name
        except og.BranchExists:
            return "taken"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(create, range(4))) == ["race", "taken", "taken", "taken"]
    set_age(graph, 5, "race")
    assert (ages(graph)["Ada"], ages(graph, "race")["Ada"]) == (1, 5)


INTERNAL = "__schema_apply_lock__"


CALLS: dict[str, Callable[[og.Graph], object]] = {
    "create": lambda graph: graph.branches.create(INTERNAL),
    "create from": lambda graph: graph.branches.create("x", from_=INTERNAL),
    "delete": lambda graph: graph.branches.delete(INTERNAL),
    "snapshot": lambda graph: graph.snapshot(INTERNAL),
    "snapshot at": lambda graph: graph.snapshot_at(version=2, branch=INTERNAL),
    "query": lambda graph: graph.query("query q { match { $p: Person } return { $p.name } }", branch=INTERNAL),
    "mutate": lambda graph: graph.mutate('query q { insert City { name: "x" } }', branch=INTERNAL),
    "export": lambda graph: graph.export(branch=INTERNAL),
    "merge": lambda graph: graph.merge(INTERNAL),
    "merge into": lambda graph: graph.merge("main", INTERNAL),
    "diff": lambda graph: [*graph.diff("main", INTERNAL)],
    "changes": lambda graph: [*graph.changes(branch=INTERNAL)],
    "commits": lambda graph: graph.commits.list(INTERNAL),
}


@pytest.mark.parametrize("call", CALLS)
def test_an_internal_branch_is_hidden_from_lists_and_from_every_call(graph: og.Graph, call: str) -> None:
    write_ref(graph.uri, Ref(INTERNAL, "1", graph.snapshot().commit.place, datetime.now(UTC)))
    assert names(graph) == ["main"]
    with pytest.raises((og.UsageError, og.NotFound)):
        CALLS[call](graph)
    assert (names(graph), ages(graph)) == (["main"], {"Ada": 1, "Bob": 1})
    assert ref_file(graph.uri, INTERNAL).exists()


def test_a_graph_opened_for_reading_shows_branches_and_makes_none(graph: og.Graph) -> None:
    graph.branches.create("a")
    set_age(graph, 2, "a")
    reader = og.open(graph.uri, mode="r")
    assert (names(reader), ages(reader, "a")["Ada"]) == (["main", "a"], 2)
    for call in (lambda: reader.branches.create("b"), lambda: reader.branches.delete("a"), lambda: reader.merge("a")):
        with pytest.raises(og.UsageError, match="reading"):
            call()


# --- writing ---


@pytest.mark.usefixtures("rows_in_tables")
def test_a_table_is_forked_at_its_first_write_and_no_other_is(graph: og.Graph) -> None:
    graph.branches.create("b")
    main_files = files(graph, "edges")
    set_age(graph, 2, "b")
    assert forks(graph, "b") == {"node:Person"}
    place = graph.snapshot("b").manifest.pins["node:Person"].path
    set_age(graph, 3, "b")
    assert graph.snapshot("b").manifest.pins["node:Person"].path == place
    assert files(graph, "edges") == main_files
    write(graph, 'insert Knows { from: "Bob", to: "Ada" }', "b")
    assert forks(graph, "b") == {"node:Person", "edge:Knows"}
    assert all("/tree/" not in pin.path for pin in graph.snapshot().manifest.pins.values())


def test_what_changes_nothing_on_a_branch_forks_nothing(graph: og.Graph) -> None:
    graph.branches.create("b")
    before = files(graph, "nodes", "edges")
    assert graph.mutate('query q { delete Person where name = "nobody" }', branch="b").commit is None
    with pytest.raises(og.ValidationError):
        graph.mutate('query q { insert Knows { from: "nobody", to: "Ada" } }', branch="b")
    assert files(graph, "nodes", "edges") == before


def test_branches_of_branches_read_and_write_alone(graph: og.Graph) -> None:
    expected: dict[str, dict[str, int | None]] = {"main": {"Ada": 1, "Bob": 1}}
    parent = "main"
    for depth, name in enumerate(["one", "two", "three", "four"], 2):
        graph.branches.create(name, from_=parent)
        set_age(graph, depth, name)
        write(graph, f'insert Person {{ name: "{name}" }} insert Knows {{ from: "{name}", to: "Ada" }}', name)
        expected[name] = {**expected[parent], "Ada": depth, name: None}
        parent = name
    set_age(graph, 50, "two", "Bob")
    write(graph, 'delete Person where name = "one"', "three")
    expected["two"]["Bob"] = 50
    del expected["three"]["one"]
    assert {name: ages(graph, name) for name in names(graph)} == expected
    fresh = other_handle(graph)
    assert {name: ages(fresh, name) for name in names(fresh)} == expected
    counts = {name: fresh.snapshot(name).table("edge:Knows").count() for name in expected}
    assert counts == {"main": 1, "one": 2, "two": 3, "three": 3, "four": 5}
    for left, mine in expected.items():
        for right, yours in expected.items():
            changed = {each.id for each in fresh.diff(left, right, types=["Person"])}
            assert changed == {id for id, _ in mine.items() ^ yours.items()}


def test_loads_on_a_branch_leave_the_others_alone(graph: og.Graph, tmp_path: Path) -> None:
    def load(mode: str, *people: tuple[str, int]) -> None:
        lines = [json.dumps({"type": "Person", "data": {"name": name, "age": age}}) for name, age in people]
        (tmp_path / "data.jsonl").write_text("\n".join(lines))
        graph.load(tmp_path / "data.jsonl", mode, branch="b")

    write(graph, 'delete Knows where id = "ab"')
    graph.branches.create("b")
    load("append", ("Cid", 3))
    assert ages(graph, "b") == {"Ada": 1, "Bob": 1, "Cid": 3}
    load("merge", ("Ada", 9), ("Dan", 4))
    assert ages(graph, "b") == {"Ada": 9, "Bob": 1, "Cid": 3, "Dan": 4}
    with pytest.raises(og.OmnigraphError):
        load("append", ("Dan", 4))
    load("overwrite", ("Eve", 5), ("Bob", 1))
    assert ages(graph, "b") == {"Eve": 5, "Bob": 1}
    assert ages(graph) == {"Ada": 1, "Bob": 1}
    assert graph.merge("b").kind is MergeKind.FAST_FORWARD
    assert ages(graph) == {"Eve": 5, "Bob": 1}


def test_a_branch_can_be_exported_and_queried(graph: og.Graph) -> None:
    graph.branches.create("b")
    write(graph, 'insert City { name: "Oslo" }', "b")
    lines = graph.export(branch="b", types=["City"])
    assert not isinstance(lines, int)
    assert [json.loads(line)["data"]["name"] for line in lines] == ["Oslo"]
    query = "query q { match { $c: City } return { $c.name } }"
    assert len(graph.query(query, branch="b")) == 1
    assert len(graph.query(query)) == 0


def test_indexes_of_main_do_not_disturb_a_branch(graph: og.Graph) -> None:
    graph.branches.create("before")
    set_age(graph, 2, "before")
    graph.ensure_indices()
    graph.branches.create("after")
    set_age(graph, 3, "after")
    write(graph, 'insert Person { name: "Cid" }', "after")
    for name, age in (("before", 2), ("after", 3), ("main", 1)):
        assert graph.entity("Person", "Ada", at=graph.snapshot(name)) == {"id": "Ada", "name": "Ada", "age": age}
    assert graph.merge("after").kind is MergeKind.FAST_FORWARD
    assert ages(graph) == {"Ada": 3, "Bob": 1, "Cid": None}


def test_writers_of_two_branches_do_not_wait_for_each_other(graph: og.Graph) -> None:
    graph.branches.create("busy")
    graph.branches.create("free")
    request = WriteOrder(kind=Writer.MUTATE, branch="busy", actor=None, message="slow", tables=TABLES)
    with graph._session.writes.attempt(request), ThreadPoolExecutor(2) as pool:
        for branch in ("free", "main"):
            pool.submit(set_age, graph, 7, branch).result(timeout=120)
    assert [ages(graph, name)["Ada"] for name in ("main", "free", "busy")] == [7, 7, 1]


def test_many_branches_are_written_at_the_same_time(graph: og.Graph) -> None:
    branches = [f"b{number}" for number in range(4)]
    for name in branches:
        graph.branches.create(name)

    def work(name: str) -> None:
        handle = other_handle(graph)
        for age in range(3):
            set_age(handle, age, name)
            write(handle, f'insert Person {{ name: "{name}-{age}" }}', name)

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(work, branches)] == [None] * 4
    for name in branches:
        assert ages(graph, name) == {"Ada": 2, "Bob": 1, **{f"{name}-{age}": None for age in range(3)}}
        assert len(graph.commits.list(name)) == 8
    assert ages(graph) == {"Ada": 1, "Bob": 1}
    for name in branches:
        graph.merge(name, delete_branch=True)
    assert len(ages(graph)) == 2 + 4 * 3


# --- time travel ---


def test_the_past_of_a_branch_can_be_read_by_version_commit_and_time(graph: og.Graph) -> None:
    start = graph.snapshot().commit
    before = set_age(graph, 2)
    graph.branches.create("b")
    own = set_age(graph, 3, "b")
    set_age(graph, 4, "b")
    set_age(graph, 5)
    for snapshot in (
        graph.snapshot_at(version=own.manifest_version, branch="b"),
        graph.snapshot_at(commit=own.graph_commit_id),
        graph.snapshot_at(time=own.created_at, branch="b"),
    ):
        assert ages(graph, snapshot)["Ada"] == 3
    assert ages(graph, graph.snapshot_at(time=before.created_at, branch="b"))["Ada"] == 2
    assert ages(graph, graph.snapshot_at(time=start.created_at, branch="b"))["Ada"] == 1
    assert ages(graph, graph.snapshot_at(version=before.manifest_version, branch="b"))["Ada"] == 2
    with pytest.raises(og.NotFound):
        graph.snapshot_at(version=before.manifest_version - 1, branch="b")
    with pytest.raises(og.NotFound):
        graph.snapshot_at(version=own.manifest_version + 5, branch="b")
    with pytest.raises(og.NotFound, match="was created later"):
        graph.snapshot_at(time=start.created_at - timedelta(days=1), branch="b")


def test_time_before_the_fork_is_that_of_the_line_that_a_branch_comes_from(graph: og.Graph) -> None:
    old = set_age(graph, 2)
    late = set_age(graph, 3)
    graph.branches.create("b", from_=old.graph_commit_id)
    graph.branches.create("c", from_="b")
    set_age(graph, 9, "c")
    # At the time of the later commit, the line of this branch was still at the older one.
    assert ages(graph, graph.snapshot_at(time=late.created_at, branch="b"))["Ada"] == 2
    assert ages(graph, graph.snapshot_at(time=late.created_at, branch="c"))["Ada"] == 2


def test_the_commits_of_a_branch_are_its_own_and_those_before_the_fork(graph: og.Graph) -> None:
    graph.branches.create("b")
    own = [set_age(graph, age, "b") for age in (2, 3)]
    set_age(graph, 9)
    listed = graph.commits.list("b")
    assert [commit.message for commit in listed] == ["q", "q", "q", "init"]
    assert listed[:2] == own[::-1]
    assert {commit.branch for commit in listed} == {"b", "main"}
    assert graph.commits.show(own[0].graph_commit_id) == own[0]
    (change,) = graph.commits.changes(own[0].graph_commit_id)
    assert (change.before, change.after) == (
        {"id": "Ada", "name": "Ada", "age": 1},
        {"id": "Ada", "name": "Ada", "age": 2},
    )


def test_a_branch_that_is_called_like_a_commit_is_not_taken_for_it(graph: og.Graph) -> None:
    commit = set_age(graph, 2).graph_commit_id
    with suppress(og.UsageError):
        graph.branches.create(commit)
        set_age(graph, 3, commit)
    (change,) = graph.commits.changes(commit)
    assert change.after == {"id": "Ada", "name": "Ada", "age": 2}
