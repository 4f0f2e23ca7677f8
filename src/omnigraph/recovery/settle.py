"""Settles one sidecar: observes, decides and applies, under the locks of its writer."""

import logging
from dataclasses import replace

from omnigraph import failpoints
from omnigraph.api.upkeep import Recovery
from omnigraph.errors import Conflict, FenceLost, HeadMoved, NotFound, OutcomeUnknown, RecoveryFailed
from omnigraph.failpoints import Point
from omnigraph.recovery.apply import Unfinished, abandon, apply
from omnigraph.recovery.decide import Mode, RecoveryAction, RecoveryDecision, TableState, decide
from omnigraph.recovery.observe import observe
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches, ManifestLog
from omnigraph.versioning.history import commit_with_id
from omnigraph.write.attempt import WriteAttempt
from omnigraph.write.fence import WriteFence
from omnigraph.write.sidecar import Sidecar, claim_completion, doom_sidecar

_ATTEMPTS = 5
_logger = logging.getLogger(__name__)


def settle_sidecar(
    graph: Location, branches: Branches, sidecar: Sidecar, fence: WriteFence, mode: Mode
) -> list[Recovery]:
    """Settles the write of a sidecar, also one on a branch that was deleted since."""
    if (log := _log_of(branches, sidecar)) is not None:
        return settle(Unfinished(graph, log, sidecar, fence), mode)
    return [abandon(graph, sidecar, fence, was_visible=_was_visible(branches, sidecar))]


def _was_visible(branches: Branches, sidecar: Sidecar) -> bool:
    """Whether the history has the commit of a write, also that of a branch that was deleted since."""
    try:
        commit_with_id(branches, sidecar.operation_id)
    except NotFound:
        return False
    return True


def _log_of(branches: Branches, sidecar: Sidecar) -> ManifestLog | None:
    """The branch that a write was on, unless it was deleted since; another of its name is not it."""
    try:
        log = branches.log(sidecar.branch)
    except NotFound:
        return None
    return log if log.incarnation == sidecar.incarnation else None


def give_up(attempt: WriteAttempt) -> Sidecar | None:
    """Marks a write as failed, so that nobody completes it, whoever settles it; None if there is nothing to settle.

    This needs no lock. Raises `OutcomeUnknown` for a write that somebody else is completing, which only happens to a
    writer that lost its locks.
    """
    sidecar = doom_sidecar(attempt.base.location, attempt.operation_id)
    if sidecar is not None and not sidecar.doomed:
        raise OutcomeUnknown(attempt.operation_id)
    return sidecar


def undo(attempt: WriteAttempt, sidecar: Sidecar) -> None:
    """Takes back what a write has done that was given up, under the locks that its writer still has."""
    attempt.fence.check()
    settle(Unfinished(attempt.base.location, attempt.log, sidecar, attempt.fence), Mode.UNDO)


def settle(unfinished: Unfinished, mode: Mode) -> list[Recovery]:
    """Observes, decides and applies; again from the start when another writer changed what the decision rested on.

    Before a write is completed, its sidecar says so: from then on its writer, if it lives, may not report that it
    failed. If that has done so already, it is undone.
    """
    for attempt in range(_ATTEMPTS):
        sidecar = unfinished.sidecar
        unfinished.fence.check()
        seen = observe(unfinished.graph, unfinished.log, sidecar)
        decision = decide(seen, mode)
        if decision.action is RecoveryAction.ABORT:
            raise RecoveryFailed(f"{sidecar.operation_id}.json", _violation_problem(decision))
        if decision.action is RecoveryAction.DEFER:
            _logger.warning("write %s did not finish and must be undone when the graph is opened", sidecar.operation_id)
            return []
        failpoints.hit(Point.RECOVERY_DECIDED)
        if decision.action is RecoveryAction.ROLL_FORWARD:
            unfinished.fence.check()
            claimed = claim_completion(unfinished.graph, sidecar.operation_id)
            if claimed is None:
                raise FenceLost(f"{sidecar.branch}/{sidecar.locks[0]}")
            failpoints.hit(Point.RECOVERY_CLAIMED)
            unfinished = replace(unfinished, sidecar=claimed)
            if claimed.doomed:
                continue
        try:
            return [apply(unfinished, seen, decision)]
        except FenceLost:
            raise
        except (Conflict, HeadMoved):
            # The second is a late commit of a writer that lost its locks: it is undone together with the rest.
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError("the loop returns or raises")


def _violation_problem(decision: RecoveryDecision) -> str:
    tables = [key for key, state in decision.states.items() if state is TableState.INVARIANT_VIOLATION]
    return f"the newest version of {', '.join(tables)} is older than the one the graph sees; nothing was changed"
