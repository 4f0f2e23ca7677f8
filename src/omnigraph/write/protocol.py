"""How a validated change becomes visible: staged, then committed in four phases.

A writes the sidecar, B commits each table, C publishes the manifest, D deletes the sidecar. Until C nothing is visible;
with C everything is. The letters mean this everywhere and nothing else.
"""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from omnigraph.catalog import EdgeType, NodeType
from omnigraph.errors import HeadMoved, OmnigraphError, RecoveryRequired, StorageError
from omnigraph.storage import (
    StagedWrite,
    Table,
    commit_staged,
    has_version,
    stage_append,
    stage_change,
    stage_overwrite,
)
from omnigraph.versioning import Commit, ManifestLog, Pin, Publication, new_commit_id, publish
from omnigraph.versioning.publisher import check_expectations
from omnigraph.write.attempt import WriteAttempt
from omnigraph.write.change import TableChange
from omnigraph.write.queues import write_queues
from omnigraph.write.sidecar import Sidecar, SidecarTable, delete_sidecar, write_sidecar

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagedTable:
    """One table's part of a write: the table as it was read, and the change that is staged on it."""

    table: Table
    staged: StagedWrite
    removes: bool = False


def write_changes(attempt: WriteAttempt, changes: Mapping[str, TableChange], log: ManifestLog) -> Commit:
    """Writes a validated change of one or more tables as one commit."""
    operation_id = new_commit_id()
    touched = {key: change for key, change in changes.items() if not change.is_empty}
    parts = {key: _staged(attempt, change, operation_id) for key, change in touched.items()}
    return write_staged(attempt, operation_id, parts, log, relied_on=_relied_on(attempt, touched))


@dataclass(frozen=True, slots=True)
class ReliedOn:
    """Tables that a write does not change and that must not change under it: at all, or by losing rows."""

    unchanged: Collection[str] = ()
    intact: Collection[str] = ()


NOTHING_ELSE = ReliedOn()


def _relied_on(attempt: WriteAttempt, changes: Mapping[str, TableChange]) -> ReliedOn:
    """What validation looked at: new edges need their nodes to stay, and nodes that go need that no edge has come."""
    catalog = attempt.catalog
    unchanged: set[str] = set()
    intact: set[str] = set()
    for change in changes.values():
        entity = change.entity
        if isinstance(entity, EdgeType) and change.rows.num_rows:
            intact |= {catalog.nodes[end].table_key for end in (entity.source, entity.destination)}
        elif isinstance(entity, NodeType) and change.removes:
            unchanged |= {edge.table_key for edge in catalog.edges_touching(entity.name)}
    return ReliedOn(unchanged, intact)


def write_staged(
    attempt: WriteAttempt,
    operation_id: str,
    parts: Mapping[str, StagedTable],
    log: ManifestLog,
    *,
    relied_on: ReliedOn = NOTHING_ELSE,
) -> Commit:
    """Makes staged parts visible together, through the four phases. Every writer comes through here."""
    pins = attempt.base.manifest.pins
    publication = Publication(
        commit_id=operation_id,
        pins={key: _pin_after(pins[key], part) for key, part in parts.items()},
        expected=attempt.versions({*parts, *relied_on.unchanged}),
        intact=attempt.versions(relied_on.intact),
        branch=attempt.branch,
        actor=attempt.actor,
        message=attempt.message,
        if_commit=attempt.if_commit,
    )
    graph = attempt.base.location
    with write_queues(graph.uri, attempt.branch, parts):
        check_expectations(log.head(), publication)
        _check_heads(parts)
        write_sidecar(graph, _sidecar(attempt, operation_id, parts))
        _commit_tables(attempt, operation_id, parts)
        manifest = publish(log, publication)
        try:
            delete_sidecar(graph, operation_id)
        except (OSError, StorageError) as error:
            # The write is visible; recovery will find that there is nothing left to do for this sidecar.
            _logger.warning("the sidecar of %s could not be deleted: %s", operation_id, error)
    return manifest.commit


def _pin_after(pin: Pin, part: StagedTable) -> Pin:
    version = part.staged.version_after
    return Pin(pin.path, version, version if part.removes else pin.removed_at)


def _check_heads(parts: Mapping[str, StagedTable]) -> None:
    """Refuses to write on top of what another writer left unfinished; a commit there would mix the two."""
    for key, part in parts.items():
        if has_version(part.table.location, part.staged.version_after):
            raise RecoveryRequired(key, part.staged.read_version)


def _staged(attempt: WriteAttempt, change: TableChange, operation_id: str) -> StagedTable:
    table = attempt.base.table(change.table_key)
    if change.replaces_all:
        staged = stage_overwrite(table, change.rows, operation_id)
    elif not len(change.deleted) and len(change.strict) == change.rows.num_rows:
        staged = stage_append(table, change.rows, operation_id)
    else:
        staged = stage_change(table, rows=change.rows, deleted=change.deleted, operation=operation_id)
    return StagedTable(table, staged, change.removes)


def _commit_tables(attempt: WriteAttempt, operation_id: str, parts: Mapping[str, StagedTable]) -> None:
    """Phase B. When the very first table refuses, nothing has happened, and the sidecar goes."""
    for number, part in enumerate(parts.values()):
        try:
            commit_staged(part.table, part.staged)
        except HeadMoved as error:
            if number == 0 and error.actual is None:
                delete_sidecar(attempt.base.location, operation_id)
            raise
        except OmnigraphError:
            raise
        except OSError as error:
            raise StorageError(part.table.location.uri, f"commit failed: {error}") from error


def _sidecar(attempt: WriteAttempt, operation_id: str, parts: Mapping[str, StagedTable]) -> Sidecar:
    return Sidecar(
        operation_id=operation_id,
        kind=attempt.kind,
        branch=attempt.branch,
        actor=attempt.actor,
        message=attempt.message,
        tables=tuple(
            SidecarTable(
                table_key=key,
                path=attempt.base.manifest.pins[key].path,
                expected_version=part.staged.read_version,
                version_after=part.staged.version_after,
                transaction_id=part.staged.transaction_id,
            )
            for key, part in parts.items()
        ),
    )
