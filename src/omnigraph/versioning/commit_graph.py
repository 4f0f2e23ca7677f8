"""The graph of commits: parents, ancestors and merge bases.

Each manifest repeats the commits before it, so commits are read many at a time, and kept. Every commit has a greater
generation than its parents. So a walk by generation, greatest first, reaches a commit only after all its descendants,
and its cost depends on how far two histories have diverged, not on how long they are.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from operator import or_

from omnigraph.api.history import Commit, Place
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import NotFound
from omnigraph.versioning.branches import Branches


@dataclass(frozen=True, slots=True)
class MergePoint:
    """A commit that may be a merge base of two of several heads.

    A set of heads is a number with one bit for each head. `all` is the set of heads that have the commit, and `shares`
    has the same set for each child of the commit.
    """

    commit: Commit
    all: int
    shares: tuple[int, ...]

    def heads(self) -> Iterator[int]:
        """The heads, by their positions in the list, for which it is a merge base with another head."""
        return (number for number in _members(self.all) if self._partners(number) != self.all)

    @property
    def is_base(self) -> bool:
        """Whether it is a merge base: two heads have it, and no child of it is in both."""
        if self.all & (self.all - 1) == 0 or self.all in self.shares:
            return False
        return next(self.heads(), None) is not None

    def _partners(self, number: int) -> int:
        """The heads that share a child of this commit with the given head."""
        return reduce(or_, (share for share in self.shares if share >> number & 1), 0)


class CommitGraph:
    """The commits that are reachable from any branch."""

    def __init__(self, branches: Branches, known: Iterable[Commit] = ()) -> None:
        self._branches = branches
        self._known = {each.graph_commit_id: each for each in known}

    def parents(self, commit: Commit) -> list[Commit]:
        """The parents of a commit: the one before it, and the one that it merged."""
        return [self._commit(commit_id, near) for commit_id, near in _parents_of(commit)]

    def reachable(self, head: Commit) -> Iterator[Commit]:
        """A commit and all its ancestors, descendants first."""
        queue = _Queue()
        queue.add(head)
        while (commit := queue.next()) is not None:
            yield commit
            for parent in self.parents(commit):
                queue.add(parent)

    def is_ancestor(self, older: Commit, newer: Commit) -> bool:
        """Whether `older` is an ancestor of `newer`; a commit is its own ancestor."""
        for commit in self.reachable(newer):
            if commit.graph_commit_id == older.graph_commit_id:
                return True
            if commit.generation < older.generation:
                return False
        return False

    def merge_bases(self, ours: Commit, theirs: Commit) -> list[Commit]:
        """The nearest common ancestors: those that are not ancestors of another. Several after a criss-cross."""
        bases, _ = self._meeting(ours, theirs)
        return bases

    def meetings(self, heads: Sequence[Commit]) -> Iterator[MergePoint]:
        """The merge bases of every two of these commits, in one walk down from all of them.

        A commit is the merge base of two heads that both have it, if none of its children is in both. Ancestors of a
        commit that all heads have are not visited, and a commit whose parents were removed has none.
        """
        everybody = (1 << len(heads)) - 1
        own: dict[str, int] = {}
        shares: dict[str, list[int]] = {}
        stale: set[str] = set()
        queue = _Queue()
        for number, head in enumerate(heads):
            own[head.graph_commit_id] = own.get(head.graph_commit_id, 0) | 1 << number
            queue.add(head)
        fresh = {*own}
        while fresh:
            commit = queue.next()
            assert commit is not None, "the queue has a commit that is not stale"
            identity = commit.graph_commit_id
            fresh.discard(identity)
            of_children = shares.pop(identity, [])
            all_heads = reduce(or_, of_children, own.get(identity, 0))
            if identity not in stale:
                meeting = MergePoint(commit, all_heads, tuple(of_children))
                if meeting.is_base:
                    yield meeting
            for parent in self.known_parents(commit):
                before = parent.graph_commit_id
                shares.setdefault(before, []).append(all_heads)
                if identity in stale or all_heads == everybody:
                    stale.add(before)
                    fresh.discard(before)
                elif before not in stale:
                    fresh.add(before)
                queue.add(parent)

    def later_commits(self, bounds: Sequence[tuple[Commit, int]]) -> Iterator[Commit]:
        """The given commits and their ancestors whose generation is greater than the bound given with each commit."""
        least: dict[str, int] = {}
        queue = _Queue()

        def add(commit: Commit, bound: int) -> None:
            if commit.generation > bound:
                least[commit.graph_commit_id] = min(bound, least.get(commit.graph_commit_id, bound))
                queue.add(commit)

        for head, bound in bounds:
            add(head, bound)
        while (commit := queue.next()) is not None:
            yield commit
            for parent in self.known_parents(commit):
                add(parent, least[commit.graph_commit_id])

    def known_parents(self, commit: Commit) -> list[Commit]:
        """The parents of a commit, without those whose part of the history was removed."""
        found = []
        for commit_id, near in _parents_of(commit):
            with suppress(NotFound):
                found.append(self._commit(commit_id, near))
        return found

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
            assert commit is not None, "the queue has a commit that is not stale"
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
        if commit_id not in self._known and near.version > 1:
            # Until layout 4, a version did not always repeat the commit before those that it was read for.
            with suppress(NotFound):
                self._read(replace(near, version=near.version - 1, ahead=0))
        if commit_id not in self._known:
            archive = self._branches.archive_of(near.incarnation)
            if archive is not None:
                self._read(archive.origin)
        try:
            return self._known[commit_id]
        except KeyError:
            raise NotFound("commit", commit_id, "its part of the history was removed") from None

    def _read(self, place: Place) -> None:
        """Reads the commits around a place."""
        try:
            commits = self._branches.commits_at(place)
        except NotFound:
            archive = self._branches.archive_of(place.incarnation)
            if archive is None:
                self._branches.check_archived(place)
                raise
            commits = archive.commits
        for commit in commits:
            self._known.setdefault(commit.graph_commit_id, commit)


def _parents_of(commit: Commit) -> Iterator[tuple[str, Place]]:
    """The ids of the parents of a commit, each with a place near which it is recorded."""
    if commit.parent_commit_id is not None:
        yield commit.parent_commit_id, commit.place
    if commit.merged_parent_commit_id is not None and commit.merged_place is not None:
        yield commit.merged_parent_commit_id, commit.merged_place


def _members(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


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
