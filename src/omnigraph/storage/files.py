"""Stored files of any size: listed with their sizes and ages, checksummed, and removed.

The checksum of a file on a disk is its size and the SHA-256 of its content. An object store keeps and checks its own:
there it is the size and the tag that the store gave the object, so that nothing is downloaded.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TypeVar

import obstore
from obstore.exceptions import BaseError

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import StorageError
from omnigraph.storage.location import Location
from omnigraph.storage.object_stores import store_at
from omnigraph.storage.objects import objects_at, reason_of

_CLOCK = "__clock"
_TOGETHER = 1_000
"""How many objects a store is asked to delete at once."""
_THREADS = 8
_PIECE = 1 << 20
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below a location, by its name relative to it."""

    name: str
    size: int
    modified: datetime
    etag: str | None = None
    """The tag that an object store gave this version of the file."""


@dataclass(frozen=True, slots=True)
class FileChecksum:
    """The size of a file, and either the digest of its content or the tag that its store gave it."""

    size: int
    sha256: str | None = None
    etag: str | None = None


def find_file(location: Location, name: str) -> StoredFile | None:
    """A file below a location, or None when there is none."""
    try:
        if location.path is not None:
            return _local_file(location.path, location.path / name)
        found = obstore.head(store_at(location), name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, BaseError) as error:
        raise StorageError(location.child(name).uri, f"cannot be read: {reason_of(error)}") from error
    return StoredFile(name, found["size"], found["last_modified"], found["e_tag"])


def files_below(location: Location) -> list[StoredFile]:
    """Every file below a location, which need not exist; a file that is removed meanwhile may be missing."""
    try:
        if location.path is not None:
            return [*_local_files(location.path)]
        found = (each for page in obstore.list(store_at(location)) for each in page)
        return [StoredFile(each["path"], each["size"], each["last_modified"], each["e_tag"]) for each in found]
    except (OSError, BaseError) as error:
        raise StorageError(location.uri, f"cannot be listed: {reason_of(error)}") from error


def _local_files(root: Path) -> Iterator[StoredFile]:
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                yield _local_file(root, Path(folder, name))
            except FileNotFoundError:
                continue


def _local_file(root: Path, path: Path) -> StoredFile:
    status = path.stat()
    modified = datetime.fromtimestamp(status.st_mtime, UTC)
    return StoredFile(path.relative_to(root).as_posix(), status.st_size, modified)


def store_time(location: Location) -> datetime:
    """The current time of the clock that dates the files below a location; a file is written and removed for it.

    Ages of files are measured against this time. The clock of this machine may differ.
    """
    objects_at(location).note(_CLOCK, b"")
    try:
        found = find_file(location, _CLOCK)
        if found is None:
            raise StorageError(location.uri, "its clock cannot be read: the file that was written is missing")
        return found.modified
    finally:
        objects_at(location).delete(_CLOCK)


def delete_files(location: Location, names: Sequence[str]) -> None:
    """Removes files, and the folders that are empty without them. A file that does not exist is ignored."""
    try:
        if location.path is None:
            store = store_at(location)
            for start in range(0, len(names), _TOGETHER):
                obstore.delete(store, list(names[start : start + _TOGETHER]))
            return
        for name in names:
            (location.path / name).unlink(missing_ok=True)
        # An index is a folder, and so are the Blobs of a data file; the folders around those always stay.
        for folder in {(location.path / name).parent for name in names}:
            if folder.parent.name in ("_indices", "data") and not any(folder.iterdir()):
                folder.rmdir()
    except FileNotFoundError:
        return
    except (OSError, BaseError) as error:
        raise StorageError(location.uri, f"files cannot be deleted: {reason_of(error)}") from error


def checksum_files(location: Location, names: Iterable[str]) -> dict[str, FileChecksum]:
    """The checksums of files below a location. A file that does not exist is missing from the result."""
    ordered = sorted(names)
    found = map_in_threads(lambda name: _checksum(location, name), ordered)
    return {name: checksum for name, checksum in zip(ordered, found, strict=True) if checksum is not None}


def _checksum(location: Location, name: str) -> FileChecksum | None:
    if location.path is None:
        found = find_file(location, name)
        return None if found is None else FileChecksum(found.size, etag=found.etag)
    digest, size = hashlib.sha256(), 0
    path = location.path / name
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                size += len(piece)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageError(str(path), f"cannot be read: {error}") from error
    return FileChecksum(size, sha256=digest.hexdigest())


def map_in_threads(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """The result of a function for each item, in order, computed in a few threads."""
    return _pool().map(function, items)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="omnigraph-files")
