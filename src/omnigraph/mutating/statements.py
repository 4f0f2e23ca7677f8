"""Runs the statements of a mutation, one after the other, on what those before them have done."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from omnigraph.catalog import Catalog, EdgeType, EntityType, NodeType, Scalar
from omnigraph.catalog.model import DESTINATION, ID, SOURCE
from omnigraph.compiler import ir
from omnigraph.compiler.access import columns_returned
from omnigraph.compiler.values import is_known
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import quoted
from omnigraph.errors import ValidationError
from omnigraph.mutating.conditions import derived_id, select
from omnigraph.mutating.staging import MutationStaging
from omnigraph.mutating.values import (
    Row,
    Rows,
    RunValues,
    ValueDoesNotFit,
    column_of_rows,
    compute_column,
    fit_value,
    is_same,
)
from omnigraph.violations import Violation
from omnigraph.write.validate import SHOWN_VIOLATIONS

_Assigned = Iterable[tuple[str, ir.Expression]]


@dataclass(frozen=True, slots=True)
class Statements:
    """Statements of one run on one snapshot, whose effects are kept in `staging`.

    `read` gives the rows of one of the reads of the match.
    """

    staging: MutationStaging
    catalog: Catalog
    values: RunValues
    read: Callable[[int], pa.Table]

    def run(self, statement: ir.Statement) -> pa.Table | None:
        """Runs the next statement, with a match for each row that this gives to it.

        Returns the columns of its `returning`, if it has one, in the order of the ids of the entities.
        """
        rows: Rows = [{}] if statement.rows is None else self.read(statement.rows).to_pylist()
        done = self._run(statement, rows) if rows else ()
        return self._compute_returning(statement.returning, done) if statement.returning else None

    def _run(self, statement: ir.Statement, rows: Rows) -> Iterable[Row]:
        """The entities that a statement has written as it leaves them, and those that it has deleted as they were."""
        match statement:
            case ir.InsertNode(type):
                return self._insert_nodes(self.catalog.nodes[type], statement, rows)
            case ir.InsertEdge(type):
                return self._insert_edges(self.catalog.edges[type], statement, rows)
            case ir.Update(type, assigned, conditions):
                return self._update(entity_of(self.catalog, type), assigned, conditions)
            case ir.Delete(type, conditions):
                return self._delete(entity_of(self.catalog, type), conditions, columns_returned(statement))
            case ir.UpdateMatched(type, identity, assigned):
                return self._update_matched(entity_of(self.catalog, type), identity, assigned, rows)
            case ir.DeleteMatched(type, identity):
                found = self.staging.with_ids(entity_of(self.catalog, type), [row[identity.name] for row in rows])
                self.staging.remove(entity_of(self.catalog, type), [*found])
                return found.values()

    def _compute_returning(self, columns: Sequence[ir.OutputColumn], done: Iterable[Row]) -> pa.Table:
        """The columns that are computed of some entities."""
        rows = sorted(done, key=lambda row: str(row[ID]))
        column = column_of_rows(rows)
        arrays = [compute_column(self.values.resolve(each.expression), len(rows), column) for each in columns]
        return pa.table(arrays, names=[each.name for each in columns])

    # --- inserts ---

    def _insert_nodes(self, node: NodeType, statement: ir.InsertNode, rows: Rows) -> list[Row]:
        given = self._assigned_values(node, statement.values, rows)
        done = [self.staging.insert_node(node, each, statement.on_conflict) for each in _distinct(node, given)]
        return [row for row in done if row is not None]

    def _insert_edges(self, edge: EdgeType, statement: ir.InsertEdge, rows: Rows) -> list[Row]:
        given = self._assigned_values(edge, statement.values, rows)
        sources = self._node_ids(edge, SOURCE, statement.source, rows)
        destinations = self._node_ids(edge, DESTINATION, statement.destination, rows)
        ends = ({SOURCE: start, DESTINATION: end} for start, end in zip(sources, destinations, strict=True))
        complete = [{**row, **both} for row, both in zip(given, ends, strict=True)]
        done = [self.staging.insert_edge(edge, each, statement.on_conflict) for each in _distinct(edge, complete)]
        return [row for row in done if row is not None]

    def _node_ids(self, edge: EdgeType, end: str, reference: ir.NodeReference, rows: Rows) -> list[str]:
        """The ids of the nodes at one end of new edges."""
        if reference.id is not None:
            found = self._column_values(reference.id, rows)
        else:
            node = self.catalog.nodes[reference.type]
            parts = [self._column_values(part, rows) for part in reference.key]
            keys = (dict(zip(node.key, key, strict=True)) for key in zip(*parts, strict=True))
            found = [None if None in key.values() else derived_id(node, key) for key in keys]
        if None in found:
            raise ValidationError([Violation(edge.name, end, "a value is required, and the computed one is null")])
        return found

    # --- updates and deletes ---

    def _update(self, entity: EntityType, assigned: _Assigned, conditions: Iterable[ir.Condition]) -> list[Row]:
        selection = select(conditions, self.values)
        if selection is None:
            return []
        rows = self.staging.matching(entity, selection)
        # All values are computed before one is written: each assignment sees the rows as they were.
        given = self._assigned_values(entity, assigned, rows)
        return [self.staging.change(entity, row, values) for row, values in zip(rows, given, strict=True)]

    def _delete(self, entity: EntityType, conditions: Iterable[ir.Condition], columns: Iterable[str]) -> list[Row]:
        selection = select(conditions, self.values)
        if selection is None:
            return []
        found = self.staging.matching(entity, selection, columns=tuple(dict.fromkeys((ID, *columns))))
        self.staging.remove(entity, [row[ID] for row in found])
        return found

    def _update_matched(self, entity: EntityType, identity: ir.Column, assigned: _Assigned, rows: Rows) -> list[Row]:
        """New values for each entity that a match has found and that is still there."""
        known = self.staging.with_ids(entity, [row[identity.name] for row in rows])
        seen = [{**row, **known[row[identity.name]]} for row in rows if row[identity.name] in known]
        changes: dict[str, Row] = {}
        for row, values in zip(seen, self._assigned_values(entity, assigned, seen), strict=True):
            _check_agreement(entity, row[ID], changes.setdefault(row[ID], values), values)
        return [self.staging.change(entity, known[each], values) for each, values in changes.items()]

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

    def _column_values(self, expression: ir.Expression, rows: Rows) -> list[Any]:
        """The values of an expression, row by row."""
        if is_known(expression) and not isinstance(expression, ir.Call | ir.Comparison):
            return [self.values.of(expression)] * len(rows)
        if isinstance(expression, ir.Column):
            return [row[expression.name] for row in rows]
        resolved = self.values.resolve(expression)
        found: list[Any] = compute_column(resolved, len(rows), column_of_rows(rows)).to_pylist()
        return found

    def _computed_values(
        self, entity: EntityType, name: str, expression: ir.Expression, rows: Rows, violations: list[Violation]
    ) -> list[Any]:
        """The values of an expression as a property holds them; what it cannot hold is added to the violations."""
        assert not isinstance(expression, ir.Entity)
        found = self._column_values(expression, rows)
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
                violations.append(Violation(entity.name, name, problem, id=row.get(ID)))
        return fitting


def entity_of(catalog: Catalog, name: str) -> EntityType:
    """The type of a statement, which the typechecker has found."""
    entity: NodeType | EdgeType | None = catalog.nodes.get(name) or catalog.edges.get(name)
    assert entity is not None, "the typechecker knows every type"
    return entity


def _distinct(entity: EntityType, given: Iterable[Row]) -> Iterator[Row]:
    """What is given for new entities, once for each that has a key or an id; raises if one is given two values."""
    known: dict[str, Row] = {}
    for row in given:
        has_key = isinstance(entity, NodeType) and entity.key
        identity = derived_id(entity, row) if isinstance(entity, NodeType) and has_key else row.get(ID)
        if identity is None or identity not in known:
            yield row
        if identity is not None:
            _check_agreement(entity, identity, known.setdefault(identity, {**row}), row)


def _check_agreement(entity: EntityType, identity: str, values: Row, others: Row) -> None:
    """Raises if rows of a match give one entity several values."""
    for name, value in values.items():
        declared = entity.properties.get(name)
        type = Scalar.STRING if declared is None else declared.type
        if value is not others[name] and not is_same(value, others[name], type):
            problem = f"the match gives it several values, such as {_text_of(value)} and {_text_of(others[name])}"
            raise ValidationError([Violation(entity.name, name, problem, id=identity)])


def _text_of(value: Any) -> str:
    if value is None:
        return "null"
    return quoted(value) if isinstance(value, str) else str(value)
