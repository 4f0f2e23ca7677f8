"""An open graph as its verbs see it: its states, policy guard, writes and caches."""

from collections.abc import Collection, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Literal, TypeVar

from omnigraph.api.base import MAIN
from omnigraph.api.words import State
from omnigraph.branching.finding import named_branch, place_of
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import Damaged, UsageError
from omnigraph.lazy import importing
from omnigraph.policy import Guard
from omnigraph.session.guard import GraphGuard
from omnigraph.session.shared import SharedState
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches, Manifest, manifest_at_time, manifest_of_commit, manifest_of_version
from omnigraph.versioning.kept import KeptVersions

if TYPE_CHECKING:
    from omnigraph.policy import Policy
    from omnigraph.query import AdjacencyCache
    from omnigraph.resident.cache import ResidentCache
    from omnigraph.session.queries import QueryCache
    from omnigraph.session.writes import Prepare, Work, WriteOrder, Writes
    from omnigraph.storage.tables import Table
    from omnigraph.versioning import Snapshot

Mode = Literal["r", "rw"]
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """An open graph. Views of it for other actors or policies share everything except the guard."""

    location: Location
    mode: Mode
    branches: Branches
    guard: GraphGuard
    shared: SharedState

    @property
    def writes(self) -> "Writes":
        """Runs writes."""
        return self.shared.writes

    @property
    def queries(self) -> "QueryCache":
        """Compiled queries."""
        return self.shared.queries

    @property
    def adjacency(self) -> "AdjacencyCache":
        """Edges as arrays."""
        return self.shared.adjacency

    @property
    def table_cache(self) -> "KeptVersions[Table]":
        """Tables that are open."""
        return self.shared.table_cache

    @property
    def resident(self) -> "ResidentCache":
        """Tables in memory."""
        return self.shared.resident

    def acting_as(self, actor: str | None) -> "Session":
        """The same graph for another actor; with None, for the current one."""
        guard = self.guard.acting_as(actor)
        return self if guard is self.guard else replace(self, guard=guard)

    def under(self, policy: "Policy | None") -> "Session":
        """The same graph under another policy, or under none."""
        return replace(self, guard=replace(self.guard, guard=replace(self.guard.guard, policy=policy)))

    def check_writable(self) -> None:
        """Raises `UsageError` when the graph was opened for reading."""
        if self.mode == "r":
            raise UsageError('the graph was opened for reading; to write, open it with mode="rw"')

    # --- states ---

    def head(self, branch: str = MAIN) -> "Snapshot":
        """The newest state of a branch, without a policy check."""
        return self.snapshot(self.branches.log(branch).head())

    def locate(self, at: State, branch: str = MAIN) -> "tuple[Snapshot, str]":
        """A state and the branch that it belongs to, without a policy check; None is the newest state of `branch`."""
        if at is None:
            return self.head(branch), branch
        with importing:
            from omnigraph.versioning.snapshot import Snapshot  # noqa: PLC0415 - Lance

        match at:
            case Snapshot():
                return at, at.commit.branch
            case str():
                manifest = self.branches.manifest_at(place_of(self.branches, at))
                found = manifest.commit.branch if self.guard.is_open else named_branch(self.branches, at)
                return self.snapshot(manifest), found
            case int() if not isinstance(at, bool):
                return self.state_at(version=at)
            case datetime():
                return self.state_at(time=at)
        raise UsageError(f"invalid snapshot {at!r}: expected a commit, a version or a time")

    def state_at(
        self,
        *,
        version: int | None = None,
        commit: str | None = None,
        time: datetime | None = None,
        branch: str = MAIN,
    ) -> "tuple[Snapshot, str]":
        """An earlier state, and the branch that it belongs to."""
        if sum(each is not None for each in (version, commit, time)) != 1:
            raise UsageError("expected exactly one of version, commit and time")
        if version is not None:
            return self.snapshot(manifest_of_version(self.branches.log(branch), version)), branch
        if commit is not None:
            manifest = manifest_of_commit(self.branches, commit)
            return self.snapshot(manifest), manifest.commit.branch
        assert time is not None
        if time.tzinfo is None:
            raise UsageError(f"the datetime must be timezone-aware: {time.isoformat()}")
        return self.snapshot(manifest_at_time(self.branches, self.branches.log(branch), time)), branch

    def snapshot(self, manifest: Manifest) -> "Snapshot":
        """The state that a manifest pins."""
        return self.branches.snapshot(manifest, self.table_cache)

    def watch_removal(self, read: Iterator[_Result], *snapshots: "Snapshot") -> Iterator[_Result]:
        """Reads from snapshots lazily; raises `NotFound` if they are removed meanwhile."""
        with self.branches.noticing_removal(*snapshots):
            yield from read

    # --- writes ---

    def write(self, order: "WriteOrder", work: "Work[_Result]") -> _Result:
        """Runs a write that depends on no schema, or on the one in its order."""
        self.check_writable()
        with self.guard.hiding_details(order.branch, lambda: self.head(order.branch)):
            return self.writes.run(order, work)

    def write_persistent(self, order: "WriteOrder", work: "Work[_Result]", tables: Collection[str]) -> _Result:
        """Like `write`; if others change its tables meanwhile, it runs once more while it holds these tables."""
        self.check_writable()
        with self.guard.hiding_details(order.branch, lambda: self.head(order.branch)):
            return self.writes.run_persistent(order, work, lambda order: replace(order, tables=tables))

    def write_prepared(self, branch: str, prepare: "Prepare[_Result]", *, persistent: bool = False) -> _Result:
        """Runs a write that is prepared for the schema of a branch, and prepared again when the schema changes.

        A long write might never succeed against faster writers, so with `persistent` the second attempt holds all
        tables.
        """
        self.check_writable()
        with self.guard.hiding_details(branch, lambda: self.head(branch)):
            return self.writes.run_prepared(lambda: self._likely_head(branch), prepare, persistent=persistent)

    def _likely_head(self, branch: str) -> "Snapshot":
        """The state that a write is prepared for: on a store the newest one that is known, to save a request.

        If it is not the newest, the write finds this out when it reads the head, and the schema is compared then.
        """
        log = self.branches.log(branch)
        known = None if self.location.path is not None else log.known_head()
        return self.snapshot(log.head() if known is None else known)


def open_session(location: Location, mode: Mode, guard: Guard) -> Session:
    """Opens a graph. For writing, unfinished writes are settled first."""
    branches = Branches(location)
    session = Session(
        location=location,
        mode=mode,
        branches=branches,
        guard=GraphGuard(guard, branches),
        shared=SharedState(location, branches),
    )
    # If the graph is damaged, other branches and old commits may be intact, and `verify` lists them.
    with suppress(Damaged) if mode == "r" else nullcontext():
        branches.main.head()
    if mode == "rw":
        from omnigraph.session.opening import settle_unfinished  # noqa: PLC0415 - reading needs none

        settle_unfinished(location, branches)
    return session


def type_names(types: Collection[str] | None) -> Collection[str] | None:
    """The types that a caller names: one, several, or None for all."""
    return [types] if isinstance(types, str) else types
