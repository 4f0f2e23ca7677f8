"""The syntax tree of a `.pg` schema."""

from typing import TypeAlias

from omnigraph.dataclass_later import dataclass
from omnigraph.syntax.nodes import Annotation, NameArgument, Node, TypeExpression


@dataclass(frozen=True, slots=True)
class PropertyDeclaration(Node):
    """``name: Type @annotation…``, with the span of the name."""

    name: str
    type: TypeExpression
    annotations: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class _NodeLikeDeclaration(Node):
    name: str
    implements: tuple[NameArgument, ...] = ()
    annotations: tuple[Annotation, ...] = ()
    properties: tuple[PropertyDeclaration, ...] = ()
    constraints: tuple[Annotation, ...] = ()


@dataclass(frozen=True, slots=True)
class InterfaceDeclaration(_NodeLikeDeclaration):
    """``interface Named { … }``; spans of declarations are those of their names."""


@dataclass(frozen=True, slots=True)
class NodeDeclaration(_NodeLikeDeclaration):
    """``node Person implements Named { … }``"""


@dataclass(frozen=True, slots=True)
class EdgeDeclaration(Node):
    """``edge Knows: Person -> Person { … }``"""

    name: str
    source: NameArgument
    destination: NameArgument
    annotations: tuple[Annotation, ...] = ()
    properties: tuple[PropertyDeclaration, ...] = ()
    constraints: tuple[Annotation, ...] = ()


Declaration: TypeAlias = InterfaceDeclaration | NodeDeclaration | EdgeDeclaration


@dataclass(frozen=True, slots=True)
class SchemaFile(Node):
    """All declarations of one schema, in source order."""

    declarations: tuple[Declaration, ...]
