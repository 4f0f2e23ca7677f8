"""What cleanup has left of the versions of one branch, so that nobody takes a gap for the end.

Cleanup writes this down before it removes anything. Every version from `floor` on is there. Below it, only those in
`whole` can still be read as the graph was; of the rest every so many-th stays, for the commits that it repeats.
"""

from dataclasses import asdict, dataclass

from omnigraph.storage import Location, decode_as, decode_record, encode_record, objects_at
from omnigraph.versioning.heads import HEAD_NOTES, RETAINED_SUFFIX
from omnigraph.versioning.manifest import REMEMBERED_COMMITS


@dataclass(frozen=True, slots=True)
class Retained:
    """The versions of a branch that are there: all from `floor` on, and those in `whole`."""

    floor: int = 0
    whole: frozenset[int] = frozenset()

    def has(self, version: int) -> bool:
        """Whether the graph can still be read as it was at a version."""
        return version >= self.floor or version in self.whole


@dataclass(frozen=True, slots=True)
class _Written:
    """What the file says."""

    incarnation: str
    floor: int
    whole: list[int]


def milestone_of(version: int) -> int:
    """The version at or after another that cleanup never removes; it repeats the commit of the other."""
    return -(-version // REMEMBERED_COMMITS) * REMEMBERED_COMMITS


def read_retained(graph: Location, name: str, incarnation: str) -> Retained:
    """What is left of a branch, by its physical name; of one that was never cleaned up, everything."""
    content = objects_at(graph).read(_file(name))
    if content is None:
        return Retained()
    uri = graph.child(_file(name)).uri
    written = decode_as(_Written, uri, decode_record(uri, content).content)
    return Retained(written.floor, frozenset(written.whole)) if written.incarnation == incarnation else Retained()


def write_retained(graph: Location, name: str, incarnation: str, retained: Retained) -> None:
    """Says what will be left of a branch."""
    written = _Written(incarnation, retained.floor, sorted(retained.whole))
    objects_at(graph).replace(_file(name), encode_record(asdict(written)))


def delete_retained(graph: Location, name: str) -> None:
    """Forgets a branch that was deleted."""
    objects_at(graph).delete(_file(name))


def _file(name: str) -> str:
    return f"{HEAD_NOTES}/{name}{RETAINED_SUFFIX}"
