"""Fills the vectors of a type, those that are missing or all of them: a slice of rows at a time, each one commit.

A process that is killed loses one slice at most, and the next run goes on. What is missing is seen in the rows. When
all vectors are computed anew, a note beside the graph says how far that is, by the row ids that storage never changes.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.api.data import EmbedRequest, EmbedResult
from omnigraph.api.history import Commit
from omnigraph.api.progress import Choice, Progress, Report
from omnigraph.catalog import Catalog, EntityType, Property, table_schema
from omnigraph.catalog.model import ID
from omnigraph.diagnostics import any_of, quoted
from omnigraph.embedding import ROWS_PER_PART, Settings, current_settings, embedded_properties, filled
from omnigraph.errors import ExpectedVersionMismatch, NotFound, UsageError
from omnigraph.failpoints import Writer
from omnigraph.graph.engines import choose_engine, start_engine
from omnigraph.graph.session import Session
from omnigraph.graph.writes import WriteOrder
from omnigraph.loading.tasks import TableAt
from omnigraph.parts.choice import LARGE_RECORDS, size_reasons
from omnigraph.parts.engine import Engine
from omnigraph.policy import Action
from omnigraph.storage import (
    ROW_ADDRESS,
    ROW_ID,
    Location,
    Table,
    WrittenRows,
    discard,
    joined,
    objects_at,
    stage_written,
    write_change,
)
from omnigraph.storage.predicates import quoted_column
from omnigraph.versioning import Snapshot
from omnigraph.write import StagedTable, WriteAttempt, table_staged, tables_to_write, write_staged

STAGE = "embedding"
_NOTES = "__embed"

RowIds: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint64]]"


@dataclass(frozen=True, slots=True)
class Target:
    """A vector that is to be filled, and whether only where it is missing."""

    entity: EntityType
    declared: Property
    source: str
    everything: bool

    @property
    def filter(self) -> str:
        """The rows that have a text and so may have a vector, and of these perhaps only those without one."""
        text, vector = quoted_column(self.source), quoted_column(self.declared.name)
        present = f"{text} IS NOT NULL AND {text} != ''"
        return present if self.everything else f"{present} AND {vector} IS NULL"


def targets_of(catalog: Catalog, type: str, property: str | None, *, everything: bool) -> tuple[Target, ...]:
    """What somebody wants to be filled: one vector of a type, or all that a model fills."""
    entity = catalog.entity(type)
    if entity is None:
        raise NotFound("type", type)
    known = {declared.name: (declared, source) for declared, source, _ in embedded_properties(entity)}
    if not known:
        raise UsageError(f"no model fills a property of {quoted(entity.name)}; `@embed` in a schema says that one does")
    if property is not None and property not in known:
        raise UsageError(f"a model fills {any_of(known)} of {quoted(entity.name)}, not {property!r}")
    chosen = known if property is None else {property: known[property]}
    return tuple(Target(entity, declared, source, everything) for declared, source in chosen.values())


def embed_reasons(snapshot: Snapshot, targets: Sequence[Target]) -> Iterator[str]:
    """Reasons to do it on Spark. Rows are looked at only where there are many."""
    tables = [(target, snapshot.table(target.entity.table_key)) for target in targets]
    if sum(table.count() for _, table in tables) > LARGE_RECORDS:
        yield from size_reasons(records=sum(table.count(target.filter) for target, table in tables))


def embed(session: Session, request: EmbedRequest) -> EmbedResult:
    """Fills vectors under the schema of the branch; with another schema it begins again, and goes on where it was."""

    def run(head: Snapshot) -> EmbedResult:
        for action in (Action.CHANGE, Action.READ):
            session.guard.check_types(action, head, request.branch, [request.type])
        targets = targets_of(head.catalog, request.type, request.property, everything=request.all)
        choice = choose_engine(request.engine, lambda: embed_reasons(head, targets))
        job = EmbedJob(
            engine=lambda report: start_engine(choice, report), choice=choice, rows=request.batch, report=request.report
        )
        order = WriteOrder(
            kind=Writer.EMBED,
            branch=request.branch,
            actor=session.guard.actor,
            message=request.message or "embed",
            schema_id=head.commit.schema_id,
        )
        return _fill(job, targets, session.write, order)

    return session.writes.retry_schema(lambda: session.head(request.branch), run)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedJob:
    """How the work is done: where, so many rows in a commit, and who is told."""

    engine: Callable[[Report], Engine]
    """Makes the engine that tells somebody how far it is."""

    choice: Choice
    rows: int | None
    report: Report


def _fill(
    job: EmbedJob,
    targets: Sequence[Target],
    write: Callable[[WriteOrder, Callable[[WriteAttempt], "_Slice | None"]], "_Slice | None"],
    order: WriteOrder,
) -> EmbedResult:
    """Fills the targets, slice by slice. A row that others change meanwhile is read again before it is written.

    A slice is written without keeping others out while the model works. If others were quicker, it is done again, and
    then they wait.
    """
    commits: list[Commit] = []
    counts = {target.declared.name: 0 for target in targets}
    tally = _Tally(job.report)
    engine = job.engine(tally.part_done)
    for target in targets:
        key = target.entity.table_key
        work = _Work(target, engine, job.rows, tally)
        order = replace(order, message=f"embed {target.entity.name}.{target.declared.name}")
        while True:
            try:
                done = write(order, work.next_slice)
            except ExpectedVersionMismatch:
                done = write(replace(order, tables=(key,)), work.next_slice)
            if done is None:
                break
            work.went_on(done)
            counts[target.declared.name] += done.rows
            commits += [done.commit] if done.commit is not None else []
    return EmbedResult(tuple(commits), counts, job.choice.engine, job.choice.why)


@dataclass(slots=True)
class _Tally:
    """Tells in rows how far the work is, whatever slices and parts it is done in."""

    report: Report
    total: int = 0
    done: int = 0
    current: int = 0

    def part_done(self, progress: Progress) -> None:
        within = self.current * progress.done // progress.total if progress.total else 0
        self._tell(self.done + within)

    def slice_done(self) -> None:
        self.done += self.current
        self.current = 0
        self._tell(self.done)

    def _tell(self, rows: int) -> None:
        self.report(Progress(STAGE, rows, self.total, rows))


# --- slices ---


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice that is done: so many rows got vectors, and no row up to this one is left. Without any, no commit."""

    commit: Commit | None
    rows: int
    last: int


class _Work:
    """The rows of one target that are still to be done, by their row ids, and the next slice of them.

    They are looked for once: to find rows without a vector, all vectors must be read.
    """

    def __init__(self, target: Target, engine: Engine, rows: int | None, tally: _Tally) -> None:
        self._target = target
        self._engine = engine
        self._most = rows or ROWS_PER_PART * engine.slots
        self._tally = tally
        self._models = current_settings()
        self._note: _Note | None = None
        self._left: RowIds | None = None

    def next_slice(self, attempt: WriteAttempt) -> _Slice | None:
        """Writes the next slice; None when nothing is left. Others may make it start over."""
        if self._left is None:
            self._left = self._found(attempt)
        chosen = self._left[: self._most]
        if not len(chosen):
            if self._note is not None:
                self._note.remove()
            return None
        self._tally.current = len(chosen)
        key = self._target.entity.table_key
        table = tables_to_write(attempt, [key])[key]
        written = self._written(table, chosen)
        commit = self._committed(attempt, table, written) if written.count else None
        return _Slice(commit, written.count, int(chosen[-1]))

    def went_on(self, done: _Slice) -> None:
        """Notes that a slice is done."""
        assert self._left is not None
        self._left = self._left[np.searchsorted(self._left, done.last, side="right") :]
        if self._note is not None:
            self._note = self._note.at(done.last)
        self._tally.slice_done()

    def _found(self, attempt: WriteAttempt) -> RowIds:
        """The rows that are to be done: of a run that was cut short, those that are left."""
        table = attempt.base.table(self._target.entity.table_key)
        ids: RowIds = np.sort(table.scan([ROW_ID], self._target.filter)[ROW_ID].to_numpy())
        if self._target.everything:
            self._note = _Note.of(attempt, self._target).begun(ids)
            ids = ids[(ids > self._note.done) & (ids <= self._note.end)]
        self._tally.total += len(ids)
        return ids

    def _written(self, table: Table, chosen: RowIds) -> WrittenRows:
        places = table.scan([ROW_ID, ROW_ADDRESS])
        places = places.filter(pc.is_in(places[ROW_ID], value_set=pa.array(chosen)))
        addresses = np.sort(places[ROW_ADDRESS].to_numpy())
        if not len(addresses):
            return WrittenRows()
        parts = np.array_split(addresses, min(self._engine.slots, len(addresses)))
        work = _EmbedRows(self._target, TableAt(table.location, table.version), self._models)
        return joined(self._engine.run(STAGE, work, [pa.array(part) for part in parts]))

    def _committed(self, attempt: WriteAttempt, table: Table, written: WrittenRows) -> Commit:
        try:
            staged = StagedTable(table, stage_written(table, written, attempt.operation_id))
            table_staged(attempt)
        except BaseException:
            discard(table, written)
            raise
        return write_staged(attempt, {self._target.entity.table_key: staged})


@dataclass(frozen=True, slots=True)
class _EmbedRows:
    """Computes the vectors of some rows and writes the rows anew, as they are but for that.

    A row that got its vector, or lost its text, since it was found is left alone.
    """

    target: Target
    table: TableAt
    models: Settings

    def __call__(self, addresses: pa.Array) -> WrittenRows:
        table, entity, name = self.table.open(), self.target.entity, self.target.declared.name
        schema = table_schema(entity)
        found = table.rows_at(addresses, [*schema.names, ROW_ID]).append_column(ROW_ADDRESS, addresses)
        wanted = pc.fill_null(pc.not_equal(found[self.target.source], ""), False)
        if not self.target.everything:
            wanted = pc.and_(wanted, pc.is_null(found[name]))
        found = found.filter(wanted)
        if not found.num_rows:
            return WrittenRows()
        rows = found.select(schema.names).cast(schema)
        rows = filled(entity, rows, {name: pa.repeat(True, rows.num_rows)}, self.models)
        return write_change(table, rows, found.select([ID, ROW_ID, ROW_ADDRESS]))


# --- how far all vectors are computed anew ---


@dataclass(frozen=True, slots=True)
class _Note:
    """Up to which row id all is done, and up to which there is something to do: later rows came with their vectors."""

    graph: Location
    name: str
    done: int = -1
    end: int = -1

    @classmethod
    def of(cls, attempt: WriteAttempt, target: Target) -> "_Note":
        """What an earlier run noted, if it was not brought to its end."""
        embedding = target.declared.embedding
        assert embedding is not None
        place = (attempt.log.incarnation, target.entity.identity, target.declared.identity, embedding.model)
        name = f"{_NOTES}/{hashlib.sha256(json.dumps(place).encode()).hexdigest()[:32]}.json"
        note = cls(attempt.base.location, name)
        content = objects_at(note.graph).read(name)
        return note if content is None else replace(note, **json.loads(content))

    def begun(self, ids: RowIds) -> "_Note":
        """The note of a run over these rows, which has begun."""
        return self if self.end >= 0 else replace(self, end=int(np.max(ids, initial=0)))._written()

    def at(self, done: int) -> "_Note":
        """The note when all is done up to a row."""
        return replace(self, done=done)._written()

    def remove(self) -> None:
        objects_at(self.graph).delete(self.name)

    def _written(self) -> "_Note":
        objects_at(self.graph).replace(self.name, json.dumps({"done": self.done, "end": self.end}).encode())
        return self
