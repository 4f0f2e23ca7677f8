"""All files below a place, with their sizes and ages, however deep; and their removal."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import obstore
from obstore.exceptions import BaseError

from omnigraph.errors import StorageError
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at, store_at

_CLOCK = "__clock"
_TOGETHER = 1_000
"""How many objects a store is asked to delete at once."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file below a place, by its name relative to it."""

    name: str
    size: int
    modified: datetime
    etag: str | None = None
    """What an object store calls this writing of the file."""


def files_below(location: Location) -> list[StoredFile]:
    """Every file below a place; one that goes meanwhile may be missing, and of no place there is none."""
    try:
        if location.path is not None:
            return [*_on_disk(location.path)]
        found = (each for page in obstore.list(store_at(location)) for each in page)
        return [StoredFile(each["path"], each["size"], each["last_modified"], each["e_tag"]) for each in found]
    except (OSError, BaseError) as error:
        raise StorageError(location.uri, f"cannot be listed: {error}") from error


def _on_disk(root: Path) -> Iterator[StoredFile]:
    for folder, _, names in os.walk(root):
        for name in names:
            path = Path(folder, name)
            try:
                status = path.stat()
            except FileNotFoundError:
                continue
            modified = datetime.fromtimestamp(status.st_mtime, UTC)
            yield StoredFile(path.relative_to(root).as_posix(), status.st_size, modified)


def store_time(location: Location) -> datetime:
    """What time it is by the clock that dates the files below a place; a file is written and removed for that.

    Ages of files are differences to this time. The clock of this machine may be another.
    """
    objects_at(location).note(_CLOCK, b"")
    try:
        if location.path is not None:
            return datetime.fromtimestamp((location.path / _CLOCK).stat().st_mtime, UTC)
        modified: datetime = obstore.head(store_at(location), _CLOCK)["last_modified"]
        return modified
    except (OSError, BaseError) as error:
        raise StorageError(location.uri, f"its clock cannot be read: {error}") from error
    finally:
        objects_at(location).delete(_CLOCK)


def delete_files(location: Location, names: Sequence[str]) -> None:
    """Removes files, and the folders that are empty without them; one that is not there is no matter."""
    try:
        if location.path is None:
            store = store_at(location)
            for start in range(0, len(names), _TOGETHER):
                obstore.delete(store, list(names[start : start + _TOGETHER]))
            return
        for name in names:
            (location.path / name).unlink(missing_ok=True)
        # An index is a folder, and so are the Blobs of a file of rows; the folders around those always stay.
        for folder in {(location.path / name).parent for name in names}:
            if folder.parent.name in ("_indices", "data") and not any(folder.iterdir()):
                folder.rmdir()
    except FileNotFoundError:
        return
    except (OSError, BaseError) as error:
        raise StorageError(location.uri, f"files cannot be deleted: {error}") from error
