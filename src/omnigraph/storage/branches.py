"""Branches of tables: a fork shares all files of its parent, and continues from the same version number.

Lance writes the first version of a fork, and then the ref that lists it. A crash in between leaves a tree that is not
listed and that blocks another fork of that name. The creator of a branch holds a lock, so it removes such a tree.
"""

import json
import logging
from collections.abc import Collection
from datetime import UTC, datetime

import lance
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, StorageError
from omnigraph.storage.commits import sync_versions
from omnigraph.storage.durability import sync_files
from omnigraph.storage.location import Location
from omnigraph.storage.objects import objects_at
from omnigraph.storage.tables import Table, listed_versions, open_table, typed_errors

TREES, _REFS, _SUFFIX = "tree", "_refs/branches", ".json"
_NO_REF = (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, OSError)
"""The errors of reading a content that is not a ref."""
_DELETIONS = 20
"""How often the deletion of a branch is retried when others are deleted at the same time."""
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
    """The location of a branch of a table."""
    return root.child(TREES, name)


def branch_ref(root: Location, name: str) -> BranchRef | None:
    """A branch of a table, or None when there is none of that name.

    If the branch has no version of its own, a ref that cannot be read is what a power cut left of a branch whose
    creation was never acknowledged. Otherwise the ref was whole once: it is damaged, and the branch exists.
    """
    content = objects_at(root).read(ref_file(name))
    if content is None:
        return None
    try:
        return _ref(name, content)
    except _NO_REF as error:
        if len(listed_versions(branch_location(root, name))) > 1:
            raise _damaged_ref(root, name, error) from error
        return None


def branch_refs(root: Location, but: Collection[str] = ()) -> list[BranchRef]:
    """All branches of a table except those in `but`, by name."""
    found = (branch_ref(root, name) for name in ref_names(root) if name not in but)
    return [ref for ref in found if ref is not None]


def check_refs(root: Location, but: Collection[str] = ()) -> None:
    """Raises `Damaged` when the ref of a branch cannot be read, because the files that the branch needs are not known.

    It is called before files that no branch needs are removed. Branches in `but` are known to be unused.
    """
    for name in ref_names(root):
        content = None if name in but else objects_at(root).read(ref_file(name))
        try:
            if content is not None:
                _ref(name, content)
        except _NO_REF as error:
            raise _damaged_ref(root, name, error) from error


def _damaged_ref(root: Location, name: str, error: Exception) -> Damaged:
    problem = f"the ref of branch {name} cannot be read ({error}); restore it from a backup"
    return Damaged(root.child(ref_file(name)).uri, problem)


def ref_names(root: Location) -> list[str]:
    """The names of all refs of a table, whether or not they can be read; Lance writes one under a longer name first."""
    return [file.removesuffix(_SUFFIX) for file in objects_at(root).names(_REFS) if file.endswith(_SUFFIX)]


def ref_file(name: str) -> str:
    """The file that lists a branch of a table."""
    return f"{_REFS}/{name}{_SUFFIX}"


def create_branch(root: Location, name: str, *, parent: Location, version: int) -> Table:
    """Forks a table, at a version of its own line or of another branch. The caller holds the lock of the new branch."""
    source = open_table(parent, version)
    target = branch_location(root, name)
    if branch_ref(root, name) is None:
        objects_at(root).delete(ref_file(name))
        objects_at(root).delete_folder(f"{TREES}/{name}")
    with typed_errors(target, "cannot be forked"):
        source.dataset.create_branch(name, version, storage_options=root.storage_options)
    table = open_table(target, version)
    if root.path is not None and root.durable:
        sync_files([root.path / ref_file(name)])
    sync_versions([table])
    return table


def delete_branch(root: Location, name: str) -> None:
    """Removes a branch and its own files, if it exists. Refuses while other branches fork from it.

    The caller knows that it is unused: a branch whose ref cannot be read is removed too.
    """
    if not _is_listed(root, name):
        objects_at(root).delete_folder(f"{TREES}/{name}")
        objects_at(root).delete(ref_file(name))
        return
    for attempt in range(_DELETIONS):
        try:
            lance.dataset(root.uri, storage_options=root.storage_options).branches.delete(name)
        except (OSError, ValueError) as error:
            if not _is_listed(root, name):
                _logger.warning("branch %s of %s was deleted, but some of its files remain: %s", name, root.uri, error)
                return
            # Lance reads the refs of all branches, and others may be deleted meanwhile.
            if "Not found" not in str(error) or attempt + 1 == _DELETIONS:
                raise StorageError(root.uri, f"branch {name} cannot be deleted: {error}") from error
        else:
            return


def _is_listed(root: Location, name: str) -> bool:
    """Whether there is a ref of that name that can be read."""
    try:
        return branch_ref(root, name) is not None
    except Damaged:
        return False


def _ref(name: str, content: bytes) -> BranchRef:
    data = json.loads(content)
    began_at, identity = data["identifier"]["version_mapping"][-1]
    if data["parentVersion"] != began_at:
        raise ValueError(f"it began at version {data['parentVersion']}, or at {began_at}")
    return BranchRef(
        name=name,
        identity=identity,
        parent=data["parentBranch"],
        parent_version=began_at,
        created_at=datetime.fromtimestamp(data["createAt"], UTC),
    )
