"""Receives the files of a load on disk, with only a piece of them in memory.

On disk, the files have numbers as names. The names that the client sent are used in messages only.
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

from omnigraph.api.data import MOST_DETAILS
from omnigraph.server.context import RequestContext
from omnigraph.server.errors import BadRequest, UnsupportedMedia
from omnigraph.server.scratch import Scratch
from omnigraph.storage.inputs import InputFile
from omnigraph.storage.location import Location

MULTIPART = "multipart/form-data"
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
DATA, DETAILS = "data", "details"
"""The part of a form whose records name their types, and the part without a file that is the parameter of this name,
which may be too long for an address. Other parts have the name of the type of their rows."""

_AT_ONCE = 1024 * 1024
_MOST_FILES = 10_000
_LONGEST_NAME = 150
_FOLDERS = re.compile(r"[/\\]")


class Upload:
    """The files of one load, in their own folder."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._scratch = Scratch()
        self._in_use = False
        self._started: list[tuple[str, str]] = []
        self._open: BufferedWriter | None = None
        self._details: bytearray | None = None
        self._in_details = False

    def begin(self, part: str, name: str) -> None:
        """Starts a file of this name."""
        if len(self._started) == _MOST_FILES:
            raise BadRequest(f"the form has too many parts: expected at most {_MOST_FILES:,}")
        self._open = self._path(len(self._started)).open("wb")
        self._started.append((part, name))

    def begin_details(self) -> None:
        """Starts the parameter `details`."""
        if self._details is not None:
            raise BadRequest(f"the form has two parts {DETAILS!r}")
        self._details, self._in_details = bytearray(), True

    def write(self, content: bytes) -> None:
        """Adds to the current part."""
        if self._in_details:
            assert self._details is not None
            self._details += content
            if len(self._details) > MOST_DETAILS:
                raise BadRequest(f"part {DETAILS!r} is too long: expected at most {MOST_DETAILS:,} bytes")
        else:
            assert self._open is not None
            self._open.write(content)

    def end(self) -> None:
        """Ends the current part."""
        self._in_details = False
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
    def details(self) -> str | None:
        """The parameter `details`, if the form has it."""
        try:
            return None if self._details is None else self._details.decode()
        except UnicodeDecodeError as error:
            raise BadRequest(f"part {DETAILS!r} is not valid UTF-8") from error

    @property
    def names(self) -> set[str]:
        """The names of the files."""
        return {name for _, name in self._started}

    def _files(self) -> Iterator[tuple[str, InputFile]]:
        for number, (part, name) in enumerate(self._started):
            path = self._path(number)
            yield part, InputFile(name, Location(str(path)), path.stat().st_size, self._limit)

    def _path(self, number: int) -> Path:
        return self._scratch.path / str(number)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keeps the files while the block runs, and removes them then, also if the request ended before."""
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
async def receive_upload(request: Request, context: RequestContext, name: str) -> AsyncIterator[Upload]:
    """The body of a load as files: those of a form, or lines as one file of this name."""
    media_type, options = _content_type(request)
    context.limit_body(context.settings.max_load_bytes)
    upload = await asyncio.to_thread(Upload, context.settings.max_load_bytes)
    try:
        if media_type == MULTIPART:
            await _receive(request, _form(upload, options))
        else:
            upload.begin(DATA, file_name(name))
            await _receive(request, upload.write)
        await asyncio.to_thread(upload.end)
        yield upload
    finally:
        await asyncio.shield(asyncio.to_thread(upload.discard))


def _content_type(request: Request) -> tuple[str, Mapping[bytes, bytes]]:
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    media_type = kind.decode("latin-1").strip().lower()
    if media_type != MULTIPART and media_type not in LINES:
        raise UnsupportedMedia(f"unsupported Content-Type: expected {LINES[0]}, or {MULTIPART} with files")
    return media_type, options


async def _receive(request: Request, take: Callable[[bytes], object]) -> None:
    """Gives the body to `take`, in threads, as a disk may be slow, and in large pieces."""
    waiting = bytearray()
    async for chunk in request.stream():
        waiting += chunk
        if len(waiting) >= _AT_ONCE:
            await asyncio.to_thread(take, bytes(waiting))
            waiting.clear()
    # An empty call ends a form, and detects one that is truncated.
    await asyncio.to_thread(take, bytes(waiting))
    if waiting:
        await asyncio.to_thread(take, b"")


def _form(upload: Upload, options: Mapping[bytes, bytes]) -> Callable[[bytes], None]:
    """A function that takes the bytes of a form, and writes its files to the upload."""
    boundary = options.get(b"boundary")
    if not boundary:
        raise BadRequest(f"the Content-Type {MULTIPART} has no boundary")
    form = _Form(upload)
    try:
        parser = MultipartParser(boundary, form.callbacks())  # type: ignore[arg-type]
    except FormParserError as error:
        raise BadRequest(f"invalid boundary of the form: {error}") from error

    def take(content: bytes) -> None:
        try:
            if content:
                parser.write(content)
            else:
                parser.finalize()
        except FormParserError as error:
            raise BadRequest(f"invalid form: {error}") from error
        if not content and not form.ended:
            raise BadRequest("the form is truncated")

    return take


class _Form:
    """Follows a parser through the parts of a form."""

    def __init__(self, upload: Upload) -> None:
        self.ended = False
        self._spool = upload
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
            raise BadRequest("a name of a part of the form is not valid UTF-8") from error
        if not part:
            raise BadRequest("a part of the form has no name")
        if part == DETAILS and b"filename" not in options:
            self._spool.begin_details()
            return
        if not given and part != DATA:
            raise BadRequest(f"part {part!r} has no file name: expected one whose extension is the format of the rows")
        self._spool.begin(part, file_name(given or "data.jsonl"))

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        self._spool.write(data[start:end])

    def _end(self) -> None:
        self.ended = True


def file_name(given: str) -> str:
    """The last segment of a file name that a client sent, without characters that cannot be printed."""
    name = "".join(each for each in _FOLDERS.split(given)[-1] if each.isprintable()).strip()
    if not name.strip("."):
        raise BadRequest("a file of the request has no name")
    return name[-_LONGEST_NAME:]
