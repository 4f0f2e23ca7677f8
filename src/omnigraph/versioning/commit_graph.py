"""The graph of commits: parents, ancestors, and where two histories meet.

Commits are read in strides, as the manifests repeat them, and kept. Every commit has a greater generation than its
parents; so walking by generation, greatest first, meets a commit only after all its descendants, and what a question
costs follows how far two histories have diverged, not how long they are.
"""

import heapq
from collections.abc import Iterator
from dataclasses import replace

from omnigraph.errors import NotFound
from omnigraph.versioning.branches import Branches
from omnigraph.versioning.manifest import Commit, Place


class CommitGraph:
    """The commits that are reachable from any branch."""

    def __init__(self, branches: Branches) -> None:
        self._branches = branches
        self._known: dict[str, Commit] = {}

    def parents(self, commit: Commit) -> list[Commit]:
        """The parents of a commit: the one before it, and the one that it merged."""
        found = []
        if commit.parent_commit_id is not None:
            before = replace(commit.place, version=commit.manifest_version - 1)
            found.append(self._commit(commit.parent_commit_id, before))
        if commit.merged_parent_commit_id is not None and commit.merged_place is not None:
            found.append(self._commit(commit.merged_parent_commit_id, commit.merged_place))
        return found

    def reachable(self, head: Commit) -> Iterator[Commit]:
        """A commit and all its ancestors, descendants first."""
        queue = _Queue()
        queue.add(head)
        while (commit := queue.next()) is not None:
            yield commit
            for parent in self.parents(commit):
                queue.add(parent)

    def is_ancestor(self, older: Commit, newer: Commit) -> bool:
        """Whether everything of `older` is part of `newer`; a commit is its own ancestor."""
        for commit in self.reachable(newer):
            if commit.graph_commit_id == older.graph_commit_id:
                return True
            if commit.generation < older.generation:
                return False
        return False

    def merge_bases(self, ours: Commit, theirs: Commit) -> list[Commit]:
        """The nearest common ancestors: those that are no ancestors of another. Several after a criss-cross."""
        bases, _ = self._meeting(ours, theirs)
        return bases

    def ahead_behind(self, ours: Commit, theirs: Commit) -> tuple[int, int]:
        """How many commits only `ours` has, and how many only `theirs` has."""
        _, alone = self._meeting(ours, theirs)
        return alone

    def _meeting(self, ours: Commit, theirs: Commit) -> tuple[list[Commit], tuple[int, int]]:
        """Walks down from both at once until everything that is left is common to both."""
        mine, yours, stale = 1, 2, 4
        marks: dict[str, int] = {}
        queue = _Queue()
        for head, mark in ((ours, mine), (theirs, yours)):
            marks[head.graph_commit_id] = marks.get(head.graph_commit_id, 0) | mark
            queue.add(head)
        bases: list[Commit] = []
        alone = {mine: 0, yours: 0}
        while any(not marks[each.graph_commit_id] & stale for each in queue):
            commit = queue.next()
            assert commit is not None, "the queue has one that is not stale"
            mark = marks[commit.graph_commit_id]
            if mark in alone:
                alone[mark] += 1
            elif mark == mine | yours:
                bases.append(commit)
                mark |= stale
            for parent in self.parents(commit):
                marks[parent.graph_commit_id] = marks.get(parent.graph_commit_id, 0) | mark
                queue.add(parent)
        return bases, (alone[mine], alone[yours])

    def _commit(self, commit_id: str, near: Place) -> Commit:
        if commit_id not in self._known:
            self._read(near)
        if commit_id not in self._known:
            archive = self._branches.archive_of(near.incarnation)
            if archive is not None:
                self._read(archive.origin)
        try:
            return self._known[commit_id]
        except KeyError:
            raise NotFound("commit", commit_id, "its part of the history is gone") from None

    def _read(self, place: Place) -> None:
        """Gets to know the commits around a place."""
        try:
            commits = self._branches.commits_at(place)
        except NotFound:
            archive = self._branches.archive_of(place.incarnation)
            if archive is None:
                raise
            commits = archive.commits
        for commit in commits:
            self._known.setdefault(commit.graph_commit_id, commit)


class _Queue:
    """Commits by generation, greatest first, and then by time, newest first; each once."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, float, str], Commit]] = []
        self._added: set[str] = set()

    def __iter__(self) -> Iterator[Commit]:
        return (commit for _, commit in self._heap)

    def add(self, commit: Commit) -> None:
        if commit.graph_commit_id not in self._added:
            self._added.add(commit.graph_commit_id)
            order = (-commit.generation, -commit.created_at.timestamp(), commit.graph_commit_id)
            heapq.heappush(self._heap, (order, commit))

    def next(self) -> Commit | None:
        return heapq.heappop(self._heap)[1] if self._heap else None
