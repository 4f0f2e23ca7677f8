"""Small files beside the tables: schemas and sidecars.

On a local disk a file is written under another name and then linked into place, so that it is there whole or not at
all; creating one that exists is refused. An object store gives the same through a conditional put.
"""

import os
import uuid
from pathlib import Path
from typing import Any, Protocol

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import from_url

from omnigraph.errors import StorageError
from omnigraph.storage.location import Location

_CLIENT_OPTIONS = frozenset({"allow_http", "timeout", "connect_timeout", "proxy_url"})


class Objects(Protocol):
    """The small files below one place, by their names relative to it."""

    def read(self, name: str) -> bytes | None:
        """The content of a file, or None when there is none."""

    def create(self, name: str, content: bytes) -> bool:
        """Writes a new file whole; False, and nothing written, when it is there already."""

    def replace(self, name: str, content: bytes) -> None:
        """Writes a file whole, whether or not one was there."""

    def delete(self, name: str) -> None:
        """Removes a file; one that is not there is no matter."""

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder, sorted."""


def objects_at(location: Location) -> Objects:
    """The small files below a place."""
    if location.path is not None:
        return LocalObjects(location.path)
    return RemoteObjects(location)


class LocalObjects:
    """Files on a local disk."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, name: str) -> bytes | None:
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> bool:
        draft = self._draft(name, content)
        try:
            os.link(draft, self._root / name)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def replace(self, name: str, content: bytes) -> None:
        self._draft(name, content).replace(self._root / name)

    def delete(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(path.name for path in (self._root / folder).iterdir() if not path.name.startswith(".draft-"))
        except FileNotFoundError:
            return []

    def _draft(self, name: str, content: bytes) -> Path:
        folder = (self._root / name).parent
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".draft-{uuid.uuid4().hex}"
        draft.write_bytes(content)
        return draft


class RemoteObjects:
    """Objects of a store, below one prefix; creating one is a conditional put."""

    def __init__(self, location: Location) -> None:
        options = dict(location.options)
        client: dict[str, Any] = {name: options.pop(name) for name in _CLIENT_OPTIONS & options.keys()}
        if "allow_http" in client:
            client["allow_http"] = client["allow_http"].lower() == "true"
        self._uri = location.uri
        # The options are those of the store that the URI names, which only the store itself knows.
        self._store: Any = from_url(location.uri, config=options, client_options=client)  # type: ignore[call-overload]

    def read(self, name: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._store, name).bytes())
        except FileNotFoundError:
            return None
        except BaseError as error:
            raise StorageError(f"{self._uri}/{name}", f"cannot be read: {error}") from error

    def create(self, name: str, content: bytes) -> bool:
        try:
            obstore.put(self._store, name, content, mode="create")
        except AlreadyExistsError:
            return False
        except BaseError as error:
            raise StorageError(f"{self._uri}/{name}", f"cannot be written: {error}") from error
        return True

    def replace(self, name: str, content: bytes) -> None:
        try:
            obstore.put(self._store, name, content)
        except BaseError as error:
            raise StorageError(f"{self._uri}/{name}", f"cannot be written: {error}") from error

    def delete(self, name: str) -> None:
        try:
            obstore.delete(self._store, name)
        except FileNotFoundError:
            return
        except BaseError as error:
            raise StorageError(f"{self._uri}/{name}", f"cannot be deleted: {error}") from error

    def names(self, folder: str) -> list[str]:
        try:
            found = obstore.list_with_delimiter(self._store, folder)["objects"]
        except BaseError as error:
            raise StorageError(f"{self._uri}/{folder}", f"cannot be listed: {error}") from error
        return sorted(each["path"].rpartition("/")[2] for each in found)
