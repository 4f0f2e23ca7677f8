"""Which declarations of a property `id` get a column of their own: those that are not a text.

The column `id` of a node has the id as a text, which is derived from the key. So a key `id: U64` is stored beside it,
as the property `__id`. Queries, mutations and records call it `id`.
"""

from collections.abc import Sequence
from dataclasses import replace

from omnigraph.catalog.annotations import CONSTRAINTS
from omnigraph.catalog.model import ID, TYPED_ID
from omnigraph.catalog.types import Scalar
from omnigraph.syntax import nodes
from omnigraph.syntax import schema_ast as ast


def with_typed_ids(declarations: Sequence[ast.Declaration]) -> tuple[ast.Declaration, ...]:
    """The declarations with such a property under the name that it has in tables, also where constraints name it."""
    typed = {each.name for each in declarations if not isinstance(each, ast.EdgeDeclaration) and _declares_one(each)}
    return tuple(
        _with_typed_id(each) if not isinstance(each, ast.EdgeDeclaration) and _has_one(each, typed) else each
        for each in declarations
    )


def _declares_one(declaration: ast.NodeDeclaration | ast.InterfaceDeclaration) -> bool:
    return any(each.name == ID and not _is_text(each.type) for each in declaration.properties)


def _has_one(declaration: ast.NodeDeclaration | ast.InterfaceDeclaration, typed: set[str]) -> bool:
    inherits = any(reference.name in typed for reference in declaration.implements)
    return _declares_one(declaration) or (inherits and all(each.name != ID for each in declaration.properties))


def _is_text(type: nodes.TypeExpression) -> bool:
    return isinstance(type, nodes.NamedType) and type.name == Scalar.STRING


def _with_typed_id(
    declaration: ast.NodeDeclaration | ast.InterfaceDeclaration,
) -> ast.NodeDeclaration | ast.InterfaceDeclaration:
    properties = tuple(
        replace(each, name=TYPED_ID) if each.name == ID and not _is_text(each.type) else each
        for each in declaration.properties
    )
    return replace(
        declaration,
        properties=properties,
        constraints=tuple(map(_constraint, declaration.constraints)),
        annotations=tuple(map(_constraint, declaration.annotations)),
    )


def _constraint(annotation: nodes.Annotation) -> nodes.Annotation:
    if annotation.name not in CONSTRAINTS:
        return annotation
    return replace(annotation, arguments=tuple(map(_argument, annotation.arguments)))


def _argument(argument: nodes.Argument) -> nodes.Argument:
    if isinstance(argument.value, nodes.NameArgument) and argument.value.name == ID:
        return replace(argument, value=replace(argument.value, name=TYPED_ID))
    return argument
