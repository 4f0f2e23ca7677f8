"""The steps that change the properties of a type."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from omnigraph.api.values import value_to_json
from omnigraph.catalog.model import Embedding, KeptAnnotation, Property
from omnigraph.catalog.serial import type_to_json
from omnigraph.catalog.types import PropertyType
from omnigraph.catalog.values import Value
from omnigraph.diagnostics import quoted
from omnigraph.evolution.migration.steps import Cost, CostKind, Step


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
    def change(self) -> dict[str, Any]:
        """What is different, as JSON values."""
        return {}

    @property
    def details(self) -> dict[str, Any]:
        return {"property": self.name, "property_identity": self.property_identity, **self.change}


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
        filled = f"computed from {source}" if self.writes_rows else f"from {source}, for `omnigraph embed` to fill"
        return f"{text}, {filled}"

    @property
    def change(self) -> dict[str, Any]:
        default = value_to_json(self.declared.default)
        return {
            "property_type": type_to_json(self.declared.type),
            "nullable": self.declared.nullable,
            "default": default,
            "embedding": _embedding_json(self.declared.embedding),
        }


@dataclass(frozen=True, kw_only=True)
class DropProperty(_PropertyStep):
    """A property that ends, with its values."""

    cost_kind = CostKind.LOSES

    @property
    def what(self) -> str:
        return self.place


@dataclass(frozen=True, kw_only=True)
class RenameProperty(_PropertyStep):
    """A property with another name, also where keys, rules and embeddings name it."""

    new: str

    @property
    def what(self) -> str:
        return f"{self.place} → {self.new}"

    @property
    def change(self) -> dict[str, Any]:
        return {"new": self.new}


@dataclass(frozen=True, kw_only=True)
class RelaxToNullable(_PropertyStep):
    """A property that may be null from then on."""

    @property
    def what(self) -> str:
        return f"{self.place} may be null"


@dataclass(frozen=True, kw_only=True)
class _TypeStep(_PropertyStep):
    before: PropertyType
    after: PropertyType

    @property
    def what(self) -> str:
        return f"{self.place}: {self.before} → {self.after}"

    @property
    def change(self) -> dict[str, Any]:
        return {"before": type_to_json(self.before), "after": type_to_json(self.after)}


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

    @property
    def what(self) -> str:
        return f"{self.place}: {value_text(self.before)} → {value_text(self.after)}"

    @property
    def change(self) -> dict[str, Any]:
        return {"before": value_to_json(self.before), "after": value_to_json(self.after)}


@dataclass(frozen=True, kw_only=True)
class ChangeEmbedding(_PropertyStep):
    """From which text a vector is computed, and by which model.

    `refills` says that the vectors that are there were computed in another way, and so are computed anew: vectors of
    two models or texts cannot be compared. Vectors that nothing computed stay.
    """

    before: Embedding | None
    after: Embedding | None
    refills: bool

    @property
    def cost(self) -> Cost:
        return Cost(CostKind.WRITES, self.columns, self.rows) if self.refills else Cost(CostKind.METADATA)

    @property
    def what(self) -> str:
        computed = ", computed anew" if self.refills else ""
        return f"{self.place}: {_embedding_text(self.before)} → {_embedding_text(self.after)}{computed}"

    @property
    def change(self) -> dict[str, Any]:
        return {
            "before": _embedding_json(self.before),
            "after": _embedding_json(self.after),
            "refills": self.refills,
        }


@dataclass(frozen=True, kw_only=True)
class ChangeAnnotations(Step):
    """What is said about a type, or about one of its properties, for people and tools."""

    name: str | None
    """The property, or None if it is about the type."""

    before: tuple[KeptAnnotation, ...]
    after: tuple[KeptAnnotation, ...]

    @property
    def what(self) -> str:
        place = self.type if self.name is None else f"{self.type}.{self.name}"
        names = dict.fromkeys(each.name for each in (*self.before, *self.after) if not self._is_kept(each))
        return f"{place}: {', '.join(f'@{name}' for name in names) or 'in another order'}"

    def _is_kept(self, each: KeptAnnotation) -> bool:
        return each in self.before and each in self.after

    @property
    def details(self) -> dict[str, Any]:
        return {
            "property": self.name,
            "before": [[each.name, list(each.arguments)] for each in self.before],
            "after": [[each.name, list(each.arguments)] for each in self.after],
        }


def type_text(type: PropertyType, *, nullable: bool) -> str:
    """A type as a schema writes it."""
    return f"{type}{'?' if nullable else ''}"


def value_text(value: Value | None) -> str:
    """A default as a step shows it."""
    return "nothing" if value is None else json.dumps(value_to_json(value), ensure_ascii=False)


def annotations_that_say_more(annotations: Iterable[KeptAnnotation]) -> tuple[KeptAnnotation, ...]:
    """The annotations without those whose meaning the catalog has elsewhere, or that have done their work."""
    return tuple(each for each in annotations if each.name not in _MEANT_ELSEWHERE)


_MEANT_ELSEWHERE = frozenset({"default", "embed", "card", "rename_from"})


def _embedding_text(embedding: Embedding | None) -> str:
    if embedding is None:
        return "not embedded"
    return quoted(embedding.source) + (f" by {embedding.model}" if embedding.model else "")


def _embedding_json(embedding: Embedding | None) -> dict[str, Any] | None:
    return None if embedding is None else {"source": embedding.source, "model": embedding.model}
