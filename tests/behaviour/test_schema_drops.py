"""What a schema drops: the history keeps it, unless data loss is allowed; then it is nowhere any more."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import omnigraph as og
from omnigraph import failpoints
from omnigraph.cli.main import app
from omnigraph.errors import ChangesGap, DataStillNeeded, NotFound, StorageError
from omnigraph.storage.compaction import index_segments
from omnigraph.storage.files import files_below
from omnigraph.storage.location import location_of
from omnigraph.storage.objects import objects_at
from omnigraph.versioning.removal import REMOVED
from tests import nursery
from tests.crash.children import SOAKING
from tests.nursery import Child
from tests.stores import Options

SECRET, NOTE, PICTURE = (
    "    secret: String? @index\n",
    "node Note { name: String @key, text: String? }\n",
    "    scan: Blob?\n",
)
SCHEMA = f"""
node Person {{
    name: String @key
    age: I32?
{SECRET}{PICTURE}}}
{NOTE}edge Wrote: Person -> Note {{ how: String? }}
edge Knows: Person -> Person {{ since: I32? }}
"""
WITHOUT_SECRET = SCHEMA.replace(SECRET, "").replace(PICTURE, "")
WITHOUT_NOTES = "\n".join(line for line in SCHEMA.splitlines() if "Note" not in line)
MARKER, MARK = "unforgettable", "indelible"
LOAD = """
import sys
import omnigraph as og
og.open(sys.argv[1], durability="fast").load(sys.argv[2], "append")
"""
APPLY = """
import sys
import omnigraph as og
graph = og.open(sys.argv[1], durability="fast")
graph.schema.apply(sys.argv[2], allow_data_loss=True)
"""


@pytest.fixture
def graph(tmp_path: Path, world: Path) -> og.Graph:
    return og.open(shutil.copytree(world, tmp_path / "graph.omni"), durability="fast")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People with secrets, of which some changed, and notes."""
    folder = tmp_path_factory.mktemp("world") / "graph.omni"
    graph = og.init(folder, SCHEMA, durability="fast")
    for turn in range(3):
        people = [
            {
                "name": f"p{turn}{each}",
                "age": turn,
                "secret": f"{MARKER} {turn}{each}",
                "scan": f"{MARKER}!".encode() * 9,
            }
            for each in range(5)
        ]
        load(graph, Person=people)
    load(graph, Note=[{"name": "n", "text": f"{MARK} text"}])
    write(graph, 'insert Wrote { from: "p00", to: "n", how: "by hand" } insert Knows { from: "p00", to: "p01" }')
    graph.ensure_indices()
    write(graph, f'update Person set {{ secret: "{MARKER} again" }} where name = "p00"')
    return folder


def load(graph: og.Graph, branch: str = "main", **rows: list[dict[str, Any]]) -> None:
    graph.load({name: pa.Table.from_pylist(each) for name, each in rows.items()}, "append", branch=branch)


def write(graph: og.Graph, text: str, branch: str = "main") -> None:
    graph.mutate(f"query q {{ {text} }}", branch=branch)


def secrets(graph: og.Graph, at: Any = None) -> set[str]:
    snapshot = graph.snapshot() if at is None else at
    return set(snapshot.scan("node:Person", columns=["secret"])["secret"].to_pylist())


def places_of(graph: og.Graph, text: str) -> list[str]:
    """The files below the graph that have a text in them."""
    root = Path(graph.uri)
    found = (path for path in root.rglob("*") if path.is_file() and text.encode() in path.read_bytes())
    return sorted(str(path.relative_to(root)) for path in found)


def assert_well(graph: og.Graph) -> None:
    """The graph reads and writes, nothing is pending, and nothing waits for anybody."""
    again = og.open(graph.uri, durability="fast")
    write(again, 'insert Person { name: "later", age: 77 }')
    rows = again.query("query q { match { $p: Person { age: 77 } } return { $p.name as name } }").rows()
    assert rows == [{"name": "later"}]
    status = again.status()
    assert status.pending == ()
    assert [table.table_key for table in status.tables if table.error or table.drifted] == []


# --- the history keeps it ---


def test_what_was_dropped_is_still_in_old_snapshots_and_on_branches(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.branches.create("b")
    result = graph.schema.apply(WITHOUT_SECRET)
    assert result.purged == ()
    assert "secret" not in graph.snapshot().table("node:Person").schema.names
    assert f"{MARKER} again" in secrets(graph, before)
    assert f"{MARKER} again" in secrets(graph, graph.snapshot("b"))
    assert f"{MARKER} again" in secrets(graph, graph.snapshot_at(commit=before.commit_id))


def test_optimize_and_cleanup_remove_what_was_dropped_once_nothing_keeps_it(graph: og.Graph) -> None:
    graph.schema.apply(WITHOUT_SECRET)
    stored = Path(graph.uri) / graph.snapshot().manifest.pins["node:Person"].path
    assert places_of(graph, MARKER)
    graph.cleanup(keep=1, grace="0s", confirm=True)
    assert places_of(graph, MARKER), "the newest version shares its files with those that had the values"
    before = sum(path.stat().st_size for path in (stored / "data").rglob("*") if path.is_file())
    done = graph.optimize()
    assert [each.table_key for each in done.tables if each.committed] == ["node:Person"]
    assert graph.optimize().commit is None
    graph.cleanup(keep=1, grace="0s", confirm=True)
    assert places_of(graph, MARKER) == []
    assert sum(path.stat().st_size for path in (stored / "data").rglob("*") if path.is_file()) < before
    assert graph.snapshot().table("node:Person").count() == 15
    assert_well(graph)


def test_cleanup_keeps_the_table_of_a_dropped_type_as_long_as_a_commit_needs_it(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    graph.schema.apply(WITHOUT_NOTES)
    graph.tags.create("kept", before)
    graph.cleanup(keep=1, grace="0s", confirm=True)
    assert graph.snapshot_at(commit="kept").table("node:Note").count() == 1
    graph.tags.delete("kept")
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    assert places_of(graph, MARK) == []
    with pytest.raises(NotFound):
        graph.snapshot_at(commit=before)
    assert_well(graph)


def test_a_property_that_comes_back_is_another_one(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.schema.apply(WITHOUT_SECRET)
    graph.schema.apply(SCHEMA)
    assert secrets(graph) == {None}
    assert f"{MARKER} again" in secrets(graph, before)
    write(graph, 'update Person set { secret: "fresh" } where name = "p00"')
    graph.optimize()
    assert secrets(graph) == {None, "fresh"}
    assert f"{MARKER} again" in secrets(graph, graph.snapshot_at(commit=before.commit_id))


def test_a_type_that_comes_back_is_another_one(graph: og.Graph) -> None:
    before = graph.snapshot()
    graph.schema.apply(WITHOUT_NOTES)
    graph.schema.apply(SCHEMA)
    assert graph.snapshot().table("node:Note").count() == 0
    assert graph.snapshot_at(commit=before.commit_id).table("node:Note").count() == 1


def test_cleanup_locks_a_renamed_table_by_the_name_that_each_branch_has_for_it(graph: og.Graph) -> None:
    graph.branches.create("b")
    write(graph, 'update Person set { age: 9 } where name = "p00"', "b")
    graph.schema.apply(
        SCHEMA.replace("node Person {", 'node Human @rename_from("Person") {')
        .replace("Person ->", "Human ->")
        .replace("-> Person", "-> Human")
    )
    result = graph.cleanup(keep=1, grace="0s", confirm=True)
    assert result.failed == ()
    assert "node:Human" in [each.table_key for each in result.tables]
    assert graph.snapshot("b").table("node:Person").count() == graph.snapshot().table("node:Human").count() == 15
    write(graph, 'update Person set { age: 10 } where name = "p01"', "b")
    write(graph, 'update Human set { age: 11 } where name = "p02"')


# --- data loss is allowed ---


def test_a_dropped_property_is_nowhere_below_the_graph(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    count = len(graph.commits.list())
    assert places_of(graph, MARKER)
    result = graph.schema.apply(WITHOUT_SECRET, allow_data_loss=True, actor="me")
    assert result.purged == ("node:Person",)
    assert result.as_json()["purged"] == ["node:Person"]
    assert places_of(graph, MARKER) == []
    assert places_of(graph, MARK)
    commits = graph.commits.list()
    assert [(each.message, each.actor) for each in commits[: len(commits) - count]] == [
        ("optimize", "me"),
        ("schema apply", "me"),
    ]
    stored = Path(graph.uri) / graph.snapshot().manifest.pins["node:Person"].path
    assert len([*stored.glob("_versions/*.manifest")]) == 1
    segments = {each.identity for each in index_segments(graph.snapshot().table("node:Person"))}
    assert {folder.name for folder in (stored / "_indices").iterdir()} <= segments
    assert graph.snapshot().table("node:Person").count() == 15
    old = graph.snapshot_at(commit=before)
    with pytest.raises(NotFound) as error:
        old.table("node:Person")
    assert (error.value.name, error.value.hint) == ("node:Person", REMOVED)
    assert old.table("node:Note").count() == 1
    assert_well(graph)


def test_a_dropped_type_is_nowhere_below_the_graph(graph: og.Graph) -> None:
    before = graph.snapshot()
    assert before.table("node:Note").count() == 1
    result = graph.schema.apply(WITHOUT_NOTES, allow_data_loss=True)
    assert result.purged == ("edge:Wrote", "node:Note")
    assert places_of(graph, MARK) == places_of(graph, "by hand") == []
    old = graph.snapshot_at(commit=before.commit_id)
    assert f"{MARKER} again" in secrets(graph, old)
    with pytest.raises(NotFound, match="its data was removed"):
        old.table("node:Note")
    assert_well(graph)


def test_a_renamed_type_that_loses_a_property_loses_its_history(graph: og.Graph) -> None:
    renamed = WITHOUT_SECRET.replace("node Note {", 'node Memo @rename_from("Note") {').replace("-> Note", "-> Memo")
    assert graph.schema.apply(renamed.replace(", text: String?", ""), allow_data_loss=True).purged == (
        "node:Memo",
        "node:Person",
    )
    assert places_of(graph, MARKER) == places_of(graph, MARK) == []
    assert graph.snapshot().table("node:Memo").scan(["id"])["id"].to_pylist() == ["n"]


def test_nothing_is_removed_if_nothing_is_dropped(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    result = graph.schema.apply(SCHEMA.replace("age: I32?", "age: I32?\n    height: I32?"), allow_data_loss=True)
    assert result.purged == ()
    assert f"{MARKER} again" in secrets(graph, graph.snapshot_at(commit=before))


def test_all_that_reads_the_history_says_what_is_missing(graph: og.Graph, tmp_path: Path) -> None:
    before = graph.snapshot().commit_id
    graph.schema.apply(WITHOUT_SECRET, allow_data_loss=True)
    ask = "query q { match { $p: Person } return { $p.name as name } }"
    for read in (
        lambda: graph.query(ask, snapshot=before),
        lambda: graph.entity("Person", "p00", at=before),
        lambda: [*graph.diff(before, "main")],
        lambda: [*graph.commits.changes(before)],
        lambda: graph.export(tmp_path / "out.jsonl", snapshot=before),
        lambda: graph.branches.create("late", before),
    ):
        with pytest.raises(NotFound, match="its data was removed by a schema change that dropped it, or by cleanup"):
            read()
    assert graph.query("query q { match { $n: Note } return { $n.text as text } }", snapshot=before).rows()
    assert [each.name for each in graph.branches.list()] == ["main"]
    with pytest.raises(ChangesGap):
        [change for block in graph.changes() for change in block.changes()]
    *_, last = graph.changes()
    write(graph, 'insert Person { name: "later" }')
    assert [change.id for block in graph.changes(last.cursor) for change in block.changes()] == ["later"]
    assert [change.id for change in graph.diff(2, "main", types=["Note"])] == ["n"]


def test_all_that_tends_the_graph_passes_over_what_is_missing(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    graph.schema.apply(WITHOUT_NOTES.replace(SECRET, ""), allow_data_loss=True)
    graph.tags.create("old", before)
    graph.branches.create("b")
    write(graph, 'insert Person { name: "new" }', "b")
    write(graph, 'update Person set { age: 9 } where name = "p01"')
    graph.merge("b")
    assert graph.snapshot().table("node:Person").count() == 16
    graph.optimize()
    assert graph.cleanup(keep=2, grace="0s", confirm=True).failed == ()
    assert graph.status().tags[0].name == "old"
    assert graph.snapshot_at(commit="old").table("edge:Knows").count() == 1
    graph.branches.delete("b")
    # A tag on what is gone keeps nobody from dropping more.
    more = WITHOUT_NOTES.replace(SECRET, "").replace("    age: I32?\n", "")
    assert graph.schema.apply(more, allow_data_loss=True).purged == ("node:Person",)
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()


def test_it_is_refused_while_a_branch_or_a_tag_has_it(graph: og.Graph) -> None:
    graph.branches.create("b")
    graph.tags.create("t")
    head = graph.snapshot().commit_id
    with pytest.raises(DataStillNeeded) as error:
        graph.schema.apply(WITHOUT_SECRET, allow_data_loss=True)
    assert (error.value.branches, error.value.tags) == (("b",), ("t",))
    assert all(word in str(error.value) for word in ("branch `b`", "tag `t`", "delete"))
    assert graph.snapshot().commit_id == head
    assert graph.schema.text == SCHEMA
    graph.branches.delete("b")
    with pytest.raises(DataStillNeeded) as error:
        graph.schema.apply(WITHOUT_SECRET, allow_data_loss=True)
    assert (error.value.branches, error.value.tags) == ((), ("t",))
    graph.tags.delete("t")
    graph.schema.apply(WITHOUT_SECRET, allow_data_loss=True)
    assert places_of(graph, MARKER) == []


def test_the_command_refuses_with_three_and_says_what_it_removed(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "new.pg").write_text(WITHOUT_SECRET)
    words = [sys.executable, "-m", "omnigraph", "schema", "apply", str(tmp_path / "new.pg"), graph.uri]
    graph.tags.create("t")
    ended = subprocess.run([*words, "--allow-data-loss"], check=False, capture_output=True, text=True)
    assert ended.returncode == 3
    assert "tag `t`" in ended.stderr
    graph.tags.delete("t")
    shown = CliRunner().invoke(app, [*words[3:], "--allow-data-loss"])
    assert shown.exit_code == 0, shown.output
    assert "removed from the history too: node:Person" in shown.output


def test_a_fork_that_a_deleted_branch_left_goes_too(graph: og.Graph) -> None:
    graph.branches.create("b")
    write(graph, f'update Person set {{ secret: "{MARKER} on b" }} where name = "p00"', "b")
    with failpoints.armed("branch.deleted=error"), pytest.raises(StorageError):
        graph.branches.delete("b")
    assert any("/tree/" in place for place in places_of(graph, f"{MARKER} on b"))
    graph.schema.apply(WITHOUT_SECRET, allow_data_loss=True)
    assert places_of(graph, MARKER) == []


def test_an_object_store_gives_young_files_up_too(s3_store: Options, s3_uri: str) -> None:
    graph = og.init(s3_uri, SCHEMA, storage_options=s3_store)
    load(graph, Person=[{"name": "p", "secret": MARKER}], Note=[{"name": "n", "text": MARK}])
    write(graph, f'update Person set {{ secret: "{MARKER} again" }} where name = "p"')
    place = location_of(s3_uri, s3_store)
    found = {each.name for each in files_below(place) if MARKER.encode() in (objects_at(place).read(each.name) or b"")}
    assert len(found) > 1
    assert graph.schema.apply(WITHOUT_SECRET, allow_data_loss=True).purged == ("node:Person",)
    assert found.isdisjoint(each.name for each in files_below(place))
    assert graph.schema.apply(WITHOUT_SECRET.replace(", text: String?", ""), allow_data_loss=True).purged
    left = [each.name for each in files_below(place) if MARK.encode() in (objects_at(place).read(each.name) or b"")]
    assert left == []
    write(graph, 'insert Person { name: "later" }')
    assert graph.snapshot().table("node:Person").count() == 2


def test_what_a_writer_at_work_has_written_is_not_taken_for_history(graph: og.Graph, tmp_path: Path) -> None:
    lines = tmp_path / "more.jsonl"
    lines.write_text('{"type": "Person", "data": {"name": "Eve", "age": 7}}\n')
    with (
        paused("schema_apply.before_purge", APPLY, graph.uri, WITHOUT_SECRET) as purging,
        paused("load.table_staged", LOAD, graph.uri, str(lines)),
    ):
        purging.send_signal(signal.SIGCONT)
        assert purging.wait() == 0
        assert places_of(graph, MARKER) == []
    rows = graph.snapshot().scan("node:Person", columns=["id", "age"]).to_pylist()
    assert {"id": "Eve", "age": 7} in rows
    assert len(rows) == 16


@contextmanager
def paused(failpoint: str, program: str, *arguments: str) -> Iterator[Child]:
    """A process that has stopped at a failpoint, and at the end of the block goes on to its own end."""
    environment = {failpoints.VARIABLE: f"{failpoint}=pause@1"}
    with nursery.started(program, *arguments, environment=environment) as process:
        process.wait_until_stopped()
        yield process
        process.send_signal(signal.SIGCONT)
        assert process.wait() == 0, process.errors


# --- it ends in the middle ---


KILLED = ["optimize.after_phase_b", "schema_apply.before_purge", "schema_apply.table_purged@2"]
if SOAKING:
    KILLED += ["schema_apply.after_phase_d", "optimize.table_staged", "optimize.after_phase_c"]
    KILLED += ["schema_apply.table_purged@1", "schema_apply.table_purged@3"]


@pytest.mark.parametrize("failpoint", KILLED)
def test_killed_after_the_commit_the_graph_is_well_and_others_finish_it(graph: og.Graph, failpoint: str) -> None:
    name, _, time = failpoint.partition("@")
    environment = {failpoints.VARIABLE: f"{name}=crash{f'@{time}' if time else ''}"}
    schema = WITHOUT_NOTES.replace(SECRET, "").replace(PICTURE, "")
    code, errors = nursery.ended(APPLY, graph.uri, schema, environment=environment)
    assert code == -signal.SIGKILL, errors
    again = og.open(graph.uri, durability="fast")
    assert again.schema.text == schema
    assert again.schema.apply(schema, allow_data_loss=True).commit is None
    assert again.snapshot().table("node:Person").count() == 15
    again.optimize()
    assert again.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    assert places_of(again, MARKER) == places_of(again, MARK) == []
    assert_well(again)


@pytest.mark.parametrize(
    "failpoint", ["optimize.after_phase_a", "schema_apply.before_purge", "schema_apply.table_purged"]
)
def test_an_error_after_the_commit_says_that_the_schema_is_there(graph: og.Graph, failpoint: str) -> None:
    with failpoints.armed(f"{failpoint}=error"), pytest.raises(StorageError) as error:
        graph.schema.apply(WITHOUT_SECRET, allow_data_loss=True)
    commit = next(each for each in graph.commits.list() if each.message == "schema apply")
    assert commit.graph_commit_id in "".join(error.value.__notes__)
    assert "omnigraph cleanup" in "".join(error.value.__notes__)
    assert graph.schema.text == WITHOUT_SECRET
    graph.optimize()
    graph.cleanup(keep=1, grace="0s", confirm=True)
    assert places_of(graph, MARKER) == []
    assert_well(graph)
