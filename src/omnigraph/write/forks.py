"""Forks: a table becomes a branch's own when the branch first writes it.

The fork comes before the commit that places it. A writer that dies in between leaves a ref that no manifest places; the
next writer reclaims it. A ref is destroyed only if it is certain that nobody relies on it.
"""

from enum import StrEnum

from omnigraph import failpoints
from omnigraph.errors import (
    Damaged,
    ExpectedVersionMismatch,
    ForkUnsettled,
    NotFound,
    RecoveryRequired,
    StorageError,
)
from omnigraph.failpoints import Point
from omnigraph.storage.branches import branch_location, branch_ref, create_branch, delete_branch
from omnigraph.storage.location import Location
from omnigraph.storage.tables import Table
from omnigraph.versioning import Branches, ManifestLog, Snapshot
from omnigraph.versioning.branches import fork_name
from omnigraph.versioning.names import logical_name
from omnigraph.write.sidecar import announcing_operation

_TREE = "/tree/"


class ForkStatus(StrEnum):
    """What a ref on a table is to the branch that it is named after."""

    LEGITIMATE = "Legitimate"
    ORPHAN = "Orphan"
    INDETERMINATE = "Indeterminate"


def table_root(path: str) -> str:
    """The path of a table's own line, whichever of its branches a path leads to."""
    return path.partition(_TREE)[0]


def is_own(log: ManifestLog, path: str) -> bool:
    """Whether a table already lies where writes of this branch go."""
    return log.origin is None or path.endswith(f"{_TREE}{fork_name(log)}")


def fork_location(root: Location, log: ManifestLog) -> Location:
    """The location of a table that is forked for a branch."""
    return branch_location(root, fork_name(log))


def fork_table(base: Snapshot, log: ManifestLog, table_key: str) -> Table:
    """The fork of a table for a branch, at the version that the branch sees. The caller holds the table's lock."""
    pin = base.manifest.pins[table_key]
    root = base.location.child(table_root(pin.path))
    name = fork_name(log)
    parent = base.table(table_key).location
    try:
        table = create_branch(root, name, parent=parent, version=pin.version)
    except StorageError:
        if branch_ref(root, name) is None:
            raise
        _reclaim(base, log, table_key, root)
        table = create_branch(root, name, parent=parent, version=pin.version)
    failpoints.hit(Point.FORK_CREATED)
    return table


def _reclaim(base: Snapshot, log: ManifestLog, table_key: str, root: Location) -> None:
    """Removes a fork that a dead writer left; raises when it is, or may be, somebody's."""
    pin = base.manifest.pins[table_key]
    path = fork_location(root, log).uri.removeprefix(f"{base.location.uri}/")
    if (operation_id := announcing_operation(base.location, path)) is not None:
        raise RecoveryRequired(table_key, pin.version, operation_id)
    match classify_fork_ref(Branches(base.location), table_root(pin.path), fork_name(log)):
        case ForkStatus.ORPHAN:
            failpoints.hit(Point.FORK_BEFORE_RECLAIM)
            delete_branch(root, fork_name(log))
        case ForkStatus.LEGITIMATE:
            raise ExpectedVersionMismatch(table_key, pin.version, log.head().pins[table_key].version)
        case ForkStatus.INDETERMINATE:
            raise ForkUnsettled(table_key, log.branch)


def classify_fork_ref(branches: Branches, root: str, ref: str) -> ForkStatus:
    """Judges a fork of a table, from the newest manifest of its branch. The caller holds the table's lock.

    Whether the fork has a ref of its own tells nothing: that may be damaged. A branch whose deletion was never written
    down is not gone. What cannot be read now is indeterminate, and must be left alone.
    """
    physical, _, incarnation = ref.rpartition(".")
    try:
        failpoints.hit(Point.FORK_CLASSIFY)
        log = branches.log(logical_name(physical))
        if log.incarnation != incarnation:
            return ForkStatus.ORPHAN if branches.was_deleted(incarnation) else ForkStatus.INDETERMINATE
        placed = any(pin.path == f"{root}{_TREE}{ref}" for pin in log.head().pins.values())
    except NotFound:
        return ForkStatus.ORPHAN
    except Damaged:
        raise
    except StorageError:
        return ForkStatus.INDETERMINATE
    return ForkStatus.LEGITIMATE if placed else ForkStatus.ORPHAN
