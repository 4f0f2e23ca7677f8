"""Status: one screen that says how a graph is and what to do about it, without writing anything."""

import json
import os
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import lance
import omnigraph as og
from omnigraph import failpoints
from omnigraph.api.upkeep import PendingWrite, Status, TableStatus
from omnigraph.failpoints import Point
from omnigraph.maintenance.status import advice_on
from omnigraph.storage.locks import locks_at
from tests.behaviour.people import SCHEMA, files, other_handle, set_age, small_world, write
from tests.behaviour.test_cli import omnigraph_cli
from tests.conftest import carry_rows
from tests.manifest_files import line_of
from tests.stores import Options

PERSON, CITY, KNOWS = "node:Person", "node:City", "edge:Knows"
DAYS = timedelta(days=1).total_seconds()


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return small_world(tmp_path)


def table(status: Status, key: str = PERSON) -> TableStatus:
    return next(each for each in status.tables if each.table_key == key)


def raw(graph: og.Graph, key: str = PERSON) -> lance.LanceDataset:
    return lance.dataset(f"{graph.uri}/{graph.snapshot().manifest.pins[key].path}")


def advice(graph: og.Graph, branch: str = "main") -> str:
    return "\n".join(graph.status(branch).advice)


# --- what it says ---


def test_it_says_where_and_what_the_graph_is(graph: og.Graph) -> None:
    status = graph.status()
    assert (status.uri, status.branch) == (graph.uri, "main")
    assert status.types == {"nodes": ["Person", "City"], "edges": ["Knows"]}
    assert status.head == graph.snapshot().commit
    assert status.commits == len(graph.commits.list()) == 2
    assert status.bytes == sum(Path(graph.uri, file).stat().st_size for file in files(graph, "."))
    assert (status.pending, status.tags, status.leftovers, status.last_recovery) == ((), (), (), None)


@pytest.mark.usefixtures("rows_in_tables")
def test_it_measures_every_table(graph: og.Graph) -> None:
    write(graph, 'insert Person { name: "Cid" }')
    write(graph, 'delete Person where name = "Ada"')
    seen = table(graph.status())
    fragments = raw(graph).get_fragments()
    assert seen.rows == 2
    assert (seen.fragments, seen.small_fragments) == (len(fragments), len(fragments))
    assert seen.deleted_rows == sum(each.num_deletions for each in fragments)
    assert seen.deleted_share == pytest.approx(seen.deleted_rows / (2 + seen.deleted_rows))
    assert 0 < seen.bytes < seen.stored_bytes
    folder = Path(raw(graph).uri)
    assert seen.stored_bytes == sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert not seen.drifted
    assert (table(graph.status(), CITY).rows, table(graph.status(), CITY).deleted_share) == (0, 0.0)


def test_carried_rows_count_and_a_fold_is_no_commit(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    carry_rows(monkeypatch, 512)
    write(graph, 'insert Person { name: "Cid" }')
    write(graph, 'delete Person where name = "Ada"')
    carried = graph.status()
    assert (table(carried).rows, table(carried).carried_rows, table(carried).fragments) == (2, 2, 0)
    graph.optimize()
    folded = graph.status()
    assert (table(folded).rows, table(folded).carried_rows, table(folded).fragments) == (2, 0, 1)
    assert folded.commits == len(graph.commits.list()) == carried.commits + 1
    assert graph.snapshot().manifest.version > folded.commits


def test_it_tells_which_indexes_are_there_missing_or_behind(graph: og.Graph) -> None:
    before = {index.name: index.state.value for index in table(graph.status()).indexes}
    assert before["id_btree"] == "missing"
    assert "omnigraph indexes" in advice(graph)
    assert {index.state.value for index in table(graph.status(), CITY).indexes} == {"pending"}
    graph.ensure_indices()
    after = table(graph.status())
    assert {index.state.value for index in after.indexes} == {"complete"}
    assert advice(graph) == ""


def test_it_says_which_schema_the_graph_and_its_branches_have(graph: og.Graph) -> None:
    graph.branches.create("b")
    graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?, height: I32?"))
    status = graph.status()
    assert (status.schema_number, status.head.schema_id) == (2, graph.schema.at().id)
    assert [(each.schema_number, each.schema_behind) for each in status.branches] == [(2, False), (1, True)]
    document = graph.status("b").as_json()
    assert (document["schema_number"], document["schema_id"]) == (1, graph.schema.at("b").id)
    assert [each["schema_behind"] for each in document["branches"]] == [False, True]
    assert not status.schema_edited
    graph.schema.catch_up("b")
    assert [each.schema_behind for each in graph.status().branches] == [False, False]


def test_a_schema_file_that_was_edited_is_advised_upon_but_not_while_a_schema_is_applied(graph: og.Graph) -> None:
    file = Path(graph.uri, "_schema.pg")
    accepted = file.read_text()
    file.write_text(accepted + "\nnode Late { name: String @key }\n")
    assert graph.status().schema_edited
    assert "_schema.pg was edited by hand: nothing reads it" in advice(graph)
    file.write_text(accepted)
    assert not graph.status().schema_edited
    text = SCHEMA.replace("age: I32?", "age: I32?, height: I32?")
    with failpoints.armed("schema_apply.file_promoted=error"):
        graph.schema.apply(text)
    assert file.read_text() == text, "the first file is there before the failpoint"
    file.write_text(accepted)
    assert not other_reader(graph).status().schema_edited, "whoever completes the change writes the file"
    assert not other_handle(graph).status().schema_edited
    assert file.read_text() == text


def other_reader(graph: og.Graph) -> og.Graph:
    return og.open(graph.uri, "r")


def test_drift_is_seen_and_repair_is_advised(graph: og.Graph) -> None:
    version = graph.snapshot().manifest.pins[PERSON].version
    raw(graph).delete("id = 'Bob'")
    seen = table(graph.status())
    assert (seen.manifest_version, seen.lance_head_version, seen.drifted) == (version, version + 1, True)
    assert f"{PERSON}: something else has committed to it; run `omnigraph repair`" in advice(graph)
    graph.repair(confirm=True, force=True)
    assert not table(graph.status()).drifted


@pytest.mark.usefixtures("rows_in_tables")
def test_drift_of_a_branch_is_its_own(graph: og.Graph) -> None:
    graph.branches.create("b")
    raw(graph).delete("id = 'Bob'")
    assert table(graph.status()).drifted
    assert not table(graph.status("b")).drifted
    set_age(graph, 4, "b")
    pin = graph.snapshot("b").manifest.pins[PERSON]
    lance.dataset(f"{graph.uri}/{pin.path}").delete("id = 'Ada'")
    assert table(graph.status("b")).drifted
    assert "omnigraph repair --branch b" in advice(graph, "b")


def test_writers_at_work_are_not_taken_for_drift(graph: og.Graph) -> None:
    over = threading.Event()
    drifted: list[TableStatus] = []

    def look() -> None:
        reader = og.open(graph.uri, "r")
        while not over.is_set():
            drifted.extend(each for each in reader.status().tables if each.drifted)

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        for age in range(30):
            set_age(graph, age)
    finally:
        over.set()
        watcher.join()
    assert drifted == []


def test_a_table_that_cannot_be_read_does_not_hide_the_others(graph: og.Graph) -> None:
    dataset = raw(graph)
    (Path(dataset.uri) / "_versions" / f"{2**64 - 1 - dataset.version:020}.manifest").unlink()
    status = og.open(graph.uri, "r").status()
    assert table(status).error is not None
    assert table(status).lance_head_version < table(status).manifest_version
    assert table(status, KNOWS).rows == 1
    assert any(line.startswith(f"{PERSON} cannot be read") for line in status.advice)


@pytest.mark.usefixtures("rows_in_tables")
def test_a_write_that_did_not_finish_is_shown_with_its_kind_and_age(graph: og.Graph) -> None:
    with failpoints.armed(f"mutate.table_committed=error;{Point.RECOVERY_BEFORE_RESTORE}=error"):
        with pytest.raises(og.StorageError):
            set_age(graph, 2)
        status = graph.status()
    (pending,) = status.pending
    assert (pending.kind, pending.branch, pending.problem) == ("mutate", "main", None)
    assert pending.started_at is not None
    assert timedelta() <= status.seen_at - pending.started_at < timedelta(minutes=1)
    assert not table(status).drifted
    late = replace(status, seen_at=status.seen_at + timedelta(minutes=5))
    assert "a write began over a minute ago and did not finish: see `omnigraph recovery list`" in advice_on(late)
    reopened = og.open(graph.uri)
    last = reopened.status().last_recovery
    assert last is not None
    assert (last.operation_id, last.recovery_kind.value) == (pending.operation_id, "RolledBack")
    assert reopened.status().pending == ()


def test_a_sidecar_that_nobody_can_read_is_shown_with_its_problem(graph: og.Graph) -> None:
    folder = Path(graph.uri, "__recovery")
    folder.mkdir(exist_ok=True)
    (folder / "01ARZ3NDEKTSV4RRFFQ69G5FAV.json").write_text("?")
    status = og.open(graph.uri, "r").status()
    assert [each.operation_id for each in status.pending] == ["01ARZ3NDEKTSV4RRFFQ69G5FAV"]
    assert "is not a JSON document" in status.advice[0]


def test_branches_are_shown_with_what_only_they_hold(graph: og.Graph) -> None:
    graph.branches.create("shares-all")
    graph.branches.create("writes")
    set_age(graph, 2, "writes")
    set_age(graph, 3)
    status = graph.status()
    found = {each.name: each for each in status.branches}
    assert [*found] == ["main", "shares-all", "writes"]
    assert (found["writes"].ahead, found["writes"].behind) == (1, 1)
    assert found["main"].retained_bytes == 0
    before = status.bytes
    graph.branches.delete("writes")
    archive = sum(file.stat().st_size for file in Path(graph.uri, "__history").iterdir())
    freed = before + archive - graph.status().bytes
    assert 0 < found["shares-all"].retained_bytes < found["writes"].retained_bytes <= freed


def test_an_idle_branch_is_advised_upon_with_its_size(graph: og.Graph) -> None:
    graph.branches.create("b")
    set_age(graph, 2, "b")
    status = graph.status()
    assert advice_on(status) == advice_on(replace(status, seen_at=status.seen_at + timedelta(days=20)))
    late = advice_on(replace(status, seen_at=status.seen_at + timedelta(days=40)))
    assert any(line.startswith("branch b has been idle for 40 days and retains ") for line in late)


def test_tags_are_shown(graph: og.Graph) -> None:
    tag = graph.tags.create("v1")
    assert graph.status().tags == (tag,)


def test_many_old_versions_are_advised_upon(graph: og.Graph) -> None:
    for file in line_of(graph.uri).iterdir():
        os.utime(file, (0, file.stat().st_mtime - 8 * DAYS))
    assert graph.status().old_versions == 1
    status = replace(graph.status(), old_versions=1_234)
    assert "the history holds 1,234 versions older than 7 days; run `omnigraph cleanup --older-than 7d`" in advice_on(
        status
    )


def test_a_history_that_costs_much_more_than_what_can_be_read_is_advised_upon(graph: og.Graph) -> None:
    status = graph.status()
    large = replace(table(status), bytes=2**20, stored_bytes=2**30)
    advised = advice_on(replace(status, tables=(large,)))
    assert "1.0 GiB are stored for 1.0 MiB that can be read now; run `omnigraph cleanup --keep 10`" in advised


def test_many_small_fragments_and_many_deleted_rows_are_advised_upon(graph: og.Graph) -> None:
    status = graph.status()
    line = f"{PERSON}: many small fragments or deleted rows; run `omnigraph optimize`"
    for changes in ({"compactable": 50}, {"rows": 1_000, "deleted_rows": 2_000}):
        seen = replace(table(status), **changes)  # type: ignore[arg-type]
        assert line in advice_on(replace(status, tables=(seen,)))
    assert line not in advice_on(status)


def test_what_killed_jobs_left_is_shown_and_what_live_ones_hold_is_not(graph: og.Graph) -> None:
    live, dead = (Path(graph.uri, "__bulk", name) for name in ("live", "dead"))
    lock = locks_at(graph._session.location.child("__bulk")).take("live", "bulk work", 0)
    for folder in (live, dead):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rows.arrow").write_bytes(b"x" * 100)
    incoming = Path(graph.uri, "__incoming", "old")
    incoming.mkdir(parents=True)
    (incoming / "rows.arrow").write_bytes(b"x")
    try:
        found = {each.path: each.bytes for each in graph.status().leftovers}
    finally:
        lock.release()
    assert found == {"__bulk/dead": 100}
    os.utime(incoming / "rows.arrow", (0, datetime.now(UTC).timestamp() - 2 * DAYS))
    assert "__incoming/old" in {each.path for each in graph.status().leftovers}
    assert "jobs that were killed left" in advice(graph)


# --- how it works ---


def test_it_reads_only(graph: og.Graph) -> None:
    set_age(graph, 2)
    before = files(graph, ".")
    status = og.open(graph.uri, "r").status()
    assert status.head == graph.snapshot().commit
    assert files(graph, ".") == before
    with pytest.raises(og.NotFound):
        graph.status("nowhere")


def test_a_healthy_graph_gets_no_advice(graph: og.Graph) -> None:
    graph.ensure_indices()
    assert graph.status().advice == ()


@pytest.mark.usefixtures("rows_in_tables")
def test_pending_writes_of_other_branches_hide_no_drift(graph: og.Graph) -> None:
    other = other_handle(graph)
    other.branches.create("b")
    raw(graph).delete("id = 'Bob'")
    with failpoints.armed(f"mutate.table_committed=error;{Point.RECOVERY_BEFORE_RESTORE}=error"):
        with pytest.raises(og.StorageError):
            set_age(other, 2, "b")
        status = graph.status()
    assert [each.branch for each in status.pending] == ["b"]
    assert table(status).drifted


def test_it_works_on_an_object_store(s3_store: Options) -> None:
    graph = og.init("s3://bucket/status", SCHEMA, storage_options=s3_store)
    write(graph, 'insert Person { name: "Ada", age: 1 }')
    graph.branches.create("b")
    set_age(graph, 2, "b")
    pin = graph.snapshot().manifest.pins[PERSON]
    lance.dataset(f"{graph.uri}/{pin.path}", storage_options=s3_store).delete("id = 'Ada'")
    status = og.open(graph.uri, "r", storage_options=s3_store).status()
    assert (table(status).rows, table(status).drifted) == (1, True)
    assert status.bytes > table(status).stored_bytes > table(status).bytes > 0
    assert status.branches[1].retained_bytes > 0


def test_the_command_shows_one_screen_or_one_document(graph: og.Graph) -> None:
    graph.branches.create("b")
    graph.tags.create("v1")
    raw(graph).delete("id = 'Bob'")
    shown = omnigraph_cli("status", graph.uri)
    assert shown.returncode == 0
    for words in (PERSON, "tag v1", "advice: ", "omnigraph repair", graph.uri, "│ b "):
        assert words in shown.stdout
    assert len(shown.stdout.splitlines()) < 40
    document = json.loads(omnigraph_cli("status", graph.uri, "--json").stdout)
    assert document["head"] == graph.snapshot().commit.as_json()
    person = next(each for each in document["tables"] if each["table_key"] == PERSON)
    assert (person["drifted"], person["rows"], person["error"]) == (True, 2, None)
    assert document["tags"][0]["name"] == "v1"
    assert document["advice"] == [*graph.status().advice]
    assert json.loads(omnigraph_cli("status", graph.uri, "--branch", "b", "--json").stdout)["branch"] == "b"


def test_a_write_that_has_just_begun_is_no_reason_for_advice(graph: og.Graph) -> None:
    graph.ensure_indices()
    begun = PendingWrite(operation_id="01", kind="load", branch="main", started_at=datetime.now(UTC))
    assert advice_on(replace(graph.status(), pending=(begun,))) == ()
