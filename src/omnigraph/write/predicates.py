"""The conditions of an update or delete, as tests that hold for committed rows and for those that are not yet."""

from collections.abc import Callable
from typing import Any

from omnigraph.compiler import ir
from omnigraph.storage import Predicate, column_predicate

Resolve = Callable[[ir.Expression], Any]
"""The value of an expression that is known before anything is read."""


def predicates(conditions: tuple[ir.Comparison, ...], resolve: Resolve) -> tuple[Predicate, ...] | None:
    """All conditions; None when no row can meet them, as when one compares with null."""
    tests = []
    for condition in conditions:
        column, value = condition.left, resolve(condition.right)
        assert isinstance(column, ir.Column)
        if value is None or isinstance(condition.right, ir.Entity) or condition.right.type is None:
            return None
        test = column_predicate(column.name, column.type, condition.operator, value, condition.right.type)
        if test is False:
            return None
        if isinstance(test, Predicate):
            tests.append(test)
    return tuple(tests)
