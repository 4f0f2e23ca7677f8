"""The commits of a graph, and the manifest at any of them."""

from collections.abc import Callable, Iterator
from datetime import datetime

from omnigraph.errors import NotFound
from omnigraph.versioning.log import FIRST_VERSION, ManifestLog
from omnigraph.versioning.manifest import Commit, Manifest


def commits_from(log: ManifestLog, newest: Manifest) -> Iterator[Commit]:
    """The commits up to a manifest, newest first; read in strides, so that a long history needs few reads."""
    manifest = newest
    while True:
        yield from reversed(manifest.commits)
        before = manifest.commits[0].manifest_version - 1
        if before < FIRST_VERSION:
            return
        manifest = log.at(before)


def manifest_of_commit(log: ManifestLog, commit_id: str) -> Manifest:
    """The manifest that a commit made; ids sort by time, so it is found by halving."""
    manifest = _last_where(log, lambda commit: commit.graph_commit_id <= commit_id)
    if manifest is not None and manifest.commit.graph_commit_id == commit_id:
        return manifest
    # Clocks of several machines may disagree, and then ids do not sort exactly.
    for commit in commits_from(log, log.head()):
        if commit.graph_commit_id == commit_id:
            return log.at(commit.manifest_version)
    raise NotFound("commit", commit_id)


def commit_since(log: ManifestLog, commit_id: str, version: int) -> Commit | None:
    """A commit among those after a version of the manifest; what it costs depends on how many these are."""
    for commit in commits_from(log, log.head()):
        if commit.manifest_version <= version:
            return None
        if commit.graph_commit_id == commit_id:
            return commit
    return None


def manifest_at_time(log: ManifestLog, instant: datetime) -> Manifest:
    """The manifest that was the newest at an instant."""
    manifest = _last_where(log, lambda commit: commit.created_at <= instant)
    if manifest is None:
        raise NotFound("commit at", instant.isoformat(), "the graph is younger")
    return manifest


def _last_where(log: ManifestLog, holds: Callable[[Commit], bool]) -> Manifest | None:
    """The newest manifest whose commit holds a property that all older ones hold too."""
    low, high = FIRST_VERSION, log.head().version
    found: Manifest | None = None
    while low <= high:
        middle = (low + high) // 2
        manifest = log.at(middle)
        if holds(manifest.commit):
            found, low = manifest, middle + 1
        else:
            high = middle - 1
    return found
