"""How clauses of shortest paths are checked and lowered."""

import pytest

from omnigraph.catalog import Catalog, List, Scalar, compile_schema
from omnigraph.codes import Code
from omnigraph.compiler import check_queries, compile_query, ir
from omnigraph.diagnostics import Source

SCHEMA = """
interface Named { name: String }
node Town implements Named { name: String @key }
node Port implements Named { name: String @key }
edge Road: Town -> Town { cost: F64?, label: String? }
edge Pier: Town -> Port { cost: F64? }
edge Ferry: Port -> Port
"""
BOTH = '$a: Town { name: "A" }  $b: Town { name: "B" }  '


@pytest.fixture(scope="module")
def towns() -> Catalog:
    return compile_schema(SCHEMA)


def text_of(match: str, returns: str) -> str:
    return f"query q {{ match {{ {match} }} return {{ {returns} }} }}"


def codes(catalog: Catalog, match: str, returns: str = "$p") -> list[Code]:
    return [each.code for each in check_queries(Source("q.gq", text_of(match, returns)), catalog).diagnostics]


def search(catalog: Catalog, match: str) -> ir.PathSearch:
    body = compile_query(text_of(match, "$p"), catalog).body
    assert isinstance(body, ir.Read)
    (found,) = body.pattern.paths
    return found


def test_values_of_a_path_have_types(towns: Catalog) -> None:
    body = compile_query(
        text_of("$p: shortest $a road{1,2} $b by cost", "$p.length, $p.weight, $p.nodes, $p.edges"), towns
    ).body
    assert isinstance(body, ir.Read)
    ids = List(Scalar.STRING)
    assert [each.expression for each in body.columns] == [
        ir.Column("p", "length", Scalar.I64, nullable=False),
        ir.Column("p", "weight", Scalar.F64, nullable=False),
        ir.Column("p", "nodes", ids, nullable=False),
        ir.Column("p", "edges", ids, nullable=False),
    ]


@pytest.mark.parametrize(
    ("match", "ends", "direction"),
    [
        ("$p: shortest $a road{1,2} $b", ("Town", "Town"), ir.Direction.FORWARD),
        ("$p: shortest $a <road>{1,2} $b", ("Town", "Town"), ir.Direction.EITHER),
        ("$b: Port  $p: shortest $a pier{1,2} $b", ("Town", "Port"), ir.Direction.FORWARD),
        ("$a: Port  $p: shortest $a pier{1,2} $b", ("Port", "Town"), ir.Direction.BACKWARD),
        ("$p: shortest $a pier{1,1} $b  $b road $c", ("Port", "Town"), ir.Direction.BACKWARD),
        ("$b: Port  $a: Town  $p: shortest $a ferry|pier|road{1,} $b", ("Town", "Port"), ir.Direction.FORWARD),
        ("$b: Town  $a: Port  $p: shortest $a road|pier|ferry{1,} $b", ("Port", "Town"), ir.Direction.BACKWARD),
        ("$a: Town  $b: Town  $p: shortest $a <pier>{2,2} $b", ("Town", "Town"), ir.Direction.EITHER),
        ("$a: Named  $p: shortest $a road{1,2} $b", ("Town", "Town"), ir.Direction.FORWARD),
    ],
)
def test_the_direction_of_a_path_follows_from_its_ends(
    towns: Catalog, match: str, ends: tuple[str, str], direction: ir.Direction
) -> None:
    found = search(towns, match)
    assert (found.ends, found.direction) == (ends, direction)


def test_a_path_types_the_ends_that_no_other_clause_types(towns: Catalog) -> None:
    body = compile_query(text_of("$p: shortest $a road{1,2} $b  $b pier $c", "$c"), towns).body
    assert isinstance(body, ir.Read)
    types = {each.variable: each.types for each in body.pattern.nodes}
    assert types == {"a": ("Town",), "b": ("Town",), "c": ("Port",)}


@pytest.mark.parametrize(
    ("match", "code"),
    [
        ("$p: shortest $a plane{1,2} $b", Code.UNKNOWN_EDGE),
        ("$p: shortest $a road|plane{1,2} $b", Code.UNKNOWN_EDGE),
        ("$a: Port  $b: Port  $p: shortest $a road{1,2} $b", Code.TRAVERSAL_ENDS),
        ("$a: Town  $p: shortest $a road|pier{1,2} $b", Code.TRAVERSAL_ENDS),
        ("$p: shortest $a road{1,2} $b by length", Code.UNKNOWN_PROPERTY),
        ("$p: shortest $a road{1,2} $b by label", Code.OPERATOR_NOT_DEFINED),
        ("$p: shortest $a road{2,3} $b by cost", Code.HOPS_NOT_POSSIBLE),
        ("$p: shortest $p road{1,2} $b", Code.VARIABLE_REUSED),
        ("$p: shortest $a road{1,2} $b  $p road $c", Code.VARIABLE_REUSED),
        ("$p: shortest $a road{1,2} $b  $p: Town", Code.VARIABLE_REUSED),
        ("$p: shortest $a road{1,2} $b  $p.weight > 1", Code.UNKNOWN_PROPERTY),
        ("$p: shortest $a road{1,2} $b  $p > 1", Code.ENTITY_AS_VALUE),
        ("$p: shortest $a road{1,2} $b  $x $q $y", Code.UNKNOWN_VARIABLE),
        ("$p: shortest $a road{1,2} $b  $x $a $y", Code.UNKNOWN_VARIABLE),
        ("$a: Town  $b: Port  $p: shortest $a road|pier{1,2} $b  $x $p $y", Code.TRAVERSAL_ENDS),
        (
            "$a: Town  $b: Port  $p: shortest $a road|pier{1,2} $b  $x: Town  $y: Port  $x $w:$p $y",
            Code.VARIABLE_REUSED,
        ),
        ("$p: shortest $a road{1,2} $b  $x: Port  $x $p $y", Code.TRAVERSAL_ENDS),
    ],
)
def test_a_mistake_about_a_path_is_one_finding(towns: Catalog, match: str, code: Code) -> None:
    assert codes(towns, match, "$b.name") == [code]


@pytest.mark.parametrize(
    ("match", "found"),
    [
        (BOTH + "$p: shortest $a road{1,} $b", []),
        ("$a: Town  $p: shortest $a road{1,} $b", [Code.UNBOUNDED_HOPS]),
        ('$a: Town { name: "A" }  $p: shortest $a road{1,} $b', [Code.UNBOUNDED_HOPS]),
        ('$a: Town { name: "A" }  $p: shortest $a road{1,} $b  $b pier $_', []),
        ("$p: shortest $a road{1,4} $b", []),
        (BOTH + "exists { $q: shortest $a road{1,} $b  $q.length > 2 }  $p: shortest $a road{1,9} $b", []),
    ],
)
def test_a_path_without_a_maximum_needs_ends_that_something_narrows(
    towns: Catalog, match: str, found: list[Code]
) -> None:
    assert codes(towns, match) == found


def test_a_path_that_nothing_uses_is_noticed(towns: Catalog) -> None:
    assert codes(towns, "$p: shortest $a road{1,2} $b", "$a, $b") == [Code.UNUSED_VARIABLE]


def test_a_path_connects_its_ends_and_its_steps(towns: Catalog) -> None:
    assert codes(towns, BOTH + "$p: shortest $a road{1,2} $b  $x $w:$p $y", "$w.cost, $x, $y, $p") == []


def test_a_search_reads_its_edges_and_tells_about_the_nodes_on_the_way(towns: Catalog) -> None:
    text = text_of("$a: Town  $b: Town  $p: shortest $a <pier|road>{1,2} $b by cost", "$p.length")
    access = compile_query(text, towns).access
    columns = ("cost", "dst", "id", "src")
    assert access.reads == {"edge:Pier": columns, "edge:Road": columns}
    assert access.asks == ("edge:Pier", "edge:Road", "node:Port", "node:Town")
