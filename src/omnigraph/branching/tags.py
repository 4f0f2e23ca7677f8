"""Creates and deletes tags."""

from datetime import UTC, datetime

from omnigraph.api.base import MAIN
from omnigraph.api.history import Tag
from omnigraph.branching.finding import place_of
from omnigraph.errors import BranchExists
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches, commit_of_version
from omnigraph.versioning.names import as_text, check_actor, physical_name
from omnigraph.versioning.tags import check_tag_name, delete_tag, write_tag
from omnigraph.write.fence import EXISTENCE, WriteFence
from omnigraph.write.retention import holding_history


def create(
    graph: Location, branches: Branches, name: str, at: str | int = MAIN, *, message: str | None, actor: str | None
) -> Tag:
    """A tag for the head of a branch, a commit, what another tag names, or a version of `main`.

    Old commits, and the branch that the commit is on, cannot be removed while it is created.
    """
    check_tag_name(name)
    check_actor(actor)
    with holding_history(graph, "tag create"):
        reference = commit_of_version(branches.main, at).graph_commit_id if isinstance(at, int) else at
        with WriteFence(graph, place_of(branches, reference).branch, "tag create") as fence:
            fence.take([EXISTENCE])
            if name in branches.names():
                raise BranchExists(name)
            place = place_of(branches, reference)
            commit = branches.manifest_at(place).commit
            tag = Tag(
                name=name,
                commit_id=commit.graph_commit_id,
                branch=place.branch,
                manifest_version=commit.manifest_version,
                place=place,
                created_at=datetime.now(UTC),
                actor=actor,
                message=None if message is None else as_text(message),
            )
            write_tag(graph, tag)
            if graph.path is None and branches.refs.get(physical_name(name)) is not None:
                # On a store, a branch is created without a lock; it looks for a tag of its name as well.
                delete_tag(graph, name)
                raise BranchExists(name)
    return tag


def delete(graph: Location, name: str) -> None:
    """The end of a tag. Cleanup may then remove its commit, if nothing else keeps it."""
    with holding_history(graph, "tag delete"):
        delete_tag(graph, name)
