"""Responses as bytes: documents, and streams of rows, lines, Arrow and tar."""

import json
import math
import tarfile
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from starlette.responses import Response

from omnigraph.api.data import QueryResult
from omnigraph.api.history import ChangeBlock
from omnigraph.api.values import answer_to_json
from omnigraph.server.context import RequestContext
from omnigraph.server.scheduler import Threads
from omnigraph.server.scratch import Scratch

JSON, NDJSON, TAR = "application/json", "application/x-ndjson", "application/x-tar"
ARROW = "application/vnd.apache.arrow.stream"
LEAST_COMPRESSED = 1024
"""Shorter answers, in bytes, are not compressed."""
_PIECE = 128 * 1024
_ROWS_AT_ONCE = 64 * 1024
_CHANGES_AT_ONCE = 256
ROWS_IN_A_PIECE = 4 * 1024
"""How many rows become JSON at once, if they are short."""


# Made once: `json.dumps` with options makes one for each call.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode_json(document: Any) -> bytes:
    """A document as JSON. NaN and infinite numbers become null, as in the rows of a query."""
    try:
        text = _ENCODER.encode(document)
    except ValueError:
        text = _ENCODER.encode(_finite(document))
    return text.encode("utf-8", "backslashreplace")


def _finite(value: Any) -> Any:
    match value:
        case dict():
            return {name: _finite(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
        case float() if not math.isfinite(value):
            return None
        case plain:
            return plain


async def json_response(
    context: RequestContext, work: Callable[[], Any], *, status_code: int = 200, threads: Threads = Threads.READS
) -> Response:
    """The result of `work` as JSON, which is made in the same thread, so that other requests do not wait for it."""
    content = await context.run(lambda: encode_json(work()), threads=threads)
    return Response(content, status_code, media_type=JSON)


def is_short(result: QueryResult) -> bool:
    """Whether an answer fits into one piece."""
    return len(result) <= ROWS_IN_A_PIECE and bool(result.table.nbytes <= 8 * _PIECE)


def row_pieces(result: QueryResult) -> Iterator[bytes]:
    """The JSON of `QueryResult.as_json`, of which only some rows are in memory at once."""
    rows_at_once = max(1, min(ROWS_IN_A_PIECE, len(result) * _PIECE // max(1, result.table.nbytes)))
    batches = result.table.to_batches(rows_at_once)
    rows = ([answer_to_json(row) for row in batch.to_pylist()] for batch in batches)
    return _in_parts({"columns": result.columns}, "rows", rows, {"commit_id": result.commit_id})


def block_pieces(blocks: Iterable[ChangeBlock]) -> Iterator[bytes]:
    """A change feed as lines, each the JSON of `ChangeBlock.as_json`; a line may not fit into memory."""
    return _join_parts(part for block in blocks for part in _line_in_parts(block))


def _line_in_parts(block: ChangeBlock) -> Iterator[bytes]:
    changes = (change.as_json() for change in block.changes())
    batches = iter(lambda: list(islice(changes, _CHANGES_AT_ONCE)), [])
    yield from _in_parts({"commit": block.commit.as_json(), "cursor": block.cursor}, "changes", batches, {})
    yield b"\n"


def _in_parts(
    before: dict[str, Any], name: str, batches: Iterable[list[Any]], after: dict[str, Any]
) -> Iterator[bytes]:
    """A document with a long list between its other members."""
    yield encode_json(before)[:-1] + b"," + encode_json(name) + b":["
    separator = b""
    for batch in batches:
        if batch:
            yield separator + encode_json(batch)[1:-1]
            separator = b","
    yield b"]" + (b"," if after else b"") + encode_json(after)[1:]


def ndjson(documents: Iterable[Any]) -> Iterator[bytes]:
    """Documents as lines, some at a time."""
    return line_pieces(encode_json(document) for document in documents)


def line_pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines in pieces of a good size to send; each line ends with a newline."""
    return _join_parts(line + b"\n" for line in lines)


def _join_parts(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Joins parts to pieces of a good size to send."""
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def accepts(header: str | None, media_type: str) -> bool:
    """Whether an Accept header names this type; `*/*` does not."""
    for each in (header or "").split(","):
        name, *parameters = (part.strip().lower() for part in each.split(";"))
        if name == media_type:
            return "q=0" not in parameters and "q=0.0" not in parameters
    return False


def arrow_stream(table: pa.Table) -> Iterator[bytes]:
    """A table as an Arrow IPC stream."""
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        for batch in table.to_batches(_ROWS_AT_ONCE):
            writer.write_batch(batch)
            yield _take_content(sink)
    yield _take_content(sink)


def _take_content(sink: BytesIO) -> bytes:
    content = sink.getvalue()
    sink.seek(0)
    sink.truncate()
    return content


def tar_stream(write: Callable[[Path], object], name: str) -> Iterator[bytes]:
    """A tar of the files that `write` puts into a temporary folder; the first piece waits for them."""
    scratch = Scratch()
    try:
        folder = scratch.path / name
        folder.mkdir()
        write(folder)
        for file in sorted(each for each in folder.rglob("*") if each.is_file()):
            yield from _member(file, file.relative_to(scratch.path).as_posix())
    finally:
        scratch.remove()
    yield tarfile.NUL * 2 * tarfile.BLOCKSIZE


def _member(file: Path, name: str) -> Iterator[bytes]:
    member = tarfile.TarInfo(name)
    member.size = file.stat().st_size
    member.mtime = int(file.stat().st_mtime)
    yield member.tobuf(tarfile.PAX_FORMAT)
    with file.open("rb") as content:
        while piece := content.read(8 * _PIECE):
            yield piece
    if member.size % tarfile.BLOCKSIZE:
        yield tarfile.NUL * (tarfile.BLOCKSIZE - member.size % tarfile.BLOCKSIZE)
