"""Builds the syntax tree of one schema declaration."""

from lark import Token

from omnigraph.diagnostics import quoted
from omnigraph.syntax.builder import Builder, present
from omnigraph.syntax.faults import SourceFault
from omnigraph.syntax.nodes import Annotation, NameArgument, TextLiteral, TypeExpression
from omnigraph.syntax.schema_ast import (
    EdgeDeclaration,
    InterfaceDeclaration,
    NodeDeclaration,
    PropertyDeclaration,
)

_ALWAYS_CONSTRAINTS = frozenset({"range", "check"})
_CONSTRAINTS_WITH_ARGUMENTS = frozenset({"key", "unique", "index"})

_Members = tuple[tuple[Annotation, ...], tuple[PropertyDeclaration, ...], tuple[Annotation, ...]]


class SchemaBuilder(Builder):
    """One method a grammar rule."""

    def interface(self, name: Token, *rest: tuple[NameArgument, ...] | Annotation | _Members) -> InterfaceDeclaration:
        implements, *annotations, members = rest
        own, properties, constraints = _members(members)
        return InterfaceDeclaration(
            str(name),
            _names(implements),
            (*_annotations(annotations), *own),
            properties,
            constraints,
            span=self.at(name),
        )

    def node(self, name: Token, *rest: tuple[NameArgument, ...] | Annotation | _Members) -> NodeDeclaration:
        implements, *annotations, members = rest
        own, properties, constraints = _members(members)
        return NodeDeclaration(
            str(name),
            _names(implements),
            (*_annotations(annotations), *own),
            properties,
            constraints,
            span=self.at(name),
        )

    def edge(
        self, name: Token, source: Token, destination: Token, *rest: Annotation | _Members | None
    ) -> EdgeDeclaration:
        *annotations, members = rest
        own, properties, constraints = _members(members)
        return EdgeDeclaration(
            str(name),
            NameArgument(str(source), span=self.at(source)),
            NameArgument(str(destination), span=self.at(destination)),
            (*_annotations(annotations), *own),
            properties,
            constraints,
            span=self.at(name),
        )

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
                    self._language.syntax,
                    f"{quoted('@' + item.name)} stands before any property",
                    item.span,
                    f"write it behind a property, or name the properties: `@{item.name}(a, b)`",
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


def _names(implements: object) -> tuple[NameArgument, ...]:
    return implements if isinstance(implements, tuple) else ()


def _annotations(items: object) -> tuple[Annotation, ...]:
    assert isinstance(items, list)
    return present(items)


def _members(members: object) -> _Members:
    return members if isinstance(members, tuple) else ((), (), ())
