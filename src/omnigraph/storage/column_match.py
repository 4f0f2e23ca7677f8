"""Which columns of two versions of a table correspond, and which of them are known to have the same stored values.

Columns are stored under field ids. In one line of versions an id stands for one content, so in two columns with the
same id, rows that no write has touched have the same values. A column that is added to existing rows gets an id of its
own. It may have the same values in a wider type, or other values; only the schema says which. Each fork gives ids to
its new columns independently.
"""

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field

import pyarrow as pa

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, StorageError
from omnigraph.storage.branches import BranchRef, branch_location, branch_ref
from omnigraph.storage.location import Location
from omnigraph.storage.tables import Table, open_table


@dataclass(frozen=True, slots=True)
class ColumnMatch:
    """The columns that are compared: for each of the left version, its name in the right one.

    `came` has columns that only the right version has, each with the value that is assumed for rows of the left
    version. All other columns are a difference of schemas, not of rows. `kept` are columns of the left version that are
    known to be the same in rows that no write has touched, however they are stored.
    """

    names: Mapping[str, str]
    came: Mapping[str, pa.Scalar] = field(default_factory=dict)
    kept: Collection[str] = ()


def by_name(left: Table, right: Table) -> ColumnMatch:
    """The columns that have the same name in both versions."""
    names = frozenset(right.schema.names)
    return ColumnMatch({name: name for name in left.schema.names if name in names})


def stored_as_one(left: Table, right: Table, match: ColumnMatch) -> dict[str, str]:
    """The compared columns that both versions store under the same id: in a common file, they are the same."""
    mine, yours = _numbers(left, match.names), _numbers(right, match.names.values())
    return {one: other for one, other in match.names.items() if mine[one] == yours[other]}


@dataclass(frozen=True, slots=True)
class Trust:
    """What need not be compared: rows with the same row id that the same version wrote, up to `version`.

    Such rows have the same values in all compared columns but those of `apart`.
    """

    version: int
    apart: Mapping[str, str]


def trust(left: Table, right: Table, match: ColumnMatch) -> Trust:
    """What two versions have in common, without reading any row."""
    past = _common_past(left, right)
    stored = stored_as_one(left, right, match)
    doubtful = {one: other for one, other in match.names.items() if one not in match.kept}
    if past.version == 0:  # then only rows at the same place of a common file are the same
        return Trust(0, {one: other for one, other in doubtful.items() if one not in stored})
    if doubtful and past.place is not None:
        inherited = _inherited_ids(past)
        numbers = _numbers(left, stored)
        stored = {one: other for one, other in stored.items() if numbers[one] in inherited}
    return Trust(past.version, {one: other for one, other in doubtful.items() if one not in stored})


def _numbers(table: Table, names: Iterable[str] = ()) -> dict[str, int]:
    """The ids of the columns of a version; raises `Damaged` if it lacks one of some columns that it must have."""
    numbers = {each.name(): each.id() for each in table.dataset.lance_schema.fields()}
    missing = sorted(set(names).difference(numbers))
    if missing:
        raise Damaged(table.location.uri, f"version {table.version} lacks the column {missing[0]!r}")
    return numbers


# --- what two lines of versions have in common ---


@dataclass(frozen=True, slots=True)
class _Past:
    """The last version that two lines have in common, and its location; within one line there is no location."""

    version: int
    place: Location | None = None


def _common_past(left: Table, right: Table) -> _Past:
    """The common past of two lines; version 0 when there is none, or it is not known."""
    if left.location.uri == right.location.uri:
        return _Past(sys.maxsize)
    mine, yours = _line(left.location), _line(right.location)
    if mine is None or yours is None or mine.root.uri != yours.root.uri:
        return _Past(0)
    shared = next(
        (place for place, (one, other) in enumerate(zip(mine.forks, yours.forks, strict=False)) if one != other),
        min(len(mine.forks), len(yours.forks)),
    )
    version = min(fork.parent_version for line in (mine, yours) for fork in line.forks[shared : shared + 1])
    return _Past(version, branch_location(mine.root, mine.forks[shared - 1].name) if shared else mine.root)


def _inherited_ids(past: _Past) -> frozenset[int]:
    """The ids that columns had before two lines diverged; none if that version is gone."""
    assert past.place is not None, "the lines diverged"
    try:
        return frozenset(_numbers(open_table(past.place, past.version)).values())
    except StorageError:
        return frozenset()


@dataclass(frozen=True, slots=True)
class _Line:
    """The root of a table, and the forks that led to a location, one from the other."""

    root: Location
    forks: tuple[BranchRef, ...]


def _line(location: Location) -> _Line | None:
    """The forks that led to a location; None when they are not known."""
    folder, _, name = location.uri.rpartition("/tree/")
    if not folder or "/" in name:
        return _Line(location, ())
    root = Location(folder, location.options, location.durable)
    forks: list[BranchRef] = []
    parent: str | None = name
    while parent is not None:
        ref = branch_ref(root, parent)
        if ref is None:
            return None
        forks.append(ref)
        parent = ref.parent
    return _Line(root, tuple(reversed(forks)))
