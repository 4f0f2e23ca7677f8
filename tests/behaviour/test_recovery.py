"""What a writer that fails or dies leaves behind, and what becomes of it."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Point, Writer, WriteStep
from omnigraph.recovery.apply import RECOVERY_ACTOR
from omnigraph.storage.commits import commit_staged
from omnigraph.storage.durability import sync_folder
from omnigraph.storage.staging import stage_append
from omnigraph.storage.tables import open_table
from omnigraph.versioning.publisher import release_tables
from omnigraph.write.sidecar import Sidecar, claim_completion, doom_sidecar
from tests import nursery
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.nursery import Child
from tests.servers import running_server

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

SCHEMA = """
node Person { name: String @key, age: I32? }
node City { name: String @key }
node Note { text: String }
edge LivesIn: Person -> City
"""
MOVE = """
query move($name: String, $city: String) {
    insert Person { name: $name } insert City { name: $city } insert LivesIn { from: $name, to: $city }
}
"""
NOTE = 'query note { insert Note { text: "hello" } }'
PROGRAM = """
import sys, omnigraph as og
graph = og.open(sys.argv[1])
graph.mutate(sys.argv[2], params={"name": "Ada", "city": "Oslo"}, actor="ada")
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA)


@pytest.fixture
def killed(graph: og.Graph) -> Callable[[str], None]:
    """Lets another process begin the move and die at a failpoint."""

    def kill(failpoint: str) -> None:
        code, errors = nursery.ended(PROGRAM, graph.uri, MOVE, environment={failpoints.VARIABLE: failpoint})
        assert code == -signal.SIGKILL, errors

    return kill


def counts(graph: og.Graph) -> tuple[int, ...]:
    snapshot = graph.snapshot()
    return tuple(snapshot.table(key).count() for key in ("node:Person", "node:City", "edge:LivesIn"))


def sidecars(graph: og.Graph) -> list[Path]:
    return sorted(Path(graph.uri, "__recovery").glob("*.json"))


def move(graph: og.Graph, name: str = "Bob", city: str = "Rome") -> None:
    graph.mutate(MOVE, params={"name": name, "city": city})


def assert_well(graph: og.Graph) -> None:
    assert sidecars(graph) == []
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)


# --- a writer that died ---


def test_the_next_write_of_a_handle_completes_what_a_dead_writer_committed(
    graph: og.Graph, killed: Callable[[str], None]
) -> None:
    killed("mutate.after_phase_b=crash")
    assert counts(graph) == (0, 0, 0)
    graph.mutate(NOTE)
    assert counts(graph) == (1, 1, 1)
    (recovery,) = graph.recoveries.list()
    assert (recovery.recovery_kind, recovery.recovery_for_actor) == ("RolledForward", "ada")
    assert graph.recoveries.show(recovery.operation_id) == graph.recoveries.show(recovery.graph_commit_id)
    (commit,) = graph.commits.list(actor=RECOVERY_ACTOR)
    assert commit.graph_commit_id == recovery.graph_commit_id
    assert_well(graph)


def test_a_refresh_completes_it_too(graph: og.Graph, killed: Callable[[str], None]) -> None:
    killed("mutate.after_phase_b=crash")
    reader = og.open(graph.uri, "r")
    reader.refresh()
    assert counts(reader) == (0, 0, 0)
    graph.refresh()
    assert counts(reader) == (1, 1, 1)
    assert_well(graph)


def test_what_must_be_undone_waits_for_the_next_opening(graph: og.Graph, killed: Callable[[str], None]) -> None:
    killed("mutate.table_committed=crash@2")
    (pending,) = graph.recoveries.pending()
    with pytest.raises(og.RecoveryRequired, match="open the graph for writing") as raised:
        move(graph)
    assert raised.value.operation_id == pending.operation_id  # type: ignore[union-attr]
    graph.mutate(NOTE)
    assert len(sidecars(graph)) == 1
    reopened = og.open(graph.uri)
    move(graph)
    assert counts(reopened) == (1, 1, 1)
    (recovery,) = reopened.recoveries.list()
    assert recovery.recovery_kind == "RolledBack"
    states = {outcome.table_key: outcome.state for outcome in recovery.outcomes}
    assert sorted(states.values()) == ["NoMovement", "RolledPastExpected", "RolledPastExpected"]
    assert_well(graph)


def test_a_server_has_undone_what_a_write_met_when_that_is_tried_again(
    graph: og.Graph, killed: Callable[[str], None]
) -> None:
    with running_server([graph.uri]) as server, server.client() as client:

        def moved(name: str) -> httpx.Response:
            document = {"source": MOVE, "params": {"name": name, "city": "Rome"}}
            return client.post(f"/graphs/{graph.id}/mutate", json=document)

        assert moved("Bob").status_code == 200
        killed("mutate.table_committed=crash@2")
        refused = moved("Eve")
        assert (refused.status_code, refused.json()["code"]) == (503, "recovery_required")
        assert refused.headers["retry-after"] == "1"
        until = time.monotonic() + 60
        while (again := moved("Eve")).status_code == 503:
            assert time.monotonic() < until
            time.sleep(0.05)
        assert again.status_code == 200, again.text
    assert counts(graph) == (2, 1, 2)
    assert [each.recovery_kind for each in graph.recoveries.list()] == ["RolledBack"]
    assert_well(graph)


def test_what_never_moved_needs_no_opening(graph: og.Graph, killed: Callable[[str], None]) -> None:
    killed("mutate.after_phase_a=crash")
    move(graph)
    assert [each.recovery_kind for each in graph.recoveries.list()] == ["RolledBack"]
    assert_well(graph)


def test_a_version_that_somebody_else_made_is_taken_back(graph: og.Graph, killed: Callable[[str], None]) -> None:
    killed("mutate.after_phase_a=crash")
    table = graph.snapshot().table("node:Person")
    rows = pa.Table.from_pylist([{"id": "X", "name": "X", "age": None}], schema=table.schema)
    commit_staged(table, stage_append(table, rows, "somebody else"))
    reopened = og.open(graph.uri)
    (recovery,) = reopened.recoveries.list()
    states = {outcome.table_key: outcome.state for outcome in recovery.outcomes}
    assert states["node:Person"] == "UnexpectedAtP1"
    assert counts(reopened) == (0, 0, 0)
    move(graph)
    assert_well(graph)


def test_a_head_behind_its_pin_is_refused_and_nothing_is_touched(
    graph: og.Graph, killed: Callable[[str], None]
) -> None:
    move(graph)
    killed("mutate.after_phase_a=crash")
    pin = graph.snapshot().manifest.pins["node:Person"]
    version = Path(graph.uri, pin.path, "_versions", f"{2**64 - 1 - pin.version:020}.manifest")
    kept = version.read_bytes()
    version.unlink()
    with pytest.raises(og.RecoveryFailed, match="node:Person is older"):
        og.open(graph.uri)
    assert len(sidecars(graph)) == 1
    version.write_bytes(kept)
    assert counts(og.open(graph.uri)) == (1, 1, 1)
    assert_well(graph)


def test_a_write_whose_nodes_were_removed_meanwhile_is_not_completed(tmp_path: Path, graph: og.Graph) -> None:
    """Its edges are committed, but publishing them now would leave them without their ends."""
    move(graph)
    edges = 'query link { insert LivesIn { from: "Bob", to: "Rome" } }'
    graph.mutate('query cut { delete LivesIn where src = "Bob" }')
    program = PROGRAM.replace(', params={"name": "Ada", "city": "Oslo"}', "")
    nursery.ended(program, graph.uri, edges, environment={failpoints.VARIABLE: "mutate.after_phase_b=crash"})
    assert len(sidecars(graph)) == 1
    file = tmp_path / "people.jsonl"
    file.write_text(json.dumps({"type": "Person", "data": {"name": "Eve"}}))
    request = {"data": file, "mode": "overwrite"}
    with pytest.MonkeyPatch.context() as patch:
        # As if the sidecar had been written just after this load looked for one.
        patch.setattr("omnigraph.session.writes.recover", lambda *_, **__: [])
        graph.load(**request)  # type: ignore[arg-type]
    reopened = og.open(graph.uri)
    assert counts(reopened) == (1, 1, 0)
    assert [each.recovery_kind for each in reopened.recoveries.list()] == ["RolledBack"]
    assert_well(graph)


def new_files(graph: og.Graph, before: set[Path], folder: str) -> list[Path]:
    """The files of a kind that came to a graph since."""
    return sorted(path for path in Path(graph.uri).glob(f"*/*/{folder}/**/*") if path.is_file() and path not in before)


PAIR = 'query pair { insert Person { name: "Bob" } insert Person { name: "Eve" } }'
BIRTHDAY = "import sys, omnigraph as og\nog.open(sys.argv[1]).mutate(sys.argv[2])"
INDEXES = "import sys, omnigraph as og\nog.open(sys.argv[1]).ensure_indices()"


@pytest.mark.parametrize(
    ("program", "writer", "lost", "is_cut"),
    [
        pytest.param(PROGRAM, "mutate", "data", False, id="no rows"),
        pytest.param(PROGRAM, "mutate", "data", True, id="rows that are cut"),
        pytest.param(BIRTHDAY, "mutate", "_deletions", False, id="no deletions"),
        pytest.param(INDEXES, "ensure_indices", "_indices", False, id="no index"),
    ],
)
def test_a_write_whose_files_are_not_all_there_is_undone(
    graph: og.Graph, program: str, writer: str, lost: str, is_cut: bool
) -> None:
    """Its writer was stopped for so long that cleanup took its files for those of a dead one."""
    graph.mutate(PAIR)
    before = {path for path in Path(graph.uri).rglob("*") if path.is_file()}
    query = MOVE if program == PROGRAM else 'query birthday { update Person set { age: 3 } where name = "Bob" }'
    environment = {failpoints.VARIABLE: f"{writer}.after_phase_b=crash"}
    code, errors = nursery.ended(program, graph.uri, query, environment=environment)
    assert code == -signal.SIGKILL, errors
    files = new_files(graph, before, lost)
    assert files
    for file in files:
        if is_cut:
            file.write_bytes(file.read_bytes()[:-10])
        else:
            file.unlink()
    reopened = og.open(graph.uri)
    assert counts(reopened) == (2, 0, 0)
    assert [each.recovery_kind for each in reopened.recoveries.list()] == ["RolledBack"]
    move(reopened, "Kim", "Oslo")
    assert counts(reopened) == (3, 1, 1)
    assert_well(reopened)


def test_a_write_that_was_given_up_is_undone_although_it_could_be_completed(
    graph: og.Graph, killed: Callable[[str], None]
) -> None:
    killed("mutate.after_phase_b=crash")
    (pending,) = graph.recoveries.pending()
    assert isinstance(pending, Sidecar)
    marked = doom_sidecar(graph._session.location, pending.operation_id)
    assert marked is not None
    assert marked.doomed
    claimed = claim_completion(graph._session.location, pending.operation_id)
    assert claimed == marked
    reopened = og.open(graph.uri)
    assert counts(reopened) == (0, 0, 0)
    assert [each.recovery_kind for each in reopened.recoveries.list()] == ["RolledBack"]
    assert_well(reopened)


def test_a_write_that_is_being_completed_can_not_be_given_up(graph: og.Graph, killed: Callable[[str], None]) -> None:
    killed("mutate.after_phase_b=crash")
    (pending,) = graph.recoveries.pending()
    assert isinstance(pending, Sidecar)
    claimed = claim_completion(graph._session.location, pending.operation_id)
    assert claimed is not None
    assert claimed.completing
    assert doom_sidecar(graph._session.location, pending.operation_id) == claimed
    reopened = og.open(graph.uri)
    assert counts(reopened) == (1, 1, 1)
    assert [each.recovery_kind for each in reopened.recoveries.list()] == ["RolledForward"]
    assert doom_sidecar(graph._session.location, pending.operation_id) is None
    assert_well(reopened)


# --- a writer that fails and lives ---


@pytest.mark.parametrize(
    "step", [step for step in WriteStep if step not in (WriteStep.AFTER_PHASE_C, WriteStep.AFTER_PHASE_D)]
)
def test_a_write_that_fails_leaves_nothing_and_blocks_nobody(graph: og.Graph, step: WriteStep) -> None:
    move(graph)
    with failpoints.armed(f"{Writer.MUTATE}.{step}=error@1"), pytest.raises(og.StorageError, match="failpoint"):
        move(graph, "Ada", "Oslo")
    assert counts(graph) == (1, 1, 1)
    assert_well(graph)
    move(graph, "Ada", "Oslo")
    assert counts(graph) == (2, 2, 2)
    assert_well(graph)


def test_a_write_that_cannot_even_be_undone_is_undone_before_the_next(graph: og.Graph) -> None:
    with (
        failpoints.armed(f"mutate.table_committed=error@2;{Point.RECOVERY_BEFORE_RESTORE}=error"),
        pytest.raises(og.StorageError) as raised,
    ):
        move(graph)
    assert "still to be undone" in raised.value.__notes__[0]
    assert len(sidecars(graph)) == 1
    move(graph)
    assert counts(graph) == (1, 1, 1)
    assert [each.recovery_kind for each in graph.recoveries.list()] == ["RolledBack"]
    assert_well(graph)


def test_a_publish_that_is_refused_is_undone_at_once(graph: og.Graph, tmp_path: Path) -> None:
    """Another writer takes this one for dead, and removes the nodes of its edge while it is between its phases."""
    graph.mutate('query q { insert Person { name: "Bob" } insert City { name: "Rome" } }')
    file = tmp_path / "people.jsonl"
    file.write_text(json.dumps({"type": "Person", "data": {"name": "Eve"}}))
    reached = failpoints.hit_step

    def overtaken(writer: Writer, step: WriteStep) -> None:
        reached(writer, step)
        if (writer, step) == (Writer.MUTATE, WriteStep.AFTER_PHASE_B):
            log = graph._session.branches.main
            for each in log.head().reservations:
                release_tables(log, each.operation_id)
            graph.load(file, "overwrite")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "hit_step", overtaken)
        with pytest.raises(og.FenceLost):
            graph.mutate('query link { insert LivesIn { from: "Bob", to: "Rome" } }')
    assert counts(graph) == (1, 1, 0)
    assert_well(graph)


def test_an_interrupted_write_is_undone(graph: og.Graph) -> None:
    def interrupted(writer: Writer, step: WriteStep) -> None:
        if step is WriteStep.TABLE_COMMITTED:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "hit_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            move(graph)
    assert_well(graph)
    move(graph)
    assert counts(graph) == (1, 1, 1)


def test_an_error_after_the_swap_is_no_error(graph: og.Graph) -> None:
    with failpoints.armed(f"{Point.PUBLISH_AFTER_SWAP}=error"):
        move(graph)
    assert counts(graph) == (1, 1, 1)
    assert_well(graph)


def test_a_commit_that_the_disk_does_not_confirm_is_an_error_that_says_so(graph: og.Graph) -> None:
    """It is visible all the same; to undo it would need the same disk."""

    def failing(folder: Path) -> None:
        if folder.parent.name == "lines" and sidecars(graph):
            raise og.StorageError("disk", "input/output error")
        sync_folder(folder)

    graph.mutate(NOTE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.storage.objects.sync_folder", failing)
        with pytest.raises(og.NotDurable, match="is visible, but may not survive"):
            move(graph)
    assert counts(graph) == (1, 1, 1)
    graph.refresh()
    assert_well(graph)


def test_of_two_who_create_a_graph_the_later_changes_nothing(tmp_path: Path) -> None:
    schema = tmp_path / "b.pg"
    schema.write_text("node Other { name: String @key }")
    command = [sys.executable, "-m", "omnigraph", "init", str(tmp_path / "g"), "--schema", str(schema)]
    environment = {**os.environ, "OMNIGRAPH_FAILPOINTS": "init.table_created=pause@1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as first:
        os.waitid(os.P_PID, first.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("omnigraph.write.fence.WriteFence.take.__defaults__", (0.2,))
            with pytest.raises(og.FenceHeld, match=f"process {first.pid}"):
                og.init(tmp_path / "g", SCHEMA)
        first.send_signal(signal.SIGCONT)
        assert first.wait() == 0
    with pytest.raises(og.StorageError, match="already"):
        og.init(tmp_path / "g", SCHEMA)
    assert og.open(tmp_path / "g").schema.text == schema.read_text()


# --- the sidecar's own input and output ---


def test_a_sidecar_that_cannot_be_written_stops_the_write_before_anything_happens(graph: og.Graph) -> None:
    with failpoints.armed(f"{Point.SIDECAR_WRITE}=error"), pytest.raises(og.StorageError):
        move(graph)
    assert graph.recoveries.list() == []
    assert_well(graph)
    move(graph)
    assert counts(graph) == (1, 1, 1)


def test_a_sidecar_that_cannot_be_deleted_is_a_warning(graph: og.Graph, caplog: pytest.LogCaptureFixture) -> None:
    with failpoints.armed(f"{Point.SIDECAR_DELETE}=error"), caplog.at_level(logging.WARNING):
        move(graph)
    assert "could not be deleted" in caplog.text
    assert counts(graph) == (1, 1, 1)
    assert len(sidecars(graph)) == 1
    graph.mutate(NOTE)
    (recovery,) = graph.recoveries.list()
    assert recovery.recovery_kind == "RolledForward"
    assert graph.commits.show(recovery.graph_commit_id).actor is None
    assert graph.commits.list(actor=RECOVERY_ACTOR) == []
    assert_well(graph)


def test_sidecars_that_cannot_be_listed_stop_writes_and_openings(graph: og.Graph) -> None:
    with failpoints.armed(f"{Point.SIDECAR_LIST}=error"):
        with pytest.raises(og.StorageError):
            move(graph)
        with pytest.raises(og.StorageError):
            og.open(graph.uri)
        assert counts(og.open(graph.uri, "r")) == (0, 0, 0)
    move(graph)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": 99, "tables": []}', b"\xff"])
def test_a_sidecar_that_nobody_understands_stops_writes_and_is_kept(graph: og.Graph, content: bytes) -> None:
    folder = Path(graph.uri, "__recovery")
    folder.mkdir(exist_ok=True)
    file = folder / "01HZX3V5GQ8T2N4W6Y8A0C2E4G.json"
    file.write_bytes(content)
    for attempt in (lambda: move(graph), graph.refresh, lambda: og.open(graph.uri)):
        with pytest.raises(og.RecoveryFailed, match=file.name):
            attempt()
    assert file.read_bytes() == content
    reader = og.open(graph.uri, "r")
    assert counts(reader) == (0, 0, 0)
    assert isinstance(reader.recoveries.pending()[0], og.RecoveryFailed)


@pytest.mark.parametrize("step", [Point.RECOVERY_RECORD_AUDIT, Point.RECOVERY_AFTER_AUDIT])
def test_a_recovery_whose_audit_fails_is_recorded_once_in_the_end(
    graph: og.Graph, killed: Callable[[str], None], step: Point
) -> None:
    killed("mutate.after_phase_b=crash")
    with failpoints.armed(f"{step}=error"), pytest.raises(og.StorageError):
        og.open(graph.uri)
    assert len(sidecars(graph)) == 1
    reopened = og.open(graph.uri)
    assert counts(reopened) == (1, 1, 1)
    assert [each.recovery_kind for each in reopened.recoveries.list()] == ["RolledForward"]
    assert len(graph.commits.list(actor=RECOVERY_ACTOR)) == 1
    assert_well(graph)


# --- the fence ---


@pytest.fixture
def paused(graph: og.Graph) -> Callable[[str], Child]:
    def pause(failpoint: str) -> Child:
        process = nursery.started(PROGRAM, graph.uri, MOVE, environment={failpoints.VARIABLE: failpoint})
        process.wait_until_stopped()
        return process

    return pause


def test_a_writer_that_lives_is_waited_for_and_named(graph: og.Graph, paused: Callable[[str], Child]) -> None:
    with paused("mutate.table_committed=pause@2") as writer:
        assert counts(graph) == (0, 0, 0)
        og.open(graph.uri).mutate(NOTE)
        assert len(sidecars(graph)) == 1
        command = [sys.executable, "-m", "omnigraph", "mutate", "-e", 'query q { insert City { name: "X" } }']
        environment = {**os.environ, "OMNIGRAPH_WRITE_WAIT": "0.3", "OMNIGRAPH_STORE": graph.uri}
        refused = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert refused.returncode == 3
        assert "error[fence_held]: node:City on branch `main` is held by process" in refused.stderr
        assert f"process {writer.pid} on" in refused.stderr
        writer.send_signal(signal.SIGCONT)
        assert writer.wait() == 0
    assert counts(graph) == (1, 1, 1)
    assert graph.recoveries.list() == []
    assert_well(graph)


def test_a_writer_that_is_killed_while_another_waits_gives_way(graph: og.Graph, paused: Callable[[str], Child]) -> None:
    with paused("mutate.after_phase_b=pause") as writer:
        command = [sys.executable, "-m", "omnigraph", "mutate", "-e", 'query q { insert City { name: "X" } }']
        with subprocess.Popen([*command, "--store", graph.uri]) as waiting:
            writer.kill()
            assert waiting.wait() == 0
    assert counts(graph) == (1, 2, 1)
    assert_well(graph)


def test_newest_versions_are_pinned_after_all(graph: og.Graph) -> None:
    """What the other tests lean on: a version that no commit made is seen as such."""
    table = graph.snapshot().table("node:Note")
    rows = pa.Table.from_pylist([{"id": "n", "text": "x"}], schema=table.schema)
    commit_staged(table, stage_append(table, rows, "somebody"))
    with pytest.raises(AssertionError):
        assert_heads_are_pinned(graph)
    assert open_table(table.location).version == table.version + 1
