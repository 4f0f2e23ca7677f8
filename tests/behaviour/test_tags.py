"""A tag names a commit wherever a commit can be named, never moves, and keeps what it names."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.versioning.tags import tags
from tests.behaviour.people import SCHEMA, ages, names, other_handle, set_age, small_world, write
from tests.behaviour.test_cli import omnigraph_cli
from tests.stores import Options


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return small_world(tmp_path)


# --- creating, listing, deleting ---


def test_a_tag_says_what_it_names_when_and_why(graph: og.Graph) -> None:
    head = graph.snapshot().commit
    before = datetime.now(UTC)
    tag = graph.tags.create("v1", message="the first", actor="ada")
    assert (tag.name, tag.commit_id, tag.place) == ("v1", head.graph_commit_id, head.place)
    assert (tag.message, tag.actor) == ("the first", "ada")
    assert before <= tag.created_at <= datetime.now(UTC)
    other = og.open(graph.uri, "r")
    assert other.tags.show("v1") == tag
    assert other.tags.list() == [tag] == tags(graph._session.location)
    assert tag.as_json() == {
        "name": "v1",
        "graph_commit_id": head.graph_commit_id,
        "branch": "main",
        "manifest_version": head.manifest_version,
        "actor": "ada",
        "message": "the first",
        "created_at": tag.created_at.isoformat().replace("+00:00", "Z"),
    }


def test_a_commit_is_named_by_its_id_a_branch_a_version_or_another_tag(graph: og.Graph) -> None:
    first = graph.snapshot().commit
    graph.branches.create("b")
    second = set_age(graph, 2, "b")
    third = set_age(graph, 3)
    create = graph.tags.create
    assert create("by-id", first.graph_commit_id).commit_id == first.graph_commit_id
    assert create("by-branch", "b").commit_id == second.graph_commit_id
    assert create("by-version", first.manifest_version).commit_id == first.graph_commit_id
    assert create("by-tag", "by-branch").place == second.place
    assert create("the/newest").commit_id == third.graph_commit_id
    assert [tag.name for tag in graph.tags.list()] == ["by-branch", "by-id", "by-tag", "by-version", "the/newest"]


def test_a_tag_does_not_move(graph: og.Graph) -> None:
    tag = graph.tags.create("v1")
    set_age(graph, 2)
    with pytest.raises(og.TagExists) as raised:
        graph.tags.create("v1")
    assert raised.value.name == "v1"
    assert graph.tags.list() == [tag]


def test_of_several_who_create_a_tag_one_succeeds(graph: og.Graph) -> None:
    commits = [set_age(graph, age).graph_commit_id for age in range(4)]
    together = threading.Barrier(4)

    def create(commit: str) -> bool:
        handle = other_handle(graph)
        together.wait()
        try:
            handle.tags.create("v1", commit)
        except og.TagExists:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        created = [*pool.map(create, commits)]
    assert sum(created) == 1
    assert graph.tags.show("v1").commit_id == commits[created.index(True)]


def test_a_deleted_tag_is_gone_and_its_name_free(graph: og.Graph) -> None:
    graph.tags.create("v1")
    graph.tags.delete("v1")
    assert graph.tags.list() == []
    for call in (graph.tags.delete, graph.tags.show):
        with pytest.raises(og.NotFound, match="no tag `v1`"):
            call("v1")
    with pytest.raises(og.NotFound):
        graph.snapshot_at(commit="v1")
    set_age(graph, 2)
    graph.tags.create("v1")
    assert ages(graph, graph.snapshot_at(commit="v1"))["Ada"] == 2


@pytest.mark.parametrize("name", ["", "a b", "__x", "-x", "x..y", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "12", "x" * 200])
def test_a_name_that_no_tag_may_have_is_refused(graph: og.Graph, name: str) -> None:
    with pytest.raises(og.UsageError, match="tag"):
        graph.tags.create(name)
    assert graph.tags.list() == []


def test_a_tag_and_a_branch_never_share_a_name(graph: og.Graph) -> None:
    graph.tags.create("v1")
    with pytest.raises(og.TagExists):
        graph.branches.create("v1")
    graph.branches.create("b")
    for name in ("b", "main"):
        with pytest.raises(og.BranchExists):
            graph.tags.create(name)
    assert names(graph) == ["main", "b"]
    assert [tag.name for tag in graph.tags.list()] == ["v1"]


def test_what_is_not_there_is_not_tagged(graph: og.Graph) -> None:
    graph.branches.create("b")
    gone = set_age(graph, 2, "b").graph_commit_id
    graph.branches.delete("b")
    for commit in (gone, "nowhere", 99):
        with pytest.raises(og.NotFound):
            graph.tags.create("v1", commit)
    with pytest.raises(og.UsageError, match="opened for reading"):
        og.open(graph.uri, "r").tags.create("v1")
    assert graph.tags.list() == []


# --- using them ---


def test_a_tag_works_wherever_a_commit_can_be_named(graph: og.Graph) -> None:
    graph.tags.create("v1")
    graph.tags.create("releases/v1")
    set_age(graph, 2)
    everyone = 'query q { match { $p: Person { name: "Ada" } } return { $p.age } }'
    for name in ("v1", "releases/v1"):
        assert ages(graph, graph.snapshot_at(commit=name))["Ada"] == 1
        ada = graph.entity("Person", "Ada", at=name)
        assert ada is not None
        assert ada["age"] == 1
        assert graph.query(everyone, snapshot=name).rows() == [{"p.age": 1}]
        assert [change.id for change in graph.diff(name, "main")] == ["Ada"]
        assert graph.commits.show(name) == graph.snapshot_at(commit=name).commit
        assert [*graph.commits.changes(name)] == [*graph.commits.changes(graph.commits.show(name).graph_commit_id)]
        assert any('"Ada"' in line and '"age": 1' in line for line in graph.export(snapshot=name))  # type: ignore[union-attr]
    graph.branches.create("b", from_="v1")
    assert ages(graph, "b")["Ada"] == 1
    write(graph, 'insert Person { name: "Cid" }', "b")


def test_the_newest_commit_of_a_branch_that_has_none_of_its_own_is_its_parents(graph: og.Graph) -> None:
    graph.branches.create("b")
    graph.tags.create("v1", "b")
    assert graph.tags.show("v1").place.branch == "main"
    graph.branches.delete("b")
    assert ages(graph, graph.snapshot_at(commit="v1"))["Ada"] == 1


def test_a_branch_is_not_deleted_while_a_tag_names_a_commit_of_it(graph: og.Graph) -> None:
    graph.branches.create("b")
    set_age(graph, 2, "b")
    graph.tags.create("kept", "b")
    set_age(graph, 3, "b")
    graph.branches.create("c", from_="b")
    with pytest.raises(og.BranchInUse) as raised:
        graph.branches.delete("b")
    assert (raised.value.tags, raised.value.descendants) == (("kept",), ("c",))
    assert "kept names a commit of it" in str(raised.value)
    graph.branches.delete("c")
    with pytest.raises(og.BranchInUse):
        graph.branches.delete("b")
    assert graph.merge("b", delete_branch=True).branch_deleted is False
    graph.tags.delete("kept")
    graph.branches.delete("b")
    assert names(graph) == ["main"]


def test_a_tag_keeps_its_commit_from_cleanup_until_it_is_deleted(graph: og.Graph) -> None:
    graph.branches.create("b")
    commits = {age: set_age(graph, age, "b" if age % 2 else "main").graph_commit_id for age in (2, 3, 4, 5)}
    for age, commit in commits.items():
        graph.tags.create(f"age-{age}", commit)
    set_age(graph, 6)
    set_age(graph, 7, "b")
    graph.cleanup(keep=1, grace=timedelta(), confirm=True)
    for age in commits:
        assert ages(graph, graph.snapshot_at(commit=f"age-{age}"))["Ada"] == age
        graph.tags.delete(f"age-{age}")
    graph.cleanup(keep=1, grace=timedelta(), confirm=True)
    with pytest.raises(og.NotFound, match="cleanup has removed it"):
        graph.snapshot_at(commit=commits[2])
    with pytest.raises(og.NotFound):
        graph.tags.create("late", commits[3])


def test_a_tag_and_the_end_of_its_branch_exclude_each_other(graph: og.Graph) -> None:
    """Whoever comes first wins, and a tag that is there names a commit that can be read."""
    for number in range(2, 8):
        graph.branches.create("b")
        commit = set_age(graph, number, "b").graph_commit_id
        together = threading.Barrier(2)

        def tag(commit: str = commit, together: threading.Barrier = together) -> bool:
            handle = other_handle(graph)
            together.wait()
            try:
                handle.tags.create("t", commit)
            except og.NotFound:
                return False
            return True

        def delete(together: threading.Barrier = together) -> bool:
            handle = other_handle(graph)
            together.wait()
            try:
                handle.branches.delete("b")
            except og.BranchInUse:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            tagged, deleted = pool.submit(tag), pool.submit(delete)
        assert tagged.result() != deleted.result()
        if tagged.result():
            assert ages(graph, graph.snapshot_at(commit="t"))["Ada"] == number
            graph.tags.delete("t")
            graph.branches.delete("b")


def test_a_file_that_is_no_tag_is_an_error_that_names_it(graph: og.Graph) -> None:
    graph.tags.create("v1")
    Path(graph.uri, "__tags", "v1.json").write_text("{}")
    with pytest.raises(og.StorageError, match=r"__tags/v1\.json"):
        graph.tags.list()


def test_tags_live_on_an_object_store(s3_store: Options) -> None:
    graph = og.init("s3://bucket/tagged", SCHEMA, storage_options=s3_store)
    write(graph, 'insert Person { name: "Ada", age: 1 }')
    graph.tags.create("a/b")
    set_age(graph, 2)
    with pytest.raises(og.TagExists):
        graph.tags.create("a/b")
    assert ages(graph, graph.snapshot_at(commit="a/b"))["Ada"] == 1
    graph.tags.delete("a/b")
    assert graph.tags.list() == []


# --- the command ---


def test_the_commands_create_list_and_delete(graph: og.Graph) -> None:
    first = graph.snapshot().commit_id
    set_age(graph, 2)
    made = omnigraph_cli("tag", "create", "v1", graph.uri, "--at", first, "-m", "the first", "--as", "ada", "--json")
    assert made.returncode == 0
    assert json.loads(made.stdout)["graph_commit_id"] == first
    version = str(graph.snapshot().commit.manifest_version)
    assert omnigraph_cli("tag", "create", "v2", graph.uri, "--at", version).returncode == 0
    again = omnigraph_cli("tag", "create", "v1", graph.uri)
    assert (again.returncode, "error[tag_exists]" in again.stderr) == (3, True)
    listed = json.loads(omnigraph_cli("tag", "list", graph.uri, "--json").stdout)
    assert [(tag["name"], tag["message"]) for tag in listed] == [("v1", "the first"), ("v2", None)]
    assert first in omnigraph_cli("tag", "list", graph.uri).stdout
    shown = omnigraph_cli("commit", "show", "v1", graph.uri, "--json")
    assert json.loads(shown.stdout)["graph_commit_id"] == first
    query = ["query", "-e", "query q { match { $p: Person } return { $p.age } }", "--store", graph.uri, "--json"]
    old = json.loads(omnigraph_cli(*query, "--snapshot", "v1").stdout)
    assert [row["p.age"] for row in old["rows"]] == [1, 1]
    missing = omnigraph_cli(*query, "--snapshot", "v3")
    assert "`v1`" in json.loads(missing.stdout)["error"]["message"]
    assert omnigraph_cli("branch", "create", "b", graph.uri, "--from", "v1").returncode == 0
    assert omnigraph_cli("diff", "v1", "main", graph.uri).returncode == 0
    assert omnigraph_cli("tag", "delete", "v1", graph.uri).stdout == "deleted tag v1\n"
    gone = omnigraph_cli("tag", "delete", "v1", graph.uri)
    assert (gone.returncode, "no tag `v1`" in gone.stderr) == (1, True)
