"""Remnants: versions that writes of OmniGraph left in a table after they had failed and were settled.

A writer, or a recoverer, that was stopped between the check of its locks and its commit wakes up when others have them.
Lance then puts its commit on top of whatever is there, under another number than the one that was announced. Nobody
relies on such a version: every commit of OmniGraph names the write that it is part of, what is acknowledged is pinned,
and what is at work is announced. So whoever holds the lock of the table may undo it. A version that something else made
is never touched here.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from omnigraph.errors import FenceLost
from omnigraph.recovery.apply import Unfinished
from omnigraph.recovery.decide import Mode
from omnigraph.recovery.sweep import settle
from omnigraph.storage import Location, writes_after
from omnigraph.versioning import ManifestLog, Pin, new_commit_id
from omnigraph.write.fence import WriteFence
from omnigraph.write.forks import is_own
from omnigraph.write.sidecar import Sidecar, SidecarTable, pending_operations, read_sidecar, write_sidecar

REMNANT = "remnant"
"""The kind of the sidecar that covers the undoing of remnants."""


def undo_remnants(graph: Location, log: ManifestLog, table_key: str) -> bool:
    """Takes the remnants of failed writes out of a table, under its lock; False if it has none, or not only those."""
    with WriteFence(graph, log.branch, f"undoing what failed writes left in {table_key}") as fence:
        fence.take([table_key])
        log.check_exists()
        return undo_remnants_under(fence, graph, log, table_key)


def undo_remnants_under(fence: WriteFence, graph: Location, log: ManifestLog, table_key: str) -> bool:
    """The same for a caller that holds the lock of the table."""
    head = log.head()
    pin = head.pins.get(table_key)
    if pin is None or not is_own(log, pin.path) or _is_announced(graph, pin):
        return False
    writes = writes_after(graph.child(pin.path), pin.version)
    if not writes or None in writes.values():
        return False
    fence.check()
    sidecar = _sidecar(log, table_key, pin, writes)
    write_sidecar(graph, sidecar)
    try:
        settle(Unfinished(graph, log, sidecar, fence), Mode.UNDO)
    except FenceLost:
        # Whoever has the table now finds the sidecar.
        return False
    return True


def _is_announced(graph: Location, pin: Pin) -> bool:
    """Whether a sidecar names a table: then it is for whoever settles that to say what becomes of its versions."""
    found = (read_sidecar(graph, each) for each in pending_operations(graph))
    return any(sidecar is not None and any(each.path == pin.path for each in sidecar.tables) for sidecar in found)


def _sidecar(log: ManifestLog, table_key: str, pin: Pin, writes: Mapping[int, str | None]) -> Sidecar:
    """What covers the undoing, so that whoever dies in the middle of it leaves it to the next."""
    return Sidecar(
        operation_id=new_commit_id(),
        undo_id=new_commit_id(),
        kind=REMNANT,
        branch=log.branch,
        incarnation=log.incarnation,
        actor=None,
        message=f"of {', '.join(sorted({each for each in writes.values() if each is not None}))}",
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        manifest_version=log.head().version,
        unchanged={},
        intact={},
        if_commit=None,
        merged_parent=None,
        doomed=True,
        tables=(
            SidecarTable(
                table_key=table_key,
                path=pin.path,
                expected_version=pin.version,
                version_after=max(writes),
                removed_at=pin.removed_at,
                transaction_id="",
            ),
        ),
    )
