"""Applies a decision: publishes what is missing, or restores and publishes, then records it and ends the sidecar.

Any step may be the last one that a process does. Whoever comes next observes again, and goes on from there.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.api.upkeep import Recovery, RecoveryKind, TableOutcome
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import InternalError
from omnigraph.failpoints import Point
from omnigraph.recovery.audit import record
from omnigraph.recovery.decide import RecoveryAction, RecoveryDecision
from omnigraph.recovery.observe import Observation, TableSighting, pinned_key
from omnigraph.storage.commits import restore, sync_versions
from omnigraph.storage.location import Location
from omnigraph.storage.tables import Table, open_table
from omnigraph.versioning import ManifestLog, Publication, new_commit_id, publish
from omnigraph.versioning.file_checksums import check_pinned_version
from omnigraph.versioning.manifest import TableUpdate
from omnigraph.versioning.schemas import settle_schema_files
from omnigraph.write.fence import WriteFence
from omnigraph.write.sidecar import Sidecar, delete_sidecar

RECOVERY_ACTOR = "omnigraph:recovery"


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A write that did not finish: its sidecar, the branch that it was on, and the locks of whoever settles it."""

    graph: Location
    log: ManifestLog
    sidecar: Sidecar
    fence: WriteFence


def apply(unfinished: Unfinished, seen: Observation, decision: RecoveryDecision) -> Recovery:
    """Brings a sidecar to its end. That the locks of all its tables are still held is checked before each effect."""
    graph, log, sidecar, fence = unfinished.graph, unfinished.log, unfinished.sidecar, unfinished.fence
    match decision.action:
        case RecoveryAction.RECORD_FORWARD | RecoveryAction.RECORD_BACK:
            # The commit is visible, but whoever made it may have died before it was on the disk.
            for commit in (seen.published, seen.undone):
                if commit is not None:
                    log.keep(commit.manifest if sidecar.is_commit else log.head().version)
        case RecoveryAction.ROLL_FORWARD:
            sync_versions(open_table(graph.child(each.path), each.version_after) for each in sidecar.tables)
            fence.check()
            failpoints.hit(Point.RECOVERY_BEFORE_PUBLISH)
            message = f"completed {_description(sidecar)}"
            publish(log, sidecar.publication(actor=RECOVERY_ACTOR, message=message))
        case RecoveryAction.ROLL_BACK:
            _roll_back(unfinished, seen, decision)
    failpoints.hit(Point.RECOVERY_AFTER_PUBLISH)
    if sidecar.schema_change is not None and sidecar.branch == MAIN:
        settle_schema_files(graph, log.head().commit.schema_id)
    return _end(graph, sidecar, fence, _recovery(sidecar, seen.tables, decision))


def abandon(graph: Location, sidecar: Sidecar, fence: WriteFence, *, was_visible: bool) -> Recovery:
    """Ends a sidecar whose branch was deleted, and with it everything that the write had done."""
    action = RecoveryAction.RECORD_FORWARD if was_visible else RecoveryAction.ROLL_BACK
    return _end(graph, sidecar, fence, _recovery(sidecar, (), RecoveryDecision(action, {})))


def _end(graph: Location, sidecar: Sidecar, fence: WriteFence, recovery: Recovery) -> Recovery:
    """Writes down what became of a write, and then ends its sidecar."""
    fence.check()
    record(graph, recovery)
    failpoints.hit(Point.RECOVERY_AFTER_AUDIT)
    fence.check()
    delete_sidecar(graph, sidecar.operation_id)
    return recovery


def _roll_back(unfinished: Unfinished, seen: Observation, decision: RecoveryDecision) -> None:
    """Restores what moved, and pins the restored versions: after this, the newest version of each table is the pin.

    A write that was undone already, and of which a late commit came since, gets one more commit that undoes it.
    """
    graph, log, sidecar, fence = unfinished.graph, unfinished.log, unfinished.sidecar, unfinished.fence
    head = log.head()
    restored: dict[str, Table] = {}
    for table in decision.restore:
        fence.check()
        failpoints.hit(Point.RECOVERY_BEFORE_RESTORE)
        key = pinned_key(head, table)
        if key is None:
            raise InternalError("only what the graph sees is restored")
        check_pinned_version(graph, head.pins[key])
        restored[key] = restore(graph.child(table.path), head=table.head, version=table.pin, operation=sidecar.undo_id)
        failpoints.hit(Point.RECOVERY_TABLE_RESTORED)
    sync_versions(restored.values())
    fence.check()
    failpoints.hit(Point.RECOVERY_BEFORE_PUBLISH)
    publication = Publication(
        commit_id=sidecar.undo_id if seen.undone is None else new_commit_id(),
        based_on=head.version,
        tables={
            key: TableUpdate(
                path=table.location.uri.removeprefix(f"{graph.uri}/"), version=table.version, keeps_content=True
            )
            for key, table in restored.items()
        },
        places={key: head.pins[key].version for key in restored},
        branch=sidecar.branch,
        actor=RECOVERY_ACTOR,
        message=f"undid {_description(sidecar)}",
        rival_id=sidecar.operation_id,
        since=sidecar.manifest_version,
        is_commit=sidecar.is_commit,
        releases=(sidecar.operation_id,),
    )
    if restored or sidecar.is_commit:
        publish(log, publication)


def _description(sidecar: Sidecar) -> str:
    words = f"{sidecar.kind} {sidecar.operation_id}"
    return f"{words} ({sidecar.message})" if sidecar.message else words


def _recovery(sidecar: Sidecar, tables: Iterable[TableSighting], decision: RecoveryDecision) -> Recovery:
    forward = decision.action in (RecoveryAction.ROLL_FORWARD, RecoveryAction.RECORD_FORWARD)
    return Recovery(
        operation_id=sidecar.operation_id,
        graph_commit_id=sidecar.operation_id if forward else sidecar.undo_id,
        recovery_kind=RecoveryKind.ROLLED_FORWARD if forward else RecoveryKind.ROLLED_BACK,
        recovery_for_actor=sidecar.actor,
        writer_kind=sidecar.kind,
        branch=sidecar.branch,
        started_at=sidecar.started_at,
        recovered_at=datetime.now(UTC),
        outcomes=tuple(
            TableOutcome(
                table_key=table.table_key,
                state=decision.states[table.table_key],
                from_version=table.head,
                to_version=table.after if forward else table.pin,
            )
            for table in tables
        ),
    )
