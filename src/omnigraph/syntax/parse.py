"""Reads source text into syntax trees, with every mistake of every declaration reported."""

from codecs import BOM_UTF8
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from lark.exceptions import UnexpectedInput

from omnigraph.diagnostics import Diagnostic, Source, Span, printable
from omnigraph.syntax.builder import Builder
from omnigraph.syntax.declarations import Slice, declarations_in
from omnigraph.syntax.faults import SourceFault, fault_of
from omnigraph.syntax.language import MAX_FAULTS, MAX_NESTING, MAX_SOURCE_BYTES, QUERY, SCHEMA, Language, parser_of
from omnigraph.syntax.query_ast import QueryFile
from omnigraph.syntax.query_builder import QueryBuilder
from omnigraph.syntax.schema_ast import SchemaFile
from omnigraph.syntax.schema_builder import SchemaBuilder

TreeT = TypeVar("TreeT", SchemaFile, QueryFile)


@dataclass(frozen=True, slots=True)
class Parsed(Generic[TreeT]):
    """What could be read of a source, and what could not; the tree is whole when there are no diagnostics."""

    source: Source
    tree: TreeT
    diagnostics: tuple[Diagnostic, ...]


def parse_schema(source: Source) -> Parsed[SchemaFile]:
    """The declarations of a `.pg` source."""
    declarations, diagnostics = _parse(source, SCHEMA, SchemaBuilder)
    return Parsed(source, SchemaFile(tuple(declarations)), tuple(diagnostics))


def parse_queries(source: Source) -> Parsed[QueryFile]:
    """The queries of a `.gq` source."""
    queries, diagnostics = _parse(source, QUERY, QueryBuilder)
    return Parsed(source, QueryFile(tuple(queries)), tuple(diagnostics))


def decoded(name: str, data: bytes, language: Language) -> tuple[Source, Diagnostic | None]:
    """The source in a file's bytes, and what is wrong with them if they are not UTF-8 text."""
    text = data.removeprefix(BOM_UTF8)
    try:
        return Source(name, text.decode()), None
    except UnicodeDecodeError as error:
        source = Source(name, text.decode(errors="replace"))
        at = len(text[: error.start].decode(errors="replace"))
        message = f"this is not UTF-8 text: byte 0x{text[error.start]:02x} has no meaning here"
        return source, source.diagnostic(language.unreadable, message, Span(at, at + 1), hint="save the file as UTF-8")


def _parse(
    source: Source, language: Language, builder: Callable[[Language, int], Builder]
) -> tuple[list[Any], list[Diagnostic]]:
    unreadable = _unreadable(source, language)
    if unreadable is not None:
        return [], [unreadable]
    trees: list[Any] = []
    diagnostics: list[Diagnostic] = []
    for piece in declarations_in(source.text, language):
        try:
            trees.append(_declaration(source.text, piece, language, builder))
        except SourceFault as fault:
            if len(diagnostics) == MAX_FAULTS:
                message = f"after {MAX_FAULTS} mistakes the rest of this source was not read"
                diagnostics.append(source.diagnostic(language.syntax, message, fault.span))
                break
            diagnostics.append(source.diagnostic(fault.code, fault.message, fault.span, hint=fault.hint))
    return trees, diagnostics


def _declaration(text: str, piece: Slice, language: Language, builder: Callable[[Language, int], Builder]) -> Any:
    if piece.too_deep is not None:
        message = f"nested more than {MAX_NESTING} levels deep"
        raise SourceFault(language.nesting, message, Span(piece.too_deep, piece.too_deep + 1))
    declaration = text[piece.span.start : piece.span.end]
    try:
        tree = parser_of(language).parse(declaration)
    except UnexpectedInput as error:
        raise fault_of(error, declaration, piece.span.start, language) from error
    return builder(language, piece.span.start).built(tree)


def _unreadable(source: Source, language: Language) -> Diagnostic | None:
    """What is wrong with the text as text, before it is read as a language."""
    size = len(source.text)
    if not source.text.isascii():
        try:
            size = len(source.text.encode())
        except UnicodeEncodeError as error:
            message = f"`{printable(source.text[error.start])}` is half of a character and cannot be stored"
            return source.diagnostic(language.unreadable, message, Span(error.start, error.end))
    if size > MAX_SOURCE_BYTES:
        return source.diagnostic(
            language.too_large,
            f"{size:,} bytes are too many for a {language.name}; it may have {MAX_SOURCE_BYTES:,}",
            Span(0, 0),
            hint="split it; large values belong into parameters",
        )
    nul = source.text.find("\0")
    if nul >= 0:
        return source.diagnostic(language.unreadable, "a NUL byte is not text", Span(nul, nul + 1))
    return None
