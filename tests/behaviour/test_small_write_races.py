"""Small writes, which hold no locks, beside folds, merges, deletions of branches, repairs and stores that fail."""

import json
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance
import omnigraph as og
from omnigraph import failpoints
from omnigraph.api.data import LoadMode
from omnigraph.api.upkeep import Recovery
from omnigraph.failpoints import Point, Writer, WriteStep
from omnigraph.recovery import recover
from omnigraph.session.writes import Writes
from omnigraph.storage import locks
from omnigraph.storage.location import location_of
from omnigraph.storage.objects import LocalObjects, objects_at
from omnigraph.versioning import Branches
from omnigraph.versioning.line import FileLine, line_folder, version_name
from omnigraph.versioning.publisher import TablesReserved
from omnigraph.write import WriteFence
from omnigraph.write import carried as carried_module
from tests import nursery
from tests.behaviour.people import ages, carried, fold, other_handle, set_age, small_world, write
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.stores import Fault, FaultyProxy, Options

PATIENCE = 60.0
PERSON = "node:Person"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return small_world(tmp_path)


@contextmanager
def paused(
    monkeypatch: pytest.MonkeyPatch, at: tuple[Writer, WriteStep] | Point, run: Callable[[], object]
) -> Iterator[list[object]]:
    """Runs something in a thread; the block runs while it is held at a step. Its result or error is in the list."""
    reached, over, outcome = threading.Event(), threading.Event(), list[object]()
    hit_step, hit = failpoints.hit_step, failpoints.hit

    def stop(here: object) -> None:
        if here == at and not reached.is_set():
            reached.set()
            assert over.wait(PATIENCE)

    def stop_at_step(writer: Writer, step: WriteStep) -> None:
        hit_step(writer, step)
        stop((writer, step))

    def stop_at_point(point: Point) -> None:
        hit(point)
        stop(point)

    def work() -> None:
        try:
            outcome.append(run())
        except og.OmnigraphError as error:
            outcome.append(error)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "hit_step", stop_at_step)
        patch.setattr(failpoints, "hit", stop_at_point)
        thread = threading.Thread(target=work)
        thread.start()
        assert reached.wait(PATIENCE), outcome
        try:
            yield outcome
        finally:
            over.set()
            thread.join(PATIENCE)


def assert_whole(graph: og.Graph) -> None:
    ids = graph.snapshot().table(PERSON).scan(["id"])["id"].to_pylist()
    assert len(ids) == len(set(ids)), "a row is there twice"
    assert og.open(graph.uri, "r").verify(data=True).whole
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)
    assert graph.recoveries.pending() == []
    assert graph.snapshot().manifest.reservations == ()


# --- folds ---


def test_a_small_merge_does_not_carry_what_was_folded_meanwhile(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("b")
    write(graph, 'insert Person { name: "Cid", age: 3 } delete Person where name = "Bob"', "b")
    fold(graph, "b")  # so that its tables are to be compared, which is not done while others wait
    write(graph, 'insert Person { name: "Dan", age: 4 }')
    with paused(monkeypatch, (Writer.MERGE, WriteStep.BEFORE_PHASE_A), lambda: graph.merge("b")) as outcome:
        fold(graph)
        assert carried(graph) == 0
    assert isinstance(outcome[0], og.MergeResult)
    assert carried(graph) > 0
    for _ in range(2):
        assert ages(graph) == ages(other_handle(graph)) == {"Ada": 1, "Cid": 3, "Dan": 4}
        assert_whole(graph)
        fold(graph)


def test_a_small_merge_joins_what_was_partly_folded_meanwhile(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried_module, "_MOST_DELTAS", 3)
    graph.branches.create("b")
    write(graph, 'insert Person { name: "Cid", age: 3 }', "b")
    for number in range(3):
        write(graph, f'insert Person {{ name: "p{number}", age: {number} }}')
    set_age(graph, 7, name="p1")
    expected = {"Ada": 1, "Bob": 1, "Cid": 3, "p0": 0, "p1": 7, "p2": 2}

    def merge_while_folding() -> object:
        with paused(monkeypatch, (Writer.FOLD, WriteStep.AFTER_PHASE_B), lambda: fold(other_handle(graph))):
            # What is written here is not folded, and joins what is about to be.
            for age in (8, 9):
                set_age(graph, age, name="p2")
                set_age(graph, age, name="p0")
            return graph.merge("b")

    assert isinstance(merge_while_folding(), og.MergeResult)
    joined = graph.snapshot().manifest.pins[PERSON].carried[0]
    assert joined.count > 1, "what was folded has not joined what came later"
    for _ in range(2):
        assert ages(graph) == ages(other_handle(graph)) == expected | {"p2": 9, "p0": 9}
        assert_whole(graph)
        fold(graph)


@pytest.mark.parametrize("step", [WriteStep.TABLE_STAGED, WriteStep.AFTER_PHASE_A, WriteStep.AFTER_PHASE_B], ids=str)
def test_small_writes_go_on_while_tables_are_folded(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, step: WriteStep
) -> None:
    with paused(monkeypatch, (Writer.FOLD, step), lambda: fold(other_handle(graph))):
        write(graph, 'insert Person { name: "Cid", age: 3 }')
        write(graph, 'delete Person where name = "Bob"')
        set_age(graph, 5)
    for _ in range(2):
        assert ages(graph) == ages(other_handle(graph)) == {"Ada": 5, "Cid": 3}
        assert graph.snapshot().table("edge:Knows").count() == 0
        assert_whole(graph)
        fold(graph)


def _write_after_fold(graph: og.Graph, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Lets a small write come right after the first fold, before the write that folded reads the state."""
    fold_first = Writes._fold
    written: list[object] = []

    def fold_and_write(self: Writes, *arguments: Any) -> bool:
        found = fold_first(self, *arguments)
        if not written:
            written.append(write(other_handle(graph), text))
        return found

    monkeypatch.setattr(Writes, "_fold", fold_and_write)


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_is_not_hidden_by_what_was_carried_before_it(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, mode: LoadMode
) -> None:
    assert carried(graph)  # so that there is something to fold
    deletes = 'delete Person where name = "Bob"'
    _write_after_fold(graph, monkeypatch, f'{deletes} update Person set {{ age: 8 }} where name = "Ada"')
    rows = {
        "append": [{"name": "Bob", "age": 5}],
        "merge": [{"name": "Bob", "age": 5}, {"name": "Ada", "age": 5}],
        "overwrite": [{"name": "Cid", "age": 5}],
    }[mode]
    graph.load({"Person": rows}, mode=mode)
    expected = {"append": {"Ada": 8, "Bob": 5}, "merge": {"Ada": 5, "Bob": 5}, "overwrite": {"Cid": 5}}[mode]
    for _ in range(2):
        assert ages(graph) == ages(other_handle(graph)) == expected
        assert_whole(graph)
        fold(graph)


def test_rows_that_are_carried_when_vectors_are_computed_get_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = 'node Person { name: String @key, bio: String?, embedding: Vector(4)? @embed("bio", model="mock/small") }'
    graph = og.init(tmp_path / "graph.omni", schema, durability="fast")
    rows = [{"name": name, "bio": name, "embedding": [0.0, 0.0, 0.0, 1.0]} for name in ("Ada", "Bob")]
    graph.load({"Person": rows})
    graph.mutate('query q { update Person set { bio: "b" } where name = "Bob" }')
    _write_after_fold(graph, monkeypatch, 'update Person set { embedding: null } where name = "Ada"')
    graph.embed("Person", "embedding")
    found = graph.snapshot().table(PERSON).scan(["name", "embedding"]).to_pylist()
    assert all(row["embedding"] is not None for row in found)


# --- branches ---


@pytest.mark.parametrize("what", ["rows", "a stored query"])
def test_a_branch_that_goes_on_from_its_merge_is_not_deleted_with_it(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """A write that is acknowledged before the branch is deleted is either merged or keeps the branch."""
    graph.branches.create("b")
    set_age(graph, 2, "b")
    acknowledged: list[bool] = []
    writer = threading.Thread(target=lambda: acknowledged.append(_is_written(graph, what)))

    delete = Branches.delete

    def write_before(self: Branches, name: str) -> None:
        writer.start()
        writer.join(1.0)
        delete(self, name)

    monkeypatch.setattr(Branches, "delete", write_before)
    result = graph.merge("b", delete_branch=True)
    writer.join(PATIENCE)
    assert acknowledged == [not result.branch_deleted]
    assert ages(graph)["Ada"] == 2
    assert_whole(graph)


def _is_written(graph: og.Graph, what: str) -> bool:
    try:
        if what == "rows":
            set_age(graph, 3, "b")
        else:
            graph.queries.add("query all { match { $p: Person } return { $p.name } }", branch="b")
    except og.NotFound:
        return False
    return True


def test_a_deletion_that_fails_lets_small_writes_go_on(graph: og.Graph) -> None:
    graph.branches.create("b")
    with failpoints.armed(f"{Point.BRANCH_BEFORE_DELETE}=error"), pytest.raises(og.StorageError):
        graph.branches.delete("b")
    assert graph.snapshot("b").manifest.reservations == ()
    set_age(graph, 3, "b")
    assert ages(graph, "b")["Ada"] == 3


# --- waiting for reservations ---


def test_the_wait_for_a_reservation_begins_when_the_write_is_refused(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that worked for longer than it may wait is not refused at once."""
    monkeypatch.setattr("omnigraph.session.writes.WAIT_SECONDS", 5.0)
    writes = graph._session.writes
    write(graph, 'insert City { name: "Oslo" }')
    order: list[str] = []
    work = carried_module.write_carried
    began = time.monotonic

    def much_later() -> float:
        return began() + (3_600.0 if order else 0.0)

    def refused(*arguments: object) -> object:
        if not order:
            order.append("refused")  # the clock has gone on by an hour since the write began
            raise TablesReserved(PERSON, "01HNOBODY")
        return work(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("omnigraph.session.writes.time.monotonic", much_later)
    monkeypatch.setattr("omnigraph.write.protocol.write_carried", refused)
    looks = iter([og.FenceHeld(PERSON, "main", "process 1", 0.0), None])
    monkeypatch.setattr(type(writes), "_find_holder", lambda *_: next(looks))
    graph.branches.create("b")
    set_age(graph, 2, "b")
    assert graph.merge("b").commit is not None


# --- repairs ---


@pytest.mark.parametrize("later", [False, True])
def test_a_repair_shows_no_row_twice_that_is_carried_too(graph: og.Graph, *, later: bool) -> None:
    write(graph, 'insert Person { name: "Zed", age: 1 }')
    pin = graph.snapshot().manifest.pins[PERSON]
    rows = pa.table({"id": ["X", "Zed"], "name": ["X", "Zed"], "age": pa.array([1, 2], pa.int32())})
    lance.write_dataset(rows, f"{graph.uri}/{pin.path}", mode="append")
    graph.repair(confirm=True, force=True)
    if later:
        set_age(graph, 5)
    for _ in range(2):
        assert ages(graph) == ages(other_handle(graph)) == {"Ada": 5 if later else 1, "Bob": 1, "Zed": 1, "X": 1}
        assert_whole(graph)
        fold(graph)


# --- a swap whose outcome is not known ---


def test_a_link_that_was_made_twice_is_ones_own(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network drive may send a request again whose answer was lost, and then finds that the file exists."""
    create = LocalObjects.create
    lost: list[str] = []

    def create_twice(self: LocalObjects, name: str, content: bytes) -> bool:
        create(self, name, content)
        lost.append(name)
        return create(self, name, content)

    monkeypatch.setattr(LocalObjects, "create", create_twice)
    before = len(graph.commits.list())
    write(graph, 'insert Person { name: "Cid", age: 3 }')
    assert lost
    monkeypatch.undo()
    assert ages(other_handle(graph)) == {"Ada": 1, "Bob": 1, "Cid": 3}
    assert len(graph.commits.list()) == before + 1
    assert_whole(graph)


@pytest.mark.parametrize("before", [True, False])
def test_a_publisher_does_not_take_others_that_have_no_turn_for_damage(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    """Whoever waited too long for its turn publishes without it, at any moment: right before or after a look at all."""
    log = graph._session.branches.main
    other, versions = other_handle(graph), FileLine.versions

    def publish() -> None:
        monkeypatch.undo()
        set_age(other, 2)
        set_age(other, 3)

    def look(self: FileLine) -> list[int]:
        if before:
            publish()
            return versions(self)
        found = versions(self)
        publish()
        return found

    monkeypatch.setattr(FileLine, "versions", look)
    assert not log.remove_torn_head()
    assert ages(graph)["Ada"] == 3


def test_a_process_that_is_stopped_with_the_turn_keeps_others_waiting_once(graph: og.Graph) -> None:
    """Writes do not need the turn; they only rarely collide with it."""
    turn = graph._session.branches.main._turn
    usual, turn.patience = turn.patience, 0.2
    held = locks.locks_at(location_of(graph.uri)).take("__manifest/main", "publish", 0)
    set_age(graph, 2)
    assert turn.patience < 0.2
    set_age(graph, 3)
    held.release()
    set_age(graph, 4)
    assert turn.patience == usual
    assert ages(other_handle(graph))["Ada"] == 4


S3_SCHEMA = "node Person { name: String @key, age: I32? }"
ADD = "query add($name: String) { insert Person { name: $name } }"


def _is_put_of_manifest(method: str, path: str) -> bool:
    return method == "PUT" and "/__manifest/lines/" in path


def test_a_put_that_was_given_up_never_arrives(
    s3_store: Options, s3_uri: str, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error means that nothing becomes visible, also if the store carries the request out later."""
    og.init(s3_uri, S3_SCHEMA, storage_options=s3_store)
    graph = og.open(s3_uri, storage_options=proxy.options | {"timeout": "1s", "client_max_retries": "0"})
    with proxy.holding(_is_put_of_manifest, alone=True) as hold:
        with pytest.raises(og.StorageError, match="cannot be written"):
            graph.mutate(ADD, params={"name": "Ada"})
        hold.wait_until_reached()
    time.sleep(0.5)  # the proxy passes it on now
    reader = og.open(s3_uri, storage_options=s3_store)
    assert reader.snapshot().table(PERSON).count() == 0
    graph.mutate(ADD, params={"name": "Bob"})
    assert reader.snapshot().table(PERSON).scan(["name"])["name"].to_pylist() == ["Bob"]
    assert reader.verify().whole
    assert [commit.message for commit in reader.commits.list()] == ["add", "init"]


def test_a_write_of_unknown_outcome_says_so_and_names_its_commit(
    s3_store: Options, s3_uri: str, proxy: FaultyProxy
) -> None:
    og.init(s3_uri, S3_SCHEMA, storage_options=s3_store)
    graph = og.open(s3_uri, storage_options=proxy.options)
    graph.mutate(ADD, params={"name": "Ada"})
    with proxy.failing(Fault(1, path="__manifest/lines")), pytest.raises(og.OmnigraphError):
        graph.mutate(ADD, params={"name": "Bob"})  # its head could not even be read
    file = f"{line_folder('main', '')}/{version_name(3)}"
    with _failing_after_put(proxy), pytest.raises(og.OutcomeUnknown) as caught:
        graph.mutate(ADD, params={"name": "Cid"})
    assert objects_at(location_of(s3_uri, s3_store)).exists(file)
    reader = og.open(s3_uri, "r", storage_options=s3_store)
    assert reader.commits.show(caught.value.operation_id).graph_commit_id == caught.value.operation_id
    graph.mutate(ADD, params={"name": "Dan"})
    assert sorted(reader.snapshot().table(PERSON).scan(["name"])["name"].to_pylist()) == ["Ada", "Cid", "Dan"]


@contextmanager
def _failing_after_put(proxy: FaultyProxy) -> Iterator[None]:
    """The answer to the first put of a manifest is lost, and the store answers nothing after it."""
    answered = proxy._pass_on

    def pass_on(request: object, body: bytes) -> None:
        answered(request, body)  # type: ignore[arg-type]
        if _is_put_of_manifest(request.command, request.path):  # type: ignore[attr-defined]
            proxy._fault = Fault(1, 403, path="__manifest/lines")

    with proxy.failing(Fault(1, method="PUT", path="__manifest/lines")):
        vars(proxy)["_pass_on"] = pass_on
        try:
            yield
        finally:
            del vars(proxy)["_pass_on"]


# --- writers that die or stop on a store ---

LOAD = """
import json, sys, omnigraph as og
graph = og.open(sys.argv[1], storage_options=json.loads(sys.argv[2]))
graph.load({"Person": [{"name": f"l{number}"} for number in range(5)]}, mode="append")
"""


def _reserving_writer(graph: og.Graph, s3_store: Options, failpoint: str) -> nursery.Child:
    """A process that loads rows, has reserved their table, and has died or stopped."""
    environment = {failpoints.VARIABLE: failpoint, "OMNIGRAPH_LEASE_SECONDS": "1"}
    child = nursery.started(LOAD, graph.uri, json.dumps(s3_store), environment=environment)
    if failpoint.endswith("pause"):
        child.wait_until_stopped()
    else:
        assert child.wait() == -signal.SIGKILL, child.errors
    assert len(graph.snapshot().manifest.reservations) == 1
    return child


@pytest.fixture
def stored(s3_store: Options, s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    monkeypatch.setattr(locks, "_SECONDS", 1.0)
    graph = og.init(s3_uri, S3_SCHEMA, storage_options=s3_store)
    graph.mutate(ADD, params={"name": "Ada"})
    return graph


@pytest.mark.parametrize("step", ["before_phase_a", "after_phase_a", "table_committed", "after_phase_b"])
def test_a_dead_writer_on_a_store_is_completed_or_undone_before_a_small_write(
    stored: og.Graph, s3_store: Options, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The lease of its tables ends between the look of a recovery and that of the small write."""
    _reserving_writer(stored, s3_store, f"load.{step}=crash")
    take_free, was_free = WriteFence.take_free, threading.Event()

    def recover_late(*arguments: Any, **options: Any) -> list[Recovery]:
        return recover(*arguments, **options) if was_free.is_set() else []

    def note_free(self: WriteFence, names: Iterable[str], wait: float) -> dict[str, og.FenceHeld]:
        held = take_free(self, names, wait)
        if not held:
            was_free.set()
        return held

    monkeypatch.setattr("omnigraph.session.writes.recover", recover_late)
    monkeypatch.setattr(WriteFence, "take_free", note_free)
    stored.mutate(ADD, params={"name": "Bob"})
    assert stored.snapshot().manifest.reservations == ()
    is_completed = step in {"table_committed", "after_phase_b"}
    expected = {"Ada", "Bob", *(f"l{number}" for number in range(5) if is_completed)}
    reopened = og.open(stored.uri, storage_options=s3_store)
    assert {*ages(reopened)} == expected
    assert reopened.recoveries.pending() == []
    assert reopened.verify(data=True).whole


@pytest.mark.parametrize("step", ["after_phase_a", "after_phase_b"])
def test_a_writer_that_wakes_up_without_its_reservation_fails(stored: og.Graph, s3_store: Options, step: str) -> None:
    with _reserving_writer(stored, s3_store, f"load.{step}=pause") as child:
        stored.mutate(ADD, params={"name": "l0"})
        child.send_signal(signal.SIGCONT)
        child.communicate()
    reopened = og.open(stored.uri, storage_options=s3_store)
    found = ages(reopened)
    is_completed = "l4" in found
    assert (child.returncode == 0) == is_completed, child.errors
    assert {*found} == {"Ada", "l0", *(f"l{number}" for number in range(5) if is_completed)}
    assert reopened.snapshot().table(PERSON).count() == len(found)
    stored.load({"Person": [{"name": "last"}]}, mode="append")
    assert {*ages(reopened)} == {*found, "last"}
    assert reopened.recoveries.pending() == []
    assert reopened.verify(data=True).whole
