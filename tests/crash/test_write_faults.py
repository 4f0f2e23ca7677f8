"""Disks that are full and folders that cannot be written: typed errors, nothing half done, and no wedge after it."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import omnigraph as og
from tests.conftest import carry_rows
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.crash.world import SCHEMA, Kind, perform, prepare, state_after, state_before, state_of

ROOT = Path(__file__).parents[2]


def check_after(graph: og.Graph, folder: Path) -> None:
    """The fault is gone: the same handle writes again, and so does a new one."""
    perform(graph, Kind.MUTATE, 5, folder)
    assert state_of(graph) == state_after(Kind.MUTATE, 5)
    reopened = og.open(graph.uri)
    assert reopened.recoveries.pending() == []
    assert_heads_are_pinned(reopened)
    assert_history_is_linear(reopened)
    prepare(reopened, 5, folder)


# Fills a small file system up to a few bytes, again and again, and writes into what is left.
FULL_DISK = """
import sys
from pathlib import Path
import omnigraph as og
from omnigraph import failpoints
from tests.crash.test_write_faults import check_after
from tests.crash.world import SCHEMA, Kind, perform, prepare, state_after, state_before, state_of
disk, folder = Path(sys.argv[1]), Path(sys.argv[2])
graph = og.init(disk / "graph", SCHEMA)
prepare(graph, 5, folder)
failed = 0
for free in range(0, 200_000, 8_192):
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
        size = file.tell()
        file.truncate(max(0, size - free))
    try:
        perform(graph, Kind.MUTATE, 5, folder)
        assert state_of(graph) == state_after(Kind.MUTATE, 5)
        ballast.unlink()
        prepare(graph, 5, folder)
    except og.StorageError:
        failed += 1
        ballast.unlink()
        assert state_of(graph) == state_before(5)
        check_after(graph, folder)
    assert state_of(graph) == state_before(5)
print(failed)
"""


def may_mount() -> bool:
    """Whether this machine lets us have a small file system of our own."""
    command = ["unshare", "--map-root-user", "--mount", "true"]
    return shutil.which("unshare") is not None and subprocess.run(command, check=False).returncode == 0


@pytest.mark.skipif(not may_mount(), reason="no file system can be mounted here")
@pytest.mark.parametrize(("carried", "least"), [(0, 3), (512, 1)])
def test_a_full_disk_is_an_error_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carried: int, least: int
) -> None:
    carry_rows(monkeypatch, carried)
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=12m tmpfs {disk} && exec {sys.executable} -c "$PROGRAM" {disk} {tmp_path}'
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount]
    environment = {**os.environ, "PROGRAM": FULL_DISK}
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= least


def test_a_file_that_may_not_grow_is_an_error_that_passes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    prepare(graph, 5, tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for limit in (0, 200, 600, 1_000, 1_600, 2_400):
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(og.StorageError):
                graph.mutate('query add { insert A { name: "x" } insert B { name: "x" } }')
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert state_of(graph) == state_before(5)
        check_after(graph, tmp_path)


# Becomes a user who may not write here, after everything was imported and used once.
NO_PERMISSION = """
import os, sys
from pathlib import Path
import omnigraph as og
from omnigraph import failpoints
from tests.crash.test_write_faults import check_after
from tests.crash.world import SCHEMA, Kind, perform, prepare, state_before, state_of
folder = Path(sys.argv[1])
graph = og.init(folder / "graph", SCHEMA)
for _ in range(2):
    prepare(graph, 5, folder)
    try:
        with failpoints.armed("mutate.after_phase_b=error"):
            perform(graph, Kind.MUTATE, 5, folder)
    except og.StorageError:
        pass
    check_after(graph, folder)
folders = [Path(graph.uri), *(path for path in Path(graph.uri).rglob("*") if path.is_dir())]
if os.geteuid() == 0:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
refused = 0
for locked in folders:
    locked.chmod(0o555)
    try:
        perform(graph, Kind.MUTATE, 5, folder)
    except og.StorageError:
        refused += 1
        assert state_of(graph) == state_before(5)
        locked.chmod(0o755)
        check_after(graph, folder)
    else:
        locked.chmod(0o755)
        prepare(graph, 5, folder)
print(refused)
"""


@pytest.mark.parametrize(("carried", "least"), [(0, 10), (512, 1)])
def test_a_folder_that_may_not_be_written_is_an_error_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carried: int, least: int
) -> None:
    carry_rows(monkeypatch, carried)
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o755)
    command = [sys.executable, "-c", NO_PERMISSION, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= least
