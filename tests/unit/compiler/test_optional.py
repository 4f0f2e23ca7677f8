"""How an optional pattern is typechecked and lowered."""

import pytest

from omnigraph.catalog import Catalog, Scalar
from omnigraph.codes import Code
from omnigraph.compiler import compile_query, ir
from tests.unit.compiler.test_reads import codes, read, types_of

WORKS = "$p: Person  optional { $p $w:worksAt $c }"


def test_an_optional_pattern_is_a_pattern_of_its_own(catalog: Catalog) -> None:
    pattern = read(catalog, f"{WORKS}  $p.age > 3", "$c.name").pattern
    (optional,) = pattern.optional
    assert types_of(pattern) == {"p": ("Person",)}
    assert types_of(optional) == {"c": ("Company",)}
    assert pattern.variables == ("p", "c", "w")
    assert pattern.optional_variables == ("c", "w")


def test_what_it_binds_may_be_null_outside_and_is_not_inside(catalog: Catalog) -> None:
    body = read(catalog, f"{WORKS.removesuffix('}')} $c.name != $p.name }}", "$c, $c.name, $w.id, $p, $p.name")
    inside = body.pattern.optional[0].conditions[0]
    assert isinstance(inside, ir.Comparison)
    assert not inside.nullable
    assert [column.expression.nullable for column in body.columns] == [True, True, True, False, False]


def test_a_later_optional_pattern_sees_what_an_earlier_one_bound(catalog: Catalog) -> None:
    first, second = read(catalog, f"{WORKS}  optional {{ $c worksAt $q  $q = $p }}", "$q.name").pattern.optional
    assert types_of(second) == {"q": ("Person",)}
    assert second.conditions == (ir.SameEntity("q", "p", negated=False),)
    assert second.traversals[0].source == "c"
    assert first.variables == ("c", "w")


def test_an_optional_pattern_may_be_in_another(catalog: Catalog) -> None:
    clauses = "$p: Person  optional { $p knows $q  optional { $q worksAt $c }  $c is null }"
    pattern = read(catalog, clauses, "$c.name").pattern
    (outer,) = pattern.optional
    (inner,) = outer.optional
    assert (pattern.variables, outer.variables, inner.variables) == (("p", "q", "c"), ("q", "c"), ("c",))
    (condition,) = outer.conditions
    assert list(ir.expressions_in(condition))[-1] == ir.Column("c", "id", Scalar.STRING, nullable=True)


def test_it_does_not_narrow_what_is_around_it(catalog: Catalog) -> None:
    pattern = read(catalog, "$x: Named  optional { $x worksAt $c }", "$c.name").pattern
    assert types_of(pattern) == {"x": ("Person", "Company")}


def test_comparisons_with_it_may_be_null(catalog: Catalog) -> None:
    body = read(catalog, "$p: Person  optional { $p knows $q }", "$p = $q, $q != $p, $p = $p, $q is null")
    assert [column.expression.nullable for column in body.columns] == [True, True, False, False]


def test_every_throwaway_end_is_its_own(catalog: Catalog) -> None:
    clauses = "$p: Person  $p knows $_  optional { $p knows $_ }  optional { $p knows $_  $p worksAt $_ }"
    pattern = read(catalog, clauses, "$p.name").pattern
    assert len(set(pattern.variables)) == len(pattern.variables) == 5


@pytest.mark.parametrize(
    ("match", "found"),
    [
        ("$p: Person  optional { $p knows $q }  $q worksAt $c", [Code.REQUIRED_OF_OPTIONAL]),
        ("$p: Person  optional { $p knows $q }  $p $k:knows $q", [Code.REQUIRED_OF_OPTIONAL]),
        ("$p: Person  optional { $p knows $q }  $q: Person", [Code.REQUIRED_OF_OPTIONAL]),
        ("$p: Person  optional { optional { $p $k:knows $q } }  $p $k:knows $r", [Code.REQUIRED_OF_OPTIONAL]),
        ("$p: Person  $q worksAt $_  optional { $p $k:knows $q }", [Code.CROSS_PRODUCT]),
        ("$p: Person  optional { $p knows $q }  optional { $q: Person }", [Code.VARIABLE_REUSED]),
        ("optional { $p: Person }", [Code.EMPTY_QUERY]),
        ("$p: Person  optional { }", [Code.EMPTY_QUERY]),
        ("$p: Person  optional { $p.age > 3 }", [Code.NEEDLESS_OPTIONAL]),
        ("$p: Person  optional { $p knows $p }", [Code.NEEDLESS_OPTIONAL]),
        ("$p: Person  not { $p knows $q  optional { $q worksAt $c } }", [Code.OPTIONAL_NOT_POSSIBLE]),
        ("$p: Person  exists { optional { $p worksAt $c } $p.age > 3 }", [Code.OPTIONAL_NOT_POSSIBLE]),
        ("$p: Person  optional { $p knows $q  not { optional { $q worksAt $c } } }", [Code.OPTIONAL_NOT_POSSIBLE]),
        ("$p: Person  optional { $q: Person }  $q is null or $q.age > 3", [Code.CROSS_PRODUCT]),
        ("$p: Person  optional { $p knows{1,} $q }  $q is null", [Code.UNBOUNDED_HOPS]),
        ("$p: Person  optional { $p knows $q }", [Code.UNUSED_VARIABLE]),
        ("$p: Person  optional { $p knows $q  $q.nme = 1 }  $q is null", [Code.UNKNOWN_PROPERTY]),
        ("$p: Person  optional { $p nows $q }  $q.name = 1", [Code.UNKNOWN_EDGE]),
        ("$p: Person  optional { $p knows $q }  not { $q worksAt $_ }", []),
        ("$p: Person  optional { $p knows $q  exists { $q worksAt $_ } }  count { $q knows $_ } = 0", []),
    ],
)
def test_what_has_no_meaning_is_reported_once(catalog: Catalog, match: str, found: list[Code]) -> None:
    assert codes(catalog, match, "$p.name") == found


def test_a_query_reads_what_its_optional_patterns_need(catalog: Catalog) -> None:
    query = compile_query(
        "query q { match { $p: Person  optional { $p worksAt $c  $c.size > 1 } } return { $c.founded } }", catalog
    )
    assert query.access.reads["node:Company"] == ("founded", "id", "size")
    assert query.access.reads["edge:WorksAt"] == ("dst", "src")
    assert query.access.asks == ("edge:WorksAt", "node:Company", "node:Person")
