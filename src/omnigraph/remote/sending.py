"""Sends the input of a load: files as they are, and rows in memory as Arrow, piece by piece."""

import io
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, cast

import pyarrow as pa

from omnigraph.api.progress import Progress, Report
from omnigraph.errors import UsageError
from omnigraph.loading.inputs import HandedOver, LoadInput

LINES_PART = "data"
"""The part of a request that has records which say their types; other parts are called like the type of their rows."""
_STAGE = "sending"
_OCTETS = "application/octet-stream"


@contextmanager
def sent_files(given: LoadInput, report: Report) -> Iterator[list[Any]]:
    """The parts of a request, whose files are open while the block runs; tells how many bytes of them were sent."""
    if given.frames:
        raise UsageError("a Spark DataFrame stays on its cluster; bring it here first, with `toArrow()`")
    with ExitStack() as opened:
        found = []
        for file, entity in given.files:
            content = opened.enter_context(cast("Any", file.open()))
            found.append((LINES_PART if entity is None else entity.name, file.name, content, file.size))
        for each in given.tables:
            content = opened.enter_context(_as_file(each))
            found.append((each.entity.name, f"{each.entity.name}.arrow", content, content.getbuffer().nbytes))
        counter = _Counter(sum(size for *_, size in found), report)
        yield [(part, (name, _Counted(content, size, counter), _OCTETS)) for part, name, content, size in found]


class _Counter:
    """Counts the bytes of all files of a request."""

    def __init__(self, total: int, report: Report) -> None:
        self._total = total
        self._report = report
        self._done = 0

    def add(self, count: int) -> None:
        self._done += count
        self._report(Progress(_STAGE, min(self._done, self._total), self._total))


class _Counted(io.RawIOBase):
    """A file whose size is known and whose reading is counted."""

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
        """Only what a sender asks: where the end is, and back to the beginning."""
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
