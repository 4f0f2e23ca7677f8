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
    """A commit after a version of a branch, or None. The cost depends on the number of commits after it."""
    for commit in newest_first(log):
        if commit.manifest <= version:
            return None
        if commit.graph_commit_id == commit_id:
            return commit
    return None


def newest_first(log: ManifestLog) -> Iterator[Commit]:
    """The commits of one branch, newest first, read many at a time."""
    return log.commits_before(log.head())


def commit_with_id(branches: Branches, commit_id: str) -> Commit:
    """A commit of any branch, including merged branches that were deleted; by its id, or by a tag."""
    if (tag := tag_named(branches.graph, commit_id)) is not None:
        branches.check_archived(tag.place)
        return branches.manifest_at(tag.place).commit
    logs = branches.logs()
    for log in logs:
        with suppress(NotFound), log.noticing_deletion():
            # Ids sort by time, so a binary search comes near it, unless the clocks of several machines disagree.
            newest = log.head().version
            near = _last_where(log, lambda commit: commit.graph_commit_id <= commit_id, newest)
            if near is not None:
                for commit in log.commits_to(min(near.manifest + 1, newest)):
                    if commit.graph_commit_id == commit_id:
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


def commit_of_version(log: ManifestLog, version: int) -> Commit:
    """The commit of a branch with this number.

    Most manifests publish one commit, so their distance says where to look next; every other look halves what is left.
    """
    newest = log.head()
    oldest = log.commits_to(log.first_version)[-1].manifest_version
    if not oldest <= version <= newest.commit.manifest_version:
        raise NotFound("version", str(version))
    low, high = log.first_version, newest.version
    guess, halve = newest.version - (newest.commit.manifest_version - version), False
    while low <= high:
        middle = (low + high) // 2 if halve else min(max(guess, low), high)
        commits = log.commits_to(middle)
        found = next((each for each in reversed(commits) if each.manifest_version <= version), None)
        if found is not None and found.manifest_version == version:
            return found
        if found is None:
            high, guess = middle - 1, commits[0].manifest - (commits[0].manifest_version - version)
        else:
            low, guess = middle + 1, middle + version - found.manifest_version
        halve = not halve
    raise NotFound("version", str(version))


def first_number(log: ManifestLog) -> int:
    """The number of the oldest state of a branch: that of the first commit, or of the one that the branch began at."""
    return log.commits_to(log.first_version)[-1].manifest_version


def commits_between(log: ManifestLog, after: int, up_to: int) -> list[Commit]:
    """The commits of a branch with the numbers after one up to another, oldest first. Cleanup removes none of them."""
    if up_to <= after:
        return []
    found: dict[int, Commit] = {}
    version = commit_of_version(log, up_to).manifest
    while version >= log.first_version:
        commits = log.commits_to(version)
        found.update((each.manifest_version, each) for each in commits if after < each.manifest_version <= up_to)
        if commits[0].manifest_version <= after + 1:
            break
        version = commits[0].manifest - 1
    return [found[number] for number in sorted(found)]


def manifest_after(log: ManifestLog, commit: Commit) -> Manifest:
    """The state of a branch after one of its commits, or after the one that the branch began at."""
    if log.origin is not None and commit.incarnation != log.incarnation:
        return log.at(log.first_version)
    return log.manifest_of(commit.place)


def manifest_of_version(log: ManifestLog, version: int) -> Manifest:
    """The state of the commit with this number."""
    try:
        return log.manifest_of(commit_of_version(log, version).place)
    except NotFound as error:
        raise NotFound("version", str(version), error.hint) from error


def manifest_at_time(branches: Branches, log: ManifestLog, instant: datetime) -> Manifest:
    """The newest manifest of a branch at a point in time; for a time before the fork, that of its parent."""
    newest = log.head().version
    while True:
        commit = _last_where(log, lambda commit: commit.created_at <= instant, newest)
        if commit is not None:
            return log.manifest_of(commit.place)
        origin = log.origin
        if origin is None:
            raise NotFound("commit at", instant.isoformat(), "the graph was created later")
        log, newest = branches.log(origin.branch), origin.version


def _last_where(log: ManifestLog, holds: Callable[[Commit], bool], newest: int) -> Commit | None:
    """The newest commit for which `holds` is true, by binary search: it must be true for all older commits."""
    low, high = log.first_version, newest
    found: Commit | None = None
    among_others: Commit | None = None
    while low <= high:
        middle = (low + high) // 2
        commits = log.commits_to(middle)
        if holds(commits[-1]):
            found, low = commits[-1], middle + 1
        else:
            high = middle - 1
            together = (each for each in reversed(commits) if each.manifest == commits[-1].manifest)
            among_others = next(filter(holds, together), among_others)
    # Of commits that were published together, it may be true for the first ones only.
    return among_others or found
