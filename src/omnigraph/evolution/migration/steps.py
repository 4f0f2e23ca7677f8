"""The steps that lead from one schema to another, each with what it does and what it costs.

A step names types and properties as they are called when its turn comes, and has their identities, which never change.
"""

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from omnigraph.catalog.model import ID, EntityType, Interface, NodeType


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

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()

    @property
    def what(self) -> str:
        """The step in a few words."""
        return self.type

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
        return {}

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

    @property
    def what(self) -> str:
        return f"{self.type} → {self.new}"

    @property
    def details(self) -> dict[str, Any]:
        return {"new": self.new}


@dataclass(frozen=True, kw_only=True)
class ChangeImplements(Step):
    """Which interfaces a node type has. Its properties have steps of their own."""

    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def what(self) -> str:
        return f"{self.type} implements {', '.join(self.after) or 'nothing'}"

    @property
    def details(self) -> dict[str, Any]:
        return {"before": list(self.before), "after": list(self.after)}


@dataclass(frozen=True, kw_only=True)
class _InterfaceStep(Step):
    """A step about an interface, which has no table and so no identity."""

    identity: int = 0

    @property
    def what(self) -> str:
        return f"interface {self.type}"


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
