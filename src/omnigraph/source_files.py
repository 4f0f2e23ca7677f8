"""Reads the texts that people hand over as files: schemas and queries."""

from pathlib import Path

from omnigraph.diagnostics import Source
from omnigraph.errors import NotFound, QueryError, SchemaError, UsageError
from omnigraph.syntax import SCHEMA, Language, decoded


def schema_text(schema: str | Path | Source) -> tuple[str, str]:
    """A schema's text and its name. A text is told from a path by what only a schema has; a `Source` is no path."""
    if isinstance(schema, Source):
        return schema.text, schema.name
    if not isinstance(schema, str | Path) or not str(schema).strip():
        raise UsageError(f"a schema is a text, or the path of a file, and not {schema!r}")
    if isinstance(schema, Path) or not any(mark in schema for mark in "{\n"):
        return text_of(Path(schema), SCHEMA), str(schema)
    return schema, "<schema>"


def text_of(path: Path, language: Language) -> str:
    """The text of a file; one that is not text is reported like any other mistake in it."""
    if not path.is_file():
        raise NotFound("file", str(path))
    source, problem = decoded(str(path), path.read_bytes(), language)
    if problem is not None:
        raise (SchemaError if language is SCHEMA else QueryError)([problem])
    return source.text
