"""What DuckDB does when memory is short: it goes to files that nobody else sees and that do not stay, or says so."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BEGINNING = """
import os, signal, sys
from pathlib import Path
from omnigraph.parts.duck import joining
from omnigraph.errors import QueryExceedsMemory, TooBusy

SORTED = "SELECT 'row ' || hash(i) AS word, i FROM range(2000000) AS numbers(i) ORDER BY word"

def spilled():
    return [*Path(os.environ["TMPDIR"]).glob("omnigraph-joins-*/*")]
"""
SORTS = """
with joining() as duck:
    reader = duck.sql(SORTED).to_arrow_reader(65536)
    assert sum(batch.num_rows for batch in reader) == 2000000
    assert spilled()
"""
DIES = """
with joining() as duck:
    duck.sql(SORTED).to_arrow_reader(65536).read_next_batch()
    assert spilled()
    os.kill(os.getpid(), signal.SIGKILL)
"""
REFUSED = """
def refusal():
    try:
        with joining() as duck:
            duck.execute("SET max_temp_directory_size = '0KiB'")
            duck.sql(SORTED).to_arrow_reader(65536).read_all()
    except (QueryExceedsMemory, TooBusy) as error:
        return error

assert refusal().limit == int(os.environ["OMNIGRAPH_JOIN_BYTES"])
with joining():
    assert isinstance(refusal(), TooBusy)
assert isinstance(refusal(), QueryExceedsMemory)
"""


@pytest.fixture(autouse=True)
def little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("OMNIGRAPH_JOIN_BYTES", str(64 * 1024 * 1024))


def ended(program: str) -> int:
    command = [sys.executable, "-c", BEGINNING + program]
    child = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert "Error" not in child.stderr, child.stderr
    return child.returncode


def test_what_does_not_fit_goes_to_files_that_do_not_stay(tmp_path: Path) -> None:
    assert ended(DIES) == -signal.SIGKILL
    [folder] = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [*folder.iterdir()] != []
    assert ended(SORTS) == 0
    assert [*folder.iterdir()] == []


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    planted = tmp_path / f"omnigraph-joins-{os.getuid()}"
    planted.mkdir()
    planted.chmod(0o777)
    assert ended(SORTS) == 0
    assert [*planted.iterdir()] == []


def test_what_cannot_go_to_files_is_refused_and_tried_again_only_if_others_run() -> None:
    assert ended(REFUSED) == 0
