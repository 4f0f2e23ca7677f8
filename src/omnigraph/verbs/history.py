"""Branches, tags and commits."""

from itertools import islice

from omnigraph.api import history
from omnigraph.api.base import MAIN
from omnigraph.branching import creation, finding
from omnigraph.branching import tags as tagging
from omnigraph.errors import NotFound
from omnigraph.lazy import importing
from omnigraph.policy import Action
from omnigraph.session.session import Session
from omnigraph.versioning import CommitGraph, commit_with_id
from omnigraph.versioning.tags import tag_named, tags

# --- branches ---


def create_branch(session: Session, request: history.BranchCreateRequest) -> history.BranchInfo:
    session.guard.check_fork(request.name, request.from_)
    return creation.create(session.location, session.branches, request.name, request.from_)


def delete_branch(session: Session, request: history.BranchDeleteRequest) -> None:
    with importing:
        from omnigraph.branching import deletion  # noqa: PLC0415 - Lance

    deletion.delete(session.location, session.branches, request.name)


def list_branches(session: Session, request: history.BranchListRequest) -> list[history.BranchInfo]:  # noqa: ARG001 - it asks for all
    found = finding.list_branches(session.branches)
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
