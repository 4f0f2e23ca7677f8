"""How a validated change becomes visible: staged, then committed in four phases.

A writes the sidecar, B commits each table, C publishes the manifest, D deletes the sidecar. Until C nothing is visible;
with C everything is. The letters mean this everywhere and nothing else. A write that changes the schema of `main`
stages its files at the end of B, and makes them the accepted ones after C.
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.api.history import Commit
from omnigraph.catalog import Catalog, EdgeType, EntityType, NodeType
from omnigraph.errors import (
    ExpectedVersionMismatch,
    HeadMoved,
    NotDurable,
    OmnigraphError,
    OutcomeUnknown,
    RecoveryRequired,
    StorageError,
)
from omnigraph.failpoints import Point, Writer, WriteStep
from omnigraph.storage.carrying import CarryingTable
from omnigraph.storage.commits import commit_staged, sync_staged, sync_versions
from omnigraph.storage.location import Location
from omnigraph.storage.staging import stage_append, stage_change, stage_overwrite
from omnigraph.storage.tables import Table, newest_version
from omnigraph.storage.upkeep import upkeep_after
from omnigraph.versioning import Manifest, Publication, commit_since, new_commit_id, publish
from omnigraph.versioning.file_checksums import check_pinned_version
from omnigraph.versioning.manifest import Claim, Reservation
from omnigraph.versioning.publisher import TablesReserved, check_expectations, publish_reservation
from omnigraph.versioning.query_sets import QUERIES
from omnigraph.versioning.schemas import settle_schema_files, stage_schema_files
from omnigraph.write.attempt import WriteAttempt
from omnigraph.write.brought import BroughtChecksums
from omnigraph.write.carried import carried_publication, stage_with_carried, write_carried
from omnigraph.write.change import NOTHING_ELSE, ReliedOn, StagedTable, TableChange
from omnigraph.write.fence import EXISTENCE
from omnigraph.write.forks import fork_table, is_own
from omnigraph.write.sidecar import (
    Sidecar,
    SidecarTable,
    announcing_operation,
    delete_sidecar,
    doom_sidecar,
    write_sidecar,
)

_LOOK_AGAIN_SECONDS = 0.1
_logger = logging.getLogger(__name__)


def write_changes(
    attempt: WriteAttempt, changes: Mapping[str, TableChange], *, unchanged: Collection[str] = ()
) -> Commit:
    """Writes a validated change of one or more tables as one commit, if those in `unchanged` are as they were.

    The manifest carries a small change. Others are written to their tables, with what was carried for these.
    """
    touched = {key: change for key, change in changes.items() if not change.is_empty}
    needed = _reliance(attempt, touched, unchanged)
    if (publication := carried_publication(attempt, touched, needed)) is not None:
        return write_carried(attempt, publication)
    tables = tables_at_places(attempt, touched)
    parts = {}
    for key, change in touched.items():
        parts[key] = _stage_table(attempt, tables[key], change)
        report_staged_table(attempt)
    return write_staged(attempt, parts, relied_on=needed)


def small_publication(
    attempt: WriteAttempt, changes: Mapping[str, TableChange], *, unchanged: Collection[str] = ()
) -> Publication | None:
    """What publishes a validated change that the manifest can carry; None for one that has to go to its tables."""
    touched = {key: change for key, change in changes.items() if not change.is_empty}
    return carried_publication(attempt, touched, _reliance(attempt, touched, unchanged))


def _reliance(attempt: WriteAttempt, changes: Mapping[str, TableChange], unchanged: Collection[str]) -> ReliedOn:
    brought = [change.entity for change in changes.values() if change.rows.num_rows]
    reduced = [change.entity for change in changes.values() if change.removes]
    needed = relied_on(attempt.catalog, brought=brought, reduced=reduced)
    return replace(needed, unchanged={*needed.unchanged, *unchanged})


def fold_tables(attempt: WriteAttempt, table_keys: Iterable[str]) -> None:
    """Folds what the manifest carries for some tables into them. This is not a commit: their content stays the same."""
    keys = [key for key in table_keys if attempt.base.manifest.pins[key].carried]
    tables = tables_at_places(attempt, keys)
    parts = {}
    for key in keys:
        carrying = attempt.base.table(key)
        assert isinstance(carrying, CarryingTable)
        staged = stage_with_carried(tables[key], carrying, None, attempt.operation_id)
        parts[key] = StagedTable(tables[key], staged, keeps_content=True, folded=carrying.deltas[-1].commit_id)
        report_staged_table(attempt)
    if parts:
        write_staged(attempt, parts)


def tables_to_write(attempt: WriteAttempt, table_keys: Iterable[str]) -> dict[str, Table]:
    """The tables as the branch writes them: those that it has not written before are forked for it.

    What was carried for them was folded before; a small write that came since was first.
    """
    keys = [*table_keys]
    check_folded(attempt, keys)
    return tables_at_places(attempt, keys)


def check_folded(attempt: WriteAttempt, table_keys: Iterable[str]) -> None:
    """Raises where rows are carried on top of a table that a write is about to change without them.

    They would hide rows that the write brings, or stay where it replaces all. A small write may come at any moment
    after what was carried has been folded, but not while the tables are held and reserved.
    """
    for key in table_keys:
        pin = attempt.base.manifest.pins[key]
        if pin.carried:
            raise ExpectedVersionMismatch(key, attempt.base.manifest.version, pin.changed_at)


def tables_at_places(attempt: WriteAttempt, keys: Collection[str]) -> dict[str, Table]:
    """Tables without what is carried for them, forked for the branch if it has not written them before.

    Nobody else may fork them meanwhile, so their locks are taken first. Without a fork they are not needed so early.
    """
    pins = attempt.base.manifest.pins
    shared = {key for key in keys if not is_own(attempt.log, pins[key].path)}
    if shared:
        attempt.fence.take(keys)
        attempt.log.check_exists()
    return {
        key: fork_table(attempt.base, attempt.log, key) if key in shared else attempt.base.table(key).plain
        for key in keys
    }


def report_staged_table(attempt: WriteAttempt) -> None:
    """Every writer says so when the files of one more table are written."""
    failpoints.hit_step(attempt.kind, WriteStep.TABLE_STAGED)


def relied_on(catalog: Catalog, *, brought: Iterable[EntityType], reduced: Iterable[EntityType]) -> ReliedOn:
    """What validation looked at: new edges need their nodes to stay, and nodes that go need that no edge has come.

    `brought` are the types that rows come of, `reduced` those that may lose some.
    """
    intact = {
        catalog.nodes[end].table_key
        for edge in brought
        if isinstance(edge, EdgeType)
        for end in (edge.source, edge.destination)
    }
    unchanged = {
        edge.table_key for node in reduced if isinstance(node, NodeType) for edge in catalog.edges_touching(node.name)
    }
    return ReliedOn(unchanged, intact)


def write_staged(
    attempt: WriteAttempt,
    parts: Mapping[str, StagedTable],
    *,
    relied_on: ReliedOn = NOTHING_ELSE,
) -> Commit:
    """Makes staged parts visible together, through the four phases. Every writer comes through here.

    A write that must come right after a commit keeps all publishers out, or others would refuse it halfway.
    """
    attempt.allowed(attempt.base, parts)
    check_folded(attempt, [key for key, part in parts.items() if not (part.keeps_content or part.folded)])
    brought = BroughtChecksums(parts)
    attempt.fence.take([*parts] if parts and attempt.new_schema is None else [EXISTENCE, *parts])
    attempt.log.check_exists()
    if attempt.new_schema is None:
        parts = {key: _with_upkeep(attempt, part) for key, part in parts.items()}
    with attempt.log.turn() if attempt.if_commit is not None else nullcontext():
        return _through_phases(attempt, parts, relied_on, brought)


def _with_upkeep(attempt: WriteAttempt, part: StagedTable) -> StagedTable:
    """A part with what the write does for its table along the way, as its last version; nearly always nothing."""
    upkeep = upkeep_after(part.table, part.staged, attempt.operation_id)
    return part if upkeep is None else replace(part, staged=upkeep, before=part.steps)


def _through_phases(
    attempt: WriteAttempt, parts: Mapping[str, StagedTable], relied_on: ReliedOn, brought: BroughtChecksums
) -> Commit:
    graph, log = attempt.base.location, attempt.log
    head, is_reserved = log.head(), attempt.is_reserved
    # From the base to this head; whoever publishes checks from this head on.
    announced = _sidecar(attempt, parts, relied_on, head.version)
    expected = replace(announced.publication(actor=None, message=None), based_on=attempt.base.manifest.version)
    with suppress(TablesReserved):
        check_expectations(head, expected)
    if not parts and attempt.new_schema is None:
        # Nothing is committed before the publish, so there is nothing that a crash could leave half done.
        alone = replace(announced.publication(actor=attempt.actor, message=attempt.message), since=None, rival_id=None)
        return publish(log, alone).commit
    if not is_reserved and (expected.claim.changes or attempt.new_schema is not None):
        head, is_reserved = _reserve_tables(attempt, expected, relied_on), True
    sidecar = replace(announced, manifest_version=head.version, is_reserved=is_reserved)
    publication = sidecar.publication(actor=attempt.actor, message=attempt.message)
    _check_heads(graph, parts)
    for key in parts:
        check_pinned_version(graph, attempt.base.manifest.pins[key])
    failpoints.hit_step(attempt.kind, WriteStep.BEFORE_PHASE_A)
    brought.check(parts)
    sync_staged(step for part in parts.values() for step in part.steps)
    _announce(graph, sidecar)
    failpoints.hit_step(attempt.kind, WriteStep.AFTER_PHASE_A)
    try:
        _commit_tables(attempt, parts, sidecar)
        brought.record(graph, attempt.operation_id, parts)
        attempt.fence.check()
        if attempt.new_schema is not None and attempt.branch == MAIN:
            stage_schema_files(graph, attempt.new_schema.accepted, attempt.operation_id)
        failpoints.hit_step(attempt.kind, WriteStep.AFTER_PHASE_B)
        commit = publish(log, publication).commit
    except NotDurable:
        # It is visible, and its caller must know that this may not last.
        raise
    except OmnigraphError as error:
        commit = _visible_after_all(attempt, sidecar, error)
    failpoints.hit_step(attempt.kind, WriteStep.AFTER_PHASE_C)
    try:
        if attempt.new_schema is not None and attempt.branch == MAIN:
            settle_schema_files(graph, commit.schema_id)
        delete_sidecar(graph, attempt.operation_id)
    except StorageError as error:
        # The write is visible; recovery will find out what is left to do for this sidecar.
        _logger.warning("the sidecar of %s could not be deleted: %s", attempt.operation_id, error)
    failpoints.hit_step(attempt.kind, WriteStep.AFTER_PHASE_D)
    return commit


def _reserve_tables(attempt: WriteAttempt, expected: Publication, relied_on: ReliedOn) -> Manifest:
    """Keeps small writes away from what the write changes and relies on, if nothing of it has changed so far.

    They take no locks. One that came between phases B and C would make the write fail, and its tables be restored.
    """
    changes = expected.claim.changes if attempt.new_schema is None else frozenset(attempt.base.manifest.pins)
    queries = frozenset() if attempt.queries is None else frozenset({QUERIES})
    claim = Claim(
        changes=changes,
        removes=changes if attempt.new_schema is not None else expected.claim.removes,
        unchanged=(queries | frozenset(relied_on.unchanged)) - changes,
        intact=frozenset(relied_on.intact) - changes,
    )
    lock = EXISTENCE if attempt.new_schema is not None else min(changes - {QUERIES})
    reservation = Reservation(operation_id=attempt.operation_id, lock=lock, claim=claim)
    publication = replace(expected, tables={}, is_commit=False, schema_change=None, reserves=reservation)
    since = time.monotonic()
    while True:
        # Whoever had one of our locks is dead, or has finished.
        ended = [each.operation_id for each in attempt.log.head().reservations if each.lock in attempt.fence.names]
        try:
            return publish_reservation(attempt.log, replace(publication, releases=ended))
        except TablesReserved as error:
            if attempt.await_release is None:
                raise
            attempt.await_release(error, since)


def _path(graph: Location, table: Table) -> str:
    """The path of a table below its graph."""
    return table.location.uri.removeprefix(f"{graph.uri}/")


def _check_heads(graph: Location, parts: Mapping[str, StagedTable]) -> None:
    """Refuses to write on top of versions that no commit made, whatever their numbers.

    Lance would put a change on top of them, and so mix what was checked with what was not.
    """
    for key, part in parts.items():
        if newest_version(part.table.location) > part.read_version:
            raise RecoveryRequired(key, part.read_version, announcing_operation(graph, _path(graph, part.table)))


def _announce(graph: Location, sidecar: Sidecar) -> None:
    """Phase A. When it fails, nothing has happened, and nothing may be left that says otherwise."""
    try:
        write_sidecar(graph, sidecar)
    except StorageError:
        with suppress(StorageError):
            delete_sidecar(graph, sidecar.operation_id)
        raise


def _commit_tables(attempt: WriteAttempt, parts: Mapping[str, StagedTable], sidecar: Sidecar) -> None:
    """Phase B. When the very first table refuses, nothing has happened, and the sidecar goes."""
    graph = attempt.base.location
    committed: list[Table] = []
    try:
        for part in parts.values():
            table = part.table
            for step in part.steps:
                if table is not part.table:
                    # A power cut that left a version but not the one below it would leave a gap that hides it.
                    sync_versions([table])
                attempt.fence.check()
                failpoints.hit(Point.TABLE_BEFORE_COMMIT)
                table = commit_staged(table, step)
                committed.append(table)
                failpoints.hit_step(attempt.kind, WriteStep.TABLE_COMMITTED)
        sync_versions(committed)
    except HeadMoved as error:
        if not committed and error.actual is None:
            delete_sidecar(graph, sidecar.operation_id)
        raise


def _visible_after_all(attempt: WriteAttempt, sidecar: Sidecar, error: OmnigraphError) -> Commit:
    """The commit of a write that failed, if the history has it; otherwise the error is passed on, and is final.

    The answer of the store may have been lost, or another process, which took our lease, completes the write. So the
    sidecar is marked first: once it says that the write failed, or is gone, what the history has will not change.
    """
    try:
        _await_settlement(attempt)
    except StorageError as problem:
        # Whoever undoes the write later marks it then; until that, others may complete it.
        _logger.warning("write %s could not be marked as failed: %s", attempt.operation_id, problem)
    visible = commit_since(attempt.log, attempt.operation_id, sidecar.manifest_version)
    if visible is None:
        raise error
    attempt.log.keep(visible.manifest)
    return visible


def _await_settlement(attempt: WriteAttempt) -> None:
    """Returns when nobody can complete a write any more; raises `OutcomeUnknown` when somebody is still at it."""
    until = time.monotonic() + attempt.fence.patience
    while True:
        sidecar = doom_sidecar(attempt.base.location, attempt.operation_id)
        if sidecar is None or sidecar.doomed:
            return
        if time.monotonic() > until:
            raise OutcomeUnknown(attempt.operation_id)
        time.sleep(_LOOK_AGAIN_SECONDS)


def _stage_table(attempt: WriteAttempt, table: Table, change: TableChange) -> StagedTable:
    operation_id = attempt.operation_id
    carrying = attempt.base.table(change.table_key)
    if change.replaces_all:
        staged = stage_overwrite(table, change.rows, operation_id)
    elif isinstance(carrying, CarryingTable):
        staged = stage_with_carried(table, carrying, change, operation_id)
    elif not len(change.deleted) and len(change.strict) == change.rows.num_rows:
        staged = stage_append(table, change.rows, operation_id)
    else:
        staged = stage_change(table, rows=change.rows, deleted=change.deleted, operation=operation_id)
    folded = carrying.deltas[-1].commit_id if carrying.deltas else ""
    return StagedTable(table, staged, change.removes, folded=folded)


def _sidecar(
    attempt: WriteAttempt, parts: Mapping[str, StagedTable], relied_on: ReliedOn, manifest_version: int
) -> Sidecar:
    new = attempt.new_schema
    return Sidecar(
        operation_id=attempt.operation_id,
        undo_id=new_commit_id(),
        kind=attempt.kind,
        branch=attempt.branch,
        incarnation=attempt.log.incarnation,
        actor=attempt.actor,
        message=attempt.message,
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        manifest_version=manifest_version,
        unchanged=tuple(sorted(relied_on.unchanged)),
        intact=tuple(sorted(relied_on.intact)),
        if_commit=attempt.if_commit,
        merged_parent=attempt.merged_parent,
        batch=attempt.batch,
        batches=attempt.batches,
        applied=attempt.applied,
        queries=attempt.queries,
        schema_id=attempt.base.commit.schema_id,
        schema_change=None if new is None else new.change,
        is_commit=attempt.kind is not Writer.FOLD,
        tables=tuple(
            SidecarTable(
                table_key=key,
                path=_path(attempt.base.location, part.table),
                expected_version=part.read_version,
                version_after=part.staged.version_after,
                transaction_id=part.staged.transaction_id,
                removes=part.removes,
                keeps_content=part.keeps_content,
                folded=part.folded,
                renamed_to=None if new is None else new.renamed.get(key),
            )
            for key, part in parts.items()
        ),
    )
