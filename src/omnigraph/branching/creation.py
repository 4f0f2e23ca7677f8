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
from omnigraph.versioning import Branches, CommitGraph
from omnigraph.versioning.names import check_branch_name
from omnigraph.versioning.tags import tag_named
from omnigraph.write.fence import EXISTENCE, WriteFence
from omnigraph.write.retention import holding_history, remove_stale_schema_lock


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
