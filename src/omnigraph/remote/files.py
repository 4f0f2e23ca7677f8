"""Files on their way to and from a server.

The input of a load is sent piece by piece: files as they are, and rows in memory as Arrow. Exported files appear whole
or not at all.
"""

import io
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from omnigraph.api.data import Format
from omnigraph.api.progress import Progress, Report
from omnigraph.errors import Unavailable, UsageError
from omnigraph.exporting.export import ExportTarget, draft_beside
from omnigraph.loading.inputs import HandedOver, LoadInput

LINES_PART = "data"
"""The part of a request whose records name their types; other parts have the name of the type of their rows."""
_SENDING, _RECEIVING = "sending", "receiving"
_OCTETS = "application/octet-stream"
_COPIED_AT_ONCE = 2**20

Stream = AbstractContextManager[Iterator[bytes]]


# --- sending ---


@contextmanager
def open_files(given: LoadInput, report: Report) -> Iterator[list[Any]]:
    """The parts of a request, whose files are open while the block runs; reports how many of their bytes were sent."""
    if given.frames:
        raise UsageError("a Spark DataFrame cannot be sent to a server; convert it first, with `toArrow()`")
    with ExitStack() as opened:
        found = []
        for file, entity in given.files:
            content = opened.enter_context(cast("Any", file.open()))
            found.append((LINES_PART if entity is None else entity.name, file.name, content, file.size))
        for each in given.tables:
            content = opened.enter_context(_as_file(each))
            found.append((each.entity.name, f"{each.entity.name}.arrow", content, content.getbuffer().nbytes))
        counter = _Counter(sum(size for *_, size in found), report)
        yield [(part, (name, _CountingFile(content, size, counter), _OCTETS)) for part, name, content, size in found]


class _Counter:
    """Counts the bytes of all files of a request."""

    def __init__(self, total: int, report: Report) -> None:
        self._total = total
        self._report = report
        self._done = 0

    def add(self, count: int) -> None:
        self._done += count
        self._report(Progress(_SENDING, min(self._done, self._total), self._total))


class _CountingFile(io.RawIOBase):
    """A file of known size that counts the bytes read from it."""

    def __init__(self, content: BinaryIO, size: int, counter: _Counter) -> None:
        super().__init__()
        self._content = content
        self._size = size
        self._counter = counter

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        piece = self._content.read(size)
        self._counter.add(len(piece))
        return piece

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Supports what httpx uses: finding the end, and going back to the beginning."""
        return self._size if whence == io.SEEK_END else self._content.seek(offset, whence)

    def tell(self) -> int:
        return self._content.tell()


def _as_file(handed_over: HandedOver) -> io.BytesIO:
    """Rows as an Arrow file."""
    content = io.BytesIO()
    with pa.ipc.new_file(content, handed_over.rows.schema) as file:
        file.write_table(handed_over.rows)
    content.seek(0)
    return content


# --- receiving ---


def receive_file(stream: Stream, target: ExportTarget, report: Report) -> int:
    """Writes lines to a file, and returns how many there are."""
    with draft_beside(target.path) as draft:
        whole = draft / "whole"
        count = _write_lines(stream, whole, report, 0)
        whole.replace(target.path)
    return count


def receive_by_type(streams: Iterator[tuple[str, Stream]], target: ExportTarget, report: Report) -> int:
    """Writes lines to ``nodes/Person/part-00000.jsonl`` and so on, by the keys of tables; returns their number."""
    count = 0
    with draft_beside(target.path) as draft:
        whole = draft / "whole"
        whole.mkdir()
        for table_key, stream in streams:
            kind, _, name = table_key.partition(":")
            folder = whole / f"{kind}s" / name
            folder.mkdir(parents=True)
            count += _write_lines(stream, folder / f"part-00000.{Format.JSONL}", report, count)
        whole.replace(target.path)
    return count


def _write_lines(stream: Stream, path: Path, report: Report, before: int) -> int:
    """Writes lines to a new file, returns how many, and reports how many they are with those before."""
    count = 0
    with stream as pieces, path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
            count += piece.count(b"\n")
            report(Progress(_RECEIVING, 0, 0, before + count))
    return count


def receive_folder(stream: Stream, target: ExportTarget, format: Format, report: Report) -> int:
    """Writes the files of a tar to a folder, and returns how many records they have."""
    count = 0
    with draft_beside(target.path) as draft, stream as pieces:
        whole = draft / "whole"
        whole.mkdir()
        try:
            with tarfile.open(fileobj=_Readable(pieces), mode="r|") as tar:
                for member in tar:
                    count += _unpack(tar, member, whole, format)
                    report(Progress(_RECEIVING, 0, 0, count))
        except tarfile.TarError as error:
            raise Unavailable("the server sent an export that cannot be read") from error
        for _ in pieces:
            """Reads what follows the end of the tar, to notice a lost connection."""
        whole.replace(target.path)
    return count


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, format: Format) -> int:
    """Writes one file where its name says, below the folder and nowhere else; returns how many records it has."""
    parts = PurePosixPath(member.name).parts[1:]
    content = tar.extractfile(member) if member.isreg() else None
    if content is None or not parts or any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise Unavailable(f"the server sent an export with an invalid file name: {member.name!r}")
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(content, file, _COPIED_AT_ONCE)
    return _count_records(path, format)


def _count_records(path: Path, format: Format) -> int:
    if format is Format.PARQUET:
        rows: int = pq.read_metadata(path).num_rows
        return rows
    lines = _count_csv_lines(path) if format is Format.CSV else _count_lines(path)
    return lines - (format is Format.CSV)


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_COPIED_AT_ONCE), b""))


def _count_csv_lines(path: Path) -> int:
    """How many lines of CSV there are; a quoted value may contain line breaks."""
    count, quoted = 0, False
    with path.open("rb") as file:
        while piece := file.read(_COPIED_AT_ONCE):
            parts = piece.split(b'"')
            count += sum(part.count(b"\n") for part in parts[quoted::2])
            quoted ^= len(parts) % 2 == 0
    return count


class _Readable(io.RawIOBase):
    """Pieces of bytes as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Fewer bytes than requested only at the end."""
        pieces = [self._rest]
        held = len(self._rest)
        while held < size and (piece := next(self._pieces, None)) is not None:
            pieces.append(piece)
            held += len(piece)
        whole = b"".join(pieces)
        self._rest = whole[size:]
        return whole[:size]
