"""Staging: a change of one table that is written but not committed.

A staged change is a Lance transaction with its files on disk. The head of the table does not move until
`commit_staged`. Every change is one transaction, whatever it combines: deleted rows are marked in deletion vectors,
changed rows are rewritten under their old row ids, new rows are added.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from lance.blob import BlobType
from lance.dataset import Transaction
from lance.fragment import FragmentMetadata, RowIdSequence, write_fragments

import lance
from lance import LanceOperation as Operation
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.catalog.types import BLOB_METADATA
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import HeadMoved, InternalError, StorageError
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID, Table, has_version, numbers_in, typed_errors

SMALL_FRAGMENT = 1_024
MANY_SMALL_FRAGMENTS = 16
Offsets: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint32]]"
_COMPACT_TEXTS = {b"lance-encoding:compression": b"lz4", b"lance-encoding:minichunk-size": b"32768"}
"""How Lance compresses such a column: LZ4, in pieces of 32 KiB."""

_REPEATED_TEXTS = {b"lance-encoding:dict-divisor": b"1"}
"""A column with a dictionary in each page of a file, unless hardly any text is there twice."""

_MOST_IN_DICTIONARY = str(2**24)
# Lance makes no larger dictionary than this says, whatever a column says, and reads it for each page that it writes.
os.environ.setdefault("LANCE_ENCODING_DICT_MAX_CARDINALITY", _MOST_IN_DICTIONARY)

OPERATION = "omnigraph:operation"
"""The transaction property that names the write which made a version."""


@dataclass(frozen=True, slots=True)
class StagedWrite:
    """One table's part of a write, ready to be committed."""

    location: Location
    transaction: Transaction
    read_version: int
    beside: tuple[str, ...] = ()
    """Data files that the change adds to existing fragments; if there are any, it adds nothing else."""

    @property
    def version_after(self) -> int:
        """The version that the table has once this is committed."""
        return self.read_version + 1

    @property
    def transaction_id(self) -> str:
        identity: str = self.transaction.uuid
        return identity

    def then(self, operation: Any, name: str) -> "StagedWrite":
        """A Lance operation on the version that this leads to, with the name of the write that it is part of."""
        after = self.version_after
        return StagedWrite(self.location, _transaction(after, operation, name), after)

    def new_files(self) -> Iterator[Path]:
        """The files on a local disk that this change adds, and that no version refers to yet."""
        root = self.location.path
        if root is None:
            return
        brought = self.added_files()
        yield from (root / name for name in brought.files)
        for folder in (*brought.blobs, *brought.indexes):
            yield from (file for file in (root / folder).rglob("*") if file.is_file())

    def added_files(self) -> "AddedFiles":
        """The names of the files that this change adds, and that no version refers to yet."""
        if self.beside:
            return AddedFiles(files=tuple(f"data/{name}" for name in self.beside))
        return _added_files(self.transaction.operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedFiles:
    """What a change adds to a table, by names relative to it.

    `blobs` are folders beside files of rows, which exist only if the rows have Blobs; `indexes` are existing folders.
    """

    files: tuple[str, ...] = ()
    blobs: tuple[str, ...] = ()
    indexes: tuple[str, ...] = ()


def with_compact_ids(schema: pa.Schema) -> pa.Schema:
    """The schema of a new table whose column `id` has long texts that begin alike, as made-up ids do.

    All later files of the table are written in this way.
    """
    return _with_encoding(schema, ID, _COMPACT_TEXTS)


def with_compact_ends(schema: pa.Schema) -> pa.Schema:
    """The schema of a new table of edges, whose ends are there many times.

    All later files of the table are written in this way.
    """
    return _with_encoding(_with_encoding(schema, SOURCE, _REPEATED_TEXTS), DESTINATION, _REPEATED_TEXTS)


def _with_encoding(schema: pa.Schema, name: str, encoding: Mapping[bytes, bytes]) -> pa.Schema:
    place = schema.get_field_index(name)
    return schema.set(place, schema.field(place).with_metadata(encoding))


def stage_create(location: Location, rows: pa.Table, operation: str) -> StagedWrite:
    """A new table with these rows, of which there may be none."""
    fragments: list[FragmentMetadata] = []
    if rows.num_rows:
        try:
            fragments = write_fragments(
                rows, location.uri, schema=rows.schema, mode="create", storage_options=location.storage_options
            )
        except OSError as error:
            raise creation_error(location, error) from error
    return StagedWrite(location, _transaction(0, Operation.Overwrite(rows.schema, fragments), operation), 0)


def creation_error(location: Location, error: OSError) -> StorageError:
    """Why a table could not be created: it already exists, or storage failed."""
    if has_version(location, 1):
        return HeadMoved(location.uri, 1, None)
    return StorageError(location.uri, f"cannot create a table: {error}")


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows that are in files already and in no version yet; they may be staged by another process.

    `new` rows are added, `rewritten` rows replace others under their stable row ids, and `gone` has the offsets of the
    rows that leave each fragment.
    """

    new: tuple[FragmentMetadata, ...] = ()
    rewritten: tuple[FragmentMetadata, ...] = ()
    gone: Mapping[int, Offsets] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many rows were written."""
        return sum(fragment.physical_rows for fragment in (*self.new, *self.rewritten))


def join_written(parts: Sequence[WrittenRows]) -> WrittenRows:
    """What several writers have written, as one."""
    leaving: dict[int, list[Offsets]] = {}
    for part in parts:
        for number, offsets in part.gone.items():
            leaving.setdefault(number, []).append(offsets)
    gone = {number: np.concatenate(found) for number, found in leaving.items()}
    new = tuple(fragment for part in parts for fragment in part.new)
    return WrittenRows(new, tuple(fragment for part in parts for fragment in part.rewritten), gone)


def write_new(table: Table, rows: pa.Table) -> WrittenRows:
    """Writes rows that no version has yet."""
    return WrittenRows(new=tuple(_fragments(table, rows)))


def write_change(table: Table, rows: pa.Table, present: pa.Table) -> WrittenRows:
    """Writes rows, of which those in `present` replace existing rows.

    `present` has the id, row id and row address of every row that is removed or replaced; a replaced row keeps its row
    id, so that its history stays one history.
    """
    # Row ids that ascend take a few bits each in a version of the table, others eight bytes.
    order = np.argsort(numbers_in(present[ROW_ID]), kind="stable")
    if not np.array_equal(order, np.arange(len(order))):
        present = present.take(pa.array(order))
    positions = pc.index_in(present["id"], value_set=rows["id"].combine_chunks()).combine_chunks()
    row_ids = present[ROW_ID].filter(positions.is_valid()).to_pylist()
    new = rows.filter(pc.invert(pc.is_in(rows["id"], value_set=present["id"].combine_chunks())))
    rewritten = _Rewritten(rows.take(positions.drop_null()), row_ids)
    gone = _by_fragment(present[ROW_ADDRESS].to_numpy())
    return WrittenRows(tuple(_fragments(table, new)), tuple(_rewritten(table, rewritten)), gone)


def _by_fragment(addresses: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> dict[int, Offsets]:
    """The offsets of rows, by the fragments that their addresses are in."""
    ordered = np.sort(addresses)
    fragments = (ordered >> np.uint64(32)).astype(np.int64)
    offsets = ordered.astype(np.uint32)
    numbers, starts = np.unique(fragments, return_index=True)
    return dict(zip(numbers.tolist(), np.split(offsets, starts[1:]), strict=True)) if len(ordered) else {}


def discard(table: Table, written: WrittenRows) -> None:
    """Removes the files of rows that will not be in any version."""
    objects = objects_at(table.location)
    for fragment in (*written.new, *written.rewritten):
        for file in fragment.files:
            objects.delete(f"data/{file.path}")
            objects.delete_folder(f"data/{file.path.removesuffix('.lance')}")


def stage_append(table: Table, rows: pa.Table, operation: str) -> StagedWrite:
    """New rows; no id may be in the table already."""
    return stage_written(table, write_new(table, rows), operation)


def stage_overwrite(table: Table, rows: pa.Table, operation: str) -> StagedWrite:
    """New rows in place of all existing ones."""
    return stage_replacement(table, write_new(table, rows), operation)


def stage_other_columns(table: Table, rows: pa.Table, operation: str) -> StagedWrite:
    """New rows with other columns, in place of all existing ones."""
    with typed_errors(table.location, "new rows cannot be written"):
        fragments = write_fragments(
            rows,
            table.location.uri,
            schema=rows.schema,
            mode="overwrite",
            storage_options=table.location.storage_options,
        )
    return staged_operation(table, Operation.Overwrite(rows.schema, fragments), operation)


def stage_replacement(table: Table, written: WrittenRows, operation: str) -> StagedWrite:
    """Rows that were written, in place of all existing ones."""
    return staged_operation(table, Operation.Overwrite(table.dataset.lance_schema, list(written.new)), operation)


def stage_change(table: Table, *, rows: pa.Table, deleted: pa.Array, operation: str) -> StagedWrite:
    """Adds new rows, replaces rows by id and removes rows, in one transaction.

    A replaced row keeps its stable row id, so that its history stays one history.
    """
    touched = pa.concat_arrays([rows["id"].combine_chunks(), deleted.cast(pa.string())])
    present = table.rows_with_ids(touched, ("id", ROW_ID, ROW_ADDRESS))
    return stage_written(table, write_change(table, rows, present), operation)


def staged_operation(table: Table, operation: Any, name: str) -> StagedWrite:
    """A Lance operation on a table, with the name of the write that it is part of."""
    return StagedWrite(table.location, _transaction(table.version, operation, name), table.version)


def _transaction(read_version: int, operation: Any, name: str) -> Transaction:
    return Transaction(read_version, operation, transaction_properties={OPERATION: name})


def _fragments(table: Table, rows: pa.Table) -> list[FragmentMetadata]:
    if not rows.num_rows:
        return []
    with typed_errors(table.location, "new rows cannot be written"):
        fragments: list[FragmentMetadata] = write_fragments(
            rows, table.dataset, schema=rows.schema, mode="append", storage_options=table.location.storage_options
        )
    return fragments


def _added_files(operation: Any) -> AddedFiles:
    """What an operation adds: rows with the Blobs beside them, marks of deleted rows, indexes."""
    groups = getattr(operation, "groups", ())
    fragments = [
        *getattr(operation, "fragments", ()),
        *getattr(operation, "new_fragments", ()),
        *(fragment for group in groups for fragment in group.new_fragments),
    ]
    rows = [f"data/{file.path}" for fragment in fragments for file in fragment.files]
    deletions = [
        fragment.deletion_file.path(fragment.id)
        for fragment in getattr(operation, "updated_fragments", ())
        if fragment.deletion_file is not None
    ]
    return AddedFiles(
        files=(*rows, *deletions),
        blobs=tuple(name.removesuffix(".lance") for name in rows),
        indexes=tuple(f"_indices/{index.uuid}" for index in getattr(operation, "new_indices", ())),
    )


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """Rows that are rewritten under their stable row ids."""

    rows: pa.Table
    row_ids: Sequence[int]


def stage_written(table: Table, written: WrittenRows, operation: str) -> StagedWrite:
    """One transaction that adds written rows and removes others.

    Many small writes would leave many small fragments, and every read and commit pays for each of them. So once there
    are enough, a write combines the small ones: their rows are rewritten unchanged, in one fragment.
    """
    small = _small_fragments(table) if table.location.upkeep and written.count < SMALL_FRAGMENT else []
    if not (small or written.gone or written.rewritten):
        return staged_operation(table, Operation.Append(list(written.new)), operation)
    kept = _rows_of(table, small, written.gone)
    removed, updated = list(small), []
    for number, offsets in written.gone.items():
        if number not in removed:
            with typed_errors(table.location, "deletions cannot be written"):
                remaining = fragment_of(table, number).delete_rows(offsets.tolist())
            if remaining is None:
                removed.append(number)
            else:
                updated.append(remaining)
    update = Operation.Update(
        removed_fragment_ids=removed,
        updated_fragments=updated,
        new_fragments=[*_rewritten(table, kept), *written.rewritten, *written.new],
    )
    return staged_operation(table, update, operation)


def _small_fragments(table: Table) -> list[int]:
    """The fragments that a small write combines: none until there are many."""
    small = [
        fragment.fragment_id for fragment in table.dataset.get_fragments() if fragment.physical_rows < SMALL_FRAGMENT
    ]
    return small if len(small) >= MANY_SMALL_FRAGMENTS else []


def _rows_of(table: Table, fragments: Sequence[int], gone: Mapping[int, Offsets]) -> _Rewritten:
    """The rows that remain of these fragments."""
    if not fragments:
        return _Rewritten(table.schema.empty_table(), [])
    found = table.scan_fragments([fragment_of(table, number) for number in fragments])
    leaving = pa.array(
        [number << 32 | offset for number in fragments if number in gone for offset in gone[number].tolist()],
        pa.uint64(),
    )
    found = found.filter(pc.invert(pc.is_in(found[ROW_ADDRESS], value_set=leaving)))
    return _Rewritten(_as_written(table, found.drop_columns([ROW_ID, ROW_ADDRESS])), found[ROW_ID].to_pylist())


def _as_written(table: Table, rows: pa.Table) -> pa.Table:
    """Rows that were read, as they are written: Lance takes bytes for a Blob only if they are marked as one."""
    fields = [
        field.with_metadata(BLOB_METADATA) if isinstance(table.schema.field(field.name).type, BlobType) else field
        for field in rows.schema
    ]
    return pa.Table.from_arrays(rows.columns, schema=pa.schema(fields))


def fragment_of(table: Table, number: int) -> lance.LanceFragment:
    """A fragment that a table has."""
    fragment = table.dataset.get_fragment(number)
    if fragment is None:
        raise InternalError("a version has the fragments that it lists")
    return fragment


def _rewritten(table: Table, rewritten: _Rewritten) -> list[FragmentMetadata]:
    """The fragments of rows that keep their row ids."""
    fragments = _fragments(table, rewritten.rows) if rewritten.row_ids else []
    start = 0
    for fragment in fragments:
        end = start + fragment.physical_rows
        fragment.row_id_meta = RowIdSequence(list(rewritten.row_ids[start:end])).to_inline_metadata()
        start = end
    return fragments
