"""How a union is typechecked and lowered, and what is said about parts that do not fit together."""

import pytest

from omnigraph.catalog import Catalog, Scalar
from omnigraph.codes import Code
from omnigraph.compiler import check_queries, compile_query, ir
from omnigraph.compiler.values import type_of
from omnigraph.diagnostics import Diagnostic, Source
from omnigraph.syntax import MAX_NESTING

PEOPLE = "match { $p: Person } return { $p.name as name, $p.age as n }"


def union(catalog: Catalog, text: str) -> ir.Union:
    body = compile_query(f"query q($n: I64) {{ {text} }}", catalog).body
    assert isinstance(body, ir.Union)
    return body


def findings(catalog: Catalog, text: str) -> list[Diagnostic]:
    found = check_queries(Source("test.gq", f"query q($n: I64) {{ {text} }}"), catalog).diagnostics
    return [each for each in found if each.code is not Code.UNUSED_PARAMETER]


def test_parts_have_columns_of_common_types(catalog: Catalog) -> None:
    found = union(catalog, f"{PEOPLE} union all match {{ $c: Company }} return {{ $c.name as name, 1.5 as n }}")
    assert [column.name for column in found.columns] == ["name", "n"]
    assert [[type_of(column.expression) for column in part.columns] for part in found.parts] == 2 * [
        [Scalar.STRING, Scalar.F64]
    ]
    assert found.every
    assert not any(part.shape.grouped for part in found.parts)


def test_a_part_without_a_value_has_null_of_the_type_of_the_others(catalog: Catalog) -> None:
    found = union(catalog, f"match {{ $c: Company }} return {{ $c.name as name, null as n }} union {PEOPLE}")
    assert [type_of(part.columns[1].expression) for part in found.parts] == [Scalar.I32, Scalar.I32]
    assert all(part.shape.grouped for part in found.parts)


def test_what_orders_the_rows_is_a_column_of_each_part(catalog: Catalog) -> None:
    found = union(catalog, f"{PEOPLE} union {PEOPLE} order {{ n desc, length(name) }} limit $n offset 1")
    assert found.keys == (ir.UnionKey(1, descending=True), ir.UnionKey(2, descending=False))
    assert [len(part.columns) for part in found.parts] == [3, 3]
    assert [column.name for column in found.columns] == ["name", "n"]
    assert found.shape.offset == ir.Constant(1, Scalar.I64)
    for part in found.parts:
        assert (part.shape.limit, part.shape.is_part) == (ir.ParameterValue("n", Scalar.I64, nullable=False), True)
        # The keys, and then the columns that are none of them.
        assert [key.descending for key in part.shape.order] == [True, False, False]


@pytest.mark.parametrize("columns", ["$p.tags as t", "$p as t", "$x as t"])
def test_only_parts_with_the_order_of_the_union_have_its_limit(catalog: Catalog, columns: str) -> None:
    part = f"match {{ $p: Person  $x: Named }} return {{ {columns} }}"
    found = union(catalog, f"{part} union {part} limit 3")
    assert [each.shape.limit is not None for each in found.parts] == 2 * [columns == "$p as t"]


def test_a_query_touches_what_its_parts_touch(catalog: Catalog) -> None:
    query = compile_query(f"{PEOPLE} union match {{ $c: Company }} return {{ $c.name as name, 1 as n }}", catalog)
    assert query.access.asks == ("node:Company", "node:Person")
    assert query.access.reads == {"node:Company": ("id", "name"), "node:Person": ("age", "id", "name")}


@pytest.mark.parametrize(
    ("text", "code", "part"),
    [
        (f"{PEOPLE} union match {{ $c: Company }} return {{ $c.name as name }}", Code.UNION_PARTS_DIFFER, "null as"),
        (
            f"{PEOPLE} union match {{ $c: Company }} return {{ 1 as n, $c.name as name }}",
            Code.UNION_PARTS_DIFFER,
            "order",
        ),
        (
            f"{PEOPLE} union match {{ $c: Company }} return {{ $c.name, 1 as n }}",
            Code.UNION_PARTS_DIFFER,
            "name it: `$c.name as name`",
        ),
        (
            f"{PEOPLE} union match {{ $c: Company }} return {{ $c.name as name, $c.founded as n }}",
            Code.UNION_PARTS_DIFFER,
            "the column `n` is Date here, and I32 in the parts before",
        ),
        (
            "match { $p: Person } return { $p as x } union match { $c: Company } return { $c as x }",
            Code.UNION_PARTS_DIFFER,
            "a whole `Company` here, and a whole `Person`",
        ),
        (
            "match { $p: Person } return { $p as x } union match { $p: Person } return { $p.name as x }",
            Code.UNION_PARTS_DIFFER,
            "String here, and a whole `Person`",
        ),
        (
            "match { $p: Person } return { $p.sketch as x } union match { $p: Person } return { $p.sketch as x }",
            Code.UNION_PARTS_DIFFER,
            "Vector(4)",
        ),
        (
            " union ".join(["match { $x: shortest $p knows{1,3} $q } return { $x }"] * 2),
            Code.UNION_PARTS_DIFFER,
            "is a path",
        ),
        (
            'match { $p: Person } return { bm25($p.bio, "a") as x } union all match { $p: Person } return { 1.5 as x }',
            Code.FUNCTION_NOT_ALLOWED,
            "rank in a stage",
        ),
        (f"{PEOPLE} union {PEOPLE} order {{ $p.age }}", Code.ORDER_NOT_GROUPED, "write the name: `n`"),
        (f"{PEOPLE} union {PEOPLE} order {{ max(n) }}", Code.ORDER_NOT_GROUPED, "as a column of each part"),
        (f"{PEOPLE} union {PEOPLE} order {{ count {{ $p knows $_ }} }}", Code.ORDER_NOT_GROUPED, "each part"),
        (f"{PEOPLE} union {PEOPLE} order {{ nane }}", Code.BARE_NAME, "did you mean `name`?"),
        (f"{PEOPLE} union {PEOPLE} limit $m", Code.UNKNOWN_VARIABLE, "`$n`"),
        (f"{PEOPLE} union match {{ $p: Persn }} return {{ $p.name as name, 1 as n }}", Code.UNKNOWN_TYPE, "`Person`"),
        (f"{PEOPLE} order {{ n }} union {PEOPLE}", Code.QUERY_SYNTAX, "do it in a stage"),
        (f"{PEOPLE} limit 3 union {PEOPLE}", Code.QUERY_SYNTAX, "`limit` stands after the last part"),
        (f"{PEOPLE} union {PEOPLE} union all {PEOPLE}", Code.QUERY_SYNTAX, "cannot be mixed"),
        (f"{PEOPLE} unoin {PEOPLE}", Code.QUERY_SYNTAX, "did you mean `union`?"),
        (f"{PEOPLE} union return {{ 1 as name }}", Code.QUERY_SYNTAX, "expected `all` or `match`"),
        (" union ".join([PEOPLE] * (MAX_NESTING + 1)), Code.QUERY_NESTING, "at most 64 parts"),
    ],
)
def test_parts_that_do_not_fit_are_explained(catalog: Catalog, text: str, code: Code, part: str) -> None:
    (finding,) = findings(catalog, text)
    assert finding.code is code
    assert part in finding.render()


def test_each_part_is_checked_though_another_has_errors(catalog: Catalog) -> None:
    text = "match { $p: Persn } return { $p.name as x } union match { $p: Person } return { $p.nme as x }"
    assert [each.code for each in findings(catalog, text)] == [Code.UNKNOWN_TYPE, Code.UNKNOWN_PROPERTY]


def test_each_part_gets_advice(catalog: Catalog) -> None:
    text = f"{PEOPLE} union match {{ $p: Person  $c: Company }} return {{ $c.name as name, 1 as n }}"
    assert [each.code for each in findings(catalog, text)] == [Code.CROSS_PRODUCT]


def test_a_text_and_an_enum_have_a_common_type(catalog: Catalog) -> None:
    text = 'match { $p: Person } return { $p.city as c } union match { $p: Person } return { concat($p.name, "") as c }'
    assert len(union(catalog, text).parts) == 2
