"""The line of manifests of a branch: one writer gets each number, and what was interrupted never counts."""

import json
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.errors import HeadMoved
from omnigraph.failpoints import Point
from omnigraph.storage.location import location_of
from omnigraph.storage.objects import objects_at
from omnigraph.versioning import Branches, Manifest, ManifestLog, new_commit_id
from omnigraph.versioning.line import LINES, FileLine, line_folder, version_name
from tests import nursery
from tests.behaviour.people import ages, names, other_handle, set_age, small_world
from tests.manifest_files import line_of, manifest_file, newest_manifest, ref_file
from tests.stores import Fault, FaultyProxy, Options
from tests.unit.versioning.test_line import numbered

# All wait until the file is there, so that they begin at once.
RACER = """
import sys, time
from pathlib import Path
from omnigraph.storage.location import location_of
from omnigraph.versioning.line import FileLine
from tests.unit.versioning.test_line import numbered
root, name = sys.argv[1:]
Path(root, "ready." + name).touch()
while not Path(root, "go").exists():
    time.sleep(0.001)
line = FileLine(location_of(root), "main", "")
won = [version for version in range(1, 21) if line.create(version, numbered(version, name))]
Path(root, "won." + name).write_text(repr(won))
"""
KILLED_BEFORE_THE_LINK = """
import os, sys, signal
import omnigraph as og
graph = og.open(sys.argv[1])
def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
link = os.link
os.link = lambda source, target: killed() if sys.argv[2] in str(target) else link(source, target)
if sys.argv[2].endswith("branches"):
    graph.branches.create("b")
graph.mutate('query q { update Person set { age: 7 } where name = "Ada" }')
"""
SCHEMA = "node Person { name: String @key }"
ADD = "query add($name: String) { insert Person { name: $name } }"
NAMES = "query names { match { $p: Person } return { $p.name as name } order { $p.name asc } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return small_world(tmp_path)


def after(head: Manifest) -> Manifest:
    """The next version, by a writer of its own."""
    return head.after(replace(head.commit, graph_commit_id=new_commit_id()), {})


def publisher_of(graph: og.Graph, branch: str = "main") -> ManifestLog:
    """The line as another process sees it."""
    return Branches(location_of(graph.uri, durable=False)).log(branch)


# --- one number, one writer ---


def test_of_many_processes_one_creates_a_version(tmp_path: Path) -> None:
    writers = ["a", "b", "c", "d"]
    children = [nursery.started(RACER, str(tmp_path), name) for name in writers]
    while not all((tmp_path / f"ready.{name}").exists() for name in writers):
        assert all(child.poll() is None for child in children)
        time.sleep(0.01)
    (tmp_path / "go").touch()
    assert [child.wait() for child in children] == [0] * len(writers)
    won = {name: json.loads((tmp_path / f"won.{name}").read_text()) for name in writers}
    assert sorted(version for each in won.values() for version in each) == [*range(1, 21)]
    line = FileLine(location_of(tmp_path), "main", "")
    for name, versions in won.items():
        assert [line.read(version) for version in versions] == [numbered(each, name) for each in versions]


def test_a_publisher_whose_base_is_not_the_newest_changes_nothing(graph: og.Graph) -> None:
    late = publisher_of(graph)
    base = late.head()
    set_age(graph, 2)
    newest = newest_manifest(graph.uri)
    content = newest.read_bytes()
    with pytest.raises(HeadMoved):
        late.append(base, after(base))
    assert newest_manifest(graph.uri) == newest
    assert newest.read_bytes() == content


# --- what a killed writer leaves ---


@pytest.mark.parametrize("folder", ["lines", "branches"])
def test_a_draft_of_a_killed_writer_is_ignored_and_removed_by_cleanup(graph: og.Graph, folder: str) -> None:
    code, errors = nursery.ended(KILLED_BEFORE_THE_LINK, graph.uri, f"__manifest/{folder}")
    assert code == -signal.SIGKILL, errors
    drafts = [*Path(graph.uri, "__manifest").rglob(".draft-*")]
    assert len(drafts) == 1
    assert ages(og.open(graph.uri, "r")) == {"Ada": 1, "Bob": 1}
    again = other_handle(graph)
    assert names(again) == ["main"]
    set_age(again, 8)
    again.cleanup(keep=100, confirm=True)
    assert drafts[0].exists(), "it is younger than the grace"
    preview = again.cleanup(keep=100, grace="0s")
    assert drafts[0].exists()
    result = again.cleanup(keep=100, grace="0s", confirm=True)
    assert not [*Path(graph.uri, "__manifest").rglob(".draft-*")]
    assert preview.tables[-1].files_removed == result.tables[-1].files_removed > 0
    assert ages(other_handle(graph)) == {"Ada": 8, "Bob": 1}


def test_files_that_are_not_versions_are_ignored(graph: og.Graph) -> None:
    content = newest_manifest(graph.uri).read_bytes()
    for name in ("notes.txt", "3.jsonl", f"{version_name(3)}.bak", f".draft-{version_name(3)}"):
        (line_of(graph.uri) / name).write_bytes(content)
    assert other_handle(graph).snapshot().manifest.version == 2
    assert set_age(other_handle(graph), 2).manifest_version == 3
    assert graph.verify().damage == ()


# --- publishers that were stopped ---


def test_a_publisher_that_is_killed_in_the_gap_leaves_nothing_that_is_read(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its version is there, below what cleanup has kept, where it would be taken back a moment later."""
    late = publisher_of(graph)
    base = late.head()
    commits = [set_age(graph, age) for age in range(2, 12)]
    graph.cleanup(keep=1, grace="0s", confirm=True)
    monkeypatch.setattr(ManifestLog, "_take_back", lambda *_: None)
    with pytest.raises(HeadMoved):
        late.append(base, after(base))
    monkeypatch.undo()
    assert manifest_file(graph.uri, base.version + 1).exists()
    for handle in (graph, other_handle(graph)):
        assert handle.snapshot().commit == commits[-1]
        assert handle.commits.list()[:10] == commits[::-1]
        with pytest.raises(og.NotFound, match="cleanup has removed it"):
            handle.snapshot_at(version=base.version + 1)
    assert publisher_of(graph).commits_to(base.version + 1)[-1] == commits[0]
    assert set_age(other_handle(graph), 20).manifest_version == commits[-1].manifest_version + 1
    graph.cleanup(keep=1, grace="0s", confirm=True)
    assert not manifest_file(graph.uri, base.version + 1).exists()


@pytest.mark.parametrize("again", [False, True], ids=["gone", "created again"])
@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
def test_a_publisher_never_publishes_on_a_branch_that_was_deleted(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, again: bool, killed: bool
) -> None:
    graph.branches.create("b")
    set_age(graph, 2, "b")
    late, line = publisher_of(graph, "b"), line_of(graph.uri, "b")
    base = late.head()
    graph.branches.delete("b")
    assert not line.exists()
    if again:
        graph.branches.create("b")
    if killed:
        monkeypatch.setattr(ManifestLog, "_take_back", lambda *_: None)
    with pytest.raises(og.NotFound, match="deleted"):
        late.append(base, after(base))
    monkeypatch.undo()
    assert len([*line.iterdir()]) == killed
    assert names(other_handle(graph)) == (["main", "b"] if again else ["main"])
    if not again:
        graph.branches.create("b")
    assert ages(other_handle(graph), "b") == {"Ada": 1, "Bob": 1}
    set_age(graph, 3, "b")
    graph.cleanup(keep=100, grace="0s", confirm=True)
    assert not line.exists()
    assert ages(other_handle(graph), "b") == {"Ada": 3, "Bob": 1}


# --- branches that were interrupted ---


@pytest.mark.parametrize("point", [Point.BRANCH_LINE_CREATED, Point.BRANCH_CREATED])
def test_a_killed_creation_leaves_a_branch_or_a_line_that_cleanup_removes(graph: og.Graph, point: Point) -> None:
    program = """import sys, omnigraph as og
from omnigraph import failpoints
with failpoints.armed(sys.argv[2] + "=crash"):
    og.open(sys.argv[1]).branches.create("b")"""
    assert nursery.ended(program, graph.uri, point)[0] == -signal.SIGKILL
    is_made = point is Point.BRANCH_CREATED
    (line,) = Path(graph.uri, LINES).glob("b.*")
    assert names(other_handle(graph)) == (["main", "b"] if is_made else ["main"])
    other_handle(graph).cleanup(keep=1, grace="0s", confirm=True)
    assert line.exists() == is_made
    if not is_made:
        graph.branches.create("b")
    set_age(graph, 4, "b")
    assert ages(other_handle(graph), "b")["Ada"] == 4


def test_a_killed_deletion_is_a_deletion(graph: og.Graph) -> None:
    """The process ends after the ref is gone, and before the line and the notes are."""
    graph.branches.create("b")
    set_age(graph, 2, "b")
    line = line_of(graph.uri, "b")
    program = """import os, signal, sys, omnigraph as og
from omnigraph.versioning.refs import FileRefs
delete = FileRefs.delete
def killed(refs, physical):
    delete(refs, physical)
    os.kill(os.getpid(), signal.SIGKILL)
FileRefs.delete = killed
og.open(sys.argv[1]).branches.delete("b")"""
    assert nursery.ended(program, graph.uri)[0] == -signal.SIGKILL
    assert line.exists()
    assert Path(graph.uri, "__heads", "b").exists()
    for handle in (graph, other_handle(graph)):
        assert names(handle) == ["main"]
        with pytest.raises(og.NotFound):
            handle.snapshot("b")
    assert graph.verify().damage == ()
    graph.branches.create("b")
    assert ages(other_handle(graph), "b") == {"Ada": 1, "Bob": 1}
    graph.cleanup(keep=1, grace="0s", confirm=True)
    assert not line.exists()
    assert ages(other_handle(graph), "b") == {"Ada": 1, "Bob": 1}


def test_a_creator_whose_line_was_removed_meanwhile_creates_no_branch(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a store, a creator that was paused may have lost its lock, and cleanup takes its line for an old one."""

    def remove_line(point: Point) -> None:
        if point == Point.BRANCH_LINE_CREATED:
            graph.cleanup(keep=1, grace="0s")
            (line,) = objects_at(location_of(graph.uri)).folders(LINES)[:1]
            objects_at(location_of(graph.uri)).delete_folder(f"{LINES}/{line}")

    monkeypatch.setattr(failpoints, "hit", remove_line)
    with pytest.raises(og.StorageError, match="try again"):
        graph.branches.create("b")
    monkeypatch.undo()
    assert not ref_file(graph.uri, "b").exists()
    assert names(other_handle(graph)) == ["main"]
    graph.branches.create("b")
    assert ages(other_handle(graph), "b") == {"Ada": 1, "Bob": 1}


# --- an object store ---


@pytest.mark.parametrize("every", [1, 2], ids=["all of them", "every second one"])
def test_a_version_whose_answer_was_lost_is_recognised_as_ones_own(
    s3_store: Options, s3_uri: str, proxy: FaultyProxy, every: int
) -> None:
    """With every second answer lost, the client asks again and is told that the version exists; with all, it fails."""
    og.init(s3_uri, SCHEMA, storage_options=s3_store)
    graph = og.open(s3_uri, storage_options=proxy.options)
    with proxy.failing(Fault(every, method="PUT", path="__manifest/lines")):
        commits = [graph.mutate(ADD, params={"name": name}).commit for name in ("Ada", "Bob", "Cleo")]
    assert proxy.faults >= 1
    reader = og.open(s3_uri, "r", storage_options=s3_store)
    assert [row["name"] for row in reader.query(NAMES).rows()] == ["Ada", "Bob", "Cleo"]
    assert reader.commits.list()[:3] == commits[::-1]
    names_of_files = objects_at(location_of(s3_uri, s3_store)).names(line_folder("main", ""))
    assert names_of_files == [version_name(version) for version in (1, 2, 3, 4)]


def test_a_branch_whose_answer_was_lost_is_recognised_as_ones_own(
    s3_store: Options, s3_uri: str, proxy: FaultyProxy
) -> None:
    og.init(s3_uri, SCHEMA, storage_options=s3_store)
    graph = og.open(s3_uri, storage_options=proxy.options)
    with proxy.failing(Fault(2, method="PUT", path="__manifest/branches")):
        for name in ("a", "b"):
            graph.branches.create(name)
    assert proxy.faults == 1
    assert names(og.open(s3_uri, storage_options=s3_store)) == ["main", "a", "b"]
    with pytest.raises(og.BranchExists):
        graph.branches.create("b")


@pytest.mark.parametrize("damage", ["cut", "empty", "zeros", "flip"])
def test_a_damaged_object_is_damage_and_never_a_torn_version(s3_store: Options, s3_uri: str, damage: str) -> None:
    """A store has whole objects only. A process that trusts the version before it notices it too."""
    graph = og.init(s3_uri, SCHEMA, storage_options=s3_store)
    seen = og.open(s3_uri, storage_options=s3_store)
    assert seen.query(NAMES).rows() == []
    graph.mutate(ADD, params={"name": "Ada"})
    objects, file = objects_at(location_of(s3_uri, s3_store)), f"{line_folder('main', '')}/{version_name(2)}"
    whole = objects.read(file)
    assert whole is not None
    damaged = {
        "cut": whole[:-20],
        "empty": b"",
        "zeros": whole[:100] + bytes(50) + whole[150:],
        "flip": whole.replace(b"nodes", b"sedon", 1),
    }[damage]
    objects.replace(file, damaged)
    for handle in (seen, og.open(s3_uri, "r", storage_options=s3_store)):
        with pytest.raises(og.Damaged, match=version_name(2)):
            handle.query(NAMES)
    with pytest.raises(og.Damaged, match=version_name(2)):
        seen.mutate(ADD, params={"name": "Bob"})
    assert objects.read(file) == damaged
    objects.replace(file, whole)
    assert [row["name"] for row in seen.query(NAMES).rows()] == ["Ada"]
