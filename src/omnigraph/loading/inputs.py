"""The input of a load: paths, folders, patterns, tables of any library, frames of Spark."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.api.progress import Choice
from omnigraph.catalog import Catalog, EntityType, arrow_type
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import did_you_mean, printable
from omnigraph.errors import NotFound, UsageError, ValidationError
from omnigraph.loading.sources import (
    PART_ROWS,
    CsvFile,
    LineRange,
    Part,
    RowGroups,
    TableSlice,
    implied_type,
    parts_of_file,
    parts_of_table,
)
from omnigraph.loading.tabular import wrong_names
from omnigraph.parts.choice import Machine, choose_for_work, core_seconds
from omnigraph.parts.scratch import Files, Scratch, Stretch
from omnigraph.storage.inputs import InputFile, input_files
from omnigraph.violations import Violation

FRAME_NUMBERS = 1 << 20
"""How many part numbers are reserved for the partitions of each frame."""

_BYTES_A_RECORD = 100
_FRAME_RECORDS = 64_000_000
_COMPRESSION = 6
_FILES = (str, Path, InputFile)
_NOT_ARROW = (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError)


@dataclass(frozen=True, slots=True)
class HandedOver:
    """Rows of one type in memory; `first` is how many rows of the input came before them."""

    entity: EntityType
    rows: pa.Table
    first: int = 0


@dataclass(frozen=True, slots=True)
class LoadInput:
    """The input of a load, found and named but not read."""

    files: tuple[tuple[InputFile, EntityType | None], ...] = ()
    tables: tuple[HandedOver, ...] = ()
    frames: tuple[tuple[str, Any], ...] = ()
    """Frames of Spark, by table."""

    aside: tuple[TableSlice, ...] = ()
    """Rows that tasks of another job have written, as they came."""

    staged_tables: frozenset[str] = frozenset()
    """The tables of such rows, also of those whose tasks had none."""

    _file_parts: list[Part] = field(default_factory=list, repr=False, compare=False)

    @property
    def bytes(self) -> int:
        """The size of the files."""
        return sum(file.size for file, _ in self.files)

    @property
    def records(self) -> int:
        """How many records there are, as far as it is known without reading: of lines, about as many."""
        counted = sum(part.rows for part in self._parts_of_files() if isinstance(part, RowGroups))
        guessed = sum(_size(part) for part in self._parts_of_files() if isinstance(part, LineRange | CsvFile))
        handed_over: int = sum(each.rows.num_rows for each in self.tables) + len(self.aside) * PART_ROWS
        return counted + guessed // _BYTES_A_RECORD + handed_over

    def reasons_for_engine(self, machine: Machine, *, merges: bool) -> Iterable[str | Choice]:
        """Reasons to load on one of the engines: rows that are on Spark already, or where the load ends first."""
        if self.frames:
            yield "the rows are a Spark DataFrame"
        lines = sum(_size(part) for part in self._parts_of_files() if isinstance(part, LineRange | CsvFile))
        rows = self.records - lines // _BYTES_A_RECORD
        yield choose_for_work(core_seconds(line_bytes=lines, rows=rows, merges=merges), machine)

    @property
    def expected_keys(self) -> int:
        """About how many keys the checks will compare: an edge has two ends."""
        return 2 * (self.records + _FRAME_RECORDS * bool(self.frames))

    @property
    def named_tables(self) -> set[str]:
        """The tables of the types that were named, whatever is in them."""
        return {
            *(entity.table_key for _, entity in self.files if entity is not None),
            *(each.entity.table_key for each in self.tables),
            *(key for key, _ in self.frames),
            *self.staged_tables,
        }

    @property
    def message(self) -> str:
        """What a commit says of the load."""
        names = [Path(file.name).name for file, _ in self.files[:3]] + (["…"] if len(self.files) > 3 else [])
        names += dict.fromkeys(each.entity.name for each in self.tables)
        names += [key.partition(":")[2] for key, _ in self.frames]
        return f"load {', '.join(names)}"

    def parts(self, scratch: Scratch) -> list[Part]:
        """All parts but those of frames, which have their own."""
        found: list[Part] = [*self._parts_of_files(), *self.aside]
        for each in self.tables:
            found += parts_of_table(each.entity, each.rows, each.first, scratch)
        return found

    def _parts_of_files(self) -> list[Part]:
        if not self._file_parts:
            for file, entity in self.files:
                self._file_parts.extend(parts_of_file(file, entity))
        return self._file_parts


def _size(part: LineRange | CsvFile) -> int:
    """The bytes of a part; compressed ones will be some times as many."""
    size = part.end - part.start if isinstance(part, LineRange) else part.file.size
    return size * (1 if part.codec is None else _COMPRESSION)


def work_of(part: Part) -> int:
    """How much work it is to read a part, to compare with others: about how many records it has."""
    match part:
        case RowGroups():
            return part.rows
        case LineRange() | CsvFile():
            return _size(part) // _BYTES_A_RECORD
        case TableSlice():
            return PART_ROWS


@dataclass(frozen=True, slots=True)
class StagedRows:
    """Rows of one type that tasks of another job have written to files below the graph."""

    type: str
    files: Files
    pieces: tuple[tuple[tuple[Stretch, int], ...], ...]
    """What each task has written, with the number of rows."""

    def input_for(self, catalog: Catalog) -> LoadInput:
        """The input of a load under the schema of a catalog."""
        entity = catalog.entity(self.type)
        if entity is None:
            raise NotFound("type", self.type, did_you_mean(self.type, [*catalog.nodes, *catalog.edges]))
        return LoadInput(aside=tuple(self._rows(entity.table_key)), staged_tables=frozenset((entity.table_key,)))

    def _rows(self, table_key: str) -> Iterator[TableSlice]:
        for number, pieces in enumerate(self.pieces):
            first = 0
            for piece, count in pieces:
                yield TableSlice(f"{self.type} partition {number}", table_key, piece, first, self.files)
                first += count


def load_input(data: Any, catalog: Catalog, storage_options: dict[str, str] | None = None) -> LoadInput:
    """Resolves the input of a load: paths of files that name their types, mappings from types to rows, or both.

    An `InputFile` stands for one file under the name that it has for its owner, wherever it lies.
    """
    if isinstance(data, StagedRows):
        return data.input_for(catalog)
    given = [data] if isinstance(data, str | Path | InputFile | Mapping) else data
    if not isinstance(given, Iterable) or hasattr(given, "__arrow_c_stream__"):
        raise UsageError('the type of the rows is missing: pass a mapping such as {"Person": rows}')
    found = LoadInput()
    for each in given:
        if isinstance(each, Mapping):
            found = _add_types(found, each, catalog, storage_options)
        elif isinstance(each, _FILES):
            files = [(file, implied_type(file, catalog)) for file in _files_named(each, storage_options)]
            found = replace(found, files=(*found.files, *files))
        else:
            raise UsageError(f"invalid input {each!r}: expected paths, or a mapping from types to rows")
    return found


def _files_named(named: str | Path | InputFile, storage_options: dict[str, str] | None) -> list[InputFile]:
    return [named] if isinstance(named, InputFile) else input_files(named, storage_options)


def _add_types(
    found: LoadInput, data: Mapping[Any, Any], catalog: Catalog, storage_options: dict[str, str] | None
) -> LoadInput:
    """Adds rows that are given by the names of their types."""
    for name, rows in data.items():
        entity = catalog.existing_entity(str(name))
        paths = [rows] if isinstance(rows, _FILES) else rows
        if isinstance(paths, Sequence) and all(isinstance(each, _FILES) for each in paths):
            files = [(file, entity) for each in paths for file in _files_named(each, storage_options)]
            found = replace(found, files=(*found.files, *files))
        elif is_spark_frame(rows):
            found = replace(found, frames=(*found.frames, (entity.table_key, rows)))
        else:
            found = replace(found, tables=(*found.tables, *_handed_over(entity, rows)))
    return found


def is_spark_frame(rows: object) -> bool:
    """Whether rows are a Spark DataFrame, of whichever kind of session; Spark need not be installed to ask."""
    return rows.__class__.__name__ == "DataFrame" and rows.__class__.__module__.startswith("pyspark.")


def _handed_over(entity: EntityType, rows: Any) -> Iterator[HandedOver]:
    """Rows as tables. Dictionaries that lack a key do not say that it is null; so those with other keys are apart."""
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        yield HandedOver(entity, _table(entity.name, rows))
        return
    first = 0
    for _, alike in groupby(rows, key=lambda row: row.keys()):
        together = list(alike)
        _check_names(entity.name, together[0], first + 1)
        yield HandedOver(entity, _table_of(entity, together, first), first)
        first += len(together)
    if not rows:
        yield HandedOver(entity, pa.table({}))


def _table_of(entity: EntityType, rows: list[dict[str, Any]], first: int) -> pa.Table:
    """Dictionaries with the same keys as a table; `first` is how many there were before them."""
    try:
        return pa.Table.from_pylist(rows)
    except _NOT_ARROW:
        return pa.table({name: _column(entity, name, [row[name] for row in rows], first) for name in rows[0]})


def _column(entity: EntityType, name: str, values: list[Any], first: int) -> pa.Array:
    """The values of a property. What Arrow makes no column of by itself may be one of the property's type."""
    declared = entity.properties.get(name)
    kind = pa.string() if declared is None else arrow_type(declared.type)
    for type in (None, kind):
        with suppress(*_NOT_ARROW):
            return pa.array(values, type)
    for row, value in enumerate(values, start=first + 1):
        try:
            pa.array([value], kind)
        except _NOT_ARROW:
            problem = (
                f"{printable(repr(value))} does not fit {'a column of texts' if declared is None else declared.type}"
            )
            raise ValidationError([Violation(entity.name, name, problem, file=entity.name, line=row)]) from None
    raise UsageError(f"the values of {entity.name}.{name} do not make a column")


def _check_names(type: str, names: Iterable[object], row: int | None = None) -> None:
    """Raises for columns that a table cannot have: two of one name, or one whose name is not text."""
    faulty = wrong_names(names)
    if faulty is not None:
        raise ValidationError([Violation(type, faulty.column, faulty.problem, file=type, line=row)])


def _table(name: str, rows: Any) -> pa.Table:
    """Rows of Arrow, pandas, polars, or another library with Arrow's interface."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if rows.__class__.__module__.partition(".")[0] == "pandas":
        _check_names(name, getattr(rows, "columns", ()))
        # In a column of numpy's floats NaN is how pandas says that a value is missing: it becomes null.
        try:
            return pa.Table.from_pandas(rows, preserve_index=False)
        except (*_NOT_ARROW, ValueError, AttributeError) as error:
            problem = f"the frame does not become a table: {printable(str(error))}"
            raise ValidationError([Violation(name, None, problem, file=name)]) from error
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    raise UsageError(f"invalid rows of {name}: expected a path, a table or a frame, found {rows.__class__.__name__}")
