"""Whatever is thrown at the languages, the answer is a result or a typed error, soon."""

import pickle
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog import check_schema, compile_schema
from omnigraph.codes import Code
from omnigraph.compiler import check_queries
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.errors import SchemaError
from omnigraph.syntax import MAX_FAULTS, MAX_NESTING, QUERY, SCHEMA, decode_source, parse_queries
from tests.conftest import SOCIAL_SCHEMA

CATALOG = compile_schema(SOCIAL_SCHEMA)
QUERIES = """
query friends($name: String, $min: I32?) @description("who they \\u006bnow") {
    match {
        $p: Person { name: $name }
        $p $w:knows{1,1} $f
        $f.age >= $min
        $p <knows>{1,3} $g
        ["a", "b"] contains $f.name
        search($f.bio, "x")
        not { $f worksAt $_ }
    }
    return { $f.name, $f.age as years, $w.since, -1.5e3, date("2026-01-31") }
    order { rrf(nearest($f.embedding, $name), bm25($f.bio, "y"), k=10), years desc }
    limit 10
}
query change($when: DateTime) { // mixed
    insert Person { name: "Ada", bio: "" } /* and */ insert Knows { from: "Ada", to: "Ada" }
    update Person set { joined: $when } where name = "Ada" and age < 3
    delete Company where founded > date("2000-01-01")
}
"""
PARSER_WORDS = ("Token(", "Traceback", "lark.", "$END", "RBRACE", "LBRACE", "ENUM_VALUE", "NamedType", "<Scalar")


def schema_findings(text: str) -> tuple[Diagnostic, ...]:
    return check_schema(Source("fuzzed.pg", text)).diagnostics


def query_findings(text: str) -> tuple[Diagnostic, ...]:
    return check_queries(Source("fuzzed.gq", text), CATALOG).diagnostics


def assert_presentable(findings: tuple[Diagnostic, ...]) -> None:
    """Every finding can be shown, sent and stored, and tells nothing of the parser's insides."""
    for finding in findings:
        shown = finding.render()
        assert shown.encode("utf-8")
        assert "\0" not in shown
        assert not any(inside in shown and inside not in finding.excerpt for inside in PARSER_WORDS)
        assert pickle.loads(pickle.dumps(finding)) == finding  # noqa: S301


def mutations_of(text: str) -> st.SearchStrategy[str]:
    """The text with some of its parts cut, doubled, swapped, or replaced by something else."""
    positions = st.integers(0, len(text))
    fragments = st.text(max_size=4) | st.sampled_from(
        [
            '"',
            "{",
            "}",
            "(",
            ")",
            "[",
            "$",
            "@",
            "..",
            "/*",
            "//",
            "\\",
            "\0",
            "\ud800",
            "\ufeff",
            "99999999999999999999",
        ]
    )

    def apply(edits: list[tuple[int, int, str, bool]]) -> str:
        edited = text
        for start, length, fragment, doubled in edits:
            cut = edited[start : start + length]
            edited = edited[:start] + (cut + cut if doubled else "") + fragment + edited[start + length :]
        return edited

    edit = st.tuples(positions, st.integers(0, 40), fragments, st.booleans())
    return st.lists(edit, min_size=1, max_size=4).map(apply)


@settings(max_examples=2500)
@given(st.text())
def test_random_text_is_no_schema_and_says_why(text: str) -> None:
    assert_presentable(schema_findings(text))


@settings(max_examples=2500)
@given(st.text(alphabet=st.sampled_from('query match{}()[]$:=<>!".,@/*\\\n abc019_-?é\0')))
def test_random_text_is_no_query_and_says_why(text: str) -> None:
    assert_presentable(query_findings(text))


@settings(max_examples=2500)
@given(mutations_of(SOCIAL_SCHEMA))
def test_a_damaged_schema_gives_only_findings(text: str) -> None:
    assert_presentable(schema_findings(text))


@settings(max_examples=2500)
@given(mutations_of(QUERIES))
def test_a_damaged_query_gives_only_findings(text: str) -> None:
    assert_presentable(query_findings(text))


def test_the_undamaged_sources_are_right() -> None:
    assert not any(finding.is_error for finding in (*schema_findings(SOCIAL_SCHEMA), *query_findings(QUERIES)))


@pytest.mark.parametrize("depth", [MAX_NESTING + 1, 1_000, 100_000])
@pytest.mark.parametrize(
    "nested",
    [
        lambda depth: "query q { match { " + "not { " * depth + "} " * depth + "} return { 1 } }",
        lambda depth: "query q { match { $p: Person } return { " + "f(" * depth + ")" * depth + "} }",
        lambda depth: "query q { match { $p.x = " + "[" * depth + "]" * depth + "} return { 1 } }",
        lambda depth: "query q($x: " + "[" * depth + "String" + "]" * depth + ") { match {} return { 1 } }",
    ],
)
def test_deep_nesting_is_refused_without_recursion(nested: Callable[[int], str], depth: int) -> None:
    limit = sys.getrecursionlimit()
    findings = query_findings(nested(depth))
    assert [finding.code for finding in findings] == [Code.QUERY_NESTING]
    assert sys.getrecursionlimit() == limit


def test_nesting_up_to_the_limit_is_followed() -> None:
    depth = MAX_NESTING - 2
    text = "query q { match { $p: Person " + "not { " * depth + "$p.age = 1" + "} " * depth + "} return { $p.name } }"
    assert not any(finding.is_error for finding in query_findings(text))


@pytest.mark.parametrize(
    ("literal", "code"),
    [
        ("1" * 21, Code.QUERY_NUMBER),
        ("-" + "9" * 5_000, Code.QUERY_NUMBER),
        ("1" * 1_000_000, Code.QUERY_NUMBER),
        ("1e999", Code.QUERY_NUMBER),
        ("1." + "0" * 1_000_000, Code.QUERY_NUMBER),
    ],
)
def test_a_huge_number_is_refused(literal: str, code: Code) -> None:
    findings = query_findings(f"query q {{ match {{ $p: Person {{ age: {literal} }} }} return {{ $p }} }}")
    assert [finding.code for finding in findings] == [code]
    assert len(findings[0].render()) < 1_000


def test_a_text_of_megabytes_is_just_a_text() -> None:
    text = "x" * 3_000_000
    findings = query_findings(f'query q {{ match {{ $p: Person {{ bio: "{text}" }} }} return {{ $p.name }} }}')
    assert findings == ()


def test_an_unterminated_text_of_megabytes_is_one_finding() -> None:
    findings = query_findings('query q { match { $p: Person { bio: "' + "x\\y" * 1_000_000)
    assert [finding.code for finding in findings] == [Code.QUERY_UNTERMINATED]
    assert len(findings[0].render()) < 1_000


@pytest.mark.parametrize(
    "piece", ["query q { match { } return { } }\n", "{", '"', "/*", "// x\n", "\t", "é", "$a.b = 1 "]
)
def test_ten_megabytes_are_refused_at_once(piece: str) -> None:
    text = piece * (10_000_000 // len(piece.encode()) + 1)
    assert [finding.code for finding in query_findings(text)] == [Code.QUERY_TOO_LARGE]
    assert [finding.code for finding in schema_findings(text)] == [Code.SCHEMA_TOO_LARGE]


def test_a_source_of_nothing_but_mistakes_is_given_up_after_many() -> None:
    findings = query_findings("query q {\n" * 100_000)
    assert {finding.code for finding in findings} == {Code.QUERY_SYNTAX}
    assert len(findings) == MAX_FAULTS + 1
    assert "was not read" in findings[-1].message


@pytest.mark.parametrize("where", ["", "// ", '"'])
def test_a_nul_byte_is_refused_wherever_it_stands(where: str) -> None:
    findings = schema_findings(f"node A {{ }}\n{where}\0")
    assert [(finding.code, finding.line) for finding in findings] == [(Code.SCHEMA_UNREADABLE, 2)]


def test_a_byte_that_is_not_utf8_is_pointed_at() -> None:
    source, problem = decode_source("latin.gq", 'query é { }\n"caf\xe9"'.encode("latin-1"), QUERY)
    assert problem is not None
    assert (problem.code, problem.line, problem.column) == (Code.QUERY_UNREADABLE, 1, 7)
    assert source.name == "latin.gq"


def test_a_byte_order_mark_and_windows_lines_are_no_matter() -> None:
    source, problem = decode_source("windows.pg", b"\xef\xbb\xbfnode A {\r\n  name: String @key\r\n}\r\n", SCHEMA)
    assert problem is None
    assert check_schema(source).diagnostics == ()


def test_half_of_a_surrogate_pair_is_refused() -> None:
    assert [finding.code for finding in schema_findings("node A { } // \ud83d")] == [Code.SCHEMA_UNREADABLE]


def test_a_line_of_a_megabyte_is_shown_around_the_mistake() -> None:
    text = "query q { match { $p: Person { bio: " + '"' + "x" * 1_000_000 + '" ; } } return { $p } }'
    findings = query_findings(text)
    assert len(findings) == 1
    assert len(findings[0].render()) < 1_000
    assert "…" in findings[0].render()


def test_a_mistake_in_one_declaration_does_not_hide_the_others() -> None:
    parsed = parse_queries(
        Source("many.gq", "query a { }\nquery b() { match {} return { 1 } }\nquery c { match }\nquery d { oops }")
    )
    assert [query.name for query in parsed.tree.queries] == ["b"]
    assert [finding.line for finding in parsed.diagnostics] == [1, 3, 4]


def test_an_unclosed_brace_does_not_swallow_the_declarations_after_it() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema("node A { name: String\n\nnode B { size: Strng }\nnode C { size: In32 }\n")
    assert [finding.line for finding in caught.value.diagnostics] == [1, 3, 4]
