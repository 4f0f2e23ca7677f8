"""What a read means, in plain Python: every way to bind every variable, tried one after the other."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.compiler import ir

Entity = dict[str, Any]
Binding = dict[str, tuple[str, Entity]]
Keys = list[tuple[Any, bool]]


@dataclass(frozen=True)
class Reference:
    """A graph as lists of rows by table."""

    catalog: Catalog
    rows: Mapping[str, Sequence[Entity]]
    parameters: Mapping[str, Any]
    now: Any

    def answer(self, read: ir.Read) -> list[tuple[Any, ...]]:
        """The rows of a read, in their order."""
        bindings = list(self.matches(read.pattern, {}))
        grouped = read.grouped
        rows = self._groups(read, bindings) if grouped else [([binding], binding) for binding in bindings]
        keyed: list[tuple[Keys, tuple[Any, ...]]] = []
        for group, first in rows:
            output = tuple(self.result(column.expression, group, first) for column in read.columns)
            keys = [(self.result(key.expression, group, first), key.descending) for key in read.order]
            if grouped:
                ties = [
                    self._plain(self.result(column.expression, group, first))
                    for column in read.columns
                    if not isinstance(column.expression, ir.Aggregate)
                ]
            else:
                ties = [each for type, entity in first.values() for each in (entity["id"], type)]
            keyed.append(([*keys, *((tie, False) for tie in ties)], output))
        keyed.sort(key=cmp_to_key(_in_order))
        limit = None if read.limit is None else self.value(read.limit, {})
        return [output for _, output in keyed][:limit]

    def _plain(self, value: Any) -> Any:
        return value["id"] if isinstance(value, dict) else value

    def _groups(self, read: ir.Read, bindings: list[Binding]) -> list[tuple[list[Binding], Binding]]:
        keys = [column.expression for column in read.columns if not isinstance(column.expression, ir.Aggregate)]
        if not keys:
            return [(bindings, {})]
        groups: dict[str, list[Binding]] = {}
        for binding in bindings:
            groups.setdefault(repr([self.result(key, [binding], binding) for key in keys]), []).append(binding)
        return [(group, group[0]) for group in groups.values()]

    # --- patterns ---

    def matches(self, pattern: ir.Pattern, around: Binding) -> Iterator[Binding]:
        bindings: list[Binding] = [dict(around)]
        for node in pattern.nodes:
            choices = [(type, row) for type in node.types for row in self.rows[f"node:{type}"]]
            bindings = [{**binding, node.variable: choice} for binding in bindings for choice in choices]
        for traversal in pattern.traversals:
            bindings = [found for binding in bindings for found in self.traversed(traversal, binding)]
        for binding in bindings:
            holds = all(self.holds(condition, binding) for condition in pattern.conditions)
            if holds and not any(next(self.matches(absent, binding), None) for absent in pattern.absent):
                yield binding

    def traversed(self, traversal: ir.Traversal | ir.EdgeBinding, binding: Binding) -> Iterator[Binding]:
        edge = self.catalog.edges[traversal.edge]
        ends = (edge.source, edge.destination)
        if traversal.direction is ir.Direction.BACKWARD:
            ends = ends[::-1]
        (left, source), (right, destination) = binding[traversal.source], binding[traversal.destination]
        if (left, right) != ends:
            return
        begin, end = source["id"], destination["id"]
        steps = [
            (row, a, b)
            for row in self.rows[edge.table_key]
            for a, b in dict.fromkeys(oriented(row, traversal.direction))
        ]
        if isinstance(traversal, ir.EdgeBinding):
            for row, a, b in steps:
                if (a, b) == (begin, end):
                    yield {**binding, traversal.variable: (edge.name, row)}
            return
        if (traversal.minimum == 0 and begin == end) or self.distance_fits(traversal, steps, begin, end):
            yield binding

    def distance_fits(self, traversal: ir.Traversal, steps: list[Any], begin: str, end: str) -> bool:
        frontier, visited, distance = {begin}, set[str](), 0
        while frontier and (traversal.maximum is None or distance < traversal.maximum):
            frontier = {b for _, a, b in steps if a in frontier} - visited
            visited |= frontier
            distance += 1
            if end in frontier:
                return distance >= traversal.minimum
        return False

    # --- conditions ---

    def holds(self, condition: ir.Condition, binding: Binding) -> bool:
        if isinstance(condition, ir.SameEntity):
            one, other = binding[condition.left], binding[condition.right]
            return ((one[0], one[1]["id"]) == (other[0], other[1]["id"])) is not condition.negated
        if isinstance(condition, ir.TextMatch):
            text, query = self.value(condition.column, binding), self.value(condition.query, binding)
            assert condition.kind is ir.TextMatchKind.SEARCH
            return text is not None and query is not None and bool(set(words(text)) & set(words(query)))
        left, right = self.value(condition.left, binding), self.value(condition.right, binding)
        if left is None or right is None:
            return False
        match condition.operator.value:
            case "=":
                return bool(left == right)
            case "!=":
                return bool(left != right)
            case "<":
                return bool(left < right)
            case "<=":
                return bool(left <= right)
            case ">":
                return bool(left > right)
            case ">=":
                return bool(left >= right)
            case "contains":
                return right in left
            case _:
                return bool(left.startswith(right))

    def value(self, expression: ir.Expression, binding: Binding) -> Any:
        match expression:
            case ir.Constant(value):
                return value
            case ir.ParameterValue(name):
                return self.parameters[name]
            case ir.Now():
                return self.now
            case ir.ListOf(items):
                return tuple(self.value(item, binding) for item in items)
            case ir.Column(variable, name):
                return binding[variable][1][name]
            case ir.Entity(variable):
                return binding[variable][1]
        raise TypeError(expression)

    def result(self, expression: ir.Expression, group: list[Binding], first: Binding) -> Any:
        if not isinstance(expression, ir.Aggregate):
            return self.value(expression, first)
        values = [self.value(expression.argument, binding) for binding in group]
        values = [value for value in values if value is not None]
        match expression.function:
            case ir.AggregateFunction.COUNT:
                return len(values)
            case ir.AggregateFunction.SUM:
                return sum(values) if values else None
            case ir.AggregateFunction.AVG:
                return sum(values) / len(values) if values else None
            case ir.AggregateFunction.MIN:
                return min(values, default=None)
            case _:
                return max(values, default=None)


def words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"\w+", text)]


def oriented(row: Entity, direction: ir.Direction) -> list[tuple[str, str]]:
    forward = (row["src"], row["dst"])
    return {
        ir.Direction.FORWARD: [forward],
        ir.Direction.BACKWARD: [forward[::-1]],
        ir.Direction.EITHER: [forward, forward[::-1]],
    }[direction]


def _in_order(one: tuple[Keys, Any], other: tuple[Keys, Any]) -> int:
    return compared(one[0], other[0])


def compared(one: Keys, other: Keys) -> int:
    """The order of two rows by their keys: null is the smallest."""
    for (left, descending), (right, _) in zip(one, other, strict=True):
        if left == right:
            continue
        smaller = left is None or (right is not None and left < right)
        return -1 if smaller is not descending else 1
    return 0
