"""Forks of a table that belong to no branch: those that a crash left, and those of branches that are gone."""

import logging
from collections.abc import Collection
from dataclasses import dataclass

from omnigraph.errors import StorageError
from omnigraph.storage import Location, branch_ref, branch_refs, delete_branch, objects_at
from omnigraph.versioning import Branches
from omnigraph.write.forks import ForkStatus, classify_fork_ref

TREES = "tree"
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Orphans:
    """The forks of a table that nobody needs, and those that had to be left alone for now, with the reasons."""

    names: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def orphaned_forks(graph: Location, branches: Branches, root: str, needed: Collection[str]) -> Orphans:
    """The orphans among the forks of a table; those in `needed`, by their paths, are some unfinished write's.

    The caller holds the locks of the table on every branch, and no branch is begun meanwhile.
    """
    location = graph.child(root)
    names = {*objects_at(location).folders(TREES), *(ref.name for ref in branch_refs(location))}
    found, left = [], []
    for name in sorted(names):
        if f"{root}/{TREES}/{name}" in needed:
            continue
        # Lance writes the tree before the ref that lists it: without a ref, nobody ever got to know of it.
        unlisted = branch_ref(location, name) is None
        status = ForkStatus.ORPHAN if unlisted else classify_fork_ref(branches, root, name)
        if status is ForkStatus.ORPHAN:
            found.append(name)
        elif status is ForkStatus.INDETERMINATE:
            left.append(f"it cannot be told now whose fork {name} is")
    return Orphans(tuple(found), tuple(left))


def remove_forks(location: Location, names: Collection[str]) -> Orphans:
    """Removes forks of a table; those that others began on stay, until these are gone too."""
    removed, left = [], []
    # Whatever began on another has a later name or not; so those that cannot go are tried again after the others.
    pending = sorted(names)
    while pending:
        refused = []
        for name in pending:
            try:
                delete_branch(location, name)
                removed.append(name)
                _logger.info("the orphaned fork %s of %s was removed", name, location.uri)
            except StorageError as error:
                refused.append((name, error))
        if len(refused) == len(pending):
            left = [f"fork {name} stays: {error}" for name, error in refused]
            break
        pending = [name for name, _ in refused]
    return Orphans(tuple(removed), tuple(left))
