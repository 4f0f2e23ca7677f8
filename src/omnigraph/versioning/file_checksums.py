"""The checksums of the files that commits have brought, one record for each commit, for `verify` to compare with.

A record is written before its commit is published, and not synced: one that a power cut loses leaves files that nothing
vouches for, and harms nothing else. Cleanup folds the records into one, without the files that are gone.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from omnigraph.errors import Damaged
from omnigraph.storage import Location, decode_as, decode_record, encode_record, objects_at
from omnigraph.storage.checksums import FileChecksum
from omnigraph.storage.files import files_below

CHECKSUM_FOLDER = "__checksums"
_SUFFIX = ".json"
_WORTH_FOLDING = 2

FileChecksums = Mapping[str, Mapping[str, FileChecksum]]
"""By the path of a table below the graph, and the name of a file below that."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What a record says."""

    tables: dict[str, dict[str, FileChecksum]]


@dataclass(frozen=True, slots=True)
class RecordedChecksums:
    """All that is recorded; and the records that are damaged themselves."""

    tables: FileChecksums
    damaged: tuple[Damaged, ...] = ()


def record_checksums(graph: Location, operation_id: str, tables: FileChecksums) -> None:
    """Records the files that a write brings, under the id of the commit that it will be."""
    objects_at(graph).note(_file(operation_id), _encode(tables))


def recorded_checksums(graph: Location) -> RecordedChecksums:
    """Everything that commits have recorded."""
    tables: dict[str, dict[str, FileChecksum]] = {}
    damaged = []
    for name in objects_at(graph).names(CHECKSUM_FOLDER):
        try:
            recorded = _read(graph, f"{CHECKSUM_FOLDER}/{name}")
        except Damaged as error:
            damaged.append(error)
            continue
        for path, files in recorded.tables.items() if recorded is not None else ():
            tables.setdefault(path, {}).update(files)
    return RecordedChecksums(tables, tuple(damaged))


def fold_checksums(graph: Location, operation_id: str) -> None:
    """Makes one record of all that can be read, of the files that are still there.

    The one comes before the others go, and files are looked for after they were recorded. Records that came meanwhile,
    or are damaged, stay as they are.
    """
    names = [name for name in objects_at(graph).names(CHECKSUM_FOLDER) if name < f"{operation_id}{_SUFFIX}"]
    folded: dict[str, dict[str, FileChecksum]] = {}
    readable = []
    for name in names:
        try:
            recorded = _read(graph, f"{CHECKSUM_FOLDER}/{name}")
        except Damaged:
            continue
        readable.append(name)
        for path, files in recorded.tables.items() if recorded is not None else ():
            folded.setdefault(path, {}).update(files)
    if len(readable) < _WORTH_FOLDING:
        return
    for path in [*folded]:
        there = {file.name for file in files_below(graph.child(path))}
        folded[path] = {name: each for name, each in folded[path].items() if name in there}
    objects_at(graph).replace(_file(operation_id), _encode(folded))
    for name in readable:
        objects_at(graph).delete(f"{CHECKSUM_FOLDER}/{name}")


def _read(graph: Location, file: str) -> _Recorded | None:
    content = objects_at(graph).read(file)
    if content is None:
        return None
    uri = graph.child(file).uri
    return decode_as(_Recorded, uri, decode_record(uri, content).content)


def _encode(tables: FileChecksums) -> bytes:
    spelled = {path: {name: _spell(each) for name, each in files.items()} for path, files in tables.items()}
    return encode_record({"tables": spelled})


def _spell(checksum: FileChecksum) -> dict[str, Any]:
    return {name: value for name, value in asdict(checksum).items() if value is not None}


def _file(operation_id: str) -> str:
    return f"{CHECKSUM_FOLDER}/{operation_id}{_SUFFIX}"
