"""Branches: cheap to create, alone in what they write, whole in what they show, and gone when they are deleted."""

import json
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.compiler import compile_query
from omnigraph.failpoints import Writer
from omnigraph.operations.merge import MergeKind, MergeOptions, merge
from omnigraph.operations.mutate import mutate
from omnigraph.operations.writing import WriteRequest
from omnigraph.storage import create_branch
from omnigraph.versioning import Commit
from omnigraph.versioning.names import physical_name

SCHEMA = """
node Person { name: String @key, age: I32? }
node City { name: String @key }
edge Knows: Person -> Person { since: I32? }
"""
TABLES = ("node:Person", "node:City", "edge:Knows")
START = """
    insert Person { name: "Ada", age: 1 }
    insert Person { name: "Bob", age: 1 }
    insert Knows { id: "ab", from: "Ada", to: "Bob" }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    write(graph, START)
    return graph


def write(graph: og.Graph, text: str, branch: str = "main") -> Commit:
    commit = graph.mutate(f"query q {{ {text} }}", branch=branch).commit
    assert commit is not None
    return commit


def set_age(graph: og.Graph, age: int, branch: str = "main", name: str = "Ada") -> Commit:
    return write(graph, f'update Person set {{ age: {age} }} where name = "{name}"', branch)


def ages(graph: og.Graph, at: Any = "main") -> dict[str, int | None]:
    snapshot = graph.snapshot(at) if isinstance(at, str) else at
    return {row["id"]: row["age"] for row in snapshot.table("node:Person").scan().to_pylist()}


def names(graph: og.Graph) -> list[str]:
    return [branch.name for branch in graph.branches.list()]


def files(graph: og.Graph, *folders: str) -> set[str]:
    root = Path(graph.uri)
    return {str(path.relative_to(root)) for folder in folders for path in (root / folder).rglob("*") if path.is_file()}


def forks(graph: og.Graph, branch: str) -> set[str]:
    """The tables that a branch has of its own."""
    return {key for key, pin in graph.snapshot(branch).manifest.pins.items() if f"/tree/{branch}." in pin.path}


def other_handle(graph: og.Graph) -> og.Graph:
    return og.open(graph.uri, durability="fast")


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
    root = graph.snapshot().location.child("__manifest")
    create_branch(root, physical_name(INTERNAL), parent=root, version=graph.snapshot().commit.manifest_version)
    assert names(graph) == ["main"]
    with pytest.raises((og.UsageError, og.NotFound)):
        CALLS[call](graph)
    assert (names(graph), ages(graph)) == (["main"], {"Ada": 1, "Bob": 1})


def test_a_graph_opened_for_reading_shows_branches_and_makes_none(graph: og.Graph) -> None:
    graph.branches.create("a")
    set_age(graph, 2, "a")
    reader = og.open(graph.uri, mode="r")
    assert (names(reader), ages(reader, "a")["Ada"]) == (["main", "a"], 2)
    for call in (lambda: reader.branches.create("b"), lambda: reader.branches.delete("a"), lambda: reader.merge("a")):
        with pytest.raises(og.UsageError, match="reading"):
            call()


# --- writing ---


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
    request = WriteRequest(kind=Writer.MUTATE, branch="busy", actor=None, message="slow", tables=TABLES)
    with graph._writes.attempt(request), ThreadPoolExecutor(2) as pool:
        for branch in ("free", "main"):
            pool.submit(set_age, graph, 7, branch).result(timeout=20)
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
    with pytest.raises(og.NotFound, match="younger"):
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


# --- deleting ---


def test_a_branch_with_descendants_is_not_deleted(graph: og.Graph) -> None:
    graph.branches.create("a")
    graph.branches.create("shares-all", from_="a")
    set_age(graph, 2, "a")
    graph.branches.create("b", from_="a")
    set_age(graph, 3, "b")
    with pytest.raises(og.BranchInUse) as caught:
        graph.branches.delete("a")
    assert caught.value.descendants == ("b",)
    assert ages(graph, "b")["Ada"] == 3
    graph.branches.delete("b")
    graph.branches.delete("a")
    assert names(graph) == ["main", "shares-all"]
    assert ages(graph, "shares-all")["Ada"] == 1
    for name in ("a", "b", "nowhere"):
        with pytest.raises(og.NotFound):
            graph.branches.delete(name)
    with pytest.raises(og.UsageError):
        graph.branches.delete("main")


def test_a_deleted_branch_leaves_no_data_behind(graph: og.Graph) -> None:
    before = files(graph, "nodes", "edges", "__manifest", "__heads")
    graph.branches.create("a")
    write(graph, 'insert Person { name: "Cid" } insert Knows { from: "Cid", to: "Ada" }', "a")
    graph.branches.delete("a")
    assert files(graph, "nodes", "edges", "__manifest", "__heads") == before
    for call in (
        lambda: graph.snapshot("a"),
        lambda: graph.commits.list("a"),
        lambda: [*graph.changes(branch="a")],
        lambda: graph.merge("a"),
        lambda: set_age(graph, 1, "a"),
    ):
        with pytest.raises(og.NotFound):
            call()


def test_a_name_that_is_used_again_is_another_branch(graph: og.Graph) -> None:
    graph.branches.create("b")
    old = set_age(graph, 2, "b")
    cursor = [*graph.changes(branch="b")][-1].cursor
    graph.branches.delete("b")
    graph.branches.create("b")
    assert ages(graph, "b")["Ada"] == 1
    assert forks(graph, "b") == set()
    with pytest.raises(og.UsageError, match="deleted"):
        [*graph.changes(cursor, "b")]
    with pytest.raises(og.NotFound):
        graph.snapshot_at(commit=old.graph_commit_id)
    new = set_age(graph, 3, "b")
    assert new.manifest_version == old.manifest_version
    assert ages(graph, "b") == {"Ada": 3, "Bob": 1}
    assert [commit.graph_commit_id for commit in graph.commits.list("b", limit=1)] == [new.graph_commit_id]


def test_another_handle_sees_that_a_branch_is_another(graph: og.Graph) -> None:
    other = other_handle(graph)
    graph.branches.create("b")
    set_age(graph, 2, "b")
    assert ages(other, "b")["Ada"] == 2
    graph.branches.delete("b")
    with pytest.raises(og.NotFound):
        other.snapshot("b")
    graph.branches.create("b")
    assert ages(other, "b")["Ada"] == 1
    set_age(other, 7, "b", "Bob")
    assert ages(graph, "b") == {"Ada": 1, "Bob": 7}
    set_age(graph, 8, "b")
    assert ages(other, "b") == {"Ada": 8, "Bob": 7}


@pytest.mark.parametrize("wrote", [False, True], ids=["that shares all", "with a fork"])
def test_a_writer_that_waited_while_its_branch_was_deleted_is_told(graph: og.Graph, wrote: bool) -> None:
    graph.branches.create("b")
    if wrote:
        set_age(graph, 2, "b")
    late = compile_query('query q { insert Person { name: "late" } }', graph.schema.catalog)
    other = other_handle(graph)

    def wait_and_write() -> None:
        request = WriteRequest(kind=Writer.LOAD, branch="b", actor=None, message="late")
        with other._writes.attempt(request) as attempt:
            graph.branches.delete("b")
            mutate(attempt, late, {})

    with pytest.raises((og.NotFound, og.Conflict)):
        wait_and_write()
    assert files(graph, "__recovery") == set()
    graph.branches.create("b")
    assert ages(graph, "b") == {"Ada": 1, "Bob": 1}


def test_a_mutation_that_waited_while_its_branch_was_deleted_is_told(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("b")
    other = other_handle(graph)
    assert ages(other, "b") == {"Ada": 1, "Bob": 1}
    deleting, resume = threading.Event(), threading.Event()
    delete = graph._branches.delete

    def slowly(name: str) -> None:
        deleting.set()
        assert resume.wait(20)
        delete(name)

    monkeypatch.setattr(graph._branches, "delete", slowly)
    log = other._branches.log

    def looked_up(name: str = "main") -> Any:
        found = log(name)
        if deleting.is_set() and name == "b":
            resume.set()
        return found

    monkeypatch.setattr(other._branches, "log", looked_up)
    with ThreadPoolExecutor(2) as pool:
        deletion = pool.submit(graph.branches.delete, "b")
        assert deleting.wait(20)
        late = pool.submit(write, other, 'insert Person { name: "late" }', "b")
        deletion.result(timeout=20)
        with pytest.raises((og.NotFound, og.Conflict)):
            late.result(timeout=20)


@pytest.mark.parametrize("at", [0, 1, 2], ids=["before it began", "where it began", "beyond its end"])
def test_what_an_interrupted_deletion_left_does_not_come_back(graph: og.Graph, tmp_path: Path, at: int) -> None:
    commits = [graph.snapshot().commit, set_age(graph, 2)]
    graph.branches.create("b")
    set_age(graph, 10, "b")
    set_age(graph, 11, "b")
    commits += [[set_age(graph, age) for age in range(3, 9)][-1]]
    tree = Path(graph.uri, "__manifest", "tree", "b")
    shutil.copytree(tree, tmp_path / "kept")
    graph.branches.delete("b")
    shutil.copytree(tmp_path / "kept", tree, dirs_exist_ok=True)
    assert names(graph) == ["main"]
    graph.branches.create("b", from_=commits[at].graph_commit_id)
    for handle in (graph, other_handle(graph)):
        assert ages(handle, "b")["Ada"] == (1, 2, 8)[at]
        assert handle.snapshot("b").commit == commits[at]
    set_age(graph, 20, "b", "Bob")
    assert ages(other_handle(graph), "b") == {"Ada": (1, 2, 8)[at], "Bob": 20}


def test_a_merged_branch_is_deleted_and_its_commits_stay_known(graph: og.Graph) -> None:
    graph.branches.create("b")
    own = [set_age(graph, age, "b") for age in (2, 3)]
    main = set_age(graph, 9, name="Bob")
    result = graph.merge("b", delete_branch=True)
    assert names(graph) == ["main"]
    for handle in (graph, other_handle(graph)):
        listed = handle.commits.list()
        assert {each.graph_commit_id for each in own} <= {each.graph_commit_id for each in listed}
        assert listed[0] == result.commit
        assert handle.commits.show(own[0].graph_commit_id) == own[0]
        with pytest.raises(og.NotFound, match="`b` was deleted"):
            handle.snapshot_at(commit=own[0].graph_commit_id)
        with pytest.raises(og.NotFound, match="commit"):
            handle.commits.changes(own[0].graph_commit_id)
        with pytest.raises(og.NotFound):
            handle.branches.create("again", from_=own[0].graph_commit_id)
    assert ages(graph, graph.snapshot_at(commit=main.graph_commit_id)) == {"Ada": 1, "Bob": 9}
    assert ages(graph) == {"Ada": 3, "Bob": 9}


def test_a_commit_that_came_after_the_merge_is_not_deleted_with_the_branch(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("b")
    set_age(graph, 2, "b")
    run = graph._writes.run

    def overtaken(request: WriteRequest, work: Callable[[Any], Any]) -> Any:
        result = run(request, work)
        set_age(other_handle(graph), 3, "b")
        return result

    monkeypatch.setattr(graph._writes, "run", overtaken)
    with suppress(og.Conflict):
        graph.merge("b", delete_branch=True)
    assert 3 in {ages(graph, name)["Ada"] for name in names(graph)}


def test_a_deletion_after_a_merge_that_conflicts_does_not_happen(graph: og.Graph) -> None:
    graph.branches.create("b")
    set_age(graph, 2, "b")
    set_age(graph, 3)
    with pytest.raises(og.MergeConflicts):
        graph.merge("b", delete_branch=True)
    graph.merge("b", strategy="ours", delete_branch=True, dry_run=True)
    assert names(graph) == ["main", "b"]


def test_a_chain_of_deleted_branches_is_still_one_history(graph: og.Graph) -> None:
    graph.branches.create("a")
    made = [set_age(graph, 2, "a")]
    graph.branches.create("b", from_="a")
    made.append(set_age(graph, 3, "b"))
    graph.branches.create("c", from_="b")
    made.append(set_age(graph, 4, "c"))
    assert graph.merge("c").kind is MergeKind.FAST_FORWARD
    for name in ("c", "b", "a"):
        graph.branches.delete(name)
    graph.branches.create("a")
    made.append(set_age(graph, 5, "a", "Bob"))
    assert graph.merge("a").kind is MergeKind.FAST_FORWARD
    listed = other_handle(graph).commits.list()
    assert {each.graph_commit_id for each in made} <= {each.graph_commit_id for each in listed}
    assert len(listed) == 8


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
    request = WriteRequest(kind=Writer.MERGE, branch="main", actor=None, message="late")

    def overtaken() -> None:
        with graph._writes.attempt(request) as attempt:
            set_age(other_handle(graph), 1)
            merge(attempt, graph._branches, "b", MergeOptions())

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
