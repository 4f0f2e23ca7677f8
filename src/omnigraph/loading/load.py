"""Loads records into the graph: any number, of any number of types, in one commit.

Tasks read the input, check every record alone and write the rows where no version sees them. Others compare what must
be compared, a bucket of keys at a time. Only when nothing is wrong is all of it staged and published, like every write.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import field, replace
from functools import partial
from typing import Any

from omnigraph.api.data import LoadMode, LoadResult
from omnigraph.api.history import ChangeCounts, Commit
from omnigraph.api.progress import Choice
from omnigraph.catalog import Catalog, EdgeType, NodeType
from omnigraph.dataclass_later import dataclass
from omnigraph.embedding import current_settings
from omnigraph.errors import ValidationError
from omnigraph.loading.applying import apply_changes, apply_parts, cascade_parts, find_edges_of_removed
from omnigraph.loading.batches import LoadKey, digest_of, find_repeated
from omnigraph.loading.change_columns import ChangeColumns
from omnigraph.loading.checking import Verdict, check_bucket, keys_parts, needed_keys, spill_keys
from omnigraph.loading.edge_ids import EdgeIds
from omnigraph.loading.inputs import FRAME_NUMBERS, LoadInput, work_of
from omnigraph.loading.records import Faults
from omnigraph.loading.sources import (
    LineRange,
    Numbered,
    Part,
    entities_of,
    line_of,
    part_and_position,
    tables_named_in,
)
from omnigraph.loading.streams import Splitter, StreamShare, buckets_of
from omnigraph.loading.tasks import LoadJob, LoadOutcome, load_part, load_partition, merge_parts, merge_records
from omnigraph.parts.buckets import bucket_count
from omnigraph.parts.engine import Engine, InProcess
from omnigraph.parts.scratch import Memory, Scratch, scratch_files
from omnigraph.storage.carrying import TableAt
from omnigraph.storage.environment import count_setting
from omnigraph.storage.staging import WrittenRows, discard, join_written, stage_replacement, stage_written
from omnigraph.versioning import Branches
from omnigraph.versioning.publisher import Batch
from omnigraph.violations import Violation
from omnigraph.write import WriteAttempt
from omnigraph.write.change import StagedTable
from omnigraph.write.forks import is_own
from omnigraph.write.protocol import check_folded, relied_on, report_staged_table, tables_to_write, write_staged
from omnigraph.write.rules import lost_ends
from omnigraph.write.validate import SHOWN_VIOLATIONS

CONCURRENCY = "OMNIGRAPH_LOAD_CONCURRENCY"


def describe_load(given: LoadInput, mode: LoadMode, choice: Choice) -> str:
    """The engine, the parts and the stages of a load, as text."""
    buckets = bucket_count(given.expected_keys)
    parts = given.parts(Memory())
    lines = [
        str(choice),
        f"mode: {mode}",
        f"reading: {_some(len(parts), 'part')}, about {_some(given.records, 'record')}",
    ]
    lines += [f"reading {key.partition(':')[2]}: the partitions of a DataFrame" for key, _ in given.frames]
    if mode is LoadMode.MERGE:
        lines.append(f"merging: by id, in {_some(buckets, 'bucket')} for each type")
    if mode is LoadMode.APPLY:
        lines.append(f"applying: by id and sequence, in {_some(buckets, 'bucket')} for each type; nodes before edges")
    lines.append(f"checking: ids, unique values, ends and numbers of edges, in {_some(buckets, 'bucket')}")
    lines.append("writing: the rows of all types in one commit")
    return "\n".join(lines)


def _some(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """How records are loaded: the mode, columns with a meaning of their own, and the key by which it is done once."""

    mode: LoadMode
    edge_ids: EdgeIds = field(default_factory=dict)
    key: LoadKey | None = None
    changes: ChangeColumns | None = None
    """Of changes, the columns that order them and mark deletions."""


def load(
    attempt: WriteAttempt,
    given: LoadInput,
    options: LoadOptions,
    *,
    branches: Branches,
    engine: Engine,
    choice: Choice,
) -> LoadResult:
    """Loads as one commit, or nothing.

    Append takes only new entities. Merge replaces what a record gives of an entity that is there, and keeps the rest.
    Apply does the same in the order of the records, and deletes. Overwrite leaves nothing of the types that the input
    mentions but what it brings. A load whose key and content were loaded before changes nothing.
    """
    buckets = bucket_count(given.expected_keys)
    writing = engine_for_rows(engine)
    with _scratch(attempt, engine, buckets) as scratch:
        splitter = Splitter(attempt.catalog, scratch, buckets)
        work = _Load(attempt, given, engine, writing, options=options, choice=choice, splitter=splitter)
        return work.run(branches)


def engine_for_rows(engine: Engine) -> Engine:
    """The engine of the stages that write rows, with as many parts at once as `OMNIGRAPH_LOAD_CONCURRENCY` says.

    On Spark the cluster decides. Checking and publishing are not bound by it.
    """
    count = count_setting(CONCURRENCY, engine.slots)
    return engine.with_slots(count) if isinstance(engine, InProcess) else engine


@contextmanager
def _scratch(attempt: WriteAttempt, engine: Engine, buckets: int) -> Iterator[Scratch]:
    """Memory for a small load in this process, files otherwise."""
    in_memory = engine.name == "local" and buckets == 1
    with nullcontext(Memory()) if in_memory else scratch_files(attempt.base.location, attempt.operation_id) as scratch:
        yield scratch


@dataclass(slots=True)
class _Load:
    attempt: WriteAttempt
    given: LoadInput
    engine: Engine
    writing: Engine
    """The one for the stages that write rows."""
    options: LoadOptions = field(kw_only=True)
    choice: Choice = field(kw_only=True)
    splitter: Splitter = field(kw_only=True)
    _parts: list[Part] = field(default_factory=list)
    _written: dict[str, WrittenRows] = field(default_factory=dict)
    _buckets: int = 1
    """How many are worked on apart, now that it is known how many rows there are."""

    @property
    def mode(self) -> LoadMode:
        return self.options.mode

    def run(self, branches: Branches) -> LoadResult:
        self._parts = self.given.parts(self.splitter.scratch)
        if (load_key := self.options.key) is not None:
            replaces = self.mode is LoadMode.OVERWRITE and bool(self.given.named_tables)
            commit = find_repeated(self.attempt, branches, load_key, self._read_digest, replaces=replaces)
            if commit is not None:
                return replace(self._result(commit, ()), repeated=True)
        job = self._job(self._tables())
        try:
            return self._load(job)
        except BaseException:
            for key, written in self._written.items():
                discard(job.tables[key].open(), written)
            raise

    def _job(self, tables: Mapping[str, TableAt], *, only_content: bool = False) -> LoadJob:
        return LoadJob(
            self.attempt.catalog,
            self.mode,
            tables,
            self.splitter,
            current_settings(),
            edge_ids=self.options.edge_ids,
            has_key=self.options.key is not None,
            only_content=only_content,
            changes=self.options.changes,
        )

    def _read_digest(self) -> str:
        """What identifies the content of the input, which is read and not kept."""
        return _digest(self._read(self._job({}, only_content=True)))

    def _load(self, job: LoadJob) -> LoadResult:
        read = self._read(job)
        if (key := self.options.key) is not None:
            self.attempt = replace(self.attempt, batch=Batch(key.application, key.batch, _digest(read), key.details))
        touched = {key for outcome in read for key, count in outcome.rows.items() if count}
        if self.mode is LoadMode.OVERWRITE:
            touched |= self.given.named_tables
        if not touched and (key is None or key.details is None):
            return self._result(None, ())
        if not touched:  # what is to be kept, such as offsets, counts without a record too
            self.attempt.allowed(self.attempt.base, touched)
            return self._result(self._write(job, (), ()), ())
        deleting = {key for outcome in read for key, count in outcome.deletes.items() if count}
        touched |= edge_tables_at(job.catalog, deleting)
        check_folded(self.attempt, touched)
        # Before the checks against the graph: their findings reveal what the graph has.
        self.attempt.allowed(self.attempt.base, touched)
        shares = [share for outcome in read for share in outcome.shares]
        self._buckets = min(bucket_count(2 * sum(outcome.count for outcome in read)), job.splitter.buckets)
        known = self._keys_of_the_graph(job, touched, deleting)
        brought = read
        if self.mode is LoadMode.MERGE:
            brought = self._merge(job, [*shares, *known])
            shares = [share for outcome in brought for share in outcome.shares]
        elif self.mode is LoadMode.APPLY:
            brought = self._apply(job, [*shares, *known])
            shares = [share for outcome in brought for share in outcome.shares]
        self._check(job, frozenset(touched), [*shares, *known])
        if self.mode is LoadMode.APPLY:
            return self._write_changes(job, brought)
        return self._result(self._write(job, touched, touched if self.mode is LoadMode.OVERWRITE else ()), brought)

    # --- tables ---

    def _tables(self) -> dict[str, TableAt]:
        """Where each table is; those that a branch will write for the first time are forked for it."""
        base = self.attempt.base
        tables = {
            key: TableAt(base.location.child(pin.path), pin.version, pin.carried)
            for key, pin in base.manifest.pins.items()
        }
        if all(is_own(self.attempt.log, pin.path) for pin in base.manifest.pins.values()):
            return tables
        for key, table in tables_to_write(self.attempt, sorted(self._mentioned_tables())).items():
            tables[key] = TableAt(table.location, table.version)
        return tables

    def _mentioned_tables(self) -> set[str]:
        """The tables that the input has records for, as far as it says without being read in full."""
        lines = [part for part in self._parts if isinstance(part, LineRange)]
        named = self.engine.run("looking for types", partial(tables_named_in, self.attempt.catalog), lines)
        found = {*self.given.named_tables, *(key for keys in named for key in keys)}
        can_delete = self.options.changes is not None and self.options.changes.delete is not None
        return found | edge_tables_at(self.attempt.catalog, found) if can_delete else found

    # --- stages ---

    def _read(self, job: LoadJob) -> list[LoadOutcome]:
        # The largest part first: a large one that begins last would keep one core busy while the others wait.
        order = sorted(range(len(self._parts)), key=lambda number: -work_of(self._parts[number]))
        numbered = [Numbered(number, self._parts[number]) for number in order]
        found = dict(
            zip(order, self.writing.run("reading", partial(load_part, job), numbered, rows=_row_count), strict=True)
        )
        outcomes = [found[number] for number in range(len(found))]
        for index, (key, frame) in enumerate(self.given.frames):
            work = partial(load_partition, job, key, FRAME_NUMBERS * (index + 1))
            engine: Any = self.engine
            outcomes += engine.run_frame(f"reading {key.partition(':')[2]}", work, frame, rows=_row_count)
        self._keep(outcomes)
        return outcomes

    def _keys_of_the_graph(
        self, job: LoadJob, touched: Collection[str], deleting: Collection[str]
    ) -> list[StreamShare]:
        if self._buckets == 1:
            return []
        parts = keys_parts(job, needed_keys(job, {*touched}, {*deleting}))
        return [
            share
            for shares in self.engine.run("reading the graph", partial(spill_keys, job), parts)
            for share in shares
        ]

    def _merge(self, job: LoadJob, shares: Sequence[StreamShare]) -> list[LoadOutcome]:
        parts = merge_parts(job.splitter, shares, self._buckets)
        outcomes = self.writing.run("merging", partial(merge_records, job), parts, rows=_row_count)
        self._keep(outcomes)
        return outcomes

    def _apply(self, job: LoadJob, shares: Sequence[StreamShare]) -> list[LoadOutcome]:
        """Changes nodes, looks for the edges of those that go, and changes edges."""
        nodes = apply_parts(job.splitter, shares, self._buckets, job.catalog.nodes.values())
        changed = self.writing.run("changing nodes", partial(apply_changes, job), nodes, rows=_row_count)
        self._keep(changed)
        shares = [*shares, *(share for outcome in changed for share in outcome.shares)]
        buckets = cascade_parts(job.splitter, shares, self._buckets)
        found = self.engine.run("finding edges of deleted nodes", partial(find_edges_of_removed, job), buckets)
        shares = [*shares, *(share for edges in found for share in edges)]
        edges = apply_parts(job.splitter, shares, self._buckets, job.catalog.edges.values())
        outcomes = self.writing.run("changing edges", partial(apply_changes, job), edges, rows=_row_count)
        self._keep(outcomes)
        return [*changed, *outcomes]

    def _check(self, job: LoadJob, touched: frozenset[str], shares: Sequence[StreamShare]) -> None:
        buckets = buckets_of(job.splitter, shares, self._buckets)
        verdicts = self.engine.run("checking", partial(check_bucket, job, touched), buckets)
        faults = _faults(verdicts)
        if faults.total:
            raise self._refusal(faults)

    def _keep(self, outcomes: Iterable[LoadOutcome]) -> None:
        """Notes what was written, and raises when something is wrong: unreadable records first."""
        unreadable, wrong = Faults(), Faults()
        written: dict[str, list[WrittenRows]] = {}
        for outcome in outcomes:
            for key, rows in outcome.written.items():
                written.setdefault(key, []).append(rows)
            unreadable.add(outcome.unreadable)
            wrong.add(outcome.wrong)
        self._written |= {key: join_written(parts) for key, parts in written.items()}
        for faults in (unreadable, wrong):
            if faults.total:
                raise self._refusal(faults)

    # --- the end ---

    def _write_changes(self, job: LoadJob, brought: Sequence[LoadOutcome]) -> LoadResult:
        """Writes what changes lead to. If nothing differs, there is a commit only if there is a key to keep."""
        applied = sum((outcome.applied for outcome in brought), ChangeCounts())
        self.attempt = replace(self.attempt, applied=applied)
        written = {key for key, rows in self._written.items() if rows.count or rows.gone}
        reduced = {key for outcome in brought for key in outcome.reduced}
        commit = self._write(job, written, reduced) if written or self.options.key is not None else None
        return self._result(commit, brought)

    def _write(self, job: LoadJob, touched: Collection[str], reduced: Collection[str]) -> Commit:
        """Publishes the rows of tables; `reduced` are those that lose some."""
        replaces = self.mode is LoadMode.OVERWRITE
        staged: dict[str, StagedTable] = {}
        for key in [key for key in job.tables if key in touched]:
            table, written = job.tables[key].open(), self._written.get(key, WrittenRows())
            stage = stage_replacement if replaces else stage_written
            removes = key in reduced
            staged[key] = StagedTable(table, stage(table, written, self.attempt.operation_id), removes=removes)
            report_staged_table(self.attempt)
        entities = [entity for key, entity in entities_of(job.catalog).items() if key in touched]
        fewer = [entity for entity in entities if entity.table_key in reduced]
        needed = relied_on(job.catalog, brought=entities, reduced=fewer)
        # From here on recovery may complete the write, even if this process dies: its files must stay.
        self._written.clear()
        return write_staged(self.attempt, staged, relied_on=needed)

    def _result(self, commit: Commit | None, brought: Iterable[LoadOutcome]) -> LoadResult:
        counts: dict[str, int] = {}
        for outcome in brought:
            for key, count in outcome.rows.items():
                counts[key] = counts.get(key, 0) + count
        entities = entities_of(self.attempt.catalog)
        found = [(entities[key], count) for key, count in counts.items() if count]
        nodes = {entity.name: count for entity, count in found if isinstance(entity, NodeType)}
        edges = {entity.name: count for entity, count in found if isinstance(entity, EdgeType)}
        applied = self.attempt.applied or ChangeCounts() if self.mode is LoadMode.APPLY else None
        return LoadResult(commit, nodes, edges, self.choice.engine, self.choice.why, applied=applied)

    def _refusal(self, faults: Faults) -> ValidationError:
        return ValidationError([self._with_file_and_line(violation) for violation in faults.shown], faults.total)

    def _with_file_and_line(self, violation: Violation) -> Violation:
        """The violation with the file and the line that its place stands for."""
        if violation.line is None or violation.file is not None:
            return violation
        number, position = part_and_position(violation.line)
        if number < len(self._parts):
            name, line = line_of(self._parts[number], position)
        else:
            key, _ = self.given.frames[number // FRAME_NUMBERS - 1]
            name, line = f"{key.partition(':')[2]} partition {number % FRAME_NUMBERS}", position + 1
        return violation._replace(file=name, line=line)


def edge_tables_at(catalog: Catalog, node_tables: Collection[str]) -> set[str]:
    """The tables of the edges that lose some when nodes of these tables are deleted."""
    nodes = [node for node in catalog.nodes.values() if node.table_key in node_tables]
    return {edge.table_key for node in nodes for edge in catalog.edges_touching(node.name)}


def _digest(outcomes: Sequence[LoadOutcome]) -> str:
    return digest_of(sum(each.count for each in outcomes), sum(each.content for each in outcomes))


def _row_count(outcome: LoadOutcome) -> int:
    return outcome.count


def _faults(verdicts: Sequence[Verdict]) -> Faults:
    """What all buckets have found, in the order of the checks and then of the records."""
    ranked = sorted(
        (each for verdict in verdicts for each in verdict.first), key=lambda each: (each.rank, each.violation.line or 0)
    )
    faults = Faults([each.violation for each in ranked[:SHOWN_VIOLATIONS]], sum(verdict.total for verdict in verdicts))
    lost: dict[tuple[str, str], tuple[int, str]] = {}
    for verdict in verdicts:
        for place, (count, example) in verdict.lost.items():
            before, first = lost.get(place, (0, example))
            lost[place] = (before + count, first)
    faults.extend(lost_ends(edge, column, count, example) for (edge, column), (count, example) in lost.items())
    return faults
