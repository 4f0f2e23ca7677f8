"""Writes what a server exports to files, which are there whole or not at all."""

import io
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath

import pyarrow.parquet as pq

from omnigraph.api.data import Format
from omnigraph.api.progress import Progress, Report
from omnigraph.errors import Unavailable
from omnigraph.exporting.export import Target, draft_beside

_STAGE = "receiving"
_COPIED_AT_ONCE = 2**20

Stream = AbstractContextManager[Iterator[bytes]]


def received_file(stream: Stream, target: Target, report: Report) -> int:
    """Writes lines to a file, and returns how many there are."""
    with draft_beside(target.path) as draft:
        whole = draft / "whole"
        count = _written(stream, whole, report, 0)
        whole.replace(target.path)
    return count


def received_by_type(streams: Iterator[tuple[str, Stream]], target: Target, report: Report) -> int:
    """Writes lines to ``nodes/Person/part-00000.jsonl`` and so on, by the keys of tables; returns their number."""
    count = 0
    with draft_beside(target.path) as draft:
        whole = draft / "whole"
        whole.mkdir()
        for table_key, stream in streams:
            kind, _, name = table_key.partition(":")
            folder = whole / f"{kind}s" / name
            folder.mkdir(parents=True)
            count += _written(stream, folder / f"part-00000.{Format.JSONL}", report, count)
        whole.replace(target.path)
    return count


def _written(stream: Stream, path: Path, report: Report, before: int) -> int:
    """Writes lines to a new file; returns how many, and tells how many they are with those before."""
    count = 0
    with stream as pieces, path.open("xb") as file:
        for piece in pieces:
            file.write(piece)
            count += piece.count(b"\n")
            report(Progress(_STAGE, 0, 0, before + count))
    return count


def received_folder(stream: Stream, target: Target, format: Format, report: Report) -> int:
    """Writes the files of a tar to a folder, and returns how many records they have."""
    count = 0
    with draft_beside(target.path) as draft, stream as pieces:
        whole = draft / "whole"
        whole.mkdir()
        try:
            with tarfile.open(fileobj=_Readable(pieces), mode="r|") as tar:
                for member in tar:
                    count += _unpacked(tar, member, whole, format)
                    report(Progress(_STAGE, 0, 0, count))
        except tarfile.TarError as error:
            raise Unavailable("the server sent an export that cannot be read") from error
        for _ in pieces:
            """What follows the end of the tar; a connection that was lost is noticed here."""
        whole.replace(target.path)
    return count


def _unpacked(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path, format: Format) -> int:
    """Writes one file where its name says, below the folder and nowhere else; returns how many records it has."""
    parts = PurePosixPath(member.name).parts[1:]
    content = tar.extractfile(member) if member.isreg() else None
    if content is None or not parts or any(part in ("", ".", "..") or "\\" in part or "\0" in part for part in parts):
        raise Unavailable(f"the server sent an export with a file that no export has: {member.name!r}")
    path = folder.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(content, file, _COPIED_AT_ONCE)
    return _records(path, format)


def _records(path: Path, format: Format) -> int:
    if format is Format.PARQUET:
        rows: int = pq.read_metadata(path).num_rows
        return rows
    lines = _lines_outside_quotes(path) if format is Format.CSV else _lines(path)
    return lines - (format is Format.CSV)


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(_COPIED_AT_ONCE), b""))


def _lines_outside_quotes(path: Path) -> int:
    """How many lines of CSV there are; what stands in quotes may have breaks of its own."""
    count, quoted = 0, False
    with path.open("rb") as file:
        while piece := file.read(_COPIED_AT_ONCE):
            parts = piece.split(b'"')
            count += sum(part.count(b"\n") for part in parts[quoted::2])
            quoted ^= len(parts) % 2 == 0
    return count


class _Readable(io.RawIOBase):
    """Pieces as a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as were asked for, as long as there are some."""
        taken = [self._rest]
        held = len(self._rest)
        while held < size and (piece := next(self._pieces, None)) is not None:
            taken.append(piece)
            held += len(piece)
        whole = b"".join(taken)
        self._rest = whole[size:]
        return whole[:size]
