"""Builds the syntax tree of one schema declaration."""

from typing import Any, TypeVar

from omnigraph.diagnostics import quoted
from omnigraph.syntax.builder import Builder, present
from omnigraph.syntax.language import SourceFault
from omnigraph.syntax.nodes import Annotation, NameArgument, TextLiteral, TypeExpression
from omnigraph.syntax.schema_ast import (
    EdgeDeclaration,
    InterfaceDeclaration,
    NodeDeclaration,
    PropertyDeclaration,
)
from omnigraph.syntax.tables import Token

_ALWAYS_CONSTRAINTS = frozenset({"range", "check"})
_CONSTRAINTS_WITH_ARGUMENTS = frozenset({"key", "unique", "index"})

_Members = tuple[tuple[Annotation, ...], tuple[PropertyDeclaration, ...], tuple[Annotation, ...]]

DeclarationT = TypeVar("DeclarationT", bound=InterfaceDeclaration | NodeDeclaration)


class SchemaBuilder(Builder):
    """One method a grammar rule."""

    def interface(self, name: Token, *rest: Any) -> InterfaceDeclaration:
        return self._node_like(InterfaceDeclaration, name, *rest)

    def node(self, name: Token, *rest: Any) -> NodeDeclaration:
        return self._node_like(NodeDeclaration, name, *rest)

    def _node_like(self, kind: type[DeclarationT], name: Token, *rest: Any) -> DeclarationT:
        *head, members = rest
        own, properties, constraints = _members(members)
        annotations = tuple(each for each in head if isinstance(each, Annotation))
        implements = next((each for each in head if isinstance(each, tuple)), ())
        return kind(str(name), implements, (*annotations, *own), properties, constraints, span=self.at(name))

    def edge(self, name: Token, source: Token, destination: Token, *rest: Any) -> EdgeDeclaration:
        *annotations, members = rest
        own, properties, constraints = _members(members)
        begin, end = self.implements(source, destination)
        notes = (*present(annotations), *own)
        return EdgeDeclaration(str(name), begin, end, notes, properties, constraints, span=self.at(name))

    def implements(self, *names: Token) -> tuple[NameArgument, ...]:
        return tuple(NameArgument(str(name), span=self.at(name)) for name in names)

    def property(self, name: Token, type: TypeExpression) -> PropertyDeclaration:
        return PropertyDeclaration(str(name), type, span=self.at(name))

    def body(self, *items: PropertyDeclaration | Annotation) -> _Members:
        """Sorts the flat run of a body into annotations of the type, properties with theirs, and constraints.

        `@range`, `@check` and a constraint that names its properties are about the type wherever they stand; any
        other annotation belongs to the property before it, or to the type when there is none. So does an `@index` that
        says in a text what kind of index it is.
        """
        own: list[Annotation] = []
        properties: list[PropertyDeclaration] = []
        constraints: list[Annotation] = []
        for item in items:
            if isinstance(item, PropertyDeclaration):
                properties.append(item)
            elif is_constraint(item):
                constraints.append(item)
            elif properties:
                last = properties[-1]
                properties[-1] = PropertyDeclaration(last.name, last.type, (*last.annotations, item), span=last.span)
            elif item.name in _CONSTRAINTS_WITH_ARGUMENTS:
                raise SourceFault(
                    self._language.code("SYNTAX"),
                    f"{quoted('@' + item.name)} is written before any property",
                    item.span,
                    f"write it after a property, or name the properties: `@{item.name}(a, b)`",
                )
            else:
                own.append(item)
        return tuple(own), tuple(properties), tuple(constraints)


def is_constraint(annotation: Annotation) -> bool:
    """Whether an annotation in a body constrains the type, rather than describing one property."""
    if annotation.name in _ALWAYS_CONSTRAINTS:
        return True
    if annotation.name == "index" and all(isinstance(each.value, TextLiteral) for each in annotation.arguments):
        return False
    return annotation.name in _CONSTRAINTS_WITH_ARGUMENTS and bool(annotation.arguments)


def _members(members: _Members | None) -> _Members:
    return members or ((), (), ())
