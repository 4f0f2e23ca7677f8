"""Reading tables: a Lance dataset at one exact version.

Opening an exact version lists nothing, so it costs the same after ten thousand commits as after ten. All datasets share
one session, and with it the caches of metadata and indexes.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import takewhile
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from lance.blob import BlobType
from lance.file import LanceFileReader
from numpy.typing import NDArray

import lance
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, StorageError, UsageError
from omnigraph.storage.deltas import Delta
from omnigraph.storage.environment import INDEX_BYTES, METADATA_BYTES
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.predicates import among
from omnigraph.storage.soundness import check_file, check_files

ROW_ID, ROW_ADDRESS, ROW_VERSION = "_rowid", "_rowaddr", "_row_last_updated_at_version"
# Up to this number, ids are looked up through the index; more are found faster by reading the whole column.
_FEW_IDS = 2_000
_DENSE = 16
"""A fragment is read whole for the rows at some addresses, unless they are fewer than one in 16 of its rows."""

VERSIONS = "_versions"
"""The folder of a table that has the files of its versions."""

DATA = "data"
"""The folder of a table that has the files of its rows."""

_VERSION_FILE = re.compile(rf"{VERSIONS}/(\d{{20}})\.manifest")
_LAST = 2**64 - 1
NO_TABLE = "no table exists here"
VERSION_END = b"LANC"
"""What the file of a version ends with."""

_session = lance.Session(  # type: ignore[attr-defined]
    index_cache_size_bytes=INDEX_BYTES, metadata_cache_size_bytes=METADATA_BYTES
)


@dataclass(frozen=True, slots=True)
class FragmentSize:
    """A fragment of a table: its number, how many rows are left in it, and the bytes of its files."""

    number: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table at one version; what it holds never changes."""

    location: Location
    dataset: lance.LanceDataset
    _schema: pa.Schema | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def plain(self) -> "Table":
        """The table without what is carried on top of it."""
        return self

    @property
    def deltas(self) -> tuple[Delta, ...]:
        """What is carried on top of it."""
        return ()

    @property
    def version(self) -> int:
        version: int = self.dataset.version
        return version

    @property
    def schema(self) -> pa.Schema:
        """The columns. Lance makes this object again whenever it is asked, and lets other threads run meanwhile."""
        found = self._schema
        if found is None:
            found = self.dataset.schema
            object.__setattr__(self, "_schema", found)
        return found

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        limit: int | None = None,
        *,
        check: Callable[[int], None] = lambda _bytes: None,
    ) -> pa.Table:
        """The rows that meet a filter, with these columns and no other read; `check` gets the bytes of each batch."""
        batches = []
        with typed_errors(self.location, "cannot be read"):
            reader = self._scanner(columns, filter, limit).to_reader()
            for batch in reader:
                check(batch.nbytes)
                batches.append(batch)
        return pa.Table.from_batches(batches, schema=reader.schema)

    def batches(self, columns: Sequence[str] | None = None, filter: str | None = None) -> Iterator[pa.RecordBatch]:
        """The same rows, a batch at a time."""
        with typed_errors(self.location, "cannot be read"):
            yield from self._scanner(columns, filter, None).to_batches()

    def _scanner(self, columns: Sequence[str] | None, filter: str | None, limit: int | None) -> lance.LanceScanner:
        names = None if columns is None else list(columns)
        return self.dataset.scanner(columns=names, filter=filter, limit=limit, blob_handling=self.blob_handling)

    @property
    def blob_handling(self) -> Literal["all_binary"] | None:
        """The option of a scan with which blobs are returned as bytes."""
        return "all_binary" if any(isinstance(field.type, BlobType) for field in self.schema) else None

    def check_filter(self, filter: str) -> None:
        """Raises `UsageError` for a text that is not a condition on the columns of this table."""
        try:
            self.dataset.scanner(filter=filter, limit=1).explain_plan()
        except ValueError as error:
            # After the last comma, Lance names a line of its own source.
            problem = str(error).removeprefix("Invalid user input: ").rpartition(", /")[0] or str(error)
            columns = ", ".join(self.schema.names)
            raise UsageError(f"the filter `{filter}` does not fit the columns {columns}: {problem}") from error

    def scan_fragments(self, fragments: Sequence[lance.LanceFragment]) -> pa.Table:
        """All rows of some fragments, with their row ids and addresses."""
        scanner = self.dataset.scanner(
            fragments=fragments, with_row_id=True, with_row_address=True, blob_handling=self.blob_handling
        )
        with typed_errors(self.location, "cannot be read"):
            return scanner.to_table()

    def fragment_sizes(self) -> list["FragmentSize"]:
        """The fragments in order, with the sizes by which bulk work is divided."""
        return [
            FragmentSize(
                fragment.fragment_id,
                fragment.physical_rows - fragment.num_deletions,
                sum(file.file_size_bytes or 0 for file in fragment.data_files()),
            )
            for fragment in self.dataset.get_fragments()
        ]

    def fragment_batches(
        self,
        fragments: Sequence[int],
        columns: Sequence[str],
        most_rows: int | None = None,
        *,
        filter: str | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of some fragments in their order, at most `most_rows` at a time; no other column is read."""
        if not fragments:  # Lance treats an empty list as all fragments
            return
        with typed_errors(self.location, "cannot be read"):
            wanted = frozenset(fragments)
            yield from self.dataset.scanner(
                fragments=[each for each in self.dataset.get_fragments() if each.fragment_id in wanted],
                columns=list(columns),
                filter=filter,
                batch_size=most_rows,
                blob_handling=self.blob_handling,
            ).to_batches()

    def scan_columns(self, fragments: Sequence[lance.LanceFragment], columns: Sequence[str]) -> pa.Table:
        """Some columns of some fragments. Row ids, addresses and versions are known without reading data files."""
        with typed_errors(self.location, "cannot be read"):
            return self.dataset.scanner(fragments=fragments, columns=list(columns)).to_table()

    def row_addresses(self) -> NDArray[np.uint64]:
        """The addresses of all rows, in the order of the fragments."""
        return self.fragment_addresses([each.fragment_id for each in self.dataset.get_fragments()])

    def fragment_addresses(self, fragments: Sequence[int]) -> NDArray[np.uint64]:
        """The addresses of the rows of some fragments; of fragments without deleted rows they are known unread."""
        wanted = frozenset(fragments)
        parts: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        with typed_errors(self.location, "cannot be read"):
            for fragment in self.dataset.get_fragments():
                if fragment.fragment_id not in wanted:
                    continue
                if fragment.metadata.deletion_file is None:
                    first = np.uint64(fragment.fragment_id) << np.uint64(32)
                    parts.append(first + np.arange(fragment.physical_rows, dtype=np.uint64))
                else:
                    read = self.dataset.scanner(fragments=[fragment], columns=[ROW_ADDRESS]).to_table()
                    parts.append(numbers_in(read[ROW_ADDRESS]).astype(np.uint64, copy=False))
        return np.concatenate(parts)

    def rows_at(self, addresses: pa.Array, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows at these addresses, in this order, with only these columns read. All of them must exist."""
        names = self.schema.names if columns is None else list(columns)
        if not len(addresses):
            return self.scan(names, limit=0)
        wanted = numbers_in(addresses.cast(pa.uint64())).astype(np.uint64, copy=False)
        found = pa.concat_tables(self._pieces_at(np.unique(wanted), [*names, ROW_ADDRESS]))
        stored = numbers_in(found[ROW_ADDRESS])
        if np.array_equal(stored, wanted):
            return found.drop_columns([ROW_ADDRESS])
        positions = pc.index_in(addresses, value_set=found[ROW_ADDRESS].combine_chunks())
        if positions.null_count:
            raise Damaged(self.location.uri, f"{positions.null_count} rows are missing at their recorded addresses")
        return found.drop_columns([ROW_ADDRESS]).take(positions)

    def _pieces_at(self, wanted: NDArray[np.uint64], columns: list[str]) -> Iterator[pa.Table]:
        """The rows at these addresses, which ascend, with their addresses among the columns.

        A fragment of which many rows are wanted is read whole: looking rows up one by one takes several times as long.
        Of others they are looked up, some at a time.
        """
        if len(wanted) <= _FEW_IDS:
            yield self.scan(columns, among(ROW_ADDRESS, wanted.tolist()))
            return
        numbers, starts = np.unique(wanted >> np.uint64(32), return_index=True)
        sizes = {each.fragment_id: each.physical_rows for each in self.dataset.get_fragments()}
        few: list[NDArray[np.uint64]] = []
        for number, part in zip(numbers.tolist(), np.split(wanted, starts[1:]), strict=True):
            if len(part) * _DENSE < sizes.get(number, 0):
                few.append(part)
                continue
            yield from self._looked_up(few, columns)
            few = []
            for batch in self.fragment_batches([number], columns):
                rows = pa.Table.from_batches([batch])
                at = numbers_in(rows[ROW_ADDRESS])
                places = np.minimum(np.searchsorted(part, at), len(part) - 1)
                is_wanted = part[places] == at
                yield rows if is_wanted.all() else rows.filter(pa.array(is_wanted))
        yield from self._looked_up(few, columns)

    def _looked_up(self, parts: list[NDArray[np.uint64]], columns: list[str]) -> Iterator[pa.Table]:
        """The rows at the addresses in these parts, a number of them at a time."""
        wanted = np.concatenate(parts) if parts else np.empty(0, np.uint64)
        for start in range(0, len(wanted), _FEW_IDS):
            yield self.scan(columns, among(ROW_ADDRESS, wanted[start : start + _FEW_IDS].tolist()))

    def count(self, filter: str | None = None) -> int:
        """How many rows meet a filter."""
        with typed_errors(self.location, "cannot be read"):
            number: int = self.dataset.count_rows(filter)
        return number

    @property
    def most_rows(self) -> int:
        """At least the number of all rows, known without reading."""
        return self.count()

    def rows_with_ids(self, ids: pa.Array, columns: Sequence[str] = ("id",)) -> pa.Table:
        """The rows with these ids. Ids that do not exist are missing from the result."""
        if len(ids) <= _FEW_IDS:
            if len(ids):
                return self.scan(columns, among("id", ids.to_pylist()))
            return self.scan(columns, filter="false") if ROW_ID in columns else self.scan(columns, limit=0)
        found = self.scan(columns)
        return found.filter(pc.is_in(found["id"], value_set=ids))


def numbers_in(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """The numbers of a column without nulls. `to_numpy` of Arrow would import pandas for them."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return np.from_dlpack(column)


def array_of(numbers: NDArray[Any]) -> pa.Array:
    """Numbers as Arrow, not copied. `pa.array` would import the masked arrays of numpy for them."""
    numbers = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), [None, pa.py_buffer(numbers)])


@contextmanager
def typed_errors(location: Location, problem: str) -> Iterator[None]:
    """Turns the errors of Lance into `StorageError`, and its panics into `Damaged`.

    Lance panics when an invariant is broken, which means that a file is damaged. A panic is not an `Exception`, so it
    would not be caught where the failure of one request is isolated.
    """
    try:
        yield
    except (OSError, ValueError) as error:  # those of Arrow are ValueErrors
        raise StorageError(location.uri, f"{problem}: {error}") from error
    except RuntimeError as error:
        raise Damaged(location.uri, f"{problem}: {error}") from error
    except BaseException as error:
        if not is_panic(error):
            raise
        raise Damaged(location.uri, f"{problem}: {error}") from error


def is_panic(error: BaseException) -> bool:
    """Whether an exception is a panic of Rust. Its class cannot be imported from any module."""
    return (type(error).__module__, type(error).__name__) == ("pyo3_runtime", "PanicException")


def open_table(location: Location, version: int | None = None) -> Table:
    """The table at an exact version, or at its newest version."""
    table = open_unread(location, newest_version(location) if version is None else version)
    with typed_errors(location, f"cannot open version {table.version}"):
        check_files(location, table.dataset)
    return table


def open_unread(location: Location, version: int) -> Table:
    """The table at an exact version, for callers that read its metadata but no rows.

    Its files have not been checked, and some damage of them would abort the process.
    """
    with typed_errors(location, f"cannot open version {version}"):
        dataset = lance.dataset(
            location.uri, version=version, storage_options=location.storage_options, session=_session
        )
        # Column names that Arrow's C interface cannot pass raise an error here. In a stream, they would abort the
        # process.
        _ = dataset.schema
    if dataset.version != version:
        file = location.child(version_file(version)).uri
        raise Damaged(file, f"expected version {version} of the table, found version {dataset.version}")
    return Table(location, dataset)


def newest_version(location: Location) -> int:
    """The newest version that a table has, at the cost of one request; one that a power cut left torn does not count.

    Version numbers may have gaps: cleanup removes old versions, also those that other programs made. So the newest is
    found by listing.
    """
    for version in _versions_down(location):
        if is_whole(location, version):
            return version
    raise StorageError(location.uri, NO_TABLE)


def listed_versions(location: Location) -> list[int]:
    """The versions that a table has files of, newest first; some may be torn or damaged."""
    return [*_versions_down(location)]


def versions_after(location: Location, version: int) -> list[int]:
    """The versions of a table after one, oldest first, at the cost of one request; torn ones do not count."""
    found = takewhile(lambda each: each > version, _versions_down(location))
    return sorted(each for each in found if is_whole(location, each))


def _versions_down(location: Location) -> Iterator[int]:
    """The versions that are listed, newest first: their files are named so that the newest sorts first.

    Pages of the listing are requested, and names are parsed, only as they are needed.
    """
    for names in objects_at(location).pages(VERSIONS):
        for name in sorted(names):
            version = version_in(f"{VERSIONS}/{name}")
            if version is not None:
                yield version


def has_version(location: Location, version: int) -> bool:
    """Whether a table has this version. A failure of the store raises an error: the answer is then unknown."""
    return (
        is_whole(location, version) if location.path is not None else objects_at(location).exists(version_file(version))
    )


def is_whole(location: Location, version: int) -> bool:
    """Whether the file of a listed version is complete, which its end marker shows.

    On a disk, an incomplete file was left by a power cut, and its version was never acknowledged. The objects of a
    store are always complete, so they are not checked.
    """
    if location.path is None:
        return True
    with typed_errors(location, "cannot be read"):
        try:
            with (location.path / version_file(version)).open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - len(VERSION_END)))
                return file.read() == VERSION_END
        except (FileNotFoundError, NotADirectoryError):
            return False


def check_version(location: Location, version: int) -> None:
    """Raises `Damaged` when the file of an acknowledged version is missing, or lacks its end marker.

    The rest of the file is checked only by opening it.
    """
    file = version_file(version)
    content = objects_at(location).read(file)
    if content is None:
        raise Damaged(location.child(file).uri, f"the file of version {version} is missing")
    if not content.endswith(VERSION_END):
        problem = f"the file of version {version} is cut short or was changed: its end marker is missing"
        raise Damaged(location.child(file).uri, problem)


def open_pinned(location: Location, version: int) -> Table:
    """The table at a version that must exist; raises `Damaged` with its file when that is missing or was changed."""
    try:
        return open_table(location, version)
    except StorageError as error:
        check_version(location, version)
        if location.path is not None and isinstance(error.__cause__, ValueError):
            # The file could be read, but Lance found another version in it, or none. On a store it says the same of a
            # request that failed.
            problem = f"the file of version {version} does not hold that version: {error.__cause__}"
            raise Damaged(location.child(version_file(version)).uri, problem) from error
        raise


def written_values(location: Location, column: str, *, skip_unreadable: bool) -> set[str]:
    """The values of a text column in all data files of a table on a disk, also in those that no version refers to.

    The files of a row are on the disk before a version has it. So they show what the versions had, without them. A file
    that no version had yet may be torn.
    """
    found: set[str] = set()
    for name in [] if location.path is None else objects_at(location).names(DATA):
        file = f"{DATA}/{name}"
        try:
            with typed_errors(location, f"{file} cannot be read"):
                check_file(location, file)
                rows = LanceFileReader(location.child(file).uri, columns=[column]).read_all().to_table()
        except StorageError:
            if not skip_unreadable:
                raise
        else:
            found.update(rows[column].to_pylist())
    return found


def version_file(version: int) -> str:
    """The file of a version, below its table. Its number counts down, so that the newest sorts first in a listing."""
    return f"{VERSIONS}/{_LAST - version:020}.manifest"


def version_in(file: str) -> int | None:
    """The version that a file below a table holds; None for a file that holds none."""
    found = _VERSION_FILE.fullmatch(file)
    return None if found is None else _LAST - int(found[1])


def fragment_groups(sizes: Iterable[FragmentSize], *, rows: int, size: int | None = None) -> list[tuple[int, ...]]:
    """Groups of consecutive fragments with at most this many rows and bytes; a larger fragment has its own group."""
    groups: list[list[int]] = []
    rows_left = bytes_left = 0
    for fragment in sizes:
        if not groups or fragment.rows > rows_left or (size is not None and fragment.bytes > bytes_left):
            groups.append([])
            rows_left, bytes_left = rows, size or 0
        groups[-1].append(fragment.number)
        rows_left -= fragment.rows
        bytes_left -= fragment.bytes
    return [tuple(group) for group in groups]
