"""How a read is typechecked and lowered."""

import pytest

from omnigraph.catalog import Catalog, List, Scalar, Vector, compile_schema
from omnigraph.codes import Code
from omnigraph.compiler import check_queries, compile_query, ir
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.syntax.query_ast import Operator


def read(catalog: Catalog, match: str, returns: str = "1", rest: str = "", parameters: str = "") -> ir.Read:
    body = compile_query(query_text(match, returns, rest, parameters), catalog).body
    assert isinstance(body, ir.Read)
    return body


def query_text(match: str, returns: str, rest: str, parameters: str) -> str:
    distinct, returns = ("distinct ", returns[9:]) if returns.startswith("distinct ") else ("", returns)
    return f"query q({parameters}) {{ match {{ {match} }} return {distinct}{{ {returns} }} {rest} }}"


def findings(
    catalog: Catalog, match: str, returns: str = "1", rest: str = "", parameters: str = ""
) -> tuple[Diagnostic, ...]:
    text = query_text(match, returns, rest, parameters)
    return check_queries(Source("test.gq", text), catalog).diagnostics


def codes(catalog: Catalog, match: str, returns: str = "1", rest: str = "", parameters: str = "") -> list[Code]:
    return [finding.code for finding in findings(catalog, match, returns, rest, parameters)]


def types_of(pattern: ir.Pattern) -> dict[str, tuple[str, ...]]:
    return {node.variable: node.types for node in pattern.nodes}


# --- traversals ---


@pytest.mark.parametrize(
    ("match", "direction"),
    [
        ("$p: Person  $p worksAt $c", ir.Direction.FORWARD),
        ("$c: Company  $c worksAt $p", ir.Direction.BACKWARD),
        ("$p: Person  $c worksAt $p", ir.Direction.BACKWARD),
        ("$p: Person  $p knows $q", ir.Direction.FORWARD),
        ("$p: Person  $p <knows> $q", ir.Direction.EITHER),
        ("$x: Named  $x worksAt $y", ir.Direction.FORWARD),
    ],
)
def test_the_types_of_the_ends_decide_the_direction(catalog: Catalog, match: str, direction: ir.Direction) -> None:
    (traversal,) = read(catalog, match).pattern.traversals
    assert traversal.direction is direction


@pytest.mark.parametrize(
    "clauses",
    [
        ["$b knows $c", "$a worksAt $b"],
        ["$a worksAt $b", "$d worksAt $c", "$c knows $b"],
        ["$a worksAt $b", "$b contains $c"],
        ["$p: Person", "$p worksAt $c", "$c contains $d", "$d worksAt $q"],
    ],
)
def test_the_order_of_clauses_has_no_meaning(catalog: Catalog, clauses: list[str]) -> None:
    forward = read(catalog, "  ".join(clauses)).pattern
    backward = read(catalog, "  ".join(reversed(clauses))).pattern
    assert types_of(forward) == types_of(backward)
    assert set(forward.traversals) == set(backward.traversals)


def test_a_variable_may_be_used_before_it_is_bound(catalog: Catalog) -> None:
    pattern = read(catalog, "$p.age > 3  $p knows $f  $p: Person", "$f.name").pattern
    assert types_of(pattern) == {"p": ("Person",), "f": ("Person",)}


def test_an_interface_binds_every_type_that_implements_it(catalog: Catalog) -> None:
    (binding,) = read(catalog, "$x: Named", "$x.name").pattern.nodes
    assert binding == ir.NodeBinding("x", ("Person", "Company"), "Named")


def test_a_traversal_narrows_an_interface(catalog: Catalog) -> None:
    assert types_of(read(catalog, "$x: Named  $x knows $_", "$x.age").pattern)["x"] == ("Person",)


def test_a_nested_pattern_does_not_narrow_what_is_around_it(catalog: Catalog) -> None:
    pattern = read(catalog, "$x: Named  not { $x worksAt $_ }", "$x.name").pattern
    assert types_of(pattern) == {"x": ("Person", "Company")}
    (absent,) = pattern.absent
    assert absent.traversals[0].source == "x"
    assert [node.types for node in absent.nodes] == [("Company",)]


def test_a_variable_inside_not_is_not_visible_outside(catalog: Catalog) -> None:
    assert codes(catalog, "$p: Person  not { $p knows $f }", "$f.name") == [Code.UNKNOWN_VARIABLE]


def test_every_throwaway_end_is_its_own(catalog: Catalog) -> None:
    pattern = read(catalog, "$p: Person  $p knows $_  $p worksAt $_").pattern
    ends = [traversal.destination for traversal in pattern.traversals]
    assert len(set(ends)) == 2


def test_one_variable_at_both_ends_is_a_loop_only_where_an_edge_can_be_one(catalog: Catalog) -> None:
    (traversal,) = read(catalog, "$p knows $p").pattern.traversals
    assert traversal.source == traversal.destination == "p"
    assert codes(catalog, "$p worksAt $p") == [Code.TRAVERSAL_ENDS]


def test_hop_bounds_of_one_are_the_same_as_none(catalog: Catalog) -> None:
    assert read(catalog, "$p: Person  $p $w:knows{1,1} $f  $w.since = $w.since") == read(
        catalog, "$p: Person  $p $w:knows $f  $w.since = $w.since"
    )


def test_hop_bounds_are_kept(catalog: Catalog) -> None:
    (traversal,) = read(catalog, "$p: Person  $p knows{0,} $f", "$f.name").pattern.traversals
    assert isinstance(traversal, ir.Traversal)
    assert (traversal.minimum, traversal.maximum) == (0, None)


@pytest.mark.parametrize("bounds", ["{1,3}", "{0,2}", "{1,}", "{0,}"])
def test_a_path_of_an_edge_between_two_types_has_one_edge(catalog: Catalog, bounds: str) -> None:
    plain = read(catalog, "$p: Person  $p worksAt $c", "$c.name")
    assert read(catalog, f"$p: Person  $p worksAt{bounds} $c", "$c.name") == plain
    assert codes(catalog, f"$p: Person  $p worksAt{bounds} $c", "$c.name") == [Code.NEEDLESS_HOPS]


def test_a_longer_path_of_an_edge_between_two_types_never_matches(catalog: Catalog) -> None:
    body = read(catalog, "$p: Person  not { $p worksAt{2,3} $c }", "$p.name")
    (absent,) = body.pattern.absent
    (never,) = absent.conditions
    assert isinstance(never, ir.Comparison)
    assert (never.left, never.right) == (ir.Constant(1, Scalar.I64), ir.Constant(2, Scalar.I64))
    assert body.pattern.conditions == ()


def test_an_edge_variable_has_no_hop_bounds(catalog: Catalog) -> None:
    assert codes(catalog, "$p: Person  $p $w:knows{1,2} $f") == [Code.HOPS_NOT_POSSIBLE]


def test_an_edge_binding_has_the_properties_of_the_edge(catalog: Catalog) -> None:
    body = read(catalog, "$p: Person  $p $w:knows $f", "$w.since, $w.src, $w")
    assert [column.name for column in body.shape.columns] == ["w.since", "w.src", "w"]
    assert body.shape.columns[0].expression == ir.Column("w", "since", Scalar.DATE, nullable=True)
    assert body.shape.columns[2].expression == ir.Entity("w")


def test_an_edge_that_is_bound_may_be_followed_either_way(catalog: Catalog) -> None:
    (traversal,) = read(catalog, "$p: Person  $p $w:<knows> $f", "$w.since").pattern.traversals
    assert isinstance(traversal, ir.EdgeBinding)
    assert (traversal.variable, traversal.direction) == ("w", ir.Direction.EITHER)
    assert codes(catalog, "$p: Person  $p $w:<worksAt> $c") == [Code.UNDIRECTED_ENDS]


def test_the_ends_of_an_edge_have_two_names(catalog: Catalog) -> None:
    body = read(catalog, '$p: Person  $p $w:knows $f  $w.from = "Ada"', "$w.from, $w.to as end", "order { $w.to }")
    assert [column.name for column in body.shape.columns] == ["w.from", "end"]
    assert [column.expression for column in body.shape.columns] == [
        ir.Column("w", name, Scalar.STRING, nullable=False) for name in ("src", "dst")
    ]
    (condition,) = body.pattern.conditions
    assert isinstance(condition, ir.Comparison)
    assert condition.left == body.shape.columns[0].expression
    assert body.shape.order[0].expression == body.shape.columns[1].expression
    assert codes(catalog, "$p: Person", "$p.from") == [Code.UNKNOWN_PROPERTY]


def test_system_columns_can_be_written_with_an_at(catalog: Catalog) -> None:
    written = read(catalog, "$p: Person  $p $w:knows $f  $w.@src = $p.@id", "$w.@id as w, $w.@dst as f")
    assert written == read(catalog, "$p: Person  $p $w:knows $f  $w.src = $p.id", "$w.id as w, $w.dst as f")
    assert [each.name for each in read(catalog, "$p: Person", "$p.@id").shape.columns] == ["p.@id"]
    assert codes(catalog, "$p: Person", "$p.@src") == [Code.UNKNOWN_PROPERTY]
    assert codes(catalog, "$p: Person", "$p.@ids") == [Code.UNKNOWN_PROPERTY]


def test_the_same_edge_variable_twice_is_refused_also_for_equal_clauses(catalog: Catalog) -> None:
    assert codes(catalog, "$a $w:knows $b  $a $w:knows $b") == [Code.VARIABLE_REUSED]


def test_one_mistake_is_one_finding(catalog: Catalog) -> None:
    assert codes(catalog, "$p: Persn  $p knows $f  $f worksAt $c", "$p.x, $f.y, $c.z") == [Code.UNKNOWN_TYPE]
    assert codes(catalog, "$p: Person  $p $w:knws $f", "$w.since, $f.name") == [Code.UNKNOWN_EDGE]
    assert codes(catalog, "$p: Person", "$p.name", parameters="$p: String") == [Code.VARIABLE_REUSED]
    assert codes(catalog, "$p: Person { age: $x }", "$x", parameters="$x: Intger") == [Code.PARAMETER_TYPE]


# --- conditions ---


@pytest.mark.parametrize(
    "condition",
    [
        "$p.age = 3",
        "$p.age < 3.5",
        "3 < $p.age",
        "$p.age <= $n",
        '$p.city = "oslo"',
        "$p.city = $s",
        '["oslo", "quito"] contains $p.city',
        "$list contains $p.name",
        '[$s, "x"] contains $p.name',
        '$p.tags contains "x"',
        '$p.bio contains "x"',
        '$p.bio starts_with "x"',
        '"a long text" contains $p.name',
        '$p.joined > datetime("2026-01-31T12:00:00Z")',
        "$p.joined < now()",
        "$p = $q",
        "$p != $q",
        "$p.id = $q.id",
        "$c.size > $p.age",
    ],
)
def test_a_condition_typechecks(catalog: Catalog, condition: str) -> None:
    found = codes(
        catalog,
        f"$p: Person  $p knows $q  $p worksAt $c  {condition}",
        parameters="$n: F64, $s: String, $list: [String]",
    )
    assert [code for code in found if not code.startswith("L")] == []


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ('$p.age = "3"', Code.INCOMPARABLE),
        ('$p.joined > "2026-01-31"', Code.INCOMPARABLE),
        ("$p.bio > $p.age", Code.INCOMPARABLE),
        ("$p.age = 3000000000", Code.VALUE_OUT_OF_RANGE),
        ("$c.size > -1", Code.VALUE_OUT_OF_RANGE),
        ('["osl"] contains $p.city', Code.VALUE_OUT_OF_RANGE),
        ('$p.city < "oslo"', Code.OPERATOR_NOT_DEFINED),
        ('$p.tags != "x"', Code.OPERATOR_NOT_DEFINED),
        ('$p.tags = ["x"]', Code.OPERATOR_NOT_DEFINED),
        ("$p.tags = $p.tags", Code.OPERATOR_NOT_DEFINED),
        ("$p.tags = 3", Code.INCOMPARABLE),
        ('$p.city = ["oslo"]', Code.INCOMPARABLE),
        ('$p.age contains "x"', Code.OPERATOR_NOT_DEFINED),
        ('$p.city starts_with "o"', Code.OPERATOR_NOT_DEFINED),
        ("$p.embedding = $p.embedding", Code.OPERATOR_NOT_DEFINED),
        ("$p.tags contains 3", Code.INCOMPARABLE),
        ('$p = "Ada"', Code.ENTITY_AS_VALUE),
        ("$p < $c", Code.ENTITY_AS_VALUE),
        ("$p = $c", Code.INCOMPARABLE),
        ("$p.name = Ada", Code.BARE_NAME),
        ("$p.age = count($p)", Code.FUNCTION_NOT_ALLOWED),
        ("$p.name = $_", Code.UNKNOWN_VARIABLE),
    ],
)
def test_a_condition_that_cannot_hold_is_refused(catalog: Catalog, condition: str, code: Code) -> None:
    assert codes(catalog, f"$p: Person  $p worksAt $c  {condition}") == [code]


@pytest.mark.parametrize(
    ("condition", "same"),
    [
        ('$p.tags = "x"', '$p.tags contains "x"'),
        ('"x" = $p.tags', '$p.tags contains "x"'),
        ("$p.tags = $s", "$p.tags contains $s"),
        ("$p.tags = $q.name", "$p.tags contains $q.name"),
        ("$q.name = $p.tags", "$p.tags contains $q.name"),
    ],
)
def test_a_value_that_equals_a_list_property_is_in_it(catalog: Catalog, condition: str, same: str) -> None:
    one, other = (
        read(catalog, f"$p: Person  $p knows $q  {each}", "$p.name", parameters="$s: String")
        for each in (condition, same)
    )
    assert one == other
    in_binding = read(catalog, '$p: Person { tags: "x" }', "$p.name")
    assert in_binding == read(catalog, '$p: Person  $p.tags contains "x"', "$p.name")


def test_a_literal_takes_the_type_of_what_it_is_compared_with(catalog: Catalog) -> None:
    conditions = read(catalog, "$p: Person  $p.age = 3  $p.age < 3.5  7 > $p.age").pattern.conditions
    constants = [side for each in conditions if isinstance(each, ir.Comparison) for side in (each.left, each.right)]
    assert [each for each in constants if isinstance(each, ir.Constant)] == [
        ir.Constant(3, Scalar.I32),
        ir.Constant(3.5, Scalar.F64),
        ir.Constant(7, Scalar.I32),
    ]


def test_a_property_in_a_binding_is_an_equality(catalog: Catalog) -> None:
    with_braces = read(catalog, '$p: Person { name: "Ada", age: $n }', parameters="$n: I32?")
    with_filters = read(catalog, '$p: Person  $p.name = "Ada"  $p.age = $n', parameters="$n: I32?")
    assert with_braces == with_filters


def test_a_list_with_parameters_is_a_list(catalog: Catalog) -> None:
    (condition,) = read(catalog, '$p: Person  [$a, "x"] contains $p.name', parameters="$a: String").pattern.conditions
    assert condition == ir.Comparison(
        ir.ListOf(
            (ir.ParameterValue("a", Scalar.STRING, nullable=False), ir.Constant("x", Scalar.STRING)),
            List(Scalar.STRING),
        ),
        Operator.CONTAINS,
        ir.Column("p", "name", Scalar.STRING, nullable=False),
    )


# --- search ---


def test_search_and_fusion_are_nodes(catalog: Catalog) -> None:
    body = read(
        catalog,
        "$p: Person  fuzzy($p.bio, $q, 1)",
        "nearest($p.embedding, $q) as distance",
        "order { rrf(nearest($p.embedding, $q), bm25($p.bio, $q), k=10) } limit 5",
        "$q: String",
    )
    words = ir.ParameterValue("q", Scalar.STRING, nullable=False)
    bio = ir.Column("p", "bio", Scalar.STRING, nullable=False)
    embedding = ir.Column("p", "embedding", Vector(4), nullable=True)
    nearest = ir.VectorDistance(embedding, ir.EmbeddedText(words, "mock/small", 4))
    assert body.pattern.conditions == (ir.TextMatch(ir.TextMatchKind.FUZZY, bio, words, ir.Constant(1, Scalar.I64)),)
    assert body.shape.columns == (ir.OutputColumn("distance", nearest),)
    assert body.shape.order == (ir.SortKey(ir.RankFusion((nearest, ir.TextScore(bio, words)), 10), descending=True),)


def test_a_text_is_searched_in_a_vector_without_a_model_by_the_configured_one(catalog: Catalog) -> None:
    text = "query q($q: String) { match { $p: Person } return { $p.name } order { nearest($p.sketch, $q) } limit 5 }"
    checked = check_queries(Source("q.gq", text), catalog)
    assert [finding.code for finding in checked.diagnostics] == [Code.UNRECORDED_MODEL]
    (query,) = checked.queries
    assert isinstance(query.body, ir.Read)
    ranking = query.body.shape.order[0].expression
    assert isinstance(ranking, ir.VectorDistance)
    assert ranking.query == ir.EmbeddedText(ir.ParameterValue("q", Scalar.STRING, nullable=False), None, 4)


def test_the_constant_of_a_fusion_is_named_or_stands_last(catalog: Catalog) -> None:
    def order(constant: str) -> tuple[ir.SortKey, ...]:
        fused = f"rrf(nearest($p.embedding, $q), bm25($p.bio, $q), {constant})"
        return read(catalog, "$p: Person", "$p.name", f"order {{ {fused} }} limit 5", "$q: String").shape.order

    assert order("10") == order("k=10") != order("60")


def test_rankings_run_best_first(catalog: Catalog) -> None:
    body = read(
        catalog, "$p: Person", "$p.name", "order { nearest($p.sketch, $v), bm25($p.bio, $q), $p.age } limit 1",
        "$v: Vector(4), $q: String",
    )  # fmt: skip
    assert [key.descending for key in body.shape.order] == [False, True, False]


@pytest.mark.parametrize(
    ("order", "code"),
    [
        ("nearest($p.sketch, [1, 2])", Code.VALUE_OUT_OF_RANGE),
        ("nearest($p.bio, $v)", Code.WRONG_ARGUMENTS),
        ("nearest($p.sketch, $n)", Code.WRONG_ARGUMENTS),
        ("bm25($p.age, $q)", Code.WRONG_ARGUMENTS),
        ("bm25($p.bio, $n)", Code.WRONG_ARGUMENTS),
        ("rrf(bm25($p.bio, $q))", Code.WRONG_ARGUMENTS),
        ("rrf(bm25($p.bio, $q), bm25($f.bio, $q))", Code.WRONG_ARGUMENTS),
        ("rrf(bm25($p.bio, $q), $p.age)", Code.WRONG_ARGUMENTS),
        ("rrf(bm25($p.bio, $q), bm25($p.bio, $q), k=0)", Code.WRONG_ARGUMENTS),
        ("rrf(bm25($p.bio, $q), bm25($p.bio, $q), z=1)", Code.WRONG_ARGUMENTS),
        ("rrf(bm25($p.bio, $q), bm25($p.bio, $q), 0)", Code.WRONG_ARGUMENTS),
        ("rrf(bm25($p.bio, $q), bm25($p.bio, $q), 60, k=60)", Code.WRONG_ARGUMENTS),
        ("rrf(bm25($p.bio, $q), 60, bm25($p.bio, $q))", Code.WRONG_ARGUMENTS),
        ("rrf(bm25($p.bio, $q), 60)", Code.WRONG_ARGUMENTS),
        ("search($p.bio, $q)", Code.FUNCTION_NOT_ALLOWED),
        ("count($p)", Code.ORDER_NOT_GROUPED),
        ("$p.tags", Code.OPERATOR_NOT_DEFINED),
        ("$p", Code.OPERATOR_NOT_DEFINED),
        ("nothing", Code.BARE_NAME),
    ],
)
def test_a_wrong_ranking_is_refused(catalog: Catalog, order: str, code: Code) -> None:
    found = codes(
        catalog,
        "$p: Person  $p knows $f",
        "$p.name",
        f"order {{ {order} }} limit 5",
        "$q: String, $v: Vector(4), $n: I32",
    )
    assert [each for each in found if not each.startswith("L")] == [code]


# --- return, order, limit, offset ---


def test_columns_are_named_as_written_without_the_dollar(catalog: Catalog) -> None:
    body = read(catalog, '$p: Person  $p knows $f', '$p.name, $p, count($f), "a $b", 1.5, now(), $f.age as years, $n',
                parameters="$n: I32")  # fmt: skip
    names = [column.name for column in body.shape.columns]
    assert names == ["p.name", "p", "count(f)", '"a $b"', "1.5", "now()", "years", "n"]


def test_distinct_rows_are_groups(catalog: Catalog) -> None:
    assert read(catalog, "$p: Person", "distinct $p.city").shape.grouped
    for order in ("$p.age", "count($p)"):
        found = codes(catalog, "$p: Person", "distinct $p.city", f"order {{ {order} }}")
        assert found == [Code.ORDER_NOT_GROUPED]
    found = codes(catalog, "$p: Person", "distinct bm25($p.bio, $s) as s", "", "$s: String")
    assert found == [Code.FUNCTION_NOT_ALLOWED]


def test_the_properties_of_an_entity_that_is_a_column_are_values_of_a_group(catalog: Catalog) -> None:
    body = read(catalog, "$p: Person", "distinct $p", "order { $p.age desc }")
    assert body.shape.order[0].expression == ir.Column("p", "age", Scalar.I32, nullable=True)
    read(catalog, "$p knows $f", "$p, count($f) + $p.age as n", "having { $p.age > 3 }")
    assert codes(catalog, "$p knows $f", "$p, count($f)", "order { $f.age }") == [Code.ORDER_NOT_GROUPED]


def test_having_takes_columns_aggregates_and_what_is_computed_of_them(catalog: Catalog) -> None:
    body = read(catalog, "$p: Person", "$p.city, count($p) as n", "having { n > 1 and n < 9  $p.city is not null }")
    assert len(body.shape.having) == 3
    assert body.shape.having[0] == ir.Comparison(
        body.shape.columns[1].expression, Operator.GREATER, ir.Constant(1, Scalar.I64)
    )


# --- all properties ---


@pytest.mark.parametrize(
    ("match", "returns", "names"),
    [
        (
            "$p: Person",
            "$p.*",
            ["p.name", "p.age", "p.city", "p.tags", "p.bio", "p.joined"],
        ),
        ("$p: Person  $p $w:worksAt $c", "$c.*, $w.*", ["c.name", "c.size", "c.founded", "w.since"]),
        ("$p: Person  $p attends $e", "$e.*, count($p) as n", ["e.day", "e.room", "e.title", "n"]),
        # What is declared of an interface, also where one type remains.
        ("$x: Named", "$x.*", ["x.name"]),
        ("$x: Named  $x worksAt $_", "$x.id, $x.*", ["x.id", "x.name"]),
        ("$p: Person  $r: shortest $p knows{1,3} $q", "$r.*", ["r.nodes", "r.edges", "r.length"]),
    ],
)
def test_all_properties_are_columns_in_the_order_of_the_schema(
    catalog: Catalog, match: str, returns: str, names: list[str]
) -> None:
    body = read(catalog, match, returns)
    assert [column.name for column in body.columns] == names


def test_an_id_with_a_type_of_its_own_is_one_of_all_properties() -> None:
    catalog = compile_schema("node A { id: U64 @key, x: I32? }\nnode B { x: I32?, id: String @key }")
    columns = read(catalog, "$a: A  $b: B", "$a.*, $b.*").columns
    assert [column.name for column in columns] == ["a.id", "a.x", "b.x", "b.id"]
    assert columns[0].expression == read(catalog, "$a: A  $b: B", "$a.id").columns[0].expression


def test_all_properties_are_the_same_as_each_of_them(catalog: Catalog) -> None:
    match = "$x: Named  optional { $x $w:worksAt $c }"
    columns = "{}, {}, count($x) as n".format
    rest = "having { n > 1 or $c.size > 3 } order { $c.founded, n }"
    short = read(catalog, match, columns("$c.*", "$w.*"), rest)
    assert short == read(catalog, match, columns("$c.name, $c.size, $c.founded", "$w.since"), rest)
    assert [column.expression.nullable for column in short.columns] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("match", "returns", "code", "advice"),
    [
        ("$p: Person", "$q.*", Code.UNKNOWN_VARIABLE, "`$p`"),
        ("$p: Person", "$p.*, $p.name", Code.DUPLICATE_COLUMN, "as"),
        ("$p: Person", "$p.*, $p.*", Code.DUPLICATE_COLUMN, "as"),
        ("$p: Person", "$n.*", Code.UNKNOWN_PROPERTY, None),
        ("$p: Person  $p $a:attends $_", "$p.*, $a.*", Code.EMPTY_QUERY, "`$a.id`"),
        ("$p knows $_", "$_.*", Code.UNKNOWN_VARIABLE, "placeholder"),
    ],
)
def test_all_properties_of_nothing_are_refused(
    catalog: Catalog, match: str, returns: str, code: Code, advice: str | None
) -> None:
    (found,) = [each for each in findings(catalog, match, returns, "limit $n", "$n: I64") if each.is_error]
    assert (found.code, advice is None or advice in (found.hint or "")) == (code, True)


@pytest.mark.parametrize(
    ("returns", "having", "code"),
    [
        ("$p.city", "$p.age > 1", Code.HAVING_NOT_GROUPED),
        ("$p.city, count($p)", "$p.age > 1", Code.HAVING_NOT_GROUPED),
        ("$p.city, count($p)", "exists { $p knows $_ }", Code.HAVING_NOT_GROUPED),
        ("$p.city, count($p) as n", "n + 1", Code.NOT_A_CONDITION),
        ("$p.city, count($p) as n", "m > 1", Code.BARE_NAME),
        ("$p.city, count($p) as n", "sum(n) > 1", Code.BARE_NAME),
    ],
)
def test_another_condition_on_groups_is_refused(catalog: Catalog, returns: str, having: str, code: Code) -> None:
    assert codes(catalog, "$p: Person", returns, f"having {{ {having} }}") == [code]


def test_an_order_computes_with_the_names_of_columns(catalog: Catalog) -> None:
    body = read(catalog, "$p: Person", "$p.name as name", "order { length(name) }")
    assert body.shape.order == read(catalog, "$p: Person", "$p.name as name", "order { length($p.name) }").shape.order
    assert codes(catalog, "$p: Person", "$p.name as name", "order { length(nam) }") == [Code.BARE_NAME]


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("collect($p)", "collect the ids: `collect($p.id)`"),
        ("collect($p.tags)", "collect($x.property) of one value a row"),
        ("collect($p.photo)", "collect($x.property) of one value a row"),
        ("lower(distinct $p.name)", "only aggregates do: `count(distinct $x.property)`"),
        ("bm25(distinct $p.bio, $s)", "only aggregates do: `count(distinct $x.property)`"),
    ],
)
def test_what_cannot_be_collected_or_distinct_is_refused(catalog: Catalog, call: str, hint: str) -> None:
    (finding,) = findings(catalog, "$p: Person", f"{call} as c", "", "$s: String")
    assert (finding.code, finding.hint) == (Code.WRONG_ARGUMENTS, hint)


def test_an_aggregate_groups_by_the_other_columns(catalog: Catalog) -> None:
    assert read(catalog, "$p: Person", "$p.city, count($p)").shape.grouped
    assert not read(catalog, "$p: Person", "$p.city").shape.grouped


@pytest.mark.parametrize(
    ("function", "type", "nullable"),
    [
        ("count($p)", Scalar.I64, False),
        ("count($p.age)", Scalar.I64, False),
        ("sum($p.age)", Scalar.I64, True),
        ("sum($c.size)", Scalar.U64, True),
        ("avg($p.age)", Scalar.F64, True),
        ("min($p.joined)", Scalar.DATETIME, True),
        ("max($p.name)", Scalar.STRING, True),
        ("count(distinct $p)", Scalar.I64, False),
        ("avg(distinct $p.age)", Scalar.F64, True),
        ("collect($p.age)", List(Scalar.I32), False),
        ("collect(distinct $c.size)", List(Scalar.U32), False),
    ],
)
def test_an_aggregate_has_a_type(catalog: Catalog, function: str, type: Scalar, nullable: bool) -> None:
    (column,) = read(catalog, "$p: Person  $p worksAt $c", function).shape.columns
    assert isinstance(column.expression, ir.Aggregate)
    assert (column.expression.type, column.expression.nullable) == (type, nullable)


def test_an_alias_orders_by_what_it_names(catalog: Catalog) -> None:
    body = read(catalog, "$p: Person", "$p.city, count($p) as n", "order { n desc, $p.city }")
    assert [key.expression for key in body.shape.order] == [
        body.shape.columns[1].expression,
        body.shape.columns[0].expression,
    ]


@pytest.mark.parametrize("word", ["limit", "offset"])
def test_a_limit_and_an_offset_may_be_parameters(catalog: Catalog, word: str) -> None:
    body = read(catalog, "$p: Person", "$p.name", f"{word} $n", "$n: U32")
    assert getattr(body.shape, word) == ir.ParameterValue("n", Scalar.U32, nullable=False)
    assert codes(catalog, "$p: Person", "$p.name", f"{word} $n", "$n: U32?") == [Code.INVALID_LIMIT]
    assert codes(catalog, "$p: Person", "$p.name", f"{word} 1.5") == [Code.INVALID_LIMIT]
    assert codes(catalog, "$p: Person", "$p.name", f"{word} $m") == [Code.UNKNOWN_VARIABLE]


def test_an_offset_alone_is_no_limit_for_a_ranking(catalog: Catalog) -> None:
    order = "order { nearest($p.sketch, [1, 2, 3, 4]) } offset 3"
    assert codes(catalog, "$p: Person", "$p.name", order) == [Code.NEAREST_NEEDS_LIMIT]


def test_a_throwaway_end_inside_not_is_not_the_one_around_it(catalog: Catalog) -> None:
    pattern = read(catalog, "$p: Person  $p knows $_  not { $p worksAt $_ }  not { $p knows $_ }", "$p.name").pattern
    ends = {pattern.traversals[0].destination, *(absent.traversals[0].destination for absent in pattern.absent)}
    assert len(ends) >= 2
    assert pattern.traversals[0].destination not in {each.traversals[0].destination for each in pattern.absent}
