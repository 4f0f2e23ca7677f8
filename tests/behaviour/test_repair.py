"""Repair: what something other than OmniGraph did to a table is judged, and published only when that is asked for."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lance
import omnigraph as og
from lance import LanceOperation as Operation
from omnigraph import failpoints
from omnigraph.api.upkeep import Classification, RepairAction, Skipped, TableRepair
from omnigraph.compiler import compile_query
from omnigraph.failpoints import Point, Writer
from omnigraph.mutating.mutation import run_mutation
from omnigraph.session.writes import WriteOrder
from omnigraph.storage.commits import commit_staged
from omnigraph.storage.staging import stage_append
from omnigraph.storage.tables import has_version, newest_version, open_table
from tests.behaviour.people import SCHEMA, ages, files, other_handle, set_age, small_world, write
from tests.behaviour.test_cli import omnigraph_cli
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.servers import running_server
from tests.stores import Options

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

PERSON, CITY, KNOWS = "node:Person", "node:City", "edge:Knows"
NOBODY = pa.table({"id": ["X"], "name": ["X"], "age": pa.array([None], pa.int32())})


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = small_world(tmp_path)
    for name in ("Cid", "Dan"):
        write(graph, f'insert Person {{ name: "{name}", age: 1 }} insert City {{ name: "{name}" }}')
    return graph


def raw(graph: og.Graph, key: str = PERSON, branch: str = "main") -> lance.LanceDataset:
    """A table as Lance alone sees it."""
    pin = graph.snapshot(branch).manifest.pins[key]
    return lance.dataset(f"{graph.uri}/{pin.path}")


def compact(graph: og.Graph, key: str = PERSON, branch: str = "main") -> None:
    assert raw(graph, key, branch).optimize.compact_files().fragments_removed


def forget(graph: og.Graph, key: str = PERSON) -> None:
    """Something that changes content."""
    raw(graph, key).delete("id = 'Cid'")


def damage(graph: og.Graph, key: str, back: int = 0) -> None:
    """Takes the transaction out of one of the newest versions of a table, and leaves a version that can be opened."""
    dataset = raw(graph, key)
    file = Path(dataset.uri) / "_versions" / f"{2**64 - 1 - (dataset.version - back):020}.manifest"
    file.unlink()


def judged(graph: og.Graph, key: str = PERSON, branch: str = "main") -> TableRepair:
    return next(each for each in graph.repair(branch=branch).tables if each.table_key == key)


def pinned(graph: og.Graph, key: str = PERSON, branch: str = "main") -> int:
    return graph.snapshot(branch).manifest.pins[key].version


# --- the preview ---


def test_preview_is_the_default(graph: og.Graph) -> None:
    compact(graph)
    forget(graph, CITY)
    before = files(graph, ".")
    result = graph.repair()
    assert result.commit is None
    assert {each.table_key: each.action for each in result.tables} == {
        PERSON: RepairAction.PUBLISH,
        CITY: RepairAction.REFUSE,
        KNOWS: RepairAction.NONE,
    }
    assert files(graph, ".") == before


def test_a_preview_tells_versions_operations_and_errors_of_every_table(graph: og.Graph) -> None:
    version = pinned(graph)
    compact(graph)
    tables = {each["table_key"]: each for each in graph.repair().as_json()["tables"]}
    assert tables[PERSON] == {
        "table_key": PERSON,
        "classification": "verified_maintenance",
        "action": "publish",
        "manifest_version": version,
        "lance_head_version": version + 2,
        "operations": ["ReserveFragments", "Rewrite"],
        "removed": 0,
        "added": 0,
        "changed": 0,
        "removed_ids": [],
        "added_ids": [],
        "changed_ids": [],
        "error": None,
    }
    assert tables[CITY]["classification"] == "no_drift"
    assert tables[CITY]["lance_head_version"] == tables[CITY]["manifest_version"] == pinned(graph, CITY)


def test_a_preview_works_on_a_graph_that_is_open_for_reading_and_confirm_does_not(graph: og.Graph) -> None:
    compact(graph)
    reader = og.open(graph.uri, "r")
    assert judged(reader).classification is Classification.VERIFIED_MAINTENANCE
    with pytest.raises(og.UsageError, match="opened for reading"):
        reader.repair(confirm=True)


def test_writers_at_work_are_no_drift(graph: og.Graph) -> None:
    """A preview takes no lock, so it meets writes in the middle; it says so, or sees all of them or nothing."""
    over = threading.Event()

    def look() -> None:
        other = other_handle(graph)
        while not over.is_set():
            with suppress(og.RecoveryPending):
                found.update(each.classification for each in other.repair().tables)

    found: set[Classification] = set()
    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for age in count():
            set_age(graph, age)
            if age >= 40 and (found or not watcher.is_alive()):
                break
    finally:
        over.set()
        watcher.join()
    assert found == {Classification.NO_DRIFT}


# --- classification ---


def _restore(graph: og.Graph) -> None:
    lance.dataset(raw(graph).uri, version=2).restore()  # type: ignore[no-untyped-call]


def _rewrite_that_loses_a_fragment(graph: og.Graph) -> None:
    dataset = raw(graph)
    group = Operation.RewriteGroup([dataset.get_fragments()[0].metadata], [])
    rewrite = Operation.Rewrite([group], [])
    lance.LanceDataset.commit(dataset.uri, rewrite, read_version=dataset.version)


SEMANTIC: dict[str, tuple[Callable[[og.Graph], Any], str]] = {
    "append": (lambda graph: lance.write_dataset(NOBODY, raw(graph).uri, mode="append"), "Append"),
    "delete": (forget, "Delete"),
    "update": (lambda graph: raw(graph).update({"age": "7"}, where="id = 'Ada'"), "Update"),
    "merge_insert": (lambda graph: raw(graph).merge_insert("id").when_matched_update_all().execute(NOBODY), "Update"),
    "overwrite": (lambda graph: lance.write_dataset(NOBODY, raw(graph).uri, mode="overwrite"), "Overwrite"),
    "restore": (_restore, "Restore"),
    "index": (lambda graph: raw(graph).create_scalar_index("age", "BTREE"), "CreateIndex"),
    "config": (lambda graph: raw(graph).update_config({"a": "b"}), "UpdateConfig"),
    "columns": (lambda graph: raw(graph).add_columns({"more": "age + 1"}), "Merge"),
    "fewer columns": (lambda graph: raw(graph).drop_columns(["age"]), "Project"),
    "a rewrite that loses rows": (_rewrite_that_loses_a_fragment, "Rewrite"),
}


@pytest.mark.parametrize("name", SEMANTIC)
def test_only_reserve_fragments_and_rewrite_are_verified_maintenance(graph: og.Graph, name: str) -> None:
    compact(graph)
    assert judged(graph).classification is Classification.VERIFIED_MAINTENANCE
    change, operation = SEMANTIC[name]
    change(graph)
    found = judged(graph)
    assert found.classification is Classification.SUSPICIOUS
    assert found.action is RepairAction.REFUSE
    assert found.operations == ("ReserveFragments", "Rewrite", operation)


def test_a_version_whose_transaction_is_gone_is_unverifiable(graph: og.Graph) -> None:
    compact(graph)
    version = pinned(graph)
    damage(graph, PERSON, back=1)
    found = judged(graph)
    assert found.classification is Classification.UNVERIFIABLE
    assert found.error == f"version {version + 1}: it is gone"
    assert found.operations == ("Rewrite",)
    assert graph.repair(confirm=True).refused[0].table_key == PERSON
    assert pinned(graph) == version


def test_rows_that_would_go_come_or_change_are_counted_and_named(graph: og.Graph) -> None:
    forget(graph)
    lance.write_dataset(NOBODY, raw(graph).uri, mode="append")
    raw(graph).update({"age": "7"}, where="id = 'Ada'")
    for found in (judged(graph), graph.repair(confirm=True, force=True).tables[2]):
        assert found.table_key == PERSON
        assert (found.removed, found.added, found.changed) == (1, 1, 1)
        assert (found.removed_ids, found.added_ids, found.changed_ids) == (("Cid",), ("X",), ("Ada",))


def test_of_many_rows_only_the_first_are_named(graph: og.Graph) -> None:
    names = [f"X{number:03}" for number in range(50)]
    rows = pa.table({"id": names, "name": names, "age": pa.nulls(50, pa.int32())})
    lance.write_dataset(rows, raw(graph).uri, mode="append")
    found = judged(graph)
    assert (found.added, found.added_ids) == (50, tuple(names[:20]))


# --- versions that failed writes of OmniGraph left ---

LATE = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def arrive_late(graph: og.Graph, name: str = "Zoe") -> None:
    """Commits a row in the name of a write that is neither announced nor visible, as a writer that was stopped does."""
    table = open_table(graph.snapshot().table(PERSON).location)
    rows = pa.Table.from_pylist([{"id": name, "name": name, "age": None}], schema=table.schema)
    commit_staged(table, stage_append(table, rows, LATE))


def test_a_version_of_a_failed_write_is_undone_and_never_published(graph: og.Graph) -> None:
    arrive_late(graph)
    before = pinned(graph)
    found = judged(graph)
    assert (found.classification, found.action) == (Classification.FAILED_WRITE, RepairAction.UNDO)
    assert found.error is not None
    assert LATE in found.error
    result = graph.repair(confirm=True, force=True)
    assert (result.commit, result.refused) == (None, ())
    assert {each.table_key: each.action for each in result.tables}[PERSON] is RepairAction.UNDONE
    assert sorted(ages(graph)) == ["Ada", "Bob", "Cid", "Dan"]
    assert pinned(graph) == before + 2
    assert judged(graph).classification is Classification.NO_DRIFT
    assert_heads_are_pinned(graph)


def test_the_next_write_undoes_it_too_and_says_so(graph: og.Graph) -> None:
    arrive_late(graph)
    set_age(graph, 5)
    assert sorted(ages(graph)) == ["Ada", "Bob", "Cid", "Dan"]
    assert ages(graph)["Ada"] == 5
    (undone,) = graph.recoveries.list()
    assert (undone.writer_kind, undone.recovery_kind.value) == ("remnant", "RolledBack")
    assert graph.commits.show(undone.graph_commit_id).message == f"undid remnant {undone.operation_id} (of {LATE})"
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)


@pytest.mark.parametrize("point", [Point.RECOVERY_BEFORE_RESTORE, Point.RECOVERY_TABLE_RESTORED, Point.SIDECAR_DELETE])
def test_undoing_that_fails_halfway_is_completed_by_the_next_opening(graph: og.Graph, point: Point) -> None:
    arrive_late(graph)
    with failpoints.armed(f"{point}=error@1"), pytest.raises(og.StorageError):
        set_age(graph, 5)
    assert len(graph.recoveries.pending()) == 1
    reopened = og.open(graph.uri)
    set_age(reopened, 5)
    assert sorted(ages(reopened)) == ["Ada", "Bob", "Cid", "Dan"]
    assert reopened.recoveries.pending() == []
    assert_heads_are_pinned(reopened)


def test_maintenance_on_top_of_a_failed_write_is_undone_with_it(graph: og.Graph) -> None:
    arrive_late(graph)
    compact(graph)
    with pytest.raises(og.RecoveryRequired):
        set_age(graph, 5)
    found = judged(graph)
    assert (found.classification, found.action) == (Classification.FAILED_WRITE, RepairAction.UNDO)
    graph.repair(confirm=True)
    set_age(graph, 5)
    assert sorted(ages(graph)) == ["Ada", "Bob", "Cid", "Dan"]


def test_a_failed_write_among_changes_of_others_is_never_published_and_force_undoes_all(graph: og.Graph) -> None:
    forget(graph)
    arrive_late(graph)
    with pytest.raises(og.RecoveryRequired):
        set_age(graph, 5)
    found = judged(graph)
    assert (found.classification, found.action) == (Classification.SUSPICIOUS, RepairAction.REFUSE)
    assert (found.removed_ids, found.added_ids) == (("Cid",), ("Zoe",))
    assert [each.table_key for each in graph.repair(confirm=True).refused] == [PERSON]
    done = {each.table_key: each.action for each in graph.repair(confirm=True, force=True).tables}
    assert done[PERSON] is RepairAction.UNDONE
    set_age(graph, 5)
    assert sorted(ages(graph)) == ["Ada", "Bob", "Cid", "Dan"]


# --- gaps in the numbers of versions ---


@pytest.fixture
def gap(graph: og.Graph) -> og.Graph:
    make_gap(graph)
    return graph


def make_gap(graph: og.Graph) -> None:
    """Lets something else compact a table and remove the version right after the one that the graph sees."""
    version = pinned(graph)
    raw(graph).tags.create("kept", version)
    compact(graph)
    lance.dataset(raw(graph).uri).cleanup_old_versions(versions=[version + 1], delete_unverified=True)
    assert newest_version(graph.snapshot().table(PERSON).location) == version + 2
    assert not has_version(graph.snapshot().table(PERSON).location, version + 1)


def test_a_write_refuses_drift_beyond_a_gap_and_leaves_nothing(gap: og.Graph) -> None:
    before = files(gap, "nodes/Person/_versions")
    for text in ('insert Person { name: "Eve" }', 'delete Person where name = "Bob"'):
        with pytest.raises(og.RecoveryRequired, match="`omnigraph repair`") as raised:
            write(gap, text)
        assert raised.value.operation_id is None
    assert files(gap, "nodes/Person/_versions") == before
    assert gap.recoveries.pending() == []
    assert sorted(ages(gap)) == ["Ada", "Bob", "Cid", "Dan"]


def test_recovery_finds_a_version_beyond_a_gap(graph: og.Graph) -> None:
    with failpoints.armed(f"mutate.after_phase_a=error;{Point.RECOVERY_DECIDED}=error"), pytest.raises(og.StorageError):
        set_age(graph, 5)
    make_gap(graph)
    reopened = og.open(graph.uri)
    assert reopened.recoveries.pending() == []
    assert_heads_are_pinned(reopened)
    set_age(reopened, 6)
    assert ages(reopened)["Ada"] == 6


def test_optimize_reports_drift_beyond_a_gap_and_puts_other_tables_in_order(gap: og.Graph) -> None:
    result = {each.table_key: each for each in gap.optimize().tables}
    assert result[PERSON].skipped is Skipped.DRIFT_NEEDS_REPAIR
    assert result[PERSON].lance_head_version == result[PERSON].manifest_version + 2
    assert result[CITY].committed


def test_repair_judges_drift_beyond_a_gap(gap: og.Graph) -> None:
    found = judged(gap)
    assert (found.classification, found.action) == (Classification.UNVERIFIABLE, RepairAction.REFUSE)
    assert (found.removed, found.added, found.changed) == (0, 0, 0)
    gap.repair(confirm=True, force=True)
    set_age(gap, 6)
    assert ages(gap)["Ada"] == 6


def test_a_commit_that_lands_beyond_a_version_of_another_is_undone_at_once(graph: og.Graph) -> None:
    """Something else commits between the last look at a table and the commit of ours, which storage puts on top."""
    reached = failpoints.hit

    def overtaken(point: Point) -> None:
        reached(point)
        if point is Point.TABLE_BEFORE_COMMIT and not overtaken_once:
            overtaken_once.append(point)
            forget(graph)

    overtaken_once: list[Point] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "hit", overtaken)
        with pytest.raises(og.HeadMoved):
            write(graph, 'insert Person { name: "Eve" }')
    assert sorted(ages(graph)) == ["Ada", "Bob", "Cid", "Dan"]
    assert_heads_are_pinned(graph)
    set_age(graph, 4)


# --- confirm ---


def test_confirm_publishes_verified_maintenance_only(graph: og.Graph) -> None:
    compact(graph)
    forget(graph, CITY)
    before = pinned(graph, CITY)
    result = graph.repair(confirm=True, actor="ada")
    assert {each.table_key: each.action for each in result.tables} == {
        PERSON: RepairAction.PUBLISHED,
        CITY: RepairAction.REFUSED,
        KNOWS: RepairAction.NONE,
    }
    assert [each.table_key for each in result.refused] == [CITY]
    assert result.commit is not None
    assert (result.commit.actor, result.commit.message) == ("ada", "repair")
    assert pinned(graph) == raw(graph).version
    assert pinned(graph, CITY) == before
    assert graph.entity("City", "Cid") is not None


def test_confirm_without_drift_makes_no_commit(graph: og.Graph) -> None:
    head = graph.snapshot().commit_id
    assert graph.repair(confirm=True).commit is None
    assert graph.repair(confirm=True, force=True).commit is None
    assert graph.snapshot().commit_id == head


def test_several_tables_are_one_commit_and_a_second_run_has_nothing_to_do(graph: og.Graph) -> None:
    commits = len(graph.commits.list())
    compact(graph)
    compact(graph, CITY)
    assert graph.repair(confirm=True).commit is not None
    assert len(graph.commits.list()) == commits + 1
    assert graph.repair(confirm=True).commit is None
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)


def test_force_and_confirm_publish_suspicious_and_unverifiable_drift_too(graph: og.Graph) -> None:
    compact(graph)
    damage(graph, PERSON, back=1)
    forget(graph, CITY)
    result = graph.repair(confirm=True, force=True)
    assert {each.table_key: (each.classification, each.action) for each in result.tables} == {
        PERSON: (Classification.UNVERIFIABLE, RepairAction.PUBLISHED),
        CITY: (Classification.SUSPICIOUS, RepairAction.PUBLISHED),
        KNOWS: (Classification.NO_DRIFT, RepairAction.NONE),
    }
    assert result.refused == ()
    assert graph.entity("City", "Cid") is None
    assert ages(graph) == {"Ada": 1, "Bob": 1, "Cid": 1, "Dan": 1}


def test_force_needs_confirm(graph: og.Graph) -> None:
    with pytest.raises(og.UsageError, match="confirm"):
        graph.repair(force=True)


@pytest.mark.parametrize("name", ["columns", "fewer columns"])
def test_a_version_with_other_columns_is_never_published(graph: og.Graph, name: str) -> None:
    SEMANTIC[name][0](graph)
    (refused,) = graph.repair(confirm=True, force=True).refused
    assert refused.error == "its columns changed; they do not fit the schema of the graph"
    assert ages(graph)["Ada"] == 1


def test_a_graph_whose_pinned_version_lance_has_removed_is_rescued_by_force(graph: og.Graph) -> None:
    compact(graph)
    uri, version = raw(graph).uri, pinned(graph)
    lance.dataset(uri).cleanup_old_versions(versions=[*range(1, version + 2)], delete_unverified=True)
    found = judged(graph)
    assert found.classification is Classification.UNVERIFIABLE
    assert found.error is not None
    assert "the version that the graph uses is missing" in found.error
    graph.repair(confirm=True, force=True)
    assert ages(og.open(graph.uri)) == {"Ada": 1, "Bob": 1, "Cid": 1, "Dan": 1}


def test_a_head_behind_its_pin_is_never_published(graph: og.Graph) -> None:
    damage(graph, PERSON)
    (refused,) = graph.repair(confirm=True, force=True).refused
    assert refused.lance_head_version < refused.manifest_version
    assert refused.classification is Classification.UNVERIFIABLE


# --- it publishes, and rewrites nothing ---


def test_repair_rewrites_no_data(graph: og.Graph) -> None:
    compact(graph)
    forget(graph, CITY)
    before = files(graph, "nodes", "edges")
    assert graph.repair(confirm=True, force=True).commit is not None
    assert files(graph, "nodes", "edges") == before


def test_after_a_repair_reads_and_writes_use_the_repaired_version(graph: og.Graph) -> None:
    compact(graph)
    raw(graph).update({"age": "7"}, where="id = 'Ada'")
    reader = og.open(graph.uri, "r")
    with pytest.raises(og.RecoveryRequired):
        set_age(graph, 3, name="Bob")
    graph.repair(confirm=True, force=True)
    assert ages(reader) == {"Ada": 7, "Bob": 1, "Cid": 1, "Dan": 1}
    set_age(graph, 3, name="Bob")
    write(graph, 'delete Person where name = "Cid"')
    assert ages(reader) == {"Ada": 7, "Bob": 3, "Dan": 1}
    assert_heads_are_pinned(graph)


def test_maintenance_that_is_published_is_no_change_of_content(graph: og.Graph) -> None:
    head = graph.snapshot().commit_id
    cursor = [*graph.changes()][-1].cursor
    compact(graph)
    graph.repair(confirm=True)
    assert [*graph.diff(head, "main")] == []
    (block,) = graph.changes(cursor)
    assert [*block.changes()] == []


def test_what_was_forced_is_a_change_of_content(graph: og.Graph) -> None:
    head = graph.snapshot().commit_id
    forget(graph)
    graph.repair(confirm=True, force=True)
    assert [(change.kind.value, change.id) for change in graph.diff(head, "main")] == [("delete", "Cid")]


def test_a_repair_whose_publish_fails_leaves_everything_as_it_was(graph: og.Graph) -> None:
    compact(graph)
    before, head = files(graph, "nodes", "edges"), graph.snapshot().commit_id
    for point in (Point.REPAIR_BEFORE_PUBLISH, Point.PUBLISH_BEFORE_SWAP):
        with failpoints.armed(f"{point}=error"), pytest.raises(og.StorageError):
            graph.repair(confirm=True)
        assert graph.snapshot().commit_id == head
    assert files(graph, "nodes", "edges") == before
    with failpoints.armed(f"{Point.PUBLISH_AFTER_SWAP}=error"):
        assert graph.repair(confirm=True).commit is not None
    assert judged(graph).classification is Classification.NO_DRIFT


@pytest.mark.parametrize(("change", "is_refused"), [(forget, True), (compact, False)], ids=["forced", "maintenance"])
def test_a_write_that_relies_on_rows_notices_that_a_repair_may_have_removed_some(
    graph: og.Graph, change: Callable[[og.Graph], None], is_refused: bool
) -> None:
    befriend = compile_query('query q { insert Knows { from: "Ada", to: "Cid" } }', graph.schema.catalog)
    other = other_handle(graph)
    change(graph)
    with graph._session.writes.attempt(WriteOrder(kind=Writer.LOAD, actor=None, message="befriend")) as attempt:
        assert other.repair(confirm=True, force=True).commit is not None
        if is_refused:
            with pytest.raises(og.ExpectedVersionMismatch, match=PERSON):
                run_mutation(attempt, befriend, {})
        else:
            run_mutation(attempt, befriend, {})
    assert graph.snapshot().table(KNOWS).count() == 2 - is_refused


# --- writes that did not finish ---


def test_pending_sidecars_belong_to_recovery_and_repair_refuses(graph: og.Graph) -> None:
    other = other_handle(graph)
    with failpoints.armed(f"mutate.table_committed=error;{Point.RECOVERY_BEFORE_RESTORE}=error"):
        with pytest.raises(og.StorageError):
            write(graph, 'insert Person { name: "Eve" }')
        (pending,) = graph.recoveries.pending()
        for confirm in (False, True):
            with pytest.raises(og.RecoveryPending) as raised:
                other.repair(confirm=confirm)
            assert raised.value.operations == (pending.operation_id,)  # type: ignore[union-attr]
    reopened = og.open(graph.uri)
    assert judged(reopened).classification is Classification.NO_DRIFT


def test_a_sidecar_that_nobody_can_read_is_refused_too(graph: og.Graph) -> None:
    folder = Path(graph.uri, "__recovery")
    folder.mkdir(exist_ok=True)
    (folder / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json").write_text("?")
    with pytest.raises(og.RecoveryPending, match="01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        graph.repair()


def test_a_write_that_meets_drift_names_the_command_that_helps(graph: og.Graph) -> None:
    compact(graph)
    with pytest.raises(og.RecoveryRequired, match="`omnigraph repair`") as raised:
        set_age(graph, 2)
    assert raised.value.operation_id is None


def test_a_server_does_not_ask_to_try_again_where_only_repair_helps(graph: og.Graph) -> None:
    compact(graph)
    with running_server([graph.uri]) as server, server.client() as client:
        source = 'query q { insert Person { name: "Zoe" } }'
        refused = client.post(f"/graphs/{graph.id}/mutate", json={"source": source})
    assert (refused.status_code, refused.json()["code"]) == (409, "recovery_required")
    assert "retry-after" not in refused.headers
    assert "`omnigraph repair`" in refused.json()["error"]


# --- branches ---


def test_every_branch_is_repaired_by_itself(graph: og.Graph) -> None:
    graph.branches.create("b")
    for age in range(3):
        set_age(graph, age, "b", name="Cid")
        write(graph, f'insert Person {{ name: "new{age}" }}', "b")
    compact(graph, branch="b")
    assert judged(graph).classification is Classification.NO_DRIFT
    assert judged(graph, branch="b").classification is Classification.VERIFIED_MAINTENANCE
    assert judged(graph, CITY, "b").classification is Classification.NO_DRIFT
    set_age(graph, 9)
    result = graph.repair(confirm=True, branch="b")
    assert result.commit is not None
    assert result.commit.branch == "b"
    set_age(graph, 8, "b")
    assert ages(graph)["Ada"] == 9
    assert ages(graph, "b")["Ada"] == 8
    assert graph.merge("b", strategy="theirs").commit is not None
    assert_heads_are_pinned(graph)


def test_drift_of_main_is_no_drift_of_a_branch_that_shares_its_tables(graph: og.Graph) -> None:
    graph.branches.create("b")
    compact(graph)
    assert judged(graph, branch="b").classification is Classification.NO_DRIFT
    set_age(graph, 5, "b")
    assert graph.repair(confirm=True).commit is not None
    assert ages(graph, "b")["Ada"] == 5


def test_repair_works_on_an_object_store(s3_store: Options) -> None:
    uri = "s3://bucket/repaired"
    graph = og.init(uri, SCHEMA, storage_options=s3_store)
    for name in ("Ada", "Bob"):
        write(graph, f'insert Person {{ name: "{name}" }} insert City {{ name: "{name}" }}')
    places = {key: f"{uri}/{pin.path}" for key, pin in graph.snapshot().manifest.pins.items()}
    lance.dataset(places[PERSON], storage_options=s3_store).optimize.compact_files()
    lance.dataset(places[CITY], storage_options=s3_store).delete("id = 'Ada'")
    assert [each.classification.value for each in graph.repair().tables] == [
        "no_drift",
        "suspicious",
        "verified_maintenance",
    ]
    assert [each.table_key for each in graph.repair(confirm=True).refused] == [CITY]
    set_age(graph, 4)
    assert ages(graph)["Ada"] == 4


# --- the command ---


def run(*arguments: str) -> tuple[int, str, str]:
    ended = omnigraph_cli("repair", *arguments)
    return ended.returncode, ended.stdout, ended.stderr


def test_the_command_previews_and_confirms(graph: og.Graph) -> None:
    assert run(graph.uri)[:2] == (0, "no table has drifted\n")
    compact(graph)
    code, output, told = run(graph.uri)
    assert code == 0
    assert "verified_maintenance" in output
    assert "nothing was changed; --confirm publishes 1 table" in told
    assert pinned(graph) < raw(graph).version
    code, output, _ = run(graph.uri, "--confirm", "--as", "ada", "--json")
    assert code == 0
    assert json.loads(output)["commit"]["actor"] == "ada"
    assert pinned(graph) == raw(graph).version


def test_the_command_prints_the_tables_and_ends_with_3_when_one_is_refused(graph: og.Graph) -> None:
    compact(graph)
    forget(graph, CITY)
    code, output, told = run(graph.uri, "--confirm")
    assert code == 3
    assert "suspicious" in output
    assert f"refused: {CITY}" in told
    code, output, _ = run(graph.uri, "--confirm", "--json")
    assert code == 3
    assert {each["action"] for each in json.loads(output)["tables"]} == {"none", "refused"}
    assert run(graph.uri, "--confirm", "--force")[0] == 0
    assert graph.entity("City", "Cid") is None


def test_the_command_names_the_rows_that_differ(graph: og.Graph) -> None:
    forget(graph)
    arrive_late(graph)
    code, output, _ = run(graph.uri)
    assert code == 0
    assert "-1 +1" in output
    newest = raw(graph).version
    assert f"{PERSON}: version {newest} lacks Cid\n" in output
    assert f"{PERSON}: version {newest} adds Zoe\n" in output


def test_the_command_undoes_what_a_failed_write_left(graph: og.Graph) -> None:
    arrive_late(graph)
    code, output, told = run(graph.uri)
    assert code == 0
    assert "failed_write" in output
    assert "--confirm publishes 0 tables, and undoes 1 table" in told
    assert run(graph.uri, "--confirm")[0] == 0
    assert run(graph.uri)[:2] == (0, "no table has drifted\n")


def test_the_command_refuses_while_writes_are_pending_and_wants_confirm_with_force(graph: og.Graph) -> None:
    folder = Path(graph.uri, "__recovery")
    folder.mkdir(exist_ok=True)
    (folder / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json").write_text("?")
    code, _, told = run(graph.uri)
    assert code == 3
    assert "error[recovery_pending]" in told
    assert run(graph.uri, "--force")[0] == 2
