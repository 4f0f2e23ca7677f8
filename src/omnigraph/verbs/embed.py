"""Fills the vectors of a type, those that are missing or all of them: a slice of rows at a time, each one commit.

A process that is killed loses one slice at most, and the next run goes on. What is missing is seen in the rows. When
all vectors are recomputed, a note beside the graph records the progress, by the row ids that storage never changes.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from omnigraph.api.data import EmbedRequest, EmbedResult
from omnigraph.api.history import Commit
from omnigraph.api.progress import Progress, Report
from omnigraph.catalog import Catalog, EntityType, Property, table_schema
from omnigraph.catalog.model import ID
from omnigraph.compute_later import pc
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import any_of, quoted
from omnigraph.embedding import ROWS_PER_PART, EmbeddingSettings, current_settings, embedded_properties, fill_vectors
from omnigraph.errors import UsageError
from omnigraph.failpoints import Writer
from omnigraph.parts.choice import LARGE_RECORDS, size_reasons
from omnigraph.parts.engine import Engine
from omnigraph.policy import Action
from omnigraph.session.engines import choose_engine, start_engine
from omnigraph.session.session import Session
from omnigraph.session.writes import WriteOrder
from omnigraph.storage.carrying import TableAt
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.predicates import quoted_column
from omnigraph.storage.staging import WrittenRows, discard, join_written, stage_written, write_change
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID, Table
from omnigraph.versioning import Snapshot
from omnigraph.write import StagedTable, WriteAttempt, report_staged_table, tables_to_write, write_staged
from omnigraph.write.protocol import check_folded

STAGE = "embedding"
_NOTES = "__embed"

RowIds: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.uint64]]"


@dataclass(frozen=True, slots=True)
class EmbedTarget:
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


def targets_of(catalog: Catalog, type: str, property: str | None, *, everything: bool) -> tuple[EmbedTarget, ...]:
    """The vectors to fill: one property of a type, or all that a model fills."""
    entity = catalog.existing_entity(type)
    known = {declared.name: (declared, source) for declared, source, _ in embedded_properties(entity)}
    if not known:
        is_unfilled = any(each.embedding is not None for each in entity.properties.values())
        hint = "configure a model and apply the schema again" if is_unfilled else "declare one with `@embed`"
        raise UsageError(f"{quoted(entity.name)} has no property that a model fills; {hint}")
    if property is not None and property not in known:
        raise UsageError(f"invalid property {property!r}: a model fills {any_of(known)} of {quoted(entity.name)}")
    chosen = known if property is None else {property: known[property]}
    return tuple(EmbedTarget(entity, declared, source, everything) for declared, source in chosen.values())


def embed_reasons(snapshot: Snapshot, targets: Sequence[EmbedTarget]) -> Iterator[str]:
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
        tally = _Tally(request.report)
        engine = start_engine(choice, tally.part_done)
        order = WriteOrder(
            kind=Writer.EMBED,
            branch=request.branch,
            actor=session.guard.actor,
            message=request.message or "embed",
            schema_id=head.commit.schema_id,
        )
        commits: list[Commit] = []
        counts = {}
        for target in targets:
            work = _Work(target, engine, request.batch, tally)
            name = target.declared.name
            if request.message is None:
                order = replace(order, message=f"embed {target.entity.name}.{name}")
            done = [*_fill(session, order, work)]
            counts[name] = sum(each.rows for each in done)
            commits += [each.commit for each in done if each.commit is not None]
        return EmbedResult(tuple(commits), counts, choice.engine, choice.why)

    return session.writes.retry_schema(lambda: session.head(request.branch), run)


def _fill(session: Session, order: WriteOrder, work: "_Work") -> Iterator["_Slice"]:
    """Fills one target slice by slice, each with its own commit.

    A slice does not keep other writers out while the model works. A row that they change is read again before it is
    written; if they change its table, the slice is written again while they wait.
    """
    while (done := session.write_persistent(order, work.next_slice, (work.table_key,))) is not None:
        work.mark_done(done)
        yield done


@dataclass(slots=True)
class _Tally:
    """Reports progress in rows, across slices and parts."""

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
    """A finished slice: how many rows got vectors, and the row id up to which all is done. Without rows, no commit."""

    commit: Commit | None
    rows: int
    last: int


class _Work:
    """The rows of one target that are still to be done, by their row ids, and the next slice of them.

    They are looked for once: to find rows without a vector, all vectors must be read.
    """

    def __init__(self, target: EmbedTarget, engine: Engine, rows: int | None, tally: _Tally) -> None:
        self.table_key = target.entity.table_key
        self._target = target
        self._engine = engine
        self._most = rows or ROWS_PER_PART * engine.slots
        self._tally = tally
        self._models = current_settings()
        self._note: _Note | None = None
        self._leave: RowIds | None = None

    def next_slice(self, attempt: WriteAttempt) -> _Slice | None:
        """Writes the next slice; None when nothing is left. Others may make it start over."""
        check_folded(attempt, [self.table_key])  # rows that are carried get other row ids later
        if self._leave is None:
            self._leave = self._find_rows(attempt)
        chosen = self._leave[: self._most]
        if not len(chosen):
            if self._note is not None:
                self._note.remove()
            return None
        self._tally.current = len(chosen)
        table = tables_to_write(attempt, [self.table_key])[self.table_key]
        written = self._write_slice(table, chosen)
        commit = self._commit_slice(attempt, table, written) if written.count else None
        return _Slice(commit, written.count, int(chosen[-1]))

    def mark_done(self, done: _Slice) -> None:
        """Notes that a slice is done."""
        assert self._leave is not None
        self._leave = self._leave[np.searchsorted(self._leave, done.last, side="right") :]
        if self._note is not None:
            self._note = self._note.at(done.last)
        self._tally.slice_done()

    def _find_rows(self, attempt: WriteAttempt) -> RowIds:
        """The rows that are to be done: of a run that was cut short, those that are left."""
        table = attempt.base.table(self.table_key)
        ids: RowIds = np.sort(table.scan([ROW_ID], self._target.filter)[ROW_ID].to_numpy())
        if self._target.everything:
            self._note = _Note.of(attempt, self._target).begin(ids)
            ids = ids[(ids > self._note.done) & (ids <= self._note.end)]
        self._tally.total += len(ids)
        return ids

    def _write_slice(self, table: Table, chosen: RowIds) -> WrittenRows:
        places = table.scan([ROW_ID, ROW_ADDRESS])
        places = places.filter(pc.is_in(places[ROW_ID], value_set=pa.array(chosen)))
        addresses = np.sort(places[ROW_ADDRESS].to_numpy())
        if not len(addresses):
            return WrittenRows()
        parts = np.array_split(addresses, min(self._engine.slots, len(addresses)))
        work = _EmbedRows(self._target, TableAt(table.location, table.version), self._models)
        return join_written(self._engine.run(STAGE, work, [pa.array(part) for part in parts]))

    def _commit_slice(self, attempt: WriteAttempt, table: Table, written: WrittenRows) -> Commit:
        try:
            staged = StagedTable(table, stage_written(table, written, attempt.operation_id))
            report_staged_table(attempt)
        except BaseException:
            discard(table, written)
            raise
        return write_staged(attempt, {self.table_key: staged})


@dataclass(frozen=True, slots=True)
class _EmbedRows:
    """Computes the vectors of some rows and rewrites the rows, otherwise unchanged.

    A row that got its vector, or lost its text, since it was found is left alone.
    """

    target: EmbedTarget
    table: TableAt
    models: EmbeddingSettings

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
        rows = fill_vectors(entity, rows, {name: pa.repeat(True, rows.num_rows)}, self.models)
        return write_change(table, rows, found.select([ID, ROW_ID, ROW_ADDRESS]))


# --- progress of a run that recomputes all vectors ---


@dataclass(frozen=True, slots=True)
class _Note:
    """Up to which row id all is done, and up to which there is something to do: later rows came with their vectors."""

    graph: Location
    name: str
    done: int = -1
    end: int = -1

    @classmethod
    def of(cls, attempt: WriteAttempt, target: EmbedTarget) -> "_Note":
        """What an earlier run noted, if it was not brought to its end."""
        embedding = target.declared.embedding
        assert embedding is not None
        place = (attempt.log.incarnation, target.entity.identity, target.declared.identity, embedding.model)
        name = f"{_NOTES}/{hashlib.sha256(json.dumps(place).encode()).hexdigest()[:32]}.json"
        note = cls(attempt.base.location, name)
        content = objects_at(note.graph).read(name)
        return note if content is None else replace(note, **json.loads(content))

    def begin(self, ids: RowIds) -> "_Note":
        """The note of a run over these rows, which has begun."""
        return self if self.end >= 0 else replace(self, end=int(np.max(ids, initial=0)))._save()

    def at(self, done: int) -> "_Note":
        """The note when all is done up to a row."""
        return replace(self, done=done)._save()

    def remove(self) -> None:
        objects_at(self.graph).delete(self.name)

    def _save(self) -> "_Note":
        objects_at(self.graph).replace(self.name, json.dumps({"done": self.done, "end": self.end}).encode())
        return self
