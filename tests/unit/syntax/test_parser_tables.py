"""The parser tables that come with the package are those of the grammars."""

from importlib import resources
from unittest import mock

import pytest

from omnigraph.syntax import QUERY, SCHEMA, Language, language

TEXTS = {
    QUERY: "query q($x: String) { match { $a: A { x: $x } $a knows{1,3} $b } return { $b.x, count($a) as n } }",
    SCHEMA: "node A { x: String @key, n: I32? }",
}
each_language = pytest.mark.parametrize("spoken", [QUERY, SCHEMA], ids=["query", "schema"])


@each_language
def test_the_tables_fit_the_grammar_and_the_tested_lark(spoken: Language) -> None:
    """If this fails, run `python -m tools.grammars`."""
    lines = (resources.files("omnigraph.syntax") / spoken.tables).read_bytes().splitlines()
    assert lines[0] == language.fingerprint(spoken)


@each_language
def test_the_tables_parse_as_the_grammar_does(spoken: Language) -> None:
    expected = language.build_parser(spoken)
    assert language.parser_of(spoken).parse(TEXTS[spoken]) == expected.parse(TEXTS[spoken])
    assert {each.name for each in language.parser_of(spoken).terminals} == {each.name for each in expected.terminals}


@each_language
def test_with_another_lark_the_parser_is_built_from_the_grammar(spoken: Language) -> None:
    with mock.patch("lark.__version__", "0"):
        parser = language._parser.__wrapped__(spoken)
    assert parser.parse(TEXTS[spoken]) == language.parser_of(spoken).parse(TEXTS[spoken])
