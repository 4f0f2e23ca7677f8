"""Checks the files of a table before Lance reads them: some damage would abort the whole process there.

Lance turns most damage into an error. But it allocates memory by numbers that it reads from the end of a file and from
files of deletions. An allocation that fails aborts the process, and a wrong number can also make Lance read endlessly.
An error whose message contains a NUL byte cannot be passed through a stream of batches, and aborts the process too. So
these numbers are compared with the size of the file first, and its schema is searched for NUL bytes, once for each
file: files never change. Missing files are left for Lance to report.

Only files on a disk are checked. An object store verifies its own data, and each check would be a request.
"""

import re
import struct
import threading
from collections.abc import Iterator
from io import RawIOBase
from pathlib import Path

import pyarrow as pa

import lance
from omnigraph.errors import Damaged
from omnigraph.storage.location import Location

_FOOTER = struct.Struct("<QQQIIHH4s")
_ENTRY = struct.Struct("<QQ")
"""An entry of the tables before the end of a file: where something is, and how long."""
_ENCODED = (0x0A, 0x12)
_ENCODING = re.compile(rb"\n(.)(/lance\.encodings[\w.]*)", re.DOTALL)
_USUAL = (b"\n\x1d/lance.encodings21.PageLayout", b"\n\x1f/lance.encodings.ColumnEncoding")
_ALIGNMENT = 1024
_MAGIC, _MAJOR = b"LANC", 2
_MOST_KNOWN = 200_000
_DELETED_ROWS = (pa.uint32(), pa.int32())

_known: set[str] = set()
"""Files that were checked and are whole."""
_lock = threading.Lock()


def check_files(location: Location, dataset: lance.LanceDataset) -> None:
    """Raises `Damaged` for a file of this version that is not safe to read."""
    roots = _roots(location, dataset)
    for name, fragment in _names(dataset) if roots else ():
        _check_first(roots, name, location, fragment)
    for folder in roots:
        _check_indexes(folder / "_indices", location, dataset)


def check_presence(location: Location, dataset: lance.LanceDataset) -> None:
    """Raises `Damaged` if this version names a file that is missing: for a change that keeps rows without reading them.

    Otherwise the next version would copy a damaged file name, and restoring the file of this version would not help.
    """
    roots = _roots(location, dataset)
    for name, _ in _names(dataset) if roots else ():
        if not any((root / name).exists() for root in roots):
            raise Damaged(location.uri, f"version {dataset.version} refers to {name}, which is missing")


def check_file(location: Location, name: str) -> None:
    """Raises `Damaged` for a file of rows that is not safe to read, whether a version refers to it or not."""
    if location.path is not None and not _is_known(path := location.path / name):
        problem = _problem(path)
        if problem is not None:
            raise Damaged(location.uri, f"{name}: {problem}")


def _roots(location: Location, dataset: lance.LanceDataset) -> list[Path]:
    """The folders that files of a version can be in: its own, and those of tables that it was forked from."""
    if location.path is None:
        return []
    return [location.path, *(Path(each.path) for each in dataset._ds.base_paths().values())]


def _names(dataset: lance.LanceDataset) -> Iterator[tuple[str, lance.LanceFragment]]:
    for fragment in dataset.get_fragments():
        yield from ((f"data/{file.path}", fragment) for file in fragment.data_files())
        deletions = fragment.deletion_file()
        if deletions is not None:
            yield deletions, fragment


def _check_first(roots: list[Path], name: str, location: Location, fragment: lance.LanceFragment) -> None:
    """Checks a file in the first folder that has it: names are never reused, so only one has it."""
    for root in roots:
        if _is_known(path := root / name):
            return
        if (problem := _problem(path, fragment)) is not None:
            raise Damaged(location.uri, f"{name}: {problem}")
        if _is_known(path):
            return


def _check_indexes(folder: Path, location: Location, dataset: lance.LanceDataset) -> None:
    """Checks the indexes below a folder. Damage of an index that this version does not have is ignored."""
    for index in _content_of(folder):
        if _is_known(index):
            continue
        files = _content_of(index)
        for file in files:
            problem = _problem(file)
            if problem is not None:
                used = {str(segment.uuid) for each in dataset.describe_indices() for segment in each.segments}
                if index.name in used:
                    raise Damaged(location.uri, f"_indices/{index.name}/{file.name}: {problem}")
                break
        else:
            if files:
                _know(index)


def _content_of(folder: Path) -> list[Path]:
    """The content of a folder; empty if cleanup has removed the folder meanwhile."""
    try:
        return [*folder.iterdir()]
    except OSError:
        return []


def _problem(path: Path, fragment: lance.LanceFragment | None = None) -> str | None:
    """The problem of a file, if one can be found without Lance."""
    try:
        if path.suffix == ".arrow":
            deletions = None if fragment is None else fragment.metadata.deletion_file
            problem = _problem_of_deletions(
                path.read_bytes(), None if deletions is None else deletions.num_deleted_rows
            )
        else:
            with path.open("rb", buffering=0) as file:
                problem = _problem_of_rows(file, file.seek(0, 2))
    except OSError:  # missing, or not readable: for Lance to report
        return None
    if problem is None:
        _know(path)
    return problem


def _problem_of_rows(file: RawIOBase, size: int) -> str | None:
    """Checks whether the offsets at the end of a file are within the file, and whether Arrow can pass on its schema."""
    end = _read(file, max(0, size - _FOOTER.size), _FOOTER.size)
    if len(end) < _FOOTER.size or not end.endswith(_MAGIC):
        return None  # Lance reports that this is not a Lance file
    columns_at, column_table, buffer_table, buffers, columns, major, _, _ = _FOOTER.unpack(end)
    if major != _MAJOR:
        return None
    if not (
        columns_at <= column_table
        and column_table + columns * _ENTRY.size <= buffer_table
        and buffer_table + buffers * _ENTRY.size + _FOOTER.size <= size
    ):
        return "its footer does not match the size of the file"
    rest = _read(file, columns_at, size - columns_at)
    described = rest[: column_table - columns_at]
    wanted = sum(
        _encodings_of(described, start - columns_at, start + length - columns_at)
        for start, length in _entries(rest, column_table - columns_at, columns)
    )
    if sum(map(described.count, _USUAL)) < wanted > _encodings_named(described):
        return "the metadata of its columns is damaged"
    # Lance writes no NUL byte into a schema. An error that names a column with NUL would abort the process: Arrow's C
    # interface passes messages as strings that end with NUL.
    for start, length in _entries(rest, buffer_table - columns_at, min(buffers, 1)):
        if start + length > size or b"\0" in _read(file, start, length):
            return "its schema is damaged"
    return None


def _entries(content: bytes, start: int, count: int) -> Iterator[tuple[int, int]]:
    return _ENTRY.iter_unpack(content[start : start + count * _ENTRY.size])


def _encodings_of(described: bytes, place: int, end: int) -> int:
    """How many encodings a column has, which is a message of Protocol Buffers.

    Field 1 is the encoding of the column, field 2 a page, which has an encoding too. All of them must have a valid
    name, because Lance quotes an unknown name in its error, and a name with NUL aborts the process (see above).
    """
    found = 0
    end = min(end, len(described))
    while 0 <= place < end and described[place] in _ENCODED:
        found += 1
        length = shift = 0
        while (place := place + 1) < end:
            byte = described[place]
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        place += 1 + length
    return found


def _encodings_named(described: bytes) -> int:
    """How many encodings have a name of any kind; each name follows its length."""
    return sum(found[1][0] == len(found[2]) for found in _ENCODING.finditer(described))


def _read(file: RawIOBase, start: int, length: int) -> bytes:
    file.seek(start)
    return file.read(length) or b""


def _problem_of_deletions(content: bytes, expected: int | None) -> str | None:
    """Checks whether a file of deletions can be read, with a reader that does not abort, and is complete."""
    try:
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            if len(reader.schema) != 1 or reader.schema.field(0).type not in _DELETED_ROWS:
                return "it is not a list of deleted rows"
            rows = reader.read_all()
            rows.validate(full=True)
        if expected and rows.num_rows != expected:
            return f"expected {expected} deleted rows, found {rows.num_rows}"
        if not all(size <= rows.nbytes + _ALIGNMENT for size in _unpacked_sizes(content)):
            return "the list of deleted rows declares a size larger than its content"
    except (pa.ArrowException, OSError, ValueError, struct.error, IndexError) as error:
        return f"the list of deleted rows cannot be read: {error}"
    return None


def _unpacked_sizes(content: bytes) -> Iterator[int]:
    """The declared uncompressed size of each buffer of an Arrow file; Arrow's reader skips buffers that it can omit.

    The file ends with a table of its batches. Each batch has a message with a table of its buffers. A compressed buffer
    begins with its uncompressed size, or with -1 if it is not compressed. All tables are FlatBuffers.
    """
    (footer_size,) = struct.unpack_from("<i", content, len(content) - 10)
    footer = content[len(content) - 10 - footer_size : len(content) - 10]
    for start, head, body in struct.iter_unpack("<qi4xq", _vector(footer, _root(footer), 3, 24)):
        message = content[start + 8 : start + head]
        header = _field(message, _root(message), 2)
        yield body if start + head + body > len(content) else 0
        if header is None:
            continue
        batch = header + struct.unpack_from("<I", message, header)[0]
        if _field(message, batch, 3) is None:
            continue
        for place, length in struct.iter_unpack("<qq", _vector(message, batch, 2, 16)):
            if length >= 8:
                yield from struct.unpack_from("<q", content, start + head + place)


def _root(message: bytes) -> int:
    root: int = struct.unpack_from("<I", message)[0]
    return root


def _field(message: bytes, table: int, number: int) -> int | None:
    """The offset of a field of a table; None if the table does not have it."""
    fields = table - struct.unpack_from("<i", message, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", message, fields)[0]:
        return None
    place: int = struct.unpack_from("<H", message, fields + 4 + 2 * number)[0]
    return table + place if place else None


def _vector(message: bytes, table: int, number: int, width: int) -> bytes:
    """The items of a field that is a list of items of one size."""
    field = _field(message, table, number)
    if field is None:
        return b""
    vector = field + struct.unpack_from("<I", message, field)[0]
    return message[vector + 4 : vector + 4 + width * struct.unpack_from("<I", message, vector)[0]]


def _is_known(path: Path) -> bool:
    return str(path) in _known


def _know(path: Path) -> None:
    with _lock:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known.add(str(path))
