"""Builds the nodes that both languages share from the parser's trees."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any, TypeVar

from omnigraph.codes import Code
from omnigraph.diagnostics import Span, quoted
from omnigraph.syntax import nodes
from omnigraph.syntax.language import Language, SourceFault
from omnigraph.syntax.tables import Token

T = TypeVar("T")

_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PLAIN_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DATETIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2})")
_LONGEST_NUMBER = 400
_MOST_DIGITS = 9
SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**64 - 1


def present(children: Sequence[T | None]) -> tuple[T, ...]:
    """The children that are there; the parser marks what is left out by None."""
    return tuple(child for child in children if child is not None)


class Builder:
    """Turns the tree of one declaration, which stands at offset `base`, into syntax nodes.

    A rule of the grammar is built by the method of its name, which gets the rule's children, already built.
    """

    def __init__(self, language: Language, base: int) -> None:
        self._language = language
        self._base = base

    def build(self, tree: Any) -> Any:
        """The node of a tree of Lark. Recursion is safe here: nesting was bounded before parsing."""
        children = [child if child is None or isinstance(child, str) else self.build(child) for child in tree.children]
        return getattr(self, tree.data)(*children)

    def at(self, first: Token, last: Token | None = None) -> Span:
        """From the start of one token to the end of another, as offsets of the whole source."""
        return Span(self._base + first.start_pos, self._base + (last or first).end_pos)

    # --- literals ---

    def text(self, token: Token) -> nodes.TextLiteral:
        return nodes.TextLiteral(self._unescape(token), span=self.at(token))

    def _unescape(self, token: Token) -> str:
        body = str(token)[1:-1]
        if "\\" not in body:
            return body

        def replacement(escape: re.Match[str]) -> str:
            if escape[1] is not None:
                return chr(int(escape[1], 16))
            if escape[2] not in _PLAIN_ESCAPES:
                start = self.at(token).start + 1 + escape.start()
                raise SourceFault(
                    self._language.code("ESCAPE"),
                    f"unknown escape {quoted(escape[0])}",
                    Span(start, start + 2),
                    r"known escapes: \" \\ \/ \b \f \n \r \t \uXXXX",
                )
            return _PLAIN_ESCAPES[escape[2]]

        # Pairs of \u escapes are UTF-16, as in JSON; a half of a pair alone is not a character.
        unescaped = _ESCAPE.sub(replacement, body)
        try:
            return unescaped.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError as error:
            raise SourceFault(
                self._language.code("ESCAPE"), "this text has an unpaired surrogate", self.at(token)
            ) from error

    def number(self, token: Token) -> nodes.IntLiteral | nodes.FloatLiteral:
        span = self.at(token)
        if len(token) > _LONGEST_NUMBER:
            raise SourceFault(self._language.code("NUMBER"), f"a number of {len(token)} characters is too long", span)
        if token.lstrip("-").isdigit():
            value = int(token)
            if not SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
                raise SourceFault(self._language.code("NUMBER"), f"{quoted(token)} does not fit 64 bits", span)
            return nodes.IntLiteral(value, span=span)
        real = float(token)
        if real in (float("inf"), float("-inf")):
            raise SourceFault(self._language.code("NUMBER"), f"{quoted(token)} is too large for a 64-bit float", span)
        return nodes.FloatLiteral(real, span=span)

    def whole_number(self, token: Token, what: str, code: Code) -> int:
        """A number that counts something, and so has no sign, point or exponent."""
        if not token.isdigit() or len(token) > _MOST_DIGITS:
            most = 10**_MOST_DIGITS - 1
            raise SourceFault(code, f"{what} is a whole number up to {most}, not {quoted(token)}", self.at(token))
        return int(token)

    def dated_literal(self, function: str, text: nodes.TextLiteral) -> nodes.DateLiteral | nodes.DateTimeLiteral:
        """``date("…")`` or ``datetime("…")``, checked."""
        try:
            if function == "date":
                return nodes.DateLiteral(_date(text.value), span=text.span)
            return nodes.DateTimeLiteral(_datetime(text.value), span=text.span)
        except ValueError as error:
            shape = "2026-01-31" if function == "date" else "2026-01-31T12:00:00Z"
            raise SourceFault(
                self._language.code("DATE"),
                f"{quoted(text.value)} is not a {function}",
                text.span,
                f'write it as `{function}("{shape}")`'
                + (", with a zone and at most milliseconds" if function == "datetime" else ""),
            ) from error

    # --- type expressions ---

    def named_type(self, name: Token, nullable: Token | None) -> nodes.NamedType:
        return nodes.NamedType(str(name), nullable is not None, span=self.at(name))

    def sized_type(self, name: Token, size: Token, nullable: Token | None) -> nodes.VectorType:
        if name != "Vector":
            raise SourceFault(
                self._language.code("SYNTAX"),
                f"{quoted(name)} takes no size",
                self.at(name),
                "only `Vector(n)` has one",
            )
        return nodes.VectorType(
            self.whole_number(size, "a vector's dimension", self._language.code("SYNTAX")),
            nullable is not None,
            span=self.at(name, size),
        )

    def enum_type(self, *parts: Token | None) -> nodes.EnumType:
        *values, nullable = parts
        tokens = present(values)
        return nodes.EnumType(
            tuple(str(value) for value in tokens), nullable is not None, span=self.at(tokens[0], tokens[-1])
        )

    def list_type(
        self, start: Token, element: nodes.TypeExpression, end: Token, nullable: Token | None
    ) -> nodes.ListType:
        return nodes.ListType(element, nullable is not None, span=self.at(start, end))

    # --- annotations ---

    def annotation(self, name: Token, *arguments: nodes.Argument | None) -> nodes.Annotation:
        return nodes.Annotation(str(name), present(arguments), span=self.at(name))

    def argument(self, value: nodes.AnnotationValue) -> nodes.Argument:
        return nodes.Argument(value, span=value.span)

    def keyword_argument(self, keyword: Token, value: nodes.AnnotationValue) -> nodes.Argument:
        return nodes.Argument(value, str(keyword), span=self.at(keyword))

    def annotation_word(self, name: Token) -> nodes.BoolLiteral | nodes.NullLiteral | nodes.NameArgument:
        return self.word_literal(name) or nodes.NameArgument(str(name), span=self.at(name))

    def word_literal(self, name: Token) -> nodes.BoolLiteral | nodes.NullLiteral | None:
        """The literal that a bare word stands for, if it stands for one."""
        if name == "null":
            return nodes.NullLiteral(span=self.at(name))
        return nodes.BoolLiteral(name == "true", span=self.at(name)) if name in ("true", "false") else None

    def dated_text(self, function: Token, text: Token) -> nodes.DateLiteral | nodes.DateTimeLiteral:
        if function not in ("date", "datetime"):
            raise SourceFault(
                self._language.code("SYNTAX"),
                f"{quoted(function)} is not a literal",
                self.at(function),
                "did you mean `date`?",
            )
        return self.dated_literal(str(function), self.text(text))

    def annotation_list(self, start: Token, *parts: Any) -> nodes.ListLiteral:
        *items, end = parts
        return nodes.ListLiteral(tuple(self.list_item(item) for item in present(items)), span=self.at(start, end))

    def list_item(self, item: Any) -> nodes.ScalarLiteral:
        """An element of a list: a literal, and nothing that only a run could know."""
        if isinstance(item, nodes.ScalarLiteral):
            return item
        raise SourceFault(self._language.code("SYNTAX"), "a list holds literals and parameters", item.span)

    def range_from(self, low: Token, high: Token | None) -> nodes.RangeArgument:
        return nodes.RangeArgument(self.number(low), self.number(high) if high else None, span=self.at(low, high))

    def range_to(self, high: Token | None) -> nodes.RangeArgument:
        if high is None:
            return nodes.RangeArgument(None, None)
        return nodes.RangeArgument(None, self.number(high), span=self.at(high))


def _date(text: str) -> date:
    if not _DATE.fullmatch(text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _datetime(text: str) -> datetime:
    """An instant in UTC; without a zone, or finer than the milliseconds we store, it would not mean one."""
    if not _DATETIME.fullmatch(text):
        raise ValueError(text)
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(text) from error
