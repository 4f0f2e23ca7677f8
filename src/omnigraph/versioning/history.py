"""The commits of a graph, and the manifest at any of them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime

from omnigraph.api.history import Commit
from omnigraph.errors import NotFound
from omnigraph.versioning.branches import Branches
from omnigraph.versioning.commit_graph import CommitGraph
from omnigraph.versioning.log import ManifestLog
from omnigraph.versioning.manifest import Manifest
from omnigraph.versioning.tags import tag_named


def commit_since(log: ManifestLog, commit_id: str, version: int) -> Commit | None:
    """A commit among those after a version of a branch; what it costs depends on how many these are."""
    for commit in newest_first(log):
        if commit.manifest_version <= version:
            return None
        if commit.graph_commit_id == commit_id:
            return commit
    return None


def newest_first(log: ManifestLog) -> Iterator[Commit]:
    """The commits of one branch, read in strides."""
    return log.commits_before(log.head())


def commit_with_id(branches: Branches, commit_id: str) -> Commit:
    """A commit of any branch, also of one that was deleted after it was merged; by its id, or by a tag."""
    if (tag := tag_named(branches.graph, commit_id)) is not None:
        branches.check_archived(tag.place)
        return branches.manifest_at(tag.place).commit
    logs = branches.logs()
    for log in logs:
        with suppress(NotFound), log.noticing_deletion():
            # Ids sort by time, so it is found by halving; but clocks of several machines may disagree.
            commit = _last_where(log, lambda commit: commit.graph_commit_id <= commit_id, log.head().version)
            if commit is not None and commit.graph_commit_id == commit_id:
                return commit
    graph = CommitGraph(branches)
    for log in logs:
        with suppress(NotFound), log.noticing_deletion():
            for commit in graph.reachable(log.head().commit):
                if commit.graph_commit_id == commit_id:
                    return commit
    raise NotFound("commit", commit_id)


def manifest_of_commit(branches: Branches, commit_id: str) -> Manifest:
    """The manifest that a commit made."""
    commit = commit_with_id(branches, commit_id)
    try:
        return branches.manifest_at(commit.place)
    except NotFound as error:
        raise no_snapshot(commit_id, commit.branch, error) from error


def no_snapshot(commit_id: str, branch: str, error: NotFound) -> NotFound:
    """Why the graph cannot be read as it was at a commit that is known."""
    reason = "cleanup has removed it" if error.kind == "version" else f"its branch `{branch}` was deleted"
    return NotFound("snapshot of commit", commit_id, reason)


def manifest_at_time(branches: Branches, log: ManifestLog, instant: datetime) -> Manifest:
    """The manifest that was the newest of a branch at an instant; before it was forked, that of its parent."""
    newest = log.head().version
    while True:
        commit = _last_where(log, lambda commit: commit.created_at <= instant, newest)
        if commit is not None:
            return log.at(commit.manifest_version)
        origin = log.origin
        if origin is None:
            raise NotFound("commit at", instant.isoformat(), "the graph is younger")
        log, newest = branches.log(origin.branch), origin.version


def _last_where(log: ManifestLog, holds: Callable[[Commit], bool], newest: int) -> Commit | None:
    """The newest commit of a branch that has a property which all older ones have too."""
    low, high = log.first_version, newest
    found: Commit | None = None
    while low <= high:
        middle = (low + high) // 2
        commit = log.commits_to(middle)[-1]
        if holds(commit):
            found, low = commit, middle + 1
        else:
            high = middle - 1
    return found
