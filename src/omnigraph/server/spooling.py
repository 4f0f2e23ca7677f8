"""Keeps what a client wants to load on disk while it comes in; never more than a piece of it is in memory.

On disk the files have numbers for names. The names that their sender gave them are only told back to it.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from io import BufferedWriter
from pathlib import Path
from typing import Any

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from omnigraph.server.problems import BadRequest, UnsupportedMedia
from omnigraph.server.scratch import Scratch
from omnigraph.server.serving import Served
from omnigraph.storage import Location
from omnigraph.storage.inputs import InputFile

MULTIPART = "multipart/form-data"
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
DATA = "data"
"""The part of a form whose records say their types; the other parts are called like the type of their rows."""

_AT_ONCE = 1024 * 1024
_MOST_FILES = 10_000
_LONGEST_NAME = 150
_FOLDERS = re.compile(r"[/\\]")


class Spool:
    """The files of one load, in a folder of their own."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._scratch = Scratch()
        self._in_use = False
        self._begun: list[tuple[str, str]] = []
        self._open: BufferedWriter | None = None

    def begin(self, part: str, name: str) -> None:
        """What is written from here on is a file of this name."""
        if len(self._begun) == _MOST_FILES:
            raise BadRequest(f"a form has at most {_MOST_FILES:,} parts")
        self._open = self._path(len(self._begun)).open("wb")
        self._begun.append((part, name))

    def write(self, content: bytes) -> None:
        """Goes on with the file."""
        assert self._open is not None
        self._open.write(content)

    def end(self) -> None:
        """The file is whole."""
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def data(self) -> list[Any]:
        """The files as a load takes them."""
        found: list[Any] = []
        for part, file in self._files():
            found.append(file if part == DATA else {part: [file]})
        return found

    @property
    def names(self) -> set[str]:
        """What the files are called."""
        return {name for _, name in self._begun}

    def _files(self) -> Iterator[tuple[str, InputFile]]:
        for number, (part, name) in enumerate(self._begun):
            path = self._path(number)
            yield part, InputFile(name, Location(str(path)), path.stat().st_size, self._limit)

    def _path(self, number: int) -> Path:
        return self._scratch.path / str(number)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """The files stay until this is left, and are gone then, whatever becomes of the request meanwhile."""
        self._in_use = True
        try:
            yield
        finally:
            self._remove()

    def discard(self) -> None:
        """Removes the files, unless they are in use."""
        if not self._in_use:
            self._remove()

    def _remove(self) -> None:
        self.end()
        self._scratch.remove()


@asynccontextmanager
async def spooled(request: Request, served: Served, name: str) -> AsyncIterator[Spool]:
    """The body of a load as files: a form with any number of them, or lines, which are a file of this name."""
    media_type, options = _content_type(request)
    served.take_up_to(served.settings.max_load_bytes)
    spool = await asyncio.to_thread(Spool, served.settings.max_load_bytes)
    try:
        if media_type == MULTIPART:
            await _receive(request, _form(spool, options))
        else:
            spool.begin(DATA, file_name(name))
            await _receive(request, spool.write)
        await asyncio.to_thread(spool.end)
        yield spool
    finally:
        await asyncio.shield(asyncio.to_thread(spool.discard))


def _content_type(request: Request) -> tuple[str, Mapping[bytes, bytes]]:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    media_type = kind.decode("latin-1").strip().lower()
    if media_type != MULTIPART and media_type not in LINES:
        raise UnsupportedMedia(f"a load is {LINES[0]}, or {MULTIPART} with files")
    return media_type, options


async def _receive(request: Request, take: Callable[[bytes], object]) -> None:
    """Hands over the body, in pieces of a size that is worth a thread: a disk may be slow."""
    waiting = bytearray()
    async for chunk in request.stream():
        waiting += chunk
        if len(waiting) >= _AT_ONCE:
            await asyncio.to_thread(take, bytes(waiting))
            waiting.clear()
    # A form ends with the call that has nothing left, which also tells one that was cut off.
    await asyncio.to_thread(take, bytes(waiting))
    if waiting:
        await asyncio.to_thread(take, b"")


def _form(spool: Spool, options: Mapping[bytes, bytes]) -> Callable[[bytes], None]:
    """What takes the bytes of a form, and puts its files into the spool."""
    boundary = options.get(b"boundary")
    if not boundary:
        raise BadRequest(f"the Content-Type of {MULTIPART} names its boundary")
    form = _Form(spool)
    try:
        parser = MultipartParser(boundary, form.callbacks())  # type: ignore[arg-type]
    except FormParserError as error:
        raise BadRequest(f"the boundary of the form is none: {error}") from error

    def take(content: bytes) -> None:
        try:
            if content:
                parser.write(content)
            else:
                parser.finalize()
        except FormParserError as error:
            raise BadRequest(f"the form cannot be read: {error}") from error
        if not content and not form.ended:
            raise BadRequest("the form ends in the middle")

    return take


class _Form:
    """Follows a parser through the parts of a form."""

    def __init__(self, spool: Spool) -> None:
        self.ended = False
        self._spool = spool
        self._header, self._value = b"", b""
        self._disposition = b""

    def callbacks(self) -> dict[str, Callable[..., None]]:
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._on_header,
            "on_header_value": self._on_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_file,
            "on_part_data": self._on_data,
            "on_part_end": self._spool.end,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self._disposition = b""

    def _on_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        if self._header.lower() == b"content-disposition":
            self._disposition = self._value
        self._header, self._value = b"", b""

    def _begin_file(self) -> None:
        _, options = parse_options_header(self._disposition)
        try:
            part, given = options.get(b"name", b"").decode(), options.get(b"filename", b"").decode()
        except UnicodeDecodeError as error:
            raise BadRequest("the names of the parts of a form are UTF-8") from error
        if not part:
            raise BadRequest("every part of a form has a name")
        if not given and part != DATA:
            raise BadRequest(f"part {part!r} needs a file name: its ending says what the rows are written as")
        self._spool.begin(part, file_name(given or "data.jsonl"))

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._spool.write(data[start:end])

    def _end(self) -> None:
        self.ended = True


def file_name(given: str) -> str:
    """The last part of a name that a client gave a file, with what can be printed of it."""
    name = "".join(each for each in _FOLDERS.split(given)[-1] if each.isprintable()).strip()
    if not name.strip("."):
        raise BadRequest("a file needs a name")
    return name[-_LONGEST_NAME:]
