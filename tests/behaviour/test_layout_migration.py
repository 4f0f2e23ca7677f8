"""A graph that an older version laid out can be read as it is, and whoever writes to it brings it to this version's.

A graph of the fourth layout is not migrated: each write adds a version of the manifest in the layout of today.
"""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import lance
import omnigraph as og
from omnigraph.api.base import MAIN
from omnigraph.api.history import FIRST_SCHEMA, Commit
from omnigraph.storage.location import location_of
from omnigraph.versioning import Branches, Snapshot
from omnigraph.versioning.layout import migrate_layout
from omnigraph.versioning.line import LINES, encode_manifest
from omnigraph.versioning.manifest import LAYOUT, Manifest
from omnigraph.versioning.older_layouts import LanceLine, _manifest_to_rows
from omnigraph.write.sidecar import Sidecar
from tests.crash.children import Children
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.file_damages import Damage, cut, empty, remove
from tests.manifest_files import manifest_file

FIXTURES = Path(__file__).parents[1] / "fixtures"
CLOSED = 4
"""The layout that closes the manifest of an older one: OmniGraph that knows none after the third refuses it."""
# What the graph of the fixture holds at each version of its manifest: names of people, with their ages.
PEOPLE: dict[int, dict[str, int | None]] = {
    1: {},
    2: {"Ada": 36, "Bob": None},
    3: {"Ada": 36, "Bob": None, "Cleo": 20},
    4: {"Ada": 37, "Bob": None, "Cleo": 20},
    5: {"Ada": 37, "Bob": None, "Cleo": 20},
}
ADD = "query add($name: String) { insert Person { name: $name } }"
OPENING = """
import json, sys
import omnigraph as og
from omnigraph import failpoints
job = json.loads(sys.stdin.readline())
with failpoints.armed(job["failpoints"]):
    og.open(job["uri"])
"""


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A graph of the first layout."""
    return unpacked("layout_1", tmp_path)


def unpacked(name: str, folder: Path) -> str:
    """A graph that an older version has written."""
    with tarfile.open(FIXTURES / f"{name}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return str(folder / f"{name}.omni")


def contents(folder: str) -> dict[str, bytes | None]:
    """Every path below a folder; files with their bytes. Locks say who held them last, and when."""
    root = Path(folder)
    found = (path for path in root.rglob("*") if path.parent != root / "__locks")
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in found}


def people(graph: og.Graph, at: Snapshot | None = None) -> dict[str, int | None]:
    """The people of a snapshot, read through a query."""
    asked = "query all { match { $p: Person } return { $p.name as name $p.age as age } }"
    return {row["name"]: row["age"] for row in graph.query(asked, snapshot=at).rows()}


def layout_of(graph: og.Graph, branch: str = MAIN) -> int:
    """The layout of the newest manifest of a branch."""
    log = Branches(location_of(graph.uri)).log(branch)
    return log.line.layout(log.head().version) if isinstance(log.line, LanceLine) else LAYOUT


def closing_stamp(uri: str) -> int:
    """The layout that older versions of OmniGraph find in the newest version of their manifest."""
    metadata = lance.dataset(f"{uri}/__manifest").schema.metadata or {}
    return int(metadata[b"omnigraph:internal_schema_version"])


def assert_sound(graph: og.Graph) -> None:
    """Nothing is lost, and the history is one line."""
    assert_history_is_linear(graph)
    assert_heads_are_pinned(graph)
    for version, expected in PEOPLE.items():
        snapshot = graph.snapshot_at(version=version)
        assert people(graph, snapshot) == expected
        assert graph.schema.at(snapshot).id == FIRST_SCHEMA


# --- reading ---


def test_a_graph_of_the_first_layout_is_read_whole_and_left_alone(uri: str) -> None:
    before = contents(uri)
    graph = og.open(uri, "r")
    assert layout_of(graph) == 1
    assert_sound(graph)
    assert people(graph) == PEOPLE[5]
    assert graph.entity("Company", "Acme") == {"id": "Acme", "name": "Acme"}
    assert people(graph, graph.snapshot_at(commit="first")) == PEOPLE[2]
    assert [commit.message for commit in graph.commits.list()][-1] == "init"
    assert graph.schema.text == (Path(uri) / "_schema.pg").read_text("utf-8")
    assert (graph.schema.at().id, graph.schema.at().number) == (FIRST_SCHEMA, 1)
    assert graph.schema.at("first").text == graph.schema.text
    assert [change.id for change in graph.diff(3, 4)] == ["Ada"]
    assert graph.status().head.manifest_version == 5
    lines = graph.export()
    assert not isinstance(lines, int)
    assert len([*lines]) == 6
    assert contents(uri) == before


def test_it_is_not_migrated_by_whoever_may_only_read(uri: str) -> None:
    before = contents(uri)
    graph = og.open(uri, "r")
    with pytest.raises(og.UsageError, match="opened for reading"):
        graph.mutate(ADD, params={"name": "Dan"})
    with pytest.raises(og.UsageError, match="opened for reading"):
        graph.schema.apply(graph.schema.text + "node Extra { name: String @key }")
    assert contents(uri) == before


# --- migrating ---


def test_the_first_opening_for_writing_migrates_it_without_a_commit(uri: str) -> None:
    text = (Path(uri) / "_schema.pg").read_text("utf-8")
    before = og.open(uri, "r").commits.list()
    graph = og.open(uri)
    assert graph.commits.list() == before
    assert layout_of(graph) == LAYOUT
    kept = json.loads((Path(uri) / "__schemas" / f"{FIRST_SCHEMA}.json").read_text("utf-8"))
    assert kept["schema"] == text
    assert_sound(graph)
    assert people(graph) == PEOPLE[5]


def test_older_versions_of_omnigraph_refuse_a_migrated_graph(uri: str) -> None:
    old = LanceLine(location_of(uri), MAIN)
    newest = old.read(5)
    assert newest is not None
    og.open(uri)
    assert closing_stamp(uri) == CLOSED
    assert old.is_closed()
    assert not old.close(newest)  # nobody can add a version after the one that an older writer knows


def test_it_is_migrated_once(uri: str) -> None:
    og.open(uri)
    before = contents(uri)
    graph = og.open(uri)
    assert contents(uri) == before
    graph.mutate(ADD, params={"name": "Dan"})
    assert people(og.open(uri)) == {**PEOPLE[5], "Dan": None}


def test_a_preview_of_a_cleanup_reads_the_old_layout_as_it_is(uri: str) -> None:
    before = contents(uri)
    preview = og.open(uri, "r").cleanup(keep=1, grace="0s")
    assert preview.failed == ()
    assert preview.bytes_removed > 0
    assert contents(uri) == before


def test_a_handle_that_reads_the_old_layout_notices_a_migration(uri: str) -> None:
    reader = og.open(uri, "r")
    assert people(reader) == PEOPLE[5]
    log = Branches(location_of(uri)).main
    assert log.head().version == 5
    og.open(uri).mutate(ADD, params={"name": "Dan"})
    assert log.head().version == 5
    assert people(reader) == people(og.open(uri, "r")) == {**PEOPLE[5], "Dan": None}


@pytest.mark.parametrize("damage", [cut, empty, remove])
def test_the_old_layout_is_not_read_again_when_the_first_version_of_the_new_one_is_damaged(
    uri: str, damage: Damage
) -> None:
    og.open(uri).mutate(ADD, params={"name": "Dan"})
    damage(manifest_file(uri, 1))
    for mode in ("r", "rw"):
        assert people(og.open(uri, mode)) == {**PEOPLE[5], "Dan": None}
    with pytest.raises(og.Damaged, match="version 1 of the manifest"):
        og.open(uri).snapshot_at(version=1)


def test_a_migrated_graph_can_do_all_that_a_new_one_can(uri: str) -> None:
    graph = og.open(uri)
    first = graph.schema.text
    graph.branches.create("side")
    graph.mutate(ADD, params={"name": "Dan"}, branch="side")
    renamed = first.replace("Person", "Human").replace("node Human", 'node Human @rename_from("Person")')
    applied = graph.schema.apply(renamed)
    assert applied.schema.number == 2
    assert graph.schema.at("side").id == FIRST_SCHEMA
    graph.schema.catch_up("side")
    graph.merge("side")
    names = graph.query("query all { match { $p: Human } return { $p.name as name } }").rows()
    assert {row["name"] for row in names} == {*PEOPLE[5], "Dan"}
    assert_sound(graph)
    graph.branches.delete("side")
    graph.optimize()
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    assert closing_stamp(uri) == CLOSED
    assert len([*Path(uri, "__manifest", "_versions").glob("*.manifest")]) == 1
    reopened = og.open(uri)
    assert reopened.entity("Human", "Dan") is not None
    assert people(reopened, reopened.snapshot_at(commit="first")) == PEOPLE[2]
    assert reopened.schema.at("first").text == first
    assert_history_is_linear(reopened)


def test_the_first_schema_is_known_although_the_files_have_another(uri: str) -> None:
    graph = og.open(uri)
    first = graph.schema.text
    graph.schema.apply(first + "node Extra { name: String @key }")
    reopened = og.open(uri, "r")
    assert "Extra" in (Path(uri) / "_schema.pg").read_text("utf-8")
    assert reopened.schema.at(1).text == first
    assert_sound(reopened)


def test_a_branch_begins_on_an_old_commit(uri: str) -> None:
    graph = og.open(uri)
    graph.branches.create("old", "first")
    assert people(graph, graph.snapshot("old")) == PEOPLE[2]
    graph.mutate(ADD, params={"name": "Dan"}, branch="old", actor="ada")
    assert [commit.actor for commit in graph.commits.list("old", 1)] == ["ada"]
    graph.merge("old")
    assert people(graph) == {**PEOPLE[5], "Dan": None}
    assert_history_is_linear(graph)


# --- layouts of the future ---


def _raise_layout(graph: og.Graph) -> None:
    """Writes what a later version of OmniGraph might: the next version of the manifest, with a layout of its own."""
    log = Branches(location_of(graph.uri)).main
    head = log.head()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.versioning.line.LAYOUT", LAYOUT + 1)
        content = encode_manifest(head.after(head.commit, {}))
    Path(log.location.uri, log.line.file(head.version + 1)).write_bytes(content)


@pytest.mark.parametrize("mode", ["r", "rw"])
def test_a_graph_of_a_newer_version_is_refused(uri: str, mode: Any) -> None:
    _raise_layout(og.open(uri))
    before = contents(uri)
    with pytest.raises(og.StorageError, match="upgrade omnigraph first"):
        og.open(uri, mode).snapshot()
    assert contents(uri) == before


def test_a_graph_that_a_newer_version_takes_over_is_refused_from_then_on(uri: str) -> None:
    graph = og.open(uri)
    text = graph.schema.text
    _raise_layout(graph)
    with pytest.raises(og.StorageError, match="upgrade omnigraph first"):
        graph.snapshot()
    with pytest.raises(og.StorageError, match="upgrade omnigraph first"):
        graph.mutate(ADD, params={"name": "Dan"})
    with pytest.raises(og.StorageError, match="upgrade omnigraph first"):
        graph.schema.apply(text + "node Extra { name: String @key }")


def test_an_old_manifest_of_a_newer_version_is_refused(uri: str) -> None:
    metadata: dict[str, str | None] = {"omnigraph:internal_schema_version": str(LAYOUT + 1)}
    lance.dataset(f"{uri}/__manifest").update_schema_metadata(metadata)
    with pytest.raises(og.StorageError, match="upgrade omnigraph first"):
        og.open(uri)


# --- migrations that are cut short, and several at once ---


MOMENTS = ["layout.version_copied", "layout.version_copied@3", "layout.line_closed"]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_migration_is_done_by_the_next_one(
    uri: str, moment: str, record_property: Callable[[str, object], None]
) -> None:
    name, _, at = moment.partition("@")
    code, errors = Children(OPENING).ended(uri=uri, failpoints=f"{name}=crash{f'@{at}' if at else ''}")
    assert code == -signal.SIGKILL, errors
    seen = og.open(uri, "r")
    assert people(seen) == PEOPLE[5]
    assert layout_of(seen) == 1
    graph = og.open(uri)
    assert layout_of(graph) == LAYOUT
    assert_sound(graph)
    graph.mutate(ADD, params={"name": "Dan"})
    assert people(og.open(uri)) == {**PEOPLE[5], "Dan": None}
    record_property("kills", 1)


def test_processes_that_migrate_at_once_agree(uri: str) -> None:
    with Children(OPENING).next() as one, Children(OPENING).next() as other:
        for child in (one, other):
            child.tell(uri=uri, failpoints="")
        ended = [child.communicate() for child in (one, other)]
    assert [errors for _, errors in ended] == [""] * 2
    graph = og.open(uri)
    assert len(graph.commits.list()) == 5
    assert_sound(graph)


def test_what_an_older_writer_adds_before_the_line_is_closed_is_copied_too(uri: str) -> None:
    location = location_of(uri)
    branches = Branches(location)
    read = LanceLine.versions
    added: list[int] = []

    def add_meanwhile(line: LanceLine) -> list[int]:
        """The versions, before another writer adds one."""
        found = read(line)
        if not added:
            table = lance.dataset(line.location.uri)
            added.append(table.version + 1)
            head = line.read(table.version)
            assert head is not None
            parent = head.commit.graph_commit_id
            commit = replace(
                head.commit, manifest_version=added[0], graph_commit_id="later", parent_commit_id=parent, generation=99
            )
            rows = _manifest_to_rows(Manifest(added[0], head.pins, (*head.commits, commit)))
            metadata = {**(rows.schema.metadata or {}), b"omnigraph:internal_schema_version": b"3"}
            lance.write_dataset(rows.replace_schema_metadata(metadata), line.location.uri, mode="overwrite")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanceLine, "versions", add_meanwhile)
        migrate_layout(branches)
    assert next(commit.graph_commit_id for commit in og.open(uri, "r").commits.list()) == "later"


# --- the second layout: schemas are kept, and nothing has a checksum ---


@pytest.fixture
def second(tmp_path: Path) -> str:
    """A graph of the second layout: two schemas, a tag, and a cleanup that has removed the first version."""
    return unpacked("layout_2", tmp_path)


def test_a_graph_of_the_second_layout_is_read_as_it_is(second: str) -> None:
    before = contents(second)
    graph = og.open(second, "r")
    assert layout_of(graph) == 2
    assert people(graph) == {"Ada": 37, "Bob": None, "Cleo": 20}
    assert people(graph, graph.snapshot_at(commit="first")) == {"Ada": 36, "Bob": None}
    assert [commit.message for commit in graph.commits.list()] == [
        "a",
        "schema apply",
        "a",
        "load Person, Company",
        "init",
    ]
    assert not graph.snapshot().manifest.verified
    with pytest.raises(og.NotFound, match="cleanup has removed it"):
        graph.snapshot_at(version=1)
    assert contents(second) == before


def test_a_graph_of_the_second_layout_gets_checksums_when_it_is_opened_for_writing(second: str) -> None:
    graph = og.open(second)
    assert graph.snapshot().manifest.verified
    assert not (Path(second) / "__schemas" / f"{FIRST_SCHEMA}.json").exists()
    assert graph.schema.at().number == 2
    assert graph.schema.at("first").number == 1
    graph.mutate(ADD, params={"name": "Dan"})
    assert people(og.open(second)) == {"Ada": 37, "Bob": None, "Cleo": 20, "Dan": None}
    assert_history_is_linear(graph)


# --- the third layout: branches, tags, and the archive of a branch that is gone ---

BUILT_AT = f"/tmp/fx/{'p' * 178}/layout_3.omni"  # noqa: S108 - no longer there
"""The folder in which the graph was built. Lance branches name it, so it is replaced by a path that is as long."""
ON_BRANCHES: dict[str, dict[str, int | None]] = {
    "main": {"Ada": 37, "Bob": None, "Eve": 1},
    "review/1": {"Ada": 36, "Bob": None, "Cleo": 20},
    "nested": {"Ada": 36, "Cleo": 20, "Dora": None},
    "unwritten": {"Ada": 37, "Bob": None, "Eve": 1},
}


@pytest.fixture
def third(tmp_path: Path) -> str:
    """A graph of the third layout, with branches."""
    folder = tmp_path / ("p" * (len(BUILT_AT) - len(str(tmp_path)) - len("//layout_3.omni")))
    folder.mkdir()
    uri = unpacked("layout_3", folder)
    assert len(uri) == len(BUILT_AT)
    for path in Path(uri).rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(BUILT_AT.encode(), uri.encode()))
    return uri


def people_on(graph: og.Graph) -> dict[str, dict[str, int | None]]:
    """The people of each branch."""
    return {branch.name: people(graph, graph.snapshot(branch.name)) for branch in graph.branches.list()}


def history_of(graph: og.Graph) -> dict[str, list[Commit]]:
    """The commits of each branch."""
    return {branch.name: graph.commits.list(branch.name) for branch in graph.branches.list()}


def test_branches_of_the_third_layout_are_read_as_they_are(third: str) -> None:
    before = contents(third)
    graph = og.open(third, "r")
    assert people_on(graph) == ON_BRANCHES
    assert [commit.message for commit in graph.commits.list()] == ["e", "merge gone", "d", "a", "init"]
    assert contents(third) == before


def test_branches_are_migrated_with_their_history(third: str) -> None:
    before = history_of(og.open(third, "r"))
    graph = og.open(third)
    assert layout_of(graph, "nested") == LAYOUT
    assert history_of(graph) == before
    assert people_on(graph) == ON_BRANCHES
    assert people(graph, graph.snapshot_at(commit="first")) == {"Ada": 36, "Bob": None}
    for name in ON_BRANCHES:
        graph.mutate(ADD, params={"name": "Dan"}, branch=name)
    graph.merge("nested", into="review/1")
    graph.branches.delete("nested")
    graph.merge("review/1")
    assert people(graph) == {"Ada": 37, "Cleo": 20, "Dan": None, "Dora": None, "Eve": 1}
    assert graph.verify(data=True).whole
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    assert people(og.open(third)) == {"Ada": 37, "Cleo": 20, "Dan": None, "Dora": None, "Eve": 1}


@pytest.mark.parametrize("moment", ["layout.version_copied@2", "layout.version_copied@5", "layout.line_closed@2"])
def test_a_migration_that_is_killed_between_branches_is_done_by_the_next_one(
    third: str, moment: str, record_property: Callable[[str, object], None]
) -> None:
    before = history_of(og.open(third, "r"))
    name, _, at = moment.partition("@")
    code, errors = Children(OPENING).ended(uri=third, failpoints=f"{name}=crash@{at}")
    assert code == -signal.SIGKILL, errors
    assert people_on(og.open(third, "r")) == ON_BRANCHES
    graph = og.open(third)
    assert people_on(graph) == ON_BRANCHES
    assert history_of(graph) == before
    record_property("kills", 1)


# --- the fourth layout: nothing is carried, and versions of the manifest do not say when a table changed ---

IN_FOURTH: dict[int, dict[str, int | None]] = {
    1: {},
    2: {"Ada": 36, "Bob": None},
    3: {"Ada": 36, "Bob": None, "Cleo": 20},
    4: {"Ada": 37, "Bob": None, "Cleo": 20},
    5: {"Ada": 37, "Bob": None, "Cleo": 20},
    6: {"Ada": 37, "Cleo": 20},
}
BEFORE = "d08f652"
"""The last commit of this repository that wrote the fourth layout."""
READ_AND_WRITE = """
import sys
import omnigraph as og
for mode in ("r", "rw"):
    try:
        og.open(sys.argv[1], mode).entity("Person", "Ada")
    except og.StorageError as error:
        print(error)
"""


@pytest.fixture
def fourth(tmp_path: Path) -> str:
    """A graph of the fourth layout: a branch, a tag, indexes, and a write that died before it was published."""
    return unpacked("layout_4", tmp_path)


def layouts(uri: str, line: str = "main") -> list[int]:
    """The layout of each version of the manifest of a branch."""
    files = sorted(Path(uri, LINES, line).glob("*.jsonl"))
    return [json.loads(file.read_bytes().partition(b"\n")[0])["layout"] for file in files]


def test_a_graph_of_the_fourth_layout_is_read_as_it_is(fourth: str) -> None:
    before = contents(fourth)
    graph = og.open(fourth, "r")
    for version, expected in IN_FOURTH.items():
        assert people(graph, graph.snapshot_at(version=version)) == expected
    assert people(graph, graph.snapshot("side")) == IN_FOURTH[5]
    assert people(graph, graph.snapshot_at(commit="first")) == IN_FOURTH[2]
    assert [commit.message for commit in graph.commits.list()] == ["a", "indexes", "a", "a", "a", "init"]
    assert [(each.kind, each.id) for each in graph.diff(3, 6)] == [
        ("update", "Ada"),
        ("delete", "Bob"),
        ("delete", "k2"),
    ]
    (pending,) = graph.recoveries.pending()
    assert isinstance(pending, Sidecar)
    assert (pending.kind, pending.actor, pending.is_commit) == ("mutate", "ada", True)
    assert contents(fourth) == before


def test_a_graph_of_the_fourth_layout_is_written_directly(fourth: str) -> None:
    graph = og.open(fourth)
    (completed,) = graph.recoveries.list()
    assert completed.recovery_kind == "RolledForward"
    expected = {**IN_FOURTH[6], "Dora": 5}
    assert people(graph) == expected
    graph.mutate(ADD, params={"name": "Eve"})
    graph.mutate('query q { insert Knows { from: "Eve", to: "Ada" } delete Person where name = "Cleo" }')
    expected = {"Ada": 37, "Dora": 5, "Eve": None}
    assert people(og.open(fourth)) == expected
    assert graph.snapshot().table("node:Person").deltas
    assert layouts(fourth) == [4] * 6 + [LAYOUT] * 3
    graph.mutate(ADD, params={"name": "Fay"}, branch="side")
    graph.merge("side")
    expected = {**expected, "Fay": None}
    assert people(graph) == expected
    graph.optimize()
    assert not any(graph.snapshot().table(key).deltas for key in graph.snapshot().manifest.pins)
    assert people(graph) == expected
    for version, earlier in IN_FOURTH.items():
        assert people(graph, graph.snapshot_at(version=version)) == earlier
    assert_history_is_linear(graph)
    assert_heads_are_pinned(graph)
    assert graph.verify(data=True).whole
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    assert people(og.open(fourth)) == expected


def test_a_graph_of_the_fifth_layout_is_read_as_it_is_and_written_directly(tmp_path: Path) -> None:
    """It has rows that the manifest carries, and no stored queries."""
    fifth = unpacked("layout_5", tmp_path)
    before = contents(fifth)
    read = og.open(fifth, "r")
    assert (people(read), people(read, read.snapshot("side"))) == (
        {"Ada": 37, "Bob": None},
        {"Ada": 36, "Bob": None, "Cleo": 20},
    )
    assert people(read, read.snapshot_at(commit="first")) == {"Ada": 36, "Bob": None}
    assert read.queries.list() == []
    assert contents(fifth) == before
    graph = og.open(fifth)
    graph.queries.add("query people { match { $p: Person } return { count($p) as n } }", branch="side")
    assert {*layouts(fifth)} == {5}
    graph.merge("side")
    assert layouts(fifth)[-1] == LAYOUT
    assert graph.call("people").rows() == [{"n": 3}]
    assert graph.queries.list("first") == []
    assert graph.verify(data=True).whole


def test_a_write_on_a_branch_leaves_others_in_the_fourth_layout(fourth: str) -> None:
    og.open(fourth).mutate(ADD, params={"name": "Fay"}, branch="side")
    (line,) = (path.name for path in Path(fourth, LINES).iterdir() if path.name != "main")
    assert layouts(fourth, line) == [4, LAYOUT]
    assert layouts(fourth) == [4] * 6 + [LAYOUT]  # the write that was completed


def test_the_release_before_refuses_what_was_written(fourth: str, tmp_path: Path) -> None:
    repository = Path(__file__).parents[2]
    git = shutil.which("git") or "false"
    archive = subprocess.run([git, "archive", BEFORE, "src"], cwd=repository, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"the history of this repository does not have commit {BEFORE}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as sources:
        sources.extractall(tmp_path / "before", filter="data")
    og.open(fourth).mutate(ADD, params={"name": "Eve"})
    before = contents(fourth)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "before" / "src")}
    command = [sys.executable, "-W", "ignore", "-c", READ_AND_WRITE, fourth]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count(f"newer version (layout {LAYOUT}); upgrade omnigraph first") == 2
    assert contents(fourth) == before
