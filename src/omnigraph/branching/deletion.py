"""Deletes branches."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.errors import (
    BranchInUse,
    OmnigraphError,
    PreconditionFailed,
    SchemaChanged,
    StorageError,
    UsageError,
)
from omnigraph.failpoints import Point
from omnigraph.recovery import Mode, recover
from omnigraph.storage.branches import delete_branch
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches, Manifest, ManifestLog, Publication, new_commit_id
from omnigraph.versioning.branches import fork_name
from omnigraph.versioning.manifest import Claim, Reservation
from omnigraph.versioning.names import check_branch_name
from omnigraph.versioning.publisher import publish_reservation, release_tables
from omnigraph.versioning.query_sets import QUERIES
from omnigraph.versioning.tags import tags
from omnigraph.write.fence import EXISTENCE, WriteFence
from omnigraph.write.forks import is_own, table_root

_logger = logging.getLogger(__name__)


def delete(graph: Location, branches: Branches, name: str, *, if_commit: str | None = None) -> None:
    """Deletes a branch with its own data. Its commits stay known to the branches that merged them.

    The branch itself goes first, under the locks of all its tables, and after its last state keeps small writes away,
    which take no locks. Its forks are then unused; those that cannot be removed now are left for cleanup. With
    `if_commit`, a branch that has gone on from that commit stays.
    """
    check_branch_name(name)
    if name == MAIN:
        raise UsageError(f"`{MAIN}` cannot be deleted")
    log = branches.log(name)
    recover(graph, branches, Mode.FULL, patient=True)
    with WriteFence(graph, name, "branch delete") as fence:
        held = log.head()
        fence.take([EXISTENCE, *held.pins])
        log.check_exists()
        with _closing_line(log, fence) as manifest:
            # On a store, a branch begins without a lock, and looks after that whether its parent goes on.
            descendants = branches.descendants(name)
            own = (log.branch, log.incarnation)
            named = [tag.name for tag in tags(graph) if (tag.place.branch, tag.place.incarnation) == own]
            if descendants or named:
                raise BranchInUse(name, descendants, named)
            if manifest.pins.keys() != held.pins.keys():
                # Its tables have other names now, and those are not held.
                raise SchemaChanged(name)
            if if_commit not in (None, manifest.commit.graph_commit_id):
                raise PreconditionFailed(name, str(if_commit), manifest.commit.graph_commit_id)
            failpoints.hit(Point.BRANCH_BEFORE_DELETE)
            fence.check()
            branches.delete(name)
        failpoints.hit(Point.BRANCH_DELETED)
        _remove_forks(graph, log, manifest)


@contextmanager
def _closing_line(log: ManifestLog, fence: WriteFence) -> Iterator[Manifest]:
    """Reserves all tables and the stored queries of a branch, and gives its last state.

    Unless the block fails, every acknowledged small write is in this state. Without it, `if_commit` could hold, and a
    commit be lost that came right after. If this process dies, whoever gets the lock of the branch ends it.
    """
    operation_id, everything = new_commit_id(), frozenset({*log.head().pins, QUERIES})
    claim = Claim(changes=everything, removes=everything)
    publication = Publication(
        commit_id=operation_id,
        based_on=0,
        is_commit=False,
        branch=log.branch,
        reserves=Reservation(operation_id=operation_id, lock=EXISTENCE, claim=claim),
        releases=[each.operation_id for each in log.head().reservations if each.lock in fence.names],
    )
    closed = publish_reservation(log, publication)
    try:
        yield closed
    except BaseException as error:
        try:
            release_tables(log, operation_id)
        except OmnigraphError as problem:
            error.add_note(f"the tables of branch `{log.branch}` stay reserved until the next write: {problem}")
        raise


def _remove_forks(graph: Location, log: ManifestLog, manifest: Manifest) -> None:
    for key, pin in manifest.pins.items():
        if is_own(log, pin.path):
            try:
                delete_branch(graph.child(table_root(pin.path)), fork_name(log))
            except StorageError as error:
                _logger.warning("the fork of %s for branch %s is left for cleanup: %s", key, log.branch, error)
