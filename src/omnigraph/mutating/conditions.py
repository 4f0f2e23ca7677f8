"""The conditions of an update or a delete: what a table is asked for, and what is computed of the rows it gives."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from omnigraph.catalog import EntityType, NodeType, Scalar, UnspellableKey, node_id
from omnigraph.catalog.model import ID
from omnigraph.compiler import ir
from omnigraph.compiler.values import is_known
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import ValidationError
from omnigraph.mutating.values import Row, RunValues, column_of_rows, column_of_table, compute_column
from omnigraph.query.computing import ColumnTest, Resolved, mirror_comparison
from omnigraph.storage.predicates import (
    MIRRORED,
    ColumnPredicate,
    PredicateKind,
    Reduced,
    column_predicate,
    holds,
    lance_filter,
)
from omnigraph.syntax.query_ast import Operator
from omnigraph.violations import Violation

_NAMING = (PredicateKind.EQUAL, PredicateKind.ONE_OF)
"""Tests that say which values a column has, if they name some."""


@dataclass(frozen=True, slots=True)
class RowConditions:
    """Conditions with their values. `tests` are about one column each, and are pushed into scans."""

    tests: tuple[ColumnPredicate, ...]
    computed: tuple[Resolved, ...] = ()

    def filter(self, entity: EntityType) -> str | None:
        """The tests as a filter for the table."""
        return lance_filter(self.tests, entity.substrings)

    @property
    def columns(self) -> tuple[str, ...]:
        """What the computed conditions need of a row."""
        found = (part.name for each in self.computed for part in _columns_in(each))
        return tuple(dict.fromkeys(found))

    def of_table(self, rows: pa.Table) -> pa.Table:
        """The rows of a table that meet the computed conditions."""
        column = column_of_table(rows)
        for each in self.computed:
            found = compute_column(each, rows.num_rows, column)
            rows = rows.filter(found)
            column = column_of_table(rows)
        return rows

    def of_rows(self, rows: Sequence[Row]) -> list[Row]:
        """The rows that meet all conditions."""
        found = [row for row in rows if all(holds(test, row[test.column]) for test in self.tests)]
        for each in self.computed:
            truths = compute_column(each, len(found), column_of_rows(found)).to_pylist()
            found = [row for row, truth in zip(found, truths, strict=True) if truth]
        return found


def _columns_in(expression: Resolved) -> Iterable[ir.Column]:
    if isinstance(expression, ir.Call):
        for each in expression.arguments:
            yield from _columns_in(each)
    elif isinstance(expression, ir.Column):
        yield expression
    elif isinstance(expression, ColumnTest):
        yield expression.column


def select(conditions: Iterable[ir.Condition], values: RunValues) -> RowConditions | None:
    """Conditions with the values of a run; None if no row can meet them, as when one compares with null."""
    tests: list[ColumnPredicate] = []
    computed: list[Resolved] = []
    for condition in conditions:
        found = _reduce(condition, values)
        if found is False:
            return None
        if isinstance(found, ColumnPredicate):
            tests.append(found)
        elif found is not True:
            computed.append(found)
    return RowConditions(tuple(tests), tuple(computed))


def _reduce(condition: ir.Condition, values: RunValues) -> Reduced | Resolved:
    """A condition as a test of a column, if it is one, or with what is known in it as constants."""
    match condition:
        case ir.Comparison(ir.Column(_, name, type), operator, value) if is_known(value):
            known = values.known.of(value)
            if known is None or known.value is None or known.type is None:
                return False
            return column_predicate(name, type, operator, known.value, known.type)
        case ir.Comparison(value, operator, ir.Column() as column) if is_known(value) and (
            operator in MIRRORED or operator is Operator.CONTAINS
        ):
            known = values.known.of(value)
            if known is None or known.value is None or known.type is None:
                return False
            found = mirror_comparison(known, operator, column)
            return values.resolve(condition) if found is None else found
        case ir.Call("not", (ir.Call("is null", (ir.Column(_, name, type),)),)):
            return ColumnPredicate(name, type, PredicateKind.KNOWN)
    resolved = values.resolve(condition)
    return resolved.value is True if isinstance(resolved, ir.Constant) else resolved


# --- rows that conditions name ---


def is_by_identity(entity: EntityType, conditions: Iterable[ir.Condition]) -> bool:
    """Whether conditions give the id of an entity, or all of a key of text, so that no table is searched."""
    given = {
        each.left.name
        for each in conditions
        if isinstance(each, ir.Comparison)
        and isinstance(each.left, ir.Column)
        and each.operator is Operator.EQUAL
        and each.left.type is Scalar.STRING
        and is_known(each.right)
    }
    return ID in given or (isinstance(entity, NodeType) and bool(entity.key) and given >= {*entity.key})


def named_ids(entity: EntityType, tests: Iterable[ColumnPredicate]) -> list[str] | None:
    """The ids that a row must have to pass all tests, if these give ids, or all of a key, which is text."""
    known = {test.column: test.values for test in tests if test.test in _NAMING and test.type is Scalar.STRING}
    if ID in known:
        return [str(each) for each in known[ID]]
    if not isinstance(entity, NodeType) or not entity.key or not known.keys() >= {*entity.key}:
        return None
    values = [known[name] for name in entity.key]
    if len(values) == 1:
        return [derived_id(entity, {entity.key[0]: each}) for each in values[0]]
    if any(len(each) > 1 for each in values):
        return None
    return [derived_id(entity, {name: each[0] for name, each in zip(entity.key, values, strict=True)})]


def derived_id(node: NodeType, values: Mapping[str, Any]) -> str:
    """The id of a keyed node with these values; a key that cannot be spelled is a violation."""
    try:
        return node_id([values.get(name) for name in node.key], [node.properties[name].type for name in node.key])
    except UnspellableKey as error:
        raise ValidationError([Violation(node.name, node.key[0], str(error))]) from error
