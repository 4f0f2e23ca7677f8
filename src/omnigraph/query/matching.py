"""Finds the rows of a pattern in tables in memory: ordinals in numpy, values in Arrow.

A frame has a column of ordinals for each variable that is bound; operations make it longer and shorter. Values are
looked at where a condition needs them, and taken for the rows of the answer in the end. Where an answer is made of
groups, a variable that nothing needs any more leaves the frame, and rows that are the same then are one row with a
number, so that what is only counted is not made.
"""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from omnigraph.catalog.conversion import repeat_value
from omnigraph.catalog.model import ID
from omnigraph.compiler import ir
from omnigraph.compiler.paths import PathType
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.query.cancelling import Cancellation
from omnigraph.query.carried import StageRows, ValueTable
from omnigraph.query.computing import ColumnTest, Resolved, compute, constant_array, resolve
from omnigraph.query.gaps import MISSING, fill_gaps, ways_of_rows
from omnigraph.query.levels import KnownValues, Page
from omnigraph.query.programs import (
    PATHS,
    ROW,
    AlongPath,
    Bindable,
    ByIds,
    ColumnComparison,
    ComputedCondition,
    Condition,
    EdgeStep,
    FindPaths,
    Identity,
    NestedProgram,
    NoProgram,
    Operation,
    Optionally,
    PatternProgram,
    Program,
    Scan,
    Scope,
    Test,
    Where,
    Without,
    entity_columns,
)
from omnigraph.query.results import AnswerColumn, constant_scalar, python_values
from omnigraph.query.row_order import RowOrder, first_in_order
from omnigraph.query.walks import reachable_counts, reachable_pairs
from omnigraph.resident.codes import Codes
from omnigraph.resident.links import Csr, LinkHops, Links
from omnigraph.resident.numbers import distinct, spread, truths_of
from omnigraph.resident.tables import Ordinals, ResidentTable
from omnigraph.resident.view import ResidentView
from omnigraph.storage.predicates import ColumnPredicate, PredicateKind
from omnigraph.storage.predicates import holds as holds_for
from omnigraph.syntax.query_ast import Operator, SubPatternKind

if TYPE_CHECKING:
    from omnigraph.query.resident_paths import PathValues, ResidentGraph

FEW_VALUES = 32
"""Up to this many values, a condition is decided one by one; Arrow takes longer to begin."""

MOST_ROWS = 50_000_000
"""More rows than these are left to an engine that can use a disk."""

_MOST_CROSSED = 100_000
"""More pairs of rows than these, which no edge connects, are left to an engine that joins by value."""

_MOST_COUNTED = 2**62
"""More rows than these are not counted."""

_MERGED_ROWS = 512
"""From this many rows on, those that are the same become one before edges are followed from them."""

_COMPARISONS = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
"""The functions of Arrow that compare."""


@dataclass(slots=True)
class Frame:
    """Rows of ordinals. Without any variable there is one row, which binds nothing."""

    columns: dict[str, Ordinals] = field(default_factory=dict)
    count: int = 1
    weights: NDArray[np.int64] | None = None
    """How many rows each row stands for, if not for itself alone."""

    def take(self, places: Any) -> "Frame":
        """Some rows, by position or by a mask."""
        columns = {name: column[places] for name, column in self.columns.items()}
        weights = None if self.weights is None else self.weights[places]
        if columns:
            return Frame(columns, len(next(iter(columns.values()))), weights)
        if weights is not None:
            return Frame(columns, len(weights), weights)
        return Frame(columns, int(np.count_nonzero(places)) if places.dtype == np.bool_ else len(places))

    def nothing(self) -> "Frame":
        """The same without rows."""
        return self.take(np.empty(0, np.int64))

    def keep(self, live: frozenset[str]) -> "Frame":
        """The same rows, without the variables that nothing needs any more."""
        if live.issuperset(self.columns):
            return self
        return Frame({name: each for name, each in self.columns.items() if name in live}, self.count, self.weights)

    @property
    def total(self) -> int:
        """The number of rows that its rows stand for."""
        return self.count if self.weights is None else int(self.weights.sum())


@dataclass(slots=True)
class Run:
    program: Program
    view: ResidentView
    values: KnownValues
    cancellation: Cancellation
    uncounted: int = FEW_VALUES
    """Up to this many rows, what is made from them is not counted."""
    before: StageRows | None = None
    """The rows of the stage before."""
    paths: dict[str, "PathValues"] = field(default_factory=dict)
    """The paths that were found, by what has their values in the program."""
    _whole: dict[str, Ordinals] = field(default_factory=dict)
    """The variables that were bound to all entities of a table, by ordinal."""

    def table(self, variable: str) -> ResidentTable:
        return self.view.table(self.program.entities[variable].table_key)

    def entity(self, variable: str) -> Bindable:
        return self.program.entities[variable]

    def values_in(self, table: str) -> ValueTable:
        """What has the values of a table, of paths, or of the stage before."""
        if table == ir.STAGE:
            assert self.before is not None
            return self.before
        return self.known_paths(table) if table.startswith(PATHS) else self.view.table(table)

    def known_paths(self, key: str) -> "PathValues":
        """The paths that were found, here or in a stage before."""
        from omnigraph.query.resident_paths import NO_PATHS  # noqa: PLC0415 - few reads search paths

        return self.all_paths().get(key, NO_PATHS)

    def holder(self, variable: str) -> ValueTable:
        """What has the values of a variable of the outermost pattern."""
        return self.values_in(self.program.scope.tables[variable])

    def all_paths(self) -> "dict[str, PathValues]":
        """The paths that were found here and in the stages before."""
        return {**(self.before.paths if self.before is not None else {}), **self.paths}

    def order_of(self, variable: str, ordinals: Ordinals) -> Any:
        """What sorts the rows of a variable that nothing else orders: rows of a stage and paths are in their order."""
        if variable == ir.STAGE or isinstance(self.entity(variable), PathType):
            return ordinals
        return self.id_order(self.table(variable), ordinals)

    def start(self) -> Frame:
        """The rows that the outermost pattern continues: one that binds nothing, or those of the stage before."""
        if self.before is None:
            return Frame()
        columns = {**self.before.entities, ir.STAGE: np.arange(self.before.count)}
        return Frame(columns, self.before.count)

    # --- values ---

    def column(self, variable: str, name: str, ordinals: Ordinals) -> pa.Array:
        """A column of the entities that a variable is bound to."""
        if self._is_every(variable, ordinals):
            return self.table(variable).column(name)
        return self.values_of(self.holder(variable), name, ordinals)

    def values_of(self, table: ValueTable, name: str, ordinals: Ordinals) -> pa.Array:
        """A column of some entities, in their order; null for what is bound to nothing."""
        if self.has_gaps(ordinals):
            is_missing = ordinals < 0
            return fill_gaps(self.values_of(table, name, ordinals[~is_missing]), is_missing)
        if not self.uncounted:
            self._hold_values(table, (name,), table.rows(ordinals))
        return table.values(name, ordinals)

    def id_order(self, table: ResidentTable, ordinals: Ordinals) -> Any:
        """What sorts entities by their ids. Where everything is counted, not all ids of a table are sorted for it."""
        is_quick = self.uncounted or table.base.is_ranked
        if is_quick and self.has_gaps(ordinals):
            is_missing = ordinals < 0
            order = table.id_order(ordinals[~is_missing])
            if not isinstance(order, np.ndarray):
                return fill_gaps(order, is_missing)
            ranks = np.full(len(ordinals), MISSING, order.dtype)
            ranks[~is_missing] = order
            return ranks
        return table.id_order(ordinals) if is_quick else self.values_of(table, ID, ordinals)

    def codes(self, variable: str, name: str, ordinals: Ordinals) -> Codes:
        """A column of the entities that a variable is bound to, as numbers of its distinct values."""
        if self.has_gaps(ordinals):
            is_there = ordinals >= 0
            found = self.holder(variable).codes(name, ordinals[is_there])
            codes = np.zeros(len(ordinals), np.int64)
            codes[is_there] = found.codes
            return Codes(codes, found.values)
        return self.holder(variable).codes(name, None if self._is_every(variable, ordinals) else ordinals)

    def _is_every(self, variable: str, ordinals: Ordinals) -> bool:
        """Whether the entities of a variable are those at all ordinals, in their order."""
        return self._is_whole(variable, ordinals) and not self.table(variable).dead

    def has_gaps(self, ordinals: Ordinals) -> bool:
        """Whether some of what an optional pattern binds is bound to nothing."""
        return bool(self.program.optional) and len(ordinals) > 0 and int(ordinals.min()) < 0

    def _is_whole(self, variable: str, ordinals: Ordinals) -> bool:
        return self._whole.get(variable) is ordinals

    def outputs(self, expressions: Sequence[ir.Expression], frame: Frame) -> list[AnswerColumn]:
        """What is returned of each row, but for aggregates; the rows of a variable are looked up once."""
        places: dict[str, tuple[ValueTable, Ordinals]] = {}
        outputs: list[AnswerColumn] = []
        for expression in expressions:
            if isinstance(expression, ir.Column | ir.Entity):
                ordinals = frame.columns[expression.variable]
                if self.has_gaps(ordinals):
                    is_missing = ordinals < 0
                    there = Frame({expression.variable: ordinals[~is_missing]}, int(np.count_nonzero(~is_missing)))
                    outputs.append(fill_gaps(self.outputs([expression], there)[0], is_missing))
                    continue
                found = places.get(expression.variable)
                if found is None:
                    table = self.holder(expression.variable)
                    places[expression.variable] = found = table, table.rows(ordinals)
                if frame.count > self.uncounted or not self.uncounted:
                    names = (
                        (expression.name,)
                        if isinstance(expression, ir.Column)
                        else entity_columns(self.entity(expression.variable))
                    )
                    self._hold_values(found[0], names, found[1])
                if isinstance(expression, ir.Column) and frame.count <= FEW_VALUES:
                    outputs.append(found[0].few_values(expression.name, found[1].tolist()))
                elif isinstance(expression, ir.Column):
                    outputs.append(found[0].values_at(expression.name, found[1]))
                else:
                    outputs.append(_entities(self.entity(expression.variable), *found))
            elif (known := self.values.of(expression)) is not None:
                constant = constant_scalar(known.value, known.type)
                if not self.uncounted:
                    self.cancellation.hold(frame.count * int(repeat_value(constant, 1).nbytes))
                outputs.append(repeat_value(constant, frame.count))
            else:
                few = self._few_choices(expression, frame)
                outputs.append(self.compute_values(expression, frame, self.program.scope) if few is None else few)
        return outputs

    def _few_choices(self, expression: ir.Expression, frame: Frame) -> list[Any] | None:
        """The first of some columns that is not null, for a few rows, whose values are faster than arrays."""
        if frame.count > FEW_VALUES or not isinstance(expression, ir.Call) or expression.operation != "coalesce":
            return None
        columns = []
        for each in expression.arguments:
            if not isinstance(each, ir.Column) or each.type != expression.type:
                return None
            table, ordinals = self.holder(each.variable), frame.columns[each.variable]
            if self.has_gaps(ordinals):
                return None
            columns.append(table.few_values(each.name, table.rows(ordinals).tolist()))
        if not all(isinstance(each, list) for each in columns):
            return None
        return [next((value for value in values if value is not None), None) for values in zip(*columns, strict=True)]

    def _hold_values(self, table: ValueTable, names: Sequence[str], rows: Ordinals) -> None:
        """Counts the values of some rows. Where everything is counted, a column that is not in memory is not read."""
        if self.uncounted:
            self.cancellation.hold(sum(table.expected_bytes(name, len(rows)) for name in names))
        elif table.has_at_once(names):
            self.cancellation.hold(sum(table.bytes_at(name, rows) for name in names))
        else:
            raise NoProgram

    # --- patterns ---

    def match(self, pattern: PatternProgram, frame: Frame) -> Frame:
        """The rows of a pattern that continue those of a frame."""
        return self._continue_pattern(pattern, frame, 0)

    def _continue_pattern(self, pattern: PatternProgram, frame: Frame, first: int) -> Frame:
        """The rows of a pattern after some of its operations."""
        for constant in pattern.constants:
            if not constant.bind(self.values):
                frame = frame.nothing()
        for operation, live in zip(pattern.operations[first:], pattern.live[first:], strict=True):
            frame = self._apply(operation, frame, live)
        return frame

    def first_rows(self, page: Page, keys_of: Callable[[Frame], Sequence[RowOrder]]) -> Frame:
        """The rows of the outermost pattern, or those that come first among them, if no more are needed.

        Where a scan comes first and its variable orders the answer, its entities are continued in that order, a part at
        a time, until there are enough rows. `keys_of` returns what such entities are sorted by.
        """
        pattern, shape, limit = self.program.pattern, self.program.read.shape, page.end
        assert limit is not None
        if self.before is not None:
            return self.match(pattern, self.start())
        if page.is_empty and not shape.grouped:
            return self.match(pattern, Frame()) if not pattern.operations else self._empty()
        first = pattern.operations[0] if pattern.operations else None
        if shape.grouped or not isinstance(first, Scan) or not self._is_ordered_by(first.variable):
            return self.match(pattern, Frame())
        start = self._scan(first, Frame())
        if start.count <= 4 * limit:
            return self._continue_pattern(pattern, start, 1)
        starts, keys = start.columns[first.variable], keys_of(start)
        found: list[Frame] = []
        begin, end, total = 0, 1 if _may_lead_far(pattern) else max(4 * limit, 64), 0
        while begin < len(starts) and total < limit:
            some = starts[first_in_order(keys, len(starts), end)[begin:]]
            part = self._continue_pattern(pattern, Frame({first.variable: some}, len(some)), 1)
            found.append(part)
            total += part.count
            begin, end = end, end * 4
        names = found[0].columns
        return Frame({name: np.concatenate([each.columns[name] for each in found]) for name in names}, total)

    def _is_ordered_by(self, variable: str) -> bool:
        """Whether the rows of the answer are sorted by a variable before anything else is looked at."""
        given = (each.expression for each in self.program.read.shape.order)
        keys = (each for each in given if self.values.of(each) is None)
        is_first = next(iter(self.program.entities), None) == variable
        return is_first and all(isinstance(each, ir.Column) and each.variable == variable for each in keys)

    def _empty(self) -> Frame:
        return Frame({name: np.empty(0, np.int64) for name in self.program.entities}, 0)

    def _apply(self, operation: Operation, frame: Frame, live: frozenset[str] | None) -> Frame:
        """The rows after an operation; with `live`, of the variables that are needed afterwards."""
        self.cancellation.check()
        match operation:
            case ByIds():
                frame = self._by_ids(operation, frame)
            case Scan():
                frame = self._scan(operation, frame)
            case EdgeStep():
                if operation.may_lack_start:
                    frame = frame.take(frame.columns[operation.start] >= 0)
                frame = self._step(operation, frame, live)
            case FindPaths():
                frame = self._find_paths(operation, frame)
            case AlongPath():
                frame = self._step_along(operation, frame)
            case Where(conditions):
                for condition in conditions:
                    if frame.count:
                        frame = frame.take(self._holds(condition, frame))
            case Without():
                frame = self._without(operation, frame)
            case Optionally():
                frame = self._optionally(operation, frame, live)
        return frame if live is None else frame.keep(live)

    def _hold(self, count: int, columns: int) -> None:
        """Counts the bytes of rows before they are made."""
        if count > MOST_ROWS:
            raise NoProgram
        self.cancellation.hold(8 * count * max(columns, 1))

    def _by_ids(self, operation: ByIds, frame: Frame) -> Frame:
        table = self.view.table(operation.table)
        ids = operation.ids(self.values)
        if len(ids) > self.uncounted:
            self._hold(len(ids), 1)
        found = np.array([ordinal for id in ids if (ordinal := table.find(id)) >= 0], np.int64)
        if operation.tests:
            found = self._pass(operation.tests, table, found)
        return self._cross(frame, operation.variable, found)

    def _scan(self, operation: Scan, frame: Frame) -> Frame:
        table = self.view.table(operation.table)
        ordinals = self._all(operation.tests, table)
        if not operation.tests and not frame.columns:
            self._whole[operation.variable] = ordinals
        return self._cross(frame, operation.variable, ordinals)

    def _cross(self, frame: Frame, variable: str, ordinals: Ordinals) -> Frame:
        if not frame.columns and frame.count == 1 and frame.weights is None:
            return Frame({variable: ordinals}, len(ordinals))
        if min(frame.count, len(ordinals)) > 1 and frame.count * len(ordinals) > _MOST_CROSSED:
            raise NoProgram
        self._hold(frame.count * len(ordinals), len(frame.columns) + 1)
        repeated = frame.take(np.repeat(np.arange(frame.count), len(ordinals)))
        repeated.columns[variable] = np.tile(ordinals, frame.count)
        repeated.count = frame.count * len(ordinals)
        return repeated

    # --- edges ---

    def _step(self, step: EdgeStep, frame: Frame, live: frozenset[str] | None) -> Frame:
        links = self.view.links(step.table)
        carried = frame
        if live is not None:
            frame = self._merge(frame)
            carried = frame.keep(live | {step.end} if step.is_end_bound else live)
            is_counted = not (step.is_end_bound or step.tests or step.edge_tests)
            if is_counted and step.end not in live and (step.edge is None or step.edge not in live):
                return self._count_step(step, frame.columns[step.start], carried, links)
        starts = frame.columns[step.start]
        is_one_hop = (step.minimum, step.maximum) == (1, 1)
        single = links.find_single(starts, step.direction) if is_one_hop and len(starts) > 1 else None
        if single is not None:
            following = self._step_to_one(carried, step, *single)
        elif step.edge is not None:
            self._hold_step(links, starts, step, len(carried.columns) + 2)
            following = self._continue(carried, step, *links.follow(starts, step.direction))
        elif is_one_hop:
            self._hold_step(links, starts, step, len(carried.columns) + 1)
            if carried.columns or carried.weights is not None:
                following = self._continue(carried, step, *links.neighbours(starts, step.direction))
            else:
                ends = links.neighbour_ends(starts, step.direction)
                following = Frame({step.end: ends}, len(ends))
        else:
            following = self._walk(carried, step, starts, links)
        return self._keep_passing((*step.tests, *step.edge_tests), following)

    def _keep_passing(self, tests: Sequence[Test], frame: Frame) -> Frame:
        for test in tests:
            if frame.count:
                frame = frame.take(self._holds(test, frame))
        return frame

    def _merge(self, frame: Frame) -> Frame:
        """The same rows, of which those that bind one variable to the same entity are one."""
        if len(frame.columns) != 1 or frame.count < _MERGED_ROWS:
            return frame
        ((variable, column),) = frame.columns.items()
        if self._is_whole(variable, column):
            return frame
        size = self.holder(variable).count
        if frame.count * 8 >= size:
            counts = add_up(column, frame.weights, size)
            known = np.flatnonzero(counts)
            return Frame({variable: known}, len(known), counts[known])
        known, numbers = np.unique(column, return_inverse=True)
        return Frame({variable: known}, len(known), add_up(numbers, frame.weights, len(known)))

    def _count_step(self, step: EdgeStep, starts: Ordinals, carried: Frame, links: Links) -> Frame:
        """The rows before a step, each for as many rows as the step makes of it."""
        if step.edge is not None or (step.minimum, step.maximum) == (1, 1):
            if not self.uncounted:
                self._hold_step(links, starts, step, 1)
            counts = links.neighbour_counts(starts, step.direction, each_edge=step.edge is not None)
        else:
            counts = self._walk_counts(step, starts, links)
        counts = self._multiply(counts, carried.weights)
        if not carried.columns:
            total = counts.sum(keepdims=True)[: int(counts.any())]
            return Frame({}, len(total), total)
        weighted = Frame(carried.columns, carried.count, counts)
        is_there = counts > 0
        return weighted if is_there.all() else weighted.take(is_there)

    def _walk_counts(self, step: EdgeStep, starts: Ordinals, links: Links) -> Ordinals:
        distinct_starts, inverse = (starts, None) if len(starts) == 1 else np.unique(starts, return_inverse=True)
        counts = reachable_counts(
            self._hops(step, links), distinct_starts, step.minimum, step.maximum, cancellation=self.cancellation
        )
        return counts if inverse is None else counts[inverse]

    def _hops(self, step: EdgeStep, links: Links) -> LinkHops:
        return LinkHops(links, step.direction, self.view.table(self.program.links[step.table][0]).count)

    def _hold_step(self, links: Links, starts: Ordinals, step: EdgeStep, columns: int) -> None:
        """Counts the rows of a step beforehand, unless it is from a few nodes."""
        if len(starts) > self.uncounted:
            self._hold(int(links.degrees(starts, step.direction).sum()), columns)

    def _continue(
        self, frame: Frame, step: EdgeStep, places: Ordinals, ends: Ordinals, edges: Ordinals | None = None
    ) -> Frame:
        """The rows at some places, each with an end of an edge, or those of them whose end is this one already."""
        if step.is_end_bound:
            keep = np.flatnonzero(ends == frame.columns[step.end][places])
            places, ends, edges = places[keep], ends[keep], None if edges is None else edges[keep]
        if len(places) == frame.count == 1:
            following = Frame(dict(frame.columns), 1, frame.weights)
        else:
            following = frame.take(places)
        following.count = len(places)
        if not step.is_end_bound:
            following.columns[step.end] = ends
        if step.edge is not None and edges is not None:
            following.columns[step.edge] = edges
        return following

    def _step_to_one(self, frame: Frame, step: EdgeStep, csr: Csr, at: Ordinals) -> Frame:
        """The rows whose start has an edge, if no start has more; `at` is where it is, or below zero."""
        self._hold(len(at), len(frame.columns) + 1)
        if len(csr.ends):
            ends = csr.ends[at]
            keep = at >= 0
            if step.is_end_bound:
                keep &= ends == frame.columns[step.end]
        else:
            ends, keep = at, np.zeros(len(at), np.bool_)
        if keep.all():
            following = Frame(dict(frame.columns), len(at), frame.weights)
        else:
            places = np.flatnonzero(keep)
            following, ends, at = frame.take(places), ends[places], at[places]
            following.count = len(places)
        if not step.is_end_bound:
            following.columns[step.end] = ends
        if step.edge is not None:
            following.columns[step.edge] = csr.edges[at]
        return following

    def _walk(self, frame: Frame, step: EdgeStep, all_starts: Ordinals, links: Links) -> Frame:
        """Pairs by their distance, found once for each start."""
        starts, inverse = (all_starts, None) if len(all_starts) == 1 else np.unique(all_starts, return_inverse=True)
        blocks = []
        for block in reachable_pairs(
            self._hops(step, links), starts, step.minimum, step.maximum, cancellation=self.cancellation
        ):
            self._hold(len(block[0]), 2)
            blocks.append(block)
        if inverse is None:
            return self._continue(frame, step, np.zeros(len(blocks[0][1]), np.int64), blocks[0][1])
        begins, ends = (np.concatenate(each) for each in zip(*blocks, strict=True)) if blocks else (starts[:0],) * 2
        firsts = np.searchsorted(begins, starts, "left")
        degrees = np.searchsorted(begins, starts, "right") - firsts
        self._hold(int(degrees[inverse].sum()), len(frame.columns) + 1)
        places, found = spread(firsts[inverse], degrees[inverse], ends)
        return self._continue(frame, step, places, found)

    # --- paths ---

    def _find_paths(self, operation: FindPaths, frame: Frame) -> Frame:
        """Each row for every path between its ends, or from its only end to those that pass tests."""
        from omnigraph.query.resident_paths import PathValues, join_paths  # noqa: PLC0415 - few reads search paths
        from omnigraph.query.shortest import find_paths  # noqa: PLC0415 - as above

        search, opens = operation.search, operation.opens
        if operation.may_lack_ends:
            for end in {search.source, search.destination} - {opens}:
                frame = frame.take(frame.columns[end] >= 0)
        graph = self._graph(operation)
        sources, destinations = (
            None if end == opens else frame.columns[end].astype(np.int64) + graph.ranges[type].start
            for end, type in zip((search.source, search.destination), search.ends, strict=True)
        )
        is_traced = search.variable in self.program.traced
        ends = self._path_ends(operation, graph, sources, destinations)
        found = find_paths(graph, search, ends, is_traced=is_traced, cancellation=self.cancellation)
        before = self.paths.get(operation.key)
        first = 0 if before is None else before.count
        self.paths[operation.key] = PathValues(graph, found) if before is None else before.and_others(found)
        places, paths = join_paths(found, sources, destinations, graph.count)
        self._hold(len(places), len(frame.columns) + 2)
        following = frame.take(places)
        following.count = len(places)
        following.columns[search.variable] = paths + first
        if opens is not None:
            is_source = opens == search.source
            others = (found.sources if is_source else found.destinations)[paths]
            following.columns[opens] = others - graph.ranges[search.ends[0 if is_source else 1]].start
        return following

    def _path_ends(
        self, operation: FindPaths, graph: "ResidentGraph", sources: Ordinals | None, destinations: Ordinals | None
    ) -> Any:
        """Between which nodes paths are searched."""
        from omnigraph.query.shortest import Ends  # noqa: PLC0415 - as above

        if sources is not None and destinations is not None:
            pairs = distinct(sources * graph.count + destinations)
            sources, destinations = np.divmod(pairs, max(graph.count, 1))
            return Ends(sources=sources, destinations=destinations, are_pairs=True)
        opens = operation.opens
        assert opens is not None
        among: Ordinals | None = None
        type = operation.search.ends[0 if opens == operation.search.source else 1]
        table = graph.nodes[type]
        if operation.tests or table.dead:
            among = self._all(operation.tests, table) + graph.ranges[type].start
        if sources is not None:
            return Ends(sources=distinct(sources), destinations=among)
        assert destinations is not None
        return Ends(sources=among, destinations=distinct(destinations))

    def _graph(self, operation: FindPaths) -> "ResidentGraph":
        from omnigraph.query.resident_paths import ResidentGraph  # noqa: PLC0415 - as above

        edges = [
            (each.type, self.view.links(each.table_key), each.source, each.destination) for each in operation.tables
        ]
        nodes = {type: self.view.table(key) for type, key in operation.nodes}
        return ResidentGraph.of(operation.search, nodes, edges)

    def _step_along(self, operation: AlongPath, frame: Frame) -> Frame:
        """Each row for every edge of its path."""
        step = operation.step
        if operation.may_lack_path:
            frame = frame.take(frame.columns[step.path] >= 0)
        found = self.known_paths(operation.key)
        paths = frame.columns[step.path]
        lengths = found.found.lengths[paths]
        self._hold(int(lengths.sum()), len(frame.columns) + 3)
        places, befores, afters, edges = found.steps(paths)
        graph = found.graph
        fits = np.ones(len(places), np.bool_)
        nodes: dict[str, Ordinals] = {}
        for end, type, numbers in ((step.source, step.ends[0], befores), (step.destination, step.ends[1], afters)):
            among = graph.ranges[type]
            fits &= (numbers >= among.start) & (numbers < among.stop)
            ordinals = numbers - among.start
            known = nodes.get(end)
            if known is None and end not in operation.binds:
                known = frame.columns[end][places]
            if known is not None:
                fits &= known == ordinals
            else:
                nodes[end] = ordinals
        following = frame.take(places)
        following.count = len(places)
        for end in operation.binds:
            following.columns[end] = nodes[end]
        if step.variable is not None:
            following.columns[step.variable] = edges - next(
                each.first for each in graph.edges if each.type == step.edges[0]
            )
        return self._keep_passing(operation.tests, following.take(fits))

    def _without(self, operation: Without, frame: Frame) -> Frame:
        if not frame.count:
            return frame
        if not operation.shared:
            found = self.match(operation.pattern, Frame())
            return frame.nothing() if found.count else frame
        firsts, kinds = _kinds_of([frame.columns[name] for name in operation.shared])
        inner = Frame({name: frame.columns[name][firsts] for name in operation.shared}, len(firsts))
        inner.columns[ROW] = np.arange(len(firsts))
        found = self.match(operation.pattern, inner)
        keep = np.ones(len(firsts), np.bool_)
        keep[found.columns[ROW]] = False
        return frame.take(keep[kinds])

    def _optionally(self, operation: Optionally, frame: Frame, live: frozenset[str] | None) -> Frame:
        """Each row for every way in which a pattern continues it, or once where none does."""
        shared = [frame.columns[name] for name in operation.shared]
        firsts, kinds = _kinds_of(shared) if shared else (np.zeros(1, np.int64), np.zeros(frame.count, np.int64))
        inner = Frame({name: frame.columns[name][firsts] for name in operation.shared}, len(firsts))
        inner.columns[ROW] = np.arange(len(firsts))
        found = self.match(operation.pattern, inner if frame.count else inner.nothing())
        carried = frame if live is None else frame.keep(live)
        added = [name for name in operation.binds if live is None or name in live]
        if operation.is_counted:
            counts = add_up(found.columns[ROW], found.weights, len(firsts))[kinds]
            columns = dict.fromkeys(added, np.where(counts > 0, 0, MISSING))
            weights = self._multiply(np.maximum(counts, 1), carried.weights)
            return Frame({**carried.columns, **columns}, carried.count, weights)
        places, at = ways_of_rows(found.columns[ROW], kinds, len(firsts))
        self._hold(len(places), len(carried.columns) + len(added))
        following = carried.take(places)
        for name in added:
            following.columns[name] = np.append(found.columns[name], MISSING)[at]
        following.count = len(places)
        if found.weights is not None:
            following.weights = self._multiply(np.append(found.weights, 1)[at], following.weights)
        return following

    def _multiply(self, counts: Ordinals, weights: NDArray[np.int64] | None) -> NDArray[np.int64]:
        """How many rows each row stands for afterwards. Raises `NoProgram` if they may be too many to count."""
        if weights is None or not len(counts):
            return counts
        if int(weights.max()) * int(counts.max()) * len(counts) >= _MOST_COUNTED:
            raise NoProgram
        return weights * counts

    # --- computed values ---

    def compute_values(self, expression: ir.Expression, frame: Frame, scope: Scope) -> pa.Array:
        """The values of an expression for the rows of a frame."""
        resolved = resolve(expression, self.values)
        self.cancellation.hold(8 * frame.count)

        def leaf(each: Resolved) -> pa.Array | None:
            match each:
                case ir.Column(variable, name):
                    return self._column_of(scope, variable, name, frame)
                case ColumnTest(ir.Column(variable, name), predicate):
                    return test_values(predicate, self._column_of(scope, variable, name, frame))
                case ir.SameEntity(left, right, negated):
                    one, other = frame.columns[left], frame.columns[right]
                    is_missing = (one < 0) | (other < 0) if self.program.optional else None
                    return pa.array((one == other) != negated, mask=is_missing)
                case ir.SubPattern():
                    return self._count_nested(each, scope.nested[id(each)], frame)
            return None

        return compute(resolved, leaf, lambda constant: constant_array(constant, frame.count))

    def _column_of(self, scope: Scope, variable: str, name: str, frame: Frame) -> pa.Array:
        return self.values_of(self.values_in(scope.tables[variable]), name, frame.columns[variable])

    def _count_nested(self, asked: ir.SubPattern, nested: NestedProgram, frame: Frame) -> pa.Array:
        """For each row whether a nested pattern is found, or how often."""
        if not frame.count:
            counts = np.empty(0, np.int64)
        elif not nested.shared:
            counts = np.full(frame.count, self.match(nested.pattern, Frame()).total, np.int64)
        else:
            firsts, kinds = _kinds_of([frame.columns[name] for name in nested.shared])
            inner = Frame({name: frame.columns[name][firsts] for name in nested.shared}, len(firsts))
            inner.columns[ROW] = np.arange(len(firsts))
            found = self.match(nested.pattern, inner)
            counts = add_up(found.columns[ROW], found.weights, len(firsts))[kinds]
        return pa.array(counts > 0 if asked.kind is SubPatternKind.EXISTS else counts)

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
            mask = _mask_of_all(predicate, table)
            keep = mask if keep is None else keep & mask
        if keep is None:
            return table.everything()
        if table.dead:
            keep = keep.copy()  # a mask may be memory of Arrow, which must not be changed
            keep[np.fromiter(table.dead, np.int64, len(table.dead))] = False
        return np.flatnonzero(keep)

    def _passes(self, test: Test, table: ValueTable, ordinals: Ordinals) -> NDArray[np.bool_]:
        if self.has_gaps(ordinals):
            there = np.flatnonzero(ordinals >= 0)
            passes = np.zeros(len(ordinals), np.bool_)
            passes[there] = self._passes(test, table, ordinals[there])
            return passes
        predicate = test.bind(self.values)
        if isinstance(predicate, bool):
            return np.full(len(ordinals), predicate)
        if len(ordinals) > FEW_VALUES:
            return _mask(predicate, self.values_of(table, predicate.column, ordinals))
        if not self.uncounted:
            self._hold_values(table, (predicate.column,), table.rows(ordinals))
        few = table.few_values(predicate.column, table.rows(ordinals).tolist())
        return np.array([holds_for(predicate, value) for value in python_values(few)], np.bool_)

    def _holds(self, condition: Condition, frame: Frame) -> NDArray[np.bool_]:
        match condition:
            case Test(variable, table):
                return self._passes(condition, self.values_in(table), frame.columns[variable])
            case Identity(left, right, negated):
                one, other = frame.columns[left], frame.columns[right]
                holds: NDArray[np.bool_] = (one == other) != negated
                return holds & (one >= 0) & (other >= 0) if self.program.optional else holds
            case ColumnComparison(left, operator, right, tables):
                sides = [
                    self.values_of(self.values_in(table), column.name, frame.columns[column.variable])
                    for table, column in zip(tables, (left, right), strict=True)
                ]
                return _compare(sides[0], operator, sides[1])
            case ComputedCondition(expression, scope):
                return _truths(self.compute_values(expression, frame, scope))


def _may_lead_far(pattern: PatternProgram) -> bool:
    """Whether many rows may continue one entity."""
    return any(
        isinstance(each, FindPaths) or (isinstance(each, EdgeStep) and each.maximum != 1) for each in pattern.operations
    )


def add_up(groups: Ordinals, weights: NDArray[Any] | None, count: int) -> NDArray[np.int64]:
    """The sum of whole numbers for each group, or without them the number of rows; exact."""
    if weights is None:
        return np.bincount(groups, minlength=count)
    most = float(np.abs(weights).sum(dtype=np.float64))
    if most >= _MOST_COUNTED:
        raise NoProgram
    if most < 2**53:
        return np.bincount(groups, weights=weights, minlength=count).astype(np.int64)
    sums = np.zeros(count, np.int64)
    np.add.at(sums, groups, weights)
    return sums


def _entities(entity: Bindable, table: ValueTable, rows: Ordinals) -> pa.Array:
    arrays = [table.values_at(name, rows) for name in entity_columns(entity)]
    fields = [pa.field(name, array.type) for name, array in zip(entity_columns(entity), arrays, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _kinds_of(columns: Sequence[Ordinals]) -> tuple[Ordinals, Ordinals]:
    """Which rows differ: the first row of each kind, and the kind of every row. A pattern is looked for once a kind."""
    every = np.arange(len(columns[0]))
    if len(every) <= FEW_VALUES or any(bool(np.all(column[1:] > column[:-1])) for column in columns):
        return every, every
    kinds, firsts = every * 0, every[:1]
    for number, column in enumerate(columns):
        low = min(int(column.min()), 0)
        keys = kinds * (int(column.max()) + 1 - low) + (column - low)
        # Sorting takes a fraction of the time that finding an order takes, and often all rows differ.
        if number + 1 == len(columns) and len(distinct(keys)) == len(keys):
            return every, every
        _, firsts, kinds = np.unique(keys, return_index=True, return_inverse=True)
    return firsts, kinds


def test_values(predicate: ColumnPredicate, values: pa.Array) -> pa.Array:
    """Which values pass a predicate; null where the value is."""
    return pa.array(_mask(predicate, values), mask=truths_of(values.is_null()) if values.null_count else None)


def _mask_of_all(predicate: ColumnPredicate, table: ResidentTable) -> NDArray[np.bool_]:
    """Which entities of a table pass a predicate, by ordinal."""
    early = _mask(predicate, table.base.column(predicate.column))
    late = table.extra_column(predicate.column) if len(table.extra_ordinals) else None
    return early if late is None else table.by_ordinal(early, _mask(predicate, late))


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
            found = _holds(test, column, pa.scalar(predicate.values[0], column.type))
    return _truths(found)


def _holds(comparison: str, left: Any, right: Any) -> pa.Array:
    return getattr(pc, _COMPARISONS[comparison])(left, right)


def _truths(found: pa.Array) -> NDArray[np.bool_]:
    """Booleans for numpy; null is not true."""
    return truths_of(found.fill_null(False) if found.null_count else found)


def _compare(left: pa.Array, operator: Operator, right: pa.Array) -> NDArray[np.bool_]:
    if operator in (Operator.CONTAINS, Operator.STARTS_WITH):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        if operator is Operator.CONTAINS:
            return np.array([a is not None and b is not None and b in a for a, b in pairs], np.bool_)
        return np.array([a is not None and b is not None and a.startswith(b) for a, b in pairs], np.bool_)
    if left.type != right.type:
        left, right = left.cast(pa.int64()), right.cast(pa.int64())
    return _truths(_holds(operator.value, left, right))
