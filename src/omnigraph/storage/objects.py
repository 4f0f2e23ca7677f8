"""Small files beside the tables: schemas and sidecars.

On a local disk, a file is written under another name and then linked into place, so that it is complete or does not
exist; creating a file that exists is refused. On an object store, a conditional put guarantees the same.
"""

import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError
from obstore.store import from_url

from omnigraph.errors import StorageError
from omnigraph.storage.durability import sync_files, sync_folder
from omnigraph.storage.location import Location

Tag = Any
"""Identifies one state of an object in its store; a conditional put sends it."""

_DRAFT = ".draft-"
_KEPT_CLIENTS = 1_024
_PAGE = 1_000
"""How many objects a store lists for one request."""

_CLIENT_OPTIONS = frozenset({"allow_http", "timeout", "connect_timeout", "proxy_url"})
_MAX_RETRIES, _RETRY_TIMEOUT = "client_max_retries", "client_retry_timeout"
_OF_LANCE_ALONE = ("download_retry_count", "lance_")


def objects_at(location: Location) -> "LocalObjects | RemoteObjects":
    """The small files below a location, by their names relative to it."""
    if location.path is not None:
        return LocalObjects(location.path, durable=location.durable)
    return _remote(location)


@lru_cache(_KEPT_CLIENTS)
def _remote(location: Location) -> "RemoteObjects":
    return RemoteObjects(location)


class LocalObjects:
    """Files on a local disk."""

    def __init__(self, root: Path, *, durable: bool) -> None:
        self._root = root
        self._durable = durable

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None when there is none."""
        with _storage_errors(self._root / name, "be read"):
            try:
                return (self._root / name).read_bytes()
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
        with _storage_errors(self._root / name, "be written"):
            draft = self._draft(name, content, durable=self._durable)
            try:
                os.link(draft, self._root / name)
            except FileExistsError:
                return False
            finally:
                draft.unlink()
            if self._durable:
                # The content is on the disk already.
                sync_folder(draft.parent)
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Writes a file, through to the disk, whether or not it exists."""
        with _storage_errors(self._root / name, "be written"):
            self._draft(name, content, durable=self._durable).replace(self._root / name)
            self._sync(name)

    def note(self, name: str, content: bytes) -> None:
        """Like `replace`, for a file that may be lost or empty after a power cut."""
        with _storage_errors(self._root / name, "be written"):
            self._draft(name, content, durable=False).replace(self._root / name)

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

    def _draft(self, name: str, content: bytes, *, durable: bool) -> Path:
        """The content under another name, so that a file with the final name is always complete."""
        folder = (self._root / name).parent
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f"{_DRAFT}{uuid.uuid4().hex}"
        try:
            with draft.open("xb") as file:
                file.write(content)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
        except OSError:
            draft.unlink(missing_ok=True)
            raise
        return draft

    def _sync(self, name: str) -> None:
        if self._durable:
            sync_files([self._root / name])


def is_draft(name: str) -> bool:
    """Whether a file has not got its final name yet; an old one was left by a process that died."""
    return name.rpartition("/")[2].startswith(_DRAFT)


@contextmanager
def _storage_errors(uri: Path | str, verb: str) -> Iterator[None]:
    try:
        yield
    except (OSError, BaseError) as error:
        raise StorageError(str(uri), f"cannot {verb}: {reason_of(error)}") from error


class RemoteObjects:
    """Objects of a store, below one prefix; creating one is a conditional put."""

    def __init__(self, location: Location) -> None:
        self._uri = location.uri
        try:
            self._store: Any = store_at(location)
        except (BaseError, ValueError) as error:
            raise StorageError(location.uri, f"cannot be reached with these options: {reason_of(error)}") from error

    def read(self, name: str) -> bytes | None:
        found = self.read_tagged(name)
        return None if found is None else found[0]

    def read_range(self, name: str, start: int, stop: int) -> bytes | None:
        with _storage_errors(f"{self._uri}/{name}", "be read"):
            try:
                # A store refuses a range that begins at the end of an object, and shortens one that ends beyond it.
                size = obstore.head(self._store, name)["size"]
                if start >= min(stop, size):
                    return b""
                return bytes(obstore.get_range(self._store, name, start=start, end=min(stop, size)))
            except FileNotFoundError:
                return None

    def exists(self, name: str) -> bool:
        with _storage_errors(f"{self._uri}/{name}", "be read"):
            try:
                obstore.head(self._store, name)
            except FileNotFoundError:
                return False
        return True

    def create(self, name: str, content: bytes) -> bool:
        return self.swap(name, content, None) is not None

    def replace(self, name: str, content: bytes) -> None:
        with _storage_errors(f"{self._uri}/{name}", "be written"):
            obstore.put(self._store, name, content)

    def note(self, name: str, content: bytes) -> None:
        self.replace(name, content)

    def read_tagged(self, name: str) -> tuple[bytes, Tag] | None:
        with _storage_errors(f"{self._uri}/{name}", "be read"):
            try:
                found = obstore.get(self._store, name)
            except FileNotFoundError:
                return None
            return bytes(found.bytes()), _tag(found.meta)

    def swap(self, name: str, content: bytes, tag: Tag | None) -> Tag | None:
        """Writes an object if its state still has this tag or, without a tag, if it does not exist; otherwise None."""
        with _storage_errors(f"{self._uri}/{name}", "be written"):
            try:
                return _tag(obstore.put(self._store, name, content, mode="create" if tag is None else tag))
            except (AlreadyExistsError, PreconditionError, FileNotFoundError):
                return None

    def delete(self, name: str) -> None:
        with _storage_errors(f"{self._uri}/{name}", "be deleted"), suppress(FileNotFoundError):
            obstore.delete(self._store, name)

    def delete_folder(self, folder: str) -> None:
        with _storage_errors(f"{self._uri}/{folder}", "be deleted"):
            for found in obstore.list(self._store, f"{folder}/"):
                obstore.delete(self._store, [each["path"] for each in found])

    def names(self, folder: str) -> list[str]:
        return sorted(each["path"].rpartition("/")[2] for each in self._list(folder)["objects"])

    def pages(self, folder: str) -> Iterator[list[str]]:
        with _storage_errors(f"{self._uri}/{folder}", "be listed"):
            for page in obstore.list(self._store, f"{folder}/", chunk_size=_PAGE):
                yield [name for each in page if "/" not in (name := each["path"].removeprefix(f"{folder}/"))]

    def folders(self, folder: str) -> list[str]:
        return sorted(each.rstrip("/").rpartition("/")[2] for each in self._list(folder)["common_prefixes"])

    def _list(self, folder: str) -> Any:
        with _storage_errors(f"{self._uri}/{folder}", "be listed"):
            return obstore.list_with_delimiter(self._store, folder)


def store_at(location: Location) -> Any:
    """The client of a store. The options of Lance are split into those of the client, of retries and of the store."""
    options = {name: value for name, value in location.options if not name.startswith(_OF_LANCE_ALONE)}
    client: dict[str, Any] = {name: options.pop(name) for name in _CLIENT_OPTIONS & options.keys()}
    # Lance reads this option from the environment too, and small files must be in the same store.
    client.setdefault("allow_http", os.environ.get("AWS_ALLOW_HTTP", "false"))
    client["allow_http"] = client["allow_http"].lower() == "true"
    retry: dict[str, Any] = {}
    if _MAX_RETRIES in options:
        retry["max_retries"] = int(options.pop(_MAX_RETRIES))
    if _RETRY_TIMEOUT in options:
        retry["retry_timeout"] = timedelta(seconds=int(options.pop(_RETRY_TIMEOUT)))
    # The other options depend on the kind of store, which checks them.
    return from_url(  # type: ignore[call-overload]
        location.uri, config=options, client_options=client, retry_config=retry or None
    )


def reason_of(error: Exception) -> str:
    """What went wrong at a store, as one line, without the fields of the client's own error that follow in its text."""
    return " ".join(str(error).partition("\n\nDebug source:")[0].split())


def _tag(described: Mapping[str, Any]) -> Tag:
    return {name: described[name] for name in ("e_tag", "version") if described[name] is not None}
