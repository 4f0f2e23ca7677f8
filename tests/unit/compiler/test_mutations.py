"""How a mutation is typechecked and lowered."""

import pytest

from omnigraph.catalog import Catalog, Scalar, compile_schema
from omnigraph.codes import Code
from omnigraph.compiler import check_queries, compile_query, ir
from omnigraph.diagnostics import Source


def statements(catalog: Catalog, text: str, parameters: str = "") -> tuple[ir.Statement, ...]:
    body = compile_query(f"query q({parameters}) {{ {text} }}", catalog).body
    assert isinstance(body, ir.Mutation)
    return body.statements


def codes(catalog: Catalog, text: str, parameters: str = "") -> list[Code]:
    source = Source("test.gq", f"query q({parameters}) {{ {text} }}")
    return [finding.code for finding in check_queries(source, catalog).diagnostics]


def test_inserts_updates_and_deletes_may_be_mixed(catalog: Catalog) -> None:
    kinds = [
        type(each)
        for each in statements(
            catalog,
            'insert Person { name: "Ada", bio: "" } insert knows { from: "Ada", to: "Ada" } '
            'update Person set { age: null } where name = "Ada" delete Company where size > 3 and id != "x"',
        )
    ]
    assert kinds == [ir.InsertNode, ir.InsertEdge, ir.Update, ir.Delete]


@pytest.mark.parametrize(
    ("statement", "kind", "type"),
    [
        ("insert Order { n: 1 }", ir.InsertNode, "Order"),
        ("insert Order { from: 1, to: 2 }", ir.InsertEdge, "order"),
        ("insert order { from: 1, to: 2 }", ir.InsertEdge, "order"),
        ("delete Order where n = 1", ir.Delete, "Order"),
        ('delete Order where to = "1"', ir.Delete, "order"),
        ('update Order set { note: "x" } where src = "1"', ir.Update, "order"),
        ('update Order set { note: "x" } where n = 1', ir.Update, "Order"),
        ('update order set { note: "x" } where id = "x"', ir.Update, "order"),
        ('delete Mail where from = "x"', ir.Delete, "Mail"),
        ('delete Mail where src = "x"', ir.Delete, "mail"),
        ('delete Mail where @dst = "x"', ir.Delete, "mail"),
        ('delete Mail where @id = "x"', ir.Delete, "Mail"),
    ],
)
def test_of_a_node_and_an_edge_with_one_name_the_edge_is_meant_where_an_end_is_named(
    statement: str, kind: type, type: str
) -> None:
    catalog = compile_schema("""
        node Order { n: U64 @key, note: String? } edge Order: Order -> Order { note: String? }
        node Mail { from: String? } edge Mail: Mail -> Mail
    """)
    (found,) = statements(catalog, statement)
    assert isinstance(found, kind)
    assert found.type == type
    query = compile_query(f"query q {{ {statement} }}", catalog)
    assert f"{'node' if type[0].isupper() else 'edge'}:{type}" in query.access.writes


def test_values_take_the_type_of_their_property(catalog: Catalog) -> None:
    (insert,) = statements(catalog, "insert Counts { from: 1, to: 2, weight: 3 }")
    assert isinstance(insert, ir.InsertEdge)
    assert insert.values == (("weight", ir.Constant(3.0, Scalar.F64)),)


def test_an_end_of_an_edge_is_an_id_or_a_key(catalog: Catalog) -> None:
    by_number, by_text, composite = statements(
        catalog,
        'insert Counts { from: 1, to: $n, weight: 1 } insert Counts { from: "1", to: $s, weight: 1 } '
        'insert Attends { from: $s, to: [date("2026-01-31"), $room] }',
        "$n: I64, $s: String, $room: I32",
    )
    assert isinstance(by_number, ir.InsertEdge)
    assert by_number.source == ir.NodeReference("Counter", key=(ir.Constant(1, Scalar.I64),))
    assert isinstance(by_text, ir.InsertEdge)
    assert by_text.source == ir.NodeReference("Counter", id=ir.Constant("1", Scalar.STRING))
    assert isinstance(composite, ir.InsertEdge)
    assert len(composite.destination.key) == 2


def test_a_default_or_an_embedding_need_not_be_given(catalog: Catalog) -> None:
    assert codes(catalog, 'insert Company { name: "A" } insert Person { name: "B", bio: "x" }') == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('insert Person { name: "Ada" }', Code.MISSING_PROPERTY),
        ('insert Person { name: "Ada", bio: null }', Code.NULL_NOT_ALLOWED),
        ('insert Person { name: "Ada", bio: $s }', Code.NULL_NOT_ALLOWED),
        ('insert Person { name: "Ada", bio: "", age: "3" }', Code.NOT_ASSIGNABLE),
        ('insert Person { name: "Ada", bio: "", age: $n }', Code.NOT_ASSIGNABLE),
        ('insert Person { name: "Ada", bio: "", age: 3000000000 }', Code.VALUE_OUT_OF_RANGE),
        ('insert Person { name: "Ada", bio: "", city: "x" }', Code.VALUE_OUT_OF_RANGE),
        ('insert Person { name: "Ada", bio: "", joined: "2026-01-31" }', Code.NOT_ASSIGNABLE),
        ('insert Person { name: "Ada", bio: "", nam: "x" }', Code.UNKNOWN_PROPERTY),
        ('insert Person { name: "Ada", name: "Bob", bio: "" }', Code.SET_TWICE),
        ('insert Person { name: Ada, bio: "" }', Code.BARE_NAME),
        ('insert Person { name: $x, bio: "" }', Code.UNKNOWN_VARIABLE),
        ('insert Named { name: "Ada" }', Code.UNKNOWN_TYPE),
        ('insert Knows { from: "a" }', Code.MISSING_ENDPOINT),
        ('insert Knows { src: "a", to: "b" }', Code.UNKNOWN_PROPERTY),
        ('insert Attends { from: "a", to: [1] }', Code.NOT_ASSIGNABLE),
        ('insert Person { name: "Ada", bio: "", photo: "photo.png" }', Code.NOT_ASSIGNABLE),
        ('insert Person { name: "Ada", bio: "", photo: "base64:?" }', Code.VALUE_OUT_OF_RANGE),
        ('insert Person { name: "Ada", bio: "", photo: $n }', Code.NOT_ASSIGNABLE),
        ('update Person set { name: "x" } where name = "y"', Code.NOT_UPDATABLE),
        ('update Person set { id: "x" } where name = "y"', Code.NOT_UPDATABLE),
        ('update Knows set { src: "x" } where id = "y"', Code.NOT_UPDATABLE),
        ('update Knows set { from: "x" } where from = "y"', Code.NOT_UPDATABLE),
        ('delete Person where from = "y"', Code.UNKNOWN_PROPERTY),
        ('update Person set { } where name = "y"', Code.EMPTY_QUERY),
        ("update Person set { age: 1 } where age > name", Code.INCOMPARABLE),
        ("update Person set { age: 1 } where age", Code.NOT_A_CONDITION),
        ("update Person set { age: name } where age > 1", Code.NOT_ASSIGNABLE),
        ("update Person set { age: age / 2 } where age > 1", Code.NOT_ASSIGNABLE),
        ("update Person set { bio: concat(Ada, name) } where age > 1", Code.UNKNOWN_PROPERTY),
        ("update Person set { age: count(name) } where age > 1", Code.FUNCTION_NOT_ALLOWED),
        ('delete Person where search(bio, "x")', Code.FUNCTION_NOT_ALLOWED),
        ("delete Person where exists { $p: Person }", Code.VALUE_NOT_CONSTANT),
        ('insert Person { name: upper(name), bio: "" }', Code.BARE_NAME),
        ("delete Person where ages > 3", Code.UNKNOWN_PROPERTY),
        ("delete Person where tags = 3", Code.INCOMPARABLE),
        ("delete Person where tags > 3", Code.OPERATOR_NOT_DEFINED),
        ("delete Person where name = $self", Code.UNKNOWN_VARIABLE),
    ],
)
def test_a_wrong_mutation_is_refused(catalog: Catalog, text: str, code: Code) -> None:
    found = codes(catalog, text, "$s: String?, $n: I64")
    assert [each for each in found if not each.startswith("L")] == [code]


def test_a_parameter_may_be_called_self(catalog: Catalog) -> None:
    assert codes(catalog, "delete Person where name = $self", "$self: String") == []


def test_a_narrower_number_may_be_given_to_a_wider_property(catalog: Catalog) -> None:
    assert codes(catalog, "insert Counter { number: $n }", "$n: I32") == []
