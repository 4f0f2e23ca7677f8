"""Decides which reads are short enough to be answered at once, and stops those that turn out not to be.

A server answers such reads on its event loop, where all other requests wait meanwhile. So nothing is read or sorted,
no lock is awaited, and the work is counted before it is done.
"""

from collections.abc import Sequence

from omnigraph.compiler import ir
from omnigraph.query.cancelling import Cancellation
from omnigraph.query.levels import KnownValues, Page
from omnigraph.query.programs import (
    AlongPath,
    ByIds,
    EdgeStep,
    FindPaths,
    Optionally,
    PatternProgram,
    Program,
    Scan,
    Without,
)
from omnigraph.query.resident import run_program
from omnigraph.query.results import AnswerColumn
from omnigraph.resident.view import ResidentView

MOST_BYTES = 32 * 1024
"""Of all rows that a read makes on its way, and of its answer: some hundred rows, in about a millisecond."""


class TooMuchWork(Exception):
    """A read that was begun makes more rows than it may."""


class WorkBound(Cancellation):
    """Stops a read before it makes more bytes of rows than a bound. Nothing else stops it: it ends before long."""

    def __init__(self) -> None:
        super().__init__()
        self._left = MOST_BYTES

    def check(self) -> None:
        """Never raises."""

    def hold(self, size: int) -> None:
        """Counts bytes; raises `TooMuchWork` for too many."""
        self._left -= size
        if self._left < 0:
            raise TooMuchWork


def is_bounded(program: Program) -> bool:
    """Whether a program begins at given ids, and each of its steps can be counted before it is made."""
    shape = program.read.shape
    keys = [each.expression for each in shape.columns if not isinstance(each.expression, ir.Aggregate)]
    if program.is_computed or program.stages or (shape.grouped and keys):
        return False
    operations = program.pattern.operations
    return bool(operations) and isinstance(operations[0], ByIds) and _has_bounded_steps(program.pattern)


def _has_bounded_steps(pattern: PatternProgram) -> bool:
    for operation in pattern.operations:
        match operation:
            case Scan() | FindPaths() | AlongPath():
                return False
            case EdgeStep(minimum=minimum, maximum=maximum) if (minimum, maximum) != (1, 1):
                return False
            case Without(nested) | Optionally(nested) if not _has_bounded_steps(nested):
                return False
    return True


def is_in_memory(program: Program, view: ResidentView) -> bool:
    """Whether the tables of a program are in memory, with all that finds and follows their rows.

    Whether columns are is checked where they are used: the column of a key is needed only for its name.
    """
    tables = view.tables
    if not all(key in tables for key in program.tables):
        return False
    if program.point is not None and not tables[program.point[0].table].has_at_once(program.point[1]):
        return False
    return _can_run_at_once(program.pattern, view)


def _can_run_at_once(pattern: PatternProgram, view: ResidentView) -> bool:
    for operation in pattern.operations:
        match operation:
            case ByIds(table=key) if not view.tables[key].base.is_indexed:
                return False
            case EdgeStep():
                links = view.links_at_once(operation.table)
                if links is None or not links.can_follow_at_once(operation.direction):
                    return False
            case Without(nested) | Optionally(nested) if not _can_run_at_once(nested, view):
                return False
    return True


def find_point(
    point: tuple[ByIds, tuple[str, ...]], view: ResidentView, values: KnownValues
) -> Sequence[AnswerColumn] | None:
    """The columns of one node that is found by its id, or of none; None where `run_bounded` must answer.

    It is what most short reads ask for, and takes a third of the time of the general way.
    """
    operation, names = point
    table = view.tables.get(operation.table)
    ids = operation.ids(values)
    if table is None or len(ids) != 1 or not table.base.is_indexed:
        return None
    ordinal = table.find(ids[0])
    if ordinal < 0:
        return [[] for _ in names]
    found = table.values_of_row(names, table.row(ordinal), MOST_BYTES)
    return None if found is None else [[value] for value in found]


def run_bounded(program: Program, view: ResidentView, values: KnownValues, page: Page) -> Sequence[AnswerColumn] | None:
    """The columns of a read, as `run_program` gives them; None if it is more work than may be done at once."""
    try:
        return run_program(program, view, values, page=page, cancellation=WorkBound(), uncounted=0)
    except TooMuchWork:
        return None
