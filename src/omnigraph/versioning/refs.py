"""The branches of a graph: a small file for each but `main` says which line it has, and where that began.

A branch exists exactly if its file does. The file is created after the first version of the line, and removed before
the line is. So what an interrupted creation or deletion leaves is a line that no file names, which cleanup removes.
"""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Protocol

from omnigraph.api.base import MAIN
from omnigraph.api.history import Place
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import decode_as, encode_record
from omnigraph.versioning.line import LINES, line_folder
from omnigraph.versioning.names import physical_name

_FOLDER, _SUFFIX = "__manifest/branches", ".json"


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

    def unlisted(self) -> list[str]:
        """The folders of lines that no branch has, below the graph; what an interrupted process left."""


class FileRefs:
    """The branches of a graph."""

    def __init__(self, graph: Location) -> None:
        self._graph = graph

    def file(self, physical: str) -> str:
        return f"{_FOLDER}/{physical}{_SUFFIX}"

    def get(self, physical: str) -> Ref | None:
        content = objects_at(self._graph).read(self.file(physical))
        if content is None or _is_torn(content):
            return None
        record = decode_as(_RefRecord, self._graph.child(self.file(physical)).uri, content)
        return Ref(record.name, record.incarnation, record.origin, datetime.fromisoformat(record.created_at))

    def names(self) -> list[str]:
        found = objects_at(self._graph).names(_FOLDER)
        return [file.removesuffix(_SUFFIX) for file in found if file.endswith(_SUFFIX)]

    def create(self, ref: Ref) -> bool:
        """Creates a branch; returns False if one of that name exists. The first version of its line exists already."""
        record = _RefRecord(ref.name, ref.incarnation, ref.origin, ref.created_at.astimezone(UTC).isoformat())
        file = self.file(physical_name(ref.name))
        content = objects_at(self._graph).read(file)
        if content is not None and _is_torn(content):
            objects_at(self._graph).delete(file)
        return objects_at(self._graph).create(file, encode_record(asdict(record)))

    def delete(self, physical: str) -> None:
        """Ends a branch. Its line is then one that no branch has."""
        objects_at(self._graph).delete(self.file(physical))

    def unlisted(self) -> list[str]:
        refs = (self.get(name) for name in self.names())
        listed = {line_folder(physical_name(MAIN), ""), *(ref.folder for ref in refs if ref is not None)}
        folders = (f"{LINES}/{name}" for name in objects_at(self._graph).folders(LINES))
        return [folder for folder in folders if folder not in listed]


def _is_torn(content: bytes) -> bool:
    """Whether a power cut left only a part of the file, before the branch was acknowledged."""
    return not content.endswith(b"}") or b"\0" in content
