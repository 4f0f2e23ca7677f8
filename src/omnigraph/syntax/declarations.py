"""Cuts a source into its declarations, so that a mistake in one does not hide the mistakes in the others.

Cutting only looks at brackets, texts, comments and the words that begin a declaration. It also bounds the nesting:
after it, no later stage meets a tree deeper than `MAX_NESTING`.
"""

import re
from dataclasses import dataclass

from omnigraph.diagnostics import Span
from omnigraph.syntax.language import MAX_NESTING, Language, landmarks_of

_BLANK = re.compile(r"(?:\s++|//[^\n]*|/\*(?s:.*?)\*/)*+")


@dataclass(frozen=True, slots=True)
class Slice:
    """One declaration's text; `too_deep` is where its brackets go beyond what we follow."""

    span: Span
    too_deep: int | None = None


def declarations_in(text: str, language: Language) -> list[Slice]:
    """The declarations of a source in order.

    Text before the first one is a slice of its own, unless it is blank: it will fail to parse, as it should. Where the
    brackets do not balance, a line that starts like a declaration starts one, whatever the brackets say.
    """
    slices, balanced = _cut(text, language, at_line_start=False)
    return slices if balanced else _cut(text, language, at_line_start=True)[0]


def _cut(text: str, language: Language, *, at_line_start: bool) -> tuple[list[Slice], bool]:
    slices: list[Slice] = []
    start, depth, too_deep = 0, 0, None
    for landmark in landmarks_of(language, at_line_start=at_line_start).finditer(text):
        if landmark["open"]:
            depth += 1
            if depth > MAX_NESTING and too_deep is None:
                too_deep = landmark.start()
        elif landmark["close"]:
            depth = max(0, depth - 1)
        elif landmark["declaration"] and (at_line_start or depth == 0):
            begin = landmark.start("declaration")
            _add(slices, Slice(Span(start, begin), too_deep), text)
            start, depth, too_deep = begin, 0, None
    _add(slices, Slice(Span(start, len(text)), too_deep), text)
    return slices, depth == 0


def _add(slices: list[Slice], piece: Slice, text: str) -> None:
    blank = _BLANK.match(text, piece.span.start, piece.span.end)
    if blank is None or blank.end() < piece.span.end:
        slices.append(piece)
