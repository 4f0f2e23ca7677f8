"""The branches of a graph: a small file for each but `main` says which line it has, and where that began.

A branch exists exactly if its file does. The file is created after the first version of the line, and removed before
the line is. So what an interrupted creation or deletion leaves is a line that no file names, which cleanup removes.

On a disk, a power cut may leave a part of the file, before the branch was acknowledged. If the branch has been written
to, its file was whole once, and is damaged.
"""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Protocol

from omnigraph.api.base import MAIN
from omnigraph.api.history import Place
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged
from omnigraph.storage.durability import sync_folder
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import decode_as, encode_record
from omnigraph.versioning.line import LINES, FileLine, line_folder
from omnigraph.versioning.names import archive_file, logical_name, physical_name

_FOLDER, _SUFFIX = "__manifest/branches", ".json"
_RESTORE = "restore it from a backup"


@dataclass(frozen=True, slots=True)
class Ref:
    """A branch: its name, its incarnation, and the place that it began at."""

    name: str
    incarnation: str
    origin: Place
    created_at: datetime

    @property
    def folder(self) -> str:
        """The folder of its line, below the graph."""
        return line_folder(physical_name(self.name), self.incarnation)


@dataclass(frozen=True, slots=True)
class _RefRecord:
    """The content of the file."""

    name: str
    incarnation: str
    origin: Place
    created_at: str


class Refs(Protocol):
    """The branches of a graph but `main`, by their physical names."""

    def get(self, physical: str) -> Ref | None:
        """A branch; None if there is none of that name. Raises `Damaged` if its file is not what was written."""

    def names(self) -> list[str]:
        """The names of all files, whether or not they can be read."""

    def file(self, physical: str) -> str:
        """The file of a branch, below the graph."""

    def unlisted_folders(self) -> list[str]:
        """The folders of lines that no branch has, below the graph; what an interrupted process left."""


class FileRefs:
    """The branches of a graph."""

    def __init__(self, graph: Location) -> None:
        self._graph = graph

    def file(self, physical: str) -> str:
        return f"{_FOLDER}/{physical}{_SUFFIX}"

    def get(self, physical: str) -> Ref | None:
        content = objects_at(self._graph).read(self.file(physical))
        if content is None:
            return None
        uri = self._graph.child(self.file(physical)).uri
        if self._is_torn(content):
            if self._has_written_line(physical):
                raise Damaged(uri, f"the ref of branch `{logical_name(physical)}` is truncated; {_RESTORE}")
            return None
        record = decode_as(_RefRecord, uri, content)
        if physical_name(record.name) != physical:
            raise Damaged(uri, f"it is the ref of another branch, `{record.name}`; {_RESTORE}")
        return Ref(record.name, record.incarnation, record.origin, _time(uri, record.created_at))

    def names(self) -> list[str]:
        found = objects_at(self._graph).names(_FOLDER)
        return [file.removesuffix(_SUFFIX) for file in found if file.endswith(_SUFFIX)]

    def create(self, ref: Ref) -> bool:
        """Creates a branch; returns False if one of that name exists. The first version of its line exists already."""
        record = _RefRecord(ref.name, ref.incarnation, ref.origin, ref.created_at.astimezone(UTC).isoformat())
        physical = physical_name(ref.name)
        objects, file = objects_at(self._graph), self.file(physical)
        if self._graph.path is not None and self.get(physical) is None:
            # What a power cut left of it. The caller holds a lock, which nobody loses on a disk.
            objects.delete(file)
        if objects.create(file, encode_record(asdict(record))):
            return True
        # A put may have succeeded although its answer was lost.
        found = self.get(physical)
        return found is not None and found.incarnation == ref.incarnation

    def delete(self, physical: str) -> None:
        """Ends a branch, through to the disk. Its line is then one that no branch has."""
        file = self.file(physical)
        objects_at(self._graph).delete(file)
        if self._graph.path is not None and self._graph.durable:
            # Otherwise, a power cut could bring back a branch whose line is removed.
            sync_folder((self._graph.path / file).parent)

    def unlisted_folders(self) -> list[str]:
        # A ref is created after its line, and on a store without a lock.
        folders = [f"{LINES}/{name}" for name in objects_at(self._graph).folders(LINES)]
        refs = (self.get(name) for name in self.names())
        listed = {line_folder(physical_name(MAIN), ""), *(ref.folder for ref in refs if ref is not None)}
        return [folder for folder in folders if folder not in listed]

    def _is_torn(self, content: bytes) -> bool:
        """Whether the file is only a part of one; a store has whole objects only."""
        return self._graph.path is not None and (not content.endswith(b"}") or b"\0" in content)

    def _has_written_line(self, physical: str) -> bool:
        """Whether a branch of this name that was not deleted has more versions than its first."""
        objects = objects_at(self._graph)
        for name in objects.folders(LINES):
            branch, _, incarnation = name.partition(".")
            if branch == physical and not objects.exists(archive_file(incarnation)):
                line = FileLine(self._graph, physical, incarnation)
                if len(line.versions()) > 1:
                    return True
        return False


def _time(uri: str, text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise Damaged(uri, f"its time cannot be understood: {text!r}") from error
