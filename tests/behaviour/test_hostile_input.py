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
from tests.engines.random_graphs import RandomGraph
from tests.unit.query.random_mutations import MutationWriter

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
query staged($names: [String], $n: I64) {
    match {
        $p: Person  $c: Company { name: "x", size: $n + 1 }
        $path: all shortest $p <knows|worksAt>{0,3} $c
        optional { $p knows $f  $f.age + 1 > 2 * $p.age  optional { $f worksAt $g } }
        $p.city in ["oslo"] or ($p.name in $names and not $p.age is null)
        exists { $p knows $q  count { $q knows $_ } > 3 }
    }
    with distinct { $p as person, $c, count(distinct $f) as friends, collect($f.name) as all }
    having { friends > 1  all contains "a" } order { friends desc } limit 20 offset $n
    match { $person knows $x  $friends < $x.age }
    return {
        $person.*, coalesce($x.age, cast("1" as I64), -1) as age, $x is not null as there, $c
        case when $x.joined > now() - duration("P1DT2H") then substring(lower($x.name), 0, 3) else "" end as k
        date_diff("day", $x.joined, $x.joined) % 7 as d, round(avg($x.age), 2) as a
    }
    order { k, age desc } offset 1 limit $n
}
query change($when: DateTime) { // mixed
    insert Person { name: "Ada", bio: "" } /* and */ insert Knows { from: "Ada", to: "Ada" }
    update Person set { joined: $when } where name = "Ada" and age < 3
    delete Company where founded > date("2000-01-01")
}
query matched($name: String) {
    match { $p: Person { name: $name }  $p $k:knows $f  not { $f knows $p } }
    insert Knows { id: concat($f.name, "x"), from: $f, to: $p, since: $k.since } on conflict replace
    update $p set { age: age + count { $p knows $_ }, bio: upper(bio) } returning { id, age >= 18 as adult, * }
    delete $k
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


@settings(max_examples=300)
@given(st.integers(0, 10**6), st.booleans(), st.data())
def test_a_damaged_query_of_any_form_gives_only_findings(seed: int, writes: bool, data: st.DataObject) -> None:
    graph = RandomGraph.of_seed(seed, most_nodes=3)
    graph.rows()
    writer = MutationWriter(graph.pick, graph.catalog, graph.ids)
    text = (writer.mutation() if writes else writer.query()).text
    damaged = data.draw(mutations_of(text))
    assert_presentable(check_queries(Source("fuzzed.gq", damaged), graph.catalog).diagnostics)


_MANY: dict[str, Callable[[int], str]] = {
    "clauses": lambda many: _asking("  ".join(f"$p.age > {each}" for each in range(many))),
    "conditions": lambda many: _asking(" or ".join(f"$p.age = {each} and not $p.age = 3" for each in range(many))),
    "a list": lambda many: _asking(f"$p.age in [{', '.join(map(str, range(many)))}]"),
    "steps": lambda many: _asking("  ".join(f"$p{each} knows $p{each + 1}" for each in range(many))),
    "optional patterns": lambda many: _asking("  ".join(f"optional {{ $p knows $f{each} }}" for each in range(many))),
    "absent patterns": lambda many: _asking("not { $p knows $_ } " * many),
    "paths": lambda many: _asking("  ".join(f"$h{each}: shortest $p knows{{1,2}} $p" for each in range(many))),
    "columns": lambda many: (
        f"query q {{ match {{ $p: Person }} return {{ count($p) as n, {_columns(many)} }} "
        f"having {{ {'  '.join(f'c{each} > 1' for each in range(many))} }} "
        f"order {{ {', '.join(f'c{each}' for each in range(many))} }} }}"
    ),
    "branches": lambda many: (
        f"query q {{ match {{ $p: Person }} return {{ case {'when $p.age = 1 then 2 ' * many} end as x }} }}"
    ),
    "queries": lambda many: "\n".join(
        f"query q{each} {{ match {{ $p: Person }} return {{ $p.name }} }}" for each in range(many)
    ),
    "statements": lambda many: f"query q {{ {'update Person set { age: age + 1 } where age = 2 ' * many} }}",
    "mistakes": lambda many: _asking("  ".join(f"$p.unknown{each} = 1" for each in range(many))),
}


def _asking(clauses: str) -> str:
    return f"query q {{ match {{ $p: Person  {clauses} }} return {{ $p.name }} }}"


def _columns(many: int) -> str:
    return ", ".join(f"$p.age + {each} as c{each}" for each in range(many))


def steps_of(function: Callable[[], object]) -> int:
    """How many steps the interpreter makes: that is the same on each machine, however busy it is."""
    made = 0

    def count(_frame: object, event: str, _argument: object) -> object:
        nonlocal made
        made += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)  # type: ignore[arg-type]
    try:
        function()
    finally:
        sys.settrace(before)
    return made


@pytest.mark.parametrize("form", _MANY)
def test_checking_a_query_takes_time_in_proportion_to_its_length(form: str) -> None:
    few, many = _MANY[form](60), _MANY[form](240)
    query_findings(few)
    assert steps_of(lambda: query_findings(many)) < 6 * steps_of(lambda: query_findings(few))


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
