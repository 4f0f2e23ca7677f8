"""Small writes: their rows are carried in the version of the manifest that publishes them, so no table is touched.

What is carried is folded into a table when it has grown beyond a bound, by the write that finds it so, and before
anything else changes the table through the four phases.
"""

from collections.abc import Collection, Mapping

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.api.history import Commit
from omnigraph.catalog import EntityType, table_schema
from omnigraph.compute_later import pc
from omnigraph.failpoints import WriteStep
from omnigraph.storage.carrying import CarryingTable, encode_rows, join_deltas
from omnigraph.storage.deltas import Delta
from omnigraph.storage.environment import CARRIED_BYTES, CARRIED_ROWS
from omnigraph.storage.staging import StagedWrite, stage_append, stage_change
from omnigraph.storage.tables import Table
from omnigraph.versioning import Publication, publish
from omnigraph.versioning.manifest import CarriedUpdate, Manifest, Pin
from omnigraph.write.attempt import WriteAttempt
from omnigraph.write.change import NO_IDS, ReliedOn, TableChange

_FEWEST_BYTES = 8 * 1024
"""A table may always carry this many bytes, however many tables carry some."""

_MOST_DELTAS = 32
"""More deltas of one table are joined: a batch of one row takes ten times the bytes of a row in a batch of many."""


def carried_publication(
    attempt: WriteAttempt, changes: Mapping[str, TableChange], relied_on: ReliedOn
) -> Publication | None:
    """What publishes a write whose rows the manifest carries; None if it is too large, or fills up a table."""
    if not CARRIED_ROWS or attempt.new_schema is not None:
        return None
    base = attempt.base.manifest
    tables = {*changes, *(key for key, pin in base.pins.items() if pin.carried)}
    most_bytes = max(_FEWEST_BYTES, CARRIED_BYTES // max(1, len(tables)))
    carried = {}
    for key, change in changes.items():
        count, size = _carried_size(base.pins[key])
        count += change.rows.num_rows + len(change.deleted)
        if change.replaces_all or _has_blobs(change.entity) or count > CARRIED_ROWS:
            return None
        table = attempt.base.table(key)
        delta = _delta(attempt, change, table.schema)
        if size + delta.size > most_bytes:
            return None
        carried[key] = CarriedUpdate(delta=delta, joined=_joined_deltas(base, key, table), removes=bool(delta.deleted))
    attempt.allowed(attempt.base, carried)
    return Publication(
        commit_id=attempt.operation_id,
        based_on=base.version,
        carried=carried,
        unchanged={*carried, *relied_on.unchanged},
        intact=relied_on.intact,
        schema_id=attempt.base.commit.schema_id,
        branch=attempt.branch,
        actor=attempt.actor,
        message=attempt.message,
        if_commit=attempt.if_commit,
        merged_parent=attempt.merged_parent,
        batches=attempt.batches,
        queries=attempt.queries,
        is_reserved=attempt.is_reserved,
    )


def _delta(attempt: WriteAttempt, change: TableChange, schema: pa.Schema) -> Delta:
    replaced = NO_IDS
    if len(change.strict) < change.rows.num_rows:
        replaced = change.row_ids.filter(pc.invert(pc.is_in(change.row_ids, value_set=change.strict)))
    return Delta(
        commit_id=attempt.operation_id,
        rows=encode_rows(change.rows, schema),
        count=change.rows.num_rows,
        replaced=tuple(replaced.to_pylist()),
        deleted=tuple(change.deleted.to_pylist()),
    )


def _joined_deltas(base: Manifest, key: str, table: Table) -> Delta | None:
    """What is carried for a table as one delta, if it is many.

    Those of commits that are about to be published together with this one stay alone: each is a state of its own.
    """
    deltas = base.pins[key].carried
    if len(deltas) < _MOST_DELTAS:
        return None
    own: Collection[str] = {each.graph_commit_id for each in base.own_commits}
    written = tuple(each for each in deltas if each.commit_id not in own)
    return join_deltas(table.plain, written) if len(written) >= _MOST_DELTAS else None


def _has_blobs(entity: EntityType) -> bool:
    return any(field.metadata for field in table_schema(entity))


def _carried_size(pin: Pin) -> tuple[int, int]:
    """How many rows and ids are carried for a table, and their bytes."""
    count = size = 0
    for each in pin.carried:
        count += each.count + len(each.deleted)
        size += each.size
    return count, size


def write_carried(attempt: WriteAttempt, publication: Publication) -> Commit:
    """Publishes a write with what the manifest carries of it. There is nothing that a crash could leave half done."""
    failpoints.hit_step(attempt.kind, WriteStep.BEFORE_PHASE_A)
    attempt.fence.check()
    commit = publish(attempt.log, publication).commit
    failpoints.hit_step(attempt.kind, WriteStep.AFTER_PHASE_C)
    return commit


def stage_with_carried(
    table: Table, carrying: CarryingTable, change: TableChange | None, operation: str
) -> StagedWrite:
    """What is carried on top of a table, and a change after it, as one transaction of the table."""
    rows, gone = carrying.rows, pc.filter(carrying.touched_ids, _is_gone(carrying))
    if change is not None:
        rows = rows.filter(pc.invert(pc.is_in(rows["id"], value_set=change.touched_ids)))
        rows = pa.concat_tables([rows, change.rows.select(rows.column_names).cast(rows.schema)])
        gone = pa.concat_arrays([gone.filter(pc.invert(pc.is_in(gone, value_set=change.row_ids))), change.deleted])
    replaces = change is not None and len(change.strict) < change.rows.num_rows
    if not len(gone) and not len(carrying.mask) and not replaces:
        return stage_append(table, rows, operation)
    return stage_change(table, rows=rows, deleted=pc.unique(gone), operation=operation)


def _is_gone(carrying: CarryingTable) -> pa.Array:
    return pa.array([offset < 0 for offset in carrying.offsets.values()], pa.bool_())
