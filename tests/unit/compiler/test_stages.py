"""What a stage carries on, and what is said about queries that ask for more."""

import pytest

from omnigraph.catalog import Catalog, Scalar
from omnigraph.codes import Code
from omnigraph.compiler import check_queries, compile_query, ir
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.syntax import MAX_NESTING


def read(catalog: Catalog, text: str) -> ir.Read:
    body = compile_query(f"query q($n: I64) {{ {text} }}", catalog).body
    assert isinstance(body, ir.Read)
    return body


def findings(catalog: Catalog, text: str) -> tuple[Diagnostic, ...]:
    return check_queries(Source("test.gq", f"query q($n: I64) {{ {text} }}"), catalog).diagnostics


def codes(catalog: Catalog, text: str) -> list[Code]:
    return [finding.code for finding in findings(catalog, text) if finding.code is not Code.UNUSED_PARAMETER]


def test_an_entity_stays_one_and_a_value_becomes_a_column_of_the_stage(catalog: Catalog) -> None:
    found = read(catalog, "match { $p: Person  $p knows $f } with { $p as q, count($f) as c } return { $q.name, $c }")
    (stage,) = found.stages
    assert stage.shape.entities == (("q", "p"),)
    assert [column.expression for column in found.columns] == [
        ir.Column("q", "name", Scalar.STRING, nullable=False),
        ir.Column(ir.STAGE, "c", Scalar.I64, nullable=False),
    ]


def test_a_value_that_is_known_beforehand_stays_known(catalog: Catalog) -> None:
    found = read(catalog, "match { $p: Person } with { $p, $n as m, 1 + 1 as two } return { $m, $two }")
    assert found.columns[0].expression == ir.ParameterValue("n", Scalar.I64, nullable=False)
    assert found.columns[1].expression == found.stages[0].columns[2].expression


def test_a_name_that_was_dropped_can_be_bound_again(catalog: Catalog) -> None:
    found = read(catalog, "match { $p: Person  $p knows $q } with { $p } match { $p worksAt $q } return { $q.size }")
    assert found.pattern.nodes == (ir.NodeBinding("q", ("Company",)),)


def test_a_stage_is_cut_and_grouped_like_an_answer(catalog: Catalog) -> None:
    text = "match { $p: Person } with { $p.city as city, count($p) as c } order { c desc } limit $n offset 1"
    (stage,) = read(catalog, f"{text} return {{ $city }}").stages
    assert stage.shape.grouped
    assert stage.shape.order[0].descending
    assert stage.shape.limit == ir.ParameterValue("n", Scalar.I64, nullable=False)
    assert stage.shape.offset == ir.Constant(1, Scalar.I64)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("match { $p: Person } with { $p.name } return { 1 }", Code.NOT_CARRIED),
        ("match { $p: Person } with { count($p) } return { 1 }", Code.NOT_CARRIED),
        ("match { $p: Person } with { $p.photo as photo } return { 1 }", Code.NOT_CARRIED),
        ("match { $p: Person } with { $p.sketch as sketch } return { 1 }", Code.NOT_CARRIED),
        ("match { $p: Person } with { $p.age as n } return { 1 }", Code.VARIABLE_REUSED),
        ("match { $p: Person } with { $p as _ } return { 1 }", Code.VARIABLE_REUSED),
        ("match { $p: Person } with { $p, $p.age as p } return { 1 }", Code.DUPLICATE_COLUMN),
        ("match { $p: Person } with { } return { 1 }", Code.EMPTY_QUERY),
        ("match { $p: Person } with { $p.* } return { $p.name }", Code.NOT_CARRIED),
        ("match { } with { 1 as one } return { $one }", Code.EMPTY_QUERY),
        ("match { $p: Person  $p knows $q } with { $p } return { $q.name }", Code.UNKNOWN_VARIABLE),
        ("match { $p: Person } with { $p } match { $p: Person } return { $p.name }", Code.VARIABLE_REUSED),
        ("match { $p: Person } with { $p.age as a } match { $a knows $f } return { $f.name }", Code.VARIABLE_REUSED),
        ("match { $p: Person } with { $p.age as a } return { $a.name }", Code.UNKNOWN_PROPERTY),
        (
            "match { $p: Person } with { $p.age as a } match { $c: Company { name: $a } } return { 1 }",
            Code.INCOMPARABLE,
        ),
        ("match { $p: Person } with { $p, $p.age as a } match { $a = $p } return { $a }", Code.ENTITY_AS_VALUE),
        ("match { $p: Person } with { $p.age as a } limit $a return { $a }", Code.UNKNOWN_VARIABLE),
        (
            "match { $p: Person } with { $p, nearest($p.sketch, [1, 0, 0, 0]) as d } return { $d }",
            Code.NEAREST_NEEDS_LIMIT,
        ),
        ("match { $p: Person } with { $p.id as i, count($p) + $p.age as a } return { $a }", Code.NOT_GROUPED),
    ],
)
def test_what_a_stage_cannot_carry_on_is_a_finding(catalog: Catalog, text: str, code: Code) -> None:
    assert codes(catalog, text) == [code]


def test_a_variable_that_was_dropped_is_explained(catalog: Catalog) -> None:
    text = "match { $p: Person  $p knows $q  $q.age > 1 } with { $p } with { $p } return { $q.name }"
    (finding,) = [each for each in findings(catalog, text) if each.is_error]
    assert finding.hint == "only what `with` lists is known after it; add `$q` to it"


def test_a_value_between_a_word_makes_it_an_operator(catalog: Catalog) -> None:
    text = "match { $p: Person } with { $p.tags as tags, $p.name as name } match { $q: Person  $tags contains $name }"
    (condition,) = read(catalog, f"{text} return {{ $q.name }}").pattern.conditions
    assert isinstance(condition, ir.Comparison)


def test_the_number_of_stages_is_bounded(catalog: Catalog) -> None:
    text = f"match {{ $p: Person }} {'with { $p } ' * MAX_NESTING}"
    assert codes(catalog, f"{text} return {{ $p.name }}") == []
    assert codes(catalog, f"{text} with {{ $p }} return {{ $p.name }}") == [Code.QUERY_NESTING]


def test_all_stages_are_read_and_asked_about(catalog: Catalog) -> None:
    text = "match { $p: Person } with { $p } match { $p worksAt $c } with { $c, $p } return { $c.size, $p.age }"
    access = compile_query(f"query q {{ {text} }}", catalog).access
    assert access.asks == ("edge:WorksAt", "node:Company", "node:Person")
    assert access.reads == {
        "edge:WorksAt": ("dst", "src"),
        "node:Company": ("id", "size"),
        "node:Person": ("age", "id"),
    }


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("match { $p: Person  $p knows $q } with { $p } return { $p.name }", Code.UNUSED_VARIABLE),
        ("match { $p: Person } with { $p } match { $p knows $q } return { $p.name }", Code.UNUSED_VARIABLE),
        ("match { $p: Person } with { $p } match { $p knows{1,} $q } return { $q.name }", Code.UNBOUNDED_HOPS),
        ("match { $p: Person } with { $p } match { $q: Person } return { $p.name, $q.name }", Code.CROSS_PRODUCT),
        ("match { $p: Person  $q: Person } with { $p, $q } return { $p.name, $q.name }", Code.CROSS_PRODUCT),
    ],
)
def test_each_stage_gets_advice(catalog: Catalog, text: str, code: Code) -> None:
    assert codes(catalog, text) == [code]


@pytest.mark.parametrize(
    "text",
    [
        "match { $p: Person } with { $p } match { $p knows $_ } return { $p.name }",
        "match { $p: Person } with { avg($p.age) as mean } match { $q: Person  $q.age > 1 } return { $q.name, $mean }",
        "match { $p: Person } with { $p } limit 1 match { $q: Person } return { $p.name, $q.name }",
        "match { $p: Person } with { $p.age as age } match { $q: Person { age: $age } } return { $q.name }",
        "match { $p: Person } with { $p as a, $p.age as b } match { $a worksAt $c  $c.size > $b } return { $c.name }",
    ],
)
def test_parts_that_the_stage_connects_are_not_warned_about(catalog: Catalog, text: str) -> None:
    assert codes(catalog, text) == []
