"""What crash tests share: a count of the processes that they kill, told at the end of a run, and disks that forget."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.crash.forgetful_disk import ForgetfulDisk


@pytest.fixture
def kills(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """Says how many processes a test has killed, once all was well after it."""
    return lambda number: record_property("kills", number)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is such a thing: images are many small files."""
    memory = Path("/dev/shm")  # noqa: S108
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory) as name:
        yield Path(name)


@pytest.fixture
def disk(folder: Path) -> Iterator[ForgetfulDisk]:
    """An empty disk."""
    (folder / "disk").mkdir()
    disk = ForgetfulDisk(folder / "disk")
    yield disk
    disk.close()
