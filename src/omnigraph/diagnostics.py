"""What is wrong, where, and what would be right: findings about a piece of source text.

A `Diagnostic` is complete in itself (it carries the line it points at), so it can be printed, pickled or sent as JSON
long after the source is gone.
"""

import difflib
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import asdict
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass

_EXCERPT_WIDTH = 120
_LONGEST_NAME = 64
_KIBI = 1_024
_TAB_WIDTH = 4


class Span(NamedTuple):
    """A half-open range of character offsets in a source."""

    start: int
    end: int


NOWHERE = Span(0, 0)


class Position(NamedTuple):
    """A place as people count it: lines and columns from 1, columns in characters."""

    line: int
    column: int


class Severity(StrEnum):
    """Whether a finding stops the work or only advises."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Source:
    """A named piece of text, with its lines found once."""

    name: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def position(self, offset: int) -> Position:
        """The line and column of a character offset."""
        line = bisect_right(self._line_starts, offset)
        return Position(line, offset - self._line_starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The text of one line, without its end."""
        start = self._line_starts[number - 1]
        end = self._line_starts[number] - 1 if number < len(self._line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r")

    def diagnostic(
        self,
        code: Code,
        message: str,
        span: Span,
        *,
        hint: str | None = None,
        subject: str | None = None,
    ) -> "Diagnostic":
        """The finding `code` at `span`; `subject` names the declaration it is about."""
        start, end = self.position(span.start), self.position(max(span.start, span.end))
        text = self.line(start.line)
        width = end.column - start.column if end.line == start.line else len(text) - start.column + 1
        first = max(0, start.column - 1 - _EXCERPT_WIDTH // 2) if len(text) > _EXCERPT_WIDTH else 0
        excerpt = text[first : first + _EXCERPT_WIDTH]
        return Diagnostic(
            code=code,
            severity=Severity.WARNING if code.startswith("L") else Severity.ERROR,
            message=message,
            file=self.name,
            line=start.line,
            column=start.column,
            end_line=end.line,
            end_column=end.column,
            excerpt=excerpt,
            excerpt_column=start.column - first,
            width=max(1, min(width, len(excerpt) - (start.column - 1 - first))),
            clipped=(first > 0, first + _EXCERPT_WIDTH < len(text)),
            hint=hint,
            subject=subject,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding, with everything needed to show it."""

    code: Code
    severity: Severity
    message: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    excerpt: str
    excerpt_column: int
    width: int
    clipped: tuple[bool, bool]
    hint: str | None = None
    subject: str | None = None

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def as_json(self) -> dict[str, Any]:
        """The finding as scripts read it."""
        values = {"code": self.code.value, "severity": self.severity.value, "clipped": list(self.clipped)}
        return {**asdict(self), **values}

    def render(self) -> str:
        """The finding as people read it: where, what, the line with a caret, and the way out."""
        head = f"{self.severity.value}[{self.code.value}]: {self.message}"
        number = str(self.line)
        gutter = " " * len(number)
        shown, padding, underline = self._marked_excerpt()
        lines = [
            head,
            f"{gutter}--> {self.file}:{self.line}:{self.column}",
            f"{gutter} |",
            f"{number} | {shown}".rstrip(),
            f"{gutter} | {padding}{underline}",
        ]
        if self.hint:
            lines.append(f"{gutter} = help: {self.hint}")
        return "\n".join(lines)

    def _marked_excerpt(self) -> tuple[str, str, str]:
        """The excerpt made printable, the blanks before the caret, and the caret, all in terminal columns."""
        before = self.excerpt[: self.excerpt_column - 1]
        marked = self.excerpt[self.excerpt_column - 1 : self.excerpt_column - 1 + self.width]
        after = self.excerpt[self.excerpt_column - 1 + self.width :]
        left = "…" if self.clipped[0] else ""
        right = "…" if self.clipped[1] else ""
        printed_before, printed_marked = left + printable(before), printable(marked)
        shown = f"{printed_before}{printed_marked}{printable(after)}{right}"
        return shown, " " * _display_width(printed_before), "^" * max(1, _display_width(printed_marked))


class Findings:
    """Collects the diagnostics of one source; the same finding at the same place is kept once.

    `subject` is the name of the declaration that they are about, if it has one.
    """

    def __init__(self, source: Source, subject: str | None = None) -> None:
        self._source = source
        self.subject = subject
        self._kept: dict[tuple[Code, Span], Diagnostic] = {}

    def report(self, code: Code, message: str, span: Span, hint: str | None = None) -> None:
        """Adds a finding at `span`."""
        if (code, span) not in self._kept:
            self._kept[code, span] = self._source.diagnostic(code, message, span, hint=hint, subject=self.subject)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was found, in the order of the source."""
        return tuple(sorted(self._kept.values(), key=lambda finding: (finding.line, finding.column, finding.code)))

    @property
    def has_errors(self) -> bool:
        return any(finding.is_error for finding in self._kept.values())


def render_all(diagnostics: Iterable[Diagnostic]) -> str:
    """All findings, one after the other, with a blank line between."""
    return "\n\n".join(diagnostic.render() for diagnostic in diagnostics)


def printable(text: str) -> str:
    """The text with tabs widened and every control, invisible or undecodable character escaped."""
    return "".join(_printable_character(character) for character in text)


def _printable_character(character: str) -> str:
    if character == "\t":
        return " " * _TAB_WIDTH
    if character.isprintable():
        return character
    return f"\\u{{{ord(character):x}}}"


def _display_width(text: str) -> int:
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


def quote(name: str) -> str:
    """A name from the source as it appears in a message: in backticks, printable, of bounded length."""
    shown = name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"
    return f"`{printable(shown)}`"


quoted = quote


def any_of(names: Iterable[str]) -> str:
    """The names as a short enumeration for a message."""
    listed = [quoted(name) for name in names]
    if len(listed) > 12:
        listed = [*listed[:12], f"{len(listed) - 12} more"]
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} or {listed[-1]}"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, if one is close enough to be worth saying."""
    if len(name) > _LONGEST_NAME:
        return None
    by_folded = {candidate.lower(): candidate for candidate in known if len(candidate) <= _LONGEST_NAME}
    close = difflib.get_close_matches(name.lower(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """A hint that names the nearest known name, or what there is to choose from."""
    candidates = list(known)
    nearest = nearest_name(name, candidates)
    if nearest is not None:
        return f"did you mean {quoted(nearest)}?"
    if 0 < len(candidates) <= 12:
        return f"known here: {any_of(sorted(candidates))}"
    return None


def size_text(size: int) -> str:
    """A number of bytes as people read it."""
    number, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while number >= _KIBI and len(units) > 1:
        number, units = number / _KIBI, units[1:]
    return f"{number:,.0f} {units[0]}" if units[0] == "B" else f"{number:,.1f} {units[0]}"
