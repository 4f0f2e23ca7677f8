"""One version of a table in memory, and the way from it to another version.

Every entity has an ordinal, a number that stays the same while the table moves from commit to commit, so that edges
can refer to nodes by it. What was read first is the base, which all versions share. A version adds an overlay: the rows
that came since, which ordinals they belong to, and which ordinals are gone. When the overlay has grown, it is folded
into a new base, which keeps the ordinals.
"""

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog.model import ID, SOURCE
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged
from omnigraph.lazy import lazy_property
from omnigraph.resident.codes import Codes, LateCodes, encode, late_codes
from omnigraph.resident.ids import IdIndex, flat, pick, size_at
from omnigraph.resident.memory import DoesNotFit, MemoryBound, Reading
from omnigraph.resident.numbers import is_number, numbers_of
from omnigraph.resident.readers import ValueReader, reader_of
from omnigraph.storage.carrying import FIRST_CARRIED, CarryingTable, later_deltas
from omnigraph.storage.deltas import Delta
from omnigraph.storage.differences import row_moves
from omnigraph.storage.tables import ROW_ADDRESS, Table

Ordinals: TypeAlias = NDArray[Any]
"""Numbers of entities of one table."""

FOLDED_ROWS = 2048
"""An overlay of more rows than this, or than a part of the base, is folded."""

_FOLDED_PART = 32
_MOST_HOLES = 4
"""A table in which more than one ordinal in this many is gone is read again."""

_serials = itertools.count()
_NOWHERE = np.uint64(2**64 - 1)
_MANY = 8
"""For more than one ordinal in this many, the rows of all ordinals are found, which takes no search."""

_MOST_TEXT = 2**31 - 1
"""An array of Arrow has room for as many bytes of texts, bytes or lists."""

_FEW = 16
"""Up to this many values from base and overlay are put together one by one."""


class Space:
    """The meaning of ordinals: tables with the same space never have different entities at an ordinal.

    Versions and forks that come from one base may each get entities that the others lack, so their ordinals are given
    here. Whoever gives one holds the lock of the memory.
    """

    __slots__ = ("_given", "_next")

    def __init__(self, count: int) -> None:
        self._next = count
        self._given: dict[str, int] = {}

    def ordinal_for(self, id: str) -> int:
        """The ordinal of an id that the base lacks."""
        ordinal = self._given.setdefault(id, self._next)
        self._next = max(self._next, ordinal + 1)
        return ordinal


class Base:
    """Rows that were read once, and their columns, each read when it is first needed. Safe to share between threads."""

    def __init__(
        self, table: Table, addresses: NDArray[np.uint64], columns: dict[str, pa.Array], memory: MemoryBound
    ) -> None:
        self.table = table
        self.count = len(addresses)
        self.addresses = addresses
        self.memory = memory
        # Whoever reads holds the lock of the memory. With another lock for what is made once, two threads could each
        # hold one and wait for the other.
        self._making = memory.lock
        self._columns = columns
        self._readers: dict[str, ValueReader | None] = {}
        self._codes: dict[str, Codes] = {}
        self._ranks_of: dict[str, int] = {}
        self._replaced: frozenset[str] = frozenset()
        memory.count(self)

    @property
    def ids(self) -> pa.Array:
        """The ids of all rows. Those of edges are often not needed."""
        return self.column(ID)

    @lazy_property
    def index(self) -> IdIndex:
        """Finds rows by id."""
        self.memory.reserve(12 * self.count)
        return IdIndex(self.ids)

    @lazy_property
    def id_ranks(self) -> NDArray[np.int32]:
        """For each row, how many ids come before its own."""
        self.memory.reserve(4 * self.count)
        ranks = np.empty(self.count, np.int32)
        ranks[self.rows_by_id] = np.arange(self.count, dtype=np.int32)
        return ranks

    @lazy_property
    def rows_by_id(self) -> NDArray[np.int32]:
        """The rows in the order of their ids; those that have none come last."""
        self.memory.reserve(4 * self.count)
        return numbers_of(pc.sort_indices(self.ids)).astype(np.int32)

    def rank_of(self, id: str) -> int:
        """How many ids of the base come before an id that it lacks; searched for once."""
        found = self._ranks_of.get(id)
        if found is None:
            reader, rows = self.reader(ID), self.rows_by_id
            assert reader is not None
            known = range(self.count - self.ids.null_count)
            self._ranks_of[id] = found = bisect_left(known, id, key=lambda place: reader.read(int(rows[place])))
        return found

    @lazy_property
    def address_order(self) -> NDArray[np.int64]:
        """The rows by their addresses, found once for all versions."""
        self.memory.reserve(8 * self.count)
        return np.argsort(self.addresses, kind="stable")

    @property
    def nbytes(self) -> int:
        """The bytes of memory that it takes now."""
        found = [self.__dict__.get(name) for name in ("index", "id_ranks", "rows_by_id", "address_order")]
        parts = (*tuple(self._columns.values()), self.addresses, *tuple(self._codes.values()), *found)
        return sum(int(each.nbytes) for each in parts if each is not None) + 150 * len(self._ranks_of)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that were read so far."""
        return tuple(self._columns)

    @property
    def overlay_names(self) -> tuple[str, ...]:
        """The columns that an overlay needs at once: ids, and those that were read so far, kept or not."""
        return tuple(dict.fromkeys((ID, *self._columns, *self._replaced)))

    def has(self, name: str) -> bool:
        """Whether a column was read before."""
        return name in self._columns

    def column(self, name: str) -> pa.Array:
        """A column of all rows."""
        found = self._columns.get(name)
        if found is None:
            with self.memory.lock:
                found = self._columns.get(name)
                if found is None:
                    with self.memory.reading() as reading:
                        self._columns[name] = found = self._read(name, reading)
        return found

    def known_reader(self, name: str) -> ValueReader | None:
        """What reads single values of a column, if it was used before."""
        return self._readers.get(name)

    def reader(self, name: str) -> ValueReader | None:
        """What reads single values of a column; None where its type has no reader."""
        try:
            return self._readers[name]
        except KeyError:
            self._readers[name] = found = reader_of(self.column(name))
            return found

    def read_once(self, name: str) -> pa.Array:
        """A column of all rows that is not kept, because numbers take its place. Overlays have it."""
        found = self._columns.get(name)
        if found is None:
            with self.memory.lock, self.memory.reading() as reading:
                found = self._read(name, reading)
            self.note_replaced(name)
        return found

    def note_replaced(self, *names: str) -> None:
        """Notes columns that numbers take the place of, so that overlays have them."""
        self._replaced |= {*names}

    def _read(self, name: str, reading: Reading) -> pa.Array:
        has_one_size = pa.types.is_primitive(self.table.schema.field(name).type)

        def reserve(size: int) -> None:
            reading.add(size)
            if reading.size > _MOST_TEXT and not has_one_size:
                raise DoesNotFit

        read = self.table.scan([name, ROW_ADDRESS], check=reserve)
        places = numbers_of(flat(read[ROW_ADDRESS]))
        values = flat(read[name])
        if len(places) == self.count and np.array_equal(places, self.addresses):
            return values
        order = np.argsort(places, kind="stable")
        at = np.searchsorted(places, self.addresses, sorter=order)
        at[at == len(places)] = 0
        rows = order[at] if len(places) else at
        is_hole = self.addresses == _NOWHERE
        if len(places) == 0 and not is_hole.all():
            raise Damaged(self.table.location.uri, "rows that were read before are gone")
        if not bool(np.all((places[rows] == self.addresses) | is_hole)):
            raise Damaged(self.table.location.uri, "rows are not where they were read before")
        return values.take(pa.array(rows, mask=is_hole))

    @property
    def is_indexed(self) -> bool:
        """Whether `index` was made."""
        return "index" in self.__dict__

    @property
    def is_ranked(self) -> bool:
        """Whether `id_ranks` were found."""
        return "id_ranks" in self.__dict__

    def codes(self, name: str) -> Codes:
        """A column as numbers of its distinct values."""
        found = self._codes.get(name)
        if found is None:
            column = self.column(name)
            with self.memory.lock:
                self.memory.reserve(8 * self.count)
                found = encode(column)
                self.memory.reserve(found.nbytes)
                self._codes[name] = found
        return found


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class ResidentTable:
    """A table at one version, in memory."""

    table: Table
    base: Base
    space: Space
    count: int
    """Above all ordinals of the table."""

    extra: dict[str, pa.Array]
    """The columns of the overlay; those that are missing are read when they are needed."""
    extra_ordinals: NDArray[np.int32]
    extra_serials: NDArray[np.int64]
    """What tells each row of the overlay from those of all other versions and forks that share the base."""
    extra_addresses: NDArray[np.uint64]
    moved: NDArray[np.int32]
    """The ordinals whose row is in the overlay, ascending, and in `moved_rows` that row."""
    moved_rows: NDArray[np.int32]
    fresh: Mapping[str, int] = field(default_factory=dict)
    """The ordinals of ids that the base lacks."""
    dead: frozenset[int] = frozenset()
    _late_codes: dict[str, LateCodes] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The bytes of memory that the overlay takes; the base counts by itself."""
        parts = *tuple(self.extra.values()), *tuple(self._late_codes.values())
        rows, entities = len(self.extra_ordinals), len(self.fresh) + len(self.dead)
        return sum(int(each.nbytes) for each in parts) + 28 * rows + 150 * entities

    @property
    def is_plain(self) -> bool:
        """Whether rows are ordinals and none is gone."""
        return not len(self.extra_ordinals) and not self.dead

    # --- ids and ordinals ---

    def find(self, id: str) -> int:
        """The ordinal of an id, or -1."""
        ordinal = self.fresh.get(id, -1) if self.fresh else -1
        if ordinal < 0:
            ordinal = self.base.index.find(id)
        return -1 if ordinal in self.dead else ordinal

    def find_all(self, ids: pa.Array) -> Ordinals:
        """The ordinals of many ids, -1 for those that are not there."""
        if len(ids) <= _FEW * 4:
            return np.array([self.find(each) for each in ids.to_pylist()], np.int64)
        places = pc.index_in(ids, value_set=self.base.ids)
        found = numbers_of(places.fill_null(-1) if places.null_count else places).astype(np.int64)
        if self.fresh:
            late = pa.array(list(self.fresh), pa.string())
            places = numbers_of(pc.index_in(ids, value_set=late).fill_null(-1))
            numbers = np.fromiter(self.fresh.values(), np.int64, len(self.fresh))
            found = np.where(places >= 0, numbers[places], found)
        if self.dead:
            found[np.isin(found, np.fromiter(self.dead, np.int64, len(self.dead)))] = -1
        ordinals: Ordinals = found
        return ordinals

    def everything(self) -> Ordinals:
        """The ordinals of all entities, ascending."""
        if not self.dead:
            return np.arange(self.count, dtype=np.int64)
        is_there = np.ones(self.count, np.bool_)
        is_there[np.fromiter(self.dead, np.int64, len(self.dead))] = False
        return np.flatnonzero(is_there)

    def rows(self, ordinals: Ordinals) -> Ordinals:
        """Where the rows of ordinals are: in the base, and from its end on in the overlay."""
        if not len(self.moved) or not len(ordinals) or ordinals.max() < self.moved[0]:
            return ordinals
        if len(ordinals) * _MANY > self.count:
            found: Ordinals = self._all_rows()[ordinals]
            return found
        at = np.searchsorted(self.moved, ordinals)
        at[at == len(self.moved)] = 0
        rows: Ordinals = np.where(self.moved[at] == ordinals, self.moved_rows[at], ordinals)
        return rows

    def id_order(self, ordinals: Ordinals) -> Any:
        """What sorts entities by their ids: numbers where all are in the base or most may be, and the ids otherwise."""
        if len(ordinals) and int(ordinals.max()) < self.base.count:
            return self.base.id_ranks[ordinals]
        if len(ordinals) * _MANY > self.count:
            return self._id_numbers()[ordinals]
        return self.values(ID, ordinals)

    def _id_numbers(self) -> NDArray[np.int64]:
        """Numbers by ordinal that are in the order of the ids.

        Between the numbers of two neighbours in the base is room for all ids that the base lacks.
        """
        room = len(self.fresh) + 1
        numbers = np.zeros(self.count, np.int64)
        np.multiply(self.base.id_ranks, room, out=numbers[: self.base.count])
        for place, id in enumerate(sorted(self.fresh), 1 - room):
            numbers[self.fresh[id]] = self.base.rank_of(id) * room + place
        return numbers

    # --- values ---

    def row(self, ordinal: int) -> int:
        """Where the row of one ordinal is."""
        moved = self.moved
        if not len(moved):
            return ordinal
        at = int(moved.searchsorted(ordinal))
        return int(self.moved_rows[at]) if at < len(moved) and moved[at] == ordinal else ordinal

    def values_of_row(self, names: Iterable[str], row: int, most_bytes: int) -> list[Any] | None:
        """Some values of one row as Python has them; None if they have more bytes, or cannot be read in this way."""
        if row >= self.base.count:
            return None
        values = []
        for name in names:
            reader = self.base.known_reader(name)
            if reader is None:
                return None
            most_bytes -= reader.size(row)
            values.append(reader.read(row))
        return values if most_bytes >= 0 else None

    def few_values(self, name: str, rows: Sequence[int]) -> list[Any] | pa.Array:
        """A column of a few rows: as Python has its values if they are texts or numbers, which is faster."""
        reader = self.base.reader(name)
        if reader is None:
            return self.values_at(name, np.array(rows, np.int64))
        read, count = reader.read, self.base.count
        if not len(self.extra_ordinals):
            return [read(row) for row in rows]
        extra = self.extra_column(name)
        return [read(row) if row < count else extra[row - count].as_py() for row in rows]

    def values(self, name: str, ordinals: Ordinals) -> pa.Array:
        """A column of some entities, in their order."""
        if len(self.extra_ordinals) and len(ordinals) * _MANY > self.count:
            return pick(self.column(name), ordinals)
        return self.values_at(name, self.rows(ordinals))

    def values_at(self, name: str, rows: Ordinals) -> pa.Array:
        """A column of some rows, in their order."""
        base = self.base.column(name)
        if not len(self.extra_ordinals):
            return pick(base, rows)
        if not len(rows) or rows.max() < self.base.count:
            return pick(base, rows)
        late = rows >= self.base.count
        extra = self.extra_column(name)
        if len(rows) <= _FEW:
            count = self.base.count
            picked = [(base[row] if row < count else extra[row - count]).as_py() for row in rows.tolist()]
            return pa.array(picked, base.type)
        parts = pick(base, rows[~late]), pick(extra, rows[late] - self.base.count)
        places = np.empty(len(rows), np.int64)
        places[~late] = np.arange(len(parts[0]))
        places[late] = np.arange(len(parts[0]), len(rows))
        return pick(pa.concat_arrays(parts), places)

    def has_at_once(self, names: Iterable[str]) -> bool:
        """Whether columns are in memory."""
        has_extra = bool(len(self.extra_ordinals))
        return all(self.base.has(name) and (not has_extra or name in self.extra) for name in names)

    def bytes_at(self, name: str, rows: Ordinals) -> int:
        """How many bytes the values of some rows take: of texts exactly, of lists on average."""
        base = self.base.column(name)
        if not len(self.extra_ordinals):
            return size_at(base, rows)
        late = rows >= self.base.count
        extra = self.extra_column(name)
        return size_at(base, rows[~late]) + size_at(extra, rows[late] - self.base.count)

    def bytes_of_few(self, name: str, rows: Sequence[int]) -> int:
        """How many bytes the values of a few rows take."""
        reader = self.base.reader(name)
        if reader is None or len(self.extra_ordinals):
            return self.bytes_at(name, np.array(rows, np.int64))
        return sum(reader.size(row) for row in rows)

    def expected_bytes(self, name: str, count: int) -> int:
        """About how many bytes a number of values of a column take."""
        return count * int(self.base.column(name).nbytes) // max(self.base.count, 1)

    def column(self, name: str) -> pa.Array:
        """A column by ordinal. At ordinals that are gone stands anything."""
        base = self.base.column(name)
        if not len(self.extra_ordinals):
            return base
        extra = self.extra_column(name)
        if is_number(base.type) and not base.null_count and not extra.null_count:
            return pa.array(self.by_ordinal(numbers_of(base), numbers_of(extra)))
        return pick(pa.concat_arrays([base, extra]), self._all_rows())

    def by_ordinal(self, early: NDArray[Any], late: NDArray[Any]) -> NDArray[Any]:
        """What is known of the rows of the base and of the overlay, by ordinal. It may be `early` itself.

        What is computed of whole columns is computed of both parts and put together here, which takes less than putting
        the columns together. At ordinals that are gone stands anything.
        """
        if not len(late):
            return early
        found = np.empty(self.count, early.dtype)
        found[: self.base.count] = early
        found[self.base.count :] = 0
        found[self.moved] = late[self.moved_rows - self.base.count]
        return found

    def _all_rows(self) -> Ordinals:
        """A row for each ordinal: its own, or anyone's at an ordinal that is gone."""
        rows = np.arange(self.count, dtype=np.int64)
        rows[self.moved] = self.moved_rows
        return np.minimum(rows, self.base.count + len(self.extra_ordinals) - 1)

    def codes(self, name: str, ordinals: Ordinals | None = None) -> Codes:
        """A column of some entities, or by ordinal, as numbers of its distinct values."""
        found = self.base.codes(name)
        if not len(self.extra_ordinals):
            return found if ordinals is None else Codes(found.codes[ordinals], found.values)
        late = self._late_codes.get(name)
        if late is None:
            late = late_codes(found, self.extra_column(name))
            self.base.memory.reserve(late.nbytes)
            self._late_codes[name] = late
        if ordinals is None or len(ordinals) * _MANY > self.count:
            early = found.codes if late.ranks is None else late.ranks[found.codes]
            every = self.by_ordinal(early, late.codes)
            return Codes(every if ordinals is None else every[ordinals], late.values)
        rows = self.rows(ordinals)
        codes = np.empty(len(rows), np.int64)
        is_late = rows >= self.base.count
        early = found.codes[rows[~is_late]]
        codes[~is_late] = early if late.ranks is None else late.ranks[early]
        codes[is_late] = late.codes[rows[is_late] - self.base.count]
        return Codes(codes, late.values)

    def extra_column(self, name: str) -> pa.Array:
        """A column of the rows of the overlay."""
        found = self.extra.get(name)
        if found is None:
            found = self._read_extra(name)
            self.base.memory.reserve(found.nbytes)
            self.extra[name] = found
        return found

    def _read_extra(self, name: str) -> pa.Array:
        """A column of the overlay, of the rows that this version still has."""
        live = self.extra_addresses != _NOWHERE
        read = self.table.rows_at(pa.array(self.extra_addresses[live]), (name,))[name]
        places = np.cumsum(live) - 1
        return flat(read).take(pa.array(places, mask=~live))

    # --- from one version to another ---

    def advance_to(self, table: Table, most_rows: int) -> "ResidentTable | None":
        """The same table at another version, read at the cost of what differs; None where that is too much."""
        if isinstance(table, CarryingTable):
            late = later_deltas(self.table, table)
            if late is not None and _count_rows(self.table.deltas) + _count_rows(late) == _count_rows(table.deltas):
                return self._advance_carried(table, late)
        moves = row_moves(self.table, table, (*self.base.overlay_names, *self.extra), most_rows)
        if moves is None:
            return None
        removed = self._ordinals_at(moves.removed)
        if removed is None:
            return None
        return self.advance(table, moves.added, removed)

    def _advance_carried(self, table: CarryingTable, late: Sequence[Delta]) -> "ResidentTable | None":
        """The same table with more carried on top of it, where the rows that it has already keep their addresses."""
        rows = table.rows_of(late)
        offsets: dict[str, int] = {}
        start = 0
        for delta in late:
            for id, offset in table.carried_by(delta).offsets.items():
                offsets[id] = offset if offset < 0 else start + offset
            start += delta.count
        live = sorted(each for each in offsets.values() if each >= 0)
        removed = [self.find(id) for id, offset in offsets.items() if offset < 0]
        upserts = rows if len(live) == start else rows.take(pa.array(live, pa.int64()))
        before = _count_rows(self.table.deltas)
        addresses = pa.array([FIRST_CARRIED + before + each for each in live], pa.uint64())
        return self.advance(
            table, upserts.append_column(ROW_ADDRESS, addresses), [each for each in removed if each >= 0]
        )

    def advance(self, table: Table, upserts: pa.Table, removed: Iterable[int]) -> "ResidentTable | None":
        """The table after a change: rows with `ROW_ADDRESS` that are new or replace others, and ordinals that go."""
        moved = dict(zip(self.moved.tolist(), self.moved_rows.tolist(), strict=True))
        dead, fresh, count = set(self.dead), dict(self.fresh), self.count
        addresses = self.extra_addresses.copy()
        start = self.base.count + len(self.extra_ordinals)
        for ordinal in removed:
            dead.add(ordinal)
            row = moved.pop(ordinal, -1)
            if row >= 0:
                addresses[row - self.base.count] = _NOWHERE
        ordinals = []
        for row, id in enumerate(upserts[ID].to_pylist(), start):
            ordinal = fresh.get(id, -1)
            if ordinal < 0:
                ordinal = self.base.index.find(id)
            if ordinal < 0:
                ordinal = fresh[id] = self.space.ordinal_for(id)
                dead.update(range(count, ordinal))
                count = max(count, ordinal + 1)
            dead.discard(ordinal)
            before = moved.get(ordinal, -1)
            if before >= 0:
                addresses[before - self.base.count] = _NOWHERE
            moved[ordinal] = row
            ordinals.append(ordinal)
        order = sorted(moved)
        names = [
            name for name in upserts.column_names if name != ROW_ADDRESS and (name in self.extra or not self.extra)
        ]
        new = numbers_of(flat(upserts[ROW_ADDRESS])).astype(np.uint64)
        following = ResidentTable(
            table=table,
            base=self.base,
            space=self.space,
            count=count,
            extra={name: _concatenate(self.extra.get(name), flat(upserts[name])) for name in names},
            extra_ordinals=np.concatenate((self.extra_ordinals, np.array(ordinals, np.int32))),
            extra_serials=np.concatenate((self.extra_serials, np.full(len(ordinals), next(_serials)))),
            extra_addresses=np.concatenate((addresses, new)),
            moved=np.array(order, np.int32),
            moved_rows=np.array([moved[each] for each in order], np.int32),
            fresh=fresh,
            dead=frozenset(dead),
        )
        if len(dead) * _MOST_HOLES > count + FOLDED_ROWS:
            return None
        try:
            self.base.memory.reserve(following.nbytes)
        except DoesNotFit:
            return None  # read again, it fits where this version and the next do not
        self.base.memory.count(following)
        is_large = len(following.extra_ordinals) > FOLDED_ROWS + self.base.count // _FOLDED_PART
        if not is_large:
            return following
        try:
            return following.fold()
        except DoesNotFit:
            return None  # as above

    def fold(self) -> "ResidentTable":
        """The same with everything in the base, under the same ordinals. Later ones mean something else.

        Raises `DoesNotFit` if there is no room for a second base beside this one.
        """
        folded = [name for name in self.base.names if name in self.extra]
        sizes = [int(each.nbytes) for name in folded for each in (self.base.column(name), self.extra[name])]
        self.base.memory.reserve(sum(sizes) + 16 * self.count)
        rows = self._all_rows()
        addresses = np.concatenate((self.base.addresses, self.extra_addresses))[rows]
        gone = np.zeros(self.count, np.bool_)
        gone[np.fromiter(self.dead, np.int64, len(self.dead))] = True
        addresses[gone] = _NOWHERE
        columns = {}
        for name in folded:
            columns[name] = pa.concat_arrays([self.base.column(name), self.extra[name]]).take(pa.array(rows, mask=gone))
        return _whole(self.table, Base(self.table, addresses, columns, self.base.memory), self.dead)

    def _ordinals_at(self, addresses: NDArray[np.uint64]) -> list[int] | None:
        """The ordinals of rows by their addresses; None if one is not known."""
        if not len(addresses):
            return []
        late = {
            int(address): int(ordinal)
            for address, ordinal in zip(self.extra_addresses, self.extra_ordinals, strict=True)
            if address != _NOWHERE
        }
        found = []
        early = []
        for address in addresses.tolist():
            if address in late:
                found.append(late[address])
            else:
                early.append(address)
        if early:
            order = self.base.address_order
            at = np.searchsorted(self.base.addresses, np.array(early, np.uint64), sorter=order)
            if len(order) == 0 or bool((at == len(order)).any()):
                return None
            rows = order[at]
            if not bool(np.all(self.base.addresses[rows] == np.array(early, np.uint64))):
                return None
            if self.dead and not self.dead.isdisjoint(rows.tolist()):
                return None
            found += rows.tolist()
        return found


def _count_rows(deltas: Iterable[Delta]) -> int:
    return sum(delta.count for delta in deltas)


def _concatenate(before: pa.Array | None, following: pa.Array) -> pa.Array:
    return following if before is None else pa.concat_arrays([before, following])


def _whole(table: Table, base: Base, dead: frozenset[int] = frozenset()) -> ResidentTable:
    nothing: NDArray[np.int32] = np.empty(0, np.int32)
    return ResidentTable(
        table=table,
        base=base,
        space=Space(base.count),
        count=base.count,
        extra={},
        extra_ordinals=nothing,
        extra_serials=np.empty(0, np.int64),
        extra_addresses=np.empty(0, np.uint64),
        moved=nothing,
        moved_rows=nothing,
        dead=dead,
    )


def read_table(table: Table, memory: MemoryBound) -> ResidentTable:
    """A table in memory, with its ids if it is one of nodes; other columns follow when they are needed."""
    with memory.lock:
        memory.reserve(8 * table.count())
        base = Base(table, table.row_addresses(), {}, memory)
        if SOURCE not in table.schema.names:
            base.column(ID)
        return _whole(table, base)
