"""The steps that change the rules and the indexes of a type."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from omnigraph.catalog.indexes import IndexIntent
from omnigraph.catalog.model import SOURCE, Cardinality, Check, Range
from omnigraph.evolution.migration.steps import Cost, CostKind, Step
from omnigraph.syntax.nodes import TextLiteral
from omnigraph.syntax.printer import print_literal


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

    @property
    def cost(self) -> Cost:
        return Cost(CostKind.READS, rule_columns(self.rule), self.rows) if self.checked else Cost(CostKind.METADATA)

    @property
    def what(self) -> str:
        instead = "" if self.replaced is None else f", which was {rule_text(self.replaced)}"
        return f"{self.type}: {rule_text(self.rule)}{instead}"

    @property
    def details(self) -> dict[str, Any]:
        replaced = None if self.replaced is None else rule_text(self.replaced)
        return {"rule": rule_text(self.rule), "replaced": replaced}


@dataclass(frozen=True, kw_only=True)
class RelaxConstraint(Step):
    """A rule that allows all that it did, and more."""

    before: Rule
    after: Rule

    @property
    def what(self) -> str:
        return f"{self.type}: {rule_text(self.before)} → {rule_text(self.after)}"

    @property
    def details(self) -> dict[str, Any]:
        return {"before": rule_text(self.before), "after": rule_text(self.after)}


@dataclass(frozen=True, kw_only=True)
class DropConstraint(Step):
    """A rule that ends."""

    rule: Rule

    @property
    def what(self) -> str:
        return f"{self.type}: {rule_text(self.rule)}"

    @property
    def details(self) -> dict[str, Any]:
        return {"rule": rule_text(self.rule)}


@dataclass(frozen=True, kw_only=True)
class _IndexStep(Step):
    index: IndexIntent

    @property
    def details(self) -> dict[str, Any]:
        return {"index": {"column": self.index.column, "kind": self.index.kind.value}}

    @property
    def what(self) -> str:
        return f"{self.type}.{self.index.column}: {self.index.kind}"


class AddIndex(_IndexStep):
    """An index to be built with the others that are missing; every answer is the same without it."""


class DropIndex(_IndexStep):
    """An index that nobody asks for any more."""
