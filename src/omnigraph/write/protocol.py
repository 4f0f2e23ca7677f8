"""How a validated change becomes visible: staged, then committed in four phases.

A writes the sidecar, B commits each table, C publishes the manifest, D deletes the sidecar. Until C nothing is visible;
with C everything is. The letters mean this everywhere and nothing else. A write that changes the schema of `main`
stages its files at the end of B, and makes them the accepted ones after C.
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.api.history import Commit
from omnigraph.catalog import Catalog, EdgeType, EntityType, NodeType
from omnigraph.errors import HeadMoved, NotDurable, OmnigraphError, OutcomeUnknown, RecoveryRequired, StorageError
from omnigraph.failpoints import Point, WriteStep
from omnigraph.storage.commits import commit_staged, sync_staged, sync_versions
from omnigraph.storage.location import Location
from omnigraph.storage.staging import stage_append, stage_change, stage_overwrite
from omnigraph.storage.tables import Table, newest_version
from omnigraph.storage.upkeep import upkeep_after
from omnigraph.versioning import Pin, commit_since, new_commit_id, publish
from omnigraph.versioning.file_checksums import check_pinned_version
from omnigraph.versioning.publisher import check_expectations
from omnigraph.versioning.schemas import settle_schema_files, stage_schema_files
from omnigraph.write.attempt import WriteAttempt
from omnigraph.write.brought import BroughtChecksums
from omnigraph.write.change import StagedTable, TableChange
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
    """Writes a validated change of one or more tables as one commit, if those in `unchanged` are as they were."""
    touched = {key: change for key, change in changes.items() if not change.is_empty}
    tables = tables_to_write(attempt, touched)
    parts = {}
    for key, change in touched.items():
        parts[key] = _stage_table(attempt, tables[key], change)
        report_staged_table(attempt)
    brought = [change.entity for change in touched.values() if change.rows.num_rows]
    reduced = [change.entity for change in touched.values() if change.removes]
    needed = relied_on(attempt.catalog, brought=brought, reduced=reduced)
    return write_staged(attempt, parts, relied_on=replace(needed, unchanged={*needed.unchanged, *unchanged}))


def tables_to_write(attempt: WriteAttempt, table_keys: Iterable[str]) -> dict[str, Table]:
    """The tables as the branch writes them: those that it has not written before are forked for it.

    Nobody else may fork them meanwhile, so their locks are taken first. Without a fork they are not needed so early.
    """
    keys = [*table_keys]
    pins = attempt.base.manifest.pins
    shared = {key for key in keys if not is_own(attempt.log, pins[key].path)}
    if shared:
        attempt.fence.take(keys)
        attempt.log.check_exists()
    return {
        key: fork_table(attempt.base, attempt.log, key) if key in shared else attempt.base.table(key) for key in keys
    }


def report_staged_table(attempt: WriteAttempt) -> None:
    """Every writer says so when the files of one more table are written."""
    failpoints.hit_step(attempt.kind, WriteStep.TABLE_STAGED)


@dataclass(frozen=True, slots=True)
class ReliedOn:
    """Tables that a write does not change and that must not change under it: at all, or by losing rows."""

    unchanged: Collection[str] = ()
    intact: Collection[str] = ()


NOTHING_ELSE = ReliedOn()


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
    head = log.head()
    sidecar = _sidecar(attempt, parts, relied_on, head.version)
    publication = sidecar.publication(actor=attempt.actor, message=attempt.message)
    check_expectations(head, publication)
    if not parts and attempt.new_schema is None:
        # Nothing is committed before the publish, so there is nothing that a crash could leave half done.
        return publish(log, publication).commit
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


def _pin_after(graph: Location, pin: Pin, part: StagedTable) -> Pin:
    """The pin of a written table, which for a fork leads to another place than before."""
    version = part.staged.version_after
    return Pin(_path(graph, part.table), version, version if part.removes else pin.removed_at)


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
    attempt.log.keep(visible.manifest_version)
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
    if change.replaces_all:
        staged = stage_overwrite(table, change.rows, operation_id)
    elif not len(change.deleted) and len(change.strict) == change.rows.num_rows:
        staged = stage_append(table, change.rows, operation_id)
    else:
        staged = stage_change(table, rows=change.rows, deleted=change.deleted, operation=operation_id)
    return StagedTable(table, staged, change.removes)


def _sidecar(
    attempt: WriteAttempt, parts: Mapping[str, StagedTable], relied_on: ReliedOn, manifest_version: int
) -> Sidecar:
    pins = attempt.base.manifest.pins
    after = {key: _pin_after(attempt.base.location, pins[key], part) for key, part in parts.items()}
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
        unchanged=attempt.versions(relied_on.unchanged),
        intact=attempt.versions(relied_on.intact),
        if_commit=attempt.if_commit,
        merged_parent=attempt.merged_parent,
        schema_id=attempt.base.commit.schema_id,
        schema_change=None if new is None else new.change,
        tables=tuple(
            SidecarTable(
                table_key=key,
                path=after[key].path,
                expected_version=part.read_version,
                version_after=part.staged.version_after,
                removed_at=after[key].removed_at,
                transaction_id=part.staged.transaction_id,
                renamed_to=None if new is None else new.renamed.get(key),
            )
            for key, part in parts.items()
        ),
    )
