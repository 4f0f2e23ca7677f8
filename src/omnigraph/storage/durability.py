"""Durability: files and the folders that name them are written through to a local disk, to survive a power cut.

A file is on the disk when its content is, its name in its folder, and the name of that folder in the one above. An
object store acknowledges only what it has stored, so nothing is done there.
"""

import os
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import StorageError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_THREADS = 8


def sync_files(files: Iterable[Path]) -> None:
    """Writes files through, and every folder above them that is not known to be on the disk yet."""
    paths = set(files)
    if not paths:
        return
    folders = {path.parent for path in paths}
    for folder in {*folders}:
        folders |= _new_ancestors(folder)
    together = [*paths, *folders]
    for _ in _pool().map(_sync, together):
        pass
    _remember_folders(folders)


def _remember_folders(folders: Iterable[Path]) -> None:
    kept = [_identity(folder) for folder in folders]
    with _lock:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept.update(kept)


def sync_folder(folder: Path) -> None:
    """Writes the names in a folder through, and every folder above it that is not known to be on the disk yet."""
    if _identity(folder) in _kept:
        _sync(folder)
        return
    folders = [folder, *_new_ancestors(folder)]
    for each in folders:
        _sync(each)
    _remember_folders(folders)


def sync_everything() -> None:
    """Writes everything through that any process has written, for a caller that relies on the files of others."""
    os.sync()


# A folder whose name is on the disk stays there, so each process writes its ancestors through once.
_kept: set[tuple[str, int]] = set()
_lock = threading.Lock()
_MOST_KEPT = 100_000
"""At this number all are forgotten, and written through once more."""


def forget(folder: Path) -> None:
    """Forgets that folders below one are on the disk: they may have been removed and created again."""
    path = str(folder)
    with _lock:
        _kept.difference_update([each for each in _kept if each[0] == path or each[0].startswith(f"{path}/")])


def _new_ancestors(folder: Path) -> set[Path]:
    found: set[Path] = set()
    while _identity(folder) not in _kept and folder.parent != folder:
        folder = folder.parent
        found.add(folder)
    return found


def _identity(folder: Path) -> tuple[str, int]:
    return str(folder), folder.stat().st_ino


def _sync(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        # A folder above the graph that we may traverse but not open has no new entries of ours.
        if not (isinstance(error, PermissionError) and path.is_dir()):
            raise StorageError(str(path), f"cannot be written through to the disk: {error}") from error


@cache
def _pool() -> "ThreadPoolExecutor":
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - a write of one file needs no threads

    return ThreadPoolExecutor(_THREADS, thread_name_prefix="omnigraph-sync")
