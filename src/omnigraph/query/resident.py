"""Runs a program over tables in memory: ordinals in numpy, values in Arrow.

A frame has a column of ordinals for each variable that is bound; operations make it longer and shorter. Values are
looked at where a condition, a group or the order needs them, and taken for the rows of the answer in the end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from omnigraph.catalog import EntityType, Scalar, arrow_type
from omnigraph.catalog.conversion import repeat_value
from omnigraph.catalog.model import ID
from omnigraph.catalog.types import INTEGERS
from omnigraph.compiler import ir
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.query.levels import KnownValues
from omnigraph.query.programs import (
    ByIds,
    ColumnComparison,
    Condition,
    EdgeStep,
    Identity,
    NoProgram,
    PatternProgram,
    Program,
    Scan,
    Test,
    Where,
    Without,
    entity_columns,
)
from omnigraph.query.results import constant_scalar
from omnigraph.query.walks import reachable_pairs
from omnigraph.resident.ids import pick
from omnigraph.resident.links import LinkHops, Links
from omnigraph.resident.numbers import distinct, spread
from omnigraph.resident.tables import Ordinals, ResidentTable, encode
from omnigraph.resident.view import ResidentView
from omnigraph.storage.predicates import ColumnPredicate, PredicateKind
from omnigraph.storage.predicates import holds as holds_for
from omnigraph.syntax.query_ast import Operator

FEW_VALUES = 32
"""Up to this many values, a condition or an order is decided one by one; Arrow takes longer to begin."""

_MOST_ROWS = 50_000_000
"""More rows than these are left to an engine that can use a disk."""

_MOST_CROSSED = 100_000
"""More pairs of rows than these, which no edge connects, are left to an engine that joins by value."""

_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def run_program(
    program: Program,
    view: ResidentView,
    values: KnownValues,
    *,
    limit: int | None = None,
    cancellation: Cancellation = NEVER,
    uncounted: int = FEW_VALUES,
) -> tuple[pa.Array, ...]:
    """The columns of a read, with its rows in their order. Raises `NoProgram` where another engine should answer.

    What is made from more rows than `uncounted` is counted by `cancellation` before it is made.
    """
    if program.point is not None and limit is None:
        operation, names = program.point
        ids = operation.ids(values)
        if len(ids) == 1:
            return _point(view.table(operation.table), names, ids[0])
    run = _Run(program, view, values, cancellation, uncounted)
    frame = run.first_rows(limit) if limit is not None else run.match(program.pattern, Frame())
    if program.read.grouped:
        return _Grouped(run, frame).answer(limit)
    return _Plain(run, frame).answer(limit)


def _point(table: ResidentTable, names: Sequence[str], id: str) -> tuple[pa.Array, ...]:
    """Some columns of one node, or of none."""
    ordinal = table.find(id)
    if ordinal < 0:
        return tuple(table.base.column(name).slice(0, 0) for name in names)
    row = table.row(ordinal)
    return tuple([table.value(name, row) for name in names])


@dataclass(slots=True)
class Frame:
    """Rows of ordinals. Without any variable there is one row, which binds nothing."""

    columns: dict[str, Ordinals] = field(default_factory=dict)
    count: int = 1

    def take(self, places: Any) -> "Frame":
        """Some rows, by position or by a mask."""
        columns = {name: column[places] for name, column in self.columns.items()}
        if columns:
            return Frame(columns, len(next(iter(columns.values()))))
        return Frame(columns, int(np.count_nonzero(places)) if places.dtype == np.bool_ else len(places))

    def nothing(self) -> "Frame":
        """The same without rows."""
        return self.take(np.empty(0, np.int64))


@dataclass(slots=True)
class _Run:
    program: Program
    view: ResidentView
    values: KnownValues
    cancellation: Cancellation
    uncounted: int

    def table(self, variable: str) -> ResidentTable:
        return self.view.table(self.program.entities[variable].table_key)

    def entity(self, variable: str) -> EntityType:
        return self.program.entities[variable]

    def values_of(self, table: ResidentTable, name: str, ordinals: Ordinals) -> pa.Array:
        """A column of some entities, in their order."""
        rows = table.rows(ordinals)
        if not self.uncounted:
            self.hold_values(table, (name,), rows)
        return table.values_at(name, rows)

    def hold_values(self, table: ResidentTable, names: Sequence[str], rows: Ordinals) -> None:
        """Counts the values of some rows. Where everything is counted, a column that is not in memory is not read."""
        if self.uncounted:
            self.cancellation.hold(sum(table.expected_bytes(name, len(rows)) for name in names))
        elif table.has_at_once(names):
            self.cancellation.hold(sum(table.bytes_at(name, rows) for name in names))
        else:
            raise NoProgram

    def id_order(self, table: ResidentTable, ordinals: Ordinals) -> Any:
        """What sorts entities by their ids. Where everything is counted, not all ids of a table are sorted for it."""
        is_quick = self.uncounted or table.base.is_ranked
        return table.id_order(ordinals) if is_quick else self.values_of(table, ID, ordinals)

    # --- patterns ---

    def match(self, pattern: PatternProgram, frame: Frame) -> Frame:
        """The rows of a pattern that continue those of a frame."""
        for constant in pattern.constants:
            if not constant.bind(self.values):
                frame = frame.nothing()
        for operation in pattern.operations:
            frame = self._apply(operation, frame)
        return frame

    def first_rows(self, limit: int) -> Frame:
        """The rows of the outermost pattern, of which only the first by id are needed if nothing else orders them.

        A scan that comes first is then done in the order of ids, a part at a time, until there are enough rows.
        """
        pattern, read = self.program.pattern, self.program.read
        if limit == 0 and not read.grouped:
            return self.match(pattern, Frame()) if not pattern.operations else self._empty()
        first = pattern.operations[0] if pattern.operations else None
        leading = next(iter(self.program.entities), None)
        if read.grouped or read.order or not isinstance(first, Scan) or first.variable != leading:
            return self.match(pattern, Frame())
        start = self._scan(first, Frame())
        table = self.view.table(first.table)
        starts = start.columns[first.variable]
        if len(starts) <= 4 * limit or not table.is_plain:
            return self._rest(pattern, start)
        starts = starts[np.argsort(table.base.id_ranks[starts], kind="stable")]
        found: list[Frame] = []
        begin, size, total = 0, max(4 * limit, 64), 0
        while begin < len(starts) and total < limit:
            part = self._rest(pattern, Frame({first.variable: starts[begin : begin + size]}, 0).take(slice(None)))
            found.append(part)
            total += part.count
            begin, size = begin + size, size * 4
        names = found[0].columns
        return Frame({name: np.concatenate([each.columns[name] for each in found]) for name in names}, total)

    def _rest(self, pattern: PatternProgram, frame: Frame) -> Frame:
        for constant in pattern.constants:
            if not constant.bind(self.values):
                frame = frame.nothing()
        for operation in pattern.operations[1:]:
            frame = self._apply(operation, frame)
        return frame

    def _empty(self) -> Frame:
        return Frame({name: np.empty(0, np.int64) for name in self.program.entities}, 0)

    def _apply(self, operation: Any, frame: Frame) -> Frame:
        self.cancellation.check()
        match operation:
            case ByIds():
                return self._by_ids(operation, frame)
            case Scan():
                return self._scan(operation, frame)
            case EdgeStep():
                return self._step(operation, frame)
            case Where(conditions):
                for condition in conditions:
                    if frame.count:
                        frame = frame.take(self._holds(condition, frame))
                return frame
            case Without():
                return self._without(operation, frame)
        raise TypeError(operation)

    def _hold(self, count: int, columns: int) -> None:
        """Counts the bytes of rows before they are made."""
        if count > _MOST_ROWS:
            raise NoProgram
        self.cancellation.hold(8 * count * max(columns, 1))

    def _by_ids(self, operation: ByIds, frame: Frame) -> Frame:
        table = self.view.table(operation.table)
        ids = operation.ids(self.values)
        if len(ids) > self.uncounted:
            self._hold(len(ids), 1)
        found = [ordinal for id in ids if (ordinal := table.find(id)) >= 0]
        return self._cross(frame, operation.variable, self._pass(operation.tests, table, np.array(found, np.int64)))

    def _scan(self, operation: Scan, frame: Frame) -> Frame:
        table = self.view.table(operation.table)
        return self._cross(frame, operation.variable, self._all(operation.tests, table))

    def _cross(self, frame: Frame, variable: str, ordinals: Ordinals) -> Frame:
        if not frame.columns and frame.count == 1:
            return Frame({variable: ordinals}, len(ordinals))
        if min(frame.count, len(ordinals)) > 1 and frame.count * len(ordinals) > _MOST_CROSSED:
            raise NoProgram
        self._hold(frame.count * len(ordinals), len(frame.columns) + 1)
        repeated = frame.take(np.repeat(np.arange(frame.count), len(ordinals)))
        repeated.columns[variable] = np.tile(ordinals, frame.count)
        repeated.count = frame.count * len(ordinals)
        return repeated

    # --- edges ---

    def _step(self, step: EdgeStep, frame: Frame) -> Frame:
        links = self.view.links(step.table)
        starts = frame.columns[step.start]
        if step.edge is not None:
            self._hold_step(links, starts, step, len(frame.columns) + 2)
            places, ends, edges = links.follow(starts, step.direction)
            following = self._continue(frame, step, places, ends)
            following.columns[step.edge] = edges
        elif (step.minimum, step.maximum) == (1, 1):
            self._hold_step(links, starts, step, len(frame.columns) + 1)
            following = self._continue(frame, step, *links.neighbours(starts, step.direction))
        else:
            following = self._walk(frame, step, links)
        if step.is_end_bound:
            following = following.take(following.columns["@end"] == following.columns[step.end])
            del following.columns["@end"]
        for variable, tests in ((step.end, step.tests), (step.edge, step.edge_tests)):
            if tests and variable is not None:
                for test in tests:
                    if following.count:
                        following = following.take(self._holds(test, following))
        return following

    def _hold_step(self, links: Links, starts: Ordinals, step: EdgeStep, columns: int) -> None:
        """Counts the rows of a step beforehand, unless it is from a few nodes."""
        if len(starts) > self.uncounted:
            self._hold(int(links.degrees(starts, step.direction).sum()), columns)

    def _continue(self, frame: Frame, step: EdgeStep, places: Ordinals, ends: Ordinals) -> Frame:
        following = frame.take(places)
        following.columns["@end" if step.is_end_bound else step.end] = ends
        following.count = len(ends)
        return following

    def _walk(self, frame: Frame, step: EdgeStep, links: Links) -> Frame:
        """Pairs by their distance, found once for each start."""
        count = self.view.table(self.program.links[step.table][0]).count
        starts, inverse = np.unique(frame.columns[step.start], return_inverse=True)
        hops = LinkHops(links, step.direction, count)
        blocks = []
        for block in reachable_pairs(hops, starts, step.minimum, step.maximum, cancellation=self.cancellation):
            self._hold(len(block[0]), 2)
            blocks.append(block)
        begins, ends = (np.concatenate(each) for each in zip(*blocks, strict=True)) if blocks else (starts[:0],) * 2
        firsts = np.searchsorted(begins, starts, "left")
        degrees = np.searchsorted(begins, starts, "right") - firsts
        self._hold(int(degrees[inverse].sum()), len(frame.columns) + 1)
        places, found = spread(firsts[inverse], degrees[inverse], ends)
        return self._continue(frame, step, places, found)

    def _without(self, operation: Without, frame: Frame) -> Frame:
        if not frame.count:
            return frame
        if not operation.shared:
            found = self.match(operation.pattern, Frame())
            return frame.nothing() if found.count else frame
        firsts, kinds = _kinds_of([frame.columns[name] for name in operation.shared])
        inner = Frame({name: frame.columns[name][firsts] for name in operation.shared}, len(firsts))
        inner.columns["@row"] = np.arange(len(firsts))
        found = self.match(operation.pattern, inner)
        keep = np.ones(len(firsts), np.bool_)
        keep[found.columns["@row"]] = False
        return frame.take(keep[kinds])

    # --- conditions ---

    def _pass(self, tests: Sequence[Test], table: ResidentTable, ordinals: Ordinals) -> Ordinals:
        for test in tests:
            if not len(ordinals):
                break
            ordinals = ordinals[self._passes(test, table, ordinals)]
        return ordinals

    def _all(self, tests: Sequence[Test], table: ResidentTable) -> Ordinals:
        """The entities of a table that pass tests."""
        if not tests:
            return table.everything()
        keep: NDArray[np.bool_] | None = None
        for test in tests:
            predicate = test.bind(self.values)
            if isinstance(predicate, bool):
                if not predicate:
                    return np.empty(0, np.int64)
                continue
            mask = _mask(predicate, table.column(predicate.column))
            keep = mask if keep is None else keep & mask
        if keep is None:
            return table.everything()
        if table.dead:
            keep[np.fromiter(table.dead, np.int64, len(table.dead))] = False
        return np.flatnonzero(keep)

    def _passes(self, test: Test, table: ResidentTable, ordinals: Ordinals) -> NDArray[np.bool_]:
        predicate = test.bind(self.values)
        if isinstance(predicate, bool):
            return np.full(len(ordinals), predicate)
        return _mask(predicate, self.values_of(table, predicate.column, ordinals))

    def _holds(self, condition: Condition, frame: Frame) -> NDArray[np.bool_]:
        match condition:
            case Test(variable, table):
                return self._passes(condition, self.view.table(table), frame.columns[variable])
            case Identity(left, right, negated):
                same: NDArray[np.bool_] = frame.columns[left] == frame.columns[right]
                return ~same if negated else same
            case ColumnComparison(left, operator, right, tables):
                sides = [
                    self.values_of(self.view.table(table), column.name, frame.columns[column.variable])
                    for table, column in zip(tables, (left, right), strict=True)
                ]
                return _compare(sides[0], operator, sides[1])


def _kinds_of(columns: Sequence[Ordinals]) -> tuple[Ordinals, Ordinals]:
    """Which rows differ: the first row of each kind, and the kind of every row. A pattern is looked for once a kind."""
    every = np.arange(len(columns[0]))
    if len(every) <= FEW_VALUES or any(bool(np.all(column[1:] > column[:-1])) for column in columns):
        return every, every
    kinds, firsts = every * 0, every[:1]
    for column in columns:
        keys = kinds * (int(column.max()) + 1) + column
        _, firsts, kinds = np.unique(keys, return_index=True, return_inverse=True)
    return firsts, kinds


def _mask(predicate: ColumnPredicate, column: pa.Array) -> NDArray[np.bool_]:
    """Which values pass a predicate."""
    if len(column) <= FEW_VALUES or predicate.test is PredicateKind.ELEMENT:
        return np.array([holds_for(predicate, value) for value in column.to_pylist()], np.bool_)
    match predicate.test:
        case PredicateKind.KNOWN:
            found = pc.is_valid(column)
        case PredicateKind.ONE_OF:
            # A zero is found in both its forms, which Arrow looks up as different values.
            zeros = (-0.0,) if pa.types.is_floating(column.type) and 0.0 in predicate.values else ()
            found = pc.is_in(column, value_set=pa.array((*predicate.values, *zeros), column.type))
            if column.null_count:
                found = pc.and_(found, pc.is_valid(column))
        case PredicateKind.PART:
            found = pc.match_substring(column, predicate.values[0])
        case PredicateKind.PREFIX:
            found = pc.starts_with(column, predicate.values[0])
        case test:
            found = _COMPARISONS[test](column, pa.scalar(predicate.values[0], column.type))
    return _truths(found)


def _truths(found: pa.Array) -> NDArray[np.bool_]:
    """Booleans for numpy; null is not true."""
    truths: NDArray[np.bool_] = (found.fill_null(False) if found.null_count else found).to_numpy(zero_copy_only=False)
    return truths


def _compare(left: pa.Array, operator: Operator, right: pa.Array) -> NDArray[np.bool_]:
    if operator in (Operator.CONTAINS, Operator.STARTS_WITH):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        if operator is Operator.CONTAINS:
            return np.array([a is not None and b is not None and b in a for a, b in pairs], np.bool_)
        return np.array([a is not None and b is not None and a.startswith(b) for a, b in pairs], np.bool_)
    if left.type != right.type:
        left, right = left.cast(pa.int64()), right.cast(pa.int64())
    return _truths(_COMPARISONS[operator.value](left, right))


# --- the order of rows ---


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Values to sort by: numbers, or an Arrow array. Null comes first ascending and last descending."""

    values: Any
    descending: bool = False


def first_in_order(keys: Sequence[RowOrder], count: int, limit: int | None) -> NDArray[Any]:
    """The positions of the first rows in this order."""
    if count < 2 or not keys:
        return np.arange(count)[:limit]
    candidates: NDArray[Any] | None = None
    if limit is not None and 0 < limit * 8 < count and isinstance(keys[0].values, np.ndarray):
        candidates = _best(keys[0], limit)
        keys = [RowOrder(_at(key.values, candidates), key.descending) for key in keys]
        count = len(candidates)
    order: Any
    if len(keys) == 1 and isinstance(keys[0].values, np.ndarray) and not keys[0].descending:
        order = np.argsort(keys[0].values, kind="stable")[:limit]
    elif count <= FEW_VALUES:
        order = list(range(count))
        for key in reversed(keys):
            values = key.values.tolist() if isinstance(key.values, np.ndarray) else key.values.to_pylist()
            if None in values:
                order.sort(key=lambda at, values=values: (values[at] is not None, values[at]), reverse=key.descending)
            else:
                order.sort(key=values.__getitem__, reverse=key.descending)
        order = np.array(order[:limit])
    elif all(isinstance(key.values, np.ndarray) and not key.descending for key in keys):
        order = np.lexsort([key.values for key in reversed(keys)])[:limit]
    else:
        table = pa.table(
            [pa.array(key.values) if isinstance(key.values, np.ndarray) else key.values for key in keys],
            [str(at) for at in range(len(keys))],
        )
        sorting = [
            (str(at), "descending" if key.descending else "ascending", "at_end" if key.descending else "at_start")
            for at, key in enumerate(keys)
        ]
        order = pc.sort_indices(table, sort_keys=sorting).to_numpy()[:limit]
    places: NDArray[Any] = np.asarray(order)
    return places if candidates is None else candidates[places]


def _best(key: RowOrder, limit: int) -> NDArray[Any]:
    """The positions of all values that may be among the first."""
    values = key.values
    if key.descending:
        return np.flatnonzero(values >= np.partition(values, len(values) - limit)[len(values) - limit])
    return np.flatnonzero(values <= np.partition(values, limit - 1)[limit - 1])


def _at(values: Any, places: NDArray[Any]) -> Any:
    return values[places] if isinstance(values, np.ndarray) else values.take(pa.array(places))


# --- answers ---


@dataclass(frozen=True, slots=True)
class _Plain:
    """An answer with a row for each row of the pattern."""

    run: _Run
    frame: Frame

    def answer(self, limit: int | None) -> tuple[pa.Array, ...]:
        frame, run = self.frame, self.run
        read = run.program.read
        if frame.count > 1:
            keys = [
                RowOrder(_sortable(run, key.expression, frame), key.descending)
                for key in read.order
                if isinstance(key.expression, ir.Column)
            ]
            for name in run.program.entities:
                ordinals = frame.columns[name]
                if bool((ordinals != ordinals[0]).any()):
                    keys.append(RowOrder(run.id_order(run.table(name), ordinals)))
            frame = frame.take(first_in_order(keys, frame.count, limit))
        elif limit is not None and frame.count > limit:
            frame = frame.take(np.arange(limit))
        arrays = outputs_of(run, [column.expression for column in read.columns], frame)
        return tuple(arrays)


def outputs_of(run: _Run, expressions: Sequence[ir.Expression], frame: Frame) -> list[pa.Array]:
    """What is returned of each row, but for aggregates; the rows of a variable are looked up once."""
    places: dict[str, tuple[ResidentTable, Ordinals]] = {}
    outputs = []
    for expression in expressions:
        if isinstance(expression, ir.Column | ir.Entity):
            found = places.get(expression.variable)
            if found is None:
                table = run.table(expression.variable)
                places[expression.variable] = found = table, table.rows(frame.columns[expression.variable])
            if frame.count > run.uncounted or not run.uncounted:
                names = (
                    [expression.name]
                    if isinstance(expression, ir.Column)
                    else entity_columns(run.entity(expression.variable))
                )
                run.hold_values(found[0], names, found[1])
            if isinstance(expression, ir.Column):
                outputs.append(found[0].values_at(expression.name, found[1]))
            else:
                outputs.append(_entities(run.entity(expression.variable), *found))
        else:
            outputs.append(_constant(run, expression, frame.count))
    return outputs


def _constant(run: _Run, expression: ir.Expression, count: int) -> pa.Array:
    known = run.values.of(expression)
    assert known is not None
    return repeat_value(constant_scalar(known.value, known.type), count)


def _entities(entity: EntityType, table: ResidentTable, rows: Ordinals) -> pa.Array:
    arrays = [table.values_at(name, rows) for name in entity_columns(entity)]
    fields = [pa.field(name, array.type) for name, array in zip(entity_columns(entity), arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _sortable(run: _Run, column: ir.Column, frame: Frame) -> Any:
    if column.name == ID:
        return run.id_order(run.table(column.variable), frame.columns[column.variable])
    return _numbers(run.values_of(run.table(column.variable), column.name, frame.columns[column.variable]))


def _numbers(values: pa.Array) -> Any:
    """Numbers without nulls as numpy has them, and anything else as it is."""
    is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
    return values.to_numpy() if is_number and not values.null_count else values


# --- groups ---


@dataclass(slots=True)
class _Grouped:
    """An answer with a row for each group of rows."""

    run: _Run
    frame: Frame
    groups: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int64))
    """The group of each row."""
    firsts: NDArray[Any] = field(default_factory=lambda: np.empty(0, np.int64))
    """A row of each group."""
    count: int = 1
    codes: dict[ir.Column, NDArray[Any]] = field(default_factory=dict)
    """The keys that divide the rows, as numbers in the order of their values."""

    def answer(self, limit: int | None) -> tuple[pa.Array, ...]:
        read, frame = self.run.program.read, self.frame
        keys = [column.expression for column in read.columns if not isinstance(column.expression, ir.Aggregate)]
        self._divide(keys)
        arrays: dict[ir.Expression, Any] = {}
        for expression in (*(column.expression for column in read.columns), *(key.expression for key in read.order)):
            if isinstance(expression, ir.Aggregate) and expression not in arrays:
                arrays[expression] = self._aggregate(expression)
        places = np.arange(self.count)[:limit]
        # Groups are numbered by their keys, so those of columns alone are in their order.
        is_sorted = not read.order and len(self.codes) == sum(isinstance(key, ir.Column | ir.Entity) for key in keys)
        if self.count > 1 and not is_sorted:
            sorting = [
                RowOrder(
                    _numbers(arrays[key.expression])
                    if isinstance(key.expression, ir.Aggregate)
                    else self._key(key.expression),
                    key.descending,
                )
                for key in read.order
                if isinstance(key.expression, ir.Aggregate | ir.Column)
            ]
            sorting += [RowOrder(self._key(key)) for key in keys if isinstance(key, ir.Column | ir.Entity)]
            places = first_in_order(sorting, self.count, limit)
        is_whole = is_sorted and len(places) == self.count
        firsts = frame.take(self.firsts[places]) if keys else frame
        plain = iter(outputs_of(self.run, keys, firsts))
        outputs = [
            (arrays[column.expression] if is_whole else pick(arrays[column.expression], places))
            if isinstance(column.expression, ir.Aggregate)
            else next(plain)
            for column in read.columns
        ]
        return tuple(outputs)

    def _key(self, expression: ir.Expression) -> Any:
        """The values of a key, for each group."""
        assert isinstance(expression, ir.Column | ir.Entity)
        ordinals = self.frame.columns[expression.variable][self.firsts]
        table = self.run.table(expression.variable)
        if isinstance(expression, ir.Entity) or _is_identity(expression):
            return table.id_order(ordinals)
        if expression in self.codes:
            return self.codes[expression][self.firsts]
        return _numbers(table.values(expression.name, ordinals))

    def _divide(self, keys: Sequence[ir.Expression]) -> None:
        """Finds the groups: rows with the same keys. Without keys, all rows are one group."""
        if not keys:
            self.groups = np.zeros(self.frame.count, np.int64)
            return
        self.run.cancellation.hold(8 * self.frame.count * (2 + len(keys)))
        codes: NDArray[Any] = np.zeros(self.frame.count, np.int64)
        size = 1
        decided = {key.variable for key in keys if _is_identity(key)}
        for key in dict.fromkeys(keys):
            if not isinstance(key, ir.Column | ir.Entity):
                continue
            table, ordinals = self.run.table(key.variable), self.frame.columns[key.variable]
            if isinstance(key, ir.Entity) or _is_identity(key):
                part, most = ordinals, table.count
            elif key.variable in decided:
                continue
            else:
                encoded = table.codes(key.name, ordinals)
                self.codes[key] = part = encoded.codes + 1
                most = len(encoded.values) + 1
            if size * most >= 2**62:
                known = distinct(codes)
                codes, size = np.searchsorted(known, codes), len(known)
            codes = codes * most + part if size > 1 else part.astype(np.int64)
            size *= most
        if size <= 4 * len(codes) + 1024:
            counts = np.bincount(codes, minlength=size)
            known = np.flatnonzero(counts)
            numbers = np.empty(size, np.int64)
            numbers[known] = np.arange(len(known))
            self.groups = numbers[codes]
        else:
            known = distinct(codes)
            self.groups = np.searchsorted(known, codes)
        self.count = len(known)
        self.firsts = np.empty(self.count, np.int64)
        self.firsts[self.groups[::-1]] = np.arange(len(codes))[::-1]

    def _aggregate(self, aggregate: ir.Aggregate) -> pa.Array:
        argument, wanted = aggregate.argument, arrow_type(aggregate.type)
        if isinstance(argument, ir.Entity):
            return pa.array(np.bincount(self.groups, minlength=self.count), wanted)
        table = self.run.table(argument.variable)
        if self.run.uncounted:
            self.run.cancellation.hold(table.expected_bytes(argument.name, self.frame.count))
        values = self.run.values_of(table, argument.name, self.frame.columns[argument.variable])
        groups = self.groups
        if values.null_count:
            is_there = values.is_valid().to_numpy(zero_copy_only=False)
            values, groups = values.filter(pa.array(is_there)), groups[is_there]
        counts = np.bincount(groups, minlength=self.count)
        if aggregate.function is ir.AggregateFunction.COUNT:
            return pa.array(counts, wanted)
        is_missing = counts == 0
        if aggregate.function in (ir.AggregateFunction.SUM, ir.AggregateFunction.AVG):
            sums = self._sums(values, groups, argument, aggregate)
            if aggregate.function is ir.AggregateFunction.AVG:
                with np.errstate(invalid="ignore", divide="ignore"):
                    sums = sums / counts
            return pa.array(sums, mask=is_missing).cast(wanted)
        return _extremes(values, groups, self.count, is_missing, aggregate.function is ir.AggregateFunction.MIN)

    def _sums(self, values: pa.Array, groups: Ordinals, argument: ir.Column, aggregate: ir.Aggregate) -> Any:
        if argument.type not in INTEGERS or aggregate.type is Scalar.F64:
            return np.bincount(groups, weights=values.cast(pa.float64(), safe=False).to_numpy(), minlength=self.count)
        if len(values):
            bounds = pc.min_max(values).as_py()
            if max(abs(bounds["min"]), abs(bounds["max"])) * len(values) >= 2**63:
                raise NoProgram
        sums = np.zeros(self.count, np.int64)
        np.add.at(sums, groups, values.cast(pa.int64()).to_numpy())
        return sums


def _is_identity(expression: ir.Expression) -> TypeGuard[ir.Column | ir.Entity]:
    """Whether an expression tells an entity from all others."""
    return isinstance(expression, ir.Entity) or (isinstance(expression, ir.Column) and expression.name == ID)


def _extremes(values: pa.Array, groups: Ordinals, count: int, is_missing: NDArray[np.bool_], least: bool) -> pa.Array:
    """The smallest or the largest value of each group."""
    encoded = encode(values)
    found = np.full(count, len(encoded.values) if least else -1, np.int64)
    (np.minimum if least else np.maximum).at(found, groups, encoded.codes)
    return encoded.values.take(pa.array(found, mask=is_missing))
