"""What a read means, in plain Python: every way to bind every variable, tried one after the other."""

import calendar
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import cmp_to_key
from typing import Any

from omnigraph.catalog import Catalog
from omnigraph.compiler import ir
from omnigraph.syntax.query_ast import SubPatternKind

Entity = dict[str, Any]
Binding = dict[str, tuple[str, Entity] | None]
Keys = list[tuple[Any, bool]]
PLACE = "place:"
"""The column of a stage with the number of its row."""


@dataclass(frozen=True)
class Reference:
    """A graph as lists of rows by table."""

    catalog: Catalog
    rows: Mapping[str, Sequence[Entity]]
    parameters: Mapping[str, Any]
    now: Any
    weighted: bool = False
    """Whether whole paths have weights."""

    def answer(self, read: ir.Read | ir.Union) -> list[tuple[Any, ...]]:
        """The rows of a read or of a union, in their order."""
        if isinstance(read, ir.Union):
            return self.united(read)
        around: list[Binding] = [{}]
        for stage in read.stages:
            around = [
                self.carried(stage.shape, binding, output, place)
                for place, (binding, output) in enumerate(self.rows_of(stage, around))
            ]
        return [output for _, output in self.rows_of(read, around)]

    def united(self, union: ir.Union) -> list[tuple[Any, ...]]:
        """The rows of a union, whose parts are read as if they had no limit."""
        whole = [replace(part, shape=replace(part.shape, order=(), limit=None, offset=None)) for part in union.parts]
        rows = [row for part in whole for row in self.answer(part)]
        width = len(union.columns)
        if not union.every:
            rows = [*{repr([self._plain(each) for each in row[:width]]): row for row in rows}.values()]

        def keys(row: tuple[Any, ...]) -> Keys:
            first = [(row[key.index], key.descending) for key in union.keys]
            return [*first, *((self._plain(each), False) for each in row[:width])]

        keyed = sorted(((keys(row), row) for row in rows), key=cmp_to_key(_in_order))
        rows = [row for _, row in keyed]
        offset = 0 if union.shape.offset is None else self.value(union.shape.offset, {})
        limit = None if union.shape.limit is None else self.value(union.shape.limit, {})
        return [row[:width] for row in rows[offset:][:limit]]

    def carried(self, shape: ir.Shape, binding: Binding, output: tuple[Any, ...], place: int) -> Binding:
        """What the next stage sees of a row of a stage, and the place of that row."""
        values = {column.name: value for column, value in zip(shape.columns, output, strict=True)}
        entities = {name: binding[variable] for name, variable in shape.entities}
        return {**entities, ir.STAGE: (ir.STAGE, {**values, PLACE: place})}

    def place(self, binding: Binding) -> int:
        row = binding[ir.STAGE]
        assert row is not None
        return int(row[1][PLACE])

    def rows_of(self, read: ir.Read, around: list[Binding]) -> list[tuple[Binding, tuple[Any, ...]]]:
        """The rows of a stage that continue others, in their order, each with one of the ways in which it is found."""
        bindings = [found for each in around for found in self.matches(read.pattern, each)]
        before = {name for each in around for name in each}
        shape, grouped = read.shape, read.shape.grouped
        rows = self._groups(shape, bindings) if grouped else [([binding], binding) for binding in bindings]
        keyed: list[tuple[Keys, tuple[Binding, tuple[Any, ...]]]] = []
        for group, first in rows:
            if any(self.result(condition, group, first) is not True for condition in shape.having):
                continue
            output = tuple(self.result(column.expression, group, first) for column in shape.columns)
            keys = [(self.result(key.expression, group, first), key.descending) for key in shape.order]
            if grouped:
                ties = [self._plain(self.result(key, group, first)) for key in shape.keys]
            else:
                ties = [self.place(first)] if ir.STAGE in first else []
                bound = [each for name, each in first.items() if name not in before]
                ties += [each for one in bound for each in ((one[1]["id"], one[0]) if one else (None, None))]
            keyed.append(([*keys, *((tie, False) for tie in ties)], (first, output)))
        keyed.sort(key=cmp_to_key(_in_order))
        offset = 0 if shape.offset is None else self.value(shape.offset, {})
        limit = None if shape.limit is None else self.value(shape.limit, {})
        return [row for _, row in keyed][offset:][:limit]

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict) and "id" not in value:
            return value["nodes"][0], value["nodes"][-1], value["length"], value["edges"]
        return value["id"] if isinstance(value, dict) else value

    def _groups(self, shape: ir.Shape, bindings: list[Binding]) -> list[tuple[list[Binding], Binding]]:
        keys = shape.keys
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
        for search in pattern.paths:
            bindings = [{**binding, **found} for binding in bindings for found in self.searched(search, binding)]
        for step in pattern.path_steps:
            bindings = [found for binding in bindings for found in self.stepped(step, binding)]
        # Paths decide the order of rows last.
        for search in pattern.paths:
            bindings = [{**binding, search.variable: binding.pop(search.variable)} for binding in bindings]
        for optional in pattern.optional:
            nothing = dict.fromkeys(optional.variables)
            bindings = [
                found
                for binding in bindings
                for found in (list(self.matches(optional, binding)) or [{**binding, **nothing}])
            ]
        for binding in bindings:
            holds = all(self.holds(condition, binding) for condition in pattern.conditions)
            if holds and not any(next(self.matches(absent, binding), None) for absent in pattern.absent):
                yield binding

    def traversed(self, traversal: ir.Traversal | ir.EdgeBinding, binding: Binding) -> Iterator[Binding]:
        edge = self.catalog.edges[traversal.edge]
        ends = (edge.source, edge.destination)
        if traversal.direction is ir.Direction.BACKWARD:
            ends = ends[::-1]
        one, other = binding[traversal.source], binding[traversal.destination]
        if one is None or other is None:
            return
        (left, source), (right, destination) = one, other
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

    # --- paths ---

    def searched(self, search: ir.PathSearch, binding: Binding) -> Iterator[Binding]:
        """The shortest paths between two nodes: out of all paths, the first or those that are as good as the first."""
        one, other = binding[search.source], binding[search.destination]
        if one is None or other is None or (one[0], other[0]) != search.ends:
            return
        (left, source), (right, destination) = one, other
        begin, end = (left, source["id"]), (right, destination["id"])
        paths: list[tuple[Any, ...]] = [()]
        if search.minimum > 0 or begin != end:
            steps = [
                ((name, row), a, b)
                for name in search.edges
                for row in self.rows[self.catalog.edges[name].table_key]
                for a, b in dict.fromkeys(self.typed_ends(name, row, search.direction))
            ]
            most = len(steps) if search.maximum is None else search.maximum
            paths = list(paths_between(steps, begin, end, most))
        measured = []
        for path in paths:
            weights = [1 if search.weight is None else row[search.weight] for (_, row), _, _ in path]
            if None not in weights:
                measured.append((sum(weights), len(path), [(row["id"], name) for (name, row), _, _ in path], path))
        measured.sort(key=lambda each: each[:3])
        best = [each for each in measured if each[0] == measured[0][0]]
        for weight, length, order, path in best if search.every else best[:1]:
            if length < search.minimum:
                continue
            found: Entity = {
                "nodes": [begin[1], *(b[1] for _, _, b in path)],
                "edges": [row["id"] for (_, row), _, _ in path],
                "length": length,
                "weight": float(weight),
                "id": (length, order),
                "steps": [(row, a, b) for (_, row), a, b in path],
            }
            yield {search.variable: ("path", found)}

    def typed_ends(self, name: str, row: Entity, direction: ir.Direction) -> list[tuple[Any, Any]]:
        edge = self.catalog.edges[name]
        forward = (edge.source, row["src"]), (edge.destination, row["dst"])
        back = forward[::-1]
        return {
            ir.Direction.FORWARD: [forward],
            ir.Direction.BACKWARD: [back],
            ir.Direction.EITHER: [forward, back],
        }[direction]

    def stepped(self, step: ir.PathStep, binding: Binding) -> Iterator[Binding]:
        one, other, path = binding[step.source], binding[step.destination], binding[step.path]
        if one is None or other is None or path is None:
            return
        for row, before, after in path[1]["steps"]:
            if (before, after) == ((one[0], one[1]["id"]), (other[0], other[1]["id"])):
                yield binding if step.variable is None else {**binding, step.variable: (step.edges[0], row)}

    # --- conditions ---

    def holds(self, condition: ir.Condition, binding: Binding) -> bool:
        return self.value(condition, binding) is True

    def compared(self, comparison: ir.Comparison, binding: Binding) -> bool | None:
        left, right = self.value(comparison.left, binding), self.value(comparison.right, binding)
        if left is None or right is None:
            return None
        match comparison.operator.value:
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

    def asked(self, sub: ir.SubPattern, binding: Binding) -> Any:
        found = sum(1 for _ in self.matches(sub.pattern, binding))
        return found if sub.kind is SubPatternKind.COUNT else found > 0

    def whole(self, bound: tuple[str, Entity] | None) -> Any:
        """What is returned of an entity or a path."""
        if bound is None:
            return None
        return whole_path(bound[1], self.weighted) if bound[0] == "path" else bound[1]

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
                found = binding[variable]
                return None if found is None else found[1][name]
            case ir.Entity(variable):
                return self.whole(binding[variable])
            case ir.Comparison():
                return self.compared(expression, binding)
            case ir.SubPattern():
                return self.asked(expression, binding)
            case ir.SameEntity(left, right, negated):
                one, other = binding[left], binding[right]
                if one is None or other is None:
                    return None
                return ((one[0], one[1]["id"]) == (other[0], other[1]["id"])) is not negated
            case ir.TextMatch(kind, column, query):
                assert kind is ir.TextMatchKind.SEARCH
                text, wanted = self.value(column, binding), self.value(query, binding)
                return text is not None and wanted is not None and bool(set(words(text)) & set(words(wanted)))
            case ir.Call(operation, arguments):
                return computed(operation, [self.value(each, binding) for each in arguments])
        raise TypeError(expression)

    def result(self, expression: ir.Expression, group: list[Binding], first: Binding) -> Any:
        if isinstance(expression, ir.Call) and ir.has_aggregate(expression):
            return computed(expression.operation, [self.result(each, group, first) for each in expression.arguments])
        if isinstance(expression, ir.Comparison) and ir.has_aggregate(expression):
            sides = [ir.Constant(self.result(side, group, first), None) for side in (expression.left, expression.right)]
            return self.compared(ir.Comparison(sides[0], expression.operator, sides[1]), first)
        if not isinstance(expression, ir.Aggregate):
            return self.value(expression, first)
        values = [self.value(expression.argument, binding) for binding in group]
        values = [value for value in values if value is not None]
        if expression.distinct:
            # Entities of several types may have the same id, but not the same columns.
            known = {repr(sorted(value.items()) if isinstance(value, dict) else value): value for value in values}
            values = list(known.values())
        match expression.function:
            case ir.AggregateFunction.COUNT:
                return len(values)
            case ir.AggregateFunction.SUM:
                return sum(values) if values else None
            case ir.AggregateFunction.AVG:
                return sum(values) / len(values) if values else None
            case ir.AggregateFunction.MIN:
                return min(values, default=None)
            case ir.AggregateFunction.COLLECT:
                return sorted(values)
            case _:
                return max(values, default=None)


# --- operations ---


def i64(number: int) -> int | None:
    return number if -(2**63) <= number < 2**63 else None


def remainder(left: int, right: int) -> int | None:
    return None if right == 0 else (abs(left) % abs(right)) * (-1 if left < 0 else 1)


def float_or_nothing(compute: Callable[[], float]) -> float | None:
    try:
        found = compute()
    except (ZeroDivisionError, OverflowError, ValueError):
        return None
    return found if math.isfinite(found) else None


def months_later(day: date, months: int) -> date | None:
    number = day.year * 12 + day.month - 1 + months
    year, month = number // 12, number % 12 + 1
    if not 1 <= year <= 9999:
        return None
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


def days_later(day: date, days: int) -> date | None:
    try:
        return day + timedelta(days=days)
    except OverflowError:
        return None


def whole(text: str) -> int | None:
    return i64(int(text)) if re.fullmatch("-?[0-9]+", text) else None


OPERATIONS: dict[str, Callable[..., Any]] = {
    "plus I64": lambda a, b: i64(a + b),
    "minus I64": lambda a, b: i64(a - b),
    "times I64": lambda a, b: i64(a * b),
    "modulo I64": remainder,
    "abs I64": lambda a: i64(abs(a)),
    "convert to I64": i64,
    "convert to F64": float,
    "plus F64": lambda a, b: float_or_nothing(lambda: a + b),
    "minus F64": lambda a, b: float_or_nothing(lambda: a - b),
    "times F64": lambda a, b: float_or_nothing(lambda: a * b),
    "divided F64": lambda a, b: float_or_nothing(lambda: a / b),
    "modulo F64": lambda a, b: float_or_nothing(lambda: math.fmod(a, b)),
    "finite": lambda a: a,
    "abs F64": abs,
    "floor F64": lambda a: float(math.floor(a)),
    "ceil F64": lambda a: float(math.ceil(a)),
    "round F64": lambda a: math.copysign(math.floor(abs(a) + 0.5), a),
    "not": lambda a: not a,
    "lower": str.lower,
    "upper": str.upper,
    "length": len,
    "size": len,
    "substring of length": lambda text, start, count: text[start : start + count] if min(start, count) >= 0 else None,
    "substring to the end": lambda text, start: text[start:] if start >= 0 else None,
    "concat": lambda *parts: "".join(parts),
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "trim": lambda text: text.strip(" \t\r\n"),
    "split": lambda text, by: text.split(by) if by else None,
    "starts_with": lambda text, part: text.startswith(part),
    "datetime of": lambda day: datetime(day.year, day.month, day.day, tzinfo=UTC),
    "year": lambda day: day.year,
    "month": lambda day: day.month,
    "day": lambda day: day.day,
    "known day": lambda day: day,
    "day plus months": months_later,
    "day plus days": days_later,
    "number of year": lambda day: day.year,
    "number of month": lambda day: day.year * 12 + day.month,
    "number of day": lambda day: day.toordinal(),
    "number of week": lambda day: (day.toordinal() - 1) // 7,
    "cut to month": lambda day: day.replace(day=1),
    "cut to week": lambda day: day - timedelta(days=day.weekday()),
    "cut to year": lambda day: day.replace(month=1, day=1),
    "integer to String": str,
    "text to I64": whole,
    "float to I64": lambda a: i64(math.trunc(a)),
    "day to String": date.isoformat,
}


def computed(operation: str, values: list[Any]) -> Any:
    """What an operation of values is. Written for itself, and not with what the engines use."""
    match operation:
        case "and":
            return False if False in values else None if None in values else True
        case "or":
            return True if True in values else None if None in values else False
        case "is null":
            return values[0] is None
        case "coalesce":
            return next((value for value in values if value is not None), None)
        case "case":
            *branches, otherwise = values
            pairs = zip(branches[::2], branches[1::2], strict=True)
            return next((value for condition, value in pairs if condition is True), otherwise)
    return None if None in values else OPERATIONS[operation](*values)


def words(text: str) -> list[str]:
    return [word.lower() for word in re.findall(r"\w+", text)]


def oriented(row: Entity, direction: ir.Direction) -> list[tuple[str, str]]:
    forward = (row["src"], row["dst"])
    return {
        ir.Direction.FORWARD: [forward],
        ir.Direction.BACKWARD: [forward[::-1]],
        ir.Direction.EITHER: [forward, forward[::-1]],
    }[direction]


def paths_between(steps: Sequence[Any], begin: Any, end: Any, most: int) -> Iterator[tuple[Any, ...]]:
    """All paths of at least one edge that visit no node twice, but may end where they began."""
    pending: list[tuple[Any, tuple[Any, ...], frozenset[Any]]] = [(begin, (), frozenset())]
    while pending:
        at, path, visited = pending.pop()
        if len(path) == most:
            continue
        for step in steps:
            _, before, after = step
            if before != at or after in visited or (after == begin and end != begin):
                continue
            if after == end:
                yield (*path, step)
            else:
                pending.append((after, (*path, step), visited | {after}))


def whole_path(path: Entity, weighted: bool) -> Entity:
    """A path as it is returned."""
    names = ("nodes", "edges", "length", *(("weight",) if weighted else ()))
    return {name: path[name] for name in names}


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
