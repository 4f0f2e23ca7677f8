"""The compiled schema: types, properties and constraints."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, TypeAlias, TypeVar

import pyarrow as pa

from omnigraph.catalog.types import PropertyType, Scalar, arrow_field
from omnigraph.catalog.values import Value
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import NotFound

ID, SOURCE, DESTINATION = "id", "src", "dst"
TYPED_ID = "__id"
"""The property that a schema declares as `id`, if it is not a String: the column `id` has the id as a text."""

ENDS: Mapping[str, str] = {"from": SOURCE, "to": DESTINATION}
"""The columns of the ends of an edge by the names that records and queries have for them; no property has these."""

SYSTEM_NAMES: Mapping[str, str] = {ID: "@id", SOURCE: "@src", DESTINATION: "@dst"}
"""How queries and schemas can also write the columns of the system."""

_EDGE_COLUMNS = {**ENDS, **{name: column for column, name in SYSTEM_NAMES.items()}}


@dataclass(frozen=True, slots=True)
class KeptAnnotation:
    """An annotation as it was written, for other programs to interpret; the arguments are source text."""

    name: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Embedding:
    """A vector is filled from the text of another property, by a model if one is named."""

    source: str
    model: str | None = None
    optional: bool = False
    """Whether the vector may be null although its type has no `?`, because no model could fill it when it came."""

    @property
    def is_unfilled(self) -> bool:
        """Whether no model was found that can fill the vector."""
        return self.model is None and self.optional


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
    """The value that existing rows got when the property was added, if it was added later than its type."""

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
    extends: tuple[str, ...] = ()
    properties: Mapping[str, Property]
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
    kind: ClassVar[str]
    system_columns: ClassVar[tuple[str, ...]]

    @property
    def table_key(self) -> str:
        """How manifests, conflicts and lint name the table of this type."""
        return f"{self.kind}:{self.name}"

    @cached_property
    def columns(self) -> pa.Schema:
        """The columns of its table: what identifies a row, then its properties in declaration order."""
        system = [arrow_field(name, Scalar.STRING, nullable=False) for name in self.system_columns]
        properties = [
            arrow_field(declared.name, declared.type, nullable=declared.nullable)
            for declared in self.properties.values()
            if declared.name not in self.system_columns
        ]
        return pa.schema([*system, *properties])

    @cached_property
    def indexed_properties(self) -> frozenset[str]:
        """The properties named by an `@index`."""
        return frozenset(name for names in self.indexes for name in names)


@dataclass(frozen=True, kw_only=True)
class NodeType(_TableType):
    """A node type with its interfaces expanded into it."""

    def column_of(self, name: str) -> str:
        """The column that queries and records ask for by a name: an `id` of another type than String is its own."""
        if name == ID and TYPED_ID in self.properties:
            return TYPED_ID
        return ID if name == SYSTEM_NAMES[ID] else name

    interfaces: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    ranges: tuple[Range, ...] = ()
    checks: tuple[Check, ...] = ()
    kind: ClassVar = "node"
    system_columns: ClassVar = (ID,)


@dataclass(frozen=True, kw_only=True)
class EdgeType(_TableType):
    """An edge type from one node type to another."""

    source: str
    destination: str
    cardinality: Cardinality = Cardinality()
    kind: ClassVar = "edge"
    system_columns: ClassVar = (ID, SOURCE, DESTINATION)

    @property
    def query_name(self) -> str:
        """The edge as a query writes it; also its name, if a node or interface is called like it."""
        return self.name[0].lower() + self.name[1:]

    def column_of(self, name: str) -> str:
        """The column that queries ask for by a name: an edge has `from` and `to` for `src` and `dst`."""
        return _EDGE_COLUMNS.get(name, name)

    @property
    def declared_name(self) -> str:
        """The edge as the schema declares it."""
        return self.name[0].upper() + self.name[1:]


EntityType: TypeAlias = NodeType | EdgeType
_Owner = TypeVar("_Owner", Interface, NodeType, EdgeType)


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
        """The node or edge type of this name; the node type, if both have it."""
        return self.nodes.get(name) or self.edge(name)

    def entities_of(self, name: str) -> tuple[EntityType, ...]:
        """The node type and the edge type of this name, as far as there are any."""
        return tuple(each for each in (self.nodes.get(name), self.edge(name)) if each is not None)

    def existing_entity(self, name: str) -> EntityType:
        """The node or edge type of this name; raises `NotFound` if there is none."""
        if (entity := self.entity(name)) is None:
            raise NotFound("type", name)
        return entity

    def implementers(self, interface: str) -> tuple[str, ...]:
        """The node types that implement an interface, directly or through another."""
        return self._implementers[interface]

    def edges_touching(self, node: str) -> tuple[EdgeType, ...]:
        """The edge types that begin or end at a node type, and so lose edges when a node is deleted."""
        return tuple(edge for edge in self.edges.values() if node in (edge.source, edge.destination))

    def with_properties(self, change: Callable[[Interface | EntityType, Property], Property]) -> "Catalog":
        """The catalog with every property as `change` makes it of the type or interface that has it, and of itself."""

        def changed_owners(owners: Mapping[str, _Owner]) -> dict[str, _Owner]:
            return {
                name: replace(owner, properties={key: change(owner, each) for key, each in owner.properties.items()})
                for name, owner in owners.items()
            }

        interfaces, nodes = changed_owners(self.interfaces), changed_owners(self.nodes)
        return replace(self, interfaces=interfaces, nodes=nodes, edges=changed_owners(self.edges))


def table_schema(entity: EntityType) -> pa.Schema:
    """The columns of a type's table."""
    return entity.columns
