"""The differences between two versions of one table, at a cost that follows the difference.

The versions may be related in any way: older and newer, before and after a restore, a fork and its parent, two forks.
Rows are known to be the same in three ways, the first two of which read no data:

- A data file never changes, and no other has its name. So a row of a file that both versions have, at the same place,
  is the same row; the versions can only differ in which rows of it they have deleted.
- Compaction rewrites rows unchanged, under their row ids, and keeps the version that wrote them last. In one line
  of versions, and in what forks have in common, that version and the row id stand for one content.
- What is left is matched by `id`. Only rows that both have are compared by value, since a write may also carry rows
  along that it does not change.

A column that only one of the versions has is a difference of their schemas, not of rows. A column that was replaced
without rewriting the rows is compared for all rows, and no other column is read for that.
"""

import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

import lance
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import ensure
from omnigraph.storage.carrying import CarryingTable
from omnigraph.storage.column_match import ColumnMatch, by_name, stored_as_one, trust
from omnigraph.storage.equality import equal_rows
from omnigraph.storage.lance_schema import field_ids
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID, ROW_VERSION, Table, numbers_in

_ID = "id"
_BATCH = 2_000
"""How many rows are read at a time; a row can be large."""
_DENSE = 100
"""If more than one row in this many is needed, reading a whole column is faster than picking values from it."""

_FRAGMENT_SHIFT = np.uint64(32)

_Numbers: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint64]]
_Mask: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Differences:
    """What leads from one version of a table to another.

    `inserted` are rows of the right version and `deleted` rows of the left one. `before` and `after` have the same ids
    in the same order, and each row differs in some value. All rows have the columns of their version.
    """

    inserted: pa.Table
    deleted: pa.Table
    before: pa.Table
    after: pa.Table

    @property
    def is_empty(self) -> bool:
        return not (self.inserted.num_rows or self.deleted.num_rows or self.before.num_rows)


@dataclass(frozen=True, slots=True)
class DifferenceCounts:
    """How many rows were inserted, updated and deleted."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0


def differing_rows(left: Table, right: Table, match: ColumnMatch | None = None) -> Differences:
    """All that differs between two versions of a table, in memory at once."""
    nothing = Differences(*(_no_rows(table) for table in (right, left, left, right)))
    parts = [nothing, *difference_batches(left, right, match)]
    return Differences(
        inserted=pa.concat_tables([part.inserted for part in parts]),
        deleted=pa.concat_tables([part.deleted for part in parts]),
        before=pa.concat_tables([part.before for part in parts]),
        after=pa.concat_tables([part.after for part in parts]),
    )


def difference_batches(left: Table, right: Table, match: ColumnMatch | None = None) -> Iterator[Differences]:
    """The same, some rows at a time: those that were inserted, then the updated, then the deleted.

    Inserted and updated rows come in the order in which the right version holds them, deleted ones in that of the left.
    The same two versions always give the same order. Without a match, columns with the same name are compared.
    """
    columns = match or by_name(left, right)
    yield from candidate_batches(left, right, columns, find_candidates(left, right, columns))


def candidate_batches(
    left: Table, right: Table, columns: ColumnMatch, candidates: "RowCandidates"
) -> Iterator[Differences]:
    """What differs among some rows of two versions, in the order of `difference_batches`."""
    no_left, no_right = _no_rows(left), _no_rows(right)
    for addresses in _batches(candidates.inserted):
        yield Differences(right.rows_at(addresses), no_left, no_left, no_right)
    for before, after in _updates(left, right, columns, candidates):
        yield Differences(no_right, no_left, before, after)
    for addresses in _batches(candidates.deleted):
        yield Differences(no_right, left.rows_at(addresses), no_left, no_right)


def difference_counts(left: Table, right: Table, match: ColumnMatch | None = None) -> DifferenceCounts:
    """How much differs. Only rows that may have been updated are read."""
    columns = match or by_name(left, right)
    candidates = find_candidates(left, right, columns)
    updated = sum(before.num_rows for before, _ in _updates(left, right, columns, candidates))
    return DifferenceCounts(len(candidates.inserted), updated, len(candidates.deleted))


@dataclass(frozen=True, slots=True)
class RowSample:
    """Some rows: how many there are, and the ids of the first of them."""

    count: int = 0
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DifferenceSamples:
    """Which rows were inserted, updated and deleted."""

    inserted: RowSample
    updated: RowSample
    deleted: RowSample


def difference_samples(left: Table, right: Table, most: int) -> DifferenceSamples:
    """How much differs, with up to `most` ids of each kind. Only rows that may have been updated are read whole."""
    columns = by_name(left, right)
    candidates = find_candidates(left, right, columns)
    updated, ids = 0, list[str]()
    for before, _ in _updates(left, right, columns, candidates):
        updated += before.num_rows
        ids += before[_ID].slice(0, most - len(ids)).to_pylist()
    return DifferenceSamples(
        inserted=_sample(right, candidates.inserted, most),
        updated=RowSample(updated, tuple(ids)),
        deleted=_sample(left, candidates.deleted, most),
    )


def _sample(table: Table, addresses: _Numbers, most: int) -> RowSample:
    ids = table.rows_at(pa.array(addresses[:most], pa.uint64()), (_ID,))[_ID]
    return RowSample(len(addresses), tuple(ids.to_pylist()))


@dataclass(frozen=True, slots=True)
class RowMoves:
    """What leads from the rows of one version to those of another, by where rows are stored.

    `added` are rows of the right version with their addresses there, `removed` the addresses of rows that the left
    version has. A row that was written again, changed or not, is in both.
    """

    added: pa.Table
    removed: _Numbers


def row_moves(left: Table, right: Table, columns: Sequence[str], most_rows: int) -> RowMoves | None:
    """The rows that are stored elsewhere or not at all; None for more than `most_rows`, and where columns differ."""
    if left.schema != right.schema:
        return None
    if left.deltas or right.deltas:
        return _carried_moves(left, right, columns, most_rows)
    mine, yours, shared = _suspects(left, right, {name: name for name in right.schema.names})
    alone = [each for each in (*mine, *yours) if each.fragment_id not in shared]
    if sum(each.physical_rows for each in alone) > 2 * most_rows:
        return None
    before, after = _addresses(left, mine), _addresses(right, yours)
    stayed = np.intersect1d(before, after, assume_unique=True)
    stayed = stayed[np.isin(stayed >> _FRAGMENT_SHIFT, np.array(sorted(shared), np.uint64))]
    removed, added = (np.setdiff1d(each, stayed, assume_unique=True) for each in (before, after))
    if len(removed) > most_rows or len(added) > most_rows:
        return None
    names = [*dict.fromkeys(columns), ROW_ADDRESS]
    written = [each for each in yours if each.fragment_id not in shared]
    parts = [right.scan_columns(written, names)] if written else []
    returned = added[np.isin(added >> _FRAGMENT_SHIFT, np.array(sorted(shared), np.uint64))]
    if len(returned) or not written:
        addresses = pa.array(returned, pa.uint64())
        parts.append(right.rows_at(addresses, names[:-1]).append_column(ROW_ADDRESS, addresses))
    return RowMoves(pa.concat_tables(parts), removed)


def _carried_moves(left: Table, right: Table, columns: Sequence[str], most_rows: int) -> RowMoves | None:
    """The same where rows are carried: all carried rows move, and so do those that one side replaces."""
    names = [*dict.fromkeys(columns), ROW_ADDRESS]
    stored = None if is_same_version(left, right) else row_moves(left.plain, right.plain, columns, most_rows)
    if stored is None and not is_same_version(left, right):
        return None
    nothing: _Numbers = np.empty(0, np.uint64)
    gone = nothing if stored is None else stored.removed
    hidden, masked = (each.mask if isinstance(each, CarryingTable) else nothing for each in (left, right))
    came = nothing if stored is None else _numbers(stored.added[ROW_ADDRESS])
    mine, yours = (each.addresses if isinstance(each, CarryingTable) else nothing for each in (left, right))
    lost = np.setdiff1d(np.setdiff1d(masked, hidden), came)
    removed = np.concatenate([np.setdiff1d(gone, hidden), lost, mine])
    # What the left side hid is there again unless the right side hides it too, or no longer has it.
    returned = np.setdiff1d(np.setdiff1d(hidden, gone), masked)
    added = np.concatenate([np.setdiff1d(came, masked), returned, yours])
    if len(removed) > most_rows or len(added) > most_rows:
        return None
    rows = right.rows_at(pa.array(added, pa.uint64()), names[:-1])
    return RowMoves(rows.append_column(ROW_ADDRESS, pa.array(added, pa.uint64())), removed)


def _addresses(table: Table, fragments: Sequence[lance.LanceFragment]) -> _Numbers:
    """The addresses of the rows of fragments, ascending in each; those of whole fragments are known without a scan."""
    parts = [
        (np.uint64(each.fragment_id) << _FRAGMENT_SHIFT) + np.arange(each.physical_rows, dtype=np.uint64)
        for each in fragments
        if _deletions(each) is None
    ]
    rest = [each for each in fragments if _deletions(each) is not None]
    if rest:
        parts.append(table.scan_columns(rest, (ROW_ADDRESS,))[ROW_ADDRESS].to_numpy().astype(np.uint64, copy=False))
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def _no_rows(table: Table) -> pa.Table:
    return table.rows_at(pa.array([], pa.uint64()))


def _batches(addresses: _Numbers) -> Iterator[pa.Array]:
    for start in range(0, len(addresses), _BATCH):
        yield pa.array(addresses[start : start + _BATCH], pa.uint64())


# --- which rows may differ ---


@dataclass(frozen=True, slots=True)
class RowCandidates:
    """Addresses of rows by what may have happened to them; `before` and `after` are the same entities in one order.

    It can be sent to a task: addresses that follow each other take next to nothing.
    """

    inserted: _Numbers
    deleted: _Numbers
    before: _Numbers
    after: _Numbers

    @property
    def count(self) -> int:
        """How many entities these are: at least as many as there are differences."""
        return len(self.inserted) + len(self.after) + len(self.deleted)

    def split(self, rows: int) -> "Iterator[RowCandidates]":
        """Parts of at most this many entities, in the order of `difference_batches`."""
        updated = len(self.inserted)
        deleted = updated + len(self.after)
        for start in range(0, self.count, rows):
            inner, last = (slice(max(start - at, 0), max(start + rows - at, 0)) for at in (updated, deleted))
            yield RowCandidates(
                self.inserted[start : start + rows], self.deleted[last], self.before[inner], self.after[inner]
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpack_candidates, tuple(map(_pack, (self.inserted, self.deleted, self.before, self.after)))


def _pack(addresses: _Numbers) -> bytes:
    return zlib.compress(np.diff(addresses, prepend=np.uint64(0)).tobytes(), 1)


def _unpack_candidates(*packed: bytes) -> RowCandidates:
    return RowCandidates(*(np.cumsum(np.frombuffer(zlib.decompress(each), np.uint64)) for each in packed))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one version as storage knows them, in the order of their addresses."""

    addresses: _Numbers
    row_ids: _Numbers
    versions: _Numbers

    def at(self, positions: Any) -> "_Rows":
        return _Rows(self.addresses[positions], self.row_ids[positions], self.versions[positions])

    def without(self, positions: Any) -> "_Rows":
        kept = np.ones(len(self.addresses), np.bool_)
        kept[positions] = False
        return self.at(kept)


def find_candidates(left: Table, right: Table, match: ColumnMatch) -> RowCandidates:
    """The rows that may differ between two versions of a table; the ids of some of them are read."""
    if not (left.deltas or right.deltas):
        return _stored_candidates(left, right, match)
    nothing: _Numbers = np.empty(0, np.uint64)
    found = RowCandidates(nothing, nothing, nothing, nothing)
    if not is_same_version(left, right):
        found = _stored_candidates(left.plain, right.plain, match)
    ids = _touched_ids(left, right)
    here = [each.rows_with_ids(ids, (_ID, ROW_ADDRESS)).sort_by(ROW_ADDRESS) for each in (left, right)]
    touched = _match_ids(*((rows[_ID].combine_chunks(), _numbers(rows[ROW_ADDRESS])) for rows in here))
    stored_before = _is_untouched(left.plain, found.before, ids)
    before = np.concatenate([found.before[stored_before], touched.before])
    after = np.concatenate([found.after[stored_before], touched.after])
    order = np.argsort(after, kind="stable")
    inserted = found.inserted[_is_untouched(right.plain, found.inserted, ids)]
    deleted = found.deleted[_is_untouched(left.plain, found.deleted, ids)]
    return RowCandidates(
        np.sort(np.concatenate([inserted, touched.inserted])),
        np.sort(np.concatenate([deleted, touched.deleted])),
        before[order],
        after[order],
    )


def is_same_version(left: Table, right: Table) -> bool:
    """Whether two tables have the same dataset below what is carried."""
    return (left.location.uri, left.version) == (right.location.uri, right.version)


def _touched_ids(left: Table, right: Table) -> pa.Array:
    """The ids that are carried or gone on either side. On top of one version, what both carry first does not differ."""
    shared = 0
    if is_same_version(left, right):
        for mine, yours in zip(left.deltas, right.deltas, strict=False):
            if mine.commit_id != yours.commit_id:
                break
            shared += 1
    found: dict[str, None] = {}
    for side in (left, right):
        if isinstance(side, CarryingTable):
            late = side.deltas[shared:]
            found.update(dict.fromkeys(side.rows_of(late)[_ID].to_pylist()))
            found.update(dict.fromkeys(each for delta in late for each in delta.deleted))
    return pa.array(found, pa.string()) if found else pa.array([], pa.string())


def _is_untouched(table: Table, addresses: _Numbers, ids: pa.Array) -> _Mask:
    """For rows of a dataset, whether their ids are not among these."""
    if not len(addresses):
        return np.ones(0, np.bool_)
    found = table.rows_at(pa.array(addresses, pa.uint64()), (_ID,))[_ID].combine_chunks()
    untouched: _Mask = pc.invert(pc.is_in(found, value_set=ids)).to_numpy(zero_copy_only=False)
    return untouched


def _numbers(column: pa.ChunkedArray) -> _Numbers:
    return numbers_in(column).astype(np.uint64, copy=False)


def _stored_candidates(left: Table, right: Table, match: ColumnMatch) -> RowCandidates:
    stored = stored_as_one(left, right, match)
    mine, yours, shared = _suspects(left, right, stored)
    before, after = _rows_of(left, mine), _rows_of(right, yours)
    before, after = _in_other_places(before, after, shared)
    all_stored = len(stored) == len(match.names)
    if all_stored and not (len(before.addresses) and len(after.addresses)):
        return _match_by_id(_Side(left, mine, before.addresses), _Side(right, yours, after.addresses))
    known = trust(left, right, match)
    before, after = _written_apart(before, after, known.version)
    found = _match_by_id(_Side(left, mine, before.addresses), _Side(right, yours, after.addresses))
    if not known.apart:
        return found
    if not all_stored:
        mine, yours = left.dataset.get_fragments(), right.dataset.get_fragments()
    return _with_values_apart(_Whole(left, mine), _Whole(right, yours), known.apart, found)


@dataclass(frozen=True, slots=True)
class _Side:
    """One version, the fragments of it that may differ, and the rows of those that may."""

    table: Table
    fragments: Sequence[lance.LanceFragment]
    addresses: _Numbers


def _suspects(
    left: Table, right: Table, stored: Mapping[str, str]
) -> tuple[list[lance.LanceFragment], list[lance.LanceFragment], frozenset[int]]:
    """The fragments of each side that may differ, and the numbers of those that differ in deleted rows alone."""
    mine, yours = _fragments(left, stored), _fragments(right, stored.values())
    shared = {content for content, each in mine.items() if content in yours}
    same = {content for content in shared if _deletions(mine[content]) == _deletions(yours[content])}
    deleted_from = shared - same
    return (
        [each for content, each in mine.items() if content not in same],
        [each for content, each in yours.items() if content not in same],
        frozenset(each.fragment_id for content, each in mine.items() if content in deleted_from),
    )


def _fragments(table: Table, columns: Collection[str]) -> dict[Any, lance.LanceFragment]:
    """The fragments of a version by what identifies their content: the files that store these columns.

    A file that a fork inherits has the same name in the fork, and only another base.
    """
    ids = field_ids(table.dataset, columns)

    @cache
    def ids_in(fields: tuple[int, ...]) -> frozenset[int]:
        return ids.intersection(fields)

    found: dict[Any, lance.LanceFragment] = {}
    for fragment in table.dataset.get_fragments():
        metadata = fragment.metadata
        places = ((file.path, ids_in(tuple(file.fields))) for file in metadata.files)
        overlaid = tuple((each.data_file.path, each.committed_version) for each in metadata.overlays)
        found[fragment.fragment_id, frozenset(place for place in places if place[1]), overlaid] = fragment
    return found


def _deletions(fragment: lance.LanceFragment) -> tuple[int, int] | None:
    """Which deletions a fragment has; a file of deletions never changes either."""
    file = fragment.metadata.deletion_file
    return None if file is None else (file.read_version, file.id)


def _rows_of(table: Table, fragments: Sequence[lance.LanceFragment]) -> _Rows:
    if not fragments:
        nothing: _Numbers = np.empty(0, np.uint64)
        return _Rows(nothing, nothing, nothing)
    found = table.scan_columns(fragments, (ROW_ADDRESS, ROW_ID, ROW_VERSION))
    numbers = [found[name].to_numpy().astype(np.uint64, copy=False) for name in (ROW_ADDRESS, ROW_ID, ROW_VERSION)]
    order = np.argsort(numbers[0], kind="stable")
    return _Rows(*(each[order] for each in numbers))


# --- rows that are the same without a look at their values ---


def _unlike(
    left: _Rows, right: _Rows, key: Callable[[_Rows], _Numbers], alike: Callable[[_Rows, _Rows], _Mask]
) -> tuple[_Rows, _Rows]:
    """The rows of each side, without those that have the same key on both sides and are alike."""
    _, mine, yours = np.intersect1d(key(left), key(right), assume_unique=True, return_indices=True)
    same = alike(left.at(mine), right.at(yours))
    return left.without(mine[same]), right.without(yours[same])


def _in_other_places(left: _Rows, right: _Rows, shared: Collection[int]) -> tuple[_Rows, _Rows]:
    """Without the rows that are at the same place of a fragment that both sides have."""
    numbers = np.array(sorted(shared), np.uint64)
    return _unlike(
        left, right, lambda rows: rows.addresses, lambda rows, _: np.isin(rows.addresses >> _FRAGMENT_SHIFT, numbers)
    )


def _written_apart(left: _Rows, right: _Rows, common: int) -> tuple[_Rows, _Rows]:
    """Without the rows that the same version wrote, up to the last version that both sides have in common."""
    return _unlike(
        left,
        right,
        lambda rows: rows.row_ids,
        lambda mine, yours: (mine.versions == yours.versions) & (mine.versions <= np.uint64(common)),
    )


# --- rows that are matched by id ---


def _match_by_id(left: _Side, right: _Side) -> RowCandidates:
    nothing: _Numbers = np.empty(0, np.uint64)
    if not len(left.addresses) or not len(right.addresses):
        return RowCandidates(right.addresses, left.addresses, nothing, nothing)
    return _match_ids((_ids(left), left.addresses), (_ids(right), right.addresses))


def _match_ids(left: tuple[pa.Array, _Numbers], right: tuple[pa.Array, _Numbers]) -> RowCandidates:
    """What became of rows, whose ids and addresses are given."""
    found = pc.index_in(right[0], value_set=left[0])
    matched = found.is_valid().to_numpy(zero_copy_only=False)
    partners = found.drop_null().to_numpy()
    alone = np.ones(len(left[1]), np.bool_)
    alone[partners] = False
    return RowCandidates(
        inserted=right[1][~matched],
        deleted=left[1][alone],
        before=left[1][partners],
        after=right[1][matched],
    )


def _ids(side: _Side) -> pa.Array:
    """The ids of the rows that may differ, in the order of their addresses."""
    wanted = pa.array(side.addresses, pa.uint64())
    if len(wanted) * _DENSE < sum(each.physical_rows for each in side.fragments):
        return side.table.rows_at(wanted, (_ID,))[_ID].combine_chunks()
    found = side.table.scan_columns(side.fragments, (_ID, ROW_ADDRESS))
    return found[_ID].take(pc.index_in(wanted, value_set=found[ROW_ADDRESS].combine_chunks())).combine_chunks()


def _updates(
    left: Table, right: Table, match: ColumnMatch, candidates: RowCandidates
) -> Iterator[tuple[pa.Table, pa.Table]]:
    """The rows that both sides have and that differ in some value, before and after."""
    for mine, yours in zip(_batches(candidates.before), _batches(candidates.after), strict=True):
        before, after = left.rows_at(mine), right.rows_at(yours)
        different = _different(before, after, match)
        if pc.any(different).as_py():
            yield before.filter(different), after.filter(different)


def _different(before: pa.Table, after: pa.Table, match: ColumnMatch) -> pa.Array:
    """Which rows differ in some column that is compared."""
    continued = {later: before[name] for name, later in match.names.items()}
    came = {name: pa.chunked_array([pa.repeat(value, len(before))]) for name, value in match.came.items()}
    return pc.invert(equal_rows(pa.table({**continued, **came}), after, [*continued, *came]))


# --- columns that were written beside rows that stayed ---


@dataclass(frozen=True, slots=True)
class _Whole:
    """One version, and the fragments of it that have such columns."""

    table: Table
    fragments: Sequence[lance.LanceFragment]

    def rows_except(self, known: Sequence[_Numbers]) -> _Side:
        addresses = _rows_of(self.table, self.fragments).addresses
        return _Side(self.table, self.fragments, np.setdiff1d(addresses, np.concatenate(known), assume_unique=True))


def _with_values_apart(left: _Whole, right: _Whole, columns: Mapping[str, str], found: RowCandidates) -> RowCandidates:
    """What was found before, and the rows that differ only in the values of these columns."""
    others = _match_by_id(
        left.rows_except([found.before, found.deleted]), right.rows_except([found.after, found.inserted])
    )
    ensure(not len(others.inserted) + len(others.deleted), "inserted and deleted rows were found before")
    mine, yours = [found.before], [found.after]
    match = ColumnMatch(columns)
    for before, after in zip(_batches(others.before), _batches(others.after), strict=True):
        rows = left.table.rows_at(before, [*columns]), right.table.rows_at(after, [*columns.values()])
        different = _different(*rows, match).to_numpy(zero_copy_only=False)
        mine.append(before.to_numpy()[different])
        yours.append(after.to_numpy()[different])
    after_all = np.concatenate(yours)
    order = np.argsort(after_all, kind="stable")
    return RowCandidates(found.inserted, found.deleted, np.concatenate(mine)[order], after_all[order])
