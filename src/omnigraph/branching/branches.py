"""Creates, lists and deletes branches."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.api.history import BranchInfo, Commit, Place
from omnigraph.errors import (
    BranchExists,
    BranchInUse,
    NotFound,
    OmnigraphError,
    PreconditionFailed,
    SchemaChanged,
    StorageError,
    TagExists,
    UsageError,
)
from omnigraph.failpoints import Point
from omnigraph.recovery import Mode, recover
from omnigraph.storage.branches import delete_branch
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches, CommitGraph, Manifest, ManifestLog, commit_with_id, no_snapshot
from omnigraph.versioning.branches import fork_name
from omnigraph.versioning.names import check_branch_name
from omnigraph.versioning.removal import REMOVED
from omnigraph.versioning.tags import tag_named, tags
from omnigraph.write import WriteFence
from omnigraph.write.fence import EXISTENCE
from omnigraph.write.forks import is_own, table_root
from omnigraph.write.retention import holding_history, remove_stale_schema_lock

_logger = logging.getLogger(__name__)


def place_of(branches: Branches, reference: str) -> Place:
    """Where a branch's head or a commit lies, by the name of the one, or by the id or a tag of the other."""
    with suppress(NotFound, UsageError):
        log = branches.log(reference)
        with log.noticing_deletion():
            return log.head().commit.place
    try:
        place = commit_with_id(branches, reference).place
    except NotFound as error:
        raise NotFound("branch or commit", reference) from error
    try:
        with branches.log(place.branch).noticing_deletion():
            branches.manifest_at(place)
    except NotFound as error:
        raise no_snapshot(reference, place.branch, error) from error
    return place


def is_there(branches: Branches, place: Place) -> bool:
    """Whether the manifest of a commit exists; its branch may have been deleted."""
    try:
        branches.manifest_at(place)
    except NotFound:
        return False
    return True


def named_branch(branches: Branches, reference: str) -> str:
    """The branch that a name is, or else the one that the commit of that id or tag was made on."""
    with suppress(NotFound, UsageError):
        branches.log(reference)
        return reference
    return commit_with_id(branches, reference).branch


def commit_at(branches: Branches, reference: str) -> Commit:
    """The newest commit of a branch, or the one that an id or a tag names; its data may be gone."""
    with suppress(NotFound, UsageError):
        log = branches.log(reference)
        with log.noticing_deletion():
            return log.head().commit
    return commit_with_id(branches, reference)


def create(graph: Location, branches: Branches, name: str, from_: str) -> BranchInfo:
    """A new branch at a branch's head or at a commit. It shares every table until it writes one."""
    check_branch_name(name)
    if name == MAIN:
        raise UsageError(f"`{MAIN}` always exists")
    with holding_history(graph, "branch create"), ExitStack() as held:
        # The branch that it begins on must not be deleted meanwhile. Every creation takes both locks in the same order.
        for each in sorted({name, place_of(branches, from_).branch}):
            held.enter_context(WriteFence(graph, each, "branch create")).take([EXISTENCE])
        remove_stale_schema_lock(branches)
        if name in branches.names():
            raise BranchExists(name)
        if tag_named(graph, name) is not None:
            raise TagExists(name)
        place = place_of(branches, from_)
        _check_whole(branches, place)
        branches.create(name, place)
        failpoints.hit(Point.BRANCH_CREATED)
    return describe_branch(branches, CommitGraph(branches), name)


def _check_whole(branches: Branches, place: Place) -> None:
    """Raises where something of a commit was removed; a branch there would have tables that cannot be read."""
    if place.version == branches.log(place.branch).head().version:
        return
    snapshot = branches.snapshot(branches.manifest_at(place))
    if missing := snapshot.missing_tables():
        raise NotFound("whole snapshot of commit", snapshot.commit_id, f"{', '.join(missing)}: {REMOVED}")


@contextmanager
def branch_for_write(graph: Location, branches: Branches, name: str, from_: str | None) -> Iterator[None]:
    """A branch for a write: with `from_`, it is created there if it does not exist, and goes again if the block fails.

    A branch that has other commits by then, or on which another branch began, stays.
    """
    head = None
    if from_ is not None:
        with suppress(BranchExists):
            head = create(graph, branches, name, from_).head.graph_commit_id
    try:
        yield
    except BaseException as error:
        if head is not None:
            try:
                delete(graph, branches, name, if_commit=head)
            except OmnigraphError as problem:
                error.add_note(f"the new branch `{name}` was not deleted: {problem}")
        raise


def list_branches(branches: Branches) -> list[BranchInfo]:
    """All branches, `main` first; one that is deleted meanwhile is not among them."""
    graph = CommitGraph(branches)
    found = []
    for name in branches.names():
        with suppress(NotFound):
            found.append(describe_branch(branches, graph, name))
    return found


def describe_branch(branches: Branches, graph: CommitGraph, name: str) -> BranchInfo:
    """One branch."""
    head = branches.log(name).head().commit
    ahead, behind = graph.ahead_behind(head, branches.main.head().commit)
    return BranchInfo(name=name, head=head, created_at=branches.created_at(name), ahead=ahead, behind=behind)


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
