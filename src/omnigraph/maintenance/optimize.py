"""Optimizes the tables of a branch: few large fragments, indexes that cover all of them, one commit for all.

What takes long happens without locks, on the newest snapshot, where no version sees it. The locks come after it. What
others wrote meanwhile is nearly always beside what was worked on, and then the work is put on top of it; a table whose
own fragments were changed is done again, under the lock.

A table that cannot be read, or that another process holds for too long, is left out with its error. What was done to
the others is published all the same.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

from omnigraph.api.upkeep import OptimizeResult, Skipped, TableOptimizeStats
from omnigraph.catalog import EntityType, IndexIntent, index_intents
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import (
    FenceHeld,
    NotFound,
    OmnigraphError,
    RecoveryPending,
    SchemaChanged,
    StorageError,
)
from omnigraph.maintenance.indexes import LARGE_TABLES, why_pending
from omnigraph.maintenance.layout import IndexWork, TableFacts, TableWork, coverage_after, work_on
from omnigraph.maintenance.repair import unsettled_operations
from omnigraph.maintenance.topology import TOPOLOGY, renew_topology
from omnigraph.parts.choice import row_reasons
from omnigraph.parts.engine import Engine
from omnigraph.recovery.audit import AUDIT_FOLDER, check_newest_version
from omnigraph.storage.carrying import TableAt
from omnigraph.storage.compaction import (
    Drafts,
    Rewritten,
    fragment_states,
    fragments_with_dropped_columns,
    index_addition,
    index_removal,
    index_segments,
    oldest_row,
    rewrite_fragments,
    rewrite_operation,
    stage_in_order,
    unchanged_in,
    with_numbers,
)
from omnigraph.storage.environment import count_setting
from omnigraph.storage.indexes import write_extension, write_index
from omnigraph.storage.tables import Table, listed_versions, newest_version, open_table
from omnigraph.versioning import Snapshot
from omnigraph.versioning.file_checksums import check_pinned_version
from omnigraph.versioning.log import MANIFEST_FOLDER
from omnigraph.write import StagedTable, WriteAttempt, WriteFence, report_staged_table, write_staged
from omnigraph.write.forks import is_own
from omnigraph.write.sidecar import read_sidecar

MAINTENANCE_ACTOR = "omnigraph:maintenance"
_CONCURRENCY = "OMNIGRAPH_MAINTENANCE_CONCURRENCY"
_AT_ONCE = 8
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _FinishedWork:
    """A table with all that was written to optimize it."""

    table: Table
    work: TableWork
    rewritten: tuple[Rewritten, ...]
    indexes: tuple[Any, ...]
    built_at: int
    """The version whose rows the indexes have."""


def optimize(attempt: WriteAttempt, engine: Engine, only: Collection[str] | None = None) -> OptimizeResult:
    """Optimizes every table of the branch that is its own and has not drifted, as one commit; or `only` some.

    A table that fails does not stop the others.
    """
    _refuse_unsettled(attempt)
    keys = [key for key in sorted(attempt.base.manifest.pins) if only is None or key in only]
    failures = _Failures()
    stats: dict[str, TableOptimizeStats] = {}
    works: dict[str, TableWork] = {}
    for entity in (each for each in attempt.catalog.entities if each.table_key in keys):
        key = entity.table_key
        with failures.noting_failure(key):
            if (skipped := _skipped_stats(attempt, key)) is not None:
                stats[key] = skipped
            elif not (work := _work(attempt.base.table(key).plain, entity)).is_empty:
                works[key] = work
    with closing(Drafts()) as drafts:
        ordered = _do_work(attempt.base, works, engine, drafts, failures)
        if ordered:
            for key, error in attempt.fence.take_free(ordered).items():
                failures.note(key, error)
            attempt.log.check_exists()
            attempt = replace(attempt, base=_under_locks(attempt))
        parts = {}
        for key in [key for key in ordered if key not in failures]:
            with failures.noting_failure(key):
                if (skipped := _skipped_stats(attempt, key)) is not None:
                    stats[key] = skipped
                elif (newest := _on_newest(attempt, key, ordered[key], engine, drafts)) is not None:
                    check_pinned_version(attempt.base.location, attempt.base.manifest.pins[key])
                    part = _stage_table(attempt, newest)
                    report_staged_table(attempt)
                    parts[key], stats[key] = part, _stats_of(key, newest, part)
        commit = write_staged(attempt, parts) if parts else None
    head = Snapshot(attempt.base.location, attempt.catalog, attempt.log.head())
    for key in (edge.table_key for edge in attempt.catalog.edges.values()):
        if key not in keys or key in failures or key not in head.manifest.pins:
            continue
        done = stats.get(key) or _untouched_stats(head, key)
        with failures.noting_failure(key):
            if done.skipped is None and renew_topology(head.table(key).plain):
                stats[key] = replace(done, indexes_built=(*done.indexes_built, TOPOLOGY))
    tables = [
        failures.stats_of(attempt.base, key) or stats.get(key) or _untouched_stats(attempt.base, key) for key in keys
    ]
    return OptimizeResult(commit, (*tables, *_own_tables(attempt.base)))


class _Failures:
    """The tables that cannot be optimized, and why."""

    def __init__(self) -> None:
        self._errors: dict[str, OmnigraphError] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._errors

    @contextmanager
    def noting_failure(self, key: str) -> Iterator[None]:
        """Notes when storage fails for a table; what concerns the whole branch is raised."""
        try:
            yield
        except (StorageError, NotFound) as error:
            self.note(key, error)

    def note(self, key: str, error: OmnigraphError) -> None:
        _logger.warning("%s could not be optimized: %s", key, error)
        self._errors.setdefault(key, error)

    def raise_for(self, key: str) -> None:
        """Raises the error of a table, if it has one."""
        if key in self._errors:
            raise self._errors[key]

    def stats_of(self, base: Snapshot, key: str) -> TableOptimizeStats | None:
        """What is said of a table that failed."""
        return None if key not in self else replace(_untouched_stats(base, key), error=str(self._errors[key]))


def optimize_reasons(snapshot: Snapshot) -> Iterable[str]:
    """Reasons to do it on Spark: tables that one machine would write for long."""
    rows = 0
    for key in snapshot.manifest.pins:
        with suppress(StorageError, NotFound):  # what cannot be read is for the work itself to report
            rows += sum(each.live for each in fragment_states(snapshot.table(key).plain))
    return row_reasons(rows, LARGE_TABLES, "optimize")


def maintenance_concurrency() -> int:
    """How many parts of the work are done at once in this process."""
    return count_setting(_CONCURRENCY, _AT_ONCE)


# --- what there is to do ---


def _under_locks(attempt: WriteAttempt) -> Snapshot:
    """The newest state, if it has the schema that the work was planned under."""
    head = attempt.log.head()
    if head.commit.schema_id != attempt.base.commit.schema_id:
        raise SchemaChanged(attempt.branch)
    return Snapshot(attempt.base.location, attempt.catalog, head)


def _refuse_unsettled(attempt: WriteAttempt) -> None:
    """Raises when a write ended in the middle. One whose writer is at work is not waited for here."""
    graph = attempt.base.location
    unsettled = []
    for operation_id in unsettled_operations(graph, attempt.log):
        sidecar = read_sidecar(graph, operation_id)
        if sidecar is None:
            continue
        with WriteFence(graph, sidecar.branch, f"optimize looks at {operation_id}") as fence:
            try:
                fence.take(sidecar.locks, wait=0.0)
            except FenceHeld:
                continue
            if read_sidecar(graph, operation_id) is not None:
                unsettled.append(operation_id)
    if unsettled:
        raise RecoveryPending(unsettled)


def _skipped_stats(attempt: WriteAttempt, key: str) -> TableOptimizeStats | None:
    """Why a table is left alone, if it is: it is another branch's, or has versions that no commit and no write made.

    Before the locks are held, a version that was just committed may look like drift; it is looked at again then.
    """
    pin = attempt.log.head().pins.get(key)
    if pin is None:
        raise SchemaChanged(attempt.branch)
    location = attempt.base.location.child(pin.path)
    if not is_own(attempt.log, pin.path):
        reason, head = Skipped.SHARED_WITH_PARENT, pin.version
    elif (head := newest_version(location)) > pin.version and not _is_announced(attempt, key):
        # A writer that was at work may have published and taken its announcement back by now.
        if attempt.log.head().pins.get(key) != pin:
            return None
        reason = Skipped.DRIFT_NEEDS_REPAIR
    else:
        return None
    return TableOptimizeStats(table_key=key, skipped=reason, manifest_version=pin.version, lance_head_version=head)


def _is_announced(attempt: WriteAttempt, key: str) -> bool:
    """Whether the sidecar of a write on this branch names a table."""
    graph = attempt.base.location
    found = (read_sidecar(graph, each) for each in unsettled_operations(graph, attempt.log))
    return any(sidecar is not None and key in sidecar.table_keys for sidecar in found)


def _work(table: Table, entity: EntityType) -> TableWork:
    facts = TableFacts(
        fragments=fragment_states(table),
        segments=index_segments(table),
        intents=index_intents(entity),
        oldest_row=lambda fragments: oldest_row(table, fragments),
        is_pending=lambda intent: why_pending(entity, table, intent) is not None,
        outdated=fragments_with_dropped_columns(table),
    )
    return work_on(facts)


# --- doing it ---


@dataclass(frozen=True, slots=True)
class _Fragments:
    """A draft whose fragments become one."""

    table_key: str
    draft: TableAt


@dataclass(frozen=True, slots=True)
class _Index:
    """An index that is written on a draft: over some fragments, or over all."""

    table_key: str
    table: TableAt
    intent: IndexIntent
    fragments: tuple[int, ...] | None


def _do_work(
    base: Snapshot, works: Mapping[str, TableWork], engine: Engine, drafts: Drafts, failures: _Failures
) -> dict[str, _FinishedWork]:
    """Does the work on every table that does not fail; nothing of it is in any version."""
    bare: dict[str, Table] = {}
    groups: list[_Fragments] = []
    for key, work in works.items():
        with failures.noting_failure(key):
            if work.groups:
                bare[key] = drafts.without_indexes(base.table(key).plain)
                made = [drafts.only(bare[key], group) for group in work.groups]
                groups += [_Fragments(key, TableAt(draft.location, draft.version)) for draft in made if draft]
    rewritten: dict[str, list[Rewritten]] = {key: [] for key in works}
    for part, result in zip(groups, engine.run("compacting", _rewrite_part, groups), strict=True):
        if isinstance(result, OmnigraphError):
            failures.note(part.table_key, result)
        else:
            rewritten[part.table_key].append(result)
    indexes: list[_Index] = []
    for key, work in works.items():
        if key in failures:
            continue
        with failures.noting_failure(key):
            if key in bare:
                rewritten[key] = with_numbers(rewritten[key], drafts.first_spare_number(bare[key], rewritten[key]))
            draft = _draft_after(drafts, base.table(key).plain, work, rewritten[key])
            parts = [_index_part(key, draft, each, rewritten[key]) for each in work.indexes]
            indexes += [part for part in parts if part.fragments != ()]
    written: dict[str, list[Any]] = {key: [] for key in works}
    for each, index in zip(indexes, engine.run("indexing", _write_index, indexes), strict=True):
        if isinstance(index, OmnigraphError):
            failures.note(each.table_key, index)
        else:
            written[each.table_key].append(index)
    return {
        key: _FinishedWork(
            base.table(key).plain, work, tuple(rewritten[key]), tuple(written[key]), base.table(key).version
        )
        for key, work in works.items()
        if key not in failures
    }


def _draft_after(drafts: Drafts, table: Table, work: TableWork, rewritten: Sequence[Rewritten]) -> Table:
    """What a table would be once all is done but the new indexes."""
    dropped = [segment for each in work.indexes for segment in each.dropped]
    draft = drafts.after(table, index_removal(dropped)) if dropped else table
    return drafts.after(draft, rewrite_operation(rewritten)) if rewritten else draft


def _index_part(key: str, draft: Table, work: IndexWork, rewritten: Sequence[Rewritten]) -> _Index:
    fragments = None
    if work.kept is not None:
        covered = coverage_after(work.kept, {each.old_numbers: each.new_numbers for each in rewritten})
        fragments = tuple(each.number for each in fragment_states(draft) if each.number not in covered)
    return _Index(key, TableAt(draft.location, draft.version), work.intent, fragments)


def _rewrite_part(part: _Fragments) -> Rewritten | StorageError:
    try:
        return rewrite_fragments(part.draft.open())
    except StorageError as error:
        return error


def _write_index(part: _Index) -> Any:
    """The index that was written, or the error that it ended in: other tables go on."""
    try:
        table = part.table.open()
        if part.fragments is None:
            return write_index(table, part.intent)
        return write_extension(table, part.intent, part.fragments)
    except StorageError as error:
        return error


# --- putting it on the newest version ---


def _on_newest(
    attempt: WriteAttempt, key: str, ordered: _FinishedWork, engine: Engine, drafts: Drafts
) -> _FinishedWork | None:
    """The same work for the newest version of a table; None if nothing is left to do.

    Where the work does not fit any more, it is done again under the lock, in the same attempt: no write is retried.
    """
    table = attempt.base.table(key).plain
    if _still_fits(table, ordered):
        return replace(ordered, table=table)
    entity = next(each for each in attempt.catalog.entities if each.table_key == key)
    work = _work(table, entity)
    if work.is_empty:
        return None
    failures = _Failures()
    done = _do_work(attempt.base, {key: work}, engine, drafts, failures)
    failures.raise_for(key)
    return done[key]


def _still_fits(table: Table, ordered: _FinishedWork) -> bool:
    """Whether work that was done on an older version is right on this one.

    The fragments that were rewritten must be as they were, and the indexes the same. A fragment that an index was
    built over may have lost rows since, but must be there. The numbers of the new fragments must still be free.
    """
    if table.version == ordered.table.version:
        return True
    there = {each.number for each in fragment_states(table)}
    before = {each.number for each in fragment_states(ordered.table)}
    segments = [{segment.identity for segment in index_segments(each)} for each in (table, ordered.table)]
    new = [number for each in ordered.rewritten for number in each.new_numbers]
    return (
        before <= there
        and segments[0] == segments[1]
        and unchanged_in(table, ordered.rewritten)
        and (not new or max(there) < min(new))
    )


def _stage_table(attempt: WriteAttempt, ordered: _FinishedWork) -> StagedTable:
    """The versions that optimize a table: without what goes, with the new fragments, with the new indexes.

    Segments go first, because Lance refuses to rewrite fragments together of which one covers only some.
    """
    dropped = [segment for each in ordered.work.indexes for segment in each.dropped]
    operations = []
    if ordered.rewritten and dropped:
        operations.append(index_removal(dropped))
        dropped = []
    if ordered.rewritten:
        operations.append(rewrite_operation(ordered.rewritten))
    if ordered.indexes or dropped:
        operations.append(index_addition(ordered.indexes, dropped, built_at=ordered.built_at))
    *before, last = stage_in_order(ordered.table, operations, attempt.operation_id)
    return StagedTable(ordered.table, last, before=tuple(before), keeps_content=True)


# --- statistics ---


def _stats_of(key: str, ordered: _FinishedWork, part: StagedTable) -> TableOptimizeStats:
    extended = [each for each in ordered.work.indexes if each.kept is not None]
    return TableOptimizeStats(
        table_key=key,
        fragments_removed=sum(len(each.old) for each in ordered.rewritten),
        fragments_added=sum(len(each.new) for each in ordered.rewritten),
        indexes_built=tuple(each.intent.name for each in ordered.work.indexes if each.kept is None),
        indexes_extended=tuple(each.intent.name for each in extended),
        committed=True,
        manifest_version=part.staged.version_after,
        lance_head_version=part.staged.version_after,
    )


def _untouched_stats(base: Snapshot, key: str) -> TableOptimizeStats:
    version = base.manifest.pins[key].version
    return TableOptimizeStats(table_key=key, manifest_version=version, lance_head_version=version)


def _own_tables(base: Snapshot) -> Iterator[TableOptimizeStats]:
    """The tables that the graph keeps for itself: every write of them leaves them in order, so they are only named.

    Each version of the manifest is one file, and rows of the audit take small fragments along.
    """
    version = base.manifest.version
    yield TableOptimizeStats(table_key=MANIFEST_FOLDER, manifest_version=version, lance_head_version=version)
    audit = base.location.child(AUDIT_FOLDER)
    try:
        check_newest_version(base.location)
        newest = open_table(audit).version if listed_versions(audit) else None
    except StorageError as error:
        yield TableOptimizeStats(table_key=AUDIT_FOLDER, error=str(error), manifest_version=0, lance_head_version=0)
        return
    if newest is not None:
        yield TableOptimizeStats(table_key=AUDIT_FOLDER, manifest_version=newest, lance_head_version=newest)
