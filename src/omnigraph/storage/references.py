"""The files that a version of a table refers to, and those that a staged change brings: whether they exist."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import StagedFileGone
from omnigraph.storage.files import StoredFile, files_below, find_file, map_in_threads
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.staging import StagedWrite
from omnigraph.storage.tables import Table, typed_errors

_AT_ONCE = 16
"""How many files a store is asked for at the same time."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file, or the folder of an index: the name that versions use for it, its path, and its size if known."""

    name: str
    path: str
    size: int | None = None
    is_folder: bool = False


def referred_names(table: Table) -> Iterator[str]:
    """The names that a version uses for its files: rows and deletions by their files, indexes by their identities."""
    return (file.name for file in _referred_files(table))


def missing_files(before: Table, after: Table) -> list[str]:
    """The paths of files that a later version refers to and the earlier does not, and that are missing or cut short.

    Files that the earlier version refers to are not checked, so the cost follows the change between the two.
    """
    with typed_errors(after.location, "its files cannot be listed"):
        known = {*referred_names(before)}
        new = [file for file in _referred_files(after) if file.name not in known]
    if not new:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(new))) as threads:
        found = threads.map(lambda file: _is_whole(after.location, file), new)
        return [file.path for file, is_whole in zip(new, found, strict=True) if not is_whole]


def _referred_files(table: Table) -> Iterator[_File]:
    for fragment in table.dataset.get_fragments():
        metadata = fragment.metadata
        for file in metadata.files:
            yield _File(file.path.removesuffix(".lance"), f"data/{file.path}", file.file_size_bytes or None)
        if metadata.deletion_file is not None:
            path = metadata.deletion_file.path(metadata.id)
            yield _File(path, path)
    for index in table.dataset.describe_indices():
        for segment in index.segments:
            yield _File(str(segment.uuid), f"_indices/{segment.uuid}", is_folder=True)


def _is_whole(location: Location, file: _File) -> bool:
    if file.is_folder:
        return bool(objects_at(location).names(file.path))
    found = find_file(location, file.path)
    return found is not None and file.size in (None, found.size)


def describe_staged_files(steps: Iterable[tuple[Table, StagedWrite]]) -> list[list[StoredFile]]:
    """The files that each staged change of a table brings, with their sizes, by names relative to the table.

    Raises `StagedFileGone` for a file that no longer exists. The caller holds the locks of the tables, and has not
    announced the write yet. On an object store each file costs a request; all are sent together.
    """
    requests: list[list[Callable[[], list[StoredFile]]]] = []
    is_remote = False
    for table, staged in steps:
        is_remote = is_remote or staged.location.path is None
        location, brought = staged.location, staged.added_files()
        # Blobs are in folders beside the rows; without columns of that kind there are none.
        blobs = brought.blobs if table.blob_handling is not None else ()
        requests.append(
            [
                *(partial(_staged_file, location, name) for name in brought.files),
                *(partial(_folder, location, name) for name in blobs),
                *(partial(_staged_index, location, name) for name in brought.indexes),
            ]
        )
    flat = [request for each in requests for request in each]
    found = map_in_threads(lambda request: request(), flat) if is_remote else (request() for request in flat)
    results = iter([*found])
    return [[file for _ in each for file in next(results)] for each in requests]


def _staged_file(location: Location, name: str) -> list[StoredFile]:
    found = find_file(location, name)
    if found is None:
        raise StagedFileGone(location.child(name).uri)
    return [found]


def _staged_index(location: Location, name: str) -> list[StoredFile]:
    files = _folder(location, name)
    if not files:
        raise StagedFileGone(location.child(name).uri)
    return files


def _folder(location: Location, name: str) -> list[StoredFile]:
    return [replace(file, name=f"{name}/{file.name}") for file in files_below(location.child(name))]
