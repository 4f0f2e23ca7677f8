"""What sets the two languages apart: their codes, how a declaration begins, and the files of their grammars."""

import re
from functools import cache
from hashlib import sha256
from pkgutil import get_data

from omnigraph.codes import Code
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Span
from omnigraph.errors import InternalError
from omnigraph.syntax.tables import Tables

MAX_SOURCE_BYTES = 4 * 1024 * 1024
MAX_NESTING = 64
MAX_FAULTS = 1000

# A query may be called `query`; with its name as part of the beginning, it begins once.
_AND_ITS_NAME = r"(?:\s+[A-Za-z_]\w*)?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """One of the two languages, as the shared parsing code sees it."""

    name: str
    grammar: str
    tables: str
    """The file with the tables of its parser, which `python -m tools.grammars` writes."""
    declaration: str
    """A regular expression for the words that begin a declaration."""
    headless: str | None = None
    """The same for a source that is one declaration without its header, if the language has such."""

    def code(self, rule: str) -> Code:
        """The code of a lexical rule, such as ``SYNTAX`` or ``NESTING``, in this language."""
        return Code[f"{self.name.upper()}_{rule}"]


SCHEMA = Language(
    name="schema",
    grammar="schema.lark",
    tables="schema.tables",
    declaration=rf"(?:interface|node|edge)\b{_AND_ITS_NAME}",
)

QUERY = Language(
    name="query",
    grammar="query.lark",
    tables="query.tables",
    declaration=rf"query\b{_AND_ITS_NAME}",
    headless=r"(?:match|insert|update|delete)\b",
)


class SourceFault(Exception):
    """What ended the parsing of one declaration; offsets are those of the whole source."""

    def __init__(self, code: Code, message: str, span: Span, hint: str | None = None) -> None:
        super().__init__(code, message, span, hint)
        self.code, self.message, self.span, self.hint = code, message, span, hint


@cache
def tables_of(language: Language) -> Tables | None:
    """The tables of a language; None if they are not those of its grammar. `python -m tools.grammars` writes them."""
    _, fingerprint, tables, _ = tables_file(language).split(b"\n", 3)
    return Tables(tables) if fingerprint == grammar_print(language) else None


def tables_file(language: Language) -> bytes:
    """The file that `tools/grammars.py` made. Its second and third line are for `tables.py`, the rest is for Lark."""
    return _read(language.tables)


def grammar_print(language: Language) -> bytes:
    """The fingerprint of the grammar of a language."""
    return sha256(grammar_of(language).encode()).hexdigest().encode()


def grammar_of(language: Language) -> str:
    """The grammar of a language, as Lark reads it."""
    return b"".join(map(_read, ("shared.lark", language.grammar))).decode()


def _read(name: str) -> bytes:
    data = get_data("omnigraph.syntax", name)
    if data is None:
        raise InternalError(f"the package has no file {name}")
    return data


@cache
def landmarks_of(language: Language, *, at_line_start: bool) -> re.Pattern[str]:
    """Finds what cutting a source needs to see: texts and comments (to step over), brackets, declarations.

    A text that has no end goes on to the end of the source. With `at_line_start`, which is for sources that cannot be
    cut otherwise, a text ends with its line at the latest, and only a line that starts like a declaration starts one.
    """
    if at_line_start:
        text = r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"?'
    else:
        text = r'(?P<text>"[^"\\]*+(?:\\(?s:.)[^"\\]*+)*+(?P<ended>"?))'
    comment = r"//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)"
    before = r"(?m:^)[ \t]*" if at_line_start else r"(?<![\w$@.])"
    return re.compile(
        rf"{text}|{comment}|(?P<open>[\[{{(])|(?P<close>[\]}})])|{before}(?P<declaration>{language.declaration})"
    )
