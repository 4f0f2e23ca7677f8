"""The tables that come with the package are those of the grammars, and both ways to read them read the same."""

import subprocess
import sys
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Tree
from lark.exceptions import UnexpectedInput

from omnigraph.diagnostics import Source
from omnigraph.syntax import QUERY, SCHEMA, Language, language, lark_parser, parse_queries
from omnigraph.syntax.parse import declarations_in
from omnigraph.syntax.tables import Tables
from tests.unit.syntax.printing import print_queries, print_schema
from tests.unit.syntax.strategies import query_files, schemas

TEXTS = {
    QUERY: "query q($x: String) { match { $a: A { x: $x } $a knows{1,3} $b } return { $b.x, count($a) as n } }",
    SCHEMA: "node A { x: String @key, n: I32? }",
}
QUERIES = (
    "query query { match { $a: A { not: 1, and: 2 as: $x } } return { $a.not as nothing, notx } limit 3 }",
    'query q { match { $a contains{1,2} $b  $a contains $b  $a.x starts_with "y" } return { $a.x } }',
    "query q { match { $a < 3  $a <knows> $b  $a <= 4  not { $a != $b } } return { [1, -2.5e3,] } order { $a desc } }",
    'query q { insert A { x: "1" y: date("2026-01-31") } update A set { x: 2 } where x=3 and y>4 delete A where x<5 }',
    "query q ( $x : enum(a-b, 1c,)? , $y: [Vector(3)?]? ) @a(x, y = [1, z]) @b { match{} return { f($x, k = 1,) } }",
    "queryq { match { } return { $a.x } }",
    "query q { match { $a: A // end\n /* in\n between */ } return { $a.x } }",
    "query q { match { $a: A } return { asx } order { $a.xasc } limit $n }",
    "query q { match { $a:A{x:1y:2} } return { $a.x as\u00a0y } }",
    "query é { match { } return { 1 } }",
    "",
)
SCHEMAS = (
    "interface Named { name: String? @index }",
    "edge E: A -> B @card(0..) { x: I32 @range(0..5) @range(..3) @enum }",
    'node A implements B, C @key(x) { x: enum(a, b), y: Vector(8)? @embed("x", model = "m"), @unique(x, y) }',
    "node nodes { node: String, enum: F64 }",
    "edge E : A->B",
    "node A { x: String? ? }",
)
each_language = pytest.mark.parametrize("spoken", [QUERY, SCHEMA], ids=["query", "schema"])


class Recorder:
    """A builder whose nodes show how they were made."""

    def __getattr__(self, name: str) -> Any:
        return lambda *children: (name, *map(described, children))


def described(child: Any) -> Any:
    return (child.type, str(child), child.start_pos, child.end_pos) if hasattr(child, "start_pos") else child


def recorded(tree: Any) -> Any:
    """What `Recorder` makes of a tree of Lark."""
    if not isinstance(tree, Tree):
        return described(tree)
    return (tree.data, *(recorded(child) for child in tree.children))


def check_both_ways(text: str, spoken: Language) -> None:
    """Both ways accept a text, and read the same in it, or neither does."""
    tables = language.tables_of(spoken)
    assert isinstance(tables, Tables)
    try:
        expected = recorded(lark_parser.parser_of(spoken).parse(text))
    except UnexpectedInput:
        expected = None
    assert tables.read(text, Recorder()) == expected


@each_language
def test_the_tables_fit_the_grammar_and_the_tested_lark(spoken: Language) -> None:
    """If this fails, run `python -m tools.grammars`."""
    lines = language.tables_file(spoken).split(b"\n", 2)
    assert lines[:2] == [lark_parser.fingerprint(spoken), language.grammar_print(spoken)]


@each_language
def test_the_tables_parse_as_the_grammar_does(spoken: Language) -> None:
    expected, parser = lark_parser.build_parser(spoken), lark_parser.parser_of(spoken)
    assert parser.parse(TEXTS[spoken]) == expected.parse(TEXTS[spoken])
    assert {each.name for each in parser.terminals} == {each.name for each in expected.terminals}


@each_language
def test_with_another_lark_the_parser_is_built_from_the_grammar(spoken: Language) -> None:
    with mock.patch("lark.__version__", "0"):
        parser = lark_parser._parser.__wrapped__(spoken)
    assert parser.parse(TEXTS[spoken]) == lark_parser.parser_of(spoken).parse(TEXTS[spoken])


def test_with_another_grammar_lark_reads_alone() -> None:
    source = Source("q.gq", TEXTS[QUERY])
    expected = parse_queries(source)
    with mock.patch.object(language, "grammar_print", return_value=b"another"):
        assert language.tables_of.__wrapped__(QUERY) is None
    with mock.patch("omnigraph.syntax.parse.tables_of", return_value=None):
        assert parse_queries(source) == expected


@pytest.mark.parametrize("text", QUERIES)
def test_queries_are_read_as_by_lark(text: str) -> None:
    check_both_ways(text, QUERY)


@pytest.mark.parametrize("text", SCHEMAS)
def test_schemas_are_read_as_by_lark(text: str) -> None:
    check_both_ways(text, SCHEMA)


@st.composite
def changed(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> str:
    """A text, of which a part may be gone, doubled or replaced."""
    text = draw(texts)
    first, second = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    second = min(second, first + draw(st.integers(0, 8)))
    words = ("", " ", "not", "as", "asc", "1", "-", '"', "$x", "{", "}", "(", ",", "<", "=", "//", "/*", "..", "é", "?")
    middle = draw(st.sampled_from([*words, text[first:second], text[first:second] * 2]))
    return text[:first] + middle + text[second:]


@settings(max_examples=150)
@given(changed(query_files.map(print_queries)))
def test_printed_queries_are_read_as_by_lark(text: str) -> None:
    for piece in declarations_in(text, QUERY):
        check_both_ways(text[piece.span.start : piece.span.end], QUERY)


@settings(max_examples=150)
@given(changed(schemas.map(print_schema)))
def test_printed_schemas_are_read_as_by_lark(text: str) -> None:
    for piece in declarations_in(text, SCHEMA):
        check_both_ways(text[piece.span.start : piece.span.end], SCHEMA)


def test_a_source_without_faults_does_not_import_lark() -> None:
    script = f"""
import sys
from omnigraph.diagnostics import Source
from omnigraph.syntax import parse_queries, parse_schema
assert not parse_queries(Source("a.gq", {TEXTS[QUERY]!r})).diagnostics
assert not parse_schema(Source("a.pg", {TEXTS[SCHEMA]!r})).diagnostics
assert "lark" not in sys.modules
assert parse_schema(Source("a.pg", "node A {{ x }}")).diagnostics
assert "lark" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)
