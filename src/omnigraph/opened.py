"""An open graph: what every verb needs of it, which is its state, its snapshots and its writes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Literal, TypeVar

from omnigraph.bulk.engine import Engine, Report
from omnigraph.engines import engine_of
from omnigraph.errors import ExpectedVersionMismatch, SchemaChanged, UsageError
from omnigraph.failpoints import Writer
from omnigraph.handles import Commits, CompiledQueries, GraphBranches, GraphTags, Mode, Schema, check_writable
from omnigraph.maintenance.optimize import MAINTENANCE_ACTOR, optimize
from omnigraph.maintenance.purge import NOTHING, Doomed, check_not_needed, doomed_tables, purge
from omnigraph.operations.branches import place_of
from omnigraph.operations.engines import chosen
from omnigraph.operations.schema_apply import SchemaApplyResult, apply_reasons, apply_schema
from omnigraph.operations.schema_plan import SchemaTarget, schema_of_main, schema_plan
from omnigraph.operations.writing import WriteRequest, Writes, open_for_writing
from omnigraph.query import AdjacencyCache
from omnigraph.recovery import Mode as RecoveryMode
from omnigraph.recovery import Recoveries, recover
from omnigraph.storage import Location, Table
from omnigraph.versioning import MAIN, Branches, Commit, Manifest, Snapshot, manifest_at_time, manifest_of_commit
from omnigraph.write import WriteAttempt, WriteFence
from omnigraph.write.fence import EXISTENCE
from omnigraph.write.schema_lock import holding_schema

Durability = Literal["full", "fast"]
_Result = TypeVar("_Result")

_SCHEMA_ATTEMPTS = 4
MOST_OPENED = 1000
"""How many versions of tables a graph keeps open for its reads."""


class OpenGraph:
    """The state of a graph that is open. Its verbs are those of `Graph`."""

    def __init__(self, location: Location, mode: Mode) -> None:
        self._location = location
        self._mode = mode
        self._branches = Branches(location)
        self.schema = Schema(self._branches, self._resolved, self._apply_schema)
        self.commits = Commits(self._branches, self._resolved)
        self.branches = GraphBranches(location, self._branches, mode)
        self.tags = GraphTags(location, self._branches, mode)
        self.recoveries = Recoveries(location)
        self._writes = Writes(location, self._branches)
        self._queries = CompiledQueries()
        self._adjacency = AdjacencyCache()
        self._opened: dict[tuple[str, int], Table] = {}

        self._branches.main.head()
        if mode == "rw":
            open_for_writing(location, self._branches)

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

    # --- snapshots ---

    def snapshot(self, branch: str = MAIN) -> Snapshot:
        """The graph as it is now."""
        return self._snapshot(self._branches.log(branch).head())

    def snapshot_at(
        self,
        *,
        version: int | None = None,
        commit: str | None = None,
        time: datetime | None = None,
        branch: str = MAIN,
    ) -> Snapshot:
        """The graph as it was: at a commit, or at a version of a branch or an instant in its history."""
        given = [each for each in (version, commit, time) if each is not None]
        if len(given) != 1:
            raise UsageError("name one of version, commit and time")
        if version is not None:
            return self._snapshot(self._branches.log(branch).at(version))
        if commit is not None:
            return self._snapshot(manifest_of_commit(self._branches, commit))
        assert time is not None
        if time.tzinfo is None:
            raise UsageError("a time needs a zone")
        return self._snapshot(manifest_at_time(self._branches, self._branches.log(branch), time))

    def _resolved(self, at: Snapshot | str | int | datetime | None) -> Snapshot:
        match at:
            case None:
                return self.snapshot()
            case Snapshot():
                return at
            case str():
                return self._snapshot(self._branches.manifest_at(place_of(self._branches, at)))
            case int() if not isinstance(at, bool):
                return self.snapshot_at(version=at)
            case datetime():
                return self.snapshot_at(time=at)
        raise UsageError(f"a snapshot is named by a commit, a version or a time, not by {at!r}")

    def _snapshot(self, manifest: Manifest) -> Snapshot:
        if len(self._opened) > MOST_OPENED:
            self._opened = {}
        return self._branches.snapshot(manifest, self._opened)

    # --- writes ---

    def _prepared(self, branch: str, write: Callable[[Snapshot], _Result]) -> _Result:
        """Runs a write that is prepared under the schema of a branch; anew when that is changed meanwhile."""
        for _ in range(_SCHEMA_ATTEMPTS):
            with suppress(SchemaChanged):
                return write(self.snapshot(branch))
        return write(self.snapshot(branch))

    def _write(self, request: WriteRequest, work: Callable[[WriteAttempt], _Result]) -> _Result:
        check_writable(self._mode)
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

        return write(self.snapshot(request.branch)) if request.schema_id else self._prepared(request.branch, write)

    def _all_tables(self, branch: str) -> tuple[str, ...]:
        """What keeps every other writer of a branch out."""
        return (EXISTENCE, *self._branches.log(branch).head().pins)

    def _apply_schema(
        self, target: SchemaTarget, *, branch: str, actor: str | None, engine: str, report: Report
    ) -> SchemaApplyResult:
        """Changes a schema. Nobody else writes to the branch meanwhile, so what is checked and written is all of it."""
        check_writable(self._mode)
        choice = chosen(engine, lambda: apply_reasons(self.snapshot(branch), target))
        with holding_schema(self._branches, "schema apply") as held:
            recover(self._location, self._branches, RecoveryMode.FULL, patient=True)
            if target.accepted is not None:
                target = schema_of_main(self._branches)
            request = WriteRequest(
                kind=Writer.SCHEMA_APPLY,
                branch=branch,
                actor=actor,
                message="schema apply" if target.accepted is None else "schema catch-up",
                tables=self._all_tables(branch),
            )

            doomed = NOTHING

            def run(attempt: WriteAttempt) -> SchemaApplyResult:
                nonlocal doomed
                attempt.fence.watch_all(held)
                if target.allow_data_loss:
                    doomed = doomed_tables(attempt.base, schema_plan(attempt.base, target))
                    check_not_needed(self._branches, doomed)
                return apply_schema(attempt, self._branches, target, engine_of(choice, report))

            result = self._write(request, run)
            if result.commit is None or not doomed.roots:
                return result
            with _told(result.commit):
                self._purge(doomed, replace(request, kind=Writer.OPTIMIZE), held, engine_of(choice, report))
            return replace(result, purged=doomed.keys)

    def _purge(self, doomed: Doomed, request: WriteRequest, held: WriteFence, engine: Engine) -> None:
        """Removes what a schema has dropped from the history; its tables are written anew without it before."""

        def run(attempt: WriteAttempt) -> None:
            attempt.fence.watch_all(held)
            optimize(attempt, engine, only=doomed.reduced)

        if doomed.reduced:
            actor = request.actor or MAINTENANCE_ACTOR
            self._write(replace(request, actor=actor, message=Writer.OPTIMIZE.value, tables=()), run)
        purge(self._branches, doomed)
        # What was read of it may not be read again from memory.
        self._opened, self._adjacency = {}, AdjacencyCache()


@contextmanager
def _told(commit: Commit) -> Iterator[None]:
    """An error in this block says that the schema is there nevertheless."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"the schema was applied, as commit {commit.graph_commit_id}; the history has what it dropped")
        error.add_note("to remove that too, run `omnigraph optimize` and then `omnigraph cleanup --keep 1`")
        raise
