"""The lock of those who change a schema: nobody else does, and no branch begins, while one is at work.

What keeps them apart is the lock of the history. The branch `__schema_apply_lock__` of the manifest says so to
everybody who looks at the graph with other tools. No list of branches has it. One that is there while nobody holds the
history was left by a process that died.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph import failpoints
from omnigraph.errors import FenceHeld, StorageError
from omnigraph.failpoints import Point
from omnigraph.storage import Location, branch_ref
from omnigraph.versioning import Branches
from omnigraph.versioning.log import MANIFEST_FOLDER
from omnigraph.versioning.names import physical_name
from omnigraph.write.fence import WriteFence
from omnigraph.write.retention import holding_history

SCHEMA_LOCK = "__schema_apply_lock__"
_logger = logging.getLogger(__name__)


@contextmanager
def holding_schema(branches: Branches, purpose: str) -> Iterator[WriteFence]:
    """Nobody changes a schema, begins a branch or removes old commits in this block; taken before any other lock."""
    with holding_history(branches.graph, purpose) as history:
        branches.lock_out(SCHEMA_LOCK)
        try:
            failpoints.hit(Point.SCHEMA_LOCKED)
            yield history
        finally:
            _unlock(branches)


def _unlock(branches: Branches) -> None:
    """Ends the lock. What was done does not depend on whether this succeeds: one that stays is nobody's."""
    try:
        branches.let_in(SCHEMA_LOCK)
    except StorageError as error:
        _logger.warning("the lock of the schema stays for whoever comes next: %s", error)


def remove_stale_schema_lock(branches: Branches) -> None:
    """Removes the lock of a process that died. The caller holds the history."""
    if is_schema_locked(branches.graph):
        branches.let_in(SCHEMA_LOCK)


def is_schema_locked(graph: Location) -> bool:
    """Whether the lock is there, be its holder alive or dead."""
    return branch_ref(graph.child(MANIFEST_FOLDER), physical_name(SCHEMA_LOCK)) is not None


def settle_schema_lock(branches: Branches) -> None:
    """Removes the lock if whoever took it is dead, and leaves it alone otherwise."""
    if not is_schema_locked(branches.graph):
        return
    try:
        with holding_history(branches.graph, "settling a schema change", wait=0.0):
            remove_stale_schema_lock(branches)
    except FenceHeld:
        pass
