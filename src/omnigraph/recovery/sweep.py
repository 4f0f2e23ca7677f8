"""Sweeps over sidecars: each is settled under the locks of its writer, or left to a writer that lives."""

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from omnigraph.errors import FenceHeld, FenceLost
from omnigraph.lazy import importing
from omnigraph.recovery.decide import Mode
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches
from omnigraph.write.fence import WriteFence
from omnigraph.write.sidecar import pending_operations, read_sidecar

if TYPE_CHECKING:
    from omnigraph.api.upkeep import Recovery

_logger = logging.getLogger(__name__)


def recover(
    graph: Location,
    branches: Branches,
    mode: Mode,
    *,
    patient: bool,
    only: str | None = None,
    but: Collection[str] = (),
) -> "list[Recovery]":
    """Settles every sidecar whose writer finished or died, or only that of one write, or all but some; oldest first.

    The writer of a sidecar holds the locks of its tables from before it writes it until after it deletes it. So a lock
    that cannot be had means that the writer lives. A `patient` sweep waits until it can tell a dead one by its lease.
    """
    settled: list[Recovery] = []
    for operation_id in pending_operations(graph):
        if only not in (None, operation_id) or operation_id in but:
            continue
        sidecar = read_sidecar(graph, operation_id)
        if sidecar is None:
            continue
        with WriteFence(graph, sidecar.branch, f"recovery of {sidecar.operation_id}") as fence:
            try:
                fence.take(sidecar.locks, wait=fence.patience if patient else 0.0)
            except FenceHeld as error:
                _logger.info("the writer of %s is at work: %s", operation_id, error)
                continue
            # A thread whose write fails says so while it still has the locks, and a writer that lost its own marks it.
            if operation_id in but or (sidecar := read_sidecar(graph, operation_id)) is None:
                continue
            with importing:
                from omnigraph.recovery.settle import settle_sidecar  # noqa: PLC0415 - Lance

            try:
                settled += settle_sidecar(graph, branches, sidecar, fence, mode)
            except FenceLost as error:
                _logger.warning("%s is left to whoever has its tables now: %s", operation_id, error)
    return settled
