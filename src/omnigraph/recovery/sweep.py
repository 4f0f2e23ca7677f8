"""Sweeps over sidecars: each is settled under the locks of its writer, or left to a writer that lives."""

import logging
from collections.abc import Collection

from omnigraph.errors import Conflict, FenceHeld, NotFound, RecoveryFailed
from omnigraph.recovery.apply import abandon, apply
from omnigraph.recovery.audit import Recovery
from omnigraph.recovery.decide import Action, Decision, Mode, TableState, decide
from omnigraph.recovery.observe import observe
from omnigraph.storage import Location
from omnigraph.versioning import Branches, ManifestLog
from omnigraph.write.attempt import WriteAttempt
from omnigraph.write.fence import WriteFence
from omnigraph.write.sidecar import Sidecar, doom_sidecar, pending_operations, read_sidecar

_ATTEMPTS = 5
_logger = logging.getLogger(__name__)


def recover(
    graph: Location,
    branches: Branches,
    mode: Mode,
    *,
    patient: bool,
    only: str | None = None,
    but: Collection[str] = (),
) -> list[Recovery]:
    """Settles every sidecar whose writer finished or died, or only that of one write, or all but some; oldest first.

    The writer of a sidecar holds the locks of its tables from before it writes it until after it deletes it. So a lock
    that cannot be had means that the writer lives. A `patient` sweep waits until it can tell a dead one by its lease.
    """
    settled = []
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
            # A thread whose write fails says so while it still has the locks.
            if operation_id in but or read_sidecar(graph, operation_id) is None:
                continue
            log = _log_of(branches, sidecar)
            settled += [abandon(graph, sidecar)] if log is None else _settled(graph, log, sidecar, mode)
    return settled


def undo(attempt: WriteAttempt) -> None:
    """Takes back what a failed write has done so far, under the locks that its writer still has."""
    graph = attempt.base.location
    attempt.fence.check()
    sidecar = read_sidecar(graph, attempt.operation_id)
    if sidecar is not None:
        _settled(graph, attempt.log, doom_sidecar(graph, sidecar), Mode.UNDO)


def _log_of(branches: Branches, sidecar: Sidecar) -> ManifestLog | None:
    """The branch that a write was on, unless it was deleted since; another of its name is not it."""
    try:
        log = branches.log(sidecar.branch)
    except NotFound:
        return None
    return log if log.incarnation == sidecar.incarnation else None


def remove_torn_head(log: ManifestLog) -> None:
    """Removes a version of the manifest that a power cut left torn; nobody was told of it."""
    with log.turn():
        log.remove_torn_head()


def _settled(graph: Location, log: ManifestLog, sidecar: Sidecar, mode: Mode) -> list[Recovery]:
    """Observes, decides and applies; again from the start when another writer changed what the decision rested on."""
    for attempt in range(_ATTEMPTS):
        seen = observe(graph, log, sidecar)
        decision = decide(seen, mode)
        if decision.action is Action.ABORT:
            raise RecoveryFailed(f"{sidecar.operation_id}.json", _violated(decision))
        if decision.action is Action.DEFER:
            _logger.warning("write %s did not finish and must be undone when the graph is opened", sidecar.operation_id)
            return []
        try:
            return [apply(graph, log, sidecar, seen, decision)]
        except Conflict:
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError("the loop returns or raises")


def _violated(decision: Decision) -> str:
    tables = [key for key, state in decision.states.items() if state is TableState.INVARIANT_VIOLATION]
    return f"the newest version of {', '.join(tables)} is older than the one the graph sees; nothing was changed"
