"""The parts of a graph that have verbs of their own: its schema, its commits, its branches, its tags."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from omnigraph.bulk.engine import Report, no_report
from omnigraph.catalog import Catalog
from omnigraph.catalog.migration import MigrationPlan, plan_between
from omnigraph.compiler import CompiledQuery, compile_query
from omnigraph.diagnostics import Source
from omnigraph.errors import NotFound, UsageError
from omnigraph.operations.branches import BranchInfo, commit_at, create, delete, listed
from omnigraph.operations.diff import Change, diff_snapshots
from omnigraph.operations.schema_apply import SchemaApplyResult
from omnigraph.operations.schema_plan import SchemaTarget, new_schema, schema_of_main, schema_plan
from omnigraph.operations.schema_rows import with_violations
from omnigraph.operations.tags import create as create_tag
from omnigraph.operations.tags import delete as delete_tag
from omnigraph.operations.texts import text_of
from omnigraph.storage import Location
from omnigraph.syntax import QUERY
from omnigraph.versioning import MAIN, Branches, Commit, CommitGraph, Snapshot, commit_with_id
from omnigraph.versioning.schemas import AcceptedSchema
from omnigraph.versioning.tags import Tag, tag_named, tags

Mode = Literal["r", "rw"]
At: TypeAlias = Snapshot | str | int | datetime | None
"""A state of the graph: a snapshot, the name of a branch, commit or tag, a version or a time; None is the newest."""
_KEPT_QUERIES = 256


def check_writable(mode: Mode) -> None:
    """Raises when a graph was opened for reading."""
    if mode == "r":
        raise UsageError("this graph was opened for reading")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """By whom a schema is changed, where the work runs, and on top of which commit."""

    actor: str | None
    engine: str
    report: Report
    if_commit: str | None


ApplySchema: TypeAlias = Callable[[SchemaTarget, str, ApplyOptions], SchemaApplyResult]
"""What `Schema` asks of its graph to change it, for the branch of a name."""


class Schema:
    """The schema of a graph: what it is, what it was, and how it changes."""

    def __init__(self, branches: Branches, resolved: Callable[[At], Snapshot], apply: ApplySchema) -> None:
        self._branches = branches
        self._resolved = resolved
        self._apply = apply

    @property
    def text(self) -> str:
        """The accepted schema of `main`, as it was written."""
        return self.at().text

    @property
    def catalog(self) -> Catalog:
        """What it means."""
        return self.at().catalog

    def at(self, at: At = None) -> AcceptedSchema:
        """The schema of `main`, or of a branch, a snapshot, commit, version or time."""
        if isinstance(at, str):
            return self._branches.schemas.get(commit_at(self._branches, at).schema_id)
        return self._branches.schemas.get(self._resolved(at).commit.schema_id)

    def plan(self, new: str | Path, branch: str = MAIN) -> MigrationPlan:
        """What leads to another schema, a text or the path of one, with the rows that a branch has; changes nothing.

        The rows are checked by the rules that come.
        """
        snapshot = self._resolved(branch)
        return with_violations(snapshot, schema_plan(snapshot, new_schema(new)))

    def diff(self, left: At, right: At) -> MigrationPlan:
        """What leads from the schema of one commit, branch or snapshot to that of another."""
        before, after = self.at(left), self.at(right)
        return plan_between(before.catalog, after.catalog, Source(f"schema {after.number}", after.text))

    def apply(
        self,
        new: str | Path,
        *,
        allow_data_loss: bool = False,
        actor: str | None = None,
        if_commit: str | None = None,
        engine: str = "auto",
        report: Report = no_report,
    ) -> SchemaApplyResult:
        """Makes a text, or the file that a path leads to, the schema of `main`, with its data, as one commit.

        What is dropped can still be read in the history; with `allow_data_loss`, it is removed from there too. Other
        branches keep the schema that they have. With `if_commit`, it is done only on top of that commit.
        """
        target = new_schema(new, allow_data_loss=allow_data_loss)
        return self._apply(target, MAIN, ApplyOptions(actor=actor, engine=engine, report=report, if_commit=if_commit))

    def catch_up(
        self, branch: str, *, actor: str | None = None, engine: str = "auto", report: Report = no_report
    ) -> SchemaApplyResult:
        """Gives a branch the schema of `main`, with its data, as one commit."""
        if branch == MAIN:
            raise UsageError(f"`{MAIN}` has no schema to catch up with; it is the one that others catch up with")
        options = ApplyOptions(actor=actor, engine=engine, report=report, if_commit=None)
        return self._apply(schema_of_main(self._branches), branch, options)


class CompiledQueries:
    """The queries that were asked of a graph last, compiled once as long as they are among them."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str, str | None], CompiledQuery] = {}

    def compiled(self, source: str | Path, name: str | None, at: Snapshot) -> CompiledQuery:
        """A query of a source, which is a text or the path of one, as the schema of a snapshot understands it."""
        text, file = (source, "<query>") if isinstance(source, str) else (text_of(source, QUERY), str(source))
        key = (at.commit.schema_id, text, file, name)
        if key not in self._kept:
            if len(self._kept) >= _KEPT_QUERIES:
                self._kept.pop(next(iter(self._kept)), None)
            self._kept[key] = compile_query(text, at.catalog, name, name=file)
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
        """One commit, by its id or a tag."""
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


class GraphTags:
    """The tags of a graph."""

    def __init__(self, location: Location, branches: Branches, mode: Mode) -> None:
        self._location = location
        self._branches = branches
        self._mode = mode

    def create(
        self, name: str, commit: str | int | None = None, *, message: str | None = None, actor: str | None = None
    ) -> Tag:
        """A name for a commit, which is kept as long as it has one.

        The commit is named by its id, a branch or another tag, or a version of `main`; without one it is the newest.
        """
        check_writable(self._mode)
        at = MAIN if commit is None else commit
        return create_tag(self._location, self._branches, name, at, message=message, actor=actor)

    def delete(self, name: str) -> None:
        """The end of a tag. Its commit stays until a cleanup, and after that if something else keeps it."""
        check_writable(self._mode)
        delete_tag(self._location, name)

    def show(self, name: str) -> Tag:
        """One tag."""
        tag = tag_named(self._location, name)
        if tag is None:
            raise NotFound("tag", name)
        return tag

    def list(self) -> list[Tag]:
        """All tags, by name."""
        return tags(self._location)
