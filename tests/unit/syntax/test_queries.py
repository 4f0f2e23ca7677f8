"""How query text is read."""

from dataclasses import replace

import pytest

from omnigraph.codes import Code
from omnigraph.diagnostics import Source, Span
from omnigraph.syntax import parse_queries
from omnigraph.syntax.nodes import IntLiteral, ListLiteral, NullLiteral, TextLiteral
from omnigraph.syntax.printer import print_clause
from omnigraph.syntax.query_ast import (
    AllProperties,
    Arithmetic,
    ArithmeticOperator,
    BareName,
    Binding,
    Clause,
    ComparisonExpression,
    DeleteStatement,
    Filter,
    FunctionCall,
    Hops,
    InsertStatement,
    Inversion,
    Membership,
    MutationBody,
    Negation,
    NullTest,
    Operator,
    OptionalClause,
    PathClause,
    PathStepClause,
    Projection,
    PropertyAccess,
    Query,
    ReadBody,
    SubPatternExpression,
    SubPatternKind,
    TraversalClause,
    Variable,
)


def only_query(text: str) -> Query:
    parsed = parse_queries(Source("test.gq", text))
    assert parsed.diagnostics == ()
    (query,) = parsed.tree.queries
    return query


def match_of(clauses: str, parameters: str = "") -> tuple[Clause, ...]:
    body = only_query(f"query q({parameters}) {{ match {{ {clauses} }} return {{ 1 }} }}").body
    assert isinstance(body, ReadBody)
    return body.match


def refusal(text: str) -> tuple[Code, str, str | None]:
    (finding,) = parse_queries(Source("test.gq", text)).diagnostics
    return finding.code, finding.message, finding.hint


A, B, W = Variable("a"), Variable("b"), Variable("w")
KNOWS = TraversalClause(A, "knows", B)
P = Variable("p")
HAS = BareName("has")
PATH = PathClause(variable=P, source=A, edges=(BareName("knows"),), destination=B, hops=Hops(1, 6))
ONE = ListLiteral((IntLiteral(1),))
EXISTS = SubPatternKind.EXISTS


def test_a_text_may_have_line_breaks_and_keeps_them() -> None:
    text = 'query q { insert A { x: "one\r\n  { two \\" // query z {\n", y: 1 } }\nquery r { delete A where x = "\n" }'
    parsed = parse_queries(Source("test.gq", text))
    assert parsed.diagnostics == ()
    first, second = (query.body for query in parsed.tree.queries)
    assert isinstance(first, MutationBody)
    assert isinstance(second, MutationBody)
    (insert,), (delete,) = first.statements, second.statements
    assert isinstance(insert, InsertStatement)
    assert isinstance(delete, DeleteStatement)
    assert insert.assignments[0].value == TextLiteral('one\r\n  { two " // query z {\n')
    assert delete.where == ComparisonExpression(BareName("x"), Operator.EQUAL, TextLiteral("\n"))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('query a {\n insert A { x: "one, y: 1 }\n}\nquery b { delete A where x = "1" }', (2, 16)),
        ('query a {\n insert A { x: "one,\n y: "two" }\n}\nquery b { delete A where x = "1" }', (2, 16)),
        ('query b { delete A where x = "1" }\nquery a { insert A { x: "a" y: "b\n } }', (2, 32)),
        ('query b { delete A where x = "1" }\nquery a { // "a\n insert A { x: "a } }', (3, 16)),
    ],
)
def test_a_text_without_an_end_is_one_finding_where_it_begins(text: str, place: tuple[int, int]) -> None:
    parsed = parse_queries(Source("test.gq", text))
    (finding,) = parsed.diagnostics
    assert (finding.code, finding.line, finding.column) == (Code.QUERY_UNTERMINATED, *place)
    assert [query.name for query in parsed.tree.queries] == ["b"]


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("$a knows $b", TraversalClause(A, "knows", B)),
        ("$a knows{1,3} $b", TraversalClause(A, "knows", B, Hops(1, 3))),
        ("$a knows{2,} $b", TraversalClause(A, "knows", B, Hops(2, None))),
        ("$a <knows> $b", TraversalClause(A, "knows", B, undirected=True)),
        ("$a <knows>{1,2} $b", TraversalClause(A, "knows", B, Hops(1, 2), undirected=True)),
        ("$a $w:knows $b", TraversalClause(A, "knows", B, binding=W)),
        ("$a $w:<knows> $b", TraversalClause(A, "knows", B, undirected=True, binding=W)),
        ("$a $w : < knows > {1,1} $b", TraversalClause(A, "knows", B, Hops(1, 1), undirected=True, binding=W)),
        ("$a $w : knows{1,1} $b", TraversalClause(A, "knows", B, Hops(1, 1), binding=W)),
        ("$a: Person", Binding(A, "Person")),
        ("$a.x = null", Filter(ComparisonExpression(PropertyAccess(A, "x"), Operator.EQUAL, NullLiteral()))),
        ("$a.x<$b.y", Filter(ComparisonExpression(PropertyAccess(A, "x"), Operator.LESS, PropertyAccess(B, "y")))),
        ("$a < 3", Filter(ComparisonExpression(A, Operator.LESS, IntLiteral(3)))),
        ("$a < b", Filter(ComparisonExpression(A, Operator.LESS, BareName("b")))),
        ("[1] contains $b.x", Filter(ComparisonExpression(ONE, Operator.CONTAINS, PropertyAccess(B, "x")))),
        ("$p: shortest $a knows{1,6} $b", PATH),
        ("$p: all shortest $a knows{1,6} $b", replace(PATH, every=True)),
        (
            "$p: all /* of them */ shortest $a < knows >{1,} $b",
            replace(PATH, every=True, undirected=True, hops=Hops(1, None)),
        ),
        ("$p: shortest $a knows|has{1,6} $b", replace(PATH, edges=(*PATH.edges, HAS))),
        ("$p: shortest $a <knows | has>{1,6} $b", replace(PATH, edges=(*PATH.edges, HAS), undirected=True)),
        ("$p: shortest $a knows{1,6} $b by has", replace(PATH, weight=HAS)),
        ("$a $p $b", PathStepClause(A, P, B)),
        ("$a $w:$p $b", PathStepClause(A, P, B, W)),
        ("$a by $b", TraversalClause(A, "by", B)),
        ("$a shortest $b", TraversalClause(A, "shortest", B)),
        ("not { $a knows $b }", Negation((TraversalClause(A, "knows", B),))),
        ("optional { $a knows $b }", OptionalClause((KNOWS,))),
        ("optional /* { */ {}", OptionalClause(())),
        ("optional { not { optional { $a knows $b } } }", OptionalClause((Negation((OptionalClause((KNOWS,)),)),))),
        ("$a optional $b", TraversalClause(A, "optional", B)),
        ("$a optional{1,2} $b", TraversalClause(A, "optional", B, Hops(1, 2))),
        ("$a optional { 1, } $b", TraversalClause(A, "optional", B, Hops(1, None))),
        ("$a $w:optional $b", TraversalClause(A, "optional", B, binding=W)),
        (
            "not exists { $a knows $b }",
            Filter(Inversion(SubPatternExpression(EXISTS, (KNOWS,)))),
        ),
        ("$a.x not in [1]", Filter(Membership(PropertyAccess(A, "x"), ONE, negated=True))),
        ("$a.x is // no\n not null", Filter(NullTest(PropertyAccess(A, "x"), negated=True))),
        ("$a in{1,2} $b", TraversalClause(A, "in", B, Hops(1, 2))),
        ("$a or $b", TraversalClause(A, "or", B)),
        ("$a and $b", TraversalClause(A, "and", B)),
        ("$a not $b", TraversalClause(A, "not", B)),
        ("$a is $b", TraversalClause(A, "is", B)),
        ("$a case $b", TraversalClause(A, "case", B)),
        ("$a <in> $b", TraversalClause(A, "in", B, undirected=True)),
    ],
)
def test_a_clause_reads_as_what_it_means(clause: str, expected: Clause) -> None:
    assert match_of(clause) == (expected,)


@pytest.mark.parametrize(
    ("written", "grouped"),
    [
        ("$a.x = 1 or $a.y = 2 and not $a.z = 3", "$a.x = 1 or ($a.y = 2 and (not ($a.z = 3)))"),
        ("$a.x + 2 * $a.y - 1 < 4", "(($a.x + (2 * $a.y)) - 1) < 4"),
        ("$a.x - 1 - 2 = 3 % 2 / 5", "(($a.x - 1) - 2) = ((3 % 2) / 5)"),
        ("-$a.x * -2 > --$a.y", "((-$a.x) * (-2)) > (-(-$a.y))"),
        ("$a.x -1 > 0", "($a.x - 1) > 0"),
        ("not $a.x in [1] or $a.y is null", "(not ($a.x in [1])) or ($a.y is null)"),
    ],
)
def test_operators_bind_as_in_sql(written: str, grouped: str) -> None:
    assert match_of(written) == match_of(grouped)


def test_what_is_printed_has_only_the_brackets_it_needs() -> None:
    text = "($a.x or $a.y) and -($a.z + 1) * 2 = 3 - (2 - 1)"
    (clause,) = match_of(text)
    assert print_clause(clause) == text


def test_a_bracket_after_a_truth_value_begins_a_clause() -> None:
    assert len(match_of("$a.x = true ($a.y = null) ($a.z = 1)")) == 3
    assert match_of("$a true $b") == (TraversalClause(A, "true", B),)


def test_an_expression_that_is_too_deep_is_refused() -> None:
    deep = "not " * 70 + "$a.x = 1"
    assert refusal(f"query q {{ match {{ {deep} }} return {{ 1 }} }}")[0] is Code.QUERY_NESTING
    long = " + ".join(["$a.x"] * 70)
    assert refusal(f"query q {{ match {{ $a: A }} return {{ {long} }} }}")[0] is Code.QUERY_NESTING
    assert len(match_of(" or ".join(["$a.x = 1"] * 500))) == 1


def test_contains_between_variables_is_a_traversal() -> None:
    assert match_of("$a contains $b") == (TraversalClause(A, "contains", B),)
    assert match_of("not { $a contains{1,2} $b }") == (Negation((TraversalClause(A, "contains", B, Hops(1, 2)),)),)


def test_contains_on_a_parameter_is_a_filter() -> None:
    assert match_of("$a contains $b", "$a: [String]") == (Filter(ComparisonExpression(A, Operator.CONTAINS, B)),)
    assert match_of("$a contains $b", "$b: String") == (Filter(ComparisonExpression(A, Operator.CONTAINS, B)),)


def test_clauses_need_no_separator() -> None:
    clauses = match_of("$a: Person { x: 1 y: 2 } $a knows $b $a.x = $b.y $a $w:knows $b search($a.x, 1) not { }")
    assert len(clauses) == 6


def test_keywords_are_names_where_nothing_else_could_stand() -> None:
    query = only_query(
        "query query($match: String) { insert order { limit: 1 desc: 2 not: 3, set: $match } "
        "delete where where and = 1 and order = 2 }"
    )
    assert isinstance(query.body, MutationBody)
    insert = query.body.statements[0]
    assert isinstance(insert, InsertStatement)
    assert [assignment.property for assignment in insert.assignments] == ["limit", "desc", "not", "set"]


def test_a_limit_and_an_offset_may_stand_in_either_order() -> None:
    begin = "query q { match { $a: Person } return { $a.name } order { $a.name } "
    query = only_query(begin + "limit 10 offset $n }")
    assert isinstance(query.body, ReadBody)
    assert (query.body.shape.limit, query.body.shape.offset) == (IntLiteral(10), Variable("n"))
    assert only_query(begin + "offset $n limit 10 }") == query


def test_distinct_is_a_name_where_no_value_begins() -> None:
    query = only_query(
        "query q { match { $distinct: A  $distinct distinct $b } "
        "return distinct { count(distinct $distinct.distinct) as distinct } "
        "having { distinct > 1 } order { distinct } }"
    )
    assert isinstance(query.body, ReadBody)
    shape = query.body.shape
    assert shape.distinct
    counted = FunctionCall("count", (PropertyAccess(Variable("distinct"), "distinct"),), (), True)
    assert shape.returns == (Projection(counted, "distinct"),)
    assert shape.having == (ComparisonExpression(BareName("distinct"), Operator.GREATER, IntLiteral(1)),)
    assert shape.order[0].expression == BareName("distinct")


def test_all_properties_may_stand_beside_other_columns() -> None:
    query = only_query("query q { match { $a: A } return { $a.* $a.x -1, $a . /* all */ * } }")
    assert isinstance(query.body, ReadBody)
    first, second, third = query.body.shape.returns
    assert first == third == AllProperties(A)
    assert second == Projection(Arithmetic(PropertyAccess(A, "x"), ArithmeticOperator.MINUS, IntLiteral(1)))


def test_a_query_without_parameters_may_leave_out_the_brackets() -> None:
    assert only_query("query all { delete A where x = 1 }") == only_query("query all() { delete A where x = 1 }")


@pytest.mark.parametrize(
    "body",
    [
        "match { $a: A } return { $a.x } limit 3",
        "match { $a: A } with { $a } return { $a.* }",
        'insert A { x: 1 } delete A where query = "query b {"',
        "match { $a: A } update $a set { x: 1 }",
        "update A set { x: 1 } where query // query b { }\n or\nquery is null",
    ],
)
def test_a_query_may_be_without_its_header(body: str) -> None:
    text = f"  // alone\n {body} /* the end */"
    query = only_query(text)
    assert query == replace(only_query(f"query q {{ {body}\n }}"), name="")
    assert text[query.span.start] == body[0]
    assert query.body == only_query(f"query q {{ {body}\n }}").body


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("match { $a: A } return { 1 } query b { delete A where x = 1 }", "alone in its source"),
        ("delete A where x = 1\nquery b { match { $a: A } return { 1 } }", "alone in its source"),
        ("query { match { $a: A } return { 1 } }", "`query NAME { … }`"),
        ("mtach { $a: A } return { 1 }", "`match`"),
        ("query a { delete A where x = 1 } delete A where x = 2", None),
        ("match { $a: A } return { 1 } match { $a: A } return { 1 }", None),
        ("match { $a: A } return { 1 } }", None),
        ("match { $a: A }", None),
        ("return { 1 }", None),
    ],
)
def test_a_query_without_its_header_is_alone_and_whole(text: str, hint: str | None) -> None:
    found, _, advice = refusal(text)
    assert found == Code.QUERY_SYNTAX
    assert hint is None or hint in (advice or "")


def test_the_nesting_of_a_query_without_its_header_is_bounded() -> None:
    found, _, _ = refusal(f"match {{ {'not { ' * 64}$a: A {'} ' * 64} }} return {{ 1 }}")
    assert found == Code.QUERY_NESTING


def test_text_escapes_are_those_of_json() -> None:
    (clause,) = match_of(r'$a.x = "\" \\ \/ \n \t é \ud83d\ude00"')
    assert isinstance(clause, Filter)
    assert isinstance(clause.condition, ComparisonExpression)
    assert clause.condition.right == TextLiteral('" \\ / \n \t é 😀')


def test_positions_are_those_of_the_source() -> None:
    text = "// first\nquery q { match {} return { 1 } }\nquery r { match { $a: Person } return { $a.name } }"
    query = parse_queries(Source("test.gq", text)).tree.queries[1]
    assert isinstance(query.body, ReadBody)
    binding = query.body.match[0]
    assert text[query.span.start : query.span.end] == "r"
    assert text[binding.span.start : binding.span.end] == "Person"
    (column,) = query.body.shape.returns
    assert isinstance(column, Projection)
    access = column.expression
    assert isinstance(access, PropertyAccess)
    assert text[slice(*access.name_span)] == "name"
    assert Source("test.gq", text).position(access.span.start) == (3, 41)
    assert access.span == Span(access.span.start, access.span.start + len("$a.name"))


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("query q { match { $a.x == 1 } return { 1 } }", Code.QUERY_SYNTAX, "one `=`"),
        ("query q { match { $a.x <> 1 } return { 1 } }", Code.QUERY_SYNTAX, "`!=`"),
        ("query q { match { $a.x = 'x' } return { 1 } }", Code.QUERY_SYNTAX, "double quotes"),
        ("query q { match { $a: A, $b: B } return { 1 } }", Code.QUERY_SYNTAX, "white space"),
        ("query q { match { $a: A } return { count(*) } }", Code.QUERY_SYNTAX, "count($x)"),
        ("query q { match { $a: A return { 1 } }", Code.QUERY_SYNTAX, "before `return`"),
        ("query q { mtach { $a: A } return { 1 } }", Code.QUERY_SYNTAX, "`match`"),
        ("qurey q { match { $a: A } return { 1 } }", Code.QUERY_SYNTAX, "`query`"),
        ("query q { match { $a knows{2} $b } return { 1 } }", Code.HOP_BOUNDS, "{2,2}"),
        ("query q { match { $a knows{3,2} $b } return { 1 } }", Code.HOP_BOUNDS, None),
        ("query q { match { $p: shortest $a knows $b } return { 1 } }", Code.HOP_BOUNDS, "knows{1,6}"),
        ("query q { match { $p: shortest $a <x | y> $b } return { 1 } }", Code.HOP_BOUNDS, "x|y{1,}"),
        ('query q { match { $a.x = "\\q" } return { 1 } }', Code.QUERY_ESCAPE, "known escapes"),
        ('query q { match { $a.x = date("2026-02-30") } return { 1 } }', Code.QUERY_DATE, "2026-01-31"),
        ('query q { match { $a.x = datetime("2026-02-03T10:00:00") } return { 1 } }', Code.QUERY_DATE, "zone"),
        ("query q($d: String) { match { $a.x = date($d) } return { 1 } }", Code.QUERY_DATE, "$x: Date"),
        ('query q { match { $a.x = "abc } return { 1 } }', Code.QUERY_UNTERMINATED, None),
        ("query q { match { /* } return { 1 } }", Code.QUERY_UNTERMINATED, None),
        ("query q { match { $a.x = 1 || $a.x = 2 } return { 1 } }", Code.QUERY_SYNTAX, "`or`"),
        ("query q { match { $a.x = 1 && $a.x = 2 } return { 1 } }", Code.QUERY_SYNTAX, "`and`"),
        ("query q { match { $a.x between 1 and 3 } return { 1 } }", Code.QUERY_SYNTAX, "`$x.p >= 1"),
        ("query q { match { $a.x is none } return { 1 } }", Code.QUERY_SYNTAX, "`is null`"),
        ("query q { match { optional match { $a knows $b } } return { 1 } }", Code.QUERY_SYNTAX, "`optional {"),
        ("query q { match { $a optional{2} $b } return { 1 } }", Code.HOP_BOUNDS, "{2,2}"),
        ("query q { match { exist { $a knows $b } } return { 1 } }", Code.QUERY_SYNTAX, "`exists {"),
        ("query q { match { $a.x = 1 or{1,2} $b } return { 1 } }", Code.QUERY_SYNTAX, None),
        ("query q { match { $a.x = -9223372036854775809 } return { 1 } }", Code.QUERY_NUMBER, None),
        ("query q { match { $a: A } return { [$a.x] } }", Code.QUERY_SYNTAX, None),
        ("query q { match { $a: A } return { * } }", Code.QUERY_SYNTAX, "`$x.*`"),
        ("query q { match { $a: A } return { $a.x, * } }", Code.QUERY_SYNTAX, "`$x.*`"),
        ("query q { match { $a: A } return { $a.* as b } }", Code.QUERY_SYNTAX, "`$a.property as b`"),
        ("query q { match { $a: A } return { count($a.*) } }", Code.QUERY_SYNTAX, "of `return` only"),
        ("query q { match { $a: A } return { $a.x } order { $a.* } }", Code.QUERY_SYNTAX, "of `return` only"),
        ("query q { match { $a.* = 1 } return { 1 } }", Code.QUERY_SYNTAX, "of `return` only"),
        ("query q { match { $a knows{1.5,3} $b } return { 1 } }", Code.HOP_BOUNDS, None),
    ],
)
def test_a_natural_mistake_gets_the_hint_that_mends_it(text: str, code: Code, hint: str | None) -> None:
    found, _, advice = refusal(text)
    assert found is code
    assert hint is None or (advice is not None and hint in advice)


def test_an_error_names_what_was_found_and_what_was_expected() -> None:
    _, message, _ = refusal("query q { match { $a knows } return { 1 } }")
    assert message == "expected `{` or a variable such as `$x`, found `}`"


def test_a_query_cut_short_says_what_is_missing() -> None:
    _, message, hint = refusal("query q { match { $a: A }")
    assert message == "unexpected end of the query: expected `delete`, `insert`, `return`, `update` or `with`"
    assert hint is None
