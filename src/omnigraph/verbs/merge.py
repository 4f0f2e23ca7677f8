"""Merges of branches."""

import logging
from dataclasses import replace
from functools import partial
from typing import Any, cast

from omnigraph.api.history import MergeRequest, MergeResult
from omnigraph.branching import deletion
from omnigraph.errors import BranchInUse, PreconditionFailed, UsageError
from omnigraph.failpoints import Writer
from omnigraph.merging.merge import MergeOptions, decide_merge
from omnigraph.merging.merge import merge as run_merge
from omnigraph.merging.three_way import Strategy
from omnigraph.policy import Action
from omnigraph.session.session import Session
from omnigraph.session.writes import PreparedWrite, WriteOrder
from omnigraph.versioning.query_sets import QUERIES

_logger = logging.getLogger(__name__)


def merge(session: Session, request: MergeRequest) -> MergeResult:
    """Merges as one commit, and deletes the merged branch if that is asked for."""
    if request.source == request.into:
        raise UsageError(f"branch `{request.source}` cannot be merged into itself")
    if not session.guard.is_open:
        for side in (request.source, request.into):  # a conflict tells of both
            session.guard.check_types(Action.READ, session.head(side), side, None)
    options = MergeOptions(
        strategy=cast("Strategy | None", request.strategy),
        cells=request.cells,
        dry_run=request.dry_run,
        check_queries=lambda: session.guard.check(Action.QUERY_STORE, request.into),
    )
    order = WriteOrder(
        kind=Writer.MERGE,
        branch=request.into,
        actor=session.guard.actor,
        message=request.message or f"merge {request.source}",
        relies_on=(QUERIES,),
    )
    arguments: dict[str, Any] = {"branches": session.branches, "source": request.source, "options": options}
    prepared = PreparedWrite(order, partial(run_merge, **arguments), small=partial(decide_merge, **arguments))
    result = session.write_prepared(request.into, lambda _: prepared, persistent=True)
    return _without_branch(session, request.source, result) if request.delete_branch and not request.dry_run else result


def _without_branch(session: Session, source: str, result: MergeResult) -> MergeResult:
    """Deletes a merged branch. One that has new commits since the merge, or that others began on, stays."""
    try:
        deletion.delete(session.location, session.branches, source, if_commit=result.merged_commit_id)
    except (PreconditionFailed, BranchInUse) as error:
        _logger.warning("branch %s was merged but not deleted: %s", source, error)
        return result
    return replace(result, branch_deleted=True)
