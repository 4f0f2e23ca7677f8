"""The parts of a graph that have verbs of their own: its schema, its commits, its branches, its tags."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from omnigraph.branching.branches import BranchInfo, commit_at, create, delete, listed
from omnigraph.branching.tags import create as create_tag
from omnigraph.branching.tags import delete as delete_tag
from omnigraph.catalog import Catalog
from omnigraph.changes.diff import Change, diff_snapshots
from omnigraph.compiler import CompiledQuery, compile_query
from omnigraph.diagnostics import Source
from omnigraph.errors import NotFound, UsageError
from omnigraph.evolution.apply import SchemaApplyResult
from omnigraph.evolution.migration import MigrationPlan, plan_between
from omnigraph.evolution.plan import SchemaTarget, new_schema, schema_of_main, schema_plan
from omnigraph.evolution.rows import with_violations
from omnigraph.graph.guard import GraphGuard
from omnigraph.parts.engine import Report, no_report
from omnigraph.policy import Action
from omnigraph.source_files import text_of
from omnigraph.storage import Location
from omnigraph.syntax import QUERY
from omnigraph.versioning import MAIN, Branches, Commit, CommitGraph, Snapshot, commit_with_id
from omnigraph.versioning.schemas import AcceptedSchema
from omnigraph.versioning.tags import Tag, tag_named, tags

Mode = Literal["r", "rw"]
At: TypeAlias = Snapshot | str | int | datetime | None
"""A state of the graph: a snapshot, the name of a branch, commit or tag, a version or a time; None is the newest."""
Located: TypeAlias = Callable[[At], tuple[Snapshot, str]]
"""What the parts of a graph ask it for: a state, and the branch that it belongs to."""

_KEPT_QUERIES, _KEPT_LETTERS = 256, 1 << 20


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

    def __init__(self, branches: Branches, located: Located, apply: ApplySchema, guard: GraphGuard) -> None:
        self._branches = branches
        self._located = located
        self._apply = apply
        self._guard = guard

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
            commit = commit_at(self._branches, at)
            self._guard.check_named(Action.READ, at)
        else:
            snapshot, branch = self._located(at)
            self._guard.check(Action.READ, branch)
            commit = snapshot.commit
        return self._branches.schemas.get(commit.schema_id)

    def plan(self, new: str | Path | Source, branch: str = MAIN) -> MigrationPlan:
        """What leads to another schema, a text or the path of one, with the rows that a branch has; changes nothing.

        The rows are checked by the rules that come.
        """
        snapshot, _ = self._located(branch)
        self._guard.check_types(Action.READ, snapshot, branch, None)
        return with_violations(snapshot, schema_plan(snapshot, new_schema(new)))

    def diff(self, left: At, right: At) -> MigrationPlan:
        """What leads from the schema of one commit, branch or snapshot to that of another."""
        before, after = self.at(left), self.at(right)
        return plan_between(before.catalog, after.catalog, Source(f"schema {after.number}", after.text))

    def apply(
        self,
        new: str | Path | Source,
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
        guard = self._guard.acting_as(actor)
        guard.check(Action.SCHEMA_APPLY, MAIN)
        if allow_data_loss:
            guard.check(Action.ADMIN, MAIN)
        target = new_schema(new, allow_data_loss=allow_data_loss)
        options = ApplyOptions(actor=guard.actor, engine=engine, report=report, if_commit=if_commit)
        return self._apply(target, MAIN, options)

    def catch_up(
        self, branch: str, *, actor: str | None = None, engine: str = "auto", report: Report = no_report
    ) -> SchemaApplyResult:
        """Gives a branch the schema of `main`, with its data, as one commit."""
        if branch == MAIN:
            raise UsageError(f"`{MAIN}` has no schema to catch up with; it is the one that others catch up with")
        guard = self._guard.acting_as(actor)
        guard.check(Action.SCHEMA_APPLY, branch)
        options = ApplyOptions(actor=guard.actor, engine=engine, report=report, if_commit=None)
        return self._apply(schema_of_main(self._branches), branch, options)


class CompiledQueries:
    """The queries that were asked of a graph last, compiled once as long as they are among them.

    Safe to share between threads. A source of many queries is kept once for each that was asked for, and counts so.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str, str, str | None], CompiledQuery] = OrderedDict()
        self._length = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def compiled(self, source: str | Path, name: str | None, at: Snapshot) -> CompiledQuery:
        """A query of a source, which is a text or the path of one, as the schema of a snapshot understands it."""
        if not isinstance(name, str | None):
            raise UsageError(f"the name of a query is a text, not {name!r}; parameters are given as `params={{…}}`")
        text, file = (source, "<query>") if isinstance(source, str) else (text_of(source, QUERY), str(source))
        key = (at.commit.schema_id, text, file, name)
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        found = compile_query(text, at.catalog, name, name=file)
        with self._lock:
            if key not in self._kept and len(text) <= _KEPT_LETTERS // 8:
                self._kept[key] = found
                self._length += len(text)
            while len(self._kept) > _KEPT_QUERIES or self._length > _KEPT_LETTERS:
                self._length -= len(self._kept.popitem(last=False)[0][1])
        return found


class Commits:
    """The history of a graph."""

    def __init__(self, branches: Branches, located: Located, guard: GraphGuard) -> None:
        self._branches = branches
        self._located = located
        self._guard = guard

    def list(self, branch: str = MAIN, limit: int | None = None, actor: str | None = None) -> list[Commit]:
        """The commits that are part of a branch, also those that it merged; each before its parents."""
        if limit is not None and limit < 0:
            raise UsageError(f"a limit is not below zero: {limit}")
        self._guard.check(Action.READ, branch)
        commits = CommitGraph(self._branches).reachable(self._branches.log(branch).head().commit)
        chosen = (commit for commit in commits if actor is None or commit.actor == actor)
        return [*islice(chosen, limit)]

    def show(self, commit_id: str) -> Commit:
        """One commit, by its id or a tag."""
        commit = commit_with_id(self._branches, commit_id)
        self._guard.check(Action.READ, commit.branch)
        return commit

    def changes(self, commit_id: str, types: Collection[str] | None = None) -> Iterator[Change]:
        """What a commit changed, against the one before it; the first has changed nothing."""
        commit = self.show(commit_id)
        if commit.parent_commit_id is None:
            return iter(())
        names = [types] if isinstance(types, str) else types
        before, after = (self._located(each)[0] for each in (commit.parent_commit_id, commit.graph_commit_id))
        for side in (before, after):
            self._guard.check_types(Action.READ, side, commit.branch, names)
        return diff_snapshots(before, after, names)


class GraphBranches:
    """The branches of a graph."""

    def __init__(self, location: Location, branches: Branches, mode: Mode, guard: GraphGuard) -> None:
        self._location = location
        self._branches = branches
        self._mode = mode
        self._guard = guard

    def create(self, name: str, from_: str = MAIN) -> BranchInfo:
        """A new branch at the head of a branch or at a commit; costs the same for any size of graph."""
        check_writable(self._mode)
        self._guard.check_fork(name, from_)
        return create(self._location, self._branches, name, from_)

    def delete(self, name: str) -> None:
        """The end of a branch. Refused while others that began on it are there."""
        check_writable(self._mode)
        self._guard.check(Action.BRANCH_DELETE, name)
        delete(self._location, self._branches, name)

    def list(self) -> list[BranchInfo]:
        """All branches that may be read with their heads, `main` first."""
        return [info for info in listed(self._branches) if self._guard.guard.allows(Action.READ, info.name)]


class GraphTags:
    """The tags of a graph. To a policy, a tag is a branch of its name."""

    def __init__(self, location: Location, branches: Branches, mode: Mode, guard: GraphGuard) -> None:
        self._location = location
        self._branches = branches
        self._mode = mode
        self._guard = guard

    def create(
        self, name: str, commit: str | int | None = None, *, message: str | None = None, actor: str | None = None
    ) -> Tag:
        """A name for a commit, which is kept as long as it has one.

        The commit is named by its id, a branch or another tag, or a version of `main`; without one it is the newest.
        """
        check_writable(self._mode)
        at = MAIN if commit is None else commit
        guard = self._guard.acting_as(actor)
        guard.check_begin(name, at)
        return create_tag(self._location, self._branches, name, at, message=message, actor=guard.actor)

    def delete(self, name: str) -> None:
        """The end of a tag. Its commit stays until a cleanup, and after that if something else keeps it."""
        check_writable(self._mode)
        self._guard.check(Action.BRANCH_DELETE, name)
        delete_tag(self._location, name)

    def show(self, name: str) -> Tag:
        """One tag."""
        self._guard.check(Action.READ)
        tag = tag_named(self._location, name)
        if tag is None:
            raise NotFound("tag", name)
        self._guard.check(Action.READ, tag.place.branch)
        return tag

    def list(self) -> list[Tag]:
        """All tags of commits that may be read, by name."""
        self._guard.check(Action.READ)
        return [tag for tag in tags(self._location) if self._guard.guard.allows(Action.READ, tag.place.branch)]
