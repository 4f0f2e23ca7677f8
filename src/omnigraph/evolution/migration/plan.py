"""The plan of a migration: ordered steps from the accepted schema to a new one, or why it cannot be done."""

import html
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from omnigraph.api.queries import BrokenQuery
from omnigraph.catalog.compile import check_schema
from omnigraph.catalog.model import Catalog, EntityType, Interface, Property
from omnigraph.catalog.serial import catalog_to_json
from omnigraph.catalog.types import List, Scalar
from omnigraph.catalog.values import Value
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Diagnostic, Findings, Source, render_all
from omnigraph.errors import SchemaError
from omnigraph.evolution.migration.comparison import CatalogComparison, Places
from omnigraph.evolution.migration.steps import Step
from omnigraph.syntax import parse_schema
from omnigraph.violations import Violation

HEADINGS = ("", "step", "what", "cost", "rows")
"""What the columns of `MigrationPlan.rows` are called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """What leads from one schema to another.

    The steps can be done one after the other; the schema is whole after each. What is in `refused` has no step, so a
    plan that refuses something cannot be done. `catalog` is what the graph has in the end: what was there before keeps
    its identity. `notes` are warnings about the new text.
    """

    steps: tuple[Step, ...]
    refused: tuple[Diagnostic, ...]
    notes: tuple[Diagnostic, ...]
    catalog: Catalog
    violations: tuple[Violation, ...] = ()
    """The first rows that break a rule which comes, if a graph was asked; `violation_count` is how many there are."""
    violation_count: int = 0
    broken_queries: tuple[BrokenQuery, ...] = ()
    """The stored queries that fit the old schema and not the new one, if a graph was asked."""

    @property
    def is_possible(self) -> bool:
        """Whether it can be done: nothing is refused, and no row is in the way. Broken queries can be allowed."""
        return not self.refused and not self.violation_count

    @property
    def loses_data(self) -> bool:
        """Whether values that can be read before cannot be read afterwards, but in the history."""
        return any(step.loses_data for step in self.steps)

    @property
    def is_empty(self) -> bool:
        """Whether both schemas mean the same, however they are written."""
        return not self.steps and not self.refused

    def with_rows(self, rows: Mapping[int, int]) -> "MigrationPlan":
        """The plan for a graph; `rows` has the number of rows of each type, by its identity."""
        steps = tuple(replace(step, rows=rows.get(step.identity)) for step in self.steps)
        return replace(self, steps=steps)

    def as_json(self) -> dict[str, Any]:
        """The plan as scripts read it."""
        return {
            "possible": self.is_possible,
            "loses_data": self.loses_data,
            "steps": [step.as_json() for step in self.steps],
            "refused": [finding.as_json() for finding in self.refused],
            "notes": [finding.as_json() for finding in self.notes],
            "violations": [violation._asdict() for violation in self.violations],
            "violation_count": self.violation_count,
            "broken_queries": [each.as_json() for each in self.broken_queries],
            "catalog": catalog_to_json(self.catalog),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The steps as rows of a table: number, kind, description, cost, and number of rows."""
        return [
            (
                str(number),
                step.kind.replace("_", " "),
                step.what,
                str(step.cost),
                "" if step.cost.rows is None else f"{step.cost.rows:,}",
            )
            for number, step in enumerate(self.steps, start=1)
        ]

    def __str__(self) -> str:
        if self.is_empty:
            return "nothing to do"
        lines = [HEADINGS, *self.rows()] if self.steps else []
        widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))] if lines else []
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        broken = "\n".join([*self.violation_lines(), *self.broken_lines()])
        return "\n\n".join(part for part in ("\n".join(table), render_all(self.refused), broken) if part)

    def violation_lines(self) -> list[str]:
        """The rows that break a rule, as text."""
        rest = self.violation_count - len(self.violations)
        shown = [str(each) for each in self.violations]
        return [*shown, f"and {rest} more"] if rest else shown

    def broken_lines(self) -> list[str]:
        """The stored queries that the change breaks, as text."""
        return [f"breaks the stored query {each}" for each in self.broken_queries]

    def _repr_html_(self) -> str:
        """A table for notebooks, and what is refused."""
        if self.is_empty:
            return "<p>nothing to do</p>"
        head = "".join(f"<th>{name}</th>" for name in HEADINGS)
        body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows())
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if self.steps else ""
        problems = "\n".join(
            part for part in (render_all(self.refused), *self.violation_lines(), *self.broken_lines()) if part
        )
        return table + (f"<pre>{html.escape(problems)}</pre>" if problems else "")


def migration_plan(
    old: Catalog, new: Source, *, settled: Callable[[Catalog, Collection[int]], Catalog] = lambda compiled, _: compiled
) -> MigrationPlan:
    """What leads from the accepted schema to a new text; raises `SchemaError` if that is not a schema.

    `settled` completes the new catalog as a graph would record it; it is also given the identities of the properties
    that a model fills already. A vector that names no model keeps the one that is recorded for it.
    """
    compiled = check_schema(new, previous=old)
    if compiled.catalog is None:
        raise SchemaError([finding for finding in compiled.diagnostics if finding.is_error])
    catalog = with_fillings(old, settled(_with_recorded_models(old, compiled.catalog), _filled_by_models(old)))
    return replace(plan_between(old, catalog, new), notes=compiled.diagnostics)


def plan_between(old: Catalog, new: Catalog, source: Source) -> MigrationPlan:
    """What leads from one accepted schema to another of the same graph, whose text is the source."""
    findings = Findings(source)
    steps = CatalogComparison(old, new, Places(parse_schema(source).tree, new), findings).steps()
    return MigrationPlan(steps=steps, refused=findings.diagnostics, notes=(), catalog=new)


def with_fillings(old: Catalog, new: Catalog) -> Catalog:
    """The new catalog, in which each property says what the rows got that were there when it came."""
    known = {each.identity: each.filling for entity in old.entities for each in entity.properties.values()}

    def with_filling(owner: Interface | EntityType, declared: Property) -> Property:
        if isinstance(owner, Interface) or owner.identity not in old.by_identity:
            return declared
        is_known = declared.identity in known
        return replace(declared, filling=known[declared.identity] if is_known else _as_stored(declared))

    return new.with_properties(with_filling)


def _as_stored(declared: Property) -> Value | None:
    """The default of a property as rows have it: a narrow number may be another than the one that was written."""
    stored = declared.type.element if isinstance(declared.type, List) else declared.type
    if stored is not Scalar.F32 or declared.default is None:
        return declared.default
    if isinstance(declared.default, tuple):
        return tuple(pa.array(declared.default, pa.float32()).to_pylist())
    rounded: float = pa.scalar(declared.default, pa.float32()).as_py()
    return rounded


def _filled_by_models(catalog: Catalog) -> frozenset[int]:
    """The identities of the properties that a model fills."""
    return frozenset(
        declared.identity
        for entity in catalog.entities
        for declared in entity.properties.values()
        if declared.embedding is not None and declared.embedding.model is not None
    )


def _with_recorded_models(old: Catalog, new: Catalog) -> Catalog:
    """The new catalog with the models that the old one has, where the new text names none.

    A vector that no model could fill when it came stays nullable: there may be rows without it.
    """
    recorded = {each.identity: each.embedding for entity in old.entities for each in entity.properties.values()}

    def with_model(owner: Interface | EntityType, declared: Property) -> Property:
        if declared.embedding is None:
            return declared
        earlier = recorded.get(declared.identity)
        if isinstance(owner, Interface):
            properties = old.interfaces[owner.name].properties if owner.name in old.interfaces else {}
            earlier = properties[declared.name].embedding if declared.name in properties else None
        if earlier is None:
            return declared
        embedding = replace(
            declared.embedding, model=declared.embedding.model or earlier.model, optional=earlier.optional
        )
        return replace(declared, nullable=declared.nullable or earlier.optional, embedding=embedding)

    return new.with_properties(with_model)
