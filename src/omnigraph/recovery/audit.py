"""The audit: what became of each write whose sidecar recovery settled, in a Lance dataset of its own.

Rows are only ever added. A write has one row, or several if attempts to settle it ended differently; the last that was
added says how it ended.
"""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC
from typing import Any

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.api.upkeep import Recovery, RecoveryKind, TableOutcome
from omnigraph.errors import Damaged, StorageError
from omnigraph.failpoints import Point
from omnigraph.storage import Location, append_row, has_version, listed_versions, open_table
from omnigraph.storage.tables import NO_TABLE, version_file
from omnigraph.write.sidecar import pending_operations

AUDIT_FOLDER = "_graph_commit_recoveries"

_OUTCOME = pa.struct(
    [
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("state", pa.string(), nullable=False),
        pa.field("from_version", pa.uint64(), nullable=False),
        pa.field("to_version", pa.uint64(), nullable=False),
    ]
)
_SCHEMA = pa.schema(
    [
        pa.field("operation_id", pa.string(), nullable=False),
        pa.field("graph_commit_id", pa.string(), nullable=False),
        pa.field("recovery_kind", pa.string(), nullable=False),
        pa.field("recovery_for_actor", pa.string()),
        pa.field("writer_kind", pa.string(), nullable=False),
        pa.field("branch", pa.string(), nullable=False),
        pa.field("started_at", pa.string(), nullable=False),
        pa.field("recovered_at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("outcomes", pa.list_(_OUTCOME), nullable=False),
    ]
)


def record(graph: Location, recovery: Recovery) -> None:
    """Records a recovery, unless the last row of its write says the same. The caller holds the locks of the sidecar."""
    failpoints.hit(Point.RECOVERY_RECORD_AUDIT)
    last = _last_rows(graph).get(recovery.operation_id)
    if last is not None and last.recovery_kind is recovery.recovery_kind:
        return
    row = pa.Table.from_pylist([asdict(recovery)], schema=_SCHEMA)
    append_row(graph.child(AUDIT_FOLDER), row, recovery.operation_id)


def recoveries(graph: Location) -> list[Recovery]:
    """What became of each write that was settled, oldest first.

    A sidecar goes after its row is there. So without one, the newest version was whole, and is damaged if it is not.
    """
    location = graph.child(AUDIT_FOLDER)
    newest = next(iter(listed_versions(location)), None)
    if newest is not None and not has_version(location, newest) and not pending_operations(graph):
        problem = f"version {newest} of the table of recoveries is damaged; restore it from a backup"
        raise Damaged(location.child(version_file(newest)).uri, problem)
    return sorted(_last_rows(graph).values(), key=lambda each: each.recovered_at)


def _last_rows(graph: Location) -> dict[str, Recovery]:
    """The last row of each write. The order is that of the table: the clocks of those who settled it may disagree."""
    try:
        table = open_table(graph.child(AUDIT_FOLDER))
    except StorageError as error:
        if error.problem != NO_TABLE:
            raise
        return {}
    found = map(_recovery, table.scan().to_pylist())
    return {each.operation_id: each for each in found}


def _recovery(row: Mapping[str, Any]) -> Recovery:
    return Recovery(
        **{
            **row,
            "recovery_kind": RecoveryKind(row["recovery_kind"]),
            "recovered_at": row["recovered_at"].astimezone(UTC),
            "outcomes": tuple(TableOutcome(**outcome) for outcome in row["outcomes"]),
        }
    )
