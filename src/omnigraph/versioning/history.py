"""The commits of a graph, and the manifest at any of them."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime

from omnigraph.errors import NotFound
from omnigraph.versioning.branches import Branches
from omnigraph.versioning.commit_graph import CommitGraph
from omnigraph.versioning.log import ManifestLog
from omnigraph.versioning.manifest import Commit, Manifest


def commit_since(log: ManifestLog, commit_id: str, version: int) -> Commit | None:
    """A commit among those after a version of a branch; what it costs depends on how many these are."""
    for commit in _newest_first(log):
        if commit.manifest_version <= version:
            return None
        if commit.graph_commit_id == commit_id:
            return commit
    return None


def _newest_first(log: ManifestLog) -> Iterator[Commit]:
    """The commits of one branch, read in strides."""
    manifest = log.head()
    while True:
        yield from reversed(manifest.commits)
        before = manifest.commits[0].manifest_version - 1
        if before < log.first_version:
            return
        manifest = log.at(before)


def commit_with_id(branches: Branches, commit_id: str) -> Commit:
    """A commit of any branch, also of one that was deleted after it was merged."""
    logs = _logs(branches)
    for log in logs:
        # Ids sort by time, so it is found by halving; but clocks of several machines may disagree.
        manifest = _last_where(log, lambda commit: commit.graph_commit_id <= commit_id, log.head().version)
        if manifest is not None and manifest.commit.graph_commit_id == commit_id:
            return manifest.commit
    graph = CommitGraph(branches)
    for log in logs:
        for commit in graph.reachable(log.head().commit):
            if commit.graph_commit_id == commit_id:
                return commit
    raise NotFound("commit", commit_id)


def _logs(branches: Branches) -> list[ManifestLog]:
    """All branches; one that is deleted meanwhile is not among them."""
    found = []
    for name in branches.names():
        with suppress(NotFound):
            found.append(branches.log(name))
    return found


def manifest_of_commit(branches: Branches, commit_id: str) -> Manifest:
    """The manifest that a commit made."""
    commit = commit_with_id(branches, commit_id)
    try:
        return branches.manifest_at(commit.place)
    except NotFound as error:
        raise NotFound("snapshot of commit", commit_id, f"its branch `{commit.branch}` was deleted") from error


def manifest_at_time(branches: Branches, log: ManifestLog, instant: datetime) -> Manifest:
    """The manifest that was the newest of a branch at an instant; before it was forked, that of its parent."""
    newest = log.head().version
    while True:
        manifest = _last_where(log, lambda commit: commit.created_at <= instant, newest)
        if manifest is not None:
            return manifest
        origin = log.origin
        if origin is None:
            raise NotFound("commit at", instant.isoformat(), "the graph is younger")
        log, newest = branches.log(origin.branch), origin.version


def _last_where(log: ManifestLog, holds: Callable[[Commit], bool], newest: int) -> Manifest | None:
    """The newest manifest of a branch whose commit holds a property that all older ones hold too."""
    low, high = log.first_version, newest
    found: Manifest | None = None
    while low <= high:
        middle = (low + high) // 2
        manifest = log.at(middle)
        if holds(manifest.commit):
            found, low = manifest, middle + 1
        else:
            high = middle - 1
    return found
