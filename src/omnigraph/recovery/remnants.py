"""Remnants: versions that writes of OmniGraph left in a table after they had failed and were settled.

A writer, or a recoverer, that was stopped between the check of its locks and its commit wakes up when others have them.
Lance then puts its commit on top of whatever is there, under another number than the one that was announced. Nobody
relies on such a version: every commit of OmniGraph names the write that it is part of, what is acknowledged is pinned,
and what is at work is announced. So whoever holds the lock of the table may undo it. A version that something else made
is never touched here.
"""

import logging
from collections.abc import Mapping
from datetime import UTC, datetime

from omnigraph.errors import FenceLost
from omnigraph.recovery.apply import Unfinished
from omnigraph.recovery.decide import Mode
from omnigraph.recovery.settle import settle
from omnigraph.storage.drift import writes_after
from omnigraph.storage.location import Location
from omnigraph.versioning import ManifestLog, Pin, new_commit_id
from omnigraph.write.fence import WriteFence
from omnigraph.write.forks import is_own
from omnigraph.write.sidecar import Sidecar, SidecarTable, announcing_operation, write_sidecar

REMNANT = "remnant"
"""The kind of the sidecar that covers the undoing of remnants."""

_logger = logging.getLogger(__name__)


def undo_remnants(graph: Location, log: ManifestLog, table_key: str) -> bool:
    """Takes the remnants of failed writes out of a table, under its lock; False if it has none, or not only those."""
    with WriteFence(graph, log.branch, f"undoing what failed writes left in {table_key}") as fence:
        fence.take([table_key])
        log.check_exists()
        pin = log.head().pins.get(table_key)
        if pin is None or not is_own(log, pin.path) or announcing_operation(graph, pin.path) is not None:
            return False
        writes = writes_after(graph.child(pin.path), pin.version)
        if not writes or None in writes.values():
            return False
        try:
            undo_versions(graph, log, fence, table_key)
        except FenceLost as error:
            # Whoever has the table now finds the sidecar.
            _logger.warning("what failed writes left in %s is left to another: %s", table_key, error)
            return False
    return True


def undo_versions(graph: Location, log: ManifestLog, fence: WriteFence, table_key: str) -> None:
    """Makes the version that the graph sees the newest of a table again, whoever made those after it.

    It goes the way of every undoing: a sidecar first, so that whoever dies in the middle leaves it to the next.
    """
    pin = log.head().pins[table_key]
    sidecar = _sidecar(log, table_key, pin, writes_after(graph.child(pin.path), pin.version))
    fence.check()
    write_sidecar(graph, sidecar)
    settle(Unfinished(graph, log, sidecar, fence), Mode.UNDO)


def _sidecar(log: ManifestLog, table_key: str, pin: Pin, writes: Mapping[int, str | None]) -> Sidecar:
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
        unchanged=(),
        intact=(),
        if_commit=None,
        merged_parent=None,
        doomed=True,
        tables=(
            SidecarTable(
                table_key=table_key,
                path=pin.path,
                expected_version=pin.version,
                version_after=max(writes),
                transaction_id="",
            ),
        ),
    )
