"""Writes what a snapshot holds to files: NDJSON in the format that load reads, CSV or Parquet.

The files are written as parts, each to a piece in a draft folder beside the target; then the pieces get their place.
So what has the target's name is whole. An export that is killed leaves its draft, whose name says so.
"""

import shutil
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.api.data import Format
from omnigraph.api.progress import Choice, Progress, Report, no_report
from omnigraph.catalog import EntityType, arrow_type
from omnigraph.catalog.model import ID
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import StorageError, UsageError
from omnigraph.exporting.lines import RowShape, cell_header, cell_lines, record_lines, shape_of
from omnigraph.parts.choice import row_reasons
from omnigraph.parts.engine import Engine
from omnigraph.parts.streaming import ROWS, Effort, column_at, stream_query, stream_sorted
from omnigraph.storage.carrying import TableAt, place_of
from omnigraph.storage.tables import FragmentSize, Table, fragment_groups
from omnigraph.versioning import Snapshot

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
    table: TableAt
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
        for batch in self._select_rows(line):
            yield _join_lines(batch.column(0)), batch.num_rows

    def rows(self) -> Iterator[pa.RecordBatch]:
        """The rows with their declared types, in their order if they have one."""
        if not self.ordered:
            yield from self._stored_rows()
            return
        schema = self.schema
        for batch in self._select_rows("*"):
            columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _stored_rows(self) -> Iterator[pa.RecordBatch]:
        return self.table.open().fragment_batches(self.fragments, self.shape.names, self.rows_at_once)

    def _select_rows(self, expression: str) -> Iterator[pa.RecordBatch]:
        if not self.fragments:
            return
        few, query = self.rows_at_once, f"SELECT {expression} FROM {ROWS}"  # noqa: S608 - made of types
        if self.ordered:
            query += f" ORDER BY {column_at(self.shape.names.index(ID))}"
            yield from stream_sorted(query, self._stored_rows(), self.schema, few, effort=self.effort)
        else:
            yield from stream_query(query, self._stored_rows(), self.schema, few)


@dataclass(frozen=True, slots=True)
class Piece:
    """The file that a part was written to, and the number of its rows."""

    path: str
    rows: int


def parts_of(
    entity: EntityType, table: Table, *, format: Format = Format.JSONL, ordered: bool = False, folder: str = ""
) -> list[ExportPart]:
    """The parts of one table; one without rows has one part, so that its columns are exported too."""
    sizes, shape = table.fragment_sizes(), shape_of(entity)
    groups = fragment_groups(sizes, rows=MOST_ROWS, size=MOST_BYTES) or [()]
    if ordered:
        groups = [tuple(number for group in groups for number in group)]
    return [
        ExportPart(
            shape=shape,
            table=place_of(table),
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
    """How many rows are in memory together: few where rows are large. The size of blobs is not known before."""
    most = _MOST_BLOBS_AT_ONCE if shape.has_blobs else _MOST_ROWS_AT_ONCE
    row = sum(each.bytes for each in sizes) // (sum(each.rows for each in sizes) or 1)
    return max(_FEWEST_AT_ONCE, min(most, _BYTES_AT_ONCE // (row or 1)))


def write_piece(part: ExportPart) -> Piece:
    """Writes the file of a part; the name of an unfinished file is never returned."""
    path = Path(part.folder) / f"{uuid.uuid4().hex}.{part.format}"
    try:
        return Piece(str(path), _write_file(part, path))
    except OSError as error:
        raise StorageError(str(path), f"cannot be written: {error.strerror or error}") from error


def _write_file(part: ExportPart, path: Path) -> int:
    """Writes the rows of a part in its format; returns their number."""
    match part.format:
        case Format.JSONL:
            return _write_lines(path, b"", part.texts(record_lines(part.shape)))
        case Format.CSV:
            return _write_lines(path, cell_header(part.shape), part.texts(cell_lines(part.shape)))
        case Format.PARQUET:
            return _write_parquet(part, path)


def _write_lines(path: Path, header: bytes, texts: Iterable[tuple[memoryview, int]]) -> int:
    count = 0
    with path.open("xb", buffering=0) as file:
        file.write(header)
        for text, rows in texts:
            left = text
            while len(left):  # an unbuffered file may take less than it is given
                left = left[file.write(left) or 0 :]
            count += rows
    return count


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


def _join_lines(lines: pa.LargeStringArray) -> memoryview:
    """The texts of an array one after the other, as they lie in memory."""
    _, offsets, text = lines.buffers()
    if text is None or not len(lines):
        return memoryview(b"")
    ends = memoryview(offsets).cast("q")
    return memoryview(text)[ends[lines.offset] : ends[lines.offset + len(lines)]]


LARGE_EXPORT = 20_000_000
"""From this number of rows on, an export runs on Spark."""

_COPIED_AT_ONCE = 4 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What is exported, and how: some types or all, in a format, by id within each type if `ordered`."""

    types: Collection[str] | None = None
    format: Format = Format.JSONL
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """Where an export goes: one file, or a folder of files by type."""

    path: Path
    is_folder: bool


def export_lines(snapshot: Snapshot, types: Collection[str] | None = None, *, ordered: bool = False) -> Iterator[str]:
    """The records of a snapshot, nodes before edges, a line each; some thousand at a time are in memory.

    If they are `ordered`, all records of a type are sorted before its first one comes.
    """
    for entity in chosen_types(snapshot, types):
        for part in parts_of(entity, snapshot.table(entity.table_key), ordered=ordered):
            for text, _ in part.texts(record_lines(part.shape)):
                yield from str(text, "utf-8").split("\n")[:-1]


def target_of(path: str | Path, format: Format) -> ExportTarget:
    """What a path means for a format. NDJSON is one file, unless the path ends in a slash or is a folder."""
    if "://" in str(path):
        raise UsageError(f"invalid path {path}: an export is written to a local disk; copy it from there")
    try:
        place = Path(path).resolve()
        is_folder = format is not Format.JSONL or str(path).endswith("/") or place.is_dir()
        if is_folder and place.exists() and not (place.is_dir() and next(place.iterdir(), None) is None):
            raise UsageError(f"{path} already exists: expected a new or an empty folder")
    except OSError as error:
        raise StorageError(str(path), f"cannot be read: {error.strerror or error}") from error
    return ExportTarget(place, is_folder)


def reasons_for_spark(snapshot: Snapshot, options: ExportOptions) -> Iterable[str]:
    """Reasons that the size of the tables gives to run on Spark."""
    tables = (snapshot.table(entity.table_key) for entity in chosen_types(snapshot, options.types))
    rows = sum(table.count() for table in tables)
    return row_reasons(rows, LARGE_EXPORT, "write")


def describe_export(snapshot: Snapshot, options: ExportOptions, choice: Choice) -> str:
    """The engine and the parts of an export, as text."""
    lines = [str(choice)]
    for entity in chosen_types(snapshot, options.types):
        table = snapshot.table(entity.table_key)
        parts = len(parts_of(entity, table, ordered=options.ordered))
        sorting = ", sorted by id" if options.ordered else ""
        lines.append(f"{entity.name}: {table.count():,} rows in {parts} part{'s' * (parts != 1)}{sorting}")
    return "\n".join(lines)


def export_files(
    snapshot: Snapshot, target: ExportTarget, options: ExportOptions, engine: Engine, report: Report = no_report
) -> int:
    """Writes a snapshot to a file or a folder, which is there whole or not at all; returns the number of records."""
    with draft_beside(target.path) as draft:
        entities, parts = _plan_parts(snapshot, options, draft, engine)
        pieces = engine.run("exporting", write_piece, parts, rows=lambda piece: piece.rows)
        _check_visible(pieces)
        if target.is_folder:
            whole = _arrange_pieces(draft / "whole", options.format, entities, pieces)
        else:
            whole = _join_pieces(draft / "whole", pieces, report)
        whole.replace(target.path)
    return sum(piece.rows for piece in pieces)


def _plan_parts(
    snapshot: Snapshot, options: ExportOptions, draft: Path, engine: Engine
) -> tuple[list[EntityType], list[ExportPart]]:
    """The parts of an export, and the type of each."""
    pieces = draft / "pieces"
    pieces.mkdir()
    planned = [
        (entity, part)
        for entity in chosen_types(snapshot, options.types)
        for part in parts_of(
            entity,
            snapshot.table(entity.table_key),
            format=options.format,
            ordered=options.ordered,
            folder=str(pieces.absolute()),
        )
    ]
    beside = engine.slots if engine.name != "local" else max(1, min(engine.slots, len(planned)))
    effort = Effort(max(1, engine.slots // beside), beside)
    return [entity for entity, _ in planned], [replace(part, effort=effort) for _, part in planned]


@contextmanager
def draft_beside(path: Path) -> Iterator[Path]:
    """A new folder on the disk of the target, gone in the end."""
    draft = path.with_name(f".{path.name}.draft-{uuid.uuid4().hex[:12]}")
    try:
        draft.mkdir()
        try:
            yield draft
        finally:
            # A task that Spark gave up may still be writing there: the export has succeeded nevertheless.
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise StorageError(str(path), f"cannot be written: {error.strerror or error}") from error


def _check_visible(pieces: Collection[Piece]) -> None:
    """Workers of a cluster may write where this process cannot look."""
    for piece in pieces:
        if not Path(piece.path).is_file():
            problem = "was written, but this process does not see it: a cluster needs a folder that all workers share"
            raise StorageError(piece.path, problem)


def _arrange_pieces(whole: Path, format: Format, entities: list[EntityType], pieces: list[Piece]) -> Path:
    """The pieces as ``nodes/Person/part-00000.csv`` and so on, below a new folder."""
    whole.mkdir()
    numbers: dict[str, int] = {}
    for entity, piece in zip(entities, pieces, strict=True):
        kind, _, name = entity.table_key.partition(":")
        folder = whole / f"{kind}s" / name
        folder.mkdir(parents=True, exist_ok=True)
        number = numbers[name] = numbers.get(name, -1) + 1
        Path(piece.path).replace(folder / f"part-{number:05}.{format}")
    return whole


def _join_pieces(whole: Path, pieces: list[Piece], report: Report) -> Path:
    """The pieces one after the other in one file; each is gone when it is in there, as both may not fit on the disk."""
    with whole.open("xb", buffering=0) as file:
        for number, piece in enumerate(pieces):
            report(Progress("joining", number, len(pieces)))
            with Path(piece.path).open("rb", buffering=0) as source:
                shutil.copyfileobj(source, file, _COPIED_AT_ONCE)
            Path(piece.path).unlink()
    report(Progress("joining", len(pieces), len(pieces)))
    return whole


def chosen_types(snapshot: Snapshot, types: Collection[str] | None) -> list[EntityType]:
    """The types that were named, or all of them; nodes first."""
    catalog = snapshot.catalog
    if types is None:
        return [*catalog.entities]
    named = {catalog.existing_entity(name).name for name in types}
    return [entity for entity in catalog.entities if entity.name in named]
