"""Checksums of stored files: what a file was when it was written, and whether it still is that.

On a disk it is the size and the SHA-256 of the content. An object store keeps and checks its own: there it is the size
and the tag that the store gave the object, so that nothing is downloaded to be noted.
"""

import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import BaseError

from omnigraph.errors import StorageError
from omnigraph.storage.location import Location
from omnigraph.storage.objects import store_at

_THREADS = 8
_PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class FileChecksum:
    """What is known of a file: its size, and either the digest of its content or the tag that its store gave it."""

    size: int
    sha256: str | None = None
    etag: str | None = None


def checksum_files(location: Location, names: Iterable[str]) -> dict[str, FileChecksum]:
    """The checksums of files below a place. A file that is not there is missing from the result."""
    ordered = sorted(names)
    if location.path is not None:
        root = location.path
        found = _pool().map(lambda name: _on_disk(root / name), ordered)
    else:
        store = store_at(location)
        found = _pool().map(lambda name: _in_store(store, location, name), ordered)
    return {name: checksum for name, checksum in zip(ordered, found, strict=True) if checksum is not None}


def _on_disk(path: Path) -> FileChecksum | None:
    digest, size = hashlib.sha256(), 0
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


def _in_store(store: Any, location: Location, name: str) -> FileChecksum | None:
    try:
        described = obstore.head(store, name)
    except FileNotFoundError:
        return None
    except BaseError as error:
        raise StorageError(f"{location.uri}/{name}", f"cannot be read: {error}") from error
    return FileChecksum(described["size"], etag=described["e_tag"])


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="omnigraph-checksum")
