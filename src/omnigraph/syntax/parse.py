"""Parses source text into syntax trees, and reports every error of every declaration.

A source is first cut into its declarations, so that an error in one does not hide those in the others. Cutting only
looks at brackets, texts, comments and the words that begin a declaration. It also bounds the nesting: after it, no
later stage meets a tree deeper than `MAX_NESTING`.
"""

import re
from codecs import BOM_UTF8
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Diagnostic, Source, Span, printable
from omnigraph.lazy import importing
from omnigraph.syntax.builder import Builder
from omnigraph.syntax.language import (
    MAX_FAULTS,
    MAX_NESTING,
    MAX_SOURCE_BYTES,
    QUERY,
    SCHEMA,
    Language,
    SourceFault,
    landmarks_of,
    tables_of,
)
from omnigraph.syntax.query_ast import QueryFile
from omnigraph.syntax.query_builder import QueryBuilder
from omnigraph.syntax.schema_ast import SchemaFile
from omnigraph.syntax.schema_builder import SchemaBuilder

TreeT = TypeVar("TreeT", SchemaFile, QueryFile)


# --- cutting a source into declarations ---

BLANK = re.compile(r"(?:\s++|//[^\n]*|/\*(?s:.*?)\*/)*+")


@dataclass(frozen=True, slots=True)
class Slice:
    """One declaration's text; `too_deep` is where its brackets go beyond what we follow."""

    span: Span
    too_deep: int | None = None


def declarations_in(text: str, language: Language) -> list[Slice]:
    """The declarations of a source in order.

    Text before the first one is a slice of its own, unless it is blank: it will fail to parse, as it should. Where the
    brackets do not balance, or a text does not end, a line that starts like a declaration starts one, whatever is open.

    A declaration without a header is alone in its source, which is not cut: what looks like a header in it is a name.
    """
    slices, balanced = _cut(text, language, at_line_start=False)
    begin = _begin(text, language)
    if begin is not None:
        too_deep = next((each.too_deep for each in slices if each.too_deep is not None), None)
        return [Slice(Span(begin, len(text)), too_deep)]
    return slices if balanced else _cut(text, language, at_line_start=True)[0]


def _begin(text: str, language: Language) -> int | None:
    """Where the source begins, if it does without a header."""
    blank = BLANK.match(text)
    begin = 0 if blank is None else blank.end()
    found = language.headless is not None and re.compile(language.headless).match(text, begin)
    return begin if found else None


def _cut(text: str, language: Language, *, at_line_start: bool) -> tuple[list[Slice], bool]:
    slices: list[Slice] = []
    start, depth, too_deep, ended = 0, 0, None, True
    for landmark in landmarks_of(language, at_line_start=at_line_start).finditer(text):
        if landmark["open"]:
            depth += 1
            if depth > MAX_NESTING and too_deep is None:
                too_deep = landmark.start()
        elif landmark["close"]:
            depth = max(0, depth - 1)
        elif not at_line_start and landmark["text"]:
            ended = bool(landmark["ended"])
        elif landmark["declaration"] and (at_line_start or depth == 0):
            begin = landmark.start("declaration")
            _add(slices, Slice(Span(start, begin), too_deep), text)
            start, depth, too_deep = begin, 0, None
    _add(slices, Slice(Span(start, len(text)), too_deep), text)
    return slices, depth == 0 and ended


def _add(slices: list[Slice], piece: Slice, text: str) -> None:
    blank = BLANK.match(text, piece.span.start, piece.span.end)
    if blank is None or blank.end() < piece.span.end:
        slices.append(piece)


# --- parsing ---


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


def decode_source(name: str, data: bytes, language: Language) -> tuple[Source, Diagnostic | None]:
    """The source in a file's bytes, and what is wrong with them if they are not UTF-8 text."""
    text = data.removeprefix(BOM_UTF8)
    try:
        return Source(name, text.decode()), None
    except UnicodeDecodeError as error:
        source = Source(name, text.decode(errors="replace"))
        at = len(text[: error.start].decode(errors="replace"))
        message = f"invalid UTF-8: unexpected byte 0x{text[error.start]:02x}"
        return source, source.diagnostic(
            language.code("UNREADABLE"), message, Span(at, at + 1), hint="save the file as UTF-8"
        )


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
                message = f"too many errors: the rest of this source was not read after {MAX_FAULTS}"
                diagnostics.append(source.diagnostic(language.code("SYNTAX"), message, fault.span))
                break
            diagnostics.append(source.diagnostic(fault.code, fault.message, fault.span, hint=fault.hint))
    return trees, diagnostics


def _declaration(text: str, piece: Slice, language: Language, builder: Callable[[Language, int], Builder]) -> Any:
    if piece.too_deep is not None:
        message = f"nested more than {MAX_NESTING} levels deep"
        raise SourceFault(language.code("NESTING"), message, Span(piece.too_deep, piece.too_deep + 1))
    declaration = text[piece.span.start : piece.span.end]
    tables, node = tables_of(language), None
    if tables is not None:
        # Lark says whether a fault of a part, such as a wrong date, or one of the grammar is the first. What is nested
        # too deeply is refused here: of it, Lark would build a tree that cannot be followed.
        try:
            node = tables.read(declaration, builder(language, piece.span.start))
        except SourceFault as fault:
            if fault.code is language.code("NESTING"):
                raise
    return node if node is not None else _read_by_lark(declaration, piece, language, builder)


def _read_by_lark(text: str, piece: Slice, language: Language, builder: Callable[[Language, int], Builder]) -> Any:
    """The node of a declaration; raises `SourceFault` with what is wrong."""
    with importing:
        from lark.exceptions import UnexpectedInput  # noqa: PLC0415 - most sources are without faults

        from omnigraph.syntax.faults import fault_of  # noqa: PLC0415 - Lark
        from omnigraph.syntax.lark_parser import parser_of  # noqa: PLC0415 - Lark

    try:
        tree = parser_of(language).parse(text)
    except UnexpectedInput as error:
        raise fault_of(error, text, piece.span.start, language) from error
    return builder(language, piece.span.start).build(tree)


def _unreadable(source: Source, language: Language) -> Diagnostic | None:
    """What is wrong with the text as text, before it is read as a language."""
    size = len(source.text)
    if not source.text.isascii():
        try:
            size = len(source.text.encode())
        except UnicodeEncodeError as error:
            message = f"`{printable(source.text[error.start])}` is an unpaired surrogate and cannot be stored"
            return source.diagnostic(language.code("UNREADABLE"), message, Span(error.start, error.end))
    if size > MAX_SOURCE_BYTES:
        return source.diagnostic(
            language.code("TOO_LARGE"),
            f"the {language.name} is too large: {size:,} bytes (limit: {MAX_SOURCE_BYTES:,})",
            Span(0, 0),
            hint="split it, and pass large values as parameters",
        )
    nul = source.text.find("\0")
    if nul >= 0:
        return source.diagnostic(language.code("UNREADABLE"), "unexpected NUL character", Span(nul, nul + 1))
    return None
