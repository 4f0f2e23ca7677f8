"""A power cut takes back no commit that was acknowledged, and leaves of any other write all or nothing."""

import base64
import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

import omnigraph as og
from omnigraph.session.writes import Writes
from omnigraph.storage import durability
from omnigraph.storage.indexes import index_coverage
from omnigraph.storage.tables import Table
from omnigraph.versioning import Manifest, ManifestLog
from omnigraph.versioning.line import is_torn, line_folder, version_name
from omnigraph.write import carried
from omnigraph.write.groups import WriteGroup
from tests.behaviour.people import carried as carried_rows
from tests.behaviour.people import fold
from tests.crash.forgetful_disk import (
    EMPTIED,
    LOST,
    SAVED,
    TORN,
    Fate,
    ForgetfulDisk,
    Killed,
    Moment,
    check_images,
    images,
)
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear

MIXES = int(os.environ.get("OMNIGRAPH_POWER_CUTS", "1"))
"""How many images of each moment chance decides on; of an acknowledgement twice as many."""
SCHEMA = """
node Person { name: String @key, age: I32? }
node City { name: String @key, part: String? @index("substring"), tags: [String]? @index, open: Bool? @index }
node Document { title: String @key, scan: Blob? }
edge LivesIn: Person -> City
"""
RECORDS = [
    *({"type": "Person", "data": {"name": name, "age": 30}} for name in ("Ada", "Bob", "Cyd")),
    *({"type": "City", "data": {"name": name}} for name in ("Oslo", "Quito")),
    {"type": "Document", "data": {"title": "Deed"}},
    *({"edge": "LivesIn", "from": name, "to": "Oslo"} for name in ("Ada", "Bob", "Cyd")),
]
MANIFESTS = line_folder("main", "")
NEXT_INSERTS = {
    "node:Person": 'insert Person { name: "Next" }',
    "node:City": 'insert City { name: "Next" }',
    "node:Document": 'insert Document { title: "Next" }',
    "edge:LivesIn": 'insert LivesIn { from: "Ada", to: "Quito" }',
}
LARGE_BLOB = bytes(range(256)) * 20_000
"""Larger than 5 MB, so that Lance puts it into a file of its own."""
Write = Callable[[og.Graph, Path], None]


@pytest.fixture(autouse=True)
def _nothing_is_written_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a disk would keep is known without waiting for a real one."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.delenv("OMNIGRAPH_DURABILITY", raising=False)


@pytest.fixture
def graph(disk: ForgetfulDisk, folder: Path) -> og.Graph:
    """A graph with some rows in each table, all of it on the disk."""
    graph = _made(disk, folder, RECORDS)
    disk.settle()
    return graph


def _made(disk: ForgetfulDisk, folder: Path, records: Iterable[object]) -> og.Graph:
    with disk.watched():
        graph = og.init(disk.root / "graph", SCHEMA)
        graph.load(_file(folder / "records.jsonl", records))
    disk.moments.clear()
    return graph


def _file(path: Path, records: Iterable[object]) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records))
    return path


# --- writes, and what they do ---


def _mutate_one_table(graph: og.Graph, _: Path) -> None:
    graph.mutate('query add { insert Person { name: "Dan", age: 7 } }')


def _mutate_three_tables(graph: og.Graph, _: Path) -> None:
    graph.mutate(
        "query change { "
        'insert City { name: "Turin" } '
        'update Person set { age: 31 } where name = "Ada" '
        'delete LivesIn where src = "Bob" }'
    )


def _load_a_large_blob(graph: og.Graph, folder: Path) -> None:
    scan = f"base64:{base64.b64encode(LARGE_BLOB).decode()}"
    records = [{"type": "Document", "data": {"title": "Map", "scan": scan}}, {"type": "City", "data": {"name": "Rome"}}]
    graph.load(_file(folder / "blob.jsonl", records))


def _ensure_indices(graph: og.Graph, _: Path) -> None:
    graph.ensure_indices()


def _optimize(graph: og.Graph, _: Path) -> None:
    graph.optimize()


WRITES: list[Write] = [_mutate_one_table, _mutate_three_tables, _load_a_large_blob, _ensure_indices]


@dataclass(frozen=True, slots=True)
class State:
    """What a graph holds; a long record is told by its digest."""

    records: tuple[str, ...]
    indexed: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a write did: to which tables, and as which commit after which others."""

    before: State
    after: State
    tables: tuple[str, ...]
    history: tuple[str, ...]
    commit: str


def _state(graph: og.Graph) -> State:
    lines = graph.export()
    assert not isinstance(lines, int)
    short = (line if len(line) < 200 else hashlib.sha256(line.encode()).hexdigest() for line in lines)
    snapshot = graph.snapshot()
    indexes = (index_coverage(snapshot.table(key)) for key in NEXT_INSERTS)
    return State(tuple(sorted(short)), tuple(frozenset(intent.column for intent in each) for each in indexes))


def _history(graph: og.Graph) -> tuple[str, ...]:
    """The commits, oldest first."""
    return tuple(commit.graph_commit_id for commit in reversed(graph.commits.list()))


def _counts(graph: og.Graph, tables: Sequence[str]) -> list[int]:
    snapshot = graph.snapshot()
    return [snapshot.table(key).count() for key in tables]


def _written(disk: ForgetfulDisk, graph: og.Graph, write: Write, folder: Path) -> tuple[Outcome, Moment]:
    """Writes, and gives what came of it and the moment of its acknowledgement."""
    before, history, pins = _state(graph), _history(graph), graph.snapshot().manifest.pins
    with disk.watched():
        write(graph, folder)
        acknowledged = disk.keep_moment("acknowledged")
    *earlier, commit = _history(graph)
    assert tuple(earlier) == history
    touched = tuple(key for key, pin in graph.snapshot().manifest.pins.items() if pin != pins[key])
    return Outcome(before, _state(graph), touched, history, commit), acknowledged


def _next_manifest(graph: og.Graph) -> str:
    """The file of the version that the next commit makes of the manifest; with it the commit is visible.

    A write to tables reserves them first, with a version that has no commit.
    """
    ahead = 1 if vars(carried)["CARRIED_ROWS"] else 2
    return f"graph/{MANIFESTS}/{version_name(graph.snapshot().manifest.version + ahead)}"


def _version_file(version: int) -> str:
    return f"{2**64 - 1 - version:020}.manifest"


def _is_there(file: str, moment: Moment) -> bool:
    return file in moment.image(SAVED).entries


# --- what must be true after a power cut ---


def _check_outcome(place: Path, outcome: Outcome, *, acknowledged: bool) -> None:
    """The write is there whole, with its commit, or not at all; and its tables can be written to.

    One that was acknowledged is there for whoever looks first.
    """
    if acknowledged:
        assert outcome.commit in _history(og.open(place, mode="r"))
    graph = og.open(place)
    history = _history(graph)
    happened = outcome.commit in history
    assert happened or not acknowledged
    assert history[: len(outcome.history)] == outcome.history
    assert _state(graph) == (outcome.after if happened else outcome.before)
    assert graph.recoveries.pending() == []
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)
    counts = _counts(graph, outcome.tables)
    graph.mutate(f"query next {{ {' '.join(NEXT_INSERTS[key] for key in outcome.tables)} }}")
    assert _counts(og.open(place, mode="r"), outcome.tables) == [count + 1 for count in counts]


def _check_kept(acknowledged: Moment, folder: Path, check: Callable[[Path], None]) -> None:
    """Cuts the power when something was acknowledged, in many ways."""
    check_images(images([acknowledged], (LOST, SAVED, EMPTIED, TORN), 2 * MIXES), folder / "acknowledged", check)


def _check_power_cuts(
    disk: ForgetfulDisk, acknowledged: Moment, outcome: Outcome, folder: Path, fates: Sequence[Fate] = (LOST, SAVED)
) -> None:
    """Cuts the power at every moment of a write."""
    _check_kept(acknowledged, folder, partial(_check_outcome, outcome=outcome, acknowledged=True))
    any_time = partial(_check_outcome, outcome=outcome, acknowledged=False)
    check_images(images(disk.moments, fates, MIXES), folder / "any", any_time)


@pytest.mark.parametrize("write", [_mutate_three_tables, _load_a_large_blob, _ensure_indices])
def test_a_write_is_whole_or_absent_after_a_power_cut_and_there_once_acknowledged(
    disk: ForgetfulDisk, graph: og.Graph, write: Write, folder: Path
) -> None:
    outcome, acknowledged = _written(disk, graph, write, folder)
    _check_power_cuts(disk, acknowledged, outcome, folder)


@pytest.mark.usefixtures("rows_in_tables")
def test_an_optimize_of_several_versions_is_whole_or_absent_after_a_power_cut_and_there_once_acknowledged(
    disk: ForgetfulDisk, graph: og.Graph, folder: Path
) -> None:
    with disk.watched():
        graph.ensure_indices()
        _mutate_one_table(graph, folder)
    disk.settle()
    disk.moments.clear()
    version = graph.snapshot().manifest.pins["node:Person"].version
    outcome, acknowledged = _written(disk, graph, _optimize, folder)
    assert outcome.tables == ("node:Person",)
    assert graph.snapshot().manifest.pins["node:Person"].version == version + 3
    _check_power_cuts(disk, acknowledged, outcome, folder)


@pytest.mark.parametrize("records", [[], RECORDS], ids=["first", "second"])
def test_a_write_soon_after_the_graph_was_made_is_whole_or_absent_after_a_power_cut_and_there_once_acknowledged(
    disk: ForgetfulDisk, records: list[object], folder: Path
) -> None:
    outcome, acknowledged = _written(disk, _made(disk, folder, records), _mutate_one_table, folder)
    _check_power_cuts(disk, acknowledged, outcome, folder, fates=(LOST, SAVED, TORN))


def test_writes_that_are_published_together_are_whole_or_absent_together(
    disk: ForgetfulDisk, graph: og.Graph, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them names the group: none of the others is there without it, or lacks when it is there."""
    before, history = _state(graph), _history(graph)
    append, all_wait = ManifestLog.append, threading.Event()
    names = ("Dan", "Eve", "Fay")

    def append_late(self: ManifestLog, base: Manifest, following: Manifest) -> Manifest:
        assert all_wait.wait(60)
        return append(self, base, following)

    def insert(name: str) -> None:
        graph.mutate(f'query add {{ insert Person {{ name: "{name}" }} }}')

    monkeypatch.setattr(ManifestLog, "append", append_late)
    threads = [threading.Thread(target=insert, args=(name,)) for name in names]
    with disk.watched():
        threads[0].start()
        group = _group_of(graph, lambda group: group._is_led and not group._waiting)
        for thread in threads[1:]:
            thread.start()
        _group_of(graph, lambda group: len(group._waiting) == len(names) - 1)
        all_wait.set()
        for thread in threads:
            thread.join()
        acknowledged = disk.keep_moment("acknowledged")
    assert not group._waiting
    *earlier, first, second, third = _history(graph)
    assert tuple(earlier) == history
    assert graph.commits.show(second).manifest == graph.commits.show(third).manifest
    after = _state(graph)

    def check(place: Path) -> None:
        found = _history(og.open(place, mode="r"))
        assert found in ((*history,), (*history, first), (*history, first, second, third))
        if found == history:
            assert _state(og.open(place)) == before
        if third in found:
            assert _state(og.open(place)) == after

    _check_kept(
        acknowledged,
        folder,
        partial(_check_outcome, outcome=Outcome(before, after, ("node:Person",), history, third), acknowledged=True),
    )
    check_images(images(disk.moments, (LOST, SAVED, TORN), MIXES), folder / "any", check)


def _group_of(graph: og.Graph, has_come: Callable[[WriteGroup], bool]) -> WriteGroup:
    """The group of small writes of `main`, once it is as it should be."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for group in graph._session.writes._groups.values():
            if has_come(group):
                return group
        time.sleep(0.001)
    raise AssertionError("the writes did not come")


def test_a_fold_during_which_the_power_fails_changes_nothing(
    disk: ForgetfulDisk, graph: og.Graph, folder: Path
) -> None:
    with disk.watched():
        _mutate_one_table(graph, folder)
    disk.settle()
    disk.moments.clear()
    before, history = _records(graph), _history(graph)
    with disk.watched():
        fold(graph)
        folded = disk.keep_moment("folded")
    assert not carried_rows(graph)

    def check(place: Path) -> None:
        assert _records(og.open(place, mode="r")) == before
        graph = og.open(place)
        assert _history(graph)[: len(history)] == history
        assert graph.recoveries.pending() == []
        assert_heads_are_pinned(graph)
        graph.mutate(f"query next {{ {NEXT_INSERTS['node:Person']} }}")
        assert len(_records(og.open(place, mode="r"))) == len(before) + 1

    _check_kept(folded, folder / "folded", check)
    check_images(images(disk.moments, (LOST, SAVED), MIXES), folder / "any", check)


def _records(graph: og.Graph) -> tuple[str, ...]:
    return _state(graph).records


# --- creating a graph ---

SMALL_SCHEMA = "node Person { name: String @key, age: I32? }\nedge Knows: Person -> Person\n"


def test_a_new_graph_is_there_once_acknowledged_and_before_that_is_usable_or_can_be_made_again(
    disk: ForgetfulDisk, folder: Path
) -> None:
    with disk.watched():
        og.init(disk.root / "graph", SMALL_SCHEMA)
        acknowledged = disk.keep_moment("acknowledged")
    _check_kept(acknowledged, folder, _check_new_graph)
    check_images(images(disk.moments, (LOST, SAVED), MIXES), folder / "any", _check_started_graph)


def _check_new_graph(place: Path) -> None:
    graph = og.open(place)
    assert _counts(graph, ["node:Person", "edge:Knows"]) == [0, 0]
    graph.mutate('query add { insert Person { name: "Ada" } insert Knows { from: "Ada", to: "Ada" } }')
    assert _counts(og.open(place, mode="r"), ["node:Person", "edge:Knows"]) == [1, 1]


def _check_started_graph(place: Path) -> None:
    """Here is a graph, or none; then one can be made, or it is said why not."""
    try:
        og.open(place)
    except og.OmnigraphError:
        try:
            og.init(place, SMALL_SCHEMA)
        except og.OmnigraphError:
            return
    _check_new_graph(place)


def test_a_graph_in_the_place_of_one_that_was_removed_is_there_once_acknowledged(tmp_path: Path) -> None:
    place = tmp_path / "disk" / "graph"
    og.init(place, SMALL_SCHEMA)
    inode = place.stat().st_ino
    shutil.rmtree(place)
    spare = _folder_with(inode, place.parent)
    disk = ForgetfulDisk(place.parent)
    spare.rename(place)
    with disk.watched():
        og.init(place, SMALL_SCHEMA)
        acknowledged = disk.keep_moment("acknowledged")
    disk.close()
    _check_kept(acknowledged, tmp_path, _check_new_graph)


def _folder_with(inode: int, parent: Path) -> Path:
    """A new folder that got the inode of one that was removed, which some filesystems give away again soon."""
    for number in range(100):
        folder = parent / f"spare{number}"
        folder.mkdir()
        if folder.stat().st_ino == inode:
            break
    return folder


# --- one misfortune after another ---


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize("completed", [False, True], ids=["undone", "completed"])
def test_a_power_cut_while_an_earlier_one_is_recovered_from_changes_nothing(
    disk: ForgetfulDisk, graph: og.Graph, completed: bool, folder: Path
) -> None:
    manifest = _next_manifest(graph)
    outcome, _ = _written(disk, graph, _mutate_three_tables, folder)
    one_table_moved = next(each for each in disk.moments if each.label == "mutate.table_committed")
    all_tables_moved = [each for each in disk.moments if not _is_there(manifest, each)][-1]
    first = all_tables_moved if completed else one_table_moved
    second = ForgetfulDisk(first.image(SAVED).write(folder / "second"))
    with second.watched():
        assert (outcome.commit in _history(og.open(second.root / "graph"))) is completed
        recovered = second.keep_moment("recovered")
    second.close()

    def check(place: Path) -> None:
        _check_outcome(place, outcome, acknowledged=False)
        assert (outcome.commit in _history(og.open(place, mode="r"))) is completed

    _check_kept(recovered, folder, partial(_check_outcome, outcome=outcome, acknowledged=completed))
    check_images(images(second.moments, (LOST, TORN), MIXES), folder / "any", check)


def _kill(disk: ForgetfulDisk, graph: og.Graph, folder: Path, due: Callable[[str], bool]) -> None:
    """Kills the writer of one table at the first moment that is due, and forgets what its process knew."""

    def end(label: str) -> None:
        if due(label):
            raise Killed

    with pytest.MonkeyPatch.context() as patch, disk.watched():
        patch.setattr(disk, "on_moment", end)
        patch.setattr(Writes, "_undo", lambda *_: None)
        # Otherwise other threads would go on for a moment.
        patch.setattr(durability, "_pool", lambda: SimpleNamespace(map=map))
        with pytest.raises(Killed):
            _mutate_one_table(graph, folder)
    disk.moments.clear()
    durability._kept.clear()


def _kill_when_published(disk: ForgetfulDisk, graph: og.Graph, folder: Path) -> None:
    """Kills the writer when its commit is visible, and nothing of that is on the disk yet."""
    manifest = disk.root / _next_manifest(graph)
    _kill(disk, graph, folder, lambda _: manifest.exists())


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize("published", [False, True], ids=["not_published", "published"])
def test_what_another_process_made_of_a_killed_writer_survives_a_power_cut(
    disk: ForgetfulDisk, graph: og.Graph, published: bool, folder: Path
) -> None:
    before, history = _state(graph), _history(graph)
    if published:
        _kill_when_published(disk, graph, folder)
    else:
        _kill(disk, graph, folder, lambda label: label == "mutate.table_committed")
    with disk.watched():
        other = og.open(graph.uri)
        recovered = disk.keep_moment("recovered")
    outcome = Outcome(before, _state(other), ("node:Person",), history, _history(other)[-1])
    assert outcome.after != before
    _check_power_cuts(disk, recovered, outcome, folder)


def test_a_write_after_one_whose_writer_was_killed_survives_a_power_cut(
    disk: ForgetfulDisk, graph: og.Graph, folder: Path
) -> None:
    _kill_when_published(disk, graph, folder)
    with disk.watched():
        other = og.open(graph.uri)
    outcome, acknowledged = _written(disk, other, _mutate_three_tables, folder)
    _check_kept(acknowledged, folder, partial(_check_outcome, outcome=outcome, acknowledged=True))


@pytest.mark.parametrize("names", [("Eve",), ("Eve", "Fay", "Gil")], ids=["one", "three"])
def test_a_small_write_after_others_that_wrote_nothing_through_survives_a_power_cut(
    disk: ForgetfulDisk, graph: og.Graph, folder: Path, names: Sequence[str]
) -> None:
    """The versions before it may be torn, but for the last. It repeats what they carry, so nothing is missing."""
    quick = og.open(graph.uri, durability="fast")
    with disk.watched():
        for name in names:
            quick.mutate(f'query add {{ insert Person {{ name: "{name}" }} }}')
    other = og.open(graph.uri)
    outcome, acknowledged = _written(disk, other, _mutate_one_table, folder)

    def check(place: Path) -> None:
        damaged = [each for each in og.open(place, mode="r").verify().damage if each.path.startswith(MANIFESTS)]
        assert len(damaged) < len(names)
        _check_outcome(place, outcome, acknowledged=True)

    _check_kept(acknowledged, folder, check)


def test_a_write_during_which_another_writer_was_killed_survives_a_power_cut(
    disk: ForgetfulDisk, graph: og.Graph, folder: Path
) -> None:
    other = og.open(graph.uri)
    before, history = _state(graph), _history(graph)

    def interrupt(label: str) -> None:
        if label == "mutate.before_phase_a":
            disk.on_moment = lambda _: None
            _kill_when_published(disk, graph, folder)

    disk.on_moment = interrupt
    with disk.watched():
        other.mutate('query add { insert City { name: "Turin" } }')
        acknowledged = disk.keep_moment("acknowledged")
        og.open(graph.uri)
        recovered = disk.keep_moment("recovered")
    *earlier, killed, commit = _history(other)
    assert tuple(earlier) == history
    outcome = Outcome(before, _state(other), ("node:Person", "node:City"), (*history, killed), commit)
    settled = partial(_check_outcome, outcome=outcome, acknowledged=True)
    _check_kept(acknowledged, folder / "first", settled)
    _check_kept(recovered, folder / "then", settled)


def test_a_write_that_the_disk_refuses_to_keep_is_not_acknowledged(
    disk: ForgetfulDisk, graph: og.Graph, folder: Path
) -> None:
    manifest = disk.root / _next_manifest(graph)

    def refuse(label: str) -> None:
        if label.startswith(f"before graph/{MANIFESTS}") and manifest.exists():
            raise OSError("the disk is broken")

    disk.on_moment = refuse
    with disk.watched(), pytest.raises(og.OmnigraphError, match="the disk is broken"):
        _mutate_one_table(graph, folder)


# --- versions whose files are torn ---


def _tear_newest_version(table: Path, part: float) -> None:
    _tear(min((table / "_versions").glob("*.manifest")), part)


def _tear(file: Path, part: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * part)])


def _remove_notes_of_the_head(graph: Path) -> None:
    for note in graph.glob("__head*"):
        shutil.rmtree(note) if note.is_dir() else note.unlink()


def _assert_no_version_is_torn(graph: Path) -> None:
    assert all(file.read_bytes().endswith(b"LANC") for file in graph.rglob("*.manifest"))
    assert not any(is_torn(file.read_bytes()) for file in (graph / MANIFESTS).iterdir())


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize("noted", [True, False], ids=["noted", "not_noted"])
@pytest.mark.parametrize("part", [0.0, 0.5])
def test_opening_removes_a_torn_version_of_the_manifest_and_completes_the_write(
    disk: ForgetfulDisk, graph: og.Graph, part: float, noted: bool, folder: Path
) -> None:
    manifest = _next_manifest(graph)
    outcome, _ = _written(disk, graph, _mutate_three_tables, folder)
    published = next(moment for moment in disk.moments if _is_there(manifest, moment))
    place = published.image(SAVED).write(folder / "image") / "graph"
    _tear(max((place / MANIFESTS).glob("*.jsonl")), part)
    if not noted:
        _remove_notes_of_the_head(place)
    assert _state(og.open(place, mode="r")) == outcome.before
    assert _state(og.open(place)) == outcome.after
    _assert_no_version_is_torn(place)
    _check_outcome(place, outcome, acknowledged=True)


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize("part", [0.0, 0.5])
@pytest.mark.parametrize("key", ["node:City", "node:Person", "edge:LivesIn"])
def test_opening_removes_a_torn_version_of_a_table_and_undoes_the_write(
    disk: ForgetfulDisk, graph: og.Graph, key: str, part: float, folder: Path
) -> None:
    outcome, _ = _written(disk, graph, _mutate_three_tables, folder)
    committed = [moment for moment in disk.moments if moment.label == "mutate.table_committed"]
    place = committed[-1].image(SAVED).write(folder / "image") / "graph"
    _tear_newest_version(place / graph.snapshot().manifest.pins[key].path, part)
    assert _state(og.open(place, mode="r")) == outcome.before
    assert _state(og.open(place)) == outcome.before
    _assert_no_version_is_torn(place)
    _check_outcome(place, outcome, acknowledged=False)


# --- what is written through ---


def test_all_that_the_newest_commit_consists_of_is_written_through(disk: ForgetfulDisk, folder: Path) -> None:
    graph = _made(disk, folder, RECORDS)
    with disk.watched():
        for write in WRITES:
            write(graph, folder)
    place, snapshot = Path(graph.uri), graph.snapshot()
    files = [file for table in map(snapshot.table, NEXT_INSERTS) for file in _files_of(table)]
    files.append(place / MANIFESTS / version_name(snapshot.manifest.version))
    files += [place / name for name in ("_schema.pg", "_schema.ir.json", "__schema_state.json")]
    assert {".manifest", ".lance", ".blob", ".arrow"} <= {file.suffix for file in files}
    assert [file for file in files if not disk.keeps(file)] == []


def _files_of(table: Table) -> Iterator[Path]:
    """The files of a version of a table, as Lance tells them."""
    root = table.location.path
    assert root is not None
    yield root / "_versions" / _version_file(table.version)
    for fragment in table.dataset.get_fragments():
        for file in fragment.data_files():
            data = root / "data" / file.path
            yield data
            yield from data.with_suffix("").glob("*")
        deletions = fragment.deletion_file()
        if deletions is not None:
            yield root / deletions
    for index in table.dataset.describe_indices():
        for segment in index.segments:
            yield from (root / "_indices" / segment.uuid).iterdir()


def test_fast_durability_writes_nothing_through(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr("omnigraph.storage.durability.os.fsync", calls.append)
    graph = og.init(folder / "graph", SCHEMA, durability="fast")
    graph.load(_file(folder / "records.jsonl", RECORDS))
    for write in WRITES:
        write(graph, folder)
    og.open(graph.uri, durability="fast").mutate('query next { insert City { name: "Next" } }')
    assert calls == []
    og.open(graph.uri).mutate('query last { insert City { name: "Last" } }')
    assert calls
