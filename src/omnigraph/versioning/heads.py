"""Notes about the versions of a branch: the newest one, and what cleanup has left of the older ones.

The last writer of a branch notes the newest version once that is on the disk. The note saves readers a listing. It may
be behind, but never ahead. So it also proves that a version existed: if a noted version is missing or torn, it is
damaged. The note itself may be lost or torn by a power cut; then a listing finds the newest version.

Cleanup records what it keeps before it removes anything, so that a gap is not mistaken for the end. Every version from
`floor` on exists. Below it, the graph can be read only at the versions in `whole`; of the others, every milestone is
kept for the commits that it repeats.
"""

from dataclasses import asdict

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.records import decode_as, encode_record, read_record
from omnigraph.versioning.manifest import REMEMBERED_COMMITS

_FOLDER, _RETAINED = "__heads", ".retained"
_NOTE_LENGTH = 256
"""A note is overwritten in place, so all notes have one length: a shorter one would leave an end of the longer one."""


@dataclass(frozen=True, slots=True)
class HeadNote:
    """A version of a branch, and the incarnation of the branch; None if an older program wrote the note."""

    version: int
    incarnation: str | None = None


@dataclass(frozen=True, slots=True)
class Retained:
    """The versions of a branch that cleanup has kept: all from `floor` on, and those in `whole`."""

    floor: int = 0
    whole: frozenset[int] = frozenset()

    def has(self, version: int) -> bool:
        """Whether the graph can still be read as it was at a version."""
        return version >= self.floor or version in self.whole


@dataclass(frozen=True, slots=True)
class _RetainedRecord:
    """The content of the file."""

    incarnation: str
    floor: int
    whole: list[int]


def read_head_note(graph: Location, name: str) -> HeadNote | None:
    """The note of a branch, by its physical name; None if there is none, or it is torn."""
    file = f"{_FOLDER}/{name}"
    content = objects_at(graph).read(file)
    if content is None:
        return None
    if content.isdigit():
        return HeadNote(int(content))
    try:
        return decode_as(HeadNote, file, content)
    except Damaged:
        return None


def write_head_note(graph: Location, name: str, note: HeadNote) -> None:
    """Notes the newest version of a branch. It must be on the disk already."""
    objects_at(graph).overwrite(f"{_FOLDER}/{name}", _encode_note(note))


def create_head_note(graph: Location, name: str, note: HeadNote) -> bool:
    """Notes the first version of a branch; returns False if a branch of that name has a note already."""
    return objects_at(graph).create(f"{_FOLDER}/{name}", _encode_note(note))


def _encode_note(note: HeadNote) -> bytes:
    content = encode_record({"version": note.version, "incarnation": note.incarnation}, indent=None)
    return content[:-1].ljust(_NOTE_LENGTH - 1) + content[-1:]


def noted_branches(graph: Location) -> list[str]:
    """The physical names of the branches that have a note."""
    return [name for name in objects_at(graph).names(_FOLDER) if not name.endswith(_RETAINED)]


def milestone_of(version: int) -> int:
    """The first version at or after another that cleanup never removes; it repeats the commit of the other."""
    return -(-version // REMEMBERED_COMMITS) * REMEMBERED_COMMITS


def read_retained(graph: Location, name: str, incarnation: str) -> Retained:
    """The versions of a branch that cleanup has kept, by its physical name."""
    found = read_record(_RetainedRecord, graph, f"{_FOLDER}/{name}{_RETAINED}")
    if found is None or found.incarnation != incarnation:
        return Retained()
    return Retained(found.floor, frozenset(found.whole))


def write_retained(graph: Location, name: str, incarnation: str, retained: Retained) -> None:
    """Records the versions of a branch that cleanup is going to keep."""
    record = _RetainedRecord(incarnation, retained.floor, sorted(retained.whole))
    objects_at(graph).replace(f"{_FOLDER}/{name}{_RETAINED}", encode_record(asdict(record)))


def delete_notes(graph: Location, name: str) -> None:
    """Deletes the notes of a branch that was deleted."""
    for suffix in ("", _RETAINED):
        objects_at(graph).delete(f"{_FOLDER}/{name}{suffix}")
