"""Changing the columns of a table: columns are added, dropped and renamed in one version.

No stored value is rewritten: a dropped column only leaves the schema, a renamed column keeps its stored values, and an
added column is written to files of its own. Rows keep their ids and the versions that created and changed them. Earlier
versions keep the columns that they had.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import chain
from typing import Protocol

import numpy as np
import pyarrow as pa
from lance.fragment import DataFile, FragmentMetadata, write_fragments

import lance
from lance import LanceOperation as Operation
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import ensure
from omnigraph.storage.lance_schema import StoredColumn, lance_schema, new_columns, stored_columns
from omnigraph.storage.soundness import check_presence
from omnigraph.storage.staging import StagedWrite, fragment_of, staged_operation
from omnigraph.storage.tables import ROW_ADDRESS, Table, typed_errors

ROWS_AT_ONCE = 8_192
_NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class LayoutColumn:
    """A column of the new layout: an existing column, possibly under a new name, or an added one.

    `continues` is the column whose stored values it has, which must be of the same type. The caller guarantees that a
    column that is not nullable has no nulls; this is not checked.
    """

    field: pa.Field
    continues: str | None = None


class Maker(Protocol):
    """Computes the values of an added column; it can be sent to other processes."""

    @property
    def reads(self) -> tuple[str, ...]:
        """The existing columns that the values are computed from; none for constant values."""

    def make(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        """The values of `count` rows. `rows` has the columns that are read and no other."""


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """Values of columns for all rows of one fragment, in a file that no version has yet, with field ids from zero.

    They may be staged by another process.
    """

    fragment: int
    schema: pa.Schema
    file: DataFile


def write_columns(table: Table, fragments: Sequence[int], makers: Mapping[str, Maker]) -> list[WrittenColumns]:
    """Writes the values of added columns, for some fragments of a table; only the columns that makers need are read."""
    if not makers:
        return []
    found = (_write_fragment(table, number, makers) for number in fragments)
    return [each for each in found if each is not None]


def stage_columns(
    table: Table, layout: Sequence[LayoutColumn], written: Sequence[WrittenColumns], operation: str
) -> list[StagedWrite]:
    """A table with these columns, in this order, and no others; an index goes with its column.

    An added column has the values that were written for it, in all fragments, or is null in all rows. It is one
    change, or two that are committed in order: the columns, and then the written values. Lance can do both in one, but
    then counts every row as changed, and refuses some changes of other columns.
    """
    check_presence(table.location, table.dataset)
    there = stored_columns(table.dataset)
    first = table.dataset.max_field_id + 1
    coming = _coming(table, layout, _written_schema(table, layout, written))
    columns = [
        coming[column.field.name].with_ids_from(first)
        if column.continues is None
        else there[column.continues].with_name(column.field.name, nullable=column.field.nullable)
        for column in layout
    ]
    schema = staged_operation(table, Operation.Project(lance_schema(table.dataset, columns)), operation)
    if not written:
        return [schema]
    ids = {id for column in columns for id in column.ids}
    files = {each.fragment: _with_ids_from(first, each.file) for each in written}
    fragments = [_with_file(table, number, file, ids) for number, file in files.items()]
    update = Operation.Update(removed_fragment_ids=[], updated_fragments=fragments, new_fragments=[])
    values = replace(schema.then(update, operation), beside=tuple(str(file.path) for file in files.values()))
    return [schema, values]


# --- the schema ---


def _written_schema(table: Table, layout: Sequence[LayoutColumn], written: Sequence[WrittenColumns]) -> pa.Schema:
    """The columns that were written, which must be the same for all fragments that have rows."""
    filled = [size.number for size in table.fragment_sizes() if size.rows]
    schema = written[0].schema if written else pa.schema([])
    ensure(not written or sorted(filled) == sorted(each.fragment for each in written), "all fragments get a file")
    ensure(all(each.schema == schema for each in written), "all fragments get the same columns")
    required = {each.field.name for each in layout if each.continues is None and not each.field.nullable}
    ensure(not filled or required <= {*schema.names}, "a column that is not nullable has values")
    return schema


def _coming(table: Table, layout: Sequence[LayoutColumn], made: pa.Schema) -> dict[str, StoredColumn]:
    """The added columns with ids from zero: first those that were written, with the ids in their files.

    Lance gives ids to the parts of a Blob in a table but not in such a file, so Blobs are added only without values.
    """
    fields = {column.field.name: column.field for column in layout if column.continues is None}
    for field in made:
        ensure(fields[field.name].type == field.type, "a column has the type that was written")
        ensure(not fields[field.name].metadata, "a Blob is not made")
    order = dict.fromkeys([*made.names, *fields])
    return new_columns(pa.schema([fields[name] for name in order]), table.dataset.data_storage_version)


def _with_file(table: Table, number: int, file: DataFile, ids: Set[int]) -> FragmentMetadata:
    """A fragment with one more file, and without files that no column needs any more."""
    fragment = fragment_of(table, number).metadata
    return replace(fragment, files=[*(each for each in fragment.files if not ids.isdisjoint(each.fields)), file])


def _with_ids_from(first: int, file: DataFile) -> DataFile:
    """A file with `first` added to the ids of all its columns."""
    return DataFile(
        str(file.path),
        [id + first for id in file.fields],
        file.column_indices,
        file.file_major_version,
        file.file_minor_version,
        file.file_size_bytes,
        file.base_id,
    )


# --- values ---


def _write_fragment(table: Table, number: int, makers: Mapping[str, Maker]) -> WrittenColumns | None:
    """The columns of one fragment; None if no row is left in it."""
    fragment = fragment_of(table, number)
    batches = _batches(table, fragment, makers)
    first = next(batches, None)
    if first is None:
        return None
    reader = pa.RecordBatchReader.from_batches(first.schema, chain([first], batches))
    with typed_errors(table.location, "columns cannot be written"):
        (made,) = write_fragments(
            reader,
            table.dataset,
            schema=first.schema,
            mode="overwrite",  # of nothing, as no version is made: it lets the columns be others than the table has
            max_rows_per_file=fragment.physical_rows,
            max_bytes_per_file=_NO_LIMIT,
            data_storage_version=table.dataset.data_storage_version,
            storage_options=table.location.storage_options,
        )
    (file,) = made.files
    return WrittenColumns(number, first.schema, file)


def _batches(table: Table, fragment: lance.LanceFragment, makers: Mapping[str, Maker]) -> Iterator[pa.RecordBatch]:
    """The values for every place in a fragment, in order."""
    reads = tuple(dict.fromkeys(name for maker in makers.values() for name in maker.reads))
    rows = fragment.physical_rows
    if not reads:
        nothing = pa.RecordBatch.from_arrays([], [])
        if rows > fragment.num_deletions:
            for start in range(0, rows, ROWS_AT_ONCE):
                yield _values(makers, nothing, min(ROWS_AT_ONCE, rows - start))
        return
    end = 0
    last: pa.RecordBatch | None = None
    for batch in table.fragment_batches([fragment.fragment_id], [*reads, ROW_ADDRESS], ROWS_AT_ONCE):
        if not batch.num_rows:
            continue
        places = batch.column(ROW_ADDRESS).to_numpy().astype(np.uint32).astype(np.int64)
        last = _values(makers, batch, batch.num_rows)
        # A deleted row has a place too. It gets the values of the next row, which are never read.
        yield last.take(pa.array(np.searchsorted(places, np.arange(end, places[-1] + 1))))
        end = int(places[-1]) + 1
    if last is not None and end < rows:
        yield last.take(pa.array(np.full(rows - end, last.num_rows - 1)))


def _values(makers: Mapping[str, Maker], rows: pa.RecordBatch, count: int) -> pa.RecordBatch:
    return pa.record_batch({name: maker.make(rows.select(maker.reads), count) for name, maker in makers.items()})
