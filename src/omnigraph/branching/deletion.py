"""Deletes branches."""

import logging

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.errors import BranchInUse, PreconditionFailed, SchemaChanged, StorageError, UsageError
from omnigraph.failpoints import Point
from omnigraph.recovery import Mode, recover
from omnigraph.storage.branches import delete_branch
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches, Manifest, ManifestLog
from omnigraph.versioning.branches import fork_name
from omnigraph.versioning.names import check_branch_name
from omnigraph.versioning.tags import tags
from omnigraph.write.fence import EXISTENCE, WriteFence
from omnigraph.write.forks import is_own, table_root

_logger = logging.getLogger(__name__)


def delete(graph: Location, branches: Branches, name: str, *, if_commit: str | None = None) -> None:
    """Deletes a branch with its own data. Its commits stay known to the branches that merged them.

    The branch itself goes first, under the locks of all its tables. Its forks are then unused; those that cannot be
    removed now are left for cleanup. With `if_commit`, a branch that has gone on from that commit stays.
    """
    check_branch_name(name)
    if name == MAIN:
        raise UsageError(f"`{MAIN}` cannot be deleted")
    log = branches.log(name)
    recover(graph, branches, Mode.FULL, patient=True)
    with WriteFence(graph, name, "branch delete") as fence:
        manifest = log.head()
        fence.take([EXISTENCE, *manifest.pins])
        descendants = branches.descendants(name)
        own = (log.branch, log.incarnation)
        named = [tag.name for tag in tags(graph) if (tag.place.branch, tag.place.incarnation) == own]
        if descendants or named:
            raise BranchInUse(name, descendants, named)
        log.check_exists()
        held, manifest = manifest, log.head()
        if manifest.pins.keys() != held.pins.keys():
            # Its tables have other names now, and those are not held.
            raise SchemaChanged(name)
        if if_commit not in (None, manifest.commit.graph_commit_id):
            raise PreconditionFailed(name, str(if_commit), manifest.commit.graph_commit_id)
        failpoints.hit(Point.BRANCH_BEFORE_DELETE)
        branches.delete(name)
        failpoints.hit(Point.BRANCH_DELETED)
        _remove_forks(graph, log, manifest)


def _remove_forks(graph: Location, log: ManifestLog, manifest: Manifest) -> None:
    for key, pin in manifest.pins.items():
        if is_own(log, pin.path):
            try:
                delete_branch(graph.child(table_root(pin.path)), fork_name(log))
            except StorageError as error:
                _logger.warning("the fork of %s for branch %s is left for cleanup: %s", key, log.branch, error)
