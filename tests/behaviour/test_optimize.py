"""Optimize: tables are put in order, as one commit that changes nothing that is read; twice is as good as once."""

import json
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lance
import omnigraph as og
from omnigraph import failpoints
from omnigraph.api.upkeep import OptimizeResult, Skipped, TableOptimizeStats
from omnigraph.errors import RecoveryPending, StorageError, UsageError
from omnigraph.failpoints import Writer
from omnigraph.maintenance.optimize import MAINTENANCE_ACTOR, maintenance_concurrency, optimize
from omnigraph.parts.engine import InProcess
from omnigraph.recovery.audit import AUDIT_FOLDER
from omnigraph.session.writes import WriteOrder
from omnigraph.storage.objects import objects_at
from omnigraph.storage.tables import version_file
from omnigraph.write import WriteFence
from omnigraph.write.sidecar import Sidecar
from tests import nursery
from tests.behaviour.people import files
from tests.behaviour.tended import (
    CITES,
    DOC,
    SCHEMA,
    SHELF,
    assert_indexes_find_what_is_there,
    change_something,
    doc,
    fragmented,
    fragments,
    named,
    put,
    small_thresholds,
    table_of,
    uncovered,
)
from tests.behaviour.test_cli import omnigraph_cli
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.stores import Options

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """To build every kind of index takes long, to copy them does not."""
    return fragmented(tmp_path_factory.mktemp("template"))


@pytest.fixture
def graph(template: og.Graph, tmp_path: Path) -> og.Graph:
    copied = shutil.copytree(template.uri, tmp_path / "graph.omni")
    return og.open(copied, durability="fast")


def stats(result: OptimizeResult, key: str = DOC) -> TableOptimizeStats:
    return next(each for each in result.tables if each.table_key == key)


def content(graph: og.Graph, branch: str = "main", key: str = DOC) -> list[dict[str, Any]]:
    """Every row with what identifies it, and its history."""
    columns = [
        *table_of(graph, key, branch).schema.names,
        "_rowid",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    ]
    return sorted(table_of(graph, key, branch).scan(columns).to_pylist(), key=lambda row: str(row["id"]))


@contextmanager
def called_at(point: str, action: Callable[[], None]) -> Iterator[None]:
    """Does something in the middle of a write: the step is a pause, and its signal is the call."""
    before = signal.signal(signal.SIGUSR1, lambda *_: action())
    try:
        with failpoints.armed(f"{point}=pause"), pytest.MonkeyPatch.context() as patch:
            patch.setattr(signal, "SIGSTOP", signal.SIGUSR1)
            yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def drafts_left(graph: og.Graph) -> list[str]:
    return [path.name for path in Path(graph.uri).rglob("_versions/d*.manifest")]


# --- what it does ---


def test_small_fragments_become_one_and_what_is_read_stays_the_same(graph: og.Graph) -> None:
    before, commit = content(graph), graph.snapshot().commit_id
    result = graph.optimize()
    assert (stats(result).fragments_removed, stats(result).fragments_added) == (7, 1)
    assert list(fragments(graph).values()) == [330]
    assert content(graph) == before
    assert list(graph.diff(commit, "main")) == []
    assert_indexes_find_what_is_there(graph)


def test_the_result_is_published_so_that_reads_and_later_writes_use_it(graph: og.Graph) -> None:
    result = graph.optimize()
    pin = graph.snapshot().manifest.pins[DOC]
    assert stats(result).committed
    assert stats(result).manifest_version == stats(result).lance_head_version == pin.version
    assert_heads_are_pinned(graph)
    put(graph, [doc("d1", 77), doc("new", 78)])
    assert {row["id"]: row["size"] for row in content(graph)}.items() >= {"d1": 17, "new": 18}.items()
    assert_heads_are_pinned(graph)


def test_rows_that_came_after_an_index_was_built_are_covered_afterwards(graph: og.Graph) -> None:
    assert set(uncovered(graph).values()) == {30}
    graph.optimize()
    assert uncovered(graph) == {}


def test_a_table_without_small_fragments_is_still_committed_for_its_indexes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_thresholds(monkeypatch)
    graph = fragmented(tmp_path, more=0)
    put(graph, named(500, 65), mode="append")
    done = stats(graph.optimize())
    assert (done.fragments_removed, done.fragments_added) == (0, 0)
    assert done.committed
    assert "id_btree" in done.indexes_extended
    assert uncovered(graph) == {}


def test_indexes_that_are_declared_and_missing_are_built(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", "node A { name: String @key, n: I32? @index }", durability="fast")
    graph.mutate('query q { insert A { name: "a", n: 1 } }')
    assert stats(graph.optimize(), "node:A").indexes_built == ("id_btree", "name_btree", "name_inverted", "n_btree")


def test_deleted_rows_leave_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_thresholds(monkeypatch)
    graph = fragmented(tmp_path, more=0)
    graph.mutate("query q { delete Doc where size = 3 }")
    graph.mutate("query q { delete Doc where size = 4 }")
    kept = content(graph)
    assert stats(graph.optimize()).committed is False, "a tenth may be deleted"
    graph.mutate("query q { delete Doc where size = 5 }")
    done = stats(graph.optimize())
    assert (done.fragments_removed, done.fragments_added) == (1, 1)
    assert [each.num_deletions for each in table_of(graph).dataset.get_fragments()] == [0]
    assert content(graph) == [row for row in kept if row["size"] != 5]
    assert_indexes_find_what_is_there(graph)


def test_blobs_survive(graph: og.Graph) -> None:
    graph.optimize()
    assert {row["id"]: row["scan"] for row in content(graph)} == {f"d{n}": bytes([n % 256]) * 3 for n in range(330)}


def test_a_second_run_does_nothing(graph: og.Graph) -> None:
    first = graph.optimize()
    versions = {key: pin.version for key, pin in graph.snapshot().manifest.pins.items()}
    second = graph.optimize()
    assert first.commit is not None
    assert second.commit is None
    assert not any(each.committed for each in second.tables)
    assert {key: pin.version for key, pin in graph.snapshot().manifest.pins.items()} == versions
    assert graph.snapshot().commit_id == first.commit.graph_commit_id


def test_all_tables_are_one_commit_by_the_system(graph: og.Graph) -> None:
    for turn in range(3):
        graph.mutate(f'query q {{ insert Cites {{ from: "d{turn}", to: "d1" }} insert Shelf {{ name: "s{turn}" }} }}')
    before = len(graph.commits.list())
    result = graph.optimize()
    assert {each.table_key for each in result.tables if each.committed} == {DOC, SHELF, CITES}
    assert len(graph.commits.list()) == before + 1
    newest = graph.commits.list(limit=1)[0]
    assert (newest.actor, newest.message) == (MAINTENANCE_ACTOR, "optimize")
    assert_history_is_linear(graph)


def test_an_actor_can_be_named(graph: og.Graph) -> None:
    commit = graph.optimize(actor="ada").commit
    assert commit is not None
    assert commit.actor == "ada"


def test_a_table_with_nothing_to_do_is_not_committed(graph: og.Graph) -> None:
    pins = graph.snapshot().manifest.pins
    graph.optimize()
    assert graph.snapshot().manifest.pins[SHELF] == pins[SHELF]


def test_the_change_feed_gives_an_empty_block(graph: og.Graph) -> None:
    cursor = [*graph.changes()][-1].cursor
    graph.optimize()
    (block,) = graph.changes(cursor)
    assert block.commit.message == "optimize"
    assert list(block.changes()) == []


def test_old_commits_are_read_as_before(graph: og.Graph) -> None:
    commit, before = graph.snapshot().commit_id, content(graph)
    graph.optimize()
    old = graph.snapshot_at(commit=commit).table(DOC)
    assert sorted(old.scan(["id"])["id"].to_pylist()) == sorted(row["id"] for row in before)


def test_the_tables_of_the_graph_itself_are_told_of(graph: og.Graph) -> None:
    named_tables = [each.table_key for each in graph.optimize().tables]
    assert named_tables == [CITES, DOC, SHELF, "__manifest"]


@pytest.mark.parametrize("damage", ["zeros", "cut"])
def test_a_record_of_recoveries_that_is_damaged_is_reported(graph: og.Graph, damage: str) -> None:
    program = """import sys, omnigraph as og
from omnigraph import failpoints
with failpoints.armed("mutate.after_phase_b=crash"):
    og.open(sys.argv[1]).mutate('query q { insert Shelf { name: "late" } }')"""
    assert nursery.ended(program, graph.uri)[0] == -signal.SIGKILL
    graph = og.open(graph.uri)
    (version,) = Path(graph.uri, AUDIT_FOLDER, "_versions").glob("*.manifest")
    content = version.read_bytes()
    version.write_bytes(bytes(len(content)) if damage == "zeros" else content[:-20])
    reported = {each.table_key: each.error for each in graph.optimize().tables}
    assert "damaged" in (reported[AUDIT_FOLDER] or "")


def test_vectors_are_found_after_updates_and_extensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_thresholds(monkeypatch)
    graph = fragmented(tmp_path, more=0)
    put(graph, [{"name": f"far{n}", "place": [-9.0, -9.0, float(n), -9.0]} for n in range(65)])
    assert "place_vector" in stats(graph.optimize()).indexes_extended
    put(graph, [{"name": "far1", "place": [5.0, 1.0, 1.0, 2.0]}])
    put(graph, named(900, 70))
    graph.optimize()
    assert uncovered(graph) == {}
    nearest = {"column": "place", "q": pa.array([-9.0, -9.0, 1.0, -9.0], pa.float32()), "k": 3}
    found = table_of(graph).dataset.scanner(columns=["id"], nearest=nearest, prefilter=True).to_table()
    assert "far1" not in found["id"].to_pylist()
    assert all(name.startswith("far") for name in found["id"].to_pylist())


# --- when it is not to be done ---


def test_it_is_refused_while_a_write_that_did_not_finish_is_not_settled(graph: og.Graph) -> None:
    other = og.open(graph.uri, durability="fast")
    with failpoints.armed("mutate.table_committed=error;recovery.before_restore=error"), pytest.raises(StorageError):
        other.mutate('query q { insert Doc { name: "late" } insert Shelf { name: "late" } }')
    (pending,) = graph.recoveries.pending()
    assert isinstance(pending, Sidecar)
    before = graph.snapshot().manifest
    with pytest.raises(RecoveryPending) as refused:
        graph.optimize()
    assert refused.value.operations == (pending.operation_id,)
    assert graph.snapshot().manifest == before
    assert og.open(graph.uri, durability="fast").optimize().commit is not None


def test_a_writer_at_work_is_no_reason_to_refuse(graph: og.Graph) -> None:
    other = og.open(graph.uri, durability="fast")
    ended: list[OptimizeResult] = []

    def optimize_halfway() -> None:
        (announced,) = graph.recoveries.pending()
        assert isinstance(announced, Sidecar)
        ended.append(graph.optimize())

    with called_at("mutate.after_phase_a", optimize_halfway):
        other.mutate('query q { insert Shelf { name: "a" } }')
    assert stats(ended[0]).committed
    assert {key: graph.snapshot().table(key).count() for key in (DOC, SHELF)} == {DOC: 330, SHELF: 1}


def test_drift_is_skipped_and_the_other_tables_go_on(graph: og.Graph) -> None:
    graph.mutate('query q { insert Shelf { name: "a" } }')
    pin = graph.snapshot().manifest.pins[SHELF]
    lance.dataset(f"{graph.uri}/{pin.path}").delete("id = 'a'")
    result = graph.optimize()
    skipped = stats(result, SHELF)
    assert skipped.skipped is Skipped.DRIFT_NEEDS_REPAIR
    assert (skipped.manifest_version, skipped.lance_head_version) == (pin.version, pin.version + 1)
    assert not skipped.committed
    assert stats(result).committed
    assert graph.snapshot().manifest.pins[SHELF] == pin


# --- when it fails for a table ---


def cut_version(graph: og.Graph, key: str) -> Path:
    pin = graph.snapshot().manifest.pins[key]
    file = Path(graph.uri, pin.path, version_file(pin.version))
    file.write_bytes(file.read_bytes()[:-20])
    return file


@pytest.mark.parametrize("what", ["version", "rows"])
def test_a_table_that_cannot_be_read_does_not_stop_the_others(graph: og.Graph, what: str) -> None:
    for name in ("a", "b"):
        graph.mutate(f'query q {{ insert Shelf {{ name: "{name}" }} }}')
    if what == "version":
        damaged = cut_version(graph, SHELF)
    else:
        damaged = next(Path(graph.uri, graph.snapshot().manifest.pins[SHELF].path, "data").iterdir())
        damaged.write_bytes(b"x")
    program = "import sys; from omnigraph.cli.main import app; app(['optimize', sys.argv[1], '--json'])"
    with nursery.started(program, graph.uri) as child:
        output, _ = child.communicate()
    result = json.JSONDecoder().raw_decode(output)[0]
    told = {each["table_key"]: each for each in result["tables"]}
    assert child.returncode == 1
    assert told[SHELF]["error"]
    assert not told[SHELF]["committed"]
    assert (told[DOC]["committed"], told[DOC]["error"]) == (True, None)
    assert graph.snapshot().commit_id == result["commit"]["graph_commit_id"]
    assert len(fragments(graph)) == 1


def test_a_table_that_somebody_holds_for_too_long_does_not_lose_what_was_done_to_the_others(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        graph.mutate(f'query q {{ insert Shelf {{ name: "{name}" }} }}')
    monkeypatch.setattr(WriteFence.take_free, "__defaults__", (0.2,))
    before = graph.snapshot().manifest.pins[SHELF]
    with WriteFence(graph._session.location, "main", "a long write") as fence:
        fence.take([SHELF])
        result = graph.optimize()
    assert [each.table_key for each in result.failed] == [SHELF]
    assert "a long write" in str(stats(result, SHELF).error) or "another thread" in str(stats(result, SHELF).error)
    assert stats(result).committed
    assert graph.snapshot().manifest.pins[SHELF] == before
    assert stats(graph.optimize(), SHELF).committed


# --- branches ---


def test_a_branch_puts_only_its_own_tables_in_order(graph: og.Graph) -> None:
    graph.mutate('query q { insert Shelf { name: "a" } }')
    graph.branches.create("x")
    put(graph, named(600, 3), branch="x")
    main, before = graph.snapshot().manifest, content(graph, "x")
    result = graph.optimize(branch="x")
    assert stats(result).committed
    assert stats(result, SHELF).skipped is Skipped.SHARED_WITH_PARENT
    assert graph.snapshot("x").manifest.pins[SHELF] == main.pins[SHELF]
    assert graph.snapshot().manifest == main
    assert content(graph, "x") == before
    assert uncovered(graph, branch="x") == {}
    assert graph.optimize(branch="x").commit is None


@pytest.mark.parametrize("sides", [("main",), ("x",), ("main", "x")])
def test_a_branch_is_compared_and_merged_as_before_whichever_side_was_put_in_order(
    graph: og.Graph, sides: tuple[str, ...]
) -> None:
    graph.branches.create("x")
    put(graph, [doc("d1", 91), doc("main", 1)])
    put(graph, [doc("d2", 92), doc("x", 2)], branch="x")
    graph.mutate('query q { delete Doc where name = "d3" }', branch="x")
    before = sorted(change.id for change in graph.diff("main", "x"))
    for side in sides:
        assert graph.optimize(branch=side).commit is not None
    assert sorted(change.id for change in graph.diff("main", "x")) == before == ["d1", "d2", "d3", "main", "x"]
    graph.merge("x")
    sizes = {row["id"]: row["size"] for row in content(graph)}
    assert [sizes.get(name) for name in ("d1", "d2", "d3", "main", "x")] == [11, 12, None, 1, 2]
    assert len(sizes) == 331
    assert_indexes_find_what_is_there(graph)


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_lost_or_found_wrongly_whatever_was_written_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    small_thresholds(monkeypatch)
    graph = fragmented(tmp_path, more=0)
    chance, branches = Random(seed), ["main"]  # noqa: S311 - the same writes every time
    for step in range(27):
        branch = chance.choice(branches)
        if step in (8, 16):
            graph.branches.create(f"b{step}", branch)
            branches.append(f"b{step}")
        elif step % 3:
            change_something(graph, chance, branch)
        else:
            before = content(graph, branch)
            graph.optimize(branch=branch)
            assert content(graph, branch) == before
            assert graph.optimize(branch=branch).commit is None
            assert_indexes_find_what_is_there(graph, branch)
    for branch in branches:
        assert_indexes_find_what_is_there(graph, branch)


# --- others write meanwhile ---


class _Disturbed(InProcess):
    """An engine in whose pauses others write."""

    def __init__(self, disturb: Callable[[], object], before: str) -> None:
        super().__init__()
        self._disturb, self._before = disturb, before
        self.stages: list[str] = []

    def run(self, stage: str, work: Callable[[Any], Any], parts: Sequence[Any], **options: Any) -> list[Any]:
        self.stages.append(stage)
        if self.stages.count(self._before) == 1 and stage == self._before:
            self._disturb()
        return super().run(stage, work, parts, **options)


def disturbed(graph: og.Graph, disturb: Callable[[og.Graph], object]) -> tuple[OptimizeResult, list[str]]:
    """An optimize while another handle writes."""
    other = og.open(graph.uri, durability="fast")
    engine = _Disturbed(lambda: disturb(other), "indexing")
    request = WriteOrder(kind=Writer.OPTIMIZE, actor=None, message="optimize")
    return graph._session.writes.run(request, lambda attempt: optimize(attempt, engine)), engine.stages


def test_rows_that_others_add_meanwhile_stay_and_the_work_is_not_done_again(graph: og.Graph) -> None:
    result, stages = disturbed(graph, lambda other: put(other, named(700, 5), mode="append"))
    assert stages == ["compacting", "indexing"]
    assert stats(result).committed
    assert sorted(fragments(graph).values()) == [5, 330]
    assert_indexes_find_what_is_there(graph)
    assert_heads_are_pinned(graph)
    graph.optimize()
    assert_indexes_find_what_is_there(graph)


def test_a_table_that_others_change_meanwhile_is_done_again_with_their_change(graph: og.Graph) -> None:
    result, stages = disturbed(graph, lambda other: put(other, [doc("d3", 99)]))
    assert stages == ["compacting", "indexing", "compacting", "indexing"]
    assert stats(result).committed
    assert {row["id"]: row["size"] for row in content(graph)}["d3"] == 19
    assert_indexes_find_what_is_there(graph)
    assert graph.optimize().commit is None


def test_a_table_that_another_optimize_did_meanwhile_is_left_alone(graph: og.Graph) -> None:
    result, _ = disturbed(graph, lambda other: other.optimize())
    assert result.commit is None
    assert [commit.message for commit in graph.commits.list(limit=2)].count("optimize") == 1


def test_no_draft_is_left_behind(graph: og.Graph) -> None:
    with failpoints.armed("optimize.before_phase_a=error"), pytest.raises(StorageError):
        graph.optimize()
    assert drafts_left(graph) == []
    graph.optimize()
    assert drafts_left(graph) == []


def test_what_a_killed_one_leaves_is_reclaimed_by_cleanup(graph: og.Graph) -> None:
    graph.cleanup(keep=1, grace="0s", confirm=True)
    before = files(graph, "nodes", "edges")
    program = "import sys, omnigraph as og; og.open(sys.argv[1], durability='fast').optimize()"
    environment = {failpoints.VARIABLE: "optimize.before_phase_a=crash"}
    code, errors = nursery.ended(program, graph.uri, environment=environment)
    assert code == -signal.SIGKILL, errors
    assert drafts_left(graph)
    assert_indexes_find_what_is_there(graph)
    graph.cleanup(keep=1, grace="0s", confirm=True)
    left = files(graph, "nodes", "edges") - before
    assert all("_transactions" in name for name in left), "those go once there are versions after them"
    assert drafts_left(graph) == []
    assert stats(graph.optimize()).committed


# --- where it runs ---


def test_on_spark_it_does_the_same(spark: "SparkSession", graph: og.Graph) -> None:
    before = content(graph)
    result = graph.optimize(engine="spark")
    assert (stats(result).fragments_removed, stats(result).fragments_added) == (7, 1)
    assert content(graph) == before
    assert uncovered(graph) == {}
    assert_indexes_find_what_is_there(graph)


def test_on_an_object_store_it_does_the_same(s3_store: Options) -> None:
    graph = og.init("s3://bucket/tended.omni", SCHEMA, storage_options=s3_store)
    for turn in range(3):
        put(graph, named(turn * 10, 10))
    before = content(graph)
    assert stats(graph.optimize()).fragments_removed == 3
    assert content(graph) == before
    assert_indexes_find_what_is_there(graph)
    assert not [each for each in objects_at(table_of(graph).location).names("_versions") if each.startswith("d")]
    assert graph.optimize().commit is None


def test_a_setting_says_how_much_is_done_at_once(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    assert maintenance_concurrency() == 8
    monkeypatch.setenv("OMNIGRAPH_MAINTENANCE_CONCURRENCY", "1")
    assert maintenance_concurrency() == 1
    assert graph.optimize().commit is not None
    monkeypatch.setenv("OMNIGRAPH_MAINTENANCE_CONCURRENCY", "none")
    with pytest.raises(UsageError, match="OMNIGRAPH_MAINTENANCE_CONCURRENCY"):
        graph.optimize()


# --- the command ---


def test_the_command_tells_what_was_done_and_then_that_there_is_nothing_to_do(graph: og.Graph) -> None:
    first = omnigraph_cli("optimize", graph.uri)
    assert first.returncode == 0
    assert "7 → 1" in first.stdout
    second = omnigraph_cli("optimize", graph.uri)
    assert second.returncode == 0
    assert second.stdout.strip() == "nothing to do"


def test_the_command_speaks_json(graph: og.Graph) -> None:
    put(graph, named(800, 2))
    result = json.loads(omnigraph_cli("optimize", graph.uri, "--json").stdout)
    found = next(each for each in result["tables"] if each["table_key"] == DOC)
    assert found["fragments_removed"] == 8
    assert result["commit"]["actor"] == MAINTENANCE_ACTOR


def test_the_command_names_drift_and_what_to_do_about_it(graph: og.Graph) -> None:
    pin = graph.snapshot().manifest.pins[DOC]
    lance.dataset(f"{graph.uri}/{pin.path}").delete("id = 'd1'")
    result = omnigraph_cli("optimize", graph.uri)
    assert result.returncode == 0
    assert "DriftNeedsRepair" in result.stdout
    assert "omnigraph repair" in result.stderr
