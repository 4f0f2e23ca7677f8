"""The index of topology of a table of edges: built from its fragments, found for a version, and asked for edges.

The file is bound to fragments, not to a version. A version uses what it has of these fragments: rows that it marks as
deleted are left out, and fragments that the file lacks are read from the table. A file that is damaged is ignored with
a warning, and the table is read. So no answer depends on it.
"""

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from itertools import pairwise
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog.model import DESTINATION, SOURCE
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import StorageError
from omnigraph.storage.carrying import CarryingTable
from omnigraph.storage.environment import count_setting
from omnigraph.storage.lance_schema import field_ids
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.packed import bits_for
from omnigraph.storage.predicates import among
from omnigraph.storage.tables import ROW_ADDRESS, Table, numbers_in, typed_errors
from omnigraph.storage.topology_file import (
    FOLDER,
    SUFFIX,
    FragmentFiles,
    Fragments,
    Header,
    MissingTopology,
    Topology,
    TopologyFile,
    UnusableTopology,
    encode_topology,
    fragments_digest,
    open_file,
    read_header,
    reader_of,
    topology_file,
)

TOPOLOGY_EDGES = "OMNIGRAPH_TOPOLOGY_EDGES"
_TOPOLOGY_EDGES = 2**16
_LEAST_COVERED = 3 / 4
"""Which part of the rows of a version a file must have, to be used for it."""

_FORK = re.compile(r"(.*/(?:nodes|edges)/[^/]+)/tree/[^/]+")
_ROWS_AT_ONCE = 4_000_000
_FEW_ADDRESSES = 2_000
_FEW_ROWS, _MANY_ROWS = 200, 1_000
"""Beyond a few rows, and one in many, reading the columns is faster than finding rows by their addresses."""

_KEPT_VERSIONS, _KEPT_BYTES = 16, 64 << 20
"""For how many versions, and up to how many bytes, what was read for lookups stays in memory."""

_ENDS = (SOURCE, DESTINATION)
_SHIFT, _OFFSET = np.uint64(32), np.uint64(2**32 - 1)
_logger = logging.getLogger(__name__)


def fewest_edges() -> int:
    """From how many edges on a table has an index of topology."""
    return count_setting(TOPOLOGY_EDGES, _TOPOLOGY_EDGES)


def is_indexable(table: Table) -> bool:
    """Whether a table has enough edges."""
    return table.count() >= fewest_edges()


def table_folder(location: Location) -> Location:
    """The folder of a table, also for a fork of it: forks have fragments of the table, and share its files."""
    found = _FORK.fullmatch(location.uri)
    return location if found is None else location.at(found[1])


def fragment_files(table: Table) -> dict[int, FragmentFiles]:
    """The fragments of a version by number, with the files that hold the ends of edges."""
    ids = field_ids(table.dataset, (SOURCE, DESTINATION))
    found = {}
    with typed_errors(table.location, "fragments cannot be read"):
        for fragment in table.dataset.get_fragments():
            metadata = fragment.metadata
            files = {file.path for file in metadata.files if not ids.isdisjoint(file.fields)}
            files |= {f"{each.data_file.path}@{each.committed_version}" for each in metadata.overlays}
            number = fragment.fragment_id
            found[number] = FragmentFiles(number, fragment.physical_rows, tuple(sorted(files)))
    return found


# --- building ---


def build_topology(table: Table) -> str:
    """Writes the file for the fragments of a version, and returns its name.

    It is written under another name, through to the disk, and then linked into place. A file that exists under this
    name and is damaged is replaced.
    """
    table = table.plain
    fragments = tuple(each for _, each in sorted(fragment_files(table).items()))
    content = encode_topology(_read_topology(table, fragments))
    name = topology_file(fragments_digest(fragments))
    objects = objects_at(table_folder(table.location))
    if not objects.create(name, content):
        objects.replace(name, content)
    _kept.clear()
    _reported.clear()
    return name


def _read_topology(table: Table, fragments: Fragments) -> Topology:
    starts = dict(zip((each.number for each in fragments), _starts(fragments), strict=False))
    texts: list[pa.Array] = []
    codes: list[list[NDArray[Any]]] = [[], []]
    rows: list[NDArray[Any]] = []
    known = 0
    for block in _blocks(table.batches([SOURCE, DESTINATION, ROW_ADDRESS])):
        both = pa.chunked_array([*block[SOURCE].chunks, *block[DESTINATION].chunks], pa.string()).combine_chunks()
        encoded = both.dictionary_encode()
        texts.append(encoded.dictionary)
        numbers = numbers_in(encoded.indices) + known
        known += len(encoded.dictionary)
        for part, column in zip(codes, (numbers[: block.num_rows], numbers[block.num_rows :]), strict=True):
            part.append(column)
        rows.append(_row_numbers(numbers_in(block[ROW_ADDRESS]), starts))
    ids, ranks = _rank_ids(texts)
    begins, ends = (ranks[np.concatenate([np.empty(0, np.int64), *part])] for part in codes)
    return _sort_edges(fragments, ids, begins, ends, np.concatenate([np.empty(0, np.int64), *rows]))


def _starts(fragments: Iterable[FragmentFiles]) -> list[int]:
    found = [0]
    for each in fragments:
        found.append(found[-1] + each.rows)
    return found


def _row_numbers(addresses: NDArray[np.uint64], starts: Mapping[int, int]) -> NDArray[np.int64]:
    numbers = (addresses >> _SHIFT).view(np.int64)
    found = (addresses & _OFFSET).view(np.int64)
    for first, last in _runs(numbers):
        found[first:last] += starts[int(numbers[first])]
    return found


def _runs(numbers: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Where a number begins that is repeated, and where the next one begins."""
    cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    yield from ((first, last) for first, last in pairwise(cuts) if first < last)


def _rank_ids(texts: Sequence[pa.Array]) -> tuple[pa.Array, NDArray[np.int64]]:
    """The distinct texts, ascending, and the place of each text among them."""
    encoded = pa.concat_arrays([pa.array([], pa.string()), *texts]).dictionary_encode()
    order = numbers_in(pc.sort_indices(encoded.dictionary)).astype(np.int64)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return encoded.dictionary.take(pa.array(order)), ranks[numbers_in(encoded.indices)]


def _sort_edges(
    fragments: Fragments, ids: pa.Array, begins: NDArray[Any], ends: NDArray[Any], rows: NDArray[Any]
) -> Topology:
    total = sum(each.rows for each in fragments)
    end_bits, row_bits = bits_for(len(ids)), bits_for(total)
    if 2 * end_bits + row_bits > 63:
        order = np.lexsort((rows, ends, begins))
        return Topology(fragments=fragments, ids=ids, begins=begins[order], ends=ends[order], rows=rows[order])
    # Numbers that hold all three are sorted in a fraction of the time that finding an order takes.
    together = (begins << (end_bits + row_bits)) | (ends << row_bits) | rows
    together.sort()
    return Topology(
        fragments=fragments,
        ids=ids,
        begins=together >> (end_bits + row_bits),
        ends=(together >> row_bits) & ((1 << end_bits) - 1),
        rows=together & ((1 << row_bits) - 1),
    )


def _blocks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


# --- finding the file of a version ---


@dataclass(frozen=True, slots=True)
class TopologyCoverage:
    """What a file has of a version: fragments, and rows that are not deleted."""

    name: str
    fragments: frozenset[int]
    rows: int


def topology_coverage(table: Table) -> TopologyCoverage | None:
    """What the best file has of a version; None without one. Files that are damaged are passed over."""
    plain = table.plain
    headers = _headers(table_folder(plain.location), fragments_digest(fragment_files(plain).values()))
    return _best_coverage(plain, headers)


def used_file(table: Table, headers: Iterable[Header]) -> str | None:
    """The name of the file that a version uses, if it uses one."""
    found = _best_coverage(table, headers)
    return found.name if found is not None and is_enough(table, found.rows) else None


def is_enough(table: Table, rows: int) -> bool:
    """Whether a file that covers this number of rows of a version is used for it."""
    return rows >= _LEAST_COVERED * table.count()


def _best_coverage(table: Table, headers: Iterable[Header]) -> TopologyCoverage | None:
    there = fragment_files(table)
    live = {each.number: each.rows for each in table.fragment_sizes()}
    found = []
    for header in headers:
        fragments = frozenset(each.number for each in header.fragments if there.get(each.number) == each)
        found.append(TopologyCoverage(header.name, fragments, sum(live[number] for number in fragments)))
    return max(found, key=lambda each: (each.rows, each.name), default=None)


def _headers(folder: Location, digest: str) -> list[Header]:
    """The headers of the files of a table; only one, if it has all fragments of a version."""
    names = [name for name in objects_at(folder).names(FOLDER) if name.endswith(SUFFIX)]
    exact = f"{digest}{SUFFIX}"
    for some in ([exact] if exact in names else [], names):
        found = []
        for name in some:
            with _ignoring_damage(folder, name):
                found.append(read_header(reader_of(folder, name), name))
        if found:
            return found
    return []


_reported: set[tuple[str, str]] = set()
"""Where files are damaged, and how, as far as this process has said so."""


@contextmanager
def _ignoring_damage(folder: Location, name: str = "") -> Iterator[None]:
    """Logs that a file cannot be used, and goes on after the block."""
    try:
        yield
    except UnusableTopology as error:
        place = folder.child(FOLDER, name).uri
        # One that is missing was removed by cleanup. Others are reported once, not for each lookup.
        is_news = not isinstance(error, MissingTopology) and (place, str(error)) not in _reported
        _logger.log(
            logging.WARNING if is_news else logging.DEBUG, "an index of topology is ignored: %s: %s", place, error
        )
        _reported.add((place, str(error)))
        _kept.clear()


@dataclass(frozen=True)
class _TableTopology:
    """A file as one version of a table may use it."""

    table: Table
    file: TopologyFile
    shared: frozenset[int]
    """The fragments that the version and the file have."""

    @cached_property
    def covered_fragments(self) -> frozenset[int]:
        """The shared fragments of which the file has all rows of the version.

        It lacks those that were deleted when it was built. An older version may have them.
        """
        gaps = self.file.gaps()
        if not len(gaps):
            return self.shared
        at = np.searchsorted(self.file.starts, gaps, "right") - 1
        wanting = {int(number) for number in self.file.numbers[np.unique(at)]} & self.shared
        return self.shared - {number for number in wanting if self._has_any(number, gaps, at)}

    def _has_any(self, number: int, gaps: NDArray[np.int64], at: NDArray[np.int64]) -> bool:
        """Whether the version has a row of a fragment that the file lacks."""
        place = int(np.searchsorted(self.file.numbers, number))
        lacking = gaps[at == place] - self.file.starts[place]
        rows = self.table.fragment_addresses([number]) & _OFFSET
        return bool(np.isin(lacking, rows.astype(np.int64)).any())

    @property
    def uncovered_fragments(self) -> list[int]:
        """The fragments of the version that must be read."""
        return [each.number for each in self.table.fragment_sizes() if each.number not in self.covered_fragments]

    @property
    def is_enough(self) -> bool:
        rows = sum(each.rows for each in self.table.fragment_sizes() if each.number in self.covered_fragments)
        return is_enough(self.table, rows)

    def edges_at(self, ids: Sequence[str], *, backward: bool) -> tuple[NDArray[np.int64], ...]:
        """The covered edges that begin or end at some ids: the numbers at both ends, and the address.

        Some may be deleted in the version.
        """
        begins, ends, rows = self.file.edges_at(self.file.find_ids(ids), backward=backward)
        at = np.searchsorted(self.file.starts, rows, "right") - 1
        numbers = self.file.numbers[at]
        addresses = (numbers << 32) | (rows - self.file.starts[at])
        keep = np.isin(numbers, np.fromiter(self.covered_fragments, np.int64, len(self.covered_fragments)))
        return begins[keep], ends[keep], addresses[keep]

    def are_live(self, addresses: NDArray[np.int64]) -> NDArray[np.bool_]:
        """For addresses of covered edges, whether the version has the row."""
        numbers = addresses >> 32
        fragments = self.table.dataset.get_fragments()
        reduced = [each.fragment_id for each in fragments if each.metadata.deletion_file is not None]
        is_suspect = np.isin(numbers, np.array(reduced, np.int64))
        suspects = addresses[is_suspect]
        if not len(suspects):
            return ~is_suspect
        if len(suspects) <= _FEW_ADDRESSES:
            found = numbers_in(self.table.scan([ROW_ADDRESS], among(ROW_ADDRESS, suspects.tolist()))[ROW_ADDRESS])
        else:
            found = self.table.fragment_addresses(np.unique(suspects >> 32).tolist())
        live: NDArray[np.bool_] = ~is_suspect | np.isin(addresses, found.astype(np.int64))
        return live

    def rows_of(self, addresses: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The rows of addresses by the numbers of the file, -1 for those that it does not cover."""
        numbers = (addresses >> _SHIFT).view(np.int64)
        found = np.full(len(addresses), -1, np.int64)
        offsets = (addresses & _OFFSET).view(np.int64)
        starts = dict(zip(self.file.numbers.tolist(), self.file.starts.tolist(), strict=False))
        for first, last in _runs(numbers):
            number = int(numbers[first])
            if number in self.covered_fragments:
                found[first:last] = offsets[first:last] + starts[number]
        return found


def _open_topology(table: Table, open: Callable[[Location, str], TopologyFile] = open_file) -> _TableTopology | None:
    """The file that a version uses; None if it uses none. May raise `UnusableTopology`."""
    if not is_indexable(table):
        return None
    best = topology_coverage(table)
    if best is None or not is_enough(table, best.rows):
        return None
    found = _TableTopology(table, open(table_folder(table.location), best.name), best.fragments)
    return found if found.is_enough else None


class _Kept:
    """The files that were used last for lookups, by version, with what was read of them. Safe between threads."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, int], _TableTopology | None] = OrderedDict()
        self._lock = Lock()

    def get(self, table: Table) -> _TableTopology | None:
        key = table.location.uri, table.version
        with self._lock:
            is_known = key in self._found
            found = self._found.pop(key, None)
        if not is_known:
            found = _open_topology(table, self._open)
        # To look for a file on a disk costs nothing; on an object store it is a request.
        if found is not None or table.location.path is None:
            with self._lock:
                self._found[key] = found
                while len(self._found) > 1 and self._is_full():
                    self._found.popitem(last=False)
        return found

    def _open(self, folder: Location, name: str) -> TopologyFile:
        """A file, with what was read of it for another version."""
        with self._lock:
            known = [each for each in self._found.values() if each is not None]
        same = (each.file for each in known if each.file.header.name == name)
        return next(same, None) or open_file(folder, name)

    def clear(self) -> None:
        with self._lock:
            self._found.clear()

    def _is_full(self) -> bool:
        size = sum(
            {each.file.header.name: each.file.nbytes for each in self._found.values() if each is not None}.values()
        )
        return len(self._found) > _KEPT_VERSIONS or size > _KEPT_BYTES


_kept = _Kept()


# --- asking ---


def uses_topology(table: Table) -> bool:
    """Whether a version has a file that covers most of its edges."""
    with _ignoring_damage(table_folder(table.location)):
        return _kept.get(table.plain) is not None
    return False


@dataclass(frozen=True, slots=True)
class NumberedEnds:
    """The ends of rows as numbers of ids, -1 for rows that the file does not cover."""

    ids: pa.Array
    begins: NDArray[np.int64]
    ends: NDArray[np.int64]


def number_ends(
    table: Table, addresses: NDArray[np.uint64], *, reserve: Callable[[int], None] = lambda _bytes: None
) -> NumberedEnds | None:
    """The ends of the rows of a version, by their addresses; None without a file that covers most of them.

    `reserve` gets the bytes that will be needed.
    """
    with _ignoring_damage(table_folder(table.location)):
        found = _open_topology(table.plain)  # what is read once and whole is not kept
        if found is None or not found.file.has_short_ids:
            return None
        reserve(found.file.header.size + 16 * len(addresses) + 32 * int(found.file.starts[-1]))
        return _number_ends(found, addresses)
    return None


def _number_ends(found: _TableTopology, addresses: NDArray[np.uint64]) -> NumberedEnds:
    begins, ends, rows = found.file.edges()
    wanted = found.rows_of(addresses)
    sides = []
    for numbers in (begins, ends):
        by_row = np.full(int(found.file.starts[-1]) + 1, -1, np.int64)  # the last is for rows that are not covered
        by_row[rows] = numbers
        sides.append(by_row[wanted])
    return NumberedEnds(found.file.ids(), sides[0], sides[1])


@dataclass(frozen=True, slots=True)
class LateEnds:
    """The edges that a file does not cover: their places among the addresses that were asked for, and their ends."""

    rows: NDArray[np.int64]
    ends: pa.Table


def read_late_ends(table: Table, addresses: NDArray[np.uint64], found: NumberedEnds) -> LateEnds:
    """Reads the ends of the rows that `number_ends` gave no numbers for; only rows of the version are among them."""
    rows = np.flatnonzero(found.begins < 0)
    fragments = sorted({int(each) for each in np.unique(addresses[rows] >> _SHIFT)})
    there = {each.number for each in table.fragment_sizes()}
    batches = table.fragment_batches([each for each in fragments if each in there], (*_ENDS, ROW_ADDRESS))
    schema = pa.schema([*(table.schema.field(name) for name in _ENDS), pa.field(ROW_ADDRESS, pa.uint64())])
    read = pa.Table.from_batches(batches, schema)
    order = np.argsort(addresses[rows], kind="stable")
    late, ordered = numbers_in(read[ROW_ADDRESS]), addresses[rows][order]
    at = np.searchsorted(ordered, late)
    at[at == len(ordered)] = 0
    is_wanted = ordered[at] == late if len(ordered) else np.zeros(len(late), np.bool_)
    return LateEnds(rows[order[at[is_wanted]]], read.select(_ENDS).filter(pa.array(is_wanted)))


def scan_ends(
    table: Table,
    columns: Sequence[str],
    ends: Mapping[str, Collection[str]],
    *,
    check: Callable[[int], None] = lambda _bytes: None,
) -> pa.Table:
    """The edges that begin at one of some ids or end at one of others: `ends` has them by `SOURCE` and `DESTINATION`.

    Rows come in any order, and each once.
    """
    if isinstance(table, CarryingTable):
        rows = scan_ends(table.plain, table.with_addresses(columns) or columns, ends, check=check)
        rows = table.without_masked(rows, columns) if len(table.mask) else rows
        carried = table.rows
        sides = [pc.is_in(carried[name], value_set=pa.array([*ids], pa.string())) for name, ids in ends.items()]
        there = table.carried_rows(columns).filter(reduce(pc.or_, sides))
        return pa.concat_tables([rows, there.cast(rows.schema)])
    filter = ends_filter(ends)
    with _ignoring_damage(table_folder(table.location)):
        found = _kept.get(table)
        covered = None if found is None else _find_edges(found, columns, ends, check)
        if found is not None and covered is not None:
            parts = covered
            for batch in table.fragment_batches(found.uncovered_fragments, columns, filter=filter):
                check(batch.nbytes)
                parts.append(pa.Table.from_batches([batch]))
            return pa.concat_tables(parts or [table.scan(columns, limit=0)])
    return table.scan(columns, filter, check=check)


def ends_filter(ends: Mapping[str, Collection[str]]) -> str:
    """The condition that `scan_ends` stands for."""
    return " OR ".join(among(column, ids) for column, ids in ends.items())


def _find_edges(
    found: _TableTopology, columns: Sequence[str], ends: Mapping[str, Collection[str]], check: Callable[[int], None]
) -> list[pa.Table] | None:
    """The covered edges at some ends; None if reading the table is faster."""
    sides = [found.edges_at([*ids], backward=column == DESTINATION) for column, ids in ends.items()]
    addresses, first = np.unique(np.concatenate([side[2] for side in sides]), return_index=True)
    if {*columns} <= {SOURCE, DESTINATION}:
        first = first[found.are_live(addresses)]
        numbers = {name: np.concatenate([side[at] for side in sides])[first] for at, name in enumerate(_ENDS)}
        distinct, places = np.unique(np.concatenate([numbers[name] for name in columns]), return_inverse=True)
        texts = pa.array(found.file.ids_at(distinct), pa.string()).take(pa.array(places))
        rows = pa.table({name: texts.slice(at * len(first), len(first)) for at, name in enumerate(columns)})
        check(rows.nbytes)
        return [rows.cast(pa.schema([found.table.schema.field(name) for name in columns]))]
    if len(addresses) > _FEW_ROWS + found.table.count() // _MANY_ROWS:
        return None
    return [
        found.table.scan(columns, among(ROW_ADDRESS, addresses[start : start + _FEW_ADDRESSES].tolist()), check=check)
        for start in range(0, len(addresses), _FEW_ADDRESSES)
    ]


# --- files of a table ---


def topology_files(files: Iterable[str]) -> list[tuple[str, str]]:
    """The indexes of topology among the files of a table, each with its name."""
    found = ((file, file.removeprefix(f"{FOLDER}/")) for file in files if file.endswith(SUFFIX))
    return [(file, name) for file, name in found if file != name]


def find_damage(folder: Location, name: str, size: int) -> str | None:
    """What is wrong with the header of a file, or with its size; None if nothing is."""
    try:
        header = read_header(reader_of(folder, name), name)
    except UnusableTopology as error:
        return str(error)
    expected = header.body + header.size
    return None if size == expected else f"has {size} bytes, expected {expected}"


def find_any_damage(folder: Location, name: str) -> str | None:
    """What is wrong with a file, of which every block is read; None if nothing is."""
    try:
        open_file(folder, name).check()
    except UnusableTopology as error:
        return str(error)
    return None


def is_topology_whole(table: Table, name: str) -> bool:
    """Whether nothing is wrong with a file of a table."""
    return find_any_damage(table_folder(table.location), name) is None


def readable_headers(folder: Location, names: Iterable[str]) -> list[Header]:
    """The headers of files that can be read."""
    found = []
    for name in names:
        try:
            found.append(read_header(reader_of(folder, name), name))
        except (UnusableTopology, StorageError):
            continue
    return found
