"""Small files beside the tables: schemas and sidecars.

On a local disk, a file is written under another name and then linked into place, so that it is complete or does not
exist; creating a file that exists is refused. On an object store, a conditional put guarantees the same.
"""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.errors import StorageError
from omnigraph.storage.durability import sync_files, sync_folder
from omnigraph.storage.location import Location

if TYPE_CHECKING:
    from omnigraph.storage.object_stores import RemoteObjects

Tag = Any
"""Identifies one state of an object in its store; a conditional put sends it."""

_DRAFT = ".draft-"
_KEPT_CLIENTS = 1_024


def objects_at(location: Location) -> "LocalObjects | RemoteObjects":
    """The small files below a location, by their names relative to it."""
    if location.path is not None:
        return LocalObjects(location.path, durable=location.durable)
    return _remote(location)


@lru_cache(_KEPT_CLIENTS)
def _remote(location: Location) -> "RemoteObjects":
    from omnigraph.storage.object_stores import RemoteObjects  # noqa: PLC0415 - a disk needs no client of stores

    return RemoteObjects(location)


class LocalObjects:
    """Files on a local disk."""

    def __init__(self, root: Path, *, durable: bool) -> None:
        self._root = root
        self._durable = durable

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None when there is none."""
        path = self._root / name
        with _storage_errors(path, "be read"):
            try:
                return path.read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        """The bytes of a file from one place to another, fewer at its end, or None when there is no file."""
        with _storage_errors(self._root / name, "be read"):
            try:
                with (self._root / name).open("rb") as file:
                    file.seek(start)
                    return file.read(stop - start)
            except (FileNotFoundError, NotADirectoryError):
                return None

    def exists(self, name: str) -> bool:
        """Whether a file exists. A failure of the store raises an error: the answer is then unknown."""
        with _storage_errors(self._root / name, "be read"):
            return (self._root / name).is_file()

    def read_tagged(self, name: str) -> tuple[bytes, Tag] | None:
        """The content of a file, and the tag of its current state; None when there is none."""
        content = self.read(name)
        return None if content is None else (content, content)

    def swap(self, name: str, content: bytes, tag: Tag) -> Tag | None:
        """Writes a file if its state still has this tag, and returns the new tag; otherwise writes nothing: None.

        On a store this is one conditional put. On a disk it is a read and then a write, so the caller holds the lock
        that all writers of the file take.
        """
        if self.read(name) != tag:
            return None
        self.replace(name, content)
        return content

    def create(self, name: str, content: bytes) -> bool:
        """Writes a new file, through to the disk; if it already exists, writes nothing and returns False."""
        path = self._root / name
        with _storage_errors(path, "be written"):
            draft = self._draft(path, content, durable=self._durable)
            try:
                os.link(draft, path)
            except FileExistsError:
                return False
            finally:
                os.unlink(draft)  # noqa: PTH108 - on the way of every commit
            if self._durable:
                # The content is on the disk already.
                sync_folder(path.parent)
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Writes a file, through to the disk, whether or not it exists."""
        path = self._root / name
        with _storage_errors(path, "be written"):
            os.replace(self._draft(path, content, durable=self._durable), path)  # noqa: PTH105 - as in `create`
            self._sync(name)

    def note(self, name: str, content: bytes) -> None:
        """Like `replace`, for a file that may be lost or empty after a power cut."""
        path = self._root / name
        with _storage_errors(path, "be written"):
            os.replace(self._draft(path, content, durable=False), path)  # noqa: PTH105 - as in `create`

    def overwrite(self, name: str, content: bytes) -> None:
        """Like `note`, for a small file that is written often, and may be torn.

        It is written in place: a file that takes the name of another one is written through to the disk by some file
        systems, which takes longer than a commit.
        """
        path = self._root / name
        with _storage_errors(path, "be written"):
            descriptor = _open_note(path)
            try:
                os.pwrite(descriptor, content, 0)
                if os.fstat(descriptor).st_size != len(content):
                    os.ftruncate(descriptor, len(content))
            finally:
                os.close(descriptor)

    def delete(self, name: str) -> None:
        """Removes a file, if it exists."""
        with _storage_errors(self._root / name, "be deleted"):
            (self._root / name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, sorted."""
        with _storage_errors(self._root / folder, "be listed"):
            try:
                with os.scandir(self._root / folder) as entries:
                    found = [entry.name for entry in entries]
            except FileNotFoundError:
                return []
        return sorted(name for name in found if not name.startswith(_DRAFT))

    def pages(self, folder: str) -> Iterator[list[str]]:
        """The names of the files in a folder, some at a time, those that sort first in the first page.

        A page costs one request, and is requested only when it is needed.
        """
        yield self.names(folder)

    def folders(self, folder: str) -> list[str]:
        """The names of the folders in a folder, sorted."""
        with _storage_errors(self._root / folder, "be listed"):
            try:
                return sorted(path.name for path in (self._root / folder).iterdir() if path.is_dir())
            except FileNotFoundError:
                return []

    def delete_folder(self, folder: str) -> None:
        """Removes a folder with its content, if it exists."""
        place = self._root / folder
        with _storage_errors(place, "be deleted"):
            for is_last in (False, False, True):
                try:
                    shutil.rmtree(place)
                except OSError:
                    # Another process may have removed or written a file there at the same time.
                    if is_last and place.exists():
                        raise
                else:
                    return

    def _draft(self, path: Path, content: bytes, *, durable: bool) -> str:
        """The content under another name, so that a file with the final name is always complete."""
        folder = os.path.dirname(path)  # noqa: PTH120 - as in `create`
        draft = f"{folder}/{_DRAFT}{uuid.uuid4().hex}"
        try:
            descriptor = _create_file(draft)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = _create_file(draft)
        try:
            with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 - as in `create`
                rest = memoryview(content)
                while rest:
                    rest = rest[file.write(rest) :]
                if durable:
                    os.fsync(descriptor)
        except OSError:
            with suppress(OSError):
                os.unlink(draft)  # noqa: PTH108 - as in `create`
            raise
        return draft

    def _sync(self, name: str) -> None:
        if self._durable:
            sync_files([self._root / name])


def _open_note(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o666)


def _create_file(path: str) -> int:
    return os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666)


def is_draft(name: str) -> bool:
    """Whether a file has not got its final name yet; an old one was left by a process that died."""
    return name.rpartition("/")[2].startswith(_DRAFT)


@contextmanager
def _storage_errors(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(str(path), f"cannot {verb}: {reason_of(error)}") from error


def reason_of(error: Exception) -> str:
    """What went wrong at a store, as one line, without the fields of the client's own error that follow in its text."""
    return " ".join(str(error).partition("\n\nDebug source:")[0].split())
