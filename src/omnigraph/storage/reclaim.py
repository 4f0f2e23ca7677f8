"""Which files of a table are not needed: versions that may be removed, and files that no other version refers to.

A table is one folder with several lines of versions: its own, and one below `tree/` for each of its forks, which share
files with the line that they began on. File names are never reused, so a file is needed if any kept version of any line
names it. Files of an unknown kind are left alone.

A version that cannot be read keeps everything that it might need. If a kept version is damaged or names a missing file,
this is an error, and nothing of the table may be removed.
"""

import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from datetime import UTC, datetime

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, StorageError
from omnigraph.storage.files import StoredFile, files_below
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.references import referred_names
from omnigraph.storage.tables import check_version, open_pinned, typed_errors, version_file, version_in
from omnigraph.storage.topology import readable_headers, used_file
from omnigraph.storage.topology_file import FOLDER, SUFFIX

OWN_LINE = ""
"""The main line of a table, which is not a fork."""

_TREE = "tree"
_DRAFT = re.compile(r"_versions/d\d+\.manifest")
"""A version outside the line of a table; one that still exists was left by a killed writer."""

_FIRST_DRAFT = 2**63
_FOREVER = datetime.max.replace(tzinfo=UTC)
_TRANSACTION = re.compile(r"_transactions/(\d+)-[^/]+\.txn")
_ROWS = re.compile(r"data/([^/]+?)(?:\.lance|/.+)")
_DELETIONS = re.compile(r"_deletions/[^/]+")
_INDEX = re.compile(r"_indices/([0-9a-f-]{36})/.+")
_TOPOLOGY = re.compile(rf"{FOLDER}/[0-9a-f]+{re.escape(SUFFIX)}")
_TOPOLOGY_DRAFT = re.compile(rf"{FOLDER}/\.draft-[^/]+")


@dataclass(frozen=True, slots=True)
class Reclaim:
    """What may be removed of one table: whole versions, and files that no version will refer to."""

    versions: tuple[StoredFile, ...] = ()
    files: tuple[StoredFile, ...] = ()

    @property
    def bytes(self) -> int:
        """The size of all of them."""
        return sum(each.size for each in (*self.versions, *self.files))


@dataclass(slots=True)
class _Line:
    """The files of one line by kind; rows and indexes by the name that versions use for them."""

    versions: dict[int, StoredFile] = field(default_factory=dict)
    drafts: list[StoredFile] = field(default_factory=list)
    transactions: list[tuple[int, StoredFile]] = field(default_factory=list)
    rows: list[tuple[str, StoredFile]] = field(default_factory=list)
    deletions: list[tuple[str, StoredFile]] = field(default_factory=list)
    indexes: list[tuple[str, StoredFile]] = field(default_factory=list)
    topologies: list[StoredFile] = field(default_factory=list)


def versions_of(files: Iterable[StoredFile]) -> dict[str, dict[int, StoredFile]]:
    """The versions of each line of a table."""
    return {name: line.versions for name, line in _lines(files).items()}


def reclaimable(
    root: Location,
    files: Iterable[StoredFile],
    kept: Mapping[str, Collection[int]],
    *,
    since: datetime = _FOREVER,
    writers: bool = False,
    is_gone: Callable[[str], bool] = lambda _line: False,
) -> Reclaim:
    """What may be removed if only these versions are kept; all versions of lines that are not named are kept.

    `files` were listed while no process wrote. Files that are not older than `since` are kept. While there are
    `writers`, files that no version has ever referred to are kept too: a writer may be about to refer to them.
    `is_gone` says whether a line was deleted meanwhile, with its branch; any other kept version that cannot be read
    raises `Damaged`.
    """
    lines = _lines(files)
    staying = _staying(root, lines, kept, is_gone)
    unused = [(name, file) for name, file in _unused_files(root, lines, staying, is_gone) if file.modified < since]
    if writers and unused:
        shed = _names_shed(root, lines, staying)
        unused = [(name, file) for name, file in unused if name in shed]
    leaving = (
        file for name, line in lines.items() for version, file in line.versions.items() if version not in staying[name]
    )
    return Reclaim(tuple(leaving), tuple(file for _, file in unused))


def _staying(
    root: Location, lines: Mapping[str, _Line], kept: Mapping[str, Collection[int]], is_gone: Callable[[str], bool]
) -> dict[str, set[int]]:
    """The kept versions of each line, all of which must exist."""
    for name, versions in kept.items():
        missing = {*versions} - (lines[name].versions.keys() if name in lines else set())
        if missing and not is_gone(name):
            first = min(missing)
            uri = _at(root, name).child(version_file(first)).uri
            raise Damaged(uri, f"the file of version {first}, which must be kept, is missing")
    return {name: {*kept.get(name, line.versions)} & line.versions.keys() for name, line in lines.items()}


def _names_shed(root: Location, lines: Mapping[str, _Line], staying: Mapping[str, Collection[int]]) -> set[str]:
    """The names of all files that removed versions refer to, without those of versions that cannot be read."""
    names: set[str] = set()
    for name, line in lines.items():
        for version in line.versions.keys() - staying[name]:
            with suppress(StorageError):
                names.update(_names_in(_at(root, name), version))
    return names


def _unused_files(
    root: Location,
    lines: Mapping[str, _Line],
    staying: Mapping[str, Collection[int]],
    is_gone: Callable[[str], bool],
) -> Iterator[tuple[str, StoredFile]]:
    """The files that no kept version needs, with the names that versions use for them."""
    needed = _needed_names(root, lines, staying, is_gone)
    indexes = _unneeded_indexes(root, lines, staying, needed)
    for name, line in lines.items():
        yield from ((file.name, file) for file in line.drafts)
        newest = max(staying[name], default=0)
        for read_version, file in line.transactions:
            is_old = read_version + 1 not in staying[name] and read_version + 1 <= newest
            if is_old or read_version >= _FIRST_DRAFT:
                yield file.name, file
        yield from ((known, file) for known, file in (*line.rows, *line.deletions) if known not in needed)
        yield from ((identity, file) for identity, file in line.indexes if identity in indexes)
    yield from ((file.name, file) for file in _unneeded_topologies(root, lines, staying, is_gone))


def _unneeded_topologies(
    root: Location,
    lines: Mapping[str, _Line],
    staying: Mapping[str, Collection[int]],
    is_gone: Callable[[str], bool],
) -> list[StoredFile]:
    """The indexes of topology that no kept version would use."""
    files = {file.name.rpartition("/")[2]: file for line in lines.values() for file in line.topologies}
    headers = readable_headers(root, files)
    for line, versions in staying.items():
        for version in versions:
            if not files:
                return []
            try:
                used = used_file(open_pinned(_at(root, line), version), headers)
            except StorageError:
                if is_gone(line):
                    break
                raise
            files.pop(used or "", None)
    return [*files.values()]


def _unneeded_indexes(
    root: Location, lines: Mapping[str, _Line], staying: Mapping[str, Collection[int]], needed: Collection[str]
) -> set[str]:
    """The indexes that no kept version names."""
    found = {identity for line in lines.values() for identity, _ in line.indexes} - {*needed}
    for name, versions in staying.items():
        for version in versions:
            if not found:
                return found
            content = objects_at(_at(root, name)).read(version_file(version)) or b""
            # The file of a version contains the bytes of the identity of each index, even if Lance does not list it.
            found = {identity for identity in found if uuid.UUID(identity).bytes not in content}
    return found


def _needed_names(
    root: Location,
    lines: Mapping[str, _Line],
    staying: Mapping[str, Iterable[int]],
    is_gone: Callable[[str], bool],
) -> set[str]:
    """The names of all files that these versions refer to, each of which must exist."""
    needed: set[str] = set()
    there = _present(lines.values())
    for line, versions in staying.items():
        location = _at(root, line)
        for version in versions:
            try:
                names = _names_in(location, version)
            except StorageError:
                # A fork may be deleted meanwhile with its branch, and then nothing is needed by it.
                if is_gone(line):
                    break
                raise
            if names - there:
                # Writers without a lock may have added them after the files were listed.
                there |= _present(_lines(files_below(root)).values())
            if (missing := names - there) and not is_gone(line):
                problem = f"version {version} refers to {min(missing)}, which is missing; one of the two is damaged"
                raise Damaged(location.child(version_file(version)).uri, problem)
            needed |= names
    return needed


def _present(lines: Iterable[_Line]) -> set[str]:
    return {name for line in lines for name, _ in (*line.rows, *line.deletions, *line.indexes)}


def _names_in(location: Location, version: int) -> set[str]:
    """The names of all files that a version refers to. Its own file is checked too: Lance may have it in a cache."""
    check_version(location, version)
    with typed_errors(location, f"version {version} cannot be read"):
        return {*referred_names(open_pinned(location, version))}


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
    elif _DRAFT.fullmatch(name) or _TOPOLOGY_DRAFT.fullmatch(name):
        line.drafts.append(file)
    elif _TOPOLOGY.fullmatch(name):
        line.topologies.append(file)
    elif found := _TRANSACTION.fullmatch(name):
        line.transactions.append((int(found[1]), file))
    elif found := _ROWS.fullmatch(name):
        line.rows.append((found[1], file))
    elif _DELETIONS.fullmatch(name):
        line.deletions.append((name, file))
    elif found := _INDEX.fullmatch(name):
        line.indexes.append((found[1], file))


def known_name(file: str) -> str | None:
    """The name that versions use for a file below a table, in whichever line it is; None for other kinds of files."""
    _, name = _line_and_rest(file)
    for pattern in (_ROWS, _INDEX):
        if found := pattern.fullmatch(name):
            return found[1]
    return name if _DELETIONS.fullmatch(name) else None


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
    """The lines that files belong to. A folder that is not a table is a line without versions."""
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
