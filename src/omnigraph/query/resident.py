"""Runs a program over tables in memory, and returns the rows of a read in their order."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from omnigraph.catalog import arrow_type
from omnigraph.catalog.model import ID
from omnigraph.compiler import ir
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.query.carried import StageRows
from omnigraph.query.groups import Groups
from omnigraph.query.levels import ALL_ROWS, KnownValues, Page
from omnigraph.query.matching import FEW_VALUES, Frame, Run
from omnigraph.query.programs import Program
from omnigraph.query.results import AnswerColumn, arrow_values
from omnigraph.query.row_order import RowOrder, first_in_order, may_be_first
from omnigraph.resident.numbers import sortable_numbers
from omnigraph.resident.tables import ResidentTable
from omnigraph.resident.view import ResidentView


def run_program(
    program: Program,
    view: ResidentView,
    values: KnownValues,
    *,
    page: Page = ALL_ROWS,
    stages: Sequence[Page] = (),
    cancellation: Cancellation = NEVER,
    uncounted: int = FEW_VALUES,
) -> Sequence[AnswerColumn]:
    """The columns of a read, with its rows in their order. Raises `NoProgram` where another engine should answer.

    `stages` says which rows of each stage are wanted, as `page` says for the read.

    What is made from more rows than `uncounted` is counted by `cancellation` before it is made.
    """
    if program.point is not None:
        operation, names = program.point
        ids = operation.ids(values)
        if len(ids) == 1:
            return _point(view.table(operation.table), names, ids[0], None if uncounted else cancellation)
    before: StageRows | None = None
    for stage, wanted in zip(program.stages, stages, strict=True):
        before = _carry_rows(Run(stage, view, values, cancellation, uncounted, before), wanted)
    run = Run(program, view, values, cancellation, uncounted, before)
    frame = _match(run, page)
    shape = program.read.shape
    if shape.grouped:
        return Groups(run, frame).answer(page)
    return run.outputs([column.expression for column in shape.columns], _sort_rows(run, frame, page))


def _match(run: Run, page: Page) -> Frame:
    if page.end is None:
        return run.match(run.program.pattern, run.start())
    return run.first_rows(page, partial(_start_keys, run))


def _start_keys(run: Run, frame: Frame) -> Sequence[RowOrder]:
    """What the rows of one variable are sorted by, which alone orders the answer."""
    ((name, ordinals),) = frame.columns.items()
    shape = run.program.read.shape
    keys = [
        RowOrder(_sortable(run, each.expression, frame), each.descending)
        for each in shape.order
        if run.values.of(each.expression) is None
    ]
    return [*keys, RowOrder(run.order_of(name, ordinals))]


def _carry_rows(run: Run, page: Page) -> StageRows:
    """The rows of a stage, in their order where it matters."""
    shape, frame = run.program.read.shape, _match(run, page)
    if shape.grouped:
        return Groups(run, frame).carry(page)
    if run.program.is_sorted or page is not ALL_ROWS:
        frame = _sort_rows(run, frame, page)
    entities = {name: frame.columns[variable] for name, variable in shape.entities}
    columns = {
        column.name: column.expression
        for column in shape.columns
        if not isinstance(column.expression, ir.Entity) and run.values.of(column.expression) is None
    }
    values: dict[str, pa.Array] = {}
    for (name, expression), found in zip(columns.items(), run.outputs([*columns.values()], frame), strict=True):
        assert expression.type is not None
        values[name] = arrow_values(found, arrow_type(expression.type))
    return StageRows(entities, values, frame.count, run.all_paths())


def _point(table: ResidentTable, names: Sequence[str], id: str, counted: Cancellation | None) -> Sequence[AnswerColumn]:
    """Some columns of one node, or of none."""
    ordinal = table.find(id)
    rows = (table.row(ordinal),) if ordinal >= 0 else ()
    if counted is not None:
        counted.hold(sum(table.bytes_of_few(name, rows) for name in names))
    return [table.few_values(name, rows) for name in names]


def _sort_rows(run: Run, frame: Frame, page: Page) -> Frame:
    """The wanted rows of a pattern in their order, where an answer has a row for each."""
    shape = run.program.read.shape
    if frame.count > 1:
        keys: list[RowOrder] = []
        for key in shape.order:
            if run.values.of(key.expression) is None:
                keys.append(RowOrder(_sortable(run, key.expression, frame), key.descending))
                # Other keys are computed where the first one leaves the order open.
                places = may_be_first(keys[0], frame.count, page.end) if len(keys) == 1 else None
                if places is not None:
                    frame, keys = frame.take(places), [keys[0].take(places)]
        for name in run.program.ties:
            ordinals = frame.columns[name]
            if bool((ordinals != ordinals[0]).any()):
                keys.append(RowOrder(run.order_of(name, ordinals)))
        return frame.take(first_in_order(keys, frame.count, page.end)[page.first :])
    return frame if page is ALL_ROWS else frame.take(np.arange(frame.count)[page.first : page.end])


def _sortable(run: Run, column: ir.Expression, frame: Frame) -> Any:
    if not isinstance(column, ir.Column):
        return sortable_numbers(run.compute_values(column, frame, run.program.scope))
    if column.name == ID and column.variable != ir.STAGE:
        return run.id_order(run.table(column.variable), frame.columns[column.variable])
    return sortable_numbers(run.values_of(run.holder(column.variable), column.name, frame.columns[column.variable]))
