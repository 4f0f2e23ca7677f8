"""Creates branches."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from omnigraph import failpoints
from omnigraph.api.base import MAIN
from omnigraph.api.history import BranchInfo, Place
from omnigraph.branching.finding import describe_branch, place_of
from omnigraph.errors import BranchExists, NotFound, OmnigraphError, TagExists, UsageError
from omnigraph.failpoints import Point
from omnigraph.lazy import importing
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches, CommitGraph, ManifestLog
from omnigraph.versioning.names import check_branch_name
from omnigraph.versioning.tags import tag_named
from omnigraph.write.fence import EXISTENCE, WriteFence
from omnigraph.write.retention import holding_history, remove_stale_schema_lock


def create(graph: Location, branches: Branches, name: str, from_: str) -> BranchInfo:
    """A new branch at a branch's head or at a commit. It shares every table until it writes one."""
    check_branch_name(name)
    if name == MAIN:
        raise UsageError(f"`{MAIN}` always exists")
    if graph.path is None and (parent := _branch_named(branches, from_)) is not None:
        return _create_at_head(graph, branches, name, parent)
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
        branches.create(name, place, branches.manifest_at(place))
        failpoints.hit(Point.BRANCH_CREATED)
    return describe_branch(branches, CommitGraph(branches), name)


def _branch_named(branches: Branches, name: str) -> ManifestLog | None:
    with suppress(NotFound, UsageError):
        return branches.log(name)
    return None


def _create_at_head(graph: Location, branches: Branches, name: str, parent: ManifestLog) -> BranchInfo:
    """A new branch at the head of another, on a store, where each lock would take three requests.

    Whoever could take away what it begins on first publishes a version of its parent, or keeps for some time what was
    the head, and then looks which branches there are. So if the head is the same after the branch is there, they see
    it. If it is not, this is decided under their locks. A tag of the same name looks for the branch in the same way.
    """
    with parent.noticing_deletion():
        head = parent.head()
    with branches.creating(name, Place(parent.branch, parent.incarnation, head.version), head) as ref:
        if tag_named(graph, name) is not None:
            raise TagExists(name)
        parent.check_exists()
        newest = parent.head()
        if newest.version != head.version:
            with holding_history(graph, "branch create"), WriteFence(graph, parent.branch, "branch create") as fence:
                fence.take([EXISTENCE])
                parent.check_exists()
                _check_whole(branches, ref.origin)
    failpoints.hit(Point.BRANCH_CREATED)
    main = newest if parent is branches.main else branches.main.head()
    commits = CommitGraph(branches, [*head.commits, *main.commits])
    ahead, behind = commits.ahead_behind(head.commit, main.commit)
    return BranchInfo(name=name, head=head.commit, created_at=ref.created_at, ahead=ahead, behind=behind)


def _check_whole(branches: Branches, place: Place) -> None:
    """Raises where something of a commit was removed; a branch there would have tables that cannot be read."""
    if place.version == branches.log(place.branch).head().version:
        return
    snapshot = branches.snapshot(branches.manifest_at(place))
    if missing := snapshot.missing_tables():
        with importing:
            from omnigraph.versioning.removal import REMOVED  # noqa: PLC0415 - Lance

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
            with importing:
                from omnigraph.branching.deletion import delete  # noqa: PLC0415 - Lance

            try:
                delete(graph, branches, name, if_commit=head)
            except OmnigraphError as problem:
                error.add_note(f"the new branch `{name}` was not deleted: {problem}")
        raise
