"""Head notes: the newest version of a branch, noted by its last writer once that version was on the disk.

A note spares those who open a graph a listing. It may be behind, never ahead: so it also proves that a version was
there, and one that is missing or cut short although a note names it is damaged. The note itself may be lost or torn by
a power cut; then a listing tells what is the newest.
"""

from dataclasses import asdict, dataclass

from omnigraph.errors import Damaged
from omnigraph.storage import Location, decode_as, decode_record, encode_record, objects_at

HEAD_NOTES = "__heads"
RETAINED_SUFFIX = ".retained"
"""What lies beside a note: which versions cleanup has left."""


@dataclass(frozen=True, slots=True)
class HeadNote:
    """A version that a branch had, and which incarnation of the branch; None if an older program wrote the note."""

    version: int
    incarnation: str | None = None


def read_head_note(graph: Location, name: str) -> HeadNote | None:
    """The note of a branch, by its physical name; None if there is none, or none that is whole."""
    content = objects_at(graph).read(_file(name))
    if content is None:
        return None
    if content.isdigit():
        return HeadNote(int(content))
    try:
        return decode_as(HeadNote, _file(name), decode_record(_file(name), content).content)
    except Damaged:
        return None


def write_head_note(graph: Location, name: str, note: HeadNote) -> None:
    """Notes the newest version of a branch. It must be on the disk already."""
    objects_at(graph).note(_file(name), encode_record(asdict(note)))


def delete_head_note(graph: Location, name: str) -> None:
    """Removes the note of a branch that is about to be deleted."""
    objects_at(graph).delete(_file(name))


def noted_branches(graph: Location) -> list[str]:
    """The physical names of the branches that have a note."""
    return [name for name in objects_at(graph).names(HEAD_NOTES) if not name.endswith(RETAINED_SUFFIX)]


def _file(name: str) -> str:
    return f"{HEAD_NOTES}/{name}"
