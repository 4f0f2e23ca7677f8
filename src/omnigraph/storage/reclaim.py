"""Which files of a table nothing needs: versions that may go, and what no other version refers to.

A table is one folder with several lines of versions: its own, and one below `tree/` for each of its forks, which share
files with the line that they began on. File names are never used twice, so a file is needed if any version of any line
that stays names it. What is of no known kind is left alone.
"""

import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from omnigraph.errors import StorageError
from omnigraph.storage.files import StoredFile
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.references import referred_names
from omnigraph.storage.tables import has_version, open_table, typed_errors, version_file, version_in

OWN_LINE = ""
"""The line of a table that is no fork."""

_TREE = "tree"
_DRAFT = re.compile(r"_versions/d\d+\.manifest")
"""A version that only the writer that made it knew of; what is left is a killed one's."""

_FIRST_DRAFT = 2**63
_TRANSACTION = re.compile(r"_transactions/(\d+)-[^/]+\.txn")
_ROWS = re.compile(r"data/([^/]+?)(?:\.lance|/.+)")
_DELETIONS = re.compile(r"_deletions/[^/]+")
_INDEX = re.compile(r"_indices/([0-9a-f-]{36})/.+")


@dataclass(frozen=True, slots=True)
class Reclaim:
    """What may go of one table: whole versions, and files that no version will refer to."""

    versions: tuple[StoredFile, ...] = ()
    files: tuple[StoredFile, ...] = ()

    @property
    def bytes(self) -> int:
        """How much room they take."""
        return sum(each.size for each in (*self.versions, *self.files))


@dataclass(slots=True)
class _Line:
    """The files of one line, by what they are; rows and indexes by the name that versions know them by."""

    versions: dict[int, StoredFile] = field(default_factory=dict)
    drafts: list[StoredFile] = field(default_factory=list)
    transactions: list[tuple[int, StoredFile]] = field(default_factory=list)
    rows: list[tuple[str, StoredFile]] = field(default_factory=list)
    deletions: list[tuple[str, StoredFile]] = field(default_factory=list)
    indexes: list[tuple[str, StoredFile]] = field(default_factory=list)


def versions_of(files: Iterable[StoredFile]) -> dict[str, dict[int, StoredFile]]:
    """The versions of each line of a table."""
    return {name: line.versions for name, line in _lines(files).items()}


def reclaimable(
    root: Location, files: Iterable[StoredFile], kept: Mapping[str, Collection[int]], *, since: datetime
) -> Reclaim:
    """What may go when only these versions stay; of a line that is not named, all stay.

    `files` were listed while nobody wrote. Files as young as `since` stay: somebody may be about to refer to them.
    """
    lines = _lines(files)
    staying = _staying(lines, kept)
    unused = [file for _, file in _unused(root, lines, staying) if file.modified < since]
    return Reclaim(_leaving(lines, staying), tuple(unused))


def purgeable(
    root: Location, files: Iterable[StoredFile], kept: Mapping[str, Collection[int]], *, since: datetime
) -> Reclaim:
    """The same with all that versions which go refer to, however young it is: nobody is to read them any more."""
    lines = _lines(files)
    staying = _staying(lines, kept)
    unused = [*_unused(root, lines, staying)]
    shed: set[str] = set()
    if any(file.modified >= since for _, file in unused):
        shed = _needed(root, {name: line.versions.keys() - staying[name] for name, line in lines.items()})
    gone = [file for name, file in unused if name in shed or file.modified < since]
    return Reclaim(_leaving(lines, staying), tuple(gone))


def _staying(lines: Mapping[str, _Line], kept: Mapping[str, Collection[int]]) -> dict[str, set[int]]:
    return {name: {*kept.get(name, line.versions)} & line.versions.keys() for name, line in lines.items()}


def _leaving(lines: Mapping[str, _Line], staying: Mapping[str, Collection[int]]) -> tuple[StoredFile, ...]:
    return tuple(
        file for name, line in lines.items() for version, file in line.versions.items() if version not in staying[name]
    )


def _unused(
    root: Location, lines: Mapping[str, _Line], staying: Mapping[str, Collection[int]]
) -> Iterator[tuple[str, StoredFile]]:
    """The files that the versions which stay do not need, with the names that versions know them by."""
    needed = _needed(root, staying)
    contents = [
        content
        for name, versions in staying.items()
        for version in versions
        if (content := objects_at(_at(root, name)).read(version_file(version))) is not None
    ]
    for name, line in lines.items():
        yield from _unused_of(line, needed, staying[name], contents)


def _unused_of(
    line: _Line, needed: Collection[str], staying: Collection[int], contents: Collection[bytes]
) -> Iterator[tuple[str, StoredFile]]:
    yield from ((file.name, file) for file in line.drafts)
    for read_version, file in line.transactions:
        is_old = read_version + 1 not in staying and read_version + 1 <= max(staying, default=0)
        if is_old or read_version >= _FIRST_DRAFT:
            yield file.name, file
    yield from ((name, file) for name, file in (*line.rows, *line.deletions) if name not in needed)
    for identity, files in _grouped(line.indexes).items():
        # A version that names an index holds its identity as it is, also where Lance does not list the index.
        if identity not in needed and not any(uuid.UUID(identity).bytes in content for content in contents):
            yield from ((identity, file) for file in files)


def _grouped(files: Iterable[tuple[str, StoredFile]]) -> dict[str, list[StoredFile]]:
    groups: dict[str, list[StoredFile]] = {}
    for name, file in files:
        groups.setdefault(name, []).append(file)
    return groups


def _needed(root: Location, staying: Mapping[str, Iterable[int]]) -> set[str]:
    """The names of all that these versions refer to."""
    names: set[str] = set()
    for line, versions in staying.items():
        location = _at(root, line)
        for version in versions:
            try:
                with typed_errors(location, "cannot be read"):
                    names.update(referred_names(open_table(location, version)))
            except StorageError:
                # A fork may go meanwhile with its branch, and then nobody refers to anything by it.
                if has_version(location, version):
                    raise
    return names


def _at(root: Location, line: str) -> Location:
    return root if line == OWN_LINE else root.child(line)


def _lines(files: Iterable[StoredFile]) -> dict[str, _Line]:
    lines: dict[str, _Line] = {}
    for file in files:
        name, rest = _line_and_rest(file.name)
        _sort_in(lines.setdefault(name, _Line()), rest, file)
    return lines


def _line_and_rest(file: str) -> tuple[str, str]:
    """The line that a file below a table belongs to, and its name below that."""
    if not file.startswith(f"{_TREE}/"):
        return OWN_LINE, file
    _, fork, rest = file.split("/", 2)
    return f"{_TREE}/{fork}", rest


def _sort_in(line: _Line, name: str, file: StoredFile) -> None:
    if (version := version_in(name)) is not None:
        line.versions[version] = file
    elif _DRAFT.fullmatch(name):
        line.drafts.append(file)
    elif found := _TRANSACTION.fullmatch(name):
        line.transactions.append((int(found[1]), file))
    elif found := _ROWS.fullmatch(name):
        line.rows.append((found[1], file))
    elif _DELETIONS.fullmatch(name):
        line.deletions.append((name, file))
    elif found := _INDEX.fullmatch(name):
        line.indexes.append((found[1], file))


def known_name(file: str) -> str | None:
    """The name by which versions know a file below a table, in whichever line it lies; None for other kinds."""
    _, name = _line_and_rest(file)
    for pattern in (_ROWS, _INDEX):
        if found := pattern.fullmatch(name):
            return found[1]
    return name if _DELETIONS.fullmatch(name) else None
