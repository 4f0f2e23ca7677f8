"""Forks of a table that belong to no branch: those that a crash left, and those of branches that are gone."""

import logging
from collections.abc import Collection
from dataclasses import dataclass

from omnigraph.errors import Damaged, StorageError
from omnigraph.storage import Location, delete_branch, objects_at
from omnigraph.storage.branches import TREES, ref_names
from omnigraph.versioning import Branches
from omnigraph.write.forks import ForkStatus, classify_fork_ref

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Orphans:
    """The forks of a table that nobody needs, and those that had to be left alone for now, with the reasons."""

    names: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def orphaned_forks(graph: Location, branches: Branches, root: str, needed: Collection[str]) -> Orphans:
    """The orphans among the forks of a table; those in `needed`, by their paths, are some unfinished write's.

    The newest manifests say whose a fork is, and not its own ref, which may be damaged. The caller holds the locks of
    the table on every branch, and no branch is begun meanwhile.
    """
    location = graph.child(root)
    names = {*objects_at(location).folders(TREES), *ref_names(location)}
    found, left = [], []
    for name in sorted(names):
        if f"{root}/{TREES}/{name}" in needed:
            continue
        try:
            status = classify_fork_ref(branches, root, name)
        except Damaged as error:
            left.append(f"whose fork {name} is cannot be read: {error}")
            continue
        if status is ForkStatus.ORPHAN:
            found.append(name)
        elif status is ForkStatus.INDETERMINATE:
            left.append(f"whose fork {name} is cannot be read now")
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
