"""Runs a query that reads, on one snapshot."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.api.data import QueryResult
from omnigraph.api.progress import Choice
from omnigraph.api.words import AUTO, LOCAL, SPARK
from omnigraph.compiler import CompiledQuery, bound_parameters, ir
from omnigraph.errors import StorageError, UsageError
from omnigraph.lazy import importing
from omnigraph.parts.choice import choose_engine, spark_for
from omnigraph.query.at_once import find_point, is_in_memory, run_bounded
from omnigraph.query.cancelling import NEVER, Cancellation
from omnigraph.query.levels import KnownValues, page_of
from omnigraph.query.programs import NoProgram, Program
from omnigraph.query.resident import run_program
from omnigraph.query.results import AnswerColumn, arrow_values, python_values
from omnigraph.resident.cache import ResidentCache
from omnigraph.resident.memory import DoesNotFit
from omnigraph.resident.view import ResidentView
from omnigraph.versioning import Snapshot

if TYPE_CHECKING:
    from omnigraph.query import AdjacencyCache, Plan
    from omnigraph.query.unions import UnionPlan

LARGE_READ = 50_000_000
"""How many rows the tables of a query may hold together before `auto` runs it on Spark.

A query that begins at given ids reads few of them, whatever the tables hold, and always runs in the process.
"""


class MemoryResult(QueryResult):
    """The rows of a read from memory, by their columns. A few of them are returned faster than a table is made."""

    __slots__ = ("_columns", "_made", "_program")
    _columns: Sequence[AnswerColumn]
    _program: Program
    _made: list[pa.Table]

    def __init__(
        self, columns: Sequence[AnswerColumn], program: Program, commit_id: str, to_frame: Callable[[pa.Table], Any]
    ) -> None:
        # The base class is frozen, and has a table from the beginning.
        set_field = object.__setattr__
        set_field(self, "_columns", columns)
        set_field(self, "_program", program)
        set_field(self, "_made", [])
        set_field(self, "commit_id", commit_id)
        set_field(self, "to_frame", to_frame)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._program.names)

    @property
    def table(self) -> pa.Table:
        """The rows as Arrow."""
        if not self._made:
            schema = self._program.schema
            arrays = [arrow_values(each, field.type) for each, field in zip(self._columns, schema, strict=True)]
            self._made.append(pa.Table.from_arrays(arrays, schema=schema))
        return self._made[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return QueryResult, (self.table, self.commit_id)

    def __len__(self) -> int:
        return len(self._columns[0]) if self._columns else 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, which are the same object for all answers to a query."""
        return self._program.names

    def values(self) -> list[list[Any]]:
        """The columns as Python values."""
        return [python_values(each) for each in self._columns]

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries of Python values."""
        names, values = self._program.names, self.values()
        if len(names) == 2:
            # Rows of two columns are frequent, and a dictionary that is written out is made in a third of the time.
            first, second = names
            return [{first: one, second: other} for one, other in zip(*values, strict=True)]
        return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def read_in_memory(
    prepared: CompiledQuery,
    program: Program,
    parameters: Mapping[str, Any],
    snapshot: Snapshot,
    resident: ResidentCache,
    *,
    to_frame: Callable[[pa.Table], Any],
    cancellation: Cancellation = NEVER,
    now: datetime | None = None,
) -> QueryResult | None:
    """Answers a query from the tables that are in memory; None if it must be answered in another way."""
    values = KnownValues(bound_parameters(prepared, parameters), now or datetime.now(UTC))
    page = page_of(program.read.shape, values, prepared.name)
    before = [page_of(stage.shape, values, prepared.name) for stage in program.read.stages]
    view = resident.view(snapshot, program.tables)
    if view is None:
        return None
    held_before = cancellation.held_bytes
    try:
        columns = run_program(program, view, values, page=page, stages=before, cancellation=cancellation)
    except (NoProgram, DoesNotFit, StorageError, pa.ArrowInvalid) as reason:
        # An array of Arrow has room for 2 GiB of text, an answer from the tables has not only one array.
        if isinstance(reason, DoesNotFit):
            resident.note_too_large(snapshot, program.tables)
        if isinstance(reason, StorageError):
            # What is in memory may continue an older version, whose files cleanup has removed. If the files of this one
            # are damaged, the tables say so.
            resident.forget(program.tables)
        cancellation.release_to(held_before)
        return None
    return MemoryResult(columns, program, snapshot.commit_id, to_frame)


def merge_in_memory(
    prepared: CompiledQuery,
    parts: Sequence[pa.Table],
    parameters: Mapping[str, Any],
    snapshot: Snapshot,
    *,
    to_frame: Callable[[pa.Table], Any],
    cancellation: Cancellation = NEVER,
) -> QueryResult:
    """The answer to a union, whose parts were answered from memory."""
    with importing:
        from omnigraph.query.unions import merge_parts  # noqa: PLC0415 - few reads are unions

    union = prepared.body
    assert isinstance(union, ir.Union)
    values = KnownValues(bound_parameters(prepared, parameters), datetime.now(UTC))
    table = merge_parts(parts, union, page_of(union.shape, values, prepared.name), cancellation)
    return QueryResult(table, snapshot.commit_id, to_frame=to_frame)


def read_at_once(
    prepared: CompiledQuery,
    program: Program,
    parameters: Mapping[str, Any],
    snapshot: Snapshot,
    view: ResidentView,
    *,
    to_frame: Callable[[pa.Table], Any],
) -> MemoryResult | None:
    """Answers a query whose tables are in memory within a small bound of work; None if it needs more."""
    values = KnownValues(bound_parameters(prepared, parameters), datetime.now(UTC))
    shape = program.read.shape
    try:
        columns = find_point(program.point, view, values) if program.point is not None else None
        if columns is None and is_in_memory(program, view):
            columns = run_bounded(program, view, values, page_of(shape, values, prepared.name))
    except (NoProgram, DoesNotFit, StorageError, pa.ArrowInvalid):
        return None
    return None if columns is None else MemoryResult(columns, program, snapshot.commit_id, to_frame)


def plan_query(
    query: CompiledQuery, parameters: Mapping[str, Any], snapshot: Snapshot, engine: str
) -> "tuple[Choice, Plan | UnionPlan]":
    """Where a query will be answered, and how; `engine` is what was asked for."""
    with importing:
        from omnigraph.query.plan import Shortcuts  # noqa: PLC0415 - most reads are answered from memory
        from omnigraph.query.unions import plan_answer  # noqa: PLC0415 - as above

    if isinstance(query.body, ir.Mutation):
        raise UsageError(f"{query.title} writes; run it with mutate")
    given, now = bound_parameters(query, parameters), datetime.now(UTC)
    plan = plan_answer(query, given, snapshot.catalog, now=now)
    choice = _engine_for(engine, plan, snapshot)
    if choice.engine == SPARK:
        plan = plan_answer(query, given, snapshot.catalog, now=now, shortcuts=Shortcuts.NONE)
    return choice, plan


def _engine_for(asked: str, plan: "Plan | UnionPlan", snapshot: Snapshot) -> Choice:
    """Where a query runs. All parts of a union run on Spark if one of them should."""
    if asked != AUTO:
        return choose_engine(asked, tuple)
    choices = [_engine_for_read(each, snapshot) for each in plan.reads]
    return next((each for each in choices if each.engine == SPARK), choices[0])


def _engine_for_read(plan: "Plan", snapshot: Snapshot) -> Choice:
    """Where a read runs if nobody asks for an engine: in this process, unless it must read very much."""
    if plan.is_empty or plan.is_pinned:
        return Choice(LOCAL, "little is read")
    with importing:
        from omnigraph.query.searching import finds_best  # noqa: PLC0415 - as above

    rows = sum(snapshot.table(key).count() for key in plan.tables)
    if rows > LARGE_READ and finds_best(plan.steps, snapshot):
        return Choice(LOCAL, "indexes find the few rows that are asked for")
    if rows > LARGE_READ:
        return spark_for(f"the tables to read hold {rows:,} rows (threshold: {LARGE_READ:,})")
    return Choice(LOCAL, "the tables to read are small")


def read(
    plan: "Plan | UnionPlan",
    snapshot: Snapshot,
    cache: "AdjacencyCache",
    *,
    to_frame: Callable[[pa.Table], Any],
    cancellation: Cancellation = NEVER,
) -> QueryResult:
    """Answers a query from one snapshot in this process, unless it is cancelled."""
    with importing:
        from omnigraph.query.unions import execute_answer  # noqa: PLC0415 - as above

    table = execute_answer(plan, snapshot, cache, embed=embed_query_text, cancellation=cancellation)
    return QueryResult(table, snapshot.commit_id, to_frame=to_frame)


def embed_query_text(text: str, model: str | None, dimension: int) -> Sequence[float]:
    """The vector of a text that a query searches for, by the recorded model of the property or the configured one."""
    with importing:
        from omnigraph.embedding import text_vector  # noqa: PLC0415 - few queries search by meaning

    return text_vector(text, model, dimension)
