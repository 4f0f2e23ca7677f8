"""Text files as rows in this process, cut as Spark cuts them: a row for each line, paragraph or file."""

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from omnigraph.pipelines.rows import RelationFault, SourceRows

VALUE = "value"
"""The only column of texts, as in Spark."""
_LINE_ENDS = re.compile("\r\n|\n|\r")
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


def read_text_files(rows: SourceRows) -> pa.Table:
    """The rows of text files. The option `lineSep` says what ends a row, and with `wholetext` each file is one."""
    batches = [] if rows.is_empty else [pa.array(_pieces(rows, text), pa.string()) for text in _texts(rows)]
    return pa.table({VALUE: pa.chunked_array(batches, pa.string())})


def _texts(rows: SourceRows) -> Iterator[str]:
    for file in rows.files:
        path = file.location.path
        assert path is not None, "files elsewhere are read by Spark"
        try:
            with pa.input_stream(str(path), compression=_COMPRESSIONS.get(Path(path).suffix)) as stream:
                yield stream.read().decode(errors="replace")
        except OSError as error:
            raise RelationFault(f"{file.name} cannot be read: {error}") from error


def _pieces(rows: SourceRows, text: str) -> list[str]:
    options = rows.source.options
    if options.get("wholetext", "false").lower() == "true":
        return [text]
    separator = options.get("lineSep")
    pieces = _LINE_ENDS.split(text) if separator is None else text.split(separator)
    return pieces if pieces[-1] else pieces[:-1]  # what ends a row does not begin another one
