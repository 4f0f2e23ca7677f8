"""What sets the two languages apart before any grammar is read: their codes, and how a declaration begins."""

import re
import threading
from dataclasses import dataclass
from functools import cache
from importlib import resources

from lark import Lark

from omnigraph.codes import Code

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
    declaration: str
    """A regular expression for the words that begin a declaration."""
    syntax: Code
    unterminated: Code
    escape: Code
    number: Code
    date: Code
    nesting: Code
    too_large: Code
    unreadable: Code


SCHEMA = Language(
    name="schema",
    grammar="schema.lark",
    declaration=rf"(?:interface|node|edge)\b{_AND_ITS_NAME}",
    syntax=Code.SCHEMA_SYNTAX,
    unterminated=Code.SCHEMA_UNTERMINATED,
    escape=Code.SCHEMA_ESCAPE,
    number=Code.SCHEMA_NUMBER,
    date=Code.SCHEMA_DATE,
    nesting=Code.SCHEMA_NESTING,
    too_large=Code.SCHEMA_TOO_LARGE,
    unreadable=Code.SCHEMA_UNREADABLE,
)

QUERY = Language(
    name="query",
    grammar="query.lark",
    declaration=rf"query\b{_AND_ITS_NAME}",
    syntax=Code.QUERY_SYNTAX,
    unterminated=Code.QUERY_UNTERMINATED,
    escape=Code.QUERY_ESCAPE,
    number=Code.QUERY_NUMBER,
    date=Code.QUERY_DATE,
    nesting=Code.QUERY_NESTING,
    too_large=Code.QUERY_TOO_LARGE,
    unreadable=Code.QUERY_UNREADABLE,
)


_building = threading.Lock()


def parser_of(language: Language) -> Lark:
    """The LALR parser of one declaration; built once a process, safe to share between threads."""
    # Building takes longer than most queries, so threads that begin together wait for the first.
    with _building:
        return _parser(language)


@cache
def _parser(language: Language) -> Lark:
    grammars = resources.files("omnigraph.syntax")
    text = "".join((grammars / name).read_text("utf-8") for name in ("shared.lark", language.grammar))
    return Lark(text, parser="lalr", lexer="contextual", maybe_placeholders=True)


@cache
def landmarks_of(language: Language, *, at_line_start: bool) -> re.Pattern[str]:
    """Finds what cutting a source needs to see: texts and comments (to step over), brackets, declarations."""
    text = r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"?'
    comment = r"//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)"
    before = r"(?m:^)[ \t]*" if at_line_start else r"(?<![\w$@.])"
    return re.compile(
        rf"{text}|{comment}|(?P<open>[\[{{(])|(?P<close>[\]}})])|{before}(?P<declaration>{language.declaration})"
    )
