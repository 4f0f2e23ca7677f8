"""The files of staged changes as they are on storage, right before versions refer to them."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, partial

import obstore
from obstore.exceptions import BaseError

from omnigraph.errors import StagedFileGone, StorageError
from omnigraph.storage.files import StoredFile, files_below
from omnigraph.storage.location import Location
from omnigraph.storage.objects import store_at
from omnigraph.storage.staging import StagedWrite
from omnigraph.storage.tables import Table

_THREADS = 8


def describe_staged_files(steps: Iterable[tuple[Table, StagedWrite]]) -> list[list[StoredFile]]:
    """The files that each staged change of a table brings, with their sizes, by names relative to the table.

    Raises `StagedFileGone` for one that is not there any more. The caller holds the locks of the tables, and has not
    announced the write yet. On an object store each file costs a request; all are sent together.
    """
    looks: list[list[Callable[[], list[StoredFile]]]] = []
    is_remote = False
    for table, staged in steps:
        is_remote = is_remote or staged.location.path is None
        location, brought = staged.location, staged.brought()
        # Blobs lie in folders beside the rows; without columns of that kind there are none.
        blobs = brought.blobs if table.blob_handling is not None else ()
        looks.append(
            [
                *(partial(_file, location, name) for name in brought.files),
                *(partial(_folder, location, name) for name in blobs),
                *(partial(_index, location, name) for name in brought.indexes),
            ]
        )
    flat = [look for each in looks for look in each]
    found = _pool().map(_call, flat) if is_remote else map(_call, flat)
    results = iter([*found])
    return [[file for _ in each for file in next(results)] for each in looks]


def _call(look: Callable[[], list[StoredFile]]) -> list[StoredFile]:
    return look()


def _file(location: Location, name: str) -> list[StoredFile]:
    try:
        if location.path is not None:
            status = (location.path / name).stat()
            return [StoredFile(name, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))]
        found = obstore.head(store_at(location), name)
    except FileNotFoundError as error:
        raise StagedFileGone(location.child(name).uri) from error
    except (OSError, BaseError) as error:
        raise StorageError(location.child(name).uri, f"cannot be read: {error}") from error
    return [StoredFile(name, found["size"], found["last_modified"], found["e_tag"])]


def _folder(location: Location, name: str) -> list[StoredFile]:
    files = files_below(location.child(name))
    return [replace(file, name=f"{name}/{file.name}") for file in files]


def _index(location: Location, name: str) -> list[StoredFile]:
    files = _folder(location, name)
    if not files:
        raise StagedFileGone(location.child(name).uri)
    return files


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="omnigraph-staged")
