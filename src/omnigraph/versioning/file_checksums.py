"""The checksums of the files that commits added, one record for each commit, which `verify` compares with.

Writes compare the version of a table that they build on, because the next version repeats what that one says.

A record is written before its commit is published, and not synced: if a power cut loses it, the files of that commit
have no checksum, and nothing else is lost. Cleanup folds the records into one, without the files that are gone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged
from omnigraph.storage.drift import operation_at
from omnigraph.storage.files import FileChecksum, checksum_files, files_below
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import encode_record, read_record
from omnigraph.storage.tables import version_file, version_in
from omnigraph.versioning.manifest import Pin

CHECKSUM_FOLDER = "__checksums"
_SUFFIX = ".json"
_WORTH_FOLDING = 2

_MOST_KNOWN = 200_000
_known: set[str] = set()
"""Versions that this process has compared or committed, by the URI of their file."""

FileChecksums = Mapping[str, Mapping[str, FileChecksum]]
"""By the path of a table below the graph, and the name of a file below that."""


@dataclass(frozen=True, slots=True)
class _ChecksumRecord:
    """The content of a record."""

    tables: dict[str, dict[str, FileChecksum]]


@dataclass(frozen=True, slots=True)
class RecordedChecksums:
    """The content of all records together; the names of those that could be read, and the damage of the others."""

    tables: FileChecksums
    readable: tuple[str, ...] = ()
    damaged: tuple[Damaged, ...] = ()


def record_checksums(graph: Location, operation_id: str, tables: FileChecksums) -> None:
    """Records the checksums of the files that a write adds, under the id of its commit."""
    objects_at(graph).note(_file(operation_id), _encode(tables))
    for path, files in tables.items():
        _know(graph.child(path).child(name).uri for name in files if version_in(name) is not None)


def recorded_checksums(graph: Location) -> RecordedChecksums:
    """Everything that commits have recorded."""
    return _read_records(graph, objects_at(graph).names(CHECKSUM_FOLDER))


def check_pinned_version(graph: Location, pin: Pin) -> None:
    """Raises `Damaged` if the file of a version on a disk does not match the checksum that its commit recorded.

    Without this check, a write would copy the damage into the next version, and restoring the file would not help. A
    version without a readable record is not checked: it may have been lost in a power cut. Each version is checked
    once: after that, a process has it in memory.
    """
    location, name = graph.child(pin.path), version_file(pin.version)
    file = location.child(name).uri
    if location.path is None or file in _known:
        return
    recorded = _recorded_checksum(graph, pin, operation_at(location, pin.version))
    if recorded is not None and checksum_files(location, [name]).get(name) != recorded:
        raise Damaged(file, "does not match its recorded checksum; restore it from a backup")
    _know([file])


def _know(files: Iterable[str]) -> None:
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
    _known.update(files)


def _recorded_checksum(graph: Location, pin: Pin, operation_id: str | None) -> FileChecksum | None:
    """The checksum of a version, if a record has it.

    It is in the record of its commit, in that of a table that the commit created, or, after cleanup, in the next one.
    """
    name = version_file(pin.version)
    for place in _places(graph, operation_id or ""):
        try:
            record = read_record(_ChecksumRecord, graph, place)
        except Damaged:
            continue
        if record is not None and name in (found := record.tables.get(pin.path, {})):
            return found[name]
    return None


def _places(graph: Location, operation_id: str) -> Iterator[str]:
    """The records that can have the files of a commit, the most likely first; nearly always only the first is read."""
    if operation_id:
        yield _file(operation_id)
    for name in objects_at(graph).names(CHECKSUM_FOLDER):
        if name > operation_id:
            yield f"{CHECKSUM_FOLDER}/{name}"
            if not name.startswith(operation_id) or not operation_id:
                return


def fold_checksums(graph: Location, operation_id: str) -> None:
    """Replaces all readable records by one, without the files that no longer exist.

    The new record is written before the others are deleted, and files are listed after their records were read. Records
    that were added meanwhile, or are damaged, stay.
    """
    names = [name for name in objects_at(graph).names(CHECKSUM_FOLDER) if name < f"{operation_id}{_SUFFIX}"]
    recorded = _read_records(graph, names)
    if len(recorded.readable) < _WORTH_FOLDING:
        return
    folded = {}
    for path, files in recorded.tables.items():
        there = {file.name for file in files_below(graph.child(path))}
        folded[path] = {name: checksum for name, checksum in files.items() if name in there}
    objects_at(graph).replace(_file(operation_id), _encode(folded))
    for name in recorded.readable:
        objects_at(graph).delete(f"{CHECKSUM_FOLDER}/{name}")


def _read_records(graph: Location, names: Iterable[str]) -> RecordedChecksums:
    """The content of these records together; a record that is deleted meanwhile is empty."""
    tables: dict[str, dict[str, FileChecksum]] = {}
    readable, damaged = [], []
    for name in names:
        try:
            found = read_record(_ChecksumRecord, graph, f"{CHECKSUM_FOLDER}/{name}")
        except Damaged as error:
            damaged.append(error)
            continue
        readable.append(name)
        for path, files in found.tables.items() if found is not None else ():
            tables.setdefault(path, {}).update(files)
    return RecordedChecksums(tables, tuple(readable), tuple(damaged))


def _encode(tables: FileChecksums) -> bytes:
    content = {path: {name: _fields(each) for name, each in files.items()} for path, files in tables.items()}
    return encode_record({"tables": content})


def _fields(checksum: FileChecksum) -> dict[str, Any]:
    return {name: value for name, value in asdict(checksum).items() if value is not None}


def _file(operation_id: str) -> str:
    return f"{CHECKSUM_FOLDER}/{operation_id}{_SUFFIX}"
