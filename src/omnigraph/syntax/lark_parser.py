"""The parsers that Lark makes of the two grammars: they say what is wrong with a source that `tables.py` refuses."""

import threading
from functools import cache
from hashlib import sha256
from importlib import resources

import lark
from lark import Lark

from omnigraph.syntax.language import Language, grammar_of

_building = threading.Lock()


def parser_of(language: Language) -> Lark:
    """The LALR parser of one declaration; made once a process, safe to share between threads."""
    # Making it takes longer than most queries, so threads that begin together wait for the first.
    with _building:
        return _parser(language)


@cache
def _parser(language: Language) -> Lark:
    with (resources.files("omnigraph.syntax") / language.tables).open("rb") as file:
        of_lark, _, _ = (file.readline().rstrip() for _ in range(3))
        if of_lark == fingerprint(language):
            return Lark.load(file)
    return build_parser(language)


def build_parser(language: Language) -> Lark:
    """The parser out of the grammar; what takes long is kept in the file of its tables."""
    return Lark(grammar_of(language), parser="lalr", lexer="contextual", maybe_placeholders=True)


def fingerprint(language: Language) -> bytes:
    """What Lark's tables of a language depend on: its grammar and the version of Lark."""
    return sha256(f"{lark.__version__}\n{grammar_of(language)}".encode()).hexdigest().encode()
