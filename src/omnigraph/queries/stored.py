"""How a source becomes stored queries, and what a stored query is to those who call it.

Each query is stored with the comments before it, and read alone: what is wrong with one says nothing of the others.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from omnigraph.api.queries import BrokenQuery, QueryKind, StoredQuery
from omnigraph.catalog import Catalog
from omnigraph.compiler import CompiledQuery, compile_query
from omnigraph.compiler.compile import check_queries
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.errors import QueryError, UsageError
from omnigraph.queries.contracts import parameter_schema, result_schema
from omnigraph.syntax import QUERY
from omnigraph.syntax.parse import BLANK, declarations_in

MOST_QUERIES = 1_000
"""How many queries a graph can store: they are in one file."""
MOST_BYTES = 4 * 1024 * 1024
"""How long their texts can be together."""


def cut_queries(source: Source, catalog: Catalog) -> dict[str, str]:
    """The text of each query of a source, by name. Raises `QueryError` with all mistakes in it."""
    checked = check_queries(source, catalog)
    errors = [finding for finding in checked.diagnostics if finding.is_error]
    if errors:
        raise QueryError(errors)
    if not checked.queries:
        raise UsageError(f"{source.name} has no query")
    if any(not each.name for each in checked.queries):
        raise UsageError(f"the query in {source.name} has no name: begin it with `query NAME {{`")
    return {each.name: text for each, text in zip(checked.queries, _texts(source.text), strict=True)}


def _texts(text: str) -> Iterator[str]:
    """Each declaration with the comments before it, without blank lines around them."""
    begin = 0
    for piece in declarations_in(text, QUERY):
        end = _end(text, piece.span.start, piece.span.end)
        yield text[begin:end].strip()
        begin = end


def _end(text: str, start: int, end: int) -> int:
    """Where a declaration ends: after the brace that only blanks and comments follow."""
    for brace in re.finditer(r"\}", text[start:end]):
        at = start + brace.end()
        if BLANK.fullmatch(text, at, end):
            return at
    return end


def describe_query(name: str, text: str, catalog: Catalog) -> StoredQuery:
    """A stored query as its callers see it; one that does not fit the schema has problems instead of a contract."""
    try:
        compiled = compile_query(text, catalog, name, name=name)
    except QueryError as error:
        problems = tuple(f"line {each.line}: {each.message}" for each in error.diagnostics if each.is_error)
        return StoredQuery(name=name, source=text, problems=problems)
    return StoredQuery(
        name=name,
        source=text,
        kind=QueryKind.MUTATION if compiled.is_mutation else QueryKind.READ,
        description=_text(compiled, "description"),
        instruction=_text(compiled, "instruction"),
        tags=compiled.tags,
        parameters=parameter_schema(compiled),
        result=result_schema(compiled, catalog),
    )


def _text(compiled: CompiledQuery, annotation: str) -> str | None:
    return next(iter(compiled.texts_of(annotation)), None)


def check_stored(texts: Mapping[str, str]) -> None:
    """Raises `UsageError` for more queries than a graph can store."""
    size = sum(len(text.encode()) for text in texts.values())
    if len(texts) > MOST_QUERIES or size > MOST_BYTES:
        raise UsageError(
            f"a graph can store up to {MOST_QUERIES} queries with {MOST_BYTES // 1024} KiB: "
            f"there would be {len(texts)} with {size // 1024} KiB"
        )


def breaking_queries(texts: Mapping[str, str], before: Catalog, after: Catalog) -> tuple[BrokenQuery, ...]:
    """The queries that a change of the schema would break: they fit the schema before it, and not the one after it."""
    return tuple(
        each
        for name, text in texts.items()
        if (each := _find_mistake(name, text, after)) is not None and _find_mistake(name, text, before) is None
    )


def broken_queries(texts: Mapping[str, str], catalog: Catalog, names: Collection[str]) -> tuple[BrokenQuery, ...]:
    """Those of the named queries that do not fit a schema."""
    found = (_find_mistake(name, texts[name], catalog) for name in names)
    return tuple(each for each in found if each is not None)


def _find_mistake(name: str, text: str, catalog: Catalog) -> BrokenQuery | None:
    try:
        compile_query(text, catalog, name, name=name)
    except QueryError as error:
        first = _first(error.diagnostics)
        return BrokenQuery(name, first.line, first.code, first.message)
    return None


def _first(diagnostics: Iterable[Diagnostic]) -> Diagnostic:
    return next(each for each in diagnostics if each.is_error)
