"""Small files beside the tables: schemas and sidecars.

On a local disk a file is written under another name and then linked into place, so that it is there whole or not at
all; creating one that exists is refused. An object store gives the same through a conditional put.
"""

import os
import uuid
from pathlib import Path
from typing import Protocol

from omnigraph.errors import StorageError
from omnigraph.storage.location import Location


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
    raise StorageError(location.uri, "graphs on an object store are not supported yet")


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
