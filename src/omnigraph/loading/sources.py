"""Plans the input of a load as parts that any task can read alone, and reads them.

Lines are cut into ranges of bytes, Parquet into groups of rows. What cannot be entered in the middle (CSV, compressed
lines) is one part a file. Where the cuts are depends on the input alone, so that every engine reads the same parts.
"""

import csv
import io
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from omnigraph.catalog import Catalog, EntityType
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import size_text
from omnigraph.errors import StorageError, TooLarge, UsageError, ValidationError
from omnigraph.loading.records import RecordReader, line_count, only_kind_in
from omnigraph.loading.tabular import read_table, wrong_names
from omnigraph.parts.scratch import Files, Piece, Scratch
from omnigraph.storage.inputs import InputFile
from omnigraph.violations import Violation

BLOCK_BYTES = 16 * 1024 * 1024
PART_BYTES = 64 * 1024 * 1024
PART_ROWS = 500_000
LONGEST_LINE = 256 * 1024 * 1024
_MOST_PARTS = 4_096
_GUARDED_ROWS = 8_192
_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
_VALUE_BYTES = {"BOOLEAN": 1 / 8, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What Arrow raises for a file that is damaged; the last one for names of columns that are not text."""
_COMPRESSED = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}
_LINES, _CSV, _PARQUET, _ARROW = (".jsonl", ".ndjson", ".json"), (".csv",), (".parquet", ".pq"), (".arrow", ".feather")


@dataclass(frozen=True, slots=True)
class LineRange:
    """The lines of a file that begin in a range of its bytes; of a compressed file, all."""

    file: InputFile
    start: int
    end: int
    codec: str | None = None


@dataclass(frozen=True, slots=True)
class CsvFile:
    """A file with a header and rows of one type."""

    file: InputFile
    table_key: str
    codec: str | None = None


@dataclass(frozen=True, slots=True)
class RowGroups:
    """Some row groups of a Parquet file, or batches of an Arrow file, with rows of one type."""

    file: InputFile
    table_key: str
    groups: tuple[int, ...]
    first_row: int
    rows: int


@dataclass(frozen=True, slots=True)
class TableSlice:
    """Rows of one type from memory, written where every task can read them."""

    name: str
    table_key: str
    piece: Piece
    first_row: int
    scratch: Files | None = None
    """Where they are, if not in the scratch of the job that reads them."""


Part: TypeAlias = LineRange | CsvFile | RowGroups | TableSlice


@dataclass(frozen=True, slots=True)
class Numbered:
    """A part and its number, which makes the places of its records unique."""

    number: int
    part: Part

    @property
    def first_place(self) -> int:
        return place_in(self.number)


_PLACE_BITS = 36


def place_in(number: int, position: int = 0) -> int:
    """The place of a record of a part."""
    return number << _PLACE_BITS | position


def part_and_position(place: int) -> tuple[int, int]:
    """Which part a place is in, and which record of it."""
    return place >> _PLACE_BITS, place & ((1 << _PLACE_BITS) - 1)


# --- planning ---


def parts_of_file(file: InputFile, entity: EntityType | None) -> list[Part]:
    """The parts of a file; rows of one type if one is named, otherwise records that name their type."""
    stem, codec = _without_compression(file.name)
    suffix = PurePosixPath(stem).suffix.lower()
    if suffix in _CSV + _PARQUET + _ARROW and entity is None:
        raise UsageError(f"{file.name}: the type of its rows is not known; name it, as in --nodes Person={file.name}")
    if suffix in _CSV:
        assert entity is not None
        return [CsvFile(file, entity.table_key, codec)]
    if suffix in _PARQUET + _ARROW:
        assert entity is not None
        return _row_groups(file, entity)
    if suffix not in _LINES:
        kinds = f"NDJSON ({', '.join(_LINES)}), CSV, Parquet or Arrow"
        raise UsageError(f"{file.name}: unknown file name extension: expected {kinds}")
    if entity is not None:
        raise UsageError(f"{file.name}: NDJSON records name their own types; pass the file with --data")
    if codec is not None:
        return [LineRange(file, 0, file.size, codec)]
    count = min(-(-file.size // PART_BYTES), _MOST_PARTS)
    step = -(-file.size // count) if count else 1
    return [LineRange(file, start, min(start + step, file.size)) for start in range(0, file.size, step)]


def implied_type(file: InputFile, catalog: Catalog) -> EntityType | None:
    """The type that a file's name or one of its folders says, as in ``nodes/Person/part-0.parquet``.

    Of a node type and an edge type with one name, a file below a folder `edges` means the edge.
    """
    stem, _ = _without_compression(file.name)
    path = PurePosixPath(stem)
    if path.suffix.lower() in _LINES:
        return None
    for name in (path.stem, *reversed(path.parent.parts)):
        entity = (catalog.edge(name) if "edges" in path.parts else None) or catalog.entity(name)
        if entity is not None:
            return entity
    return None


def parts_of_table(entity: EntityType, table: pa.Table, first_row: int, scratch: Scratch) -> list[Part]:
    """The parts of a table in memory, which itself may be a part of what was handed over."""
    slices = [(start, table.slice(start, PART_ROWS)) for start in range(0, table.num_rows, PART_ROWS)]
    return [
        TableSlice(entity.name, entity.table_key, scratch.put([rows])[0], first_row + start) for start, rows in slices
    ]


def _without_compression(name: str) -> tuple[str, str | None]:
    for suffix, codec in _COMPRESSED.items():
        if name.lower().endswith(suffix):
            return name[: -len(suffix)], codec
    return name, None


def _row_groups(file: InputFile, entity: EntityType) -> list[Part]:
    """Neighbouring groups, together about as many rows as one part should have."""
    parts: list[Part] = []
    chosen: list[int] = []
    rows = first = 0
    sizes = _group_sizes(file)
    for group, size in enumerate(sizes):
        chosen.append(group)
        rows += size
        if rows >= PART_ROWS or group == len(sizes) - 1:
            parts.append(RowGroups(file, entity.table_key, tuple(chosen), first, rows))
            first, rows, chosen = first + rows, 0, []
    return parts


def _group_sizes(file: InputFile) -> list[int]:
    with file.open() as content:
        try:
            if _is_arrow(file):
                batches = pa.ipc.open_file(pa.PythonFile(content))
                return [batches.get_batch(index).num_rows for index in range(batches.num_record_batches)]
            metadata = pq.ParquetFile(content).metadata
            groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
            if file.unpacked_limit is not None and sum(map(_unpacked_bytes, groups)) > file.unpacked_limit:
                raise TooLarge(file.unpacked_limit)
            return [group.num_rows for group in groups]
        except _UNREADABLE as error:
            raise StorageError(file.name, f"cannot be read: {error}") from error


def _unpacked_bytes(group: Any) -> int:
    """What a group of rows unpacks to at least, as the end of its file says: values of a fixed size may be one run."""
    columns = [group.column(index) for index in range(group.num_columns)]
    return sum(
        max(each.total_uncompressed_size, each.num_values * _VALUE_BYTES.get(each.physical_type, 0)) for each in columns
    )


def _is_arrow(file: InputFile) -> bool:
    return file.name.lower().endswith(_ARROW)


# --- reading ---


def entities_of(catalog: Catalog) -> Mapping[str, EntityType]:
    """All types by their tables."""
    return {entity.table_key: entity for entity in catalog.entities}


def read_part(numbered: Numbered, reader: RecordReader, scratch: Scratch) -> Iterator[None]:
    """Hands a part to the reader, block by block, and pauses after each, so that the rows can be taken."""
    place = numbered.first_place
    entities = entities_of(reader.catalog)
    match numbered.part:
        case LineRange() as lines:
            for block in _blocks(lines):
                place += reader.read(block, place)
                yield
        case CsvFile(file, key, codec):
            try:
                names = _csv_names(file, codec)
                faulty = wrong_names(names)
                if faulty is not None:
                    place_of_header = Violation(entities[key].name, faulty.column, faulty.problem, file.name, line=1)
                    reader.faults.report(place_of_header)
                    return
                for table, first in _csv_tables(file, codec, names):
                    read_table(reader, entities[key], table, place + first)
                    yield
            except (pa.ArrowInvalid, UnicodeDecodeError) as error:
                reader.faults.report(Violation(entities[key].name, None, f"invalid CSV: {error}", file.name))
        case RowGroups(file, key, groups):
            for table, first in _group_tables(file, groups):
                read_table(reader, entities[key], table, place + first)
                yield
        case TableSlice(_, key, piece) as rows:
            read_table(reader, entities[key], (rows.scratch or scratch).get(piece), place)
            yield


def _blocks(lines: LineRange) -> Iterator[bytes]:
    """Whole lines, a block at a time."""
    with _open_uncompressed(lines.file, lines.codec) as content:
        left = lines.end - lines.start if lines.codec is None else 1 << 62
        if lines.start:
            # A line belongs to the part in which it begins.
            content.seek(lines.start - 1)
            left -= len(_rest_of_line(lines.file, content)) - 1
        while left > 0 and (data := content.read(min(BLOCK_BYTES, left))):
            left -= len(data)
            if not data.endswith(b"\n"):
                rest = _rest_of_line(lines.file, content)
                data += rest
                left -= len(rest)
            yield data


def _rest_of_line(file: InputFile, content: Any) -> bytes:
    """What a line still has; refuses one that would not fit into memory, as binary data may look."""
    rest: bytes = content.readline(LONGEST_LINE + 1)
    if len(rest) > LONGEST_LINE:
        problem = f"a line is longer than {size_text(LONGEST_LINE)}"
        raise ValidationError([Violation("record", None, problem, file.name)])
    return rest


def _csv_tables(file: InputFile, codec: str | None, names: Sequence[str]) -> Iterator[tuple[pa.Table, int]]:
    """The rows of a CSV file. Columns are read as texts, as the schema decides their types; an empty cell is null."""
    with _open_uncompressed(file, codec) as content:
        reader = pa.csv.open_csv(
            content,
            read_options=pa.csv.ReadOptions(block_size=BLOCK_BYTES),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types={name: pa.string() for name in names},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        count = 0
        for batch in reader:
            yield pa.Table.from_batches([batch]), count
            count += batch.num_rows


@contextmanager
def _open_uncompressed(file: InputFile, codec: str | None) -> Iterator[Any]:
    """The content of a file, whatever it is packed in."""
    with file.open() as raw:
        try:
            yield raw if codec is None else io.BufferedReader(_Unpacked(raw, codec, file.unpacked_limit), BLOCK_BYTES)
        except OSError as error:
            raise StorageError(file.name, f"cannot be read: {error}") from error


class _Unpacked(io.RawIOBase):
    """A compressed file as what it holds; Arrow's own stream does not know lines."""

    def __init__(self, raw: Any, codec: str, limit: int | None) -> None:
        self._stream = pa.CompressedInputStream(pa.PythonFile(raw), codec)
        self._limit = limit
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        content = self._stream.read(len(view))
        view[: len(content)] = content
        self._count += len(content)
        if self._limit is not None and self._count > self._limit:
            raise TooLarge(self._limit)
        return len(content)


def _csv_names(file: InputFile, codec: str | None) -> list[str]:
    """The names in the header of a CSV file."""
    with _open_uncompressed(file, codec) as content:
        names: list[str] = pa.csv.open_csv(
            content, read_options=pa.csv.ReadOptions(block_size=BLOCK_BYTES)
        ).schema.names
    return names


def _group_tables(file: InputFile, groups: Sequence[int]) -> Iterator[tuple[pa.Table, int]]:
    with file.open() as content:
        try:
            batches: Iterator[pa.RecordBatch]
            if _is_arrow(file):
                stored = pa.ipc.open_file(pa.PythonFile(content))
                batches = (stored.get_batch(index) for index in groups)
            elif file.unpacked_limit is None:
                batches = pq.ParquetFile(content).iter_batches(PART_ROWS, row_groups=list(groups))
            else:
                batches = _guarded_batches(content, groups)
            count = size = 0
            while (batch := _next_batch(file, batches)) is not None:
                if file.unpacked_limit is not None:
                    size += sum(map(_plain_bytes, batch.columns))
                    if size > file.unpacked_limit:
                        raise TooLarge(file.unpacked_limit)
                yield pa.Table.from_batches([batch]), count
                count += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise StorageError(file.name, f"cannot be read: {error}") from error


def _guarded_batches(content: Any, groups: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The rows of an untrusted file, few at a time, with texts as references to the different ones.

    A text that is stored once may be the value of every row, so a small file may unpack to more than there is memory.
    """
    schema = pq.ParquetFile(content).schema
    columns = [schema.column(index) for index in range(len(schema))]
    texts = [each.path for each in columns if each.physical_type == "BYTE_ARRAY"]
    content.seek(0)
    yield from pq.ParquetFile(content, read_dictionary=texts).iter_batches(_GUARDED_ROWS, row_groups=list(groups))


def _plain_bytes(column: pa.Array) -> int:
    """The size of a column whose values are all written out."""
    if not pa.types.is_dictionary(column.type):
        size: int = column.nbytes
        return size
    values = column.dictionary
    if not any(is_kind(values.type) for is_kind in _TEXTS):
        width: int = values.nbytes // max(len(values), 1) + 1
        return len(column) * width
    return int(pc.sum(pc.binary_length(values).cast(pa.int64()).take(column.indices)).as_py() or 0)


def _next_batch(file: InputFile, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
    """The next rows of a file. The file is not trusted: its offsets could point outside, its texts be invalid."""
    try:
        batch = next(batches, None)
        if batch is not None:
            batch.validate(full=True)
    except _UNREADABLE as error:
        raise StorageError(file.name, f"cannot be read: {error}") from error
    return batch


def tables_named_in(catalog: Catalog, part: LineRange) -> set[str]:
    """The tables of the types that records of a part name; invalid records are reported when they are read."""
    found: set[str] = set()
    for block in _blocks(part):
        kind = only_kind_in(block, line_count(block))
        if kind is not None:
            names = {kind.rpartition(":")[2]}
        else:
            names = {name for line in block.split(b"\n") for name in _names_in(line)}
        found |= {entity.table_key for name in names for entity in catalog.entities_of(name)}
    return found


def _names_in(line: bytes) -> Iterator[str]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return
    if isinstance(record, dict):
        yield from (name for key in ("type", "edge") if isinstance(name := record.get(key), str))


# --- where a record stands ---


def line_of(part: Part, position: int) -> tuple[str, int]:
    """The file and the line, or for a table the row, of a record of a part. Reads the file as far as it must."""
    match part:
        case LineRange(file, start):
            return file.name, _lines_before(file, start) + position + 1
        case CsvFile(file, _, codec):
            return file.name, _csv_line(file, codec, position)
        case RowGroups(file, _, _, first_row):
            return file.name, first_row + position + 1
        case TableSlice(name, _, _, first_row):
            return name, first_row + position + 1


def _lines_before(file: InputFile, start: int) -> int:
    """How many lines of a file begin before the first one that begins at or after a byte."""
    count, left, last = 0, start, b"\n"
    with file.open() as content:
        while left > 0 and (data := content.read(min(BLOCK_BYTES, left))):
            count += data.count(b"\n")
            left -= len(data)
            last = data[-1:]
    return count + (last != b"\n")


def _csv_line(file: InputFile, codec: str | None, position: int) -> int:
    """The line in which a record of a CSV file begins: a cell may have newlines in it."""
    with _open_uncompressed(file, codec) as content, io.TextIOWrapper(content, "utf-8", "replace", newline="") as text:
        records = csv.reader(text)
        for _ in itertools.islice(records, position + 1):
            pass
        return records.line_num + 1
