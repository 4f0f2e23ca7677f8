"""What sets the two languages apart before any grammar is read: their codes, and how a declaration begins."""

import re
import threading
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources

import lark
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
    tables: str
    """The file with the tables of its parser, which `python -m tools.grammars` writes."""
    declaration: str
    """A regular expression for the words that begin a declaration."""

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
)

_building = threading.Lock()
_FOLDER = resources.files("omnigraph.syntax")


def parser_of(language: Language) -> Lark:
    """The LALR parser of one declaration; made once a process, safe to share between threads."""
    # Making it takes longer than most queries, so threads that begin together wait for the first.
    with _building:
        return _parser(language)


@cache
def _parser(language: Language) -> Lark:
    with (_FOLDER / language.tables).open("rb") as file:
        if file.readline().rstrip() == fingerprint(language):
            return Lark.load(file)
    return build_parser(language)


def build_parser(language: Language) -> Lark:
    """The parser out of the grammar; what takes long is kept in the file of its tables."""
    return Lark(_grammar(language), parser="lalr", lexer="contextual", maybe_placeholders=True)


def fingerprint(language: Language) -> bytes:
    """What the tables of a language depend on: its grammar and the version of Lark."""
    return sha256(f"{lark.__version__}\n{_grammar(language)}".encode()).hexdigest().encode()


def _grammar(language: Language) -> str:
    return "".join((_FOLDER / name).read_text("utf-8") for name in ("shared.lark", language.grammar))


@cache
def landmarks_of(language: Language, *, at_line_start: bool) -> re.Pattern[str]:
    """Finds what cutting a source needs to see: texts and comments (to step over), brackets, declarations."""
    text = r'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"?'
    comment = r"//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)"
    before = r"(?m:^)[ \t]*" if at_line_start else r"(?<![\w$@.])"
    return re.compile(
        rf"{text}|{comment}|(?P<open>[\[{{(])|(?P<close>[\]}})])|{before}(?P<declaration>{language.declaration})"
    )
