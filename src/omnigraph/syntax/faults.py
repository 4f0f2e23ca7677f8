"""Turns what the parser could not accept into a sentence: what was found, what was expected, what to write."""

import re
from collections.abc import Iterable
from contextlib import suppress

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.lexer import PatternStr

from omnigraph.diagnostics import Span, nearest_name, printable, quoted
from omnigraph.syntax.habits import READ_HINT, WHICH_HINT, hint_of_habit, hint_of_word
from omnigraph.syntax.language import Language, SourceFault, landmarks_of
from omnigraph.syntax.lark_parser import parser_of

_DESCRIPTIONS = {
    "NAME": "a name",
    "STRING": "a text in double quotes",
    "NUMBER": "a number",
    "UNSIGNED": "a number",
    "EITHER_WAY": "an edge such as `<knows>`",
    "NOT_IN": "`not in`",
    "IS_NULL": "`is null`",
    "IS_NOT_NULL": "`is not null`",
    "CASE_WHEN": "`case when`",
    "OPTIONAL": "`optional {`",
    "RETURNING": "`returning {`",
    "ON_CONFLICT": "`on conflict`",
    "SUB_PATTERN": "`exists {` or `count {`",
    "DIVIDED_BY": "`/`",
    "VARIABLE": "a variable such as `$x`",
    "ENUM_VALUE": "an enum value",
    "SYSTEM_NAME": "a system name such as `@id`",
    "$END": "the end of the declaration",
}
_VALUE_TERMINALS = frozenset(
    {"STRING", "UNSIGNED", "VARIABLE", "NAME", "LSQB", "LPAR", "MINUS", "CASE_WHEN", "SUB_PATTERN"}
    | {"TRUE", "FALSE", "NULL"}
)
_COMPARISONS = frozenset(
    {"EQUAL", "NOT_EQUAL", "LESS", "LESS_OR_EQUAL", "GREATER", "GREATER_OR_EQUAL", "CONTAINS", "STARTS_WITH"}
    | {"IN", "NOT_IN", "IS_NULL", "IS_NOT_NULL"}
)
_ARITHMETIC = frozenset({"PLUS", "MINUS", "TIMES", "DIVIDED_BY", "MODULO"})
_HINTS = {
    "'": 'a text is written in double quotes: "like this"',
    "“": 'a text is written in straight double quotes: "like this"',
    "”": 'a text is written in straight double quotes: "like this"',
    "#": "a comment starts with `//`",
    ";": "semicolons are not used; a new line is enough",
    "|": "conditions are joined by `or`",
    "&": "conditions are joined by `and`",
    "!": "not equal is `!=`; a condition is negated by `not`, and a pattern by `not { … }`",
    "$": "a variable is a dollar and a name: `$x`",
}
_BLOCK_WORDS = frozenset({"match", "with", "return", "having", "order", "limit", "offset", "union"})
_WORD_BEFORE = re.compile(r"(?<![.$\w])([A-Za-z]{1,9})\s*\Z")


def fault_of(error: UnexpectedInput, declaration: str, base: int, language: Language) -> SourceFault:
    """The fault behind a Lark error in `declaration`, which stands at offset `base` of its source."""
    unended = _unended_text(declaration, language)
    if unended is not None:
        line_end = declaration.find("\n", unended)
        rest = Span(base + unended, base + (line_end if line_end >= 0 else len(declaration)))
        return SourceFault(language.code("UNTERMINATED"), 'unterminated text: its closing `"` is missing', rest)
    expected = _expected_in(declaration, language)
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        return _unexpected_token(error.token, declaration, base, language, expected)
    if isinstance(error, UnexpectedCharacters):
        return _unexpected_character(declaration, error.pos_in_stream or 0, base, language, expected)
    return _early_end(declaration, base, language, expected)


def _unended_text(declaration: str, language: Language) -> int | None:
    """Where the text begins whose end is missing, if one is; the first that has several lines probably is that text."""
    texts = [each for each in landmarks_of(language, at_line_start=False).finditer(declaration) if each["text"]]
    if not texts or texts[-1]["ended"]:
        return None
    return next((each.start() for each in texts if "\n" in each["text"]), texts[-1].start())


def _expected_in(declaration: str, language: Language) -> set[str]:
    """The terminals that could have stood where `declaration` fails.

    Found by parsing once more, step by step: the list in the error itself also names terminals that the parser would
    only have rejected later.
    """
    steps = parser_of(language).parse_interactive(declaration)
    with suppress(UnexpectedInput):
        steps.exhaust_lexer()
    accepted: set[str] = steps.accepts()  # type: ignore[no-untyped-call]
    return accepted


def _unexpected_token(token: Token, declaration: str, base: int, language: Language, expected: set[str]) -> SourceFault:
    parser = parser_of(language)
    start, end = token.start_pos or 0, token.end_pos or 0
    before = declaration[max(0, start - 80) : start]
    hint = _hint_of_word_before(before, expected) or _token_hint(token, before, expected, language)
    hint = hint_of_habit(before, declaration[start : start + 8], language) or hint
    message = f"expected {_listing(expected, parser)}, found {quoted(str(token))}"
    return SourceFault(language.code("SYNTAX"), message, Span(base + start, base + end), hint)


def _hint_of_word_before(text: str, expected: set[str]) -> str | None:
    """What is wrong with the word before a fault, if it was taken for a name: a call or comparison could follow it."""
    word = _WORD_BEFORE.search(text)
    if word is None or not ("LPAR" in expected or expected >= _COMPARISONS):
        return None
    if word[1] == "match" and text[: word.start(1)].rstrip().endswith("optional"):
        return hint_of_word("optional")
    if word[1] in _BLOCK_WORDS:
        return f"is a closing `}}` missing before `{word[1]}`?"
    return hint_of_word(word[1])


def _token_hint(token: Token, before: str, expected: set[str], language: Language) -> str | None:
    found, terminal = str(token), token.type
    if terminal == "EQUAL" and _VALUE_TERMINALS & expected:
        return "equality is written with one `=`"
    if found == "*":
        return _star_hint(before)
    if terminal == "GREATER" and before.endswith("<"):
        return "not equal is written `!=`"
    if found == "," and {"NOT", "VARIABLE"} <= expected:
        return "clauses are separated by white space only"
    if found == "{" and before.split() == ["query"]:
        return "write `query NAME { … }`, or leave out `query` and its braces"
    if found == "query" and "$END" in expected:
        return "a query without a header is alone in its source; write `query NAME { … }` around it"
    if "RETURNING" in expected and nearest_name(found, ("return", "returning")) is not None:
        return "the values of what a statement wrote are returned by `returning { … }`"
    hint = _hint_of_found_word(found, before, expected, language)
    if hint is not None:
        return hint
    if found in _HINTS:
        return _HINTS[found]
    if found == "?":
        return "only a whole property or parameter can be nullable: `[String]?`, not `[String?]`"
    keywords = [
        text for name in expected if (text := _fixed_text(name, parser_of(language))) is not None and text.isalpha()
    ]
    nearest = nearest_name(found, keywords)
    return f"did you mean {quoted(nearest)}?" if nearest is not None else None


def _hint_of_found_word(found: str, before: str, expected: set[str], language: Language) -> str | None:
    """What to write instead of a word that other languages have there, or where braces are missing."""
    if expected == {"WHERE"}:
        return WHICH_HINT
    if found == "return" and "MATCH" in expected:
        return READ_HINT
    if found == "match" and "WITH" in expected:
        return "a query has one `match` for all its clauses, and another one after a stage: `with { … } match { … }`"
    hint = hint_of_word(found, language)
    if hint is not None:
        return hint
    braced = _WORD_BEFORE.search(before)
    if found != "{" and "LBRACE" in expected and braced is not None and braced[1] in _BLOCK_WORDS:
        return f"`{braced[1]}` has braces: `{braced[1]} {{ … }}`"
    return None


def _star_hint(before: str) -> str:
    if before.endswith("."):
        return "all properties of a variable can be columns of `return` only: `return { $x.* }`"
    if before.rstrip().endswith(("{", ",")):
        return "all properties of a variable are written `$x.*`"
    if before.rstrip().endswith("("):
        return "to count rows, count a variable: `count($x)`"
    return "a path of several edges is written with hop bounds: `$a knows{1,3} $b`"


def _unexpected_character(declaration: str, at: int, base: int, language: Language, expected: set[str]) -> SourceFault:
    character = declaration[at]
    line_end = declaration.find("\n", at)
    rest = Span(base + at, base + (line_end if line_end >= 0 else len(declaration)))
    if declaration.startswith("/*", at):
        return SourceFault(language.code("UNTERMINATED"), "unterminated comment: its closing `*/` is missing", rest)
    hint = hint_of_habit(declaration[max(0, at - 80) : at], declaration[at : at + 8], language) or _HINTS.get(character)
    if character == "*":
        hint = _star_hint(declaration[:at])
    if hint is None and character.isalpha():
        hint = "names are made of the letters a to z, digits and `_`"
    expected_text = _listing(expected, parser_of(language))
    shown = quoted(character) if character.isprintable() else f"the character `{printable(character)}`"
    return SourceFault(
        language.code("SYNTAX"), f"expected {expected_text}, found {shown}", Span(base + at, base + at + 1), hint
    )


def _early_end(declaration: str, base: int, language: Language, expected: set[str]) -> SourceFault:
    end = base + len(declaration.rstrip())
    hint = "is a closing `}` missing?" if "RBRACE" in expected else None
    return SourceFault(
        language.code("SYNTAX"),
        f"unexpected end of the {language.name}: expected {_listing(expected, parser_of(language))}",
        Span(max(base, end - 1), end),
        WHICH_HINT if expected == {"WHERE"} else hint,
    )


def _listing(terminals: Iterable[str], parser: Lark) -> str:
    """The terminals as people name them, the many that begin a value or compare two as one."""
    names = set(terminals)
    if "NAME" in names:
        names.discard("SYSTEM_NAME")
    described: list[str] = []
    if names >= _COMPARISONS:
        names -= _COMPARISONS
        described.append("a comparison such as `=`")
        if names >= _ARITHMETIC:
            names -= _ARITHMETIC - _VALUE_TERMINALS
            described.append("an operator such as `+`")
    if names >= _VALUE_TERMINALS:
        names -= _VALUE_TERMINALS
        described.append("a value")
    described += sorted(_describe_terminal(name, parser) for name in names)
    if not described:
        return "nothing more"
    if len(described) == 1:
        return described[0]
    return f"{', '.join(described[:-1])} or {described[-1]}"


def _describe_terminal(terminal: str, parser: Lark) -> str:
    if terminal in _DESCRIPTIONS:
        return _DESCRIPTIONS[terminal]
    text = _fixed_text(terminal, parser)
    return f"`{text}`" if text is not None else "something else"


def _fixed_text(terminal: str, parser: Lark) -> str | None:
    if terminal == "$END":
        return None
    pattern = parser.get_terminal(terminal).pattern
    return pattern.value if isinstance(pattern, PatternStr) else None
