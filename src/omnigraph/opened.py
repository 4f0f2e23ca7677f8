"""An open graph: what every verb needs of it, which is its state, its snapshots and its writes."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Literal, TypeVar

from omnigraph.errors import ExpectedVersionMismatch, SchemaChanged, UsageError
from omnigraph.handles import Commits, CompiledQueries, GraphBranches, GraphTags, Mode, check_writable
from omnigraph.operations.branches import place_of
from omnigraph.operations.writing import WriteRequest, Writes, open_for_writing
from omnigraph.query import AdjacencyCache
from omnigraph.recovery import Recoveries
from omnigraph.storage import Location, Table
from omnigraph.versioning import MAIN, Branches, Manifest, Snapshot, manifest_at_time, manifest_of_commit
from omnigraph.write import WriteAttempt
from omnigraph.write.fence import EXISTENCE

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
