"""Branches, tags, commits, and what changed between states."""

from collections.abc import Iterator
from itertools import islice

from omnigraph.api import history
from omnigraph.api.base import MAIN
from omnigraph.branching import branches as branching
from omnigraph.branching import tags as tagging
from omnigraph.changes import blocks_after, diff_snapshots
from omnigraph.errors import NotFound
from omnigraph.policy import Action
from omnigraph.session.session import Session, type_names
from omnigraph.versioning import CommitGraph, Manifest, Snapshot, commit_with_id
from omnigraph.versioning.tags import tag_named, tags

# --- branches ---


def create_branch(session: Session, request: history.BranchCreateRequest) -> history.BranchInfo:
    session.guard.check_fork(request.name, request.from_)
    return branching.create(session.location, session.branches, request.name, request.from_)


def delete_branch(session: Session, request: history.BranchDeleteRequest) -> None:
    branching.delete(session.location, session.branches, request.name)


def list_branches(session: Session, request: history.BranchListRequest) -> list[history.BranchInfo]:  # noqa: ARG001 - it asks for all
    found = branching.list_branches(session.branches)
    return [info for info in found if session.guard.guard.allows(Action.READ, info.name)]


# --- tags ---


def create_tag(session: Session, request: history.TagCreateRequest) -> history.Tag:
    at = MAIN if request.commit is None else request.commit
    session.guard.check_begin(request.name, at)
    return tagging.create(
        session.location, session.branches, request.name, at, message=request.message, actor=session.guard.actor
    )


def delete_tag(session: Session, request: history.TagDeleteRequest) -> None:
    tagging.delete(session.location, request.name)


def show_tag(session: Session, request: history.TagShowRequest) -> history.Tag:
    tag = tag_named(session.location, request.name)
    if tag is None:
        raise NotFound("tag", request.name)
    session.guard.check(Action.READ, tag.branch)
    return tag


def list_tags(session: Session, request: history.TagListRequest) -> list[history.Tag]:  # noqa: ARG001 - it asks for all
    return [tag for tag in tags(session.location) if session.guard.guard.allows(Action.READ, tag.branch)]


# --- commits ---


def list_commits(session: Session, request: history.CommitListRequest) -> list[history.Commit]:
    commits = CommitGraph(session.branches).reachable(session.branches.log(request.branch).head().commit)
    wanted = (commit for commit in commits if request.actor is None or commit.actor == request.actor)
    return [*islice(wanted, request.limit)]


def show_commit(session: Session, request: history.CommitShowRequest) -> history.Commit:
    commit = commit_with_id(session.branches, request.commit_id)
    session.guard.check(Action.READ, commit.branch)
    return commit


def commit_changes(session: Session, request: history.CommitChangesRequest) -> Iterator[history.Change]:
    commit = show_commit(session, history.CommitShowRequest(request.commit_id))
    if commit.parent_commit_id is None:
        return iter(())
    names = type_names(request.types)
    before, after = (session.locate(each)[0] for each in (commit.parent_commit_id, commit.graph_commit_id))
    for side in (before, after):
        session.guard.check_types(Action.READ, side, commit.branch, names)
    return diff_snapshots(before, after, names)


# --- changes ---


def diff(session: Session, request: history.DiffRequest) -> Iterator[history.Change]:
    names = type_names(request.types)
    (before, _), (after, _) = sides = session.locate(request.left), session.locate(request.right)
    for snapshot, branch in sides:
        session.guard.check_types(Action.READ, snapshot, branch, names)
    return session.watch_removal(diff_snapshots(before, after, names), before, after)


def changes(session: Session, request: history.ChangesRequest) -> Iterator[history.ChangeBlock]:
    names = type_names(request.types)

    def readable(manifest: Manifest) -> Snapshot:
        snapshot = session.snapshot(manifest)
        session.guard.check_types(Action.READ, snapshot, request.branch, names)
        return snapshot

    log = session.branches.log(request.branch)
    readable(log.head())
    return blocks_after(log, readable, request.cursor, names)
