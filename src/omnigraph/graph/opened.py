"""An open graph: what every verb needs of it, which is its state, its snapshots and its writes."""

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal, Self, TypeVar

from omnigraph.branching.branches import named_branch, place_of
from omnigraph.compiler import CompiledQuery
from omnigraph.errors import Damaged, ExpectedVersionMismatch, SchemaChanged, UsageError
from omnigraph.graph.guard import GraphGuard
from omnigraph.graph.handles import At, Commits, CompiledQueries, GraphBranches, GraphTags, Mode, check_writable
from omnigraph.graph.writes import WriteRequest, Writes, open_for_writing
from omnigraph.policy import Action, Guard, Policy
from omnigraph.query import AdjacencyCache
from omnigraph.recovery import Recoveries
from omnigraph.storage import Location
from omnigraph.versioning import MAIN, Branches, Manifest, Snapshot, manifest_at_time, manifest_of_commit
from omnigraph.versioning.kept import opened_tables
from omnigraph.write import WriteAttempt
from omnigraph.write.fence import EXISTENCE

Durability = Literal["full", "fast"]
_Result = TypeVar("_Result")

_SCHEMA_ATTEMPTS = 4


class OpenGraph:
    """The state of a graph that is open. Its verbs are those of `Graph`."""

    def __init__(self, location: Location, mode: Mode, guard: Guard) -> None:
        self._location = location
        self._mode = mode
        self._branches = Branches(location)
        self._guard = GraphGuard(guard, self._branches)
        self._writes = Writes(location, self._branches)
        self._queries = CompiledQueries()
        self._adjacency = AdjacencyCache(heads=self._branches.head_versions)
        self._opened = opened_tables(self._branches.head_versions)

        # Of a damaged graph, other branches and old commits may be whole, and `verify` says which.
        with suppress(Damaged) if mode == "r" else nullcontext():
            self._branches.main.head()
        if mode == "rw":
            open_for_writing(location, self._branches)

    def acting_as(self, actor: str) -> Self:
        """The same graph for somebody: what they may not do is denied, and what is written is by them.

        It shares everything that is open with this one, and costs nothing.
        """
        view = copy.copy(self)
        view._guard = self._guard.acting_as(actor)
        return view

    def under(self, policy: Policy | None) -> Self:
        """The same graph under another policy, or under none; it shares everything too."""
        view = copy.copy(self)
        view._guard = replace(self._guard, guard=replace(self._guard.guard, policy=policy))
        return view

    # --- its parts ---

    @property
    def commits(self) -> Commits:
        """The history."""
        return Commits(self._branches, self._located, self._guard)

    @property
    def branches(self) -> GraphBranches:
        """The branches."""
        return GraphBranches(self._location, self._branches, self._mode, self._guard)

    @property
    def tags(self) -> GraphTags:
        """The tags."""
        return GraphTags(self._location, self._branches, self._mode, self._guard)

    @property
    def recoveries(self) -> Recoveries:
        """The writes that did not finish."""
        self._guard.check(Action.MAINTAIN)
        return Recoveries(self._location)

    @property
    def id(self) -> str:
        """What policies and servers call the graph: the last part of its place, without ``.omni``."""
        return self._guard.guard.graph

    @property
    def actor(self) -> str | None:
        """Who reads and writes here, unless a verb is told otherwise."""
        return self._guard.actor

    @property
    def uri(self) -> str:
        """Where the graph lives."""
        return self._location.uri

    @property
    def durability(self) -> Durability:
        """Whether an acknowledged commit survives a power cut (``full``) or may not (``fast``)."""
        return "full" if self._location.durable else "fast"

    def refresh(self) -> None:
        """Catches up with other processes; of a graph open for writing, also completes writes that they left undone.

        Every read and write looks for the newest commit anyway, so only a process that has been idle needs this.
        """
        if self._mode == "rw":
            self._writes.heal(patient=False)
        self._branches.main.head()

    def check_there(self) -> None:
        """Raises when the head of `main` cannot be read. It tells nothing, so no policy is asked."""
        self._branches.main.head()

    # --- snapshots ---

    def snapshot(self, branch: str = MAIN) -> Snapshot:
        """The graph as it is now; of it, what may be read."""
        return self._guard.readable(self._head(branch), branch)

    def snapshot_at(
        self,
        *,
        version: int | None = None,
        commit: str | None = None,
        time: datetime | None = None,
        branch: str = MAIN,
    ) -> Snapshot:
        """The graph as it was: at a commit, or at a version of a branch or an instant in its history."""
        return self._guard.readable(*self._state_at(version=version, commit=commit, time=time, branch=branch))

    def _state_at(
        self,
        *,
        version: int | None = None,
        commit: str | None = None,
        time: datetime | None = None,
        branch: str = MAIN,
    ) -> tuple[Snapshot, str]:
        """A state of the past, and the branch that it belongs to."""
        given = [each for each in (version, commit, time) if each is not None]
        if len(given) != 1:
            raise UsageError("name one of version, commit and time")
        if version is not None:
            return self._snapshot(self._branches.log(branch).at(version)), branch
        if commit is not None:
            manifest = manifest_of_commit(self._branches, commit)
            return self._snapshot(manifest), manifest.commit.branch
        assert time is not None
        if time.tzinfo is None:
            raise UsageError("a time needs a zone")
        return self._snapshot(manifest_at_time(self._branches, self._branches.log(branch), time)), branch

    def _head(self, branch: str = MAIN) -> Snapshot:
        """The newest state of a branch, whoever asks."""
        return self._snapshot(self._branches.log(branch).head())

    def _located(self, at: At, branch: str = MAIN) -> tuple[Snapshot, str]:
        """A state, whoever asks, and the branch that it belongs to; None is the newest of the branch."""
        match at:
            case None:
                return self._head(branch), branch
            case Snapshot():
                return at, at.commit.branch
            case str():
                manifest = self._branches.manifest_at(place_of(self._branches, at))
                branch = manifest.commit.branch if self._guard.is_open else named_branch(self._branches, at)
                return self._snapshot(manifest), branch
            case int() if not isinstance(at, bool):
                return self._state_at(version=at)
            case datetime():
                return self._state_at(time=at)
        raise UsageError(f"a snapshot is named by a commit, a version or a time, not by {at!r}")

    def _snapshot(self, manifest: Manifest) -> Snapshot:
        return self._branches.snapshot(manifest, self._opened)

    # --- reads ---

    def _asked(self, source: str | Path, name: str | None, at: Snapshot, branch: str) -> CompiledQuery:
        """A query of a source that may be asked."""
        self._guard.check(Action.READ, branch)  # before the text is looked at: its mistakes tell of the schema
        query = self._queries.compiled(source, name, at)
        self._guard.check_tables(Action.READ, at, branch, query.access.asks)
        return query

    def _noticed(self, read: Iterator[_Result], *snapshots: Snapshot) -> Iterator[_Result]:
        """What is read of snapshots bit by bit; it ends in `NotFound` if they are removed meanwhile."""
        with self._branches.noticing_removal(*snapshots):
            yield from read

    # --- writes ---

    def _prepared(self, branch: str, write: Callable[[Snapshot], _Result]) -> _Result:
        """Runs a write that is prepared under the schema of a branch; anew when that is changed meanwhile."""
        for _ in range(_SCHEMA_ATTEMPTS):
            with suppress(SchemaChanged):
                return write(self._head(branch))
        return write(self._head(branch))

    def _write(self, request: WriteRequest, work: Callable[[WriteAttempt], _Result]) -> _Result:
        check_writable(self._mode)
        guard = self._guard.acting_as(request.actor)
        with guard.hiding_details(request.branch, lambda: self._head(request.branch)):
            return self._writes.run(request, work)

    def _write_in_the_end(self, request: WriteRequest, work: Callable[[WriteAttempt], _Result]) -> _Result:
        """Long work might never win against others that are quicker; so the second time it holds all tables at once."""
        try:
            return self._write(request, work)
        except ExpectedVersionMismatch:
            return self._write_alone(request, work)

    def _write_alone(self, request: WriteRequest, work: Callable[[WriteAttempt], _Result]) -> _Result:
        """Runs a write that holds all tables; these have other names when the schema is changed before it has them."""

        def write(head: Snapshot) -> _Result:
            schema_id = request.schema_id or head.commit.schema_id
            return self._write(replace(request, tables=(EXISTENCE, *head.manifest.pins), schema_id=schema_id), work)

        return write(self._head(request.branch)) if request.schema_id else self._prepared(request.branch, write)
