"""Branches on an object store begin without a lock: whoever takes away what one begins on, or its name, notices it."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Point
from omnigraph.storage.location import Location, location_of
from omnigraph.storage.objects import objects_at
from omnigraph.versioning import Branches
from omnigraph.versioning.tags import write_tag
from tests.stores import Fault, FaultyProxy, Options

SCHEMA = "node Person { name: String @key, age: I32? }\nnode City { name: String @key }"
WITHOUT_CITY = "node Person { name: String @key, age: I32? }"
ADD = "query add($name: String) { insert Person { name: $name } }"
PATIENCE = 60.0


@pytest.fixture
def graph(s3_store: Options, s3_uri: str) -> og.Graph:
    graph = og.init(s3_uri, SCHEMA, storage_options=s3_store)
    graph.load({"Person": [{"name": "Ada"}], "City": [{"name": "Oslo"}]})
    graph.mutate(ADD, params={"name": "Bob"})
    return graph


def names(graph: og.Graph) -> list[str]:
    return [branch.name for branch in graph.branches.list()]


def people(graph: og.Graph, branch: str = "main") -> list[str]:
    return sorted(graph.snapshot(branch).table("node:Person").scan(["name"])["name"].to_pylist())


def opened(graph: og.Graph, s3_store: Options) -> og.Graph:
    return og.open(graph.uri, storage_options=s3_store)


@contextmanager
def held_at(monkeypatch: pytest.MonkeyPatch, method: str, run: Callable[[], object]) -> Iterator[list[Any]]:
    """Runs something in a thread, which waits before it enters a method of `Branches` until the block has ended."""
    reached, over, outcome = threading.Event(), threading.Event(), list[Any]()
    called = getattr(Branches, method)

    def wait(self: Branches, *arguments: Any) -> Any:
        if threading.current_thread() is thread and not reached.is_set():
            reached.set()
            assert over.wait(PATIENCE)
        return called(self, *arguments)

    def work() -> None:
        try:
            outcome.append(run())
        except og.OmnigraphError as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    with monkeypatch.context() as patch:
        patch.setattr(Branches, method, wait)
        thread.start()
        assert reached.wait(PATIENCE), outcome
        try:
            yield outcome
        finally:
            over.set()
            thread.join(PATIENCE)


def test_of_those_who_create_one_branch_one_does(graph: og.Graph, s3_store: Options) -> None:
    handles = [opened(graph, s3_store) for _ in range(4)]
    outcome: list[object] = []
    start = threading.Barrier(len(handles))

    def create(handle: og.Graph) -> None:
        start.wait()
        try:
            outcome.append(handle.branches.create("b"))
        except og.BranchExists as error:
            outcome.append(error)

    threads = [threading.Thread(target=create, args=(handle,)) for handle in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(isinstance(each, og.BranchInfo) for each in outcome) == [False, False, False, True]
    assert names(graph) == ["main", "b"]
    assert len(objects_at(location_of(graph.uri, s3_store)).folders("__manifest/lines")) == 2
    graph.mutate(ADD, params={"name": "Cid"}, branch="b")
    assert people(graph, "b") == ["Ada", "Bob", "Cid"]


def test_a_commit_meanwhile_does_not_matter(
    graph: og.Graph, s3_store: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = opened(graph, s3_store)
    with held_at(monkeypatch, "_begin", lambda: other.branches.create("b")) as outcome:
        graph.mutate(ADD, params={"name": "Cid"})
    assert (outcome[0].name, outcome[0].ahead, outcome[0].behind) == ("b", 0, 1)
    assert people(graph, "b") == ["Ada", "Bob"]
    assert graph.verify().whole


def test_a_branch_does_not_begin_on_one_that_is_deleted_meanwhile(
    graph: og.Graph, s3_store: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("a")
    graph.load({"Person": [{"name": "Cid"}]}, mode="append", branch="a")
    other = opened(graph, s3_store)
    with held_at(monkeypatch, "_begin", lambda: other.branches.create("b", from_="a")) as outcome:
        graph.branches.delete("a")
    assert isinstance(outcome[0], og.NotFound), outcome
    assert names(graph) == ["main"]
    assert graph.verify(data=True).whole


def test_a_branch_is_not_deleted_on_which_another_begins_meanwhile(
    graph: og.Graph, s3_store: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("a")
    graph.load({"Person": [{"name": "Cid"}]}, mode="append", branch="a")
    other = opened(graph, s3_store)
    with held_at(monkeypatch, "descendants", lambda: other.branches.delete("a")) as outcome:
        creator = threading.Thread(target=lambda: graph.branches.create("b", from_="a"))
        creator.start()
        creator.join(2)  # its parent is closed, so it waits
    creator.join(PATIENCE)
    assert isinstance(outcome[0], og.BranchInUse), outcome
    assert people(graph, "b") == people(graph, "a") == ["Ada", "Bob", "Cid"]
    graph.mutate(ADD, params={"name": "Dan"}, branch="a")
    assert graph.verify(data=True).whole


def test_a_branch_and_a_tag_do_not_get_one_name(
    graph: og.Graph, s3_store: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = opened(graph, s3_store)
    with held_at(monkeypatch, "_begin", lambda: other.branches.create("x")) as outcome:
        graph.tags.create("x")
    assert isinstance(outcome[0], og.TagExists), outcome
    assert names(graph) == ["main"]
    graph.tags.delete("x")
    with held_at(monkeypatch, "names", lambda: other.tags.create("x")) as outcome:
        graph.branches.create("x")
    assert isinstance(outcome[0], og.BranchExists), outcome
    assert names(graph) == ["main", "x"]
    assert graph.tags.list() == []


def test_a_tag_takes_its_name_back_from_a_branch_that_begins_meanwhile(
    graph: og.Graph, s3_store: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tag has looked for branches of its name before, and looks again when it is there."""
    other = opened(graph, s3_store)
    write = write_tag

    def write_late(location: Location, tag: og.Tag) -> None:
        with suppress(og.TagExists):
            graph.branches.create("x")
        write(location, tag)

    monkeypatch.setattr("omnigraph.branching.tags.write_tag", write_late)
    with pytest.raises(og.BranchExists):
        other.tags.create("x")
    assert names(graph) == ["main", "x"]
    assert graph.tags.list() == []


def test_what_a_new_branch_needs_is_not_removed(
    graph: og.Graph, s3_store: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cleanup looks for branches after it has read the heads; what was a head lately, it keeps."""
    other = opened(graph, s3_store)
    with held_at(monkeypatch, "_begin", lambda: other.branches.create("b")) as outcome:
        graph.mutate(ADD, params={"name": "Cid"})
        graph.optimize()
        assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    assert isinstance(outcome[0], og.BranchInfo), outcome
    assert people(graph, "b") == ["Ada", "Bob"]
    other.load({"Person": [{"name": "Dan"}]}, mode="append", branch="b")
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    assert people(graph, "b") == ["Ada", "Bob", "Dan"]
    assert graph.verify(data=True).whole


def test_cleanup_leaves_the_line_of_a_branch_that_is_about_to_begin(
    graph: og.Graph, s3_store: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    hit = failpoints.hit
    cleaned: list[object] = []

    def clean_up(point: Point) -> None:
        hit(point)
        if point is Point.BRANCH_LINE_CREATED and not cleaned:
            cleaned.append(opened(graph, s3_store).cleanup(keep=1, grace="0s", confirm=True))

    monkeypatch.setattr(failpoints, "hit", clean_up)
    graph.branches.create("b")
    assert cleaned
    graph.mutate(ADD, params={"name": "Cid"}, branch="b")
    assert people(opened(graph, s3_store), "b") == ["Ada", "Bob", "Cid"]


def test_a_creator_that_took_too_long_creates_no_branch(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.versioning.branches.TRUSTED_SECONDS", 0.0)
    with pytest.raises(og.StorageError, match="try again"):
        graph.branches.create("b")
    monkeypatch.undo()
    assert names(graph) == ["main"]
    graph.branches.create("b")
    assert names(graph) == ["main", "b"]


def test_data_that_a_new_branch_has_is_not_purged(
    graph: og.Graph, s3_store: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A branch that begins at the head before a schema drops its data is there before that is purged, or not at all."""
    other = opened(graph, s3_store)
    begun: list[object] = []
    hit = failpoints.hit

    def begin(point: Point) -> None:
        hit(point)
        if point is Point.SCHEMA_FILE_STAGED and not begun:
            begun.append(other.branches.create("b"))

    monkeypatch.setattr(failpoints, "hit", begin)
    with pytest.raises(og.DataStillNeeded):
        graph.schema.apply(WITHOUT_CITY, allow_data_loss=True)
    assert begun
    assert graph.snapshot("b").table("node:City").count() == 1
    assert graph.verify(data=True).whole


def test_a_lost_ref_is_still_damage(graph: og.Graph, s3_store: Options) -> None:
    graph.branches.create("b")
    objects = objects_at(location_of(graph.uri, s3_store))
    ref = objects.read("__manifest/branches/b.json")
    assert ref is not None
    assert json.loads(ref)
    objects.delete("__manifest/branches/b.json")
    with pytest.raises(og.Damaged, match="its ref file is missing"):
        opened(graph, s3_store).branches.create("b")
    objects.create("__manifest/branches/b.json", ref)
    assert people(opened(graph, s3_store), "b") == ["Ada", "Bob"]


@pytest.mark.parametrize("fault", [Fault(1, 403, path="__tags"), Fault(1, 403, method="PUT", path="__heads")], ids=str)
def test_a_branch_that_cannot_be_checked_is_not_created(
    graph: og.Graph, s3_store: Options, proxy: FaultyProxy, fault: Fault
) -> None:
    handle = og.open(graph.uri, storage_options=proxy.options)
    with proxy.failing(fault), pytest.raises(og.StorageError):
        handle.branches.create("b")
    assert names(opened(graph, s3_store)) == ["main"]
    handle.branches.create("b")
    assert people(handle, "b") == ["Ada", "Bob"]
