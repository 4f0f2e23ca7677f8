"""What we write ourselves and find damaged is an error that says so: never an older state, and never lost."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.storage.location import location_of
from omnigraph.storage.records import encode_record
from omnigraph.storage.tables import version_file
from omnigraph.write.sidecar import read_sidecar
from tests.file_damages import DAMAGES, Damage, cut, empty, flip, remove, scramble

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


def newest_manifest(graph: og.Graph) -> Path:
    return Path(graph.uri, "__manifest", version_file(4))


# --- the version of a table ---


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
    file = newest_manifest(graph)
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
    damage(newest_manifest(graph))
    left = sorted(Path(graph.uri, "__manifest").rglob("*"))
    with pytest.raises(og.Damaged):
        og.open(graph.uri).mutate(ADD, params={"name": "Dan"})
    assert sorted(Path(graph.uri, "__manifest").rglob("*")) == left


@pytest.mark.parametrize("damage", [flip, cut, empty, remove, scramble])
def test_damaged_rows_of_the_newest_manifest_are_an_error(graph: og.Graph, damage: Damage) -> None:
    newest = max(Path(graph.uri, "__manifest", "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    damage(newest)
    with pytest.raises(og.Damaged):
        og.open(graph.uri, "r").query(NAMES)


def test_a_bit_in_the_rows_of_a_manifest_is_noticed_wherever_it_is(graph: og.Graph) -> None:
    newest = max(Path(graph.uri, "__manifest", "data").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    whole = newest.read_bytes()
    for place in range(0, len(whole), 97):
        flip(newest, place)
        with suppress(og.StorageError):
            assert names(og.open(graph.uri, "r")) == ["Ada", "Bob", "Cleo"]
        newest.write_bytes(whole)


def test_an_old_manifest_that_is_missing_was_not_removed_by_cleanup(graph: og.Graph) -> None:
    Path(graph.uri, "__manifest", version_file(2)).unlink()
    reopened = og.open(graph.uri)
    assert names(reopened) == ["Ada", "Bob", "Cleo"]
    with pytest.raises(og.Damaged, match="version 2 of the manifest"):
        reopened.snapshot_at(version=2)


def test_a_torn_version_that_nobody_was_told_of_is_still_removed(graph: og.Graph) -> None:
    torn = Path(graph.uri, "__manifest", version_file(5))
    torn.write_bytes(b"half of a ver")
    reopened = og.open(graph.uri)
    assert version_after_adding(reopened, "Dan") == 5
    assert names(og.open(graph.uri)) == ["Ada", "Bob", "Cleo", "Dan"]


def test_a_graph_is_never_created_over_a_damaged_one(graph: og.Graph) -> None:
    for path in Path(graph.uri, "__manifest", "_versions").glob("*.manifest"):
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
    ref = Path(graph.uri, "__manifest", "_refs", "branches", "review.json")
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


def test_a_ref_that_says_two_beginnings_is_damaged_and_nothing_goes(graph: og.Graph) -> None:
    graph.branches.create("review")
    for name in ("Dan", "Eve"):
        graph.mutate(ADD, params={"name": name}, branch="review")
    ref = Path(graph.uri, "__manifest", "_refs", "branches", "review.json")
    document = json.loads(ref.read_bytes())
    ref.write_text(json.dumps({**document, "parentVersion": document["parentVersion"] + 1}))
    before = sorted(Path(graph.uri, "__manifest").rglob("*.manifest"))
    with pytest.raises(og.Damaged, match=r"review\.json"):
        og.open(graph.uri).cleanup(keep=1, grace="0s", confirm=True)
    assert sorted(Path(graph.uri, "__manifest").rglob("*.manifest")) == before


def test_a_tag_on_a_branch_that_has_the_ref_of_another_is_not_said_to_be_unknown(graph: og.Graph) -> None:
    for branch in ("review", "spare"):
        graph.branches.create(branch)
        graph.mutate(ADD, params={"name": branch}, branch=branch)
    graph.tags.create("seen", "review")
    refs = Path(graph.uri, "__manifest", "_refs", "branches")
    (refs / "review.json").write_bytes((refs / "spare.json").read_bytes())
    with pytest.raises(og.Damaged, match="review"):
        og.open(graph.uri).query(NAMES, snapshot="seen")


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


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("tables", 0, "version_after"), "5"),
        (("tables", 0, "expected_version"), "4"),
        (("tables", 0, "version_after"), 2),
        (("tables", 0, "removed_at"), -1),
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


def test_a_sidecar_of_an_older_version_has_no_checksum_and_is_settled(graph: og.Graph) -> None:
    file = _sidecar(graph)
    data = json.loads(file.read_text())
    del data["checksum"]
    file.write_text(json.dumps(data))
    assert names(og.open(graph.uri)) == ["Ada", "Bob", "Cleo"]
    assert not file.exists()
