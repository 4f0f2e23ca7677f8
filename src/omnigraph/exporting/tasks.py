"""Exports as parts: some fragments of one table at one version, which become one file each.

A part says all that is needed to write its file, so it can be written by any process that reaches the table and the
folder. A file gets a name of its own at every attempt; whoever planned the parts gives those that count their place.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.api.data import Format
from omnigraph.catalog import EntityType, arrow_type
from omnigraph.catalog.model import ID
from omnigraph.errors import StorageError
from omnigraph.exporting.lines import RowShape, cell_header, cell_lines, record_lines, shape_of
from omnigraph.parts.streaming import ROWS, Effort, column_at, sorted_stream, streamed
from omnigraph.storage import FragmentSize, Location, Table, open_table
from omnigraph.storage.tables import fragment_groups

MOST_ROWS, MOST_BYTES = 1_000_000, 128 * 2**20
"""A part ends where its fragments reach this many rows or bytes; one fragment is never divided."""

_GROUP_ROWS, _GROUP_BYTES = 128 * 1024, 64 * 2**20
_FEWEST_AT_ONCE, _MOST_BLOBS_AT_ONCE, _MOST_ROWS_AT_ONCE = 16, 256, 8_192
# As stored; what is made of it may be five times as large.
_BYTES_AT_ONCE = 8 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportPart:
    """Rows that become one file. With `ordered` they are all rows of the table, and come by their ids."""

    shape: RowShape
    table: Location
    version: int
    fragments: tuple[int, ...]
    rows_at_once: int
    format: Format
    ordered: bool
    folder: str
    effort: Effort

    @property
    def schema(self) -> pa.Schema:
        """The columns that are read, with their declared types."""
        return pa.schema([(name, arrow_type(type)) for name, type in self.shape.columns])

    def texts(self, line: str) -> Iterator[tuple[memoryview, int]]:
        """The lines of the rows, some thousand at a time as one text, each with how many they are."""
        for batch in self._selected(line):
            yield _joined(batch.column(0)), batch.num_rows

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows with their declared types, in their order if they have one."""
        if not self.ordered:
            yield from self._stored()
            return
        schema = self.schema
        for batch in self._selected("*"):
            columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _stored(self) -> Iterator[pa.RecordBatch]:
        table = open_table(self.table, self.version)
        return table.fragment_batches(self.fragments, self.shape.names, self.rows_at_once)

    def _selected(self, expression: str) -> Iterator[pa.RecordBatch]:
        if not self.fragments:
            return
        few, query = self.rows_at_once, f"SELECT {expression} FROM {ROWS}"  # noqa: S608 - made of types
        if self.ordered:
            query += f" ORDER BY {column_at(self.shape.names.index(ID))}"
            yield from sorted_stream(query, self._stored(), self.schema, few, effort=self.effort)
        else:
            yield from streamed(query, self._stored(), self.schema, few)


@dataclass(frozen=True, slots=True)
class Piece:
    """What became of a part: the file at `path`, with so many rows."""

    path: str
    rows: int


def rows_of(piece: Piece) -> int:
    """How many rows a piece holds."""
    return piece.rows


def parts_of(
    entity: EntityType, table: Table, *, format: Format = Format.JSONL, ordered: bool = False, folder: str = ""
) -> list[ExportPart]:
    """The parts of one table; one without rows has one part, so that its columns are told all the same."""
    sizes, shape = table.fragment_sizes(), shape_of(entity)
    groups = fragment_groups(sizes, rows=MOST_ROWS, size=MOST_BYTES) or [()]
    if ordered:
        groups = [tuple(number for group in groups for number in group)]
    return [
        ExportPart(
            shape=shape,
            table=table.location,
            version=table.version,
            fragments=group,
            rows_at_once=_rows_at_once(shape, sizes),
            format=format,
            ordered=ordered,
            folder=folder,
            effort=Effort(),
        )
        for group in groups
    ]


def _rows_at_once(shape: RowShape, sizes: Iterable[FragmentSize]) -> int:
    """How many rows are in memory together: few where rows are large. The size of blobs is known to nobody before."""
    most = _MOST_BLOBS_AT_ONCE if shape.has_blobs else _MOST_ROWS_AT_ONCE
    row = sum(each.bytes for each in sizes) // (sum(each.rows for each in sizes) or 1)
    return max(_FEWEST_AT_ONCE, min(most, _BYTES_AT_ONCE // (row or 1)))


def written_piece(part: ExportPart) -> Piece:
    """Writes the file of a part; what is not finished has no name that anyone is told."""
    path = Path(part.folder) / f"{uuid.uuid4().hex}.{part.format}"
    try:
        return Piece(str(path), _WRITERS[part.format](part, path))
    except OSError as error:
        raise StorageError(str(path), f"cannot be written: {error.strerror or error}") from error


def _write_records(part: ExportPart, path: Path) -> int:
    return _write_lines(path, b"", part.texts(record_lines(part.shape)))


def _write_cells(part: ExportPart, path: Path) -> int:
    return _write_lines(path, cell_header(part.shape), part.texts(cell_lines(part.shape)))


def _write_lines(path: Path, header: bytes, texts: Iterable[tuple[memoryview, int]]) -> int:
    count = 0
    with path.open("xb", buffering=0) as file:
        file.write(header)
        for text, rows in texts:
            _write_whole(file.write, text)
            count += rows
    return count


def _write_whole(write: Callable[[memoryview], int | None], text: memoryview) -> None:
    """An unbuffered file may take less than it is given."""
    while len(text):
        text = text[write(text) or 0 :]


def _write_parquet(part: ExportPart, path: Path) -> int:
    count = 0
    with pq.ParquetWriter(path, part.schema, compression="zstd") as file:
        for group in _row_groups(part.rows(), part.schema):
            file.write_table(group, row_group_size=len(group))
            count += len(group)
    return count


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Batches put together until they are worth a row group."""
    waiting: list[pa.RecordBatch] = []
    rows = bytes = 0
    for batch in batches:
        waiting.append(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        rows, bytes = rows + batch.num_rows, bytes + batch.nbytes
        if rows >= _GROUP_ROWS or bytes >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, rows, bytes = [], 0, 0
    if rows:
        yield pa.Table.from_batches(waiting)


def _joined(lines: pa.LargeStringArray) -> memoryview:
    """The texts of an array one after the other, as they lie in memory."""
    _, offsets, text = lines.buffers()
    if text is None or not len(lines):
        return memoryview(b"")
    ends = memoryview(offsets).cast("q")
    return memoryview(text)[ends[lines.offset] : ends[lines.offset + len(lines)]]


_WRITERS: dict[Format, Callable[[ExportPart, Path], int]] = {
    Format.JSONL: _write_records,
    Format.CSV: _write_cells,
    Format.PARQUET: _write_parquet,
}
