"""Which files a version of a table refers to, and which of those that it brought are not there."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.tables import Table, typed_errors

_AT_ONCE = 16
"""How many files a store is asked for at the same time."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file, or for an index a folder, by the name that versions know it by, by its path, and with its bytes."""

    name: str
    path: str
    size: int | None = None
    is_folder: bool = False


def referred_names(table: Table) -> Iterator[str]:
    """The names by which a version knows its files: rows and deletions by their files, indexes by their identities."""
    return (file.name for file in _referred_files(table))


def missing_files(before: Table, after: Table) -> list[str]:
    """The paths of files that a later version refers to and the earlier one does not, and that are not there whole.

    What the earlier version refers to is not looked for. So the cost follows the change between the two.
    """
    with typed_errors(after.location, "its files cannot be listed"):
        known = {*referred_names(before)}
        brought = [file for file in _referred_files(after) if file.name not in known]
    if not brought:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(brought))) as threads:
        found = threads.map(lambda file: _is_there(after.location, file), brought)
        return [file.path for file, is_there in zip(brought, found, strict=True) if not is_there]


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


def _is_there(location: Location, file: _File) -> bool:
    objects = objects_at(location)
    if file.is_folder:
        return bool(objects.names(file.path))
    size = objects.size(file.path)
    return size is not None and file.size in (None, size)
