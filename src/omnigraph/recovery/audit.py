"""The audit: what became of each write whose sidecar recovery settled, in a Lance dataset of its own.

Rows are only ever added. A write has one row, or several if attempts to settle it ended differently; the last that was
added says how it ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC
from typing import Any, Protocol

import pyarrow as pa

from omnigraph import failpoints
from omnigraph.api.upkeep import Recovery, RecoveryKind, TableOutcome
from omnigraph.errors import Damaged, NotFound, RecoveryFailed, StorageError
from omnigraph.failpoints import Point
from omnigraph.storage.commits import append_row
from omnigraph.storage.location import Location
from omnigraph.storage.tables import NO_TABLE, has_version, listed_versions, open_table, version_file, written_values
from omnigraph.write.sidecar import Sidecar, pending_operations, read_sidecar

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
    check_newest_version(graph)
    last = _last_rows(graph).get(recovery.operation_id)
    if last is not None and last.recovery_kind is recovery.recovery_kind:
        return
    row = pa.Table.from_pylist([asdict(recovery)], schema=_SCHEMA)
    append_row(graph.child(AUDIT_FOLDER), row, recovery.operation_id)


def recoveries(graph: Location) -> list[Recovery]:
    """What became of each write that was settled, oldest first."""
    check_newest_version(graph)
    return sorted(_last_rows(graph).values(), key=lambda each: each.recovered_at)


def check_newest_version(graph: Location) -> None:
    """Raises `Damaged` if the newest version of the table of recoveries is damaged, or its only version is missing.

    A version that is not whole was damaged, or a power cut left it torn. The sidecar of a write goes after its row is
    in a version, and the files of a row are on the disk before that. So if a file has the row of a write without a
    sidecar, a version had that row. If no whole version has it, the newest version is damaged. Otherwise, it is torn.
    """
    location = graph.child(AUDIT_FOLDER)
    newest = next(iter(listed_versions(location)), None)
    if newest is not None and has_version(location, newest):
        return
    pending = {*pending_operations(graph)}
    # Without any version, a power cut may have left a file of the first row torn. A version has only whole files.
    settled = written_values(location, "operation_id", skip_unreadable=newest is None) - pending
    if settled - _last_rows(graph).keys() or (newest is not None and not pending):
        what = "every version" if newest is None else f"version {newest}"
        problem = f"{what} of the table of recoveries is {'missing' if newest is None else 'damaged'}"
        raise Damaged(location.child(version_file(newest or 1)).uri, f"{problem}; restore it from a backup")


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


class Recoveries:
    """The recoveries of a graph, and what is left to recover. Only reads."""

    def __init__(self, graph: Location) -> None:
        self._graph = graph

    def pending(self) -> list[Sidecar | RecoveryFailed]:
        """The sidecars that are there, of writers at work too; one that cannot be understood is given as its error."""
        found: list[Sidecar | RecoveryFailed] = []
        for operation_id in pending_operations(self._graph):
            try:
                sidecar = read_sidecar(self._graph, operation_id)
            except RecoveryFailed as error:
                found.append(error)
            else:
                found += [sidecar] if sidecar is not None else []
        return found

    def show(self, id: str) -> Recovery:
        """One recovery, by the id of the write or of the commit that settled it."""
        for recovery in self.list():
            if id in (recovery.operation_id, recovery.graph_commit_id):
                return recovery
        raise NotFound("recovery", id)

    def list(self) -> list[Recovery]:
        """The writes that were completed or undone, newest first."""
        return recoveries(self._graph)[::-1]


def recoveries_json(pending: Sequence[Sidecar | RecoveryFailed], settled: Sequence[Recovery]) -> dict[str, Any]:
    """What is left to recover and what was recovered, as scripts read it."""
    return {"pending": [_pending_json(each) for each in pending], "recoveries": [each.as_json() for each in settled]}


class KnowsRecoveries(Protocol):
    """The recoveries of a graph, here or on a server."""

    def pending(self) -> Sequence[Sidecar | RecoveryFailed]: ...

    def show(self, id: str) -> Recovery: ...


def recovery_json(recoveries: KnowsRecoveries, id: str) -> dict[str, Any]:
    """One write, by its id or by that of the commit that settled it, as scripts read it: pending, or settled."""
    for each in recoveries.pending():
        if id == operation_of(each):
            return _pending_json(each)
    try:
        return recoveries.show(id).as_json()
    except NotFound as error:
        raise NotFound("sidecar or recovery", id) from error


def _pending_json(pending: Sidecar | RecoveryFailed) -> dict[str, Any]:
    if isinstance(pending, RecoveryFailed):
        return {"state": "unreadable", "operation_id": operation_of(pending), "problem": pending.problem}
    return {"state": "pending", **asdict(pending)}


def operation_of(pending: Sidecar | RecoveryFailed) -> str:
    """The id of a write that has a sidecar, even one that cannot be understood."""
    return pending.operation_id if isinstance(pending, Sidecar) else pending.sidecar.removesuffix(".json")
