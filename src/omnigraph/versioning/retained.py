"""What cleanup has left of the versions of one branch, so that nobody takes a gap for the end.

Cleanup writes this down before it removes anything. Every version from `floor` on is there. Below it, only those in
`whole` can still be read as the graph was; of the rest every so many-th stays, for the commits that it repeats.
"""

import json
from dataclasses import dataclass

from omnigraph.storage import Location, objects_at
from omnigraph.versioning.manifest import REMEMBERED_COMMITS

HEAD_NOTES = "__heads"


@dataclass(frozen=True, slots=True)
class Retained:
    """The versions of a branch that are there: all from `floor` on, and those in `whole`."""

    floor: int = 0
    whole: frozenset[int] = frozenset()

    def has(self, version: int) -> bool:
        """Whether the graph can still be read as it was at a version."""
        return version >= self.floor or version in self.whole


def milestone_of(version: int) -> int:
    """The version at or after another that cleanup never removes; it repeats the commit of the other."""
    return -(-version // REMEMBERED_COMMITS) * REMEMBERED_COMMITS


def read_retained(graph: Location, name: str, incarnation: str) -> Retained:
    """What is left of a branch, by its physical name; of one that was never cleaned up, everything."""
    content = objects_at(graph).read(_file(name))
    data = None if content is None else json.loads(content)
    if data is None or data["incarnation"] != incarnation:
        return Retained()
    return Retained(data["floor"], frozenset(data["whole"]))


def write_retained(graph: Location, name: str, incarnation: str, retained: Retained) -> None:
    """Says what will be left of a branch."""
    data = {"incarnation": incarnation, "floor": retained.floor, "whole": sorted(retained.whole)}
    objects_at(graph).replace(_file(name), json.dumps(data).encode())


def delete_retained(graph: Location, name: str) -> None:
    """Forgets a branch that was deleted."""
    objects_at(graph).delete(_file(name))


def _file(name: str) -> str:
    return f"{HEAD_NOTES}/{name}.retained"
