"""Reads the texts that people hand over as files: schemas and queries."""

from collections.abc import Collection, Iterator
from pathlib import Path

from omnigraph.diagnostics import Source
from omnigraph.errors import NotFound, QueryError, SchemaError, UsageError
from omnigraph.syntax import QUERY, SCHEMA, Language, decode_source


def schema_text(schema: str | Path | Source) -> tuple[str, str]:
    """The text and the name of a schema. A text with a brace or a line break is a schema, any other is a path."""
    if isinstance(schema, Source):
        return schema.text, schema.name
    if not isinstance(schema, str | Path) or not str(schema).strip():
        raise UsageError(f"invalid schema {schema!r}: expected a text, or the path of a file")
    if isinstance(schema, Path) or not any(mark in schema for mark in "{\n"):
        return text_of(Path(schema), SCHEMA), str(schema)
    return schema, "<schema>"


def text_of(path: Path, language: Language) -> str:
    """The text of a file; one that is not text is reported like any other mistake in it."""
    if not path.is_file():
        raise NotFound("file", str(path))
    source, problem = decode_source(str(path), path.read_bytes(), language)
    if problem is not None:
        raise (SchemaError if language is SCHEMA else QueryError)([problem])
    return source.text


def query_sources(given: str | Path | Source | Collection[str | Path | Source]) -> Iterator[Source]:
    """The sources of queries, which may be one or several; a path is read, and any other text is a source."""
    match given:
        case Source():
            yield given
        case Path():
            yield Source(str(given), text_of(given, QUERY))
        case str():
            yield Source("<query>", given)
        case _:
            for each in given:
                yield from query_sources(each)
