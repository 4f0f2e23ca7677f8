"""Branches of tables: a fork shares all that its parent had, and goes on by itself from the same version number.

Lance writes the fork's first version, and then the ref that lists it. A crash in between leaves a tree that is not
listed and that nobody can fork over; whoever creates a branch is alone in doing so, and removes it.
"""

import json
import logging
from dataclasses import dataclass
from datetime import UTC, datetime

import lance
from omnigraph.errors import StorageError
from omnigraph.storage.commits import sync_versions
from omnigraph.storage.durability import sync_files
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.tables import Table, open_table, typed_errors

_TREES, _REFS = "tree", "_refs/branches"
_DELETIONS = 20
"""How often a branch is deleted anew when others are deleted at the same time."""
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BranchRef:
    """One branch of a table. No two that ever existed have the same identity, whatever their names."""

    name: str
    identity: str
    parent: str | None
    parent_version: int
    created_at: datetime


def branch_location(root: Location, name: str) -> Location:
    """Where a branch of a table lies."""
    return root.child(_TREES, name)


def branch_ref_file(name: str) -> str:
    """The file of a branch's ref, below its table."""
    return f"{_REFS}/{name}.json"


def branch_ref(root: Location, name: str) -> BranchRef | None:
    """A branch of a table, or None when there is none of that name.

    A ref that a power cut left torn is that of a branch that nobody was told of.
    """
    content = objects_at(root).read(branch_ref_file(name))
    try:
        return None if content is None else _ref(name, content)
    except (ValueError, KeyError, TypeError, IndexError, OverflowError):
        return None


def branch_refs(root: Location) -> list[BranchRef]:
    """All branches of a table, by name."""
    names = [file.removesuffix(".json") for file in objects_at(root).names(_REFS)]
    found = (branch_ref(root, name) for name in names)
    return [ref for ref in found if ref is not None]


def create_branch(root: Location, name: str, *, parent: Location, version: int) -> Table:
    """Forks a table: at a version of its own line or of another branch. The caller is alone in creating this one."""
    source = open_table(parent, version)
    target = branch_location(root, name)
    if branch_ref(root, name) is None:
        objects_at(root).delete(branch_ref_file(name))
        objects_at(root).delete_folder(f"{_TREES}/{name}")
    with typed_errors(target, "cannot be forked"):
        source.dataset.create_branch(name, version, storage_options=root.storage_options)
    table = open_table(target, version)
    if root.path is not None and root.durable:
        sync_files([root.path / _REFS / f"{name}.json"])
    sync_versions([table])
    return table


def delete_branch(root: Location, name: str) -> None:
    """Removes a branch and what only it has; one that is not there is no matter. Refuses while others fork from it."""
    if branch_ref(root, name) is None:
        objects_at(root).delete_folder(f"{_TREES}/{name}")
        return
    for attempt in range(_DELETIONS):
        try:
            lance.dataset(root.uri, storage_options=root.storage_options).branches.delete(name)
        except (OSError, ValueError) as error:
            if branch_ref(root, name) is None:
                _logger.warning("branch %s of %s is gone, but not all of its files: %s", name, root.uri, error)
                return
            # Lance reads the refs of all branches, and others may be deleted meanwhile.
            if "Not found" not in str(error) or attempt + 1 == _DELETIONS:
                raise StorageError(root.uri, f"branch {name} cannot be deleted: {error}") from error
        else:
            return


def _ref(name: str, content: bytes) -> BranchRef:
    data = json.loads(content)
    return BranchRef(
        name=name,
        identity=data["identifier"]["version_mapping"][-1][1],
        parent=data["parentBranch"],
        parent_version=data["parentVersion"],
        created_at=datetime.fromtimestamp(data["createAt"], UTC),
    )
