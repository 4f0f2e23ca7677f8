"""The parts of a graph that have verbs of their own: its schema, its commits, its branches."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Literal

from omnigraph.catalog import Catalog
from omnigraph.compiler import CompiledQuery, compile_query
from omnigraph.errors import UsageError
from omnigraph.operations.branches import BranchInfo, create, delete, listed
from omnigraph.operations.diff import Change, diff_snapshots
from omnigraph.operations.texts import text_of
from omnigraph.storage import Location
from omnigraph.syntax import QUERY
from omnigraph.versioning import MAIN, Branches, Commit, CommitGraph, Snapshot, commit_with_id

Mode = Literal["r", "rw"]
_KEPT_QUERIES = 256


def check_writable(mode: Mode) -> None:
    """Raises when a graph was opened for reading."""
    if mode == "r":
        raise UsageError("this graph was opened for reading")


class Schema:
    """The accepted schema of a graph."""

    def __init__(self, text: str, catalog: Catalog) -> None:
        self.text = text
        self.catalog = catalog


class CompiledQueries:
    """The queries that were asked of a graph last, compiled once as long as they are among them."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._kept: dict[tuple[str, str, str | None], CompiledQuery] = {}

    def compiled(self, source: str | Path, name: str | None) -> CompiledQuery:
        """A query of a source, which is a text or the path of one."""
        text, file = (source, "<query>") if isinstance(source, str) else (text_of(source, QUERY), str(source))
        key = (text, file, name)
        if key not in self._kept:
            if len(self._kept) >= _KEPT_QUERIES:
                self._kept.pop(next(iter(self._kept)), None)
            self._kept[key] = compile_query(text, self._catalog, name, name=file)
        return self._kept[key]


class Commits:
    """The history of a graph."""

    def __init__(self, branches: Branches, snapshot_at: Callable[[str], Snapshot]) -> None:
        self._branches = branches
        self._snapshot_at = snapshot_at

    def list(self, branch: str = MAIN, limit: int | None = None, actor: str | None = None) -> list[Commit]:
        """The commits that are part of a branch, also those that it merged; each before its parents."""
        if limit is not None and limit < 0:
            raise UsageError(f"a limit is not below zero: {limit}")
        commits = CommitGraph(self._branches).reachable(self._branches.log(branch).head().commit)
        chosen = (commit for commit in commits if actor is None or commit.actor == actor)
        return [*islice(chosen, limit)]

    def show(self, commit_id: str) -> Commit:
        """One commit."""
        return commit_with_id(self._branches, commit_id)

    def changes(self, commit_id: str) -> Iterator[Change]:
        """What a commit changed, against the one before it; the first has changed nothing."""
        commit = self.show(commit_id)
        if commit.parent_commit_id is None:
            return iter(())
        return diff_snapshots(self._snapshot_at(commit.parent_commit_id), self._snapshot_at(commit_id))


class GraphBranches:
    """The branches of a graph."""

    def __init__(self, location: Location, branches: Branches, mode: Mode) -> None:
        self._location = location
        self._branches = branches
        self._mode = mode

    def create(self, name: str, from_: str = MAIN) -> BranchInfo:
        """A new branch at the head of a branch or at a commit; costs the same for any size of graph."""
        check_writable(self._mode)
        return create(self._location, self._branches, name, from_)

    def delete(self, name: str) -> None:
        """The end of a branch. Refused while others that began on it are there."""
        check_writable(self._mode)
        delete(self._location, self._branches, name)

    def list(self) -> list[BranchInfo]:
        """All branches with their heads, `main` first."""
        return listed(self._branches)
