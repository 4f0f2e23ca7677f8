"""Repairs drift: makes versions of tables visible that storage has and no commit made, if they may be.

A table drifts when something other than OmniGraph commits to it. Nothing is rewritten for that: the newest version that
is there becomes the one that the graph sees, or nothing happens. There is one publish, and nothing is committed before
it, so there is nothing that a crash could leave half done.

A table also drifts when a write of OmniGraph is stopped for so long that it fails, and its commit arrives afterwards.
That is never published: the version that the graph sees becomes the newest again, behind a sidecar like any undoing.
"""

from collections.abc import Mapping
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.api.history import Commit
from omnigraph.api.upkeep import Classification, RepairAction, RepairResult, TableRepair
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import (
    NotDurable,
    OmnigraphError,
    RecoveryFailed,
    RecoveryPending,
    SchemaChanged,
    StorageError,
)
from omnigraph.failpoints import Point
from omnigraph.recovery.audit import Recoveries, operation_of
from omnigraph.recovery.remnants import undo_versions
from omnigraph.storage.carrying import join_deltas
from omnigraph.storage.differences import RowSample, difference_samples
from omnigraph.storage.drift import Drift, drift_after, sync_drift
from omnigraph.storage.location import Location
from omnigraph.storage.tables import open_table
from omnigraph.versioning import ManifestLog, Pin, Publication, commit_since, new_commit_id, publish
from omnigraph.versioning.manifest import TableUpdate
from omnigraph.versioning.names import check_actor
from omnigraph.write import WriteFence
from omnigraph.write.forks import is_own

_MAINTENANCE = frozenset({"ReserveFragments", "Rewrite"})
"""Operations that rearrange rows and change none. An index changes which rows a search finds."""


_MOST_IDS = 20
"""How many ids of rows that differ are listed for each table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOrder:
    """What is asked for. `confirm` publishes what is verified and undoes what failed, `force` with it also the rest."""

    confirm: bool = False
    force: bool = False
    actor: str | None = None


def repair(graph: Location, log: ManifestLog, request: RepairOrder) -> RepairResult:
    """Says what has drifted; with `confirm`, publishes what may be published, as one commit, and undoes what failed."""
    if not request.confirm:
        return RepairResult(tuple(_inspect_tables(graph, log, force=False).values()))
    check_actor(request.actor)
    with WriteFence(graph, log.branch, "repair") as fence:
        tables = log.head().pins.keys()
        fence.take(tables)
        log.check_exists()
        if log.head().pins.keys() != tables:
            raise SchemaChanged(log.branch)
        found = _inspect_tables(graph, log, force=request.force)
        chosen = {key: each for key, each in found.items() if each.action is RepairAction.PUBLISH}
        commit = _publish(graph, log, chosen, request) if chosen else None
        for key, each in found.items():
            if each.action is RepairAction.UNDO:
                undo_versions(graph, log, fence, key)
    done = {
        RepairAction.PUBLISH: RepairAction.PUBLISHED,
        RepairAction.UNDO: RepairAction.UNDONE,
        RepairAction.REFUSE: RepairAction.REFUSED,
    }
    return RepairResult(
        tuple(replace(each, action=done.get(each.action, each.action)) for each in found.values()), commit
    )


def _inspect_tables(graph: Location, log: ManifestLog, *, force: bool) -> dict[str, TableRepair]:
    """Every table of a branch, judged. Right without a lock too, because of the order of the reads.

    A writer announces itself, commits, publishes, and takes its announcement back. So a version that is seen, and that
    neither an announcement read after it nor a manifest read after that explains, is drift. A table that has another
    pin by then has just been written, on top of all that was there.
    """
    before = log.head().pins
    drifts = {
        key: drift_after(graph.child(pin.path), pin.version) for key, pin in before.items() if is_own(log, pin.path)
    }
    if unsettled := unsettled_operations(graph, log):
        raise RecoveryPending(unsettled)
    found = {}
    for key, pin in sorted(log.head().pins.items()):
        drift = drifts.get(key) if pin == before.get(key) else None
        found[key] = _judge_table(graph, key, pin, drift or Drift(pin.version), force=force)
    return found


def unsettled_operations(graph: Location, log: ManifestLog) -> list[str]:
    """The writes of a branch that are announced: at work, or ended in the middle; and those that cannot be read."""
    return [
        operation_of(each)
        for each in Recoveries(graph).pending()
        if isinstance(each, RecoveryFailed) or (each.branch, each.incarnation) == (log.branch, log.incarnation)
    ]


def _judge_table(graph: Location, key: str, pin: Pin, drift: Drift, *, force: bool) -> TableRepair:
    nothing = RowSample()
    sight = _sight(graph, pin, drift) if drift.head != pin.version else _Sight(rows=(nothing, nothing, nothing))
    removed, added, changed = sight.rows or (nothing, nothing, nothing)
    classification = classify_drift(pin.version, drift, sight.doubt)
    return TableRepair(
        table_key=key,
        classification=classification,
        action=_action(classification, drift, sight, force=force),
        manifest_version=pin.version,
        lance_head_version=drift.head,
        operations=drift.operations,
        error="; ".join(filter(None, (drift.problem, sight.doubt, sight.obstacle))) or None,
        removed=removed.count if sight.rows else None,
        added=added.count if sight.rows else None,
        changed=changed.count if sight.rows else None,
        removed_ids=removed.ids,
        added_ids=added.ids,
        changed_ids=changed.ids,
    )


def _action(classification: Classification, drift: Drift, sight: "_Sight", *, force: bool) -> RepairAction:
    """What to do with a table. Versions of a failed write are undone or left, and never published."""
    match classification:
        case Classification.NO_DRIFT:
            return RepairAction.NONE
        case Classification.VERIFIED_MAINTENANCE:
            return RepairAction.PUBLISH
        case Classification.FAILED_WRITE:
            return RepairAction.UNDO
        case _ if force and _failed_writes(drift) and not sight.is_pin_gone:
            return RepairAction.UNDO
        case _:
            return RepairAction.PUBLISH if force and sight.obstacle is None else RepairAction.REFUSE


def classify_drift(pinned: int, drift: Drift, doubt: str | None) -> Classification:
    """Classifies all versions after the pinned one.

    Operations that are no more than maintenance are believed only if there is no doubt about what they left. Beside
    those of a failed write they are nothing to keep.
    """
    if drift.head == pinned:
        return Classification.NO_DRIFT
    if drift.head < pinned:
        return Classification.UNVERIFIABLE
    others = [name for name, owner in zip(drift.operations, drift.owners, strict=True) if owner is None]
    if _failed_writes(drift) and _MAINTENANCE.issuperset(others) and drift.is_known_where_listed:
        return Classification.FAILED_WRITE
    if drift.problem is not None:
        return Classification.UNVERIFIABLE
    if doubt is None and _MAINTENANCE.issuperset(drift.operations) and not _failed_writes(drift):
        return Classification.VERIFIED_MAINTENANCE
    return Classification.SUSPICIOUS


def _failed_writes(drift: Drift) -> list[str]:
    """The writes of OmniGraph that made some of the versions; none of them is announced, so all have failed."""
    return sorted({owner for owner in drift.owners if owner is not None})


@dataclass(frozen=True, slots=True)
class _Sight:
    """What the newest version itself shows: its rows, a reason not to believe its operations, one never to publish."""

    doubt: str | None = None
    obstacle: str | None = None
    rows: tuple[RowSample, RowSample, RowSample] | None = None
    """The rows that were removed, added and changed since the version that the graph sees, if that is known."""
    is_pin_gone: bool = False


def _sight(graph: Location, pin: Pin, drift: Drift) -> _Sight:
    """Looks at the newest version of a table, and at the rows in which it differs from the one that the graph sees."""
    if drift.head < pin.version:
        gone = "the version that the graph uses is missing, and only older ones are left"
        return _Sight(obstacle=gone, is_pin_gone=True)
    obstacle = None
    if failed := _failed_writes(drift):
        obstacle = f"it has versions of writes that failed ({', '.join(failed)}), which are undone and never published"
    location = graph.child(pin.path)
    try:
        newest = open_table(location, drift.head)
    except StorageError as error:
        return _Sight(obstacle=_both(obstacle, error.problem))
    try:
        pinned = open_table(location, pin.version)
    except StorageError:
        gone = "the version that the graph uses is missing"
        return _Sight(doubt=gone, obstacle=obstacle, is_pin_gone=True)
    if not newest.schema.equals(pinned.schema):
        return _Sight("its columns changed", _both(obstacle, "they do not fit the schema of the graph"))
    before, after = pinned.count(), newest.count()
    doubt = None if before == after else f"it has {after} rows, and had {before}"
    try:
        found = difference_samples(pinned, newest, _MOST_IDS)
    except StorageError as error:
        return _Sight(doubt, _both(obstacle, f"its rows cannot be compared: {error.problem}"))
    return _Sight(doubt, obstacle, (found.deleted, found.inserted, found.updated))


def _both(first: str | None, second: str) -> str:
    return second if first is None else f"{first}; {second}"


def _publish(graph: Location, log: ManifestLog, chosen: Mapping[str, TableRepair], request: RepairOrder) -> Commit:
    """Makes the newest versions of these tables visible. The caller holds their locks.

    Where it is not certain that rows were only rearranged, some may be gone; so writes that rely on them must fail.
    There, rows may also have come with ids that the manifest carries too: the carried rows stay, and hide those.
    """
    head = log.head()
    tables = {}
    for key, each in chosen.items():
        pin = head.pins[key]
        location = graph.child(pin.path)
        sync_drift(location)
        intact = each.classification is Classification.VERIFIED_MAINTENANCE
        joined = None
        if pin.carried and not intact:
            joined = join_deltas(open_table(location, each.lance_head_version), pin.carried)
        tables[key] = TableUpdate(
            path=pin.path, version=each.lance_head_version, removes=not intact, keeps_content=intact, joined=joined
        )
    publication = Publication(
        commit_id=new_commit_id(),
        based_on=head.version,
        tables=tables,
        places={key: each.manifest_version for key, each in chosen.items()},
        unchanged=[key for key, each in tables.items() if not each.keeps_content],
        branch=log.branch,
        actor=request.actor,
        message="repair",
    )
    failpoints.hit(Point.REPAIR_BEFORE_PUBLISH)
    try:
        commit = publish(log, publication).commit
    except NotDurable:
        raise
    except OmnigraphError:
        # The answer of the store may have been lost.
        visible = commit_since(log, publication.commit_id, head.version)
        if visible is None:
            raise
        commit = visible
    failpoints.hit(Point.REPAIR_AFTER_PUBLISH)
    return commit
