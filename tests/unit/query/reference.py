"""What a read means, in plain Python: every way to bind every variable, tried one after the other."""

import calendar
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import cmp_to_key, partial
from typing import Any

from omnigraph.catalog import Catalog, List, Scalar
from omnigraph.compiler import ir
from omnigraph.syntax.query_ast import Operator, SubPatternKind

Entity = dict[str, Any]
Binding = dict[str, tuple[str, Entity] | None]
Keys = list[tuple[Any, bool]]
PLACE = "place:"
"""The column of a stage with the number of its row."""


class TakesTooLong(Exception):
    """There are too many ways to bind the variables."""


class DoesNotFit(Exception):
    """A sum that is returned does not fit its type."""


@dataclass(frozen=True)
class Reference:
    """A graph as lists of rows by table."""

    catalog: Catalog
    rows: Mapping[str, Sequence[Entity]]
    parameters: Mapping[str, Any]
    now: Any
    most: int = 1_000_000
    """How many ways to bind variables are tried before it gives up."""
    tried: list[int] = field(default_factory=lambda: [0])
    steps: dict[tuple[str, ir.Direction], dict[tuple[str, str], list[Entity]]] = field(default_factory=dict)
    """The edges of a type between two nodes, by their ids, as far as they were asked for."""

    def answer(self, read: ir.Read | ir.Union) -> list[tuple[Any, ...]]:
        """The rows of a read or of a union, in their order. Raises `DoesNotFit` for a sum that its type cannot hold."""
        if isinstance(read, ir.Union):
            return self.united(read)
        interfaces = interfaces_of(read)
        return [
            tuple(self.returned(*each, binding, interfaces) for each in zip(output, read.columns, strict=True))
            for binding, output in self.outputs(read)
        ]

    def returned(
        self, value: Any, column: ir.OutputColumn, binding: Binding, interfaces: Mapping[str, str | None]
    ) -> Any:
        """A value as it is returned: an entity has the properties of the interface that it is bound by."""
        expression = column.expression
        if not is_of(value, expression):
            raise DoesNotFit(column.name)
        if not isinstance(expression, ir.Entity) or value is None:
            return value
        interface = interfaces.get(expression.variable)
        found = binding[expression.variable]
        assert found is not None
        if interface is None or found[0] == "path":
            return value
        shared = dict.fromkeys(("id", *self.catalog.interfaces[interface].properties))
        return {"type": found[0], **{name: value[name] for name in shared}}

    def outputs(self, read: ir.Read) -> list[tuple[Binding, tuple[Any, ...]]]:
        """The rows of a read with one of the ways in which each is found."""
        around: list[Binding] = [{}]
        for stage in read.stages:
            around = [
                self.carried(stage.shape, binding, output, place)
                for place, (binding, output) in enumerate(self.rows_of(stage, around))
            ]
        return self.rows_of(read, around)

    def united(self, union: ir.Union) -> list[tuple[Any, ...]]:
        """The rows of a union, whose parts are read as if they had no limit."""
        whole = [replace(part, shape=replace(part.shape, order=(), limit=None, offset=None)) for part in union.parts]
        rows = [row for part in whole for row in self.answer(part)]
        width = len(union.columns)
        if not union.every:
            rows = [*{repr([plain(each) for each in row[:width]]): row for row in rows}.values()]

        def keys(row: tuple[Any, ...]) -> Keys:
            first = [(row[key.index], key.descending) for key in union.keys]
            return [*first, *((plain(each), False) for each in row[:width])]

        keyed = sorted(((keys(row), row) for row in rows), key=cmp_to_key(_in_order))
        rows = [row for _, row in keyed]
        offset = 0 if union.shape.offset is None else self.value(union.shape.offset, {})
        limit = None if union.shape.limit is None else self.value(union.shape.limit, {})
        return [row[:width] for row in rows[offset:][:limit]]

    def carried(self, shape: ir.Shape, binding: Binding, output: tuple[Any, ...], place: int) -> Binding:
        """What the next stage sees of a row of a stage, and the place of that row."""
        values = {
            column.name: value if is_of(value, column.expression) else None
            for column, value in zip(shape.columns, output, strict=True)
        }
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
                ties = [each for key in shape.keys for each in self.ties(key, first)]
            else:
                ties = [self.place(first)] if ir.STAGE in first else []
                bound = [each for name, each in first.items() if name not in before]
                ties += [each for one in bound for each in ((one[1]["id"], one[0]) if one else (None, None))]
            keyed.append(([*keys, *((tie, False) for tie in ties)], (first, output)))
        keyed.sort(key=cmp_to_key(_in_order))
        offset = 0 if shape.offset is None else self.value(shape.offset, {})
        limit = None if shape.limit is None else self.value(shape.limit, {})
        return [row for _, row in keyed][offset:][:limit]

    def ties(self, key: ir.Expression, binding: Binding) -> tuple[Any, ...]:
        """What orders groups by one of their keys, and tells them apart: of an entity its id, and then its type."""
        if not isinstance(key, ir.Entity):
            return (plain(self.value(key, binding)),)
        found = binding[key.variable]
        if found is None:
            return None, None
        name, row = found
        if name != "path":
            return row["id"], name
        return (row["nodes"][0], row["nodes"][-1], row["length"], row["edges"], row["nodes"]), name

    def _groups(self, shape: ir.Shape, bindings: list[Binding]) -> list[tuple[list[Binding], Binding]]:
        keys = shape.keys
        if not keys:
            return [(bindings, {})]
        groups: dict[str, list[Binding]] = {}
        for binding in bindings:
            groups.setdefault(repr([self.ties(key, binding) for key in keys]), []).append(binding)
        return [(group, group[0]) for group in groups.values()]

    # --- patterns ---

    def matches(self, pattern: ir.Pattern, around: Binding) -> Iterator[Binding]:
        bindings: list[Binding] = [dict(around)]
        followed: list[ir.Traversal | ir.EdgeBinding] = []
        for node in pattern.nodes:
            choices = [(type, row) for type in node.types for row in self.rows[f"node:{type}"]]
            bindings = self.counted({**binding, node.variable: choice} for binding in bindings for choice in choices)
            bindings = self.follow(pattern, followed, bindings)
        bindings = self.follow(pattern, followed, bindings)
        for search in pattern.paths:
            bindings = self.counted({**each, **found} for each in bindings for found in self.searched(search, each))
        for step in pattern.path_steps:
            bindings = self.counted(found for each in bindings for found in self.stepped(step, each))
        for optional in pattern.optional:
            nothing = dict.fromkeys(optional.variables)
            bindings = [
                found
                for binding in bindings
                for found in (list(self.matches(optional, binding)) or [{**binding, **nothing}])
            ]
        # The variables in the order in which they decide the order of rows.
        order = dict.fromkeys((*around, *pattern.variables))
        for binding in bindings:
            holds = all(self.holds(condition, binding) for condition in pattern.conditions)
            if holds and not any(next(self.matches(absent, binding), None) for absent in pattern.absent):
                yield {name: binding[name] for name in order}

    def counted(self, bindings: Iterable[Binding]) -> list[Binding]:
        """All of them, if they are not too many."""
        found = []
        for each in bindings:
            self.count()
            found.append(each)
        return found

    def count(self) -> None:
        """Counts one more attempt; raises `TakesTooLong` after too many."""
        self.tried[0] += 1
        if self.tried[0] > self.most:
            raise TakesTooLong

    def follow(
        self, pattern: ir.Pattern, followed: list[ir.Traversal | ir.EdgeBinding], bindings: list[Binding]
    ) -> list[Binding]:
        """Bindings for which each traversal whose ends are bound, and that was not followed before, is found."""
        for traversal in pattern.traversals:
            is_late = any(traversal is each for each in followed)
            if bindings and not is_late and {traversal.source, traversal.destination} <= bindings[0].keys():
                followed.append(traversal)
                bindings = self.counted(found for each in bindings for found in self.traversed(traversal, each))
        return bindings

    def steps_of(self, traversal: ir.Traversal | ir.EdgeBinding) -> dict[tuple[str, str], list[Entity]]:
        """The edges that a traversal can follow, by the ids of their ends."""
        key = traversal.edge, traversal.direction
        if key not in self.steps:
            found: dict[tuple[str, str], list[Entity]] = {}
            for row in self.rows[self.catalog.edges[traversal.edge].table_key]:
                for ends in dict.fromkeys(oriented(row, traversal.direction)):
                    found.setdefault(ends, []).append(row)
            self.steps[key] = found
        return self.steps[key]

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
        steps = self.steps_of(traversal)
        if isinstance(traversal, ir.EdgeBinding):
            for row in steps.get((begin, end), ()):
                yield {**binding, traversal.variable: (edge.name, row)}
            return
        if traversal.maximum != 1:
            self.count()
        is_empty = traversal.minimum == 0 and begin == end
        if is_empty or self.distance_fits(traversal, steps, begin, end, is_circular=edge.source == edge.destination):
            yield binding

    def distance_fits(
        self, traversal: ir.Traversal, steps: Iterable[tuple[str, str]], begin: str, end: str, *, is_circular: bool
    ) -> bool:
        frontier, visited, distance = {begin}, set[str](), 0
        # A path over an edge between two types has one edge.
        most = traversal.maximum if is_circular else 1
        while frontier and (most is None or distance < most):
            frontier = {b for a, b in steps if a in frontier} - visited
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
            paths = []
            for path_or_part in paths_between(steps, begin, end, most):
                self.count()
                if path_or_part is not None:
                    paths.append(path_or_part)
        measured = []
        for path in paths:
            weights = [1 if search.weight is None else row[search.weight] for (_, row), _, _ in path]
            if min((each for each in weights if each is not None), default=0) < 0:
                raise TakesTooLong  # it is an error, if the query needs the search at all
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
                "weighted": search.weight is not None,
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
        left, right = alike(comparison, left, right)
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
        return whole_path(bound[1]) if bound[0] == "path" else bound[1]

    def value(self, expression: ir.Expression, binding: Binding) -> Any:
        match expression:
            case ir.Constant(value, type):
                return narrowed(value, type)
            case ir.ParameterValue(name, type):
                return narrowed(self.parameters[name], type)
            case ir.Now():
                return self.now
            case ir.ListOf(items):
                return tuple(found for item in items if (found := self.value(item, binding)) is not None)
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
        if isinstance(expression, ir.Call | ir.Comparison) and ir.has_aggregate(expression):
            sides = ir.parts_of(expression)
            parts = [self.result(each, group, first) for each in sides]
            if isinstance(expression, ir.Call) and expression.operation != "is null":
                # What is computed of a sum that its type cannot hold is null. Compared is the sum itself.
                fitting = (value if is_of(value, each) else None for value, each in zip(parts, sides, strict=True))
                return computed(expression.operation, [*fitting])
            if isinstance(expression, ir.Call):
                return computed(expression.operation, parts)
            left, right = (
                ir.Constant(value, None if isinstance(each, ir.Entity) else each.type)
                for value, each in zip(parts, sides, strict=True)
            )
            return self.compared(ir.Comparison(left, expression.operator, right), first)
        if not isinstance(expression, ir.Aggregate):
            return self.value(expression, first)
        argument = expression.argument
        values = [self.value(argument, binding) for binding in group]
        if expression.distinct and isinstance(argument, ir.Entity):
            known: dict[str, Any] = {repr(self.ties(argument, each)): True for each in group if each[argument.variable]}
            values = list(known.values())
        values = [value for value in values if value is not None]
        if expression.distinct and not isinstance(argument, ir.Entity):
            known = {repr(value + 0.0 if isinstance(value, float) else value): value for value in values}
            values = list(known.values())
        match expression.function:
            case ir.AggregateFunction.COUNT:
                return len(values)
            case ir.AggregateFunction.SUM:
                return added(values)
            case ir.AggregateFunction.AVG:
                total = added(values)
                return None if total is None else total / len(values)
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


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECONDS = {"hour": 3_600_000, "minute": 60_000, "second": 1000, "millisecond": 1}
BOUNDS = {"I32": (-(2**31), 2**31 - 1), "I64": (-(2**63), 2**63 - 1), "U32": (0, 2**32 - 1), "U64": (0, 2**64 - 1)}


def milliseconds_of(instant: datetime) -> int:
    return (instant - EPOCH) // timedelta(milliseconds=1)


def milliseconds_later(instant: datetime, more: int) -> datetime | None:
    try:
        return instant + timedelta(milliseconds=more)
    except OverflowError:
        return None


def begun_since(size: int, instant: datetime) -> int:
    return milliseconds_of(instant) // size


def cut_instant(size: int, instant: datetime) -> datetime | None:
    return milliseconds_later(EPOCH, milliseconds_of(instant) // size * size)


def with_day(instant: datetime, day: date | None) -> datetime | None:
    return None if day is None else instant.replace(year=day.year, month=day.month, day=day.day)


def iso(instant: datetime) -> str:
    written = instant.isoformat(timespec="milliseconds" if instant.microsecond else "seconds")
    return written.replace("+00:00", "Z")


def within(low: int, high: int, number: int) -> int | None:
    return number if low <= number <= high else None


def cut_float(low: int, high: int, number: float) -> int | None:
    return within(low, high, math.trunc(number))


def read_whole(low: int, high: int, text: str) -> int | None:
    return within(low, high, int(text)) if re.fullmatch("-?[0-9]{1,400}", text, re.ASCII) else None


def read_float(text: str) -> float | None:
    if not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", text, re.ASCII) or len(text) > 400:
        return None
    return float_or_nothing(lambda: float(text))


def narrow_float(number: float) -> float | None:
    try:
        narrow: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return None
    return narrow


def read_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII) else None
    except ValueError:
        return None


def read_instant(text: str) -> datetime | None:
    form = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,3})?(Z|[+-][0-9]{2}:[0-9]{2})"
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if re.fullmatch(form, text, re.ASCII) else None
    except (ValueError, OverflowError):
        return None


def change_case(change: Callable[[str], str], odd: Mapping[str, str], text: str) -> str:
    """Letter by letter; a letter that becomes several stays as it is, unless there is one for it."""
    return "".join(odd.get(each, change(each) if len(change(each)) == 1 else each) for each in text)


def added(values: Sequence[Any]) -> Any:
    """The sum of values; null for none, and if floats have none."""
    total = sum(values) if values else None
    return None if isinstance(total, float) and not math.isfinite(total) else total


def plain(value: Any) -> Any:
    """What orders rows by a value and tells it from others: of an entity its id, of a path its ends and edges."""
    if isinstance(value, list | tuple):
        return [*map(plain, value)]
    if not isinstance(value, dict):
        return value + 0.0 if isinstance(value, float) else value
    if "nodes" in value:
        return value["nodes"][0], value["nodes"][-1], value["length"], value["edges"]
    return value["id"]


def is_sum(expression: ir.Expression) -> bool:
    return isinstance(expression, ir.Aggregate) and expression.function is ir.AggregateFunction.SUM


def is_of(value: Any, expression: ir.Expression) -> bool:
    """Whether the type of an expression can hold its value; a sum may be too large."""
    if not is_sum(expression) or value is None or isinstance(value, float):
        return True
    assert isinstance(expression, ir.Aggregate)
    low, high = BOUNDS[str(expression.type)]
    return bool(low <= value <= high)


def narrowed(value: Any, type: Any) -> Any:
    """A known value as its type holds it: an F32 has fewer digits than Python's float."""
    if isinstance(value, tuple):
        return tuple(narrowed(each, type.element if isinstance(type, List) else type) for each in value)
    return narrow_float(value) if type is Scalar.F32 and value is not None else value


def alike(comparison: ir.Comparison, left: Any, right: Any) -> tuple[Any, Any]:
    """Two values as they are compared: of a whole number and a float, floats, unless one is a literal or parameter."""
    sides = comparison.left, comparison.right
    is_exact = any(isinstance(each, ir.Column) for each in sides) and any(
        isinstance(each, ir.Constant | ir.ParameterValue | ir.ListOf) for each in sides
    )
    if {type(left), type(right)} == {int, float} and not is_exact and comparison.operator is not Operator.CONTAINS:
        return float(left), float(right)
    return left, right


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
    "finite": lambda a: a + 0.0,  # a zero has one form
    "abs F64": abs,
    "floor F64": lambda a: float(math.floor(a)) + 0.0,
    "ceil F64": lambda a: float(math.ceil(a)) + 0.0,
    "round F64": lambda a: math.copysign(math.floor(abs(a)) + (abs(a) % 1 >= 0.5), a) + 0.0,
    "not": lambda a: not a,
    "lower": partial(change_case, str.lower, {"İ": "i"}),
    "upper": partial(change_case, str.upper, {"ß": "ẞ"}),
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
    "number of quarter": lambda day: day.year * 4 + (day.month - 1) // 3,
    "cut to quarter": lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
    "cut to day": lambda day: day,
    "date of": lambda instant: instant.astimezone(UTC).date(),
    "hour": lambda instant: instant.hour,
    "minute": lambda instant: instant.minute,
    "second": lambda instant: instant.second,
    "millisecond": lambda instant: instant.microsecond // 1000,
    **{f"number of {unit}": partial(begun_since, size) for unit, size in MILLISECONDS.items()},
    **{f"cut to {unit}": partial(cut_instant, size) for unit, size in MILLISECONDS.items()},
    "known instant": lambda instant: instant,
    "instant plus months": lambda instant, months: with_day(instant, months_later(instant.date(), months)),
    "instant plus milliseconds": milliseconds_later,
    "instant to String": iso,
    "contains": lambda text, part: part in text,
    "has": lambda elements, value: value in elements,
    "in": lambda value, *choices: value in choices,
    **{f"integer to {type}": partial(within, low, high) for type, (low, high) in BOUNDS.items()},
    **{f"float to {type}": partial(cut_float, low, high) for type, (low, high) in BOUNDS.items()},
    **{f"text to {type}": partial(read_whole, low, high) for type, (low, high) in BOUNDS.items()},
    **{f"truth to {type}": int for type in BOUNDS},
    "truth to String": lambda truth: "true" if truth else "false",
    "float to F32": narrow_float,
    "text to F64": read_float,
    "text to Bool": {"true": True, "false": False}.get,
    "text to Date": read_day,
    "text to DateTime": read_instant,
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


def paths_between(steps: Sequence[Any], begin: Any, end: Any, most: int) -> Iterator[tuple[Any, ...] | None]:
    """All paths of at least one edge that visit no node twice, but may end where they began; None before each part."""
    pending: list[tuple[Any, tuple[Any, ...], frozenset[Any]]] = [(begin, (), frozenset())]
    while pending:
        at, path, visited = pending.pop()
        yield None
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


def whole_path(path: Entity) -> Entity:
    """A path as it is returned."""
    names = ("nodes", "edges", "length", *(("weight",) if path["weighted"] else ()))
    return {name: path[name] for name in names}


def interfaces_of(read: ir.Read) -> dict[str, str | None]:
    """The interfaces by which the variables of the last pattern of a read are bound."""
    known: dict[str, str | None] = {}
    for stage in (*read.stages, read):
        pending = [stage.pattern]
        while pending:
            pattern = pending.pop()
            pending += pattern.optional
            known |= {node.variable: node.interface for node in pattern.nodes}
        if stage is not read:
            known = {name: known.get(variable) for name, variable in stage.shape.entities}
    return known


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
