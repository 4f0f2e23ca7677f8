"""A file that marks deleted rows is damaged: whatever reads it ends in a typed error, and never with the process."""

import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage import soundness

pytestmark = pytest.mark.usefixtures("module_with_rows_in_tables")

ROWS = 2_000
READS = """
import sys
import omnigraph as og
graph = og.open(sys.argv[1])
def optimize():
    result = graph.optimize()
    if result.failed:  # it tells of the table, and goes on with the others
        raise og.Damaged(graph.uri, result.failed[0].error)
verbs = {
    "query": lambda: graph.query("query q() { match { $p: Person } return { $p.name } }").rows(),
    "changes": lambda: [list(block.changes()) for block in graph.changes()],
    "delete": lambda: graph.mutate("query q() { delete Person where age > 1990 }"),
    "optimize": optimize,
}
for name, verb in verbs.items():
    try:
        verb()
        print(name, "answered")
    except og.StorageError as error:
        print(name, error.code)
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    uri = tmp_path_factory.mktemp("deletions") / "graph.omni"
    graph = og.init(uri, "node Person { name: String @key, age: I32? }")
    graph.load({"Person": [{"name": str(number), "age": number} for number in range(ROWS)]})
    graph.mutate("query q() { delete Person where age < 100 }")
    return uri


def deletion_file(uri: Path) -> Path:
    (path,) = uri.rglob("_deletions/*.arrow")
    return path


def read(uri: Path) -> dict[str, str]:
    """How each verb ended, in a process that may not come back."""
    told = subprocess.run([sys.executable, "-c", READS, uri], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-2_000:]
    return dict(line.split() for line in told.stdout.splitlines())


def length_of_body(content: bytes) -> int:
    """Where the footer says how long the only batch is; no other number in it is as large as the end of the file."""
    footer = len(content) - 10 - int.from_bytes(content[-10:-6], "little")
    found = [
        place
        for place in range(footer, len(content) - 34)
        if int.from_bytes(content[place : place + 8], "little")
        + int.from_bytes(content[place + 8 : place + 12], "little")
        + int.from_bytes(content[place + 16 : place + 24], "little")
        in range(footer - 16, footer + 1)
        and int.from_bytes(content[place : place + 8], "little")
    ]
    assert found
    return found[0] + 16


def test_a_length_that_would_end_the_process_is_a_typed_error(graph: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(graph, tmp_path / "graph.omni")
    path = deletion_file(copy)
    content = bytearray(path.read_bytes())
    content[length_of_body(bytes(content)) + 7] ^= 0x20
    path.write_bytes(content)
    assert set(read(copy).values()) == {"damaged"}


@pytest.mark.parametrize(
    "damage", [lambda content: content[:-20], lambda content: content[: len(content) // 2], lambda _content: b""]
)
def test_a_file_that_is_cut_short_is_a_typed_error(
    graph: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    copy = shutil.copytree(graph, tmp_path / "graph.omni")
    path = deletion_file(copy)
    path.write_bytes(damage(path.read_bytes()))
    assert set(read(copy).values()) == {"damaged"}


def test_a_file_that_is_replaced_by_an_older_one_is_a_typed_error(graph: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(graph, tmp_path / "graph.omni")
    older = deletion_file(copy)
    og.open(copy).mutate("query q() { delete Person where age < 200 }")
    (newest,) = {*copy.rglob("_deletions/*.arrow")} - {older}
    newest.write_bytes(older.read_bytes())
    assert set(read(copy).values()) == {"damaged"}


def test_any_flipped_bit_is_found_or_harmless(graph: Path, tmp_path: Path) -> None:
    random_bits = random.Random(17)  # noqa: S311 - not for secrets
    for number in range(6):
        copy = shutil.copytree(graph, tmp_path / f"{number}.omni")
        path = deletion_file(copy)
        content = bytearray(path.read_bytes())
        for _ in range(3):
            content[random_bits.randrange(len(content))] ^= 1 << random_bits.randrange(8)
        path.write_bytes(content)
        assert set(read(copy).values()) <= {"answered", "damaged", "storage_error"}


def test_a_file_is_read_once(graph: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = og.open(graph).snapshot().table("node:Person")
    table.scan(["id"])
    monkeypatch.setattr(soundness, "_problem", lambda *_: pytest.fail("it was checked before"))
    table.scan(["id"])
    og.open(graph).snapshot().table("node:Person").scan(["id"])
