"""Small writes: published together, one commit each, and in turn with writes that go through the four phases."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Writer, WriteStep
from omnigraph.versioning import ManifestLog, publisher
from omnigraph.versioning.manifest import Manifest
from omnigraph.write.groups import WriteGroup
from tests import nursery

SCHEMA = """
node Person { name: String @key, age: I32? }
node City { name: String @key }
node Note { text: String }
edge LivesIn: Person -> City
"""
WRITES = """
query add($name: String) { insert Person { name: $name } }
query grow($name: String, $age: I32) { update Person set { age: $age } where name = $name }
query remove($name: String) { delete Person where name = $name }
query found($name: String) { insert City { name: $name } }
query live($name: String, $city: String) { insert LivesIn { from: $name, to: $city } }
query note($text: String) { insert Note { text: $text } }
"""
PATIENCE = 60.0


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA)


def names(graph: og.Graph, table: str = "node:Person") -> list[str]:
    return sorted(graph.snapshot().table(table).scan(["name"])["name"].to_pylist())


@contextmanager
def held_back(graph: og.Graph, monkeypatch: pytest.MonkeyPatch, many: int) -> Iterator[threading.Event]:
    """The first version of the block is written once many others wait, so that these are published together.

    The event says that somebody is about to write the first version.
    """
    append, begun, waiting = ManifestLog.append, threading.Event(), threading.Event()
    run, asked, counting = WriteGroup.run, [], threading.Lock()
    first = threading.Lock()

    def counted_run(self: WriteGroup, decide: Callable[[Manifest], object]) -> object:
        with counting:
            asked.append(decide)
            if len(asked) > many:
                waiting.set()
        return run(self, decide)  # type: ignore[arg-type]

    def append_late(self: ManifestLog, base: Manifest, following: Manifest) -> Manifest:
        if first.acquire(blocking=False):
            begun.set()
            assert waiting.wait(PATIENCE)
            (group,) = graph._session.writes._groups.values()
            until = time.monotonic() + PATIENCE
            while len(group._waiting) < many and time.monotonic() < until:
                time.sleep(0.001)
        return append(self, base, following)

    with monkeypatch.context() as patch:
        patch.setattr(WriteGroup, "run", counted_run)
        patch.setattr(ManifestLog, "append", append_late)
        yield begun


def together(graph: og.Graph, monkeypatch: pytest.MonkeyPatch, *writes: Callable[[og.Graph], object]) -> list[object]:
    """The results or errors of writes that are published together, after one that adds `first`."""
    results: list[object] = [None] * len(writes)

    def run(number: int) -> None:
        try:
            results[number] = writes[number](graph)
        except og.OmnigraphError as error:
            results[number] = error

    with held_back(graph, monkeypatch, len(writes)) as begun:
        leader = threading.Thread(target=lambda: graph.mutate(WRITES, "add", {"name": "first"}))
        threads = [threading.Thread(target=run, args=(number,)) for number in range(len(writes))]
        leader.start()
        assert begun.wait(PATIENCE)
        for thread in threads:
            thread.start()
        for thread in (leader, *threads):
            thread.join(PATIENCE)
    return results


def adding(name: str, **options: str) -> Callable[[og.Graph], og.MutationResult]:
    return lambda graph: graph.mutate(WRITES, "add", {"name": name}, **options)


def test_writes_that_wait_become_one_file_and_a_commit_each(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    found = together(graph, monkeypatch, *(adding(f"p{number}") for number in range(5)))
    head = graph.snapshot().manifest
    assert [each.manifest for each in head.commits] == [1, 2, 3, 3, 3, 3, 3]
    assert [each.manifest_version for each in head.commits] == [1, 2, 3, 4, 5, 6, 7]
    assert {each.commit for each in found if isinstance(each, og.MutationResult)} == {*head.own_commits}
    assert names(graph) == ["first", "p0", "p1", "p2", "p3", "p4"]
    commits = graph.commits.list()
    assert [each.parent_commit_id for each in commits[:-1]] == [each.graph_commit_id for each in commits[1:]]


def test_each_of_them_is_a_state_that_can_be_read_named_and_continued(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    together(graph, monkeypatch, *(adding(f"p{number}") for number in range(4)))
    commits = graph.commits.list()[::-1]
    for number, commit in enumerate(commits):
        at = graph.snapshot_at(commit=commit.graph_commit_id)
        assert (at.commit, at.table("node:Person").count()) == (commit, number)
        assert graph.snapshot_at(version=number + 1).commit == commit
        assert graph.commits.show(commit.graph_commit_id) == commit
    third = commits[3].graph_commit_id
    graph.tags.create("third", third)
    assert graph.snapshot_at(commit="third").table("node:Person").count() == 3
    assert graph.tags.show("third").manifest_version == 4
    graph.branches.create("later", third)
    graph.mutate(WRITES, "add", {"name": "later"}, branch="later")
    assert graph.snapshot("later").table("node:Person").count() == 4
    assert graph.snapshot("later").commit.manifest_version == 5
    graph.merge("later")
    assert names(graph) == ["first", "later", "p0", "p1", "p2", "p3"]
    assert graph.verify(data=True).whole


def test_the_feed_has_each_of_them_and_continues_between_them(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    together(graph, monkeypatch, *(adding(f"p{number}") for number in range(4)))
    blocks = [*graph.changes()]
    assert [[change.id for change in block.changes()] for block in blocks[1:]] == [
        [change.id] for block in blocks[1:] for change in block.changes()
    ]
    assert len(blocks) == 6
    for number, block in enumerate(blocks):
        rest = [*graph.changes(cursor=block.cursor)]
        assert [each.commit for each in rest] == [each.commit for each in blocks[number + 1 :]]
        assert [[*each.changes()] for each in rest] == [[*each.changes()] for each in blocks[number + 1 :]]


def test_one_that_is_refused_takes_no_other_with_it(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    found = together(
        graph,
        monkeypatch,
        adding("p0"),
        lambda graph: graph.mutate(WRITES, "live", {"name": "p0", "city": "Nowhere"}),
        adding("p1"),
    )
    assert [type(each).__name__ for each in found] == ["MutationResult", "ValidationError", "MutationResult"]
    assert names(graph) == ["first", "p0", "p1"]


def test_of_those_that_want_to_follow_one_commit_one_does(graph: og.Graph) -> None:
    graph.mutate(WRITES, "add", {"name": "zero"})
    head, results, all_there = graph.snapshot().commit_id, [], threading.Barrier(6)

    def follow(number: int) -> None:
        all_there.wait()
        try:
            results.append(graph.mutate(WRITES, "add", {"name": f"p{number}"}, if_commit=head).commit)
        except og.PreconditionFailed:
            results.append(None)

    threads = [threading.Thread(target=follow, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(each is None for each in results) == [False, True, True, True, True, True]
    assert len(names(graph)) == 2


def test_many_threads_and_folds_lose_and_double_nothing(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.write.carried.CARRIED_ROWS", 20)
    errors: list[BaseException] = []

    def write(thread: int) -> None:
        try:
            for number in range(12):
                name = f"{thread}-{number}"
                graph.mutate(WRITES, "add", {"name": name})
                graph.mutate(WRITES, "grow", {"name": name, "age": number})
                if number % 3 == 0:
                    graph.mutate(WRITES, "remove", {"name": name})
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    expected = {f"{thread}-{number}": number for thread in range(8) for number in range(12) if number % 3}
    rows = graph.snapshot().table("node:Person").scan().to_pylist()
    assert {row["name"]: row["age"] for row in rows} == expected
    commits = graph.commits.list()
    assert [each.manifest_version for each in commits] == [*range(1 + 8 * (12 + 12 + 4), 0, -1)]
    assert og.open(graph.uri, "r").verify(data=True).whole


def test_writers_that_find_a_table_full_wait_for_one_fold(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.write.carried.CARRIED_ROWS", 20)
    writers, writes, reserved = 16, 10, []
    reserve = publisher.publish_reservation

    def reserve_and_count(*given: Any) -> Any:
        reserved.append(given)
        return reserve(*given)

    monkeypatch.setattr("omnigraph.session.writes.publish_reservation", reserve_and_count)

    def write(thread: int) -> None:
        for number in range(writes):
            graph.mutate(WRITES, "add", {"name": f"{thread}-{number}"})

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(names(graph)) == writers * writes
    # Each fold makes room for 20 rows. Without waiting, most of those that wait would reserve the table themselves.
    assert 0 < len(reserved) <= 4 * writers * writes // 20


# --- in turn with writes through the four phases ---

LARGE: dict[Writer, Callable[[og.Graph], object]] = {
    Writer.LOAD: lambda graph: graph.load({"Person": [{"name": f"l{number}"} for number in range(5)]}),
    Writer.EMBED: lambda graph: graph.load({"Person": [{"name": "l0"}, {"name": "Cid"}]}, "overwrite"),
    Writer.SCHEMA_APPLY: lambda graph: graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?, mail: String?")),
    Writer.OPTIMIZE: lambda graph: graph.optimize(),
    Writer.ENSURE_INDICES: lambda graph: graph.ensure_indices(),
    Writer.MERGE: lambda graph: graph.merge("review"),
}
WRITER = {Writer.EMBED: Writer.LOAD}
SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "the same table": ("grow", {"name": "Ada", "age": 5}),
    "rows that go": ("remove", {"name": "Bob"}),
    "an edge to its rows": ("live", {"name": "Ada", "city": "Oslo"}),
    "another table": ("note", {"text": "hello"}),
}


def prepare(graph: og.Graph) -> None:
    """Some rows in the tables, and a branch with a change that is too large to be carried."""
    people = [{"name": each} for each in ("Ada", "Bob", "Cid", *(f"x{number}" for number in range(30)))]
    graph.load({"Person": people, "City": [{"name": "Oslo"}], "LivesIn": [{"from": "Cid", "to": "Oslo"}]})
    graph.branches.create("review")
    graph.load({"Person": [{"name": f"m{number}"} for number in range(600)]}, branch="review")
    graph.mutate(WRITES, "add", {"name": "carried"})


@pytest.mark.parametrize("small", SMALL)
@pytest.mark.parametrize("large", LARGE, ids=str)
@pytest.mark.parametrize("step", [WriteStep.AFTER_PHASE_A, WriteStep.AFTER_PHASE_B], ids=str)
def test_a_small_write_meets_a_large_one(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, large: Writer, small: str, step: WriteStep
) -> None:
    """Both are done, or one is refused for a reason; the large one is never undone because of the small one."""
    prepare(graph)
    reached, over, hit = threading.Event(), threading.Event(), failpoints.hit_step
    query, parameters = SMALL[small]
    outcome: list[object] = []

    def stop(writer: Writer, at: WriteStep) -> None:
        hit(writer, at)
        if (writer, at) == (WRITER.get(large, large), step) and not reached.is_set():
            reached.set()
            over.wait(PATIENCE)

    def run_small() -> None:
        try:
            outcome.append(graph.mutate(WRITES, query, parameters))
        except og.OmnigraphError as error:
            outcome.append(error)

    monkeypatch.setattr(failpoints, "hit_step", stop)
    before = len(graph.commits.list())
    done: list[object] = []
    bulk = threading.Thread(target=lambda: done.append(LARGE[large](graph)))
    bulk.start()
    assert reached.wait(PATIENCE)
    writer = threading.Thread(target=run_small)
    writer.start()
    moves = large in {Writer.OPTIMIZE, Writer.ENSURE_INDICES}
    if moves or (small == "another table" and large is not Writer.SCHEMA_APPLY):
        writer.join(PATIENCE)
        assert outcome, "it waited for a write that does not concern it"
    over.set()
    bulk.join(PATIENCE)
    writer.join(PATIENCE)
    assert len(done) == 1, "the large write failed"
    assert len(outcome) == 1
    replaced = large is Writer.EMBED and small == "an edge to its rows"
    assert isinstance(outcome[0], og.ValidationError) == replaced, outcome
    kinds = [each.message for each in graph.commits.list()]
    assert not [each for each in kinds if each and each.startswith("undid")]
    was_done = isinstance(outcome[0], og.MutationResult) and outcome[0].commit is not None
    assert len(kinds) == before + was_done + (2 if large is Writer.MERGE else 1)
    assert graph.recoveries.pending() == []
    assert graph.snapshot().manifest.reservations == ()
    assert og.open(graph.uri, "r").verify(data=True).whole


PROGRAM = """
import sys, omnigraph as og
graph = og.open(sys.argv[1])
graph.load({"Person": [{"name": f"l{number}"} for number in range(5)]})
"""


@pytest.mark.parametrize("step", ["before_phase_a", "after_phase_a", "after_phase_b"])
def test_the_reservation_of_a_dead_writer_keeps_nobody(graph: og.Graph, step: str) -> None:
    prepare(graph)
    code, errors = nursery.ended(PROGRAM, graph.uri, environment={failpoints.VARIABLE: f"load.{step}=crash"})
    assert code == -signal.SIGKILL, errors
    assert len(graph.snapshot().manifest.reservations) == 1
    graph.mutate(WRITES, "grow", {"name": "Ada", "age": 5})
    assert graph.snapshot().manifest.reservations == ()
    assert ("l0" in names(graph)) == (step == "after_phase_b")
    assert og.open(graph.uri).recoveries.pending() == []
    assert og.open(graph.uri, "r").verify(data=True).whole


def test_whoever_waits_too_long_learns_who_has_the_table(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(graph)
    monkeypatch.setattr("omnigraph.session.writes.WAIT_SECONDS", 0.2)
    with nursery.started(PROGRAM, graph.uri, environment={failpoints.VARIABLE: "load.after_phase_a=pause"}) as child:
        until = time.monotonic() + PATIENCE
        while not graph.snapshot().manifest.reservations and time.monotonic() < until:
            time.sleep(0.01)
        with pytest.raises(og.FenceHeld, match=f"process {child.pid}"):
            graph.mutate(WRITES, "grow", {"name": "Ada", "age": 5})
        graph.mutate(WRITES, "note", {"text": "hello"})
        child.kill()
    graph.mutate(WRITES, "grow", {"name": "Ada", "age": 5})
