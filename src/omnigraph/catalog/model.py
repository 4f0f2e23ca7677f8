"""The compiled schema: what every other floor asks about types, properties and constraints."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from omnigraph.catalog.types import PropertyType
from omnigraph.catalog.values import Value

ID, SOURCE, DESTINATION = "id", "src", "dst"


@dataclass(frozen=True, slots=True)
class KeptAnnotation:
    """An annotation as it was written, for whoever gives it a meaning; the arguments are source text."""

    name: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector is filled from the text of another property, by a model if one is named."""

    source: str
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """One property of a type. `identity` stays the same across renames and is never given to another."""

    identity: int
    name: str
    type: PropertyType
    nullable: bool = False
    default: Value | None = None
    embedding: Embedding | None = None
    annotations: tuple[KeptAnnotation, ...] = ()
    filling: Value | None = None
    """What the rows got that were there when the property came, if it came later than its type."""

    @property
    def required(self) -> bool:
        """Whether a new entity must be given a value, because nothing else provides one."""
        return not self.nullable and self.default is None and self.embedding is None


@dataclass(frozen=True, slots=True)
class Range:
    """``@range``: a number between two inclusive bounds, either of which may be open."""

    property: str
    low: int | float | None
    high: int | float | None

    def allows(self, value: int | float) -> bool:
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


@dataclass(frozen=True, slots=True)
class Check:
    """``@check``: a text in which the regular expression (RE2) is found."""

    property: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Cardinality:
    """``@card``: how many edges of a type one source node may have."""

    minimum: int = 0
    maximum: int | None = None

    def __str__(self) -> str:
        return f"{self.minimum}..{'' if self.maximum is None else self.maximum}"


@dataclass(frozen=True, kw_only=True)
class Interface:
    """Properties that several node types share."""

    name: str
    properties: Mapping[str, Property]
    extends: tuple[str, ...] = ()
    annotations: tuple[KeptAnnotation, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _TableType:
    """What node and edge types have in common: one type is one table."""

    identity: int
    name: str
    properties: Mapping[str, Property]
    unique: tuple[tuple[str, ...], ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    substrings: tuple[str, ...] = ()
    """The properties whose index finds parts of their texts; `indexes` has them too."""

    annotations: tuple[KeptAnnotation, ...] = ()

    @cached_property
    def indexed(self) -> frozenset[str]:
        """The properties that some `@index` names."""
        return frozenset(name for names in self.indexes for name in names)


@dataclass(frozen=True, kw_only=True)
class NodeType(_TableType):
    """A node type with its interfaces expanded into it."""

    interfaces: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def table_key(self) -> str:
        """How manifests, conflicts and lint name the table of this type."""
        return f"node:{self.name}"

    @property
    def system_columns(self) -> tuple[str, ...]:
        return (ID,)


@dataclass(frozen=True, kw_only=True)
class EdgeType(_TableType):
    """An edge type from one node type to another."""

    source: str
    destination: str
    cardinality: Cardinality = Cardinality()

    @property
    def table_key(self) -> str:
        """How manifests, conflicts and lint name the table of this type."""
        return f"edge:{self.name}"

    @property
    def system_columns(self) -> tuple[str, ...]:
        return (ID, SOURCE, DESTINATION)

    @property
    def query_name(self) -> str:
        """The edge as a query writes it."""
        return self.name[0].lower() + self.name[1:]


EntityType: TypeAlias = NodeType | EdgeType


@dataclass(frozen=True, kw_only=True)
class Catalog:
    """All types of one schema. `next_identity` is the first number that no type or property ever had."""

    interfaces: Mapping[str, Interface]
    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    next_identity: int

    @cached_property
    def entities(self) -> tuple[EntityType, ...]:
        """All types that have a table, nodes first."""
        return (*self.nodes.values(), *self.edges.values())

    @cached_property
    def by_identity(self) -> Mapping[int, EntityType]:
        """The same by their identities."""
        return {entity.identity: entity for entity in self.entities}

    @cached_property
    def _edges_by_folded_name(self) -> Mapping[str, EdgeType]:
        return {name.lower(): edge for name, edge in self.edges.items()}

    @cached_property
    def _implementers(self) -> Mapping[str, tuple[str, ...]]:
        return {
            interface: tuple(name for name, node in self.nodes.items() if interface in node.interfaces)
            for interface in self.interfaces
        }

    def edge(self, name: str) -> EdgeType | None:
        """The edge of this name; edge names match in any case."""
        return self._edges_by_folded_name.get(name.lower())

    def entity(self, name: str) -> EntityType | None:
        """The node or edge type of this name."""
        return self.nodes.get(name) or self.edge(name)

    def implementers(self, interface: str) -> tuple[str, ...]:
        """The node types that implement an interface, directly or through another."""
        return self._implementers[interface]

    def edges_touching(self, node: str) -> tuple[EdgeType, ...]:
        """The edge types that begin or end at a node type, and so lose edges when a node is deleted."""
        return tuple(edge for edge in self.edges.values() if node in (edge.source, edge.destination))
