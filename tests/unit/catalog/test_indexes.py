"""Which indexes the types of a schema get."""

import pytest

from omnigraph.catalog import IndexIntent, IndexKind, catalog_from_json, catalog_to_json, compile_schema, index_intents
from omnigraph.catalog.indexes import FILTERS
from omnigraph.codes import Code
from omnigraph.errors import SchemaError


def names(schema: str, type: str = "A") -> list[str]:
    entity = compile_schema(schema).entity(type)
    assert entity is not None
    return [intent.name for intent in index_intents(entity)]


def code_of(schema: str) -> Code:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema)
    (finding,) = caught.value.diagnostics
    return finding.code


def test_a_node_is_found_by_its_id_and_an_edge_by_its_ends_too() -> None:
    schema = "node A { x: String }\nedge E: A -> A"
    assert names(schema) == ["id_btree"]
    assert names(schema, "E") == ["id_btree"]


@pytest.mark.parametrize(
    ("type", "expected"),
    [
        ("String", ["x_btree", "x_inverted"]),
        ("I32", ["x_btree"]),
        ("U64", ["x_btree"]),
        ("F32", ["x_btree"]),
        ("Date", ["x_btree"]),
        ("DateTime", ["x_btree"]),
        ("Bool", ["x_bitmap"]),
        ("enum(a, b)", ["x_bitmap"]),
        ("[String]", ["x_label_list"]),
        ("[I64]", ["x_label_list"]),
        ("Vector(4)", ["x_vector"]),
    ],
)
def test_an_index_fits_the_type_of_its_property(type: str, expected: list[str]) -> None:
    assert names(f"node A {{ x: {type} @index }}") == ["id_btree", *expected]
    assert names(f"node A {{ x: {type}? @index(x) }}") == ["id_btree", *expected]
    assert names(f"node A {{ x: {type} }}") == ["id_btree"]


def test_every_property_of_a_key_has_an_index() -> None:
    assert names("node A { a: String, b: Date @key(a, b) }") == ["id_btree", "a_btree", "a_inverted", "b_btree"]


def test_an_id_that_is_the_key_has_one_order() -> None:
    assert names("node A { id: String @key }") == ["id_btree", "id_inverted"]


def test_indexes_of_the_ends_of_an_edge_are_there_already() -> None:
    # The index of topology serves them, which is not one of a column.
    assert names("node A { x: String }\nedge E: A -> A { @index(src, dst) }", "E") == ["id_btree"]


def test_parts_of_texts_are_indexed_where_that_is_declared() -> None:
    assert names('node A { x: String @index("substring") }') == ["id_btree", "x_ngram", "x_inverted"]
    assert names('node A { x: String @index @index("substring") }') == ["id_btree", "x_ngram", "x_inverted"]
    assert names('node A { x: String @index("substring") y: String @index(x, y) }') == [
        "id_btree",
        "x_ngram",
        "x_inverted",
        "y_btree",
        "y_inverted",
    ]
    assert names('node A { x: String }\nedge E: A -> A { y: String? @index("substring") }', "E")[-2:] == [
        "y_ngram",
        "y_inverted",
    ]


def test_kinds_of_an_index_add_up_over_interfaces() -> None:
    interface = 'interface I { x: String @index("substring") }\n'
    assert names(interface + "node A implements I { }") == ["id_btree", "x_ngram", "x_inverted"]
    assert names(interface + "node A implements I { x: String @index }") == ["id_btree", "x_ngram", "x_inverted"]
    assert names(interface + "node A implements I { x: String @key }") == ["id_btree", "x_ngram", "x_inverted"]


@pytest.mark.parametrize(
    ("property", "code"),
    [
        ('x: I32 @index("substring")', Code.CONSTRAINT_NOT_ALLOWED),
        ('x: [String] @index("substring")', Code.CONSTRAINT_NOT_ALLOWED),
        ('x: Blob @index("substring")', Code.CONSTRAINT_NOT_ALLOWED),
        ('x: String @index("prefix")', Code.ANNOTATION_ARGUMENTS),
        ('x: String @index("substring", "substring")', Code.ANNOTATION_ARGUMENTS),
        ('x: String @index(kind="substring")', Code.ANNOTATION_ARGUMENTS),
        ('x: String @index(x, "substring")', Code.ANNOTATION_ARGUMENTS),
        ('x: String @unique("substring")', Code.ANNOTATION_ARGUMENTS),
    ],
)
def test_a_kind_of_index_that_cannot_be_is_refused(property: str, code: Code) -> None:
    assert code_of(f"node A {{ {property} }}") is code


def test_a_kind_of_index_stands_behind_a_property() -> None:
    assert code_of('node A @index("substring") { x: String }') is Code.ANNOTATION_ARGUMENTS
    assert code_of('node A { @index("substring") x: String }') is Code.SCHEMA_SYNTAX


def test_what_is_declared_survives_the_compiled_form() -> None:
    catalog = compile_schema('node A { x: String @index("substring"), y: Bool @index }')
    data = catalog_to_json(catalog)
    assert catalog_from_json(data) == catalog
    del data["nodes"][0]["substrings"]
    assert catalog_from_json(data).nodes["A"].substrings == ()


def test_of_the_indexes_of_a_column_the_first_and_no_other_serves_conditions() -> None:
    catalog = compile_schema(
        'node A { a: String @key, b: String @index("substring"), c: Bool @index, d: [I32] @index, e: Vector(2) @index }'
    )
    seen: dict[str, list[IndexKind]] = {}
    for intent in index_intents(catalog.nodes["A"]):
        assert intent.name == IndexIntent(intent.column, intent.kind).name
        seen.setdefault(intent.column, []).append(intent.kind)
    for kinds in seen.values():
        assert not FILTERS & {*kinds[1:]}
