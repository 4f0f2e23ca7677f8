"""Cleanup: what goes, what stays, and that nobody notices but the disk."""

import json
import os
import shutil
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from typer.testing import CliRunner
from ulid import ULID

import omnigraph as og
from omnigraph import failpoints
from omnigraph.api.upkeep import CleanupResult
from omnigraph.cli.main import app
from omnigraph.errors import ChangesGap, HeadMoved, NotFound, StorageError, UsageError
from omnigraph.recovery.audit import recoveries
from omnigraph.storage.branches import branch_refs
from omnigraph.storage.files import files_below, store_time
from omnigraph.storage.location import location_of
from omnigraph.storage.locks import LOCK_FOLDER, locks_at
from omnigraph.storage.objects import objects_at
from omnigraph.storage.reclaim import versions_of
from omnigraph.versioning import Branches, ManifestLog, new_commit_id
from omnigraph.versioning.heads import Retained
from omnigraph.write import WriteFence
from omnigraph.write.retention import CLOCK_TICK, SCHEMA_LOCK, is_schema_locked, marked_as_writing, oldest_marked_writer
from tests import nursery
from tests.behaviour.people import ages, files, other_handle, set_age, small_world, write
from tests.manifest_files import line_of
from tests.nursery import Child
from tests.stores import Options

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

FOLDERS = ("nodes", "edges", "__manifest")
WRITER = """
import json, sys
import omnigraph as og
uri, records, branch, options = sys.argv[1:]
og.open(uri, durability="fast", storage_options=json.loads(options)).load(records, mode="merge", branch=branch)
"""
OPTIMIZER = "import sys, omnigraph as og; og.open(sys.argv[1], durability='fast').optimize()"
CLEANER = """
import json, sys
import omnigraph as og
og.open(sys.argv[1], storage_options=json.loads(sys.argv[2])).cleanup(keep=1, grace="0s", confirm=True)
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return small_world(tmp_path)


def cleaned(graph: og.Graph, keep: int | None = 1, **options: Any) -> CleanupResult:
    """A cleanup of all that may go at once, without a grace period."""
    result = graph.cleanup(keep=keep, confirm=True, **{"grace": "0s", **options})
    assert result.failed == ()
    return result


def aged(graph: og.Graph, times: int, branch: str = "main") -> None:
    """Writes that leave old versions behind; the last sets the age of Ada to their number."""
    for age in (0, *range(2, times + 1)):
        set_age(graph, age, branch)


def versions(graph: og.Graph, folder: str) -> int:
    return sum(name.endswith(".manifest") for name in files(graph, folder))


def running(program: str, *arguments: str, failpoint: str, **environment: str) -> Child:
    """A process that meets a failpoint."""
    return nursery.started(program, *arguments, environment={**environment, failpoints.VARIABLE: failpoint})


def started(
    graph: og.Graph,
    records: Path,
    failpoint: str,
    *,
    branch: str = "main",
    options: Options | None = None,
    **environment: str,
) -> Child:
    """A process that loads records and meets a failpoint."""
    given = (graph.uri, str(records), branch, json.dumps(options))
    return running(WRITER, *given, failpoint=failpoint, **environment)


def let_files_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of a store has whole seconds; for a cleanup, all that is there is some seconds old."""
    later = timedelta(seconds=5)
    monkeypatch.setattr("omnigraph.maintenance.cleanup.store_time", lambda graph: store_time(graph) + later)


def resumed(process: Child) -> int:
    """Lets a process go on, and says how it ended."""
    process.send_signal(signal.SIGCONT)
    return process.wait()


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "more.jsonl"
    path.write_text('{"type": "Person", "data": {"name": "Eve", "age": 7}}\n')
    return path


# --- what goes ---


def test_without_confirm_nothing_goes_and_it_says_what_would(graph: og.Graph) -> None:
    aged(graph, 10)
    before = files(graph, *FOLDERS)
    preview = graph.cleanup(keep=2, grace="0s")
    assert not preview.confirmed
    assert files(graph, *FOLDERS) == before
    confirmed = graph.cleanup(keep=2, grace="0s", confirm=True)
    assert confirmed.bytes_removed == preview.bytes_removed > 0
    assert files(graph, *FOLDERS) < before


def test_without_confirm_it_only_looks(graph: og.Graph, records: Path) -> None:
    """No lock is waited for or taken, nothing is settled, nothing is written, and a graph open for reading will do."""
    aged(graph, 3)
    assert started(graph, records, "load.table_staged=crash").wait() == -signal.SIGKILL
    assert started(graph, records, "load.after_phase_b=crash").wait() == -signal.SIGKILL
    stray = Path(graph.uri, "__bulk", "dead")
    stray.mkdir(parents=True)
    (stray / "rows.arrow").write_bytes(b"x")
    reader = og.open(graph.uri, mode="r")
    with ExitStack() as held:
        for branch, lock in (("__history__", "history"), ("main", "node:Person")):
            held.enter_context(WriteFence(location_of(graph.uri), branch, "somebody")).take([lock])
        before = {path: path.stat().st_mtime_ns for path in Path(graph.uri).rglob("*")}
        preview = reader.cleanup(keep=1, grace="0s")
        assert {path: path.stat().st_mtime_ns for path in Path(graph.uri).rglob("*")} == before
    assert preview.failed == ()
    assert preview.bytes_removed > 0
    command = CliRunner().invoke(app, ["cleanup", graph.uri, "--keep", "1", "--grace", "0s"])
    assert command.exit_code == 3
    assert len(graph.recoveries.pending()) == 1


def test_old_versions_go_with_the_files_that_only_they_refer_to(graph: og.Graph) -> None:
    aged(graph, 40)
    stats = {each.table_key: each for each in cleaned(graph).tables}
    assert stats["node:Person"].old_versions_removed == 41
    assert stats["__manifest"].old_versions_removed > 30
    assert versions(graph, "nodes") == 2
    assert ages(graph) == {"Ada": 40, "Bob": 1}


def test_a_second_cleanup_finds_nothing(graph: og.Graph) -> None:
    aged(graph, 40)
    cleaned(graph)
    assert cleaned(graph).bytes_removed == 0


def test_keep_counts_the_commits_of_each_branch(graph: og.Graph) -> None:
    graph.branches.create("b")
    aged(graph, 6, "b")
    aged(graph, 6)
    cleaned(graph, keep=3)
    for branch in ("main", "b"):
        commits = graph.commits.list(branch)
        for age, commit in zip((6, 5, 4), commits[:3], strict=True):
            assert ages(graph, graph.snapshot_at(commit=commit.graph_commit_id))["Ada"] == age
        with pytest.raises(NotFound):
            graph.snapshot_at(commit=commits[3].graph_commit_id)


def test_older_than_keeps_what_is_younger(graph: og.Graph) -> None:
    aged(graph, 5)
    assert cleaned(graph, keep=None, older_than="1h").bytes_removed == 0
    assert cleaned(graph, keep=None, older_than=timedelta()).bytes_removed > 0


def test_with_both_a_commit_goes_only_if_both_let_it_go(graph: og.Graph) -> None:
    aged(graph, 5)
    assert cleaned(graph, keep=1, older_than="1h").bytes_removed == 0
    assert cleaned(graph, keep=9, older_than="0s").bytes_removed == 0
    assert cleaned(graph, keep=1, older_than="0s").bytes_removed > 0


def test_a_clock_that_was_behind_makes_nothing_older(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    class Behind(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Behind":
            return cls.fromtimestamp(datetime.now(tz).timestamp() - 30 * 86_400, tz)

    aged(graph, 3)
    with monkeypatch.context() as patched:
        patched.setattr("omnigraph.versioning.publisher.datetime", Behind)
        set_age(graph, 4)
    set_age(graph, 5)
    assert cleaned(graph, keep=None, older_than="7d").bytes_removed == 0
    assert cleaned(graph, grace="1h").bytes_removed == 0


def test_one_of_keep_and_older_than_is_required(graph: og.Graph) -> None:
    for wrong in ({}, {"keep": 0}, {"older_than": "7 parsecs"}, {"keep": 1, "grace": timedelta(-1)}):
        with pytest.raises(UsageError):
            graph.cleanup(**wrong)
    with pytest.raises(UsageError):
        og.open(graph.uri, mode="r").cleanup(keep=1, confirm=True)


def test_a_graph_that_was_cleaned_is_as_small_as_one_loaded_afresh(graph: og.Graph, tmp_path: Path) -> None:
    write(graph, " ".join(f'insert Person {{ name: "P{number}", age: {number} }}' for number in range(500)))
    for number in range(60):
        set_age(graph, number + 1, name=f"P{number}")
    graph.export(tmp_path / "all.jsonl")
    fresh = og.init(tmp_path / "fresh.omni", graph.schema.text, durability="fast")
    fresh.load(tmp_path / "all.jsonl")

    def size(of: og.Graph) -> int:
        return sum(path.stat().st_size for path in Path(of.uri).rglob("*") if path.is_file())

    before = size(graph)
    cleaned(graph)
    assert before - size(graph) >= 0.9 * (before - size(fresh))


# --- what stays ---


def test_branches_read_and_merge_as_before(graph: og.Graph) -> None:
    aged(graph, 4)
    graph.branches.create("b")
    write(graph, 'insert Person { name: "Cid", age: 3 }', "b")
    graph.branches.create("b/c", from_="b")
    write(graph, 'insert Person { name: "Dan", age: 4 }', "b/c")
    aged(graph, 8)
    before = {name: ages(graph, name) for name in ("main", "b", "b/c")}
    differences = [str(change) for change in graph.diff("main", "b/c")]
    cleaned(graph)
    for handle in (graph, other_handle(graph)):
        assert {name: ages(handle, name) for name in before} == before
        assert [str(change) for change in handle.diff("main", "b/c")] == differences
    assert {each.name: (each.ahead, each.behind) for each in graph.branches.list()}["b"] == (1, 8)
    graph.merge("b/c", "b")
    graph.merge("b")
    assert ages(graph) == {"Ada": 8, "Bob": 1, "Cid": 3, "Dan": 4}
    cleaned(graph)
    graph.merge("main", "b")
    assert ages(graph, "b") == ages(graph)


def test_a_branch_may_begin_on_another_after_its_parents_were_cleaned_up(graph: og.Graph) -> None:
    graph.branches.create("b")
    aged(graph, 3, "b")
    cleaned(graph)
    graph.branches.create("c", from_="b")
    set_age(graph, 9, "c")
    cleaned(graph)
    assert (ages(graph, "b")["Ada"], ages(graph, "c")["Ada"], ages(graph)["Ada"]) == (3, 9, 1)


def test_a_tag_keeps_its_commit(graph: og.Graph) -> None:
    aged(graph, 3)
    graph.tags.create("v3")
    aged(graph, 2)
    cleaned(graph)
    assert ages(graph, graph.snapshot_at(commit="v3"))["Ada"] == 3
    graph.tags.delete("v3")
    cleaned(graph)
    with pytest.raises(NotFound, match="cleanup"):
        graph.snapshot_at(commit=graph.commits.list()[2].graph_commit_id)


def test_readers_have_a_while_to_finish(graph: og.Graph) -> None:
    aged(graph, 3)
    reading = graph.snapshot()
    aged(graph, 2)
    assert graph.cleanup(keep=1, confirm=True).bytes_removed == 0
    assert ages(graph, reading)["Ada"] == 3


def test_indexes_of_the_kept_versions_stay(graph: og.Graph) -> None:
    aged(graph, 3)
    graph.ensure_indices()
    graph.branches.create("b")
    graph.mutate('query q { insert Person { name: "Cid", age: 9 } }', branch="b")
    aged(graph, 3)
    cleaned(graph)
    query = 'query q { match { $p: Person { name: "Ada" } } return { $p.age } }'
    assert other_handle(graph).query(query).rows() == [{"p.age": 3}]
    assert other_handle(graph).query(query, branch="b").rows() == [{"p.age": 3}]
    graph.ensure_indices()


def test_what_recovery_needs_of_an_unfinished_write_stays(graph: og.Graph, records: Path) -> None:
    aged(graph, 3)
    child = started(graph, records, "load.after_phase_b=crash")
    assert child.wait() == -signal.SIGKILL
    graph.cleanup(keep=1, grace="0s", confirm=True)
    assert ages(other_handle(graph)) == {"Ada": 3, "Bob": 1, "Eve": 7}


def test_files_of_a_writer_that_lives_stay(graph: og.Graph, records: Path) -> None:
    time.sleep(2 * CLOCK_TICK.total_seconds())  # what is as young as a tick when the writer begins might be its own
    child = started(graph, records, "load.table_staged=pause")
    try:
        child.wait_until_stopped()
        assert cleaned(graph).bytes_removed > 0
    finally:
        ended = resumed(child)
    assert ended == 0
    assert ages(graph)["Eve"] == 7


def test_what_a_writer_that_lives_began_on_stays(graph: og.Graph, records: Path) -> None:
    with records.open("a") as file:
        file.write('{"type": "City", "data": {"name": "Oslo"}}\n')
        file.write('{"edge": "Knows", "from": "Bob", "to": "Ada", "data": {"id": "ba"}}\n')
    child = started(graph, records, "load.table_staged=pause@1")
    try:
        child.wait_until_stopped()
        for name in ("Rome", "Bern"):
            write(graph, f'insert City {{ name: "{name}" }}')
            write(graph, f'insert Knows {{ id: "{name}", from: "Ada", to: "Bob" }}')
        aged(graph, 3)
        cleaned(graph)
    finally:
        ended = resumed(child)
    assert ended == 0
    assert ages(graph) == {"Ada": 3, "Bob": 1, "Eve": 7}


def test_all_versions_of_an_unfinished_write_stay(graph: og.Graph) -> None:
    aged(graph, 3)
    graph.ensure_indices()
    aged(graph, 3)
    assert running(OPTIMIZER, graph.uri, failpoint="optimize.after_phase_b=crash").wait() == -signal.SIGKILL
    cleaned(graph)
    other = other_handle(graph)
    assert str(other.commits.list()[0].message).startswith("completed optimize")
    aged(other, 4)
    assert ages(other) == {"Ada": 4, "Bob": 1}


def test_a_fork_stays_that_a_writer_announced_during_the_cleanup(graph: og.Graph, records: Path) -> None:
    graph.branches.create("b")
    aged(graph, 3)
    cleaner = running(CLEANER, graph.uri, "null", failpoint="cleanup.versions_removed=pause@1")
    try:
        cleaner.wait_until_stopped()
        writer = started(graph, records, "load.after_phase_b=crash", branch="b")
        assert writer.wait() == -signal.SIGKILL
    finally:
        ended = resumed(cleaner)
    assert ended == 0
    assert ages(other_handle(graph), "b")["Eve"] == 7


def test_what_a_merge_looks_at_in_place_of_a_branch_that_is_gone_stays(graph: og.Graph) -> None:
    graph.branches.create("c")
    write(graph, 'insert Person { name: "Eve", age: 5 }')
    graph.branches.create("b")
    set_age(graph, 2, "b")
    graph.merge("b")
    graph.merge("b", "c")
    graph.branches.delete("b")
    write(graph, 'delete Person where name = "Eve"')
    aged(graph, 3)
    write(graph, 'insert Person { name: "Cid", age: 3 }', "c")
    before = graph.merge("c", dry_run=True)
    cleaned(graph)
    assert graph.merge("c", dry_run=True) == before


def test_marks_of_writers_begin_and_end_while_others_look_at_them(graph: og.Graph) -> None:
    location = location_of(graph.uri)
    begun, over = threading.Event(), threading.Event()

    def look() -> None:
        while not over.is_set():
            oldest_marked_writer(location)
            begun.set()

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            assert begun.wait(60)
            for _ in range(300):
                operation_id = new_commit_id()
                with marked_as_writing(location, operation_id) as mark:
                    mark.check()
                    oldest = oldest_marked_writer(location)
                    assert oldest is not None
        finally:
            over.set()
        looking.result()
    assert files(graph, "__writing") == set()


# --- what is left behind ---


def test_files_of_a_killed_writer_go(graph: og.Graph, records: Path) -> None:
    cleaned(graph)
    before = files(graph, *FOLDERS)
    child = started(graph, records, "load.table_staged=crash")
    assert child.wait() == -signal.SIGKILL
    assert files(graph, *FOLDERS) > before
    assert graph.cleanup(keep=1, confirm=True).bytes_removed == 0
    assert cleaned(graph).bytes_removed > 0
    assert files(graph, *FOLDERS) == before
    assert files(graph, "__writing") == set()


def test_forks_of_a_branch_that_is_gone_go(graph: og.Graph) -> None:
    graph.branches.create("b")
    set_age(graph, 5, "b")
    with failpoints.armed("branch.deleted=error"), pytest.raises(og.StorageError):
        graph.branches.delete("b")
    assert "tree" in str(files(graph, "nodes"))
    stats = {each.table_key: each for each in cleaned(graph).tables}
    assert len(stats["node:Person"].forks_removed) == 1
    assert "tree" not in str(files(graph, "nodes"))
    assert ages(graph) == {"Ada": 1, "Bob": 1}


def test_locks_of_a_branch_that_is_gone_go(graph: og.Graph) -> None:
    graph.branches.create("b")
    set_age(graph, 5, "b")
    graph.branches.create("b/c", from_="b")
    before = files(graph, "__locks")
    graph.branches.delete("b/c")
    graph.branches.delete("b")
    cleaned(graph)
    of_b = ("__locks/b%2F", "__locks/__manifest%2Fb")
    assert any(name.startswith(of_b) for name in before)
    assert not any(name.startswith(of_b) for name in files(graph, "__locks"))
    graph.branches.create("b")
    set_age(graph, 6, "b")
    assert ages(graph, "b")["Ada"] == 6


def test_a_fork_that_a_crash_left_on_a_living_branch_goes(graph: og.Graph) -> None:
    graph.branches.create("b")
    with failpoints.armed("fork.created=error"), pytest.raises(og.StorageError):
        set_age(graph, 5, "b")
    root = location_of(graph.uri).child(graph.snapshot().manifest.pins["node:Person"].path)
    assert branch_refs(root)
    cleaned(graph)
    assert branch_refs(root) == []
    set_age(graph, 6, "b")
    assert ages(graph, "b")["Ada"] == 6


def test_a_tree_that_no_ref_lists_goes(graph: og.Graph) -> None:
    graph.branches.create("b")
    set_age(graph, 5, "b")
    line = line_of(graph.uri, "b")
    shutil.copytree(line, line.with_name("zombie.0123"))
    trees = Path(graph.uri, graph.snapshot().manifest.pins["node:Person"].path, "tree")
    shutil.copytree(next(trees.iterdir()), trees / "zombie.0123")
    assert str(files(graph, *FOLDERS)).count("zombie") > 2
    cleaned(graph)
    assert "zombie" not in str(files(graph, *FOLDERS))
    assert ages(graph, "b")["Ada"] == 5


def test_a_table_that_nothing_refers_to_goes(graph: og.Graph) -> None:
    stray = Path(graph.uri, "nodes", "99-stray")
    shutil.copytree(Path(graph.uri, graph.snapshot().manifest.pins["node:City"].path), stray)
    assert graph.cleanup(keep=1, confirm=True).bytes_removed == 0
    cleaned(graph)
    assert not stray.exists()


def test_one_table_that_fails_does_not_stop_the_others(graph: og.Graph) -> None:
    aged(graph, 3)
    write(graph, 'insert City { name: "Oslo" }')
    write(graph, 'delete City where name = "Oslo"')
    city = Path(graph.uri, graph.snapshot().manifest.pins["node:City"].path, "_versions")
    head = min(city.glob("*.manifest"))
    content = head.read_bytes()
    head.write_bytes(content[:-40] + b"?" * 36 + content[-4:])
    result = graph.cleanup(keep=1, grace="0s", confirm=True)
    assert [each.table_key for each in result.failed] == ["node:City"]
    stats = {each.table_key: each for each in result.tables}
    assert stats["node:Person"].old_versions_removed > 0
    head.write_bytes(content)
    assert {each.table_key for each in cleaned(graph).tables if each.old_versions_removed} == {"node:City"}


# --- the history ---


def test_the_history_outlives_its_data(graph: og.Graph) -> None:
    aged(graph, 80)
    commits = graph.commits.list()
    cleaned(graph, keep=2)
    for handle in (graph, other_handle(graph)):
        assert handle.commits.list() == commits
        assert handle.commits.show(commits[70].graph_commit_id) == commits[70]
        with pytest.raises(NotFound, match="cleanup has removed it"):
            handle.snapshot_at(commit=commits[70].graph_commit_id)
        with pytest.raises(NotFound, match="cleanup has removed it"):
            handle.snapshot_at(version=64)
        with pytest.raises(NotFound, match="cleanup has removed it"):
            handle.snapshot_at(time=commits[70].created_at)
    assert graph.snapshot_at(time=datetime.now(UTC)).commit == commits[0]
    set_age(graph, 3)
    assert len(graph.commits.list()) == len(commits) + 1


def test_a_feed_says_that_it_has_missed_something(graph: og.Graph) -> None:
    aged(graph, 2)
    cursor = next(graph.changes()).cursor
    aged(graph, 40)
    cleaned(graph)
    with pytest.raises(ChangesGap):
        list(graph.changes(cursor))
    with pytest.raises(ChangesGap):
        list(graph.changes())


def test_nobody_takes_the_gap_for_the_end_of_the_history(graph: og.Graph) -> None:
    aged(graph, 80)
    idle = other_handle(graph)
    head = idle.snapshot().commit
    aged(graph, 80)
    cleaned(graph)
    # A milestone below the gap, which a writer noted that was slow to do so.
    note = Path(graph.uri, "__heads", "main")
    note.write_text("64")
    assert idle.snapshot().commit != head
    for age, handle in enumerate((idle, other_handle(graph)), 81):
        set_age(handle, age)
    assert other_handle(graph).snapshot().commit.manifest_version == 164


def test_a_publisher_that_was_stopped_does_not_publish_into_the_gap(graph: og.Graph) -> None:
    publisher = Branches(location_of(graph.uri, durable=False)).main
    head = publisher.head()
    aged(graph, 10)
    cleaned(graph)
    following = head.after(replace(head.commit, graph_commit_id=new_commit_id()), {})
    with pytest.raises(HeadMoved):
        publisher.append(head, following)
    assert publisher.head() == graph.snapshot().manifest
    assert following.commit not in other_handle(graph).commits.list()
    assert cleaned(graph).tables[-1].old_versions_removed == 0


def test_the_record_of_recoveries_outlives_a_cleanup(
    graph: og.Graph, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omnigraph.maintenance.cleanup.TRUSTED_SECONDS", 0)
    for times in (1, 2):
        assert started(graph, records, "load.after_phase_b=crash").wait() == -signal.SIGKILL
        graph = other_handle(graph)
        cleaned(graph)
        assert len(recoveries(location_of(graph.uri))) == times


def test_a_branch_that_is_deleted_after_a_cleanup_leaves_its_commits(graph: og.Graph) -> None:
    graph.branches.create("b")
    aged(graph, 40, "b")
    graph.merge("b")
    commits = graph.commits.list()
    cleaned(graph)
    graph.branches.delete("b")
    assert graph.commits.list() == commits


# --- killed, on a store, on the command line ---


@pytest.mark.parametrize("point", ["cleanup.decided", "cleanup.versions_removed", "cleanup.versions_removed@2"])
def test_a_cleanup_that_is_killed_is_finished_by_the_next(graph: og.Graph, point: str) -> None:
    aged(graph, 40)
    graph.branches.create("b")
    set_age(graph, 50, "b")
    point = point.replace("@", "=crash@") if "@" in point else f"{point}=crash"
    program = "import sys, omnigraph as og; og.open(sys.argv[1]).cleanup(keep=1, grace='0s', confirm=True)"
    assert running(program, graph.uri, failpoint=point).wait() == -signal.SIGKILL
    for handle in (graph, other_handle(graph)):
        assert (ages(handle)["Ada"], ages(handle, "b")["Ada"]) == (40, 50)
        assert len(handle.commits.list()) == 42
    set_age(graph, 41)
    cleaned(graph)
    assert versions(graph, "nodes") == 5  # one of City, and of Person the newest, that of `b`, and both where it began


def test_cleanup_on_an_object_store(s3_store: Options, s3_uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.init(s3_uri, "node Person { name: String @key, age: I32? }", storage_options=s3_store)
    write(graph, 'insert Person { name: "Ada", age: 1 }')
    graph.branches.create("b")
    set_age(graph, 7, "b")
    for age in range(5):
        set_age(graph, age)
    assert graph.cleanup(keep=1, grace="0s", confirm=True).bytes_removed == 0, "what is young stays on a store"
    monkeypatch.setattr("omnigraph.maintenance.retention.TRUSTED_SECONDS", 0)
    let_files_age(monkeypatch)
    assert cleaned(graph).bytes_removed > 0
    other = og.open(s3_uri, storage_options=s3_store)
    assert (ages(other)["Ada"], ages(other, "b")["Ada"]) == (4, 7)
    set_age(other, 8)
    table = location_of(s3_uri, s3_store).child(other.snapshot().manifest.pins["node:Person"].path)
    assert len(versions_of(files_below(table))[""]) == 3


def test_a_writer_that_was_taken_for_dead_commits_none_of_its_files(
    s3_store: Options, s3_uri: str, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.init(s3_uri, "node Person { name: String @key, age: I32? }", storage_options=s3_store)
    write(graph, 'insert Person { name: "Ada", age: 1 }')
    # It checks no lease before it stops, so it may be slow.
    quick = {"OMNIGRAPH_LEASE_SECONDS": "0.5"}
    child = started(graph, records, "load.table_staged=pause", options=s3_store, **quick)
    try:
        child.wait_until_stopped()
        monkeypatch.setattr("omnigraph.maintenance.retention.TRUSTED_SECONDS", 0)
        let_files_age(monkeypatch)
        assert cleaned(graph).bytes_removed > 0
    finally:
        ended = resumed(child)
    assert ended == 1
    assert ages(og.open(s3_uri, storage_options=s3_store)) == {"Ada": 1}


@pytest.mark.long
def test_a_cleanup_that_was_taken_for_dead_removes_no_fork(s3_store: Options, s3_uri: str) -> None:
    """Its leases are as long as anybody's: it checks them before it stops too, and may be slow then."""
    graph = og.init(s3_uri, "node Person { name: String @key, age: I32? }", storage_options=s3_store)
    write(graph, 'insert Person { name: "Ada", age: 1 }')
    for branch in ("a", "b"):
        graph.branches.create(branch)
        with failpoints.armed("fork.created=error"), pytest.raises(og.StorageError):
            set_age(graph, 5, branch)
    cleaner = running(CLEANER, s3_uri, json.dumps(s3_store), failpoint="fork.classify=pause@2")
    try:
        cleaner.wait_until_stopped()
        place = location_of(s3_uri, s3_store)
        # Or it would begin to wait for one when it has the one before.
        locks_at(place).look(map(unquote, objects_at(place).names(LOCK_FOLDER)))
        set_age(graph, 7, "a")
    finally:
        ended = resumed(cleaner)
    assert ended == 0
    assert ages(og.open(s3_uri, storage_options=s3_store), "a") == {"Ada": 7}


def test_the_command_asks_to_be_confirmed(graph: og.Graph) -> None:
    aged(graph, 5)
    run = CliRunner().invoke
    options = ["cleanup", graph.uri, "--keep", "1", "--grace", "0s"]
    preview = run(app, options)
    assert preview.exit_code == 3
    assert "nothing was removed" in preview.stderr
    done = run(app, [*options, "--confirm"])
    assert done.exit_code == 0
    assert "removed" in done.stdout
    assert run(app, [*options, "--confirm", "--json"]).stdout.startswith('{\n  "confirmed": true')


def test_folders_of_killed_bulk_jobs_go_and_those_of_living_ones_stay(graph: og.Graph) -> None:
    for name in ("dead", "alive"):
        Path(graph.uri, "__bulk", name).mkdir(parents=True)
        Path(graph.uri, "__bulk", name, "rows.arrow").write_bytes(b"x" * 100)
    old, young = str(ULID()), str(ULID.from_datetime(datetime.now(UTC) - timedelta(days=2)))
    for name in (old, young):
        Path(graph.uri, "__incoming", name).mkdir(parents=True)
        Path(graph.uri, "__incoming", name, "rows.arrow").write_bytes(b"x")
    # The age is that of the files: the writer that named the folder may have a clock of its own.
    long_ago = time.time() - timedelta(days=2).total_seconds()
    os.utime(Path(graph.uri, "__incoming", old, "rows.arrow"), (long_ago, long_ago))
    lock = locks_at(location_of(graph.uri).child("__bulk")).take("alive", "bulk work", 0)
    stats = {each.table_key: each for each in cleaned(graph).tables}["leftovers"]
    lock.release()
    assert (stats.bytes_removed, stats.files_removed) == (101, 2)
    assert {path.parent.name for path in Path(graph.uri, "__bulk").rglob("rows.arrow")} == {"alive"}
    assert {path.name for path in Path(graph.uri, "__incoming").iterdir()} == {young}


# --- changes of the schema ---


def test_the_lock_that_a_killed_schema_change_left_goes(graph: og.Graph) -> None:
    location = location_of(graph.uri)
    objects_at(location).replace(SCHEMA_LOCK, b"")
    graph.cleanup(keep=1, grace="0s")
    assert is_schema_locked(location)
    cleaned(graph)
    assert not is_schema_locked(location)
    assert ages(graph) == {"Ada": 1, "Bob": 1}


def test_the_schemas_that_a_graph_has_had_stay(graph: og.Graph) -> None:
    texts = [graph.schema.text]
    for column in ("height", "weight"):
        texts.append(texts[-1].replace("age: I32?", f"age: I32?, {column}: I32?"))
        graph.schema.apply(texts[-1])
    commits = [each.graph_commit_id for each in graph.commits.list()]
    cleaned(graph)
    assert [graph.schema.at(each).text for each in (commits[0], commits[1], commits[-1])] == [*reversed(texts)]


def test_what_a_killed_schema_change_needs_stays_until_it_is_settled(graph: og.Graph) -> None:
    """The tables of types that come are in no manifest yet, and those that get another name have both."""
    text = (
        graph.schema.text.replace("node City", 'node Town @rename_from("City")') + "node Late { name: String @key }\n"
    )
    program = "import sys, omnigraph as og; og.open(sys.argv[1], durability='fast').schema.apply(sys.argv[2])"
    process = running(program, graph.uri, text, failpoint="schema_apply.after_phase_b=crash")
    assert process.wait() == -signal.SIGKILL
    assert len(graph.recoveries.pending()) == 1
    cleaned(graph)
    again = other_handle(graph)
    assert again.recoveries.pending() == []
    assert again.schema.text == text
    write(again, 'insert Late { name: "l" } insert Town { name: "t" }')
    assert [again.snapshot().table(key).count() for key in ("node:Late", "node:Town")] == [1, 1]


def test_a_branch_that_is_deleted_while_cleanup_notes_what_stays_of_it_does_not_end_it(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("short")
    other = og.open(graph.uri)
    retain = ManifestLog.retain

    def deleted_first(log: ManifestLog, retained: Retained) -> None:
        if log.branch == "short":
            other.branches.delete("short")
            raise StorageError(graph.uri, "cannot be written through to the disk")
        retain(log, retained)

    monkeypatch.setattr(ManifestLog, "retain", deleted_first)
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
