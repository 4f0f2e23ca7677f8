"""How a schema becomes a catalog."""

import json
from datetime import date

import pytest

from omnigraph.catalog import (
    Cardinality,
    Catalog,
    Check,
    Embedding,
    Enum,
    Range,
    Scalar,
    catalog_from_json,
    catalog_to_json,
    compile_schema,
    table_schema,
)
from omnigraph.catalog.compile import check_schema
from omnigraph.codes import Code
from omnigraph.diagnostics import Source
from omnigraph.errors import SchemaError


def test_the_parts_of_a_node_type_are_found(catalog: Catalog) -> None:
    person = catalog.nodes["Person"]
    assert person.key == ("name",)
    assert person.unique == (("name", "city"),)
    assert person.indexes == (("city",), ("bio",))
    assert person.ranges == (Range("age", 0, 200),)
    assert person.checks == (Check("name", "^[A-Z].*"),)
    assert person.interfaces == ("Named",)
    assert person.properties["city"].type == Enum(("berlin", "oslo", "quito"))
    assert person.properties["embedding"].embedding == Embedding("bio", "mock/small")
    assert catalog.nodes["Company"].properties["size"].default == 1
    assert catalog.nodes["Event"].key == ("day", "room")


def test_the_ends_of_an_edge_can_be_written_with_an_at_in_constraints() -> None:
    written, plain = (
        compile_schema(f"node A {{}} edge E: A -> A {{ n: I32 @unique({at}src, {at}dst, n) @index({at}dst) }}")
        for at in ("@", "")
    )
    assert written.edges["E"].unique == plain.edges["E"].unique == (("src", "dst", "n"),)
    assert written.edges["E"].indexes == plain.edges["E"].indexes


def test_an_id_that_is_not_a_text_is_a_property_beside_the_id() -> None:
    catalog = compile_schema("""
        interface Has { id: I64 @index }
        node A { id: U64 @key, n: I32, @unique(n, id) @range(id, 1..) }
        node B implements Has { @key(id, room) room: String }
        node C { id: String @key }
    """)
    assert (catalog.nodes["A"].key, catalog.nodes["A"].unique) == (("__id",), (("n", "__id"),))
    assert catalog.nodes["A"].ranges == (Range("__id", 1, None),)
    assert table_schema(catalog.nodes["A"]).names == ["id", "__id", "n"]
    assert (catalog.nodes["B"].key, catalog.nodes["B"].indexes) == (("__id", "room"), (("__id",),))
    assert table_schema(catalog.nodes["C"]).names == ["id"]
    assert catalog.nodes["A"].column_of("id") == "__id"
    assert catalog.nodes["C"].column_of("id") == "id"


@pytest.mark.parametrize("declared", ["id: U64", "id: String", "id: [String]?", "__id: U64 @key", "Id: U64 @key"])
def test_another_id_cannot_be_declared(declared: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(f"node A {{ {declared}, name: String }}")
    assert Code.RESERVED_NAME in {finding.code for finding in caught.value.diagnostics}


def test_an_edge_with_the_name_of_a_node_is_called_as_queries_write_it() -> None:
    text = """
        node Order { n: U64 @key } interface Has { n: U64 }
        edge Order: Order -> Order edge Has: Order -> Order edge X: Order -> Order
    """
    found = compile_schema(text)
    assert [*found.edges] == ["order", "has", "X"]
    assert {each.table_key for each in found.entities} == {"node:Order", "edge:order", "edge:has", "edge:X"}
    assert found.entity("Order") is found.nodes["Order"]
    assert found.entity("order") is found.edge("ORDER") is found.edges["order"]
    assert found.edges["order"].declared_name == "Order"
    again = compile_schema(text, previous=found)
    assert again == found
    alone = compile_schema("node A { n: U64 @key } edge Order: A -> A", previous=found)
    assert alone.edges["Order"].identity == found.edges["order"].identity


@pytest.mark.parametrize(
    "schema",
    [
        "node A {} node A {}",
        "node A {} interface A {}",
        "node Ab {} node AB {}",
        "node A {} edge E: A -> A edge E: A -> A",
        "node A {} edge Ee: A -> A edge EE: A -> A",
    ],
)
def test_other_names_are_declared_once(schema: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema)
    assert {finding.code for finding in caught.value.diagnostics} == {Code.DUPLICATE_NAME}


def test_the_source_of_an_embedding_may_be_a_bare_name() -> None:
    quoted, bare = (compile_schema(f"node A {{ t: String, v: Vector(3) @embed({name}) }}") for name in ('"t"', "t"))
    assert bare.nodes["A"].properties["v"].embedding == quoted.nodes["A"].properties["v"].embedding == Embedding("t")


def test_an_edge_is_found_in_any_case(catalog: Catalog) -> None:
    works_at = catalog.edges["WorksAt"]
    assert catalog.edge("worksAt") is works_at
    assert catalog.edge("WORKSAT") is works_at
    assert works_at.query_name == "worksAt"
    assert works_at.cardinality == Cardinality(0, 1)
    assert catalog.edges["Knows"].cardinality == Cardinality(0, None)
    assert catalog.edge("nothing") is None


def test_the_edges_that_a_node_type_touches_are_known(catalog: Catalog) -> None:
    assert [edge.name for edge in catalog.edges_touching("Company")] == ["WorksAt", "Contains"]


def test_the_order_of_enum_values_has_no_meaning() -> None:
    one, other = compile_schema("node A { x: enum(b, a) }"), compile_schema("node A { x: enum(a, b) }")
    assert one == other


# --- interfaces ---


def test_a_type_gets_the_properties_and_constraints_of_its_interfaces() -> None:
    catalog = compile_schema(
        """
        interface Named { name: String @index  @check(name, "x") }
        interface Aged implements Named { age: I32? @default(3)  @range(age, 0..) }
        node Person implements Aged { age: I32 }
        """
    )
    person = catalog.nodes["Person"]
    assert person.interfaces == ("Aged", "Named")
    assert list(person.properties) == ["age", "name"]
    assert not person.properties["age"].nullable
    assert person.properties["age"].default == 3
    assert person.indexes == (("name",),)
    assert person.ranges == (Range("age", 0, None),)
    assert person.checks == (Check("name", "x"),)
    assert catalog.implementers("Named") == ("Person",)


def test_a_diamond_of_interfaces_gives_each_property_once() -> None:
    catalog = compile_schema(
        "interface A { x: I32 } interface B implements A { } interface C implements A { } node D implements B, C { }"
    )
    assert catalog.nodes["D"].interfaces == ("B", "A", "C")
    assert list(catalog.nodes["D"].properties) == ["x"]


def test_an_error_in_an_interface_is_reported_once() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema("interface I { x: Strng } node A implements I { } node B implements I { }")
    assert [finding.code for finding in caught.value.diagnostics] == [Code.UNKNOWN_SCALAR]


# --- names ---


def test_a_node_may_declare_its_id_as_its_key() -> None:
    catalog = compile_schema("node A { id: String @key, x: I32 }")
    assert catalog.nodes["A"].key == ("id",)


def test_all_mistakes_are_reported_in_the_order_of_the_source() -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema("node a { X: Strng }\nedge Knows: a -> Nobody\nnode B implements C {", name="s.pg")
    codes = [(finding.line, finding.code) for finding in caught.value.diagnostics]
    assert codes == [
        (1, Code.NAME_CASE),
        (1, Code.NAME_CASE),
        (1, Code.UNKNOWN_SCALAR),
        (2, Code.UNKNOWN_ENDPOINT),
        (3, Code.SCHEMA_SYNTAX),
    ]
    assert "s.pg:2:18" in str(caught.value)


# --- identity ---


def test_a_type_keeps_its_identity_when_the_schema_grows() -> None:
    before = compile_schema("node A { x: I32 }")
    after = compile_schema("node Z { } node A { w: I32, x: I32 }", previous=before)
    assert after.nodes["A"].identity == before.nodes["A"].identity
    assert after.nodes["A"].properties["x"].identity == before.nodes["A"].properties["x"].identity
    fresh = {after.nodes["Z"].identity, after.nodes["A"].properties["w"].identity}
    assert min(fresh) >= before.next_identity


def test_a_rename_keeps_the_identity() -> None:
    before = compile_schema("node A { x: I32 } edge E: A -> A { w: F32 }")
    after = compile_schema(
        'node B @rename_from("A") { y: I32 @rename_from("x") } edge F: B -> B @rename_from("E") { w: F32 }',
        previous=before,
    )
    assert after.nodes["B"].identity == before.nodes["A"].identity
    assert after.nodes["B"].properties["y"].identity == before.nodes["A"].properties["x"].identity
    assert after.edges["F"].identity == before.edges["E"].identity
    assert after.edges["F"].properties["w"].identity == before.edges["E"].properties["w"].identity


def test_a_rename_that_was_applied_may_stay_in_the_file() -> None:
    text = 'node B @rename_from("A") { y: I32 @rename_from("x") }'
    before = compile_schema(text, previous=compile_schema("node A { x: I32 }"))
    assert compile_schema(text, previous=before) == before


def test_a_name_that_was_dropped_comes_back_as_something_new() -> None:
    first = compile_schema("node A { x: I32 } node B { }")
    second = compile_schema("node B { }", previous=first)
    third = compile_schema("node A { x: I32 } node B { }", previous=second)
    assert third.nodes["A"].identity >= first.next_identity
    assert third.nodes["A"].properties["x"].identity >= first.next_identity
    assert third.nodes["B"].identity == first.nodes["B"].identity


def test_swapped_names_are_two_renames() -> None:
    before = compile_schema("node A { x: I32, y: I32 }")
    with pytest.raises(SchemaError) as caught:
        compile_schema('node A { x: I32 @rename_from("y"), y: I32 @rename_from("x") }', previous=before)
    assert {finding.code for finding in caught.value.diagnostics} == {Code.INVALID_RENAME}


# --- the compiled form ---


def test_a_catalog_survives_json(catalog: Catalog) -> None:
    assert catalog_from_json(json.loads(json.dumps(catalog_to_json(catalog)))) == catalog


def test_defaults_survive_json() -> None:
    catalog = compile_schema(
        'node A { a: Date @default(date("2026-01-31")), b: [I32] @default([1, 2]) c: F32 @default(-0.5) @odd(x, 1..2) }'
    )
    again = catalog_from_json(json.loads(json.dumps(catalog_to_json(catalog))))
    assert again == catalog
    assert again.nodes["A"].properties["a"].default == date(2026, 1, 31)
    assert again.nodes["A"].properties["b"].default == (1, 2)
    assert again.nodes["A"].properties["c"].annotations[1].arguments == ("x", "1..2")


def test_a_compiled_form_of_another_format_is_refused(catalog: Catalog) -> None:
    with pytest.raises(ValueError, match="format 99"):
        catalog_from_json({**catalog_to_json(catalog), "format": 99})


def test_scalars_are_spelt_as_in_the_language() -> None:
    assert [str(scalar) for scalar in Scalar][:3] == ["String", "Bool", "I32"]


@pytest.mark.parametrize(
    ("schema", "code"),
    [
        ("node A { n: I32 @default(500) @range(n, 0..10) }", Code.INVALID_DEFAULT),
        ('node A { s: String @default("b") @check(s, "^a") }', Code.INVALID_DEFAULT),
        ("node A { n: U32 @range(n, -5..-1) }", Code.ANNOTATION_ARGUMENTS),
        ("node A { n: F32 @default(1e39) }", Code.INVALID_DEFAULT),
        ("node A { n: I32 @range(p=n, 0..1) }", Code.ANNOTATION_ARGUMENTS),
        ("node A { n: I32 @default(1) @default(2) }", Code.ANNOTATION_ARGUMENTS),
        ("node A implements B { } node B { }", Code.UNKNOWN_INTERFACE),
        ("interface I { myName: String } node A implements I { myname: String }", Code.DUPLICATE_NAME),
        ("node A { x: I32 @unique(x, x) }", Code.ANNOTATION_ARGUMENTS),
        ("node A { x: I32 @index(y) }", Code.UNKNOWN_TARGET),
        ("node A { n: I32 @range(n) }", Code.ANNOTATION_ARGUMENTS),
        ("node A { n: I32 @range(n, ..) }", Code.ANNOTATION_ARGUMENTS),
        ("node A { n: I32 @range(n, 5..2) }", Code.ANNOTATION_ARGUMENTS),
        ("node A { s: String @range(s, 0..1) }", Code.CONSTRAINT_NOT_ALLOWED),
        ("node A { s: String @check(s) }", Code.ANNOTATION_ARGUMENTS),
        ('node A { n: I32 @check(n, "^a") }', Code.CONSTRAINT_NOT_ALLOWED),
        ('node A { s: String @check(s, "(") }', Code.INVALID_REGEX),
        ("node A { } edge E: A -> A @card(2..1)", Code.INVALID_CARDINALITY),
        ("node A { } edge E: A -> A @card(x)", Code.INVALID_CARDINALITY),
        ("node A { } edge E: A -> A { n: I32 @range(n, 0..1) }", Code.CONSTRAINT_NOT_ALLOWED),
        ('node A { } edge E: A -> A { s: String @check(s, "a") }', Code.CONSTRAINT_NOT_ALLOWED),
        ('node A { x: Int @range(x, 0..1) v: Vector(3) @embed("x") }', Code.UNKNOWN_SCALAR),
    ],
)
def test_what_could_never_hold_is_refused_once(schema: str, code: Code) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(schema)
    assert [finding.code for finding in caught.value.diagnostics] == [code]


@pytest.mark.parametrize(
    ("properties", "message", "hint"),
    [
        ("n: I32 @card(0..1)", "`@card` belongs to an edge", None),
        ("n: I32 @default", "`@default` takes one literal", '`@default("text")`'),
        ("n: I32 @default(1, 2)", "`@default` takes one literal", "`@default(0)`"),
        ("n: String @default(red)", "`@default` takes one literal", '`@default("red")`'),
        ('n: I32 @default("x")', "the default does not fit", None),
        ("n: I32 @default(null)", "null cannot be the default of a required property", "`?`"),
        ("n: I32 @description", "`@description` takes one text", '`@description("…")`'),
        ("n: I32 @rename_from(a, b)", "`@rename_from` takes one text", '`@rename_from("…")`'),
        ("n: I32 @defualt(1)", "`@defualt` is kept, but has no effect", "`@default`"),
        ("text: String v: Vector(3) @embed(txt)", "`txt` is not a property here", "`text`"),
        ("text: String v: Vector(3) @embed(text, model=small)", "`@embed` takes the name of a text property", "model="),
        ("t: String v: Vector(3) @embed", "`@embed` takes the name of a text property", '`@embed("bio")`'),
        ('t: String v: Vector(3) @embed("t", size=3)', "`@embed` takes the name of a text property", "model="),
        ('t: String v: Vector(3) @embed("t", model=3)', "`@embed` takes the name of a text property", "model="),
        ('t: String v: String @embed("t")', "only a Vector can be embedded, not String", None),
        ('t: I32 v: Vector(3) @embed("t")', "`t` is not a String", None),
        ('text: String v: Vector(3) @embed("txt")', "`txt` is not a property here", "`text`"),
    ],
)
def test_an_annotation_that_cannot_be_meant_so_is_explained(properties: str, message: str, hint: str | None) -> None:
    findings = check_schema(Source("<schema>", f"node A {{ {properties} }}")).diagnostics
    assert len(findings) == 1
    assert message in findings[0].message
    assert (findings[0].hint is None) if hint is None else (hint in (findings[0].hint or ""))


def test_a_constraint_before_the_brace_of_an_interface_reaches_its_types() -> None:
    catalog = compile_schema("interface I @unique(x) { x: I32 } node A implements I { }")
    assert catalog.nodes["A"].unique == (("x",),)
