"""Finds branches and commits by their names, and describes branches."""

from contextlib import suppress

from omnigraph.api.history import BranchInfo, Commit, Place
from omnigraph.errors import NotFound, UsageError
from omnigraph.versioning import Branches, CommitGraph, commit_with_id, no_snapshot


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
