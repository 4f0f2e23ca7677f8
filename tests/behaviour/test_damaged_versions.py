"""The file of a table's version is damaged so that it can still be read: no write takes the damage over.

Every new version of a table repeats what the one before says about its files. So a write that builds on a damaged
version would make the damage permanent, and restoring the file would not help.
"""

import random
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage.tables import version_file
from omnigraph.versioning.file_checksums import CHECKSUM_FOLDER
from tests import nursery

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

TOWN = "node:Town"
SCHEMA = "node Town { name: String @key, note: String, size: I64? @index }\nnode Other { name: String @key }"
NEXT_SCHEMA = SCHEMA.replace("note: String", "note: String, nick: String?")
COLUMNS = b"\x12\x04\x00\x01\x02\x03\x1a\x04\x00\x01\x02\x03"
"""What a version says about a file of rows: the ids of its columns, and where each of them is in the file."""
EXCHANGED = COLUMNS[:-2] + b"\x01\x03"
"""The same with another place for the column `note`: that of `name`."""
KILLED = """import sys, omnigraph as og
from omnigraph import failpoints
with failpoints.armed("mutate.table_committed=crash"):
    og.open(sys.argv[1]).mutate('query q { insert Town { name: "half", note: "x" } insert Other { name: "half" } }')"""
WRITES: dict[str, Callable[[og.Graph], object]] = {
    "insert": lambda graph: graph.mutate('query q { insert Town { name: "new", note: "x" } }'),
    "update": lambda graph: graph.mutate('query q { update Town set { size: 7 } where name = "a" }'),
    "delete": lambda graph: graph.mutate('query q { delete Town where name = "a" }'),
    "load": lambda graph: graph.load({"Town": [{"name": "new", "note": "x"}]}, mode="append"),
    "first write of a branch": lambda graph: graph.mutate(
        'query q { insert Town { name: "new", note: "x" } }', branch="review"
    ),
    "indexes": lambda graph: graph.ensure_indices(),
    "schema": lambda graph: graph.schema.apply(NEXT_SCHEMA),
}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    uri = tmp_path_factory.mktemp("versions") / "graph.omni"
    graph = og.init(uri, SCHEMA, durability="fast")
    for name in ("a", "b"):
        graph.mutate(f'query q {{ insert Town {{ name: "{name}", note: "note of {name}" }} }}')
    graph.branches.create("review")
    return uri


@pytest.fixture
def graph(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "graph.omni")


def newest_file(graph: Path) -> Path:
    pin = og.open(graph, mode="r").snapshot().manifest.pins[TOWN]
    return graph / pin.path / version_file(pin.version)


def notes(graph: Path) -> list[tuple[str, str]]:
    source = "query q { match { $t: Town } return { $t.name, $t.note } order { $t.name } }"
    rows = og.open(graph, mode="r").query(source).rows()
    return [(row["t.name"], row["t.note"]) for row in rows]


def exchange_columns(file: Path) -> bytes:
    """Damages a version, and gives what its file had before."""
    whole = file.read_bytes()
    assert COLUMNS in whole
    file.write_bytes(whole.replace(COLUMNS, EXCHANGED))
    return whole


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("is_folded", [False, True], ids=["", "after cleanup"])
def test_a_write_on_a_damaged_version_is_refused_and_works_once_the_file_is_back(
    graph: Path, write: str, is_folded: bool
) -> None:
    if is_folded:
        og.open(graph).cleanup(keep=50, grace="0s", confirm=True)
        assert len([*(graph / CHECKSUM_FOLDER).iterdir()]) == 1
    file = newest_file(graph)
    whole = exchange_columns(file)
    with pytest.raises(og.Damaged, match="does not match its recorded checksum") as refused:
        WRITES[write](og.open(graph))
    assert refused.value.uri.endswith(file.name)
    file.write_bytes(whole)
    assert notes(graph) == [("a", "note of a"), ("b", "note of b")]
    WRITES[write](og.open(graph))
    assert ("b", "note of b") in notes(graph)


def test_optimize_reports_a_damaged_version_and_works_once_the_file_is_back(graph: Path) -> None:
    file = newest_file(graph)
    whole = exchange_columns(file)
    result = og.open(graph).optimize()
    assert [each.table_key for each in result.failed] == [TOWN]
    file.write_bytes(whole)
    assert not og.open(graph).optimize().failed
    assert notes(graph) == [("a", "note of a"), ("b", "note of b")]


def test_an_unfinished_write_is_not_undone_to_a_damaged_version(graph: Path) -> None:
    file = newest_file(graph)
    assert nursery.ended(KILLED, str(graph))[0] == -signal.SIGKILL
    whole = exchange_columns(file)
    with pytest.raises(og.Damaged, match="does not match its recorded checksum"):
        og.open(graph)
    file.write_bytes(whole)
    og.open(graph)
    assert notes(graph) == [("a", "note of a"), ("b", "note of b")]


@pytest.mark.parametrize("write", ["insert", "schema"])
def test_no_flipped_bit_becomes_permanent_or_an_error_without_a_type(graph: Path, tmp_path: Path, write: str) -> None:
    numbers = random.Random(29)  # noqa: S311 - not for secrets
    name = newest_file(graph).relative_to(graph)
    for number in range(12):
        copy = shutil.copytree(graph, tmp_path / f"{number}.omni")
        whole = (copy / name).read_bytes()
        content = bytearray(whole)
        content[numbers.randrange(len(content))] ^= 1 << numbers.randrange(8)
        (copy / name).write_bytes(content)
        with suppress(og.StorageError):  # what says which write made the version is not repeated by the next one
            WRITES[write](og.open(copy))
        (copy / name).write_bytes(whole)
        assert notes(copy)[:2] == [("a", "note of a"), ("b", "note of b")]


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_write_does_not_need_the_record_of_checksums(graph: Path, how: str) -> None:
    for record in (graph / CHECKSUM_FOLDER).iterdir():
        record.unlink() if how == "missing" else record.write_bytes(b"{")
    WRITES["insert"](og.open(graph))
    assert ("new", "x") in notes(graph)
