"""A table with rows that are carried beside it: a Lance dataset, without the rows that these replace, and with them.

Carried rows are one more fragment. It has the greatest number, so its rows come last, and their addresses stay the same
while more are carried on top of the same version. That is all that whoever reads a table by fragments and addresses
needs to know. The dataset itself, its indexes among it, knows nothing of carried rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import lance
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged
from omnigraph.storage.deltas import Delta
from omnigraph.storage.location import Location
from omnigraph.storage.tables import (
    ROW_ADDRESS,
    ROW_ID,
    ROW_VERSION,
    FragmentSize,
    Table,
    array_of,
    numbers_in,
    open_table,
    typed_errors,
)

CARRIED = 2**31 - 1
"""The number of the fragment of carried rows: with it, addresses are still positive as signed numbers."""

FIRST_CARRIED = CARRIED << 32
"""The address of the first carried row."""

_ID = "id"
_ROW = "@row"
_TAKE = pc.get_function("take")
_NO_IDS = pa.array([], pa.string())


def encode_rows(rows: pa.Table, schema: pa.Schema) -> bytes:
    """Rows as a delta has them, with the columns of a table."""
    if not rows.num_rows:
        return b""
    batches = _as_schema(rows.select(schema.names), schema).combine_chunks().to_batches()
    content: bytes = batches[0].serialize().to_pybytes()
    return content


def join_deltas(plain: Table, deltas: tuple[Delta, ...]) -> Delta:
    """Several deltas as one, which is the last of them to whoever looks for a commit.

    It replaces or deletes every id that it touches, whether or not the dataset has it. So it can stay on top of a
    dataset into which only the first of these deltas were folded.
    """
    table = CarryingTable(plain, deltas)
    return Delta(
        commit_id=deltas[-1].commit_id,
        rows=encode_rows(table.rows, plain.schema),
        count=table.rows.num_rows,
        replaced=tuple(table.rows[_ID].to_pylist()),
        deleted=tuple(id for id, offset in table.offsets.items() if offset < 0),
    )


@dataclass(frozen=True, slots=True)
class TableAt:
    """A table at one version with what is carried on top of it, as a value that can be sent to a task."""

    location: Location
    version: int
    deltas: tuple[Delta, ...] = ()

    def open(self) -> Table:
        """The table, opened by the process that calls this."""
        return carrying(open_table(self.location, self.version), self.deltas)


def place_of(table: Table) -> TableAt:
    """The table as a value."""
    return TableAt(table.location, table.version, table.deltas)


def carrying(plain: Table, deltas: tuple[Delta, ...]) -> Table:
    """A table with what is carried on top of it."""
    return CarryingTable(plain, deltas) if deltas else plain


def _rows_at(rows: pa.Table, offsets: NDArray[np.int64]) -> pa.Table:
    """Some of the rows. The function is that of `Table.take`, which would import `pyarrow.compute`."""
    if len(offsets) == rows.num_rows and np.array_equal(offsets, np.arange(rows.num_rows)):
        return rows
    return _TAKE.call([rows, array_of(offsets)])


def _as_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows in a schema of the same columns; most have it already."""
    return rows if rows.schema.equals(schema) else rows.cast(schema)


def later_deltas(table: Table, other: Table) -> tuple[Delta, ...] | None:
    """What another table carries on top of this one; None if it is not this one with more carried on top of it.

    What this one carries may have been joined in the other, where it stays one delta under the id of its last commit.
    """
    if table.version != other.version or table.location.uri != other.location.uri:
        return None
    if not table.deltas:
        return other.deltas
    last = table.deltas[-1].commit_id
    for index in range(len(other.deltas) - 1, -1, -1):
        if other.deltas[index].commit_id == last:
            return other.deltas[index + 1 :]
    return None


@dataclass(frozen=True, slots=True)
class CarriedRows:
    """The rows of a delta, and for each id that it touches the position of its row, or -1 if it is gone."""

    batch: pa.RecordBatch
    offsets: Mapping[str, int]


class CarryingTable(Table):
    """A table at one version, and what is carried on top of it."""

    _plain: Table
    _deltas: tuple[Delta, ...]

    def __init__(self, plain: Table, deltas: tuple[Delta, ...]) -> None:
        super().__init__(plain.location, plain.dataset)
        vars(self).update(_plain=plain, _deltas=deltas)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CarryingTable):
            return NotImplemented
        return (self.plain, self.deltas) == (other.plain, other.deltas)

    def __hash__(self) -> int:
        return hash((self.location, self.version, self.deltas))

    @property
    def plain(self) -> Table:
        return self._plain

    @property
    def deltas(self) -> tuple[Delta, ...]:
        return self._deltas

    @cached_property
    def schema(self) -> pa.Schema:
        return self._plain.schema

    # --- carried rows ---

    def rows_of(self, deltas: Sequence[Delta]) -> pa.Table:
        """The rows of some deltas, one after the other."""
        return pa.Table.from_batches([self.carried_by(each).batch for each in deltas if each.count], self.schema)

    def carried_by(self, delta: Delta) -> CarriedRows:
        """The rows of one delta, which are decoded once by a process."""
        found: CarriedRows | None = delta.decoded
        if found is None:
            batch = self._decode(delta)
            ids = batch.column(_ID).to_pylist()
            found = CarriedRows(
                batch, {**dict.fromkeys(delta.deleted, -1), **dict(zip(ids, range(len(ids)), strict=True))}
            )
            object.__setattr__(delta, "decoded", found)
        return found

    def _decode(self, delta: Delta) -> pa.RecordBatch:
        schema = self.schema
        if not delta.count:
            return pa.RecordBatch.from_pylist([], schema=schema)
        try:
            batch = pa.ipc.read_record_batch(pa.py_buffer(delta.rows), schema)
            batch.validate()
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Damaged(
                self.location.uri, f"rows carried for commit {delta.commit_id} cannot be read: {error}"
            ) from error
        if batch.num_rows != delta.count:
            raise Damaged(self.location.uri, f"commit {delta.commit_id} has {batch.num_rows} rows, not {delta.count}")
        return batch

    @cached_property
    def _all(self) -> pa.Table:
        """All rows, by their offsets in the fragment; some were replaced or deleted later."""
        return self.rows_of(self.deltas).combine_chunks()

    @cached_property
    def offsets(self) -> dict[str, int]:
        """For each id that is carried or gone, where its row is, or -1."""
        found: dict[str, int] = {}
        start = 0
        for delta in self.deltas:
            for id, offset in self.carried_by(delta).offsets.items():
                found[id] = offset if offset < 0 else start + offset
            start += delta.count
        return found

    @cached_property
    def _live(self) -> NDArray[np.int64]:
        """Where the rows are that were not replaced or deleted later, ascending."""
        return np.array(sorted(each for each in self.offsets.values() if each >= 0), np.int64)

    @cached_property
    def rows(self) -> pa.Table:
        """The carried rows."""
        return _rows_at(self._all, self._live)

    @property
    def addresses(self) -> NDArray[np.uint64]:
        """The addresses of the carried rows."""
        return np.uint64(FIRST_CARRIED) + self._live.astype(np.uint64)

    @cached_property
    def touched_ids(self) -> pa.Array:
        """The ids that are carried or gone. The dataset may have other rows of them, which do not count."""
        return pa.array(self.offsets, pa.string()) if self.offsets else _NO_IDS

    @cached_property
    def mask(self) -> NDArray[np.uint64]:
        """The addresses of rows of the dataset that were replaced or deleted, ascending."""
        ids = {each for delta in self.deltas for each in (*delta.replaced, *delta.deleted)}
        if not ids:
            return np.empty(0, np.uint64)
        found = self.plain.rows_with_ids(pa.array(sorted(ids), pa.string()), (ROW_ADDRESS,))[ROW_ADDRESS]
        return np.sort(numbers_in(found).astype(np.uint64))

    @cached_property
    def _filterable(self) -> lance.LanceDataset:
        """The carried rows as a dataset in memory, so that conditions mean the same for all rows."""
        numbered = self.rows.append_column(_ROW, pa.array(np.arange(len(self._live)), pa.int64()))
        return lance.write_dataset(numbered, f"memory://{uuid4()}")

    def _passing(self, filter: str | None) -> NDArray[np.int64]:
        """Which of the carried rows meet a condition."""
        if filter is None or not len(self._live):
            return np.arange(len(self._live))
        with typed_errors(self.location, "cannot be read"):
            found = self._filterable.scanner(columns=[_ROW], filter=filter).to_table()[_ROW]
        return np.sort(numbers_in(found).astype(np.int64))

    def carried_rows(self, columns: Sequence[str] | None = None, filter: str | None = None) -> pa.Table:
        """The carried rows that meet a condition."""
        return self._pick(self._live[self._passing(filter)], columns)

    def _pick(self, offsets: NDArray[np.int64], columns: Sequence[str] | None) -> pa.Table:
        """Some rows of the fragment. Their addresses are their row ids too; no version of the dataset wrote them."""
        names = self.schema.names if columns is None else list(columns)
        rows = _rows_at(self._all, offsets)
        addresses = array_of(np.uint64(FIRST_CARRIED) + offsets.astype(np.uint64))
        system = {
            ROW_ADDRESS: addresses,
            ROW_ID: addresses,
            ROW_VERSION: array_of(np.full(len(offsets), 2**63, np.uint64)),
        }
        found = [system[name] if name in system else rows[name] for name in names]
        schema = self.schema
        fields = [pa.field(name, pa.uint64()) if name in system else schema.field(name) for name in names]
        return pa.Table.from_arrays(found, schema=pa.schema(fields))

    # --- reading ---

    def without_masked(self, rows: pa.Table | pa.RecordBatch, columns: Sequence[str] | None) -> pa.Table:
        """Rows of the dataset that were read with their addresses, without those that do not count."""
        keep = pc.invert(pc.is_in(rows[ROW_ADDRESS], value_set=pa.array(self.mask, pa.uint64())))
        found = rows.filter(keep)
        return found.select(self.schema.names if columns is None else list(columns))

    def with_addresses(self, columns: Sequence[str] | None) -> list[str] | None:
        """The columns to read of the dataset, so that rows that do not count can be left out."""
        if not len(self.mask):
            return None if columns is None else list(columns)
        return [*dict.fromkeys((*(self.schema.names if columns is None else columns), ROW_ADDRESS))]

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        limit: int | None = None,
        *,
        check: Callable[[int], None] = lambda _bytes: None,
    ) -> pa.Table:
        more = None if limit is None else limit + len(self.mask)
        rows = self.plain.scan(self.with_addresses(columns), filter, more, check=check)
        if len(self.mask):
            rows = self.without_masked(rows, columns)
        if limit is None or rows.num_rows < limit:
            rows = pa.concat_tables([rows, _as_schema(self.carried_rows(columns, filter), rows.schema)])
        return rows if limit is None else rows.slice(0, limit)

    def batches(self, columns: Sequence[str] | None = None, filter: str | None = None) -> Iterator[pa.RecordBatch]:
        schema = None
        for batch in self.plain.batches(self.with_addresses(columns), filter):
            rows = pa.Table.from_batches([batch])
            if len(self.mask):
                rows = self.without_masked(rows, columns)
            schema = rows.schema
            yield from rows.to_batches()
        carried = self.carried_rows(columns, filter)
        yield from (carried if schema is None else _as_schema(carried, schema)).combine_chunks().to_batches()

    def fragment_sizes(self) -> list[FragmentSize]:
        lost = dict(zip(*np.unique(self.mask >> np.uint64(32), return_counts=True), strict=True))
        sizes = [
            FragmentSize(each.number, each.rows - int(lost.get(each.number, 0)), each.bytes)
            for each in self.plain.fragment_sizes()
        ]
        carried = FragmentSize(CARRIED, len(self._live), sum(each.size for each in self.deltas))
        return [*sizes, carried] if carried.rows else sizes

    def fragment_batches(
        self,
        fragments: Sequence[int],
        columns: Sequence[str],
        most_rows: int | None = None,
        *,
        filter: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        stored = [each for each in fragments if each != CARRIED]
        schema = None
        for batch in self.plain.fragment_batches(stored, self.with_addresses(columns) or (), most_rows, filter=filter):
            rows = pa.Table.from_batches([batch])
            if len(self.mask):
                rows = self.without_masked(rows, columns)
            schema = rows.schema
            yield from rows.to_batches()
        if CARRIED in fragments:
            carried = self.carried_rows(columns, filter)
            schema = schema or self.plain.scan(columns, limit=0).schema
            yield from _as_schema(carried, schema).combine_chunks().to_batches(max_chunksize=most_rows)

    def row_addresses(self) -> NDArray[np.uint64]:
        stored = self.plain.row_addresses()
        return np.concatenate([stored[~np.isin(stored, self.mask)], self.addresses])

    def fragment_addresses(self, fragments: Sequence[int]) -> NDArray[np.uint64]:
        stored = self.plain.fragment_addresses([each for each in fragments if each != CARRIED])
        carried = self.addresses if CARRIED in fragments else np.empty(0, np.uint64)
        return np.concatenate([stored[~np.isin(stored, self.mask)], carried])

    def rows_at(self, addresses: pa.Array, columns: Sequence[str] | None = None) -> pa.Table:
        wanted = numbers_in(addresses.cast(pa.uint64())).astype(np.uint64)
        is_carried = wanted >= np.uint64(FIRST_CARRIED)
        if not is_carried.any():
            return self.plain.rows_at(addresses, columns)
        offsets = (wanted[is_carried] - np.uint64(FIRST_CARRIED)).astype(np.int64)
        if int(offsets.max()) >= self._all.num_rows:
            raise Damaged(self.location.uri, "carried rows are missing at their recorded addresses")
        carried = self._pick(offsets, columns)
        if is_carried.all():
            return carried
        stored = self.plain.rows_at(addresses.filter(pa.array(~is_carried)), columns)
        places = np.empty(len(wanted), np.int64)
        places[~is_carried] = np.arange(stored.num_rows)
        places[is_carried] = np.arange(stored.num_rows, len(wanted))
        return pa.concat_tables([stored, _as_schema(carried, stored.schema)]).take(pa.array(places))

    @property
    def most_rows(self) -> int:
        return self.plain.most_rows + sum(each.count for each in self.deltas)

    def count(self, filter: str | None = None) -> int:
        if filter is None and not any(each.replaced or each.deleted for each in self.deltas):
            return self.most_rows
        carried = len(self._passing(filter))
        if filter is None or not len(self.mask):
            return self.plain.count(filter) - (len(self.mask) if filter is None else 0) + carried
        stored = numbers_in(self.plain.scan([ROW_ADDRESS], filter)[ROW_ADDRESS])
        return int(np.count_nonzero(~np.isin(stored, self.mask))) + carried

    def rows_with_ids(self, ids: pa.Array, columns: Sequence[str] = (_ID,)) -> pa.Table:
        known = [self.offsets.get(each) for each in ids.to_pylist()]
        stored = self.plain.rows_with_ids(ids.filter(pa.array([each is None for each in known], pa.bool_())), columns)
        here = np.array([each for each in dict.fromkeys(known) if each is not None and each >= 0], np.int64)
        return pa.concat_tables([stored, self._pick(here, columns).cast(stored.schema)])

    def scan_columns(self, fragments: Sequence[lance.LanceFragment], columns: Sequence[str]) -> pa.Table:
        names = self.with_addresses(columns)
        rows = self.plain.scan_columns(fragments, names or ())
        return self.without_masked(rows, columns) if len(self.mask) else rows
