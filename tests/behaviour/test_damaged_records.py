"""What we write ourselves and find damaged is an error that says so: never an older state, and never lost."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.failpoints import Point
from omnigraph.storage.location import location_of
from omnigraph.storage.records import encode_record
from omnigraph.storage.tables import version_file
from omnigraph.versioning import ManifestLog
from omnigraph.versioning.line import LINES, encode_manifest
from omnigraph.versioning.manifest import LAYOUT
from omnigraph.write.sidecar import read_sidecar
from tests.file_damages import DAMAGES, Damage, cut, empty, flip, remove, scramble
from tests.manifest_files import line_of, manifest_file, newest_manifest, ref_file

SCHEMA = "node Person { name: String @key, age: I32? }"
ADD = "query add($name: String) { insert Person { name: $name } }"
NAMES = "query names { match { $p: Person } return { $p.name as name } order { $p.name asc } }"


def names(graph: og.Graph) -> list[str]:
    return [row["name"] for row in graph.query(NAMES).rows()]


def version_after_adding(graph: og.Graph, name: str) -> int:
    """The version of the manifest that an insert makes."""
    commit = graph.mutate(ADD, params={"name": name}).commit
    assert commit is not None
    return commit.manifest_version


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """A graph with three acknowledged inserts, so that its newest manifest is version 4."""
    graph = og.init(tmp_path / "graph", SCHEMA)
    for name in ("Ada", "Bob", "Cleo"):
        graph.mutate(ADD, params={"name": name})
    return graph


def contents(graph: og.Graph) -> dict[Path, bytes]:
    """All manifests and refs as they are."""
    return {path: path.read_bytes() for path in Path(graph.uri, "__manifest").rglob("*") if path.is_file()}


# --- the version of a table ---


@pytest.mark.usefixtures("rows_in_tables")
def test_a_version_that_names_a_missing_file_is_not_repeated_by_a_change_of_the_schema(graph: og.Graph) -> None:
    pin = graph.snapshot().manifest.pins["node:Person"]
    path = Path(graph.uri, pin.path, version_file(pin.version))
    whole, name = path.read_bytes(), next(Path(graph.uri, pin.path, "data").glob("*.lance")).name.encode()
    path.write_bytes(whole.replace(name, b"%" + name[1:]))
    with pytest.raises(og.Damaged, match="missing"):
        og.open(graph.uri).schema.apply(SCHEMA.replace("age: I32?", "age: I32?, nick: String?"))
    path.write_bytes(whole)
    assert names(og.open(graph.uri)) == ["Ada", "Bob", "Cleo"]


# --- the newest manifest ---


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_newest_manifest_is_an_error_and_never_the_state_before(graph: og.Graph, damage: Damage) -> None:
    file = newest_manifest(graph.uri)
    assert file == manifest_file(graph.uri, 4)
    whole = file.read_bytes()
    damage(file)
    for mode in ("r", "rw"):
        with pytest.raises(og.Damaged, match="version 4 of the manifest of branch `main` is damaged"):
            og.open(graph.uri, mode).query(NAMES)
    assert file.exists() == (damage is not remove)
    file.write_bytes(whole)
    reopened = og.open(graph.uri)
    assert names(reopened) == ["Ada", "Bob", "Cleo"]
    assert version_after_adding(reopened, "Dan") == 5


@pytest.mark.parametrize("damage", DAMAGES)
def test_no_write_takes_the_number_of_a_damaged_manifest(graph: og.Graph, damage: Damage) -> None:
    damage(newest_manifest(graph.uri))
    left = contents(graph)
    with pytest.raises(og.Damaged):
        og.open(graph.uri).mutate(ADD, params={"name": "Dan"})
    assert contents(graph) == left


def test_a_bit_of_a_manifest_is_noticed_wherever_it_is(graph: og.Graph) -> None:
    newest = newest_manifest(graph.uri)
    whole = newest.read_bytes()
    for place in range(0, len(whole), 41):
        flip(newest, place)
        with pytest.raises(og.Damaged, match=newest.name):
            og.open(graph.uri, "r").query(NAMES)
        newest.write_bytes(whole)
    assert names(og.open(graph.uri, "r")) == ["Ada", "Bob", "Cleo"]


@pytest.mark.parametrize("damage", [cut, empty, remove])
def test_a_process_that_has_seen_the_version_before_a_damaged_one_writes_none_in_its_place(
    graph: og.Graph, damage: Damage
) -> None:
    seen = og.open(graph.uri)
    assert names(seen) == ["Ada", "Bob", "Cleo"]
    version_after_adding(graph, "Dan")
    file = newest_manifest(graph.uri)
    whole = file.read_bytes()
    damage(file)
    left = file.read_bytes() if file.exists() else None
    with pytest.raises(og.Damaged, match="version 5 of the manifest of branch `main` is damaged"):
        seen.query(NAMES)
    with pytest.raises(og.Damaged, match=file.name):
        seen.mutate(ADD, params={"name": "Eve"})
    assert (file.read_bytes() if file.exists() else None) == left
    file.write_bytes(whole)
    assert names(seen) == ["Ada", "Bob", "Cleo", "Dan"]
    assert version_after_adding(seen, "Eve") == 6


@pytest.mark.parametrize("damage", [cut, empty, remove])
def test_a_newest_version_that_cleanup_has_kept_is_not_taken_for_a_torn_one(graph: og.Graph, damage: Damage) -> None:
    """Cleanup has recorded that it was there, so it is known even without the note of the newest version."""
    graph.cleanup(keep=1, grace="0s", confirm=True)
    remove(Path(graph.uri, "__heads", "main"))
    damage(newest_manifest(graph.uri))
    with pytest.raises(og.Damaged, match="version 4 of the manifest of branch `main` is damaged"):
        og.open(graph.uri).query(NAMES)


def test_a_manifest_of_a_newer_version_is_refused_and_kept(graph: og.Graph) -> None:
    newer, file = LAYOUT + 1, manifest_file(graph.uri, 5)
    manifest = graph.snapshot().manifest
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("omnigraph.versioning.line.LAYOUT", newer)
        content = encode_manifest(manifest.after(replace(manifest.commit, graph_commit_id="later"), {}))
    file.write_bytes(content)
    for use in (lambda: names(og.open(graph.uri, "r")), lambda: version_after_adding(og.open(graph.uri), "Dan")):
        with pytest.raises(og.StorageError, match=rf"\(layout {newer}\); upgrade omnigraph first"):
            use()
    assert file.read_bytes() == content


def test_an_old_manifest_that_is_missing_was_not_removed_by_cleanup(graph: og.Graph) -> None:
    manifest_file(graph.uri, 2).unlink()
    reopened = og.open(graph.uri)
    assert names(reopened) == ["Ada", "Bob", "Cleo"]
    with pytest.raises(og.Damaged, match="version 2 of the manifest"):
        reopened.snapshot_at(version=2)


@pytest.mark.parametrize(
    "cut_at",
    [
        lambda content: content[:0],
        lambda content: content[:50],
        lambda content: content[:-1],
        lambda content: content[: content.index(b"\n") + 1],
        lambda content: content[:100] + bytes(100) + content[200:],
        lambda content: bytes(len(content)),
    ],
    ids=["empty", "in its first line", "without its last byte", "after its first line", "zeros inside", "zeros"],
)
def test_a_torn_version_that_nobody_was_told_of_is_still_removed(
    graph: og.Graph, cut_at: Callable[[bytes], bytes]
) -> None:
    content = newest_manifest(graph.uri).read_bytes()
    torn = manifest_file(graph.uri, 5)
    torn.write_bytes(cut_at(content))
    assert names(og.open(graph.uri, "r")) == ["Ada", "Bob", "Cleo"]
    assert torn.exists()
    reopened = og.open(graph.uri)
    assert version_after_adding(reopened, "Dan") == 5
    assert names(og.open(graph.uri)) == ["Ada", "Bob", "Cleo", "Dan"]


def test_several_torn_versions_that_nobody_was_told_of_are_removed(graph: og.Graph) -> None:
    """A power cut leaves them of writers that wrote nothing through to the disk."""
    content = newest_manifest(graph.uri).read_bytes()
    for version in (5, 6, 7):
        manifest_file(graph.uri, version).write_bytes(content[: version * 20])
    assert names(og.open(graph.uri, "r")) == ["Ada", "Bob", "Cleo"]
    assert version_after_adding(graph, "Dan") == 5
    assert names(og.open(graph.uri)) == ["Ada", "Bob", "Cleo", "Dan"]
    assert not manifest_file(graph.uri, 6).exists()


def test_a_whole_version_after_torn_ones_is_the_newest(graph: og.Graph) -> None:
    note = Path(graph.uri, "__heads", "main")
    noted = note.read_bytes()
    for name in ("Dan", "Eve", "Fay"):
        version_after_adding(graph, name)
    for version in (5, 6):
        manifest_file(graph.uri, version).write_bytes(b"")
    note.write_bytes(noted)
    expected = ["Ada", "Bob", "Cleo", "Dan", "Eve", "Fay"]
    assert names(og.open(graph.uri, "r")) == expected
    assert version_after_adding(og.open(graph.uri), "Gil") == 8
    assert names(og.open(graph.uri, "r")) == [*expected, "Gil"]
    assert len(graph.verify().damage) == 2


def test_a_publisher_without_the_turn_removes_no_torn_version(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may be about to do so, and to create a whole version of the same number."""
    torn = manifest_file(graph.uri, 5)
    torn.write_bytes(b"")
    log = graph._session.branches.main
    with monkeypatch.context() as patch:
        patch.setattr(ManifestLog, "_process_turn", lambda _: None)
        with log.turn():
            assert not log.remove_torn_head()
    assert torn.exists()
    with log.turn():
        assert log.remove_torn_head()
    assert not torn.exists()


def test_a_graph_is_never_created_over_a_damaged_one(graph: og.Graph) -> None:
    files = [*line_of(graph.uri).iterdir()]
    assert len(files) == 4
    for path in files:
        path.write_bytes(b"")
    with pytest.raises(og.StorageError, match="there is already a graph here"):
        og.init(graph.uri, SCHEMA)


# --- head notes ---


@pytest.mark.parametrize("damage", [flip, cut, empty, remove, scramble])
def test_a_damaged_note_of_the_newest_version_does_no_harm(graph: og.Graph, damage: Damage) -> None:
    damage(Path(graph.uri, "__heads", "main"))
    reopened = og.open(graph.uri)
    assert names(reopened) == ["Ada", "Bob", "Cleo"]
    assert version_after_adding(reopened, "Dan") == 5


def test_an_older_note_does_no_harm(graph: og.Graph) -> None:
    Path(graph.uri, "__heads", "main").write_bytes(encode_record({"version": 2, "incarnation": ""}))
    assert names(og.open(graph.uri)) == ["Ada", "Bob", "Cleo"]


# --- branches ---


@pytest.mark.parametrize("damage", [cut, empty, remove, scramble])
def test_a_branch_whose_ref_is_damaged_is_not_taken_for_one_that_never_was(graph: og.Graph, damage: Damage) -> None:
    graph.branches.create("review")
    graph.mutate(ADD, params={"name": "Dan"}, branch="review")
    ref = ref_file(graph.uri, "review")
    whole = ref.read_bytes()
    damage(ref)
    reopened = og.open(graph.uri)
    assert names(reopened) == ["Ada", "Bob", "Cleo"]
    with pytest.raises(og.Damaged, match=r"review\.json"):
        reopened.query(NAMES, branch="review")
    with pytest.raises(og.Damaged, match=r"review\.json"):
        reopened.branches.create("review")
    with pytest.raises(og.Damaged, match=r"review\.json"):
        reopened.cleanup(keep=1, grace="0s", confirm=True)
    ref.write_bytes(whole)
    rows = og.open(graph.uri).query(NAMES, branch="review").rows()
    assert [row["name"] for row in rows] == ["Ada", "Bob", "Cleo", "Dan"]


def test_a_ref_that_says_another_beginning_is_damaged_and_nothing_goes(graph: og.Graph) -> None:
    graph.branches.create("review")
    for name in ("Dan", "Eve"):
        graph.mutate(ADD, params={"name": name}, branch="review")
    ref = ref_file(graph.uri, "review")
    document = json.loads(ref.read_bytes())
    document["origin"]["version"] += 1
    ref.write_text(json.dumps(document))
    before = sorted(Path(graph.uri, LINES).rglob("*.jsonl"))
    assert len(before) > 4
    with pytest.raises(og.Damaged, match=r"review\.json"):
        og.open(graph.uri).cleanup(keep=1, grace="0s", confirm=True)
    assert sorted(Path(graph.uri, LINES).rglob("*.jsonl")) == before


def test_a_tag_on_a_branch_that_has_the_ref_of_another_is_not_said_to_be_unknown(graph: og.Graph) -> None:
    for branch in ("review", "spare"):
        graph.branches.create(branch)
        graph.mutate(ADD, params={"name": branch}, branch=branch)
    graph.tags.create("seen", "review")
    ref_file(graph.uri, "review").write_bytes(ref_file(graph.uri, "spare").read_bytes())
    with pytest.raises(og.Damaged, match="review"):
        og.open(graph.uri).query(NAMES, snapshot="seen")
    with pytest.raises(og.Damaged, match=r"review\.json"):
        og.open(graph.uri).branches.list()


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize("damage", [cut, empty, remove])
def test_a_write_is_not_taken_back_when_the_ref_of_its_branch_is_damaged_meanwhile(
    graph: og.Graph, damage: Damage
) -> None:
    graph.branches.create("review")
    ref = ref_file(graph.uri, "review")
    whole = ref.read_bytes()

    def damage_before_the_commit(point: Point) -> None:
        if point == Point.PUBLISH_BEFORE_SWAP and any(Path(graph.uri, "__recovery").glob("*.json")):
            damage(ref)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(failpoints, "hit", damage_before_the_commit)
        assert graph.mutate(ADD, params={"name": "Dan"}, branch="review").commit is not None
    with pytest.raises(og.Damaged, match=r"review\.json"):
        graph.mutate(ADD, params={"name": "Eve"}, branch="review")
    ref.write_bytes(whole)
    rows = og.open(graph.uri).query(NAMES, branch="review").rows()
    assert [row["name"] for row in rows] == ["Ada", "Bob", "Cleo", "Dan"]
    assert [*Path(graph.uri, "__recovery").iterdir()] == []


@pytest.mark.parametrize("damage", [cut, empty, remove])
def test_the_other_branches_are_verified_when_one_ref_is_damaged(graph: og.Graph, damage: Damage) -> None:
    for branch in ("review", "spare"):
        graph.branches.create(branch)
        graph.mutate(ADD, params={"name": branch}, branch=branch)
    damage(ref_file(graph.uri, "review"))
    flip(newest_manifest(graph.uri, "spare"), 200)
    found = {each.path for each in og.open(graph.uri, "r").verify().damage}
    spoiled = newest_manifest(graph.uri, "spare").relative_to(graph.uri)
    assert found == {str(ref_file(graph.uri, "review").relative_to(graph.uri)), str(spoiled)}


def test_a_truncated_ref_of_a_branch_that_was_written_to_is_damage_even_without_a_note(graph: og.Graph) -> None:
    graph.branches.create("review")
    graph.mutate(ADD, params={"name": "Dan"}, branch="review")
    line = line_of(graph.uri, "review")
    cut(ref_file(graph.uri, "review"))
    remove(Path(graph.uri, "__heads", "review"))
    reopened = og.open(graph.uri)
    with pytest.raises(og.Damaged, match=r"review\.json"):
        reopened.query(NAMES, branch="review")
    with pytest.raises(og.Damaged, match=r"review\.json"):
        reopened.branches.create("review")
    with pytest.raises(og.Damaged, match=r"review\.json"):
        reopened.cleanup(keep=1, grace="0s", confirm=True)
    assert len([*line.iterdir()]) == 2


@pytest.mark.parametrize("damage", [cut, empty])
def test_what_a_power_cut_left_of_a_ref_is_no_branch(graph: og.Graph, damage: Damage) -> None:
    """The branch was never acknowledged: it has no note, and only its first version."""
    graph.branches.create("review")
    line = line_of(graph.uri, "review")
    damage(ref_file(graph.uri, "review"))
    remove(Path(graph.uri, "__heads", "review"))
    reopened = og.open(graph.uri)
    assert [each.name for each in reopened.branches.list()] == ["main"]
    reopened.cleanup(keep=1, grace="0s", confirm=True)
    assert not line.exists()
    reopened.branches.create("review")
    assert [each.name for each in og.open(graph.uri).branches.list()] == ["main", "review"]
    assert line_of(graph.uri, "review") != line


def test_a_branch_that_was_deleted_is_just_not_there(graph: og.Graph) -> None:
    graph.branches.create("review")
    graph.branches.delete("review")
    with pytest.raises(og.NotFound):
        og.open(graph.uri).query(NAMES, branch="review")
    graph.branches.create("review")
    assert graph.branches.list()[1].name == "review"


# --- schemas, tags, notes of cleanup ---


def _record_files(graph: og.Graph) -> list[Path]:
    graph.tags.create("v1")
    graph.cleanup(keep=1, grace="0s", confirm=True)
    (schema,) = Path(graph.uri, "__schemas").iterdir()
    return [schema, Path(graph.uri, "__tags", "v1.json"), Path(graph.uri, "__heads", "main.retained")]


def _use_records(graph: og.Graph) -> None:
    reopened = og.open(graph.uri)
    reopened.tags.list()
    reopened.snapshot_at(version=4)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["schema", "tag", "retained"])
@pytest.mark.parametrize("damage", [flip, cut, empty, scramble])
def test_a_damaged_record_is_an_error_with_its_file(graph: og.Graph, which: int, damage: Damage) -> None:
    file = _record_files(graph)[which]
    damage(file)
    with pytest.raises(og.Damaged, match=file.name):
        _use_records(graph)


@pytest.mark.parametrize("which", [0, 1, 2], ids=["schema", "tag", "retained"])
def test_a_changed_value_of_a_record_is_noticed(graph: og.Graph, which: int) -> None:
    file = _record_files(graph)[which]
    data = json.loads(file.read_text())
    key = next(key for key, value in data.items() if isinstance(value, (str, int)) and key != "checksum")
    data[key] = data[key] + 1 if isinstance(data[key], int) else data[key] + "x"
    file.write_text(json.dumps(data))
    with pytest.raises(og.Damaged, match="checksum"):
        _use_records(graph)


# --- sidecars ---


def _sidecar(graph: og.Graph) -> Path:
    """The sidecar of a write that ended in the middle, when all its tables were committed."""
    with failpoints.armed("mutate.after_phase_b=error;recovery.before_restore=error"), pytest.raises(og.StorageError):
        graph.mutate(ADD, params={"name": "Dan"})
    (file,) = Path(graph.uri, "__recovery").iterdir()
    return file


@pytest.mark.usefixtures("rows_in_tables")
@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tables", 0, "version_after"), "5"),
        (("tables", 0, "expected_version"), "4"),
        (("tables", 0, "version_after"), 2),
        (("tables", 0, "removes"), "maybe"),
        (("tables", 0, "folded"), None),
        (("tables",), []),
        (("tables", 0, "path"), None),
        (("manifest_version",), 4.5),
        (("manifest_version",), True),
        (("doomed",), "no"),
        (("unchanged",), {"node:Person": "4"}),
        (("branch",), None),
        (("operation_id",), "01H00000000000000000000000"),
        (("format",), 7),
    ],
)
@pytest.mark.parametrize("signed", [True, False], ids=["with its checksum", "without one"])
def test_a_sidecar_with_damaged_fields_is_refused_and_kept(
    graph: og.Graph, place: tuple[str | int, ...], value: object, signed: bool
) -> None:
    file = _sidecar(graph)
    data = json.loads(file.read_text())
    checksum = data.pop("checksum")
    inner = data
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    changed = json.dumps({**data, "checksum": checksum} if signed else data).encode()
    file.write_bytes(changed)
    with pytest.raises(og.RecoveryFailed, match=file.name):
        og.open(graph.uri)
    with pytest.raises(og.RecoveryFailed, match=file.name):
        read_sidecar(location_of(graph.uri), file.stem)
    assert file.read_bytes() == changed
    assert names(og.open(graph.uri, "r")) == ["Ada", "Bob", "Cleo"]


@pytest.mark.usefixtures("rows_in_tables")
def test_a_sidecar_of_an_older_version_has_no_checksum_and_is_settled(graph: og.Graph) -> None:
    file = _sidecar(graph)
    data = json.loads(file.read_text())
    del data["checksum"]
    file.write_text(json.dumps(data))
    assert names(og.open(graph.uri)) == ["Ada", "Bob", "Cleo"]
    assert not file.exists()
