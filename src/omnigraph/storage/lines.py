"""The lines of versions below a graph, from one listing of its files: how much each holds, and how far it goes.

A line is a table, or a fork of one, by its path below the graph. A listing costs the same whatever the rows are.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from omnigraph.storage.files import StoredFile
from omnigraph.storage.tables import version_in

_LINE = re.compile(r"((?:nodes/|edges/)?[^/]+(?:/tree/[^/]+)?)/(.+)")


@dataclass(slots=True)
class Line:
    """One line: the bytes of its files, and its versions, each with the time of its file."""

    bytes: int
    versions: dict[int, datetime]

    @property
    def newest(self) -> int:
        """The newest version; 0 when there is none."""
        return max(self.versions, default=0)


def lines_of(files: Iterable[StoredFile]) -> dict[str, Line]:
    """The lines that files belong to. A folder that is no table is a line without versions."""
    lines: dict[str, Line] = {}
    for file in files:
        found = _LINE.fullmatch(file.name)
        path, rest = (found[1], found[2]) if found is not None else ("", file.name)
        line = lines.setdefault(path, Line(0, {}))
        line.bytes += file.size
        version = version_in(rest)
        if version is not None:
            line.versions[version] = file.modified
    return lines
