"""Runs a program over tables in memory, and returns the rows of a read in their order."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from omnigraph.catalog.model import ID
from omnigraph.compiler import ir
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.query.groups import Groups
from omnigraph.query.levels import ALL_ROWS, KnownValues, Page
from omnigraph.query.matching import FEW_VALUES, Frame, Run
from omnigraph.query.programs import Program
from omnigraph.query.results import AnswerColumn
from omnigraph.query.row_order import RowOrder, first_in_order, sortable_numbers
from omnigraph.resident.tables import ResidentTable
from omnigraph.resident.view import ResidentView


def run_program(
    program: Program,
    view: ResidentView,
    values: KnownValues,
    *,
    page: Page = ALL_ROWS,
    cancellation: Cancellation = NEVER,
    uncounted: int = FEW_VALUES,
) -> Sequence[AnswerColumn]:
    """The columns of a read, with its rows in their order. Raises `NoProgram` where another engine should answer.

    What is made from more rows than `uncounted` is counted by `cancellation` before it is made.
    """
    if program.point is not None:
        operation, names = program.point
        ids = operation.ids(values)
        if len(ids) == 1:
            return _point(view.table(operation.table), names, ids[0], None if uncounted else cancellation)
    run = Run(program, view, values, cancellation, uncounted)
    frame = run.match(program.pattern, Frame()) if page.end is None else run.first_rows(page)
    if program.read.shape.grouped:
        return Groups(run, frame).answer(page)
    return _rows(run, frame, page)


def _point(table: ResidentTable, names: Sequence[str], id: str, counted: Cancellation | None) -> Sequence[AnswerColumn]:
    """Some columns of one node, or of none."""
    ordinal = table.find(id)
    rows = (table.row(ordinal),) if ordinal >= 0 else ()
    if counted is not None:
        counted.hold(sum(table.bytes_of_few(name, rows) for name in names))
    return [table.few_values(name, rows) for name in names]


def _rows(run: Run, frame: Frame, page: Page) -> Sequence[AnswerColumn]:
    """An answer with a row for each row of the pattern."""
    shape = run.program.read.shape
    if frame.count > 1:
        keys = [
            RowOrder(_sortable(run, key.expression, frame), key.descending)
            for key in shape.order
            if run.values.of(key.expression) is None
        ]
        for name in run.program.entities:
            ordinals = frame.columns[name]
            if bool((ordinals != ordinals[0]).any()):
                keys.append(RowOrder(run.id_order(run.table(name), ordinals)))
        frame = frame.take(first_in_order(keys, frame.count, page.end)[page.first :])
    elif page is not ALL_ROWS:
        frame = frame.take(np.arange(frame.count)[page.first : page.end])
    return run.outputs([column.expression for column in shape.columns], frame)


def _sortable(run: Run, column: ir.Expression, frame: Frame) -> Any:
    if not isinstance(column, ir.Column):
        return sortable_numbers(run.compute_values(column, frame, run.program.scope))
    if column.name == ID:
        return run.id_order(run.table(column.variable), frame.columns[column.variable])
    return sortable_numbers(run.values_of(run.table(column.variable), column.name, frame.columns[column.variable]))
