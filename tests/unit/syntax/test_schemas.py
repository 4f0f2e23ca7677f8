"""How schema text is read."""

import pytest

from omnigraph.codes import Code
from omnigraph.diagnostics import Source
from omnigraph.syntax import parse_schema
from omnigraph.syntax.nodes import (
    Annotation,
    Argument,
    EnumType,
    FloatLiteral,
    IntLiteral,
    ListType,
    NameArgument,
    NamedType,
    RangeArgument,
    TextLiteral,
    TypeExpression,
    VectorType,
)
from omnigraph.syntax.schema_ast import Declaration, EdgeDeclaration, NodeDeclaration


def only_declaration(text: str) -> Declaration:
    parsed = parse_schema(Source("test.pg", text))
    assert parsed.diagnostics == ()
    (declaration,) = parsed.tree.declarations
    return declaration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("String", NamedType("String")),
        ("I64?", NamedType("I64", nullable=True)),
        ("Vector(3)", VectorType(3)),
        ("[Date]?", ListType(NamedType("Date"), nullable=True)),
        ("enum(a, in-progress, 3rd, 2024, _x)", EnumType(("a", "in-progress", "3rd", "2024", "_x"))),
        ("[enum(a,b,)]", ListType(EnumType(("a", "b")))),
    ],
)
def test_a_type_expression_reads_as_what_it_means(text: str, expected: TypeExpression) -> None:
    declaration = only_declaration(f"node A {{ p: {text} }}")
    assert declaration.properties[0].type == expected


def test_commas_and_lines_between_properties_are_optional() -> None:
    on_lines = only_declaration("node A {\n slug: String @key\n title: String\n}")
    assert only_declaration("node A { slug: String @key, title: String }") == on_lines
    assert only_declaration("node A{slug:String@key title:String,}") == on_lines


def test_comments_may_stand_between_everything() -> None:
    commented = "// a\nnode /* b */ A { // c\n /* d\n */ slug /**/ : String // e\n @key } // f"
    assert only_declaration(commented) == only_declaration("node A { slug: String @key }")


def test_annotations_may_stand_before_the_interfaces_too() -> None:
    expected = only_declaration('node A implements B, C @description("x") @own {}')
    assert only_declaration('node A @description("x") @own implements B, C {}') == expected
    assert only_declaration('node A @description("x") implements B, C @own {}') == expected
    assert only_declaration("interface A @own implements B {}") == only_declaration("interface A implements B @own {}")


def test_interfaces_are_listed_once() -> None:
    (finding,) = parse_schema(Source("test.pg", "node A implements B implements C {}")).diagnostics
    assert finding.code is Code.SCHEMA_SYNTAX


def test_a_constraint_that_names_its_properties_belongs_to_the_type_wherever_it_stands() -> None:
    declaration = only_declaration('node A { x: I32 @index @range(x, 0..) y: I32 @unique(x, y) @embed("z") }')
    assert [annotation.name for annotation in declaration.constraints] == ["range", "unique"]
    assert [[each.name for each in member.annotations] for member in declaration.properties] == [["index"], ["embed"]]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("0..200", IntLiteral(0), IntLiteral(200)),
        ("-1.5..", FloatLiteral(-1.5), None),
        ("..1e3", None, FloatLiteral(1000.0)),
    ],
)
def test_a_range_may_be_open_signed_or_fractional(
    text: str, low: IntLiteral | FloatLiteral | None, high: IntLiteral | FloatLiteral | None
) -> None:
    declaration = only_declaration(f"node A {{ x: F64 @range(x, {text}) }}")
    assert declaration.constraints == (
        Annotation("range", (Argument(NameArgument("x")), Argument(RangeArgument(low, high)))),
    )


def test_an_unknown_annotation_is_kept_with_its_arguments() -> None:
    declaration = only_declaration('node A @audited(by="x", 3) { }')
    assert isinstance(declaration, NodeDeclaration)
    assert declaration.annotations == (
        Annotation("audited", (Argument(TextLiteral("x"), "by"), Argument(IntLiteral(3)))),
    )


def test_an_edge_needs_no_body() -> None:
    declaration = only_declaration("edge WorksAt: Person -> Company @card(0..1)")
    assert isinstance(declaration, EdgeDeclaration)
    assert (declaration.source.name, declaration.destination.name) == ("Person", "Company")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node A { x String }", "expected `:`, found `String`"),
        ("node A { x: }", "expected `[`, `enum` or a name, found `}`"),
        ("edge A: B C", "expected `->`, found `C`"),
        ("nod A { }", "expected `edge`, `interface` or `node`, found `nod`"),
        ("node A { @key }", "`@key` is written before any property"),
        ("node A { x: Text(3) }", "`Text` takes no size"),
    ],
)
def test_a_syntax_error_names_what_was_found_and_what_was_expected(text: str, message: str) -> None:
    (finding,) = parse_schema(Source("test.pg", text)).diagnostics
    assert finding.code is Code.SCHEMA_SYNTAX
    assert finding.message == message
