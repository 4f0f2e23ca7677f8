"""A branch that is deleted is gone for everybody, and what was merged of it stays known."""

import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.history import MergeKind
from omnigraph.compiler import compile_query
from omnigraph.failpoints import Writer
from omnigraph.mutating.mutation import run_mutation
from omnigraph.session.writes import WriteOrder
from omnigraph.versioning import Snapshot
from tests.behaviour.people import (
    ages,
    files,
    forks,
    names,
    other_handle,
    set_age,
    small_world,
    write,
)
from tests.manifest_files import line_of


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return small_world(tmp_path)


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


def opened(snapshot: Snapshot) -> Snapshot:
    """The same snapshot with its tables open, of whose rows nothing was read."""
    for key in snapshot.manifest.pins:
        snapshot.table(key)
    return snapshot


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize("is_written_again", [False, True])
def test_reading_a_branch_that_is_deleted_meanwhile_says_that_it_is_gone(
    graph: og.Graph, tmp_path: Path, is_written_again: bool
) -> None:
    graph.branches.create("b")
    # Each write reads tables that it does not change; none has read the last version of one.
    write(graph, 'insert Knows { id: "bb", from: "Bob", to: "Bob" }', "b")
    set_age(graph, 2, "b")
    reader = other_handle(graph)
    held = opened(reader.snapshot("b"))
    lines, changes = reader.export(snapshot=held), reader.diff("main", held)
    graph.branches.delete("b")
    if is_written_again:
        graph.branches.create("b")
        set_age(graph, 3, "b")
    reads: list[Callable[[], object]] = [
        lambda: reader.query("query q { match { $p: Person } return { $p.name, $p.age } }", snapshot=held),
        lambda: reader.query("query q { match { $p: Person  $p knows $q } return { $q.age } }", snapshot=held),
        lambda: reader.entity("Person", "Ada", held),
        lambda: [*lines],  # type: ignore[misc]
        lambda: reader.export(tmp_path / "out.jsonl", snapshot=held),
        lambda: [*changes],
        lambda: reader.analyze("degrees", snapshot=held),
    ]
    for read in reads:
        with pytest.raises(og.NotFound) as caught:
            read()
        assert (caught.value.kind, caught.value.name) == ("branch", "b")
    assert ages(graph)["Ada"] == 1


@pytest.mark.usefixtures("rows_in_tables")
def test_reading_what_cleanup_has_removed_says_so(graph: og.Graph) -> None:
    reader = other_handle(graph)
    held = opened(reader.snapshot())
    set_age(graph, 2)
    graph.optimize()
    graph.cleanup(keep=1, grace="0s", confirm=True)
    with pytest.raises(og.NotFound, match="cleanup"):
        reader.query("query q { match { $p: Person } return { $p.name, $p.age } }", snapshot=held)


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
        request = WriteOrder(kind=Writer.LOAD, branch="b", actor=None, message="late")
        with other._session.writes.attempt(request) as attempt:
            graph.branches.delete("b")
            run_mutation(attempt, late, {})

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
    delete = graph._session.branches.delete

    def slowly(name: str) -> None:
        deleting.set()
        assert resume.wait(120)
        delete(name)

    monkeypatch.setattr(graph._session.branches, "delete", slowly)
    log = other._session.branches.log

    def looked_up(name: str = "main") -> Any:
        found = log(name)
        if deleting.is_set() and name == "b":
            resume.set()
        return found

    monkeypatch.setattr(other._session.branches, "log", looked_up)
    with ThreadPoolExecutor(2) as pool:
        deletion = pool.submit(graph.branches.delete, "b")
        assert deleting.wait(120)
        late = pool.submit(write, other, 'insert Person { name: "late" }', "b")
        deletion.result(timeout=120)
        with pytest.raises((og.NotFound, og.Conflict)):
            late.result(timeout=120)


@pytest.mark.parametrize("at", [0, 1, 2], ids=["before it began", "where it began", "beyond its end"])
def test_what_an_interrupted_deletion_left_does_not_come_back(graph: og.Graph, tmp_path: Path, at: int) -> None:
    commits = [graph.snapshot().commit, set_age(graph, 2)]
    graph.branches.create("b")
    set_age(graph, 10, "b")
    set_age(graph, 11, "b")
    commits += [[set_age(graph, age) for age in range(3, 9)][-1]]
    line = line_of(graph.uri, "b")
    shutil.copytree(line, tmp_path / "kept")
    graph.branches.delete("b")
    shutil.copytree(tmp_path / "kept", line)
    assert names(graph) == ["main"]
    graph.branches.create("b", from_=commits[at].graph_commit_id)
    for handle in (graph, other_handle(graph)):
        assert ages(handle, "b")["Ada"] == (1, 2, 8)[at]
        assert handle.snapshot("b").commit == commits[at]
    set_age(graph, 20, "b", "Bob")
    assert ages(other_handle(graph), "b") == {"Ada": (1, 2, 8)[at], "Bob": 20}
    graph.cleanup(keep=100, grace="0s", confirm=True)
    assert not line.exists()
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
    run = graph._session.writes.run_small

    def overtaken(request: WriteOrder, decide: Callable[[Any], Any]) -> Any:
        result = run(request, decide)
        set_age(other_handle(graph), 3, "b")
        return result

    monkeypatch.setattr(graph._session.writes, "run_small", overtaken)
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
