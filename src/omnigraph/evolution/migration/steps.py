"""The steps that lead from one schema to another, each with what it does and what it costs.

A step names types and properties as they are called when its turn comes, and has their identities, which never change.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import field
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

from omnigraph.api.values import value_to_json
from omnigraph.catalog.indexes import IndexIntent
from omnigraph.catalog.model import (
    ID,
    SOURCE,
    Cardinality,
    Check,
    Embedding,
    EntityType,
    Interface,
    KeptAnnotation,
    NodeType,
    Property,
    Range,
)
from omnigraph.catalog.serial import type_to_json
from omnigraph.catalog.types import Enum, List, PropertyType, Scalar, Vector
from omnigraph.catalog.values import Value
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import quoted
from omnigraph.syntax.nodes import TextLiteral
from omnigraph.syntax.printer import print_literal


class CostKind(StrEnum):
    """What a step does to the rows that are there."""

    METADATA = "metadata only"
    READS = "reads"
    WRITES = "writes"
    LOSES = "data loss"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a step costs: which columns it touches, and of how many rows if a graph was asked."""

    kind: CostKind
    columns: tuple[str, ...] = ()
    rows: int | None = None

    def __str__(self) -> str:
        if self.kind is CostKind.METADATA:
            return str(self.kind)
        whole = "" if self.columns else "all columns"
        touched = whole or f"column{'s' if len(self.columns) > 1 else ''} {', '.join(self.columns)}"
        verb = f"{self.kind}:" if self.kind is CostKind.LOSES else str(self.kind)
        return f"{verb} {touched}"

    def as_json(self) -> dict[str, Any]:
        """The cost as scripts read it."""
        return {"kind": self.kind.value, "columns": list(self.columns), "rows": self.rows}


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step. `type` is the type it is about, `identity` its number; `rows` is how many it has, if that is known."""

    type: str
    identity: int
    rows: int | None = field(default=None, compare=False)

    kind: ClassVar[str] = ""
    cost_kind: ClassVar[CostKind] = CostKind.METADATA
    shown: ClassVar[tuple[str, ...]] = ()
    """The fields that only this kind of step has and that its JSON shows."""

    words: ClassVar[str] = "{0.type}"
    """What the step does, as a format for the step itself."""

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    @property
    def what(self) -> str:
        """The step in a few words."""
        return self.words.format(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read, written or lost; none stands for all."""
        return ()

    @property
    def cost(self) -> Cost:
        if self.cost_kind is CostKind.METADATA:
            return Cost(self.cost_kind)
        return Cost(self.cost_kind, self.columns, self.rows)

    @property
    def loses_data(self) -> bool:
        """Whether values that can be read before cannot be read afterwards, but in the history."""
        return self.cost.kind is CostKind.LOSES

    @property
    def details(self) -> dict[str, Any]:
        """What only this kind of step has, as JSON values."""
        return {name: _as_json(getattr(self, name)) for name in self.shown}

    def as_json(self) -> dict[str, Any]:
        """The step as scripts read it."""
        return {
            "step": self.kind,
            "type": self.type,
            "identity": self.identity,
            **self.details,
            "what": self.what,
            "cost": self.cost.as_json(),
            "loses_data": self.loses_data,
        }


@dataclass(frozen=True, kw_only=True)
class AddType(Step):
    """A type that was not there; it has no rows yet.

    `checked` says that it is an edge which every source must have, and that sources may be there.
    """

    entity: EntityType
    checked: bool = False

    @property
    def cost(self) -> Cost:
        return Cost(CostKind.READS, (ID,), self.rows) if self.checked else Cost(CostKind.METADATA)

    @property
    def what(self) -> str:
        if isinstance(self.entity, NodeType):
            return f"node {self.type}"
        return f"edge {self.type}: {self.entity.source} -> {self.entity.destination}"


@dataclass(frozen=True, kw_only=True)
class DropType(Step):
    """A type that ends, with all its rows."""

    entity: EntityType
    cost_kind = CostKind.LOSES

    @property
    def what(self) -> str:
        return f"{'node' if isinstance(self.entity, NodeType) else 'edge'} {self.type}"


@dataclass(frozen=True, kw_only=True)
class RenameType(Step):
    """A type with another name, also where edges and their ends name it."""

    new: str
    shown = ("new",)
    words = "{0.type} → {0.new}"


@dataclass(frozen=True, kw_only=True)
class ChangeImplements(Step):
    """Which interfaces a node type has. Its properties have steps of their own."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    shown = ("before", "after")

    @property
    def what(self) -> str:
        return f"{self.type} implements {', '.join(self.after) or 'nothing'}"


@dataclass(frozen=True, kw_only=True)
class _InterfaceStep(Step):
    """A step about an interface, which has no table and so no identity."""

    identity: int = 0
    words = "interface {0.type}"


@dataclass(frozen=True, kw_only=True)
class AddInterface(_InterfaceStep):
    """An interface that was not there."""

    interface: Interface


@dataclass(frozen=True, kw_only=True)
class ChangeInterface(_InterfaceStep):
    """An interface that says something else; what that means for node types are steps of their own."""

    before: Interface
    after: Interface


@dataclass(frozen=True, kw_only=True)
class DropInterface(_InterfaceStep):
    """An interface that ends; nothing implements it any more."""

    interface: Interface


@dataclass(frozen=True, kw_only=True)
class _PropertyStep(Step):
    """A step about one property, which has a name and an identity."""

    name: str
    property_identity: int

    @property
    def columns(self) -> tuple[str, ...]:
        return (self.name,)

    @property
    def place(self) -> str:
        return f"{self.type}.{self.name}"

    @property
    def details(self) -> dict[str, Any]:
        return {"property": self.name, "property_identity": self.property_identity, **super().details}


@dataclass(frozen=True, kw_only=True)
class AddProperty(_PropertyStep):
    """A property that was not there.

    The rows that are there get what it came with, which is its default. Without one they have null, or a vector of
    their text if it is required.
    """

    declared: Property

    @property
    def writes_rows(self) -> bool:
        """Whether the rows that are there get a value."""
        return self.declared.filling is not None or not self.declared.nullable

    @property
    def cost(self) -> Cost:
        return Cost(CostKind.WRITES, self.columns, self.rows) if self.writes_rows else Cost(CostKind.METADATA)

    @property
    def what(self) -> str:
        text = f"{self.place}: {type_text(self.declared.type, nullable=self.declared.nullable)}"
        if self.declared.filling is not None:
            return f"{text}, {value_text(self.declared.filling)} in every row"
        if self.declared.embedding is None:
            return text
        source = quoted(self.declared.embedding.source)
        if self.declared.embedding.is_unfilled:
            return f"{text}, from {source}, without a model"
        filled = f"computed from {source}" if self.writes_rows else f"from {source}, for `omnigraph embed` to fill"
        return f"{text}, {filled}"

    @property
    def details(self) -> dict[str, Any]:
        return {
            **super().details,
            "property_type": type_to_json(self.declared.type),
            "nullable": self.declared.nullable,
            "default": value_to_json(self.declared.default),
            "embedding": _as_json(self.declared.embedding),
        }


@dataclass(frozen=True, kw_only=True)
class DropProperty(_PropertyStep):
    """A property that ends, with its values."""

    cost_kind = CostKind.LOSES
    words = "{0.place}"


@dataclass(frozen=True, kw_only=True)
class RenameProperty(_PropertyStep):
    """A property with another name, also where keys, rules and embeddings name it."""

    new: str
    shown = ("new",)
    words = "{0.place} → {0.new}"


@dataclass(frozen=True, kw_only=True)
class RelaxToNullable(_PropertyStep):
    """A property that may be null from then on."""

    words = "{0.place} may be null"


@dataclass(frozen=True, kw_only=True)
class _TypeStep(_PropertyStep):
    before: PropertyType
    after: PropertyType
    shown = ("before", "after")
    words = "{0.place}: {0.before} → {0.after}"


class WidenEnum(_TypeStep):
    """An enum that allows more values, or any text. The stored texts stay as they are."""


class NarrowEnum(_TypeStep):
    """A text of which fewer values are allowed. The stored texts stay as they are, once it is seen that they fit."""

    cost_kind = CostKind.READS


class WidenNumber(_TypeStep):
    """A number of a wider type, in which every value that the narrower one can hold is the same number."""

    cost_kind = CostKind.WRITES


@dataclass(frozen=True, kw_only=True)
class ChangeDefault(_PropertyStep):
    """What a new row has if it is given nothing. The rows that are there keep what they have."""

    before: Value | None
    after: Value | None
    shown = ("before", "after")

    @property
    def what(self) -> str:
        return f"{self.place}: {value_text(self.before)} → {value_text(self.after)}"


@dataclass(frozen=True, kw_only=True)
class ChangeEmbedding(_PropertyStep):
    """From which text a vector is computed, and by which model.

    `refills` says that the vectors that are there were computed in another way, and are recomputed: vectors of
    two models or texts cannot be compared. Vectors that nothing computed stay.
    """

    before: Embedding | None
    after: Embedding | None
    refills: bool
    shown = ("before", "after", "refills")

    @property
    def cost(self) -> Cost:
        return Cost(CostKind.WRITES, self.columns, self.rows) if self.refills else Cost(CostKind.METADATA)

    @property
    def what(self) -> str:
        computed = ", recomputed" if self.refills else ""
        return f"{self.place}: {_embedding_text(self.before)} → {_embedding_text(self.after)}{computed}"


@dataclass(frozen=True, kw_only=True)
class ChangeAnnotations(Step):
    """What is said about a type, or about one of its properties, for people and tools."""

    name: str | None
    """The property, or None if it is about the type."""

    before: tuple[KeptAnnotation, ...]
    after: tuple[KeptAnnotation, ...]
    shown = ("before", "after")

    @property
    def what(self) -> str:
        place = self.type if self.name is None else f"{self.type}.{self.name}"
        kept = {*self.before} & {*self.after}
        names = dict.fromkeys(each.name for each in (*self.before, *self.after) if each not in kept)
        return f"{place}: {', '.join(f'@{name}' for name in names) or 'in another order'}"

    @property
    def details(self) -> dict[str, Any]:
        return {"property": self.name, **super().details}


def type_text(type: PropertyType, *, nullable: bool) -> str:
    """A type as a schema writes it."""
    return f"{type}{'?' if nullable else ''}"


def value_text(value: Value | None) -> str:
    """A default as a step shows it."""
    return "nothing" if value is None else json.dumps(value_to_json(value), ensure_ascii=False)


def annotations_that_say_more(annotations: Iterable[KeptAnnotation]) -> tuple[KeptAnnotation, ...]:
    """The annotations without those that the catalog has as other fields, or that only a migration reads."""
    return tuple(each for each in annotations if each.name not in _MEANT_ELSEWHERE)


_MEANT_ELSEWHERE = frozenset({"default", "embed", "card", "rename_from"})


def _embedding_text(embedding: Embedding | None) -> str:
    if embedding is None:
        return "not embedded"
    return quoted(embedding.source) + (f" by {embedding.model}" if embedding.model else "")


def _as_json(value: object) -> Any:
    """A field of a step as a JSON value."""
    match value:
        case Unique() | Range() | Check() | Cardinality():
            return rule_text(value)
        case IndexIntent(column, kind):
            return {"column": column, "kind": kind.value}
        case Embedding(source, model):
            return {"source": source, "model": model}
        case KeptAnnotation(name, arguments):
            return [name, list(arguments)]
        case Scalar() | Enum() | List() | Vector():
            return type_to_json(value)
        case tuple():
            return [_as_json(each) for each in value]
        case _:
            return value_to_json(value)


@dataclass(frozen=True, slots=True)
class Unique:
    """``@unique``: no two rows have the same values."""

    properties: tuple[str, ...]


Rule: TypeAlias = Unique | Range | Check | Cardinality


def rule_text(rule: Rule) -> str:
    """A rule as a schema writes it."""
    match rule:
        case Unique(properties):
            return f"@unique({', '.join(properties)})"
        case Range(name, low, high):
            return f"@range({name}, {'' if low is None else low}..{'' if high is None else high})"
        case Check(name, pattern):
            return f"@check({name}, {print_literal(TextLiteral(pattern))})"
        case Cardinality():
            return f"@card({rule})"


def rule_columns(rule: Rule) -> tuple[str, ...]:
    """The columns that a rule is about."""
    match rule:
        case Unique(properties):
            return properties
        case Range(name) | Check(name):
            return (name,)
        case Cardinality():
            return (SOURCE,)


@dataclass(frozen=True, kw_only=True)
class AddConstraint(Step):
    """A rule that was not there, or was wider (`replaced`). `checked` says that rows could break it."""

    rule: Rule
    replaced: Rule | None = None
    checked: bool = True
    shown = ("rule", "replaced")

    @property
    def cost(self) -> Cost:
        return Cost(CostKind.READS, rule_columns(self.rule), self.rows) if self.checked else Cost(CostKind.METADATA)

    @property
    def what(self) -> str:
        instead = "" if self.replaced is None else f", which was {rule_text(self.replaced)}"
        return f"{self.type}: {rule_text(self.rule)}{instead}"


@dataclass(frozen=True, kw_only=True)
class RelaxConstraint(Step):
    """A rule that allows all that it did, and more."""

    before: Rule
    after: Rule
    shown = ("before", "after")

    @property
    def what(self) -> str:
        return f"{self.type}: {rule_text(self.before)} → {rule_text(self.after)}"


@dataclass(frozen=True, kw_only=True)
class DropConstraint(Step):
    """A rule that ends."""

    rule: Rule
    shown = ("rule",)

    @property
    def what(self) -> str:
        return f"{self.type}: {rule_text(self.rule)}"


@dataclass(frozen=True, kw_only=True)
class _IndexStep(Step):
    index: IndexIntent
    shown = ("index",)
    words = "{0.type}.{0.index.column}: {0.index.kind}"


class AddIndex(_IndexStep):
    """An index to be built with the others that are missing; every answer is the same without it."""


class DropIndex(_IndexStep):
    """An index that the schema no longer declares."""
