"""Which columns of two versions of a table belong together, and of which of them storage knows that they hold the same.

Columns are stored under numbers. In one line of versions a number stands for one content, so of two columns with the
same number, rows that no write has touched have the same values. A column that is written beside rows that are there
gets a number of its own. It may have the same values in a wider type, or values that were computed anew, and only who
knows what the column means can tell. Forks number the columns that come to them each for itself.
"""

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from omnigraph.errors import StorageError
from omnigraph.storage.branches import branch_location, branch_ref
from omnigraph.storage.location import Location
from omnigraph.storage.tables import Table, open_table


@dataclass(frozen=True, slots=True)
class ColumnMatch:
    """The columns that are compared: for each of the left version, how the right one calls what it has become.

    `came` has columns that only the right version has, with what a row of the left one counts as having there. All
    other columns are a difference of schemas, and not of any row. `kept` are columns of the left version of which it is
    known that they are the same in rows that no write has touched, however they are stored.
    """

    names: Mapping[str, str]
    came: Mapping[str, pa.Scalar] = field(default_factory=dict)
    kept: Collection[str] = ()


def by_name(left: Table, right: Table) -> ColumnMatch:
    """The columns that have the same name in both versions."""
    names = frozenset(right.schema.names)
    return ColumnMatch({name: name for name in left.schema.names if name in names})


def stored_as_one(left: Table, right: Table, match: ColumnMatch) -> dict[str, str]:
    """The compared columns that both versions have under the same number: in one file, they are one."""
    mine, yours = _numbers(left), _numbers(right)
    return {one: other for one, other in match.names.items() if mine[one] == yours[other]}


@dataclass(frozen=True, slots=True)
class Trust:
    """What need not be looked at: rows with the same row id that the same version wrote, up to `version`.

    Such rows have the same values in all compared columns but those of `apart`.
    """

    version: int
    apart: Mapping[str, str]


def trust(left: Table, right: Table, match: ColumnMatch) -> Trust:
    """What two versions have in common, without a look at any row."""
    past = _common_past(left, right)
    stored = stored_as_one(left, right, match)
    doubtful = {one: other for one, other in match.names.items() if one not in match.kept}
    if past.version == 0:  # then only a common place says of rows that they are the same, and what is stored there is
        return Trust(0, {one: other for one, other in doubtful.items() if one not in stored})
    if doubtful and past.place is not None:
        inherited = _inherited(past)
        numbers = _numbers(left)
        stored = {one: other for one, other in stored.items() if numbers[one] in inherited}
    return Trust(past.version, {one: other for one, other in doubtful.items() if one not in stored})


def field_ids(found: Any) -> list[int]:
    """The number of a column and of all that it consists of; a file names the innermost."""
    return [found.id(), *(number for child in found.children() for number in field_ids(child))]


def _numbers(table: Table) -> dict[str, int]:
    return {each.name(): each.id() for each in table.dataset.lance_schema.fields()}


# --- what two lines of versions have in common ---


@dataclass(frozen=True, slots=True)
class _Past:
    """The last version whose number means the same in two lines, and where it lies; in one line there is none."""

    version: int
    place: Location | None = None


def _common_past(left: Table, right: Table) -> _Past:
    """What two lines have in common; version 0 when that is nothing, or not known."""
    if left.location.uri == right.location.uri:
        return _Past(sys.maxsize)
    mine, yours = _line(left.location), _line(right.location)
    if mine is None or yours is None or mine.root.uri != yours.root.uri:
        return _Past(0)
    shared = next(
        (place for place, (one, other) in enumerate(zip(mine.forks, yours.forks, strict=False)) if one != other),
        min(len(mine.forks), len(yours.forks)),
    )
    version = min(fork.version for line in (mine, yours) for fork in line.forks[shared : shared + 1])
    return _Past(version, branch_location(mine.root, mine.forks[shared - 1].name) if shared else mine.root)


def _inherited(past: _Past) -> frozenset[int]:
    """The numbers that columns had before two lines went apart; none if that version is gone."""
    assert past.place is not None, "the lines went apart"
    try:
        return frozenset(_numbers(open_table(past.place, past.version)).values())
    except StorageError:
        return frozenset()


@dataclass(frozen=True, slots=True)
class _Fork:
    """A fork by its name and what tells it from others of that name, and the version that it began at."""

    name: str
    identity: str
    version: int


@dataclass(frozen=True, slots=True)
class _Line:
    """The root of a table, and the forks that led to a location, one from the other."""

    root: Location
    forks: tuple[_Fork, ...]


def _line(location: Location) -> _Line | None:
    """How a location came about; None when that is not known."""
    folder, _, name = location.uri.rpartition("/tree/")
    if not folder or "/" in name:
        return _Line(location, ())
    root = Location(folder, location.options, location.durable)
    forks: list[_Fork] = []
    parent: str | None = name
    while parent is not None:
        ref = branch_ref(root, parent)
        if ref is None:
            return None
        forks.append(_Fork(parent, ref.identity, ref.parent_version))
        parent = ref.parent
    return _Line(root, tuple(reversed(forks)))
