"""Runs the statements of a mutation, one after the other, on what those before them have done."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from omnigraph.catalog import Catalog, EdgeType, EntityType, NodeType, node_id
from omnigraph.catalog.model import ID
from omnigraph.compiler import ir
from omnigraph.compiler.values import is_known
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import ValidationError
from omnigraph.mutating.conditions import select
from omnigraph.mutating.staging import MutationStaging
from omnigraph.mutating.values import (
    Row,
    Rows,
    RunValues,
    ValueDoesNotFit,
    column_of_rows,
    compute_column,
    fit_value,
)
from omnigraph.violations import Violation
from omnigraph.write.validate import SHOWN_VIOLATIONS

_Assigned = Iterable[tuple[str, ir.Expression]]


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements of one run on one snapshot, whose effects are kept in `staging`."""

    staging: MutationStaging
    catalog: Catalog
    values: RunValues

    def run(self, statement: ir.Statement) -> None:
        """Runs the next statement."""
        match statement:
            case ir.InsertNode(type, assigned, on_conflict):
                (given,) = self._assigned_values(self.catalog.nodes[type], assigned, [{}])
                self.staging.insert_node(self.catalog.nodes[type], given, on_conflict)
            case ir.InsertEdge(type, source, destination, assigned, on_conflict):
                ends = self._node_id(source), self._node_id(destination)
                (given,) = self._assigned_values(self.catalog.edges[type], assigned, [{}])
                self.staging.insert_edge(self.catalog.edges[type], ends, given, on_conflict)
            case ir.Update(type, assigned, conditions):
                self._update(entity_of(self.catalog, type), assigned, conditions)
            case ir.Delete(type, conditions):
                self._delete(entity_of(self.catalog, type), conditions)

    def _node_id(self, reference: ir.NodeReference) -> str:
        if reference.id is not None:
            identity: str = self.values.of(reference.id)
            return identity
        node = self.catalog.nodes[reference.type]
        types = [node.properties[name].type for name in node.key]
        return node_id([self.values.of(part) for part in reference.key], types)

    def _update(self, entity: EntityType, assigned: _Assigned, conditions: Iterable[ir.Condition]) -> None:
        selection = select(conditions, self.values)
        if selection is None:
            return
        rows = self.staging.matching(entity, selection)
        # All values are computed before one is written: each assignment sees the rows as they were.
        for row, values in zip(rows, self._assigned_values(entity, assigned, rows), strict=True):
            self.staging.change(entity, row, values)

    def _delete(self, entity: EntityType, conditions: Iterable[ir.Condition]) -> None:
        selection = select(conditions, self.values)
        if selection is not None:
            self.staging.remove(entity, [row[ID] for row in self.staging.matching(entity, selection, columns=(ID,))])

    # --- values ---

    def _assigned_values(self, entity: EntityType, assigned: _Assigned, rows: Rows) -> Sequence[Row]:
        """What is assigned for each of some rows, by property."""
        same: Row = {}
        columns: dict[str, list[Any]] = {}
        violations: list[Violation] = []
        for name, expression in assigned:
            if is_known(expression) and not isinstance(expression, ir.Call | ir.Comparison):
                same[name] = self.values.of(expression)
            else:
                columns[name] = self._computed_values(entity, name, expression, rows, violations)
        if violations:
            raise ValidationError([*islice(violations, SHOWN_VIOLATIONS)], len(violations))
        if not columns:
            return [{**same} for _ in rows]
        computed = zip(*columns.values(), strict=True)
        return [{**same, **dict(zip(columns, found, strict=True))} for found in computed]

    def _computed_values(
        self, entity: EntityType, name: str, expression: ir.Expression, rows: Rows, violations: list[Violation]
    ) -> list[Any]:
        """The values of an expression as a property holds them; what it cannot hold is added to the violations."""
        assert not isinstance(expression, ir.Entity)
        if isinstance(expression, ir.Column):
            found = [row[expression.name] for row in rows]
        else:
            resolved = self.values.resolve(expression)
            found = compute_column(resolved, len(rows), column_of_rows(rows)).to_pylist()
        declared = entity.properties.get(name)
        if declared is None:  # the id
            return found
        fitting = []
        for row, value in zip(rows, found, strict=True):
            problem = None
            if value is None and not declared.nullable:
                problem = "a value is required, and the computed one is null"
            try:
                fitting.append(fit_value(value, expression.type, declared.type))
            except ValueDoesNotFit as error:
                problem = str(error)
            if problem is not None:
                violations.append(Violation(entity.name, name, problem, id=_id_of(entity, row)))
        return fitting


def entity_of(catalog: Catalog, name: str) -> EntityType:
    """The type of a statement, which the typechecker has found."""
    entity: NodeType | EdgeType | None = catalog.nodes.get(name) or catalog.edges.get(name)
    assert entity is not None, "the typechecker knows every type"
    return entity


def _id_of(entity: EntityType, row: Mapping[str, Any]) -> str | None:  # noqa: ARG001
    identity: str | None = row.get(ID)
    return identity
