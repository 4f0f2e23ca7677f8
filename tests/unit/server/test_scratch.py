"""The folders of a server: what is removed of them, and when."""

import os
import tempfile
from pathlib import Path

import pytest

from omnigraph.server.scratch import Scratch, remove_left_over


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_only_what_a_server_that_was_killed_left_is_removed(place: Path) -> None:
    killed, living = Scratch(), Scratch()
    assert killed._lock is not None
    os.close(killed._lock)
    (killed.path / "0").write_bytes(b"half a load")
    young, other = place / f"{Scratch.PREFIX}young", place / "other"
    for folder in (young, other):
        folder.mkdir()
    for folder in (killed.path, living.path, other):
        os.utime(folder, (0, 0))
    remove_left_over()
    assert {*place.iterdir()} == {living.path, young, other}
    for _ in range(2):
        living.remove()
    assert {*place.iterdir()} == {young, other}


def test_a_link_that_somebody_planted_is_not_followed(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "file").write_text("stays")
    os.utime(elsewhere, (0, 0))
    planted = place / f"{Scratch.PREFIX}planted"
    planted.symlink_to(elsewhere)
    os.utime(planted, (0, 0), follow_symlinks=False)
    remove_left_over()
    assert (elsewhere / "file").read_text() == "stays"


def test_nobody_else_can_look_into_it(place: Path) -> None:
    scratch = Scratch()
    assert scratch.path.stat().st_mode & 0o077 == 0
    scratch.remove()
