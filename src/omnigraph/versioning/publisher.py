"""The single door to visibility: one new version of the manifest makes a whole write visible at once."""

import os
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import cached_property

from omnigraph.api.history import ChangeCounts, Commit, Place
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import (
    ExpectedVersionMismatch,
    FenceLost,
    HeadMoved,
    NotDurable,
    OutcomeUnknown,
    PreconditionFailed,
    SchemaChanged,
    StorageError,
)
from omnigraph.storage.environment import seconds_setting
from omnigraph.versioning.log import ManifestLog
from omnigraph.versioning.manifest import (
    CarriedUpdate,
    Claim,
    LoadedBatch,
    Manifest,
    Reservation,
    SchemaChange,
    TableUpdate,
)
from omnigraph.versioning.query_sets import QUERIES, QueriesUpdate

_MOST_SECONDS = seconds_setting("OMNIGRAPH_WRITE_WAIT", 60.0)
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5


@dataclass(frozen=True, slots=True)
class Batch:
    """The key of a load, what identifies its content, and what its commit keeps for its application."""

    application: str
    number: int
    digest: str
    details: str | None = None


@dataclass(frozen=True, slots=True)
class MergedParent:
    """The commit whose changes a merge brings in."""

    commit_id: str
    place: Place
    generation: int


class TablesReserved(Exception):
    """Another write has reserved a table that this one changes or relies on. Its caller waits, and decides again."""

    def __init__(self, table_key: str, operation_id: str) -> None:
        super().__init__(table_key, operation_id)
        self.table_key = table_key
        self.operation_id = operation_id


@dataclass(frozen=True, kw_only=True)
class Publication:
    """What a write makes visible, and the conditions under which it may."""

    commit_id: str
    based_on: int
    """The version of the manifest that everything was decided on."""
    tables: Mapping[str, TableUpdate] = field(default_factory=dict)
    """The new places of tables, by the keys that these have afterwards."""
    places: Mapping[str, int] = field(default_factory=dict)
    """The versions of datasets that the new places were built on."""
    carried: Mapping[str, CarriedUpdate] = field(default_factory=dict)
    """What the manifest is to carry for tables from now on."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """The keys that tables have afterwards, where these are others."""
    unchanged: Collection[str] = ()
    """Tables whose content must be what it was; those that it changes are among them."""
    intact: Collection[str] = ()
    """Tables from which no row may have been removed: the write refers to their rows."""
    is_commit: bool = True
    """Whether the write is a commit; one that only moves rows to another place is none."""
    schema_id: str | None = None
    """The schema that the write was checked under; None if it depends on no schema."""
    schema_change: SchemaChange | None = None
    branch: str = "main"
    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    merged_parent: MergedParent | None = None
    batch: Batch | None = None
    """The key of a load: no batch of its application with this number or a greater one may have been loaded."""
    applied: ChangeCounts | None = None
    """What the changes of a load do."""
    batches: Mapping[str, LoadedBatch] = field(default_factory=dict)
    """What applications have loaded into the branch that is merged."""
    rival_id: str | None = None
    """The commit that this one excludes: a write may be completed or undone, never both."""
    since: int | None = None
    """The version of the manifest after which the history may have this commit or its rival; None if it cannot."""
    queries: QueriesUpdate | None = None
    """What it does to the stored queries; without it, it does not depend on them."""
    reserves: Reservation | None = None
    """A claim that others have to respect from now on."""
    is_reserved: bool = False
    """Whether it needs the reservation that was made for its commit."""
    releases: Collection[str] = ()
    """The writes whose reservations end."""

    @cached_property
    def claim(self) -> Claim:
        """What it does to tables; what it relies on is compared with the head."""
        if self.reserves is not None:
            return self.reserves.claim
        before = {after: key for key, after in self.renamed.items()}
        updates = {before.get(key, key): each for key, each in self.tables.items() if not each.keeps_content}
        both: Mapping[str, TableUpdate | CarriedUpdate] = {**updates, **self.carried}
        removes = frozenset(key for key, each in both.items() if each.removes)
        changes = frozenset({*both, QUERIES}) if self.changes_queries else frozenset(both)
        return Claim(changes=changes, removes=removes)

    @property
    def changes_queries(self) -> bool:
        """Whether other queries are stored afterwards."""
        return self.queries is not None and self.queries.before != self.queries.after


def publish_reservation(log: ManifestLog, publication: Publication) -> Manifest:
    """Publishes a reservation; other than a commit, it does not count if the disk does not confirm it."""
    try:
        return publish(log, publication)
    except NotDurable as error:
        raise StorageError(error.uri, f"tables cannot be reserved: {error.problem}") from error


def release_tables(log: ManifestLog, operation_id: str) -> None:
    """Ends a reservation. The caller knows that its writer will not publish any more."""
    head = log.head()
    publication = Publication(
        commit_id=new_commit_id(), based_on=head.version, is_commit=False, branch=log.branch, releases=(operation_id,)
    )
    publish(log, publication)


def publish(log: ManifestLog, publication: Publication) -> Manifest:
    """Makes a write visible.

    The head is read, the versions that the write was built on are compared with it, and the next manifest is written by
    compare-and-swap. If the swap fails, a writer of other tables was faster, and all of this is repeated. If a table of
    the write was changed, `ExpectedVersionMismatch` is raised, and nothing is visible. If another process has completed
    or undone the write, which it can only do after it took over our locks, `FenceLost` is raised.
    """

    def follow(head: Manifest) -> Manifest:
        check_expectations(head, publication)
        _check_not_settled(log, head, publication)
        return _following(head, publication, log)

    try:
        return append_next(log, follow)
    except OutcomeUnknown as error:
        if publication.is_commit and publication.since is None:
            raise
        # No commit depends on it, or its sidecar decides between completing and undoing it.
        raise StorageError(
            log.location.uri, f"it is not known whether a version was published: {_cause(error)}"
        ) from error


def _cause(error: BaseException) -> str:
    cause = error.__cause__
    return cause.problem if isinstance(cause, StorageError) else str(cause)


def append_next(log: ManifestLog, follow: Callable[[Manifest], Manifest]) -> Manifest:
    """Appends what `follow` makes of the head, and again of the newer one as long as others are faster.

    A head that it returns as it is stays the head; it may raise `HeadMoved` itself. Writers that lose to others wait
    longer and longer, up to `OMNIGRAPH_WRITE_WAIT` in all: a lost swap alone is not an error.
    """
    began, pause = time.monotonic(), _FIRST_PAUSE
    with log.turn():
        while True:
            head = log.head()
            try:
                following = follow(head)
                return head if following is head else log.append(head, following)
            except HeadMoved:
                if time.monotonic() - began > _MOST_SECONDS:
                    raise
                log.remove_torn_head()
                # Without a random pause, the same writers would collide again.
                time.sleep(random.uniform(0, pause))  # noqa: S311
                pause = min(2 * pause, _LONGEST_PAUSE)


def check_expectations(head: Manifest, publication: Publication) -> None:
    """Raises when the state that the write was built on has changed."""
    if publication.if_commit is not None and head.commit.graph_commit_id != publication.if_commit:
        raise PreconditionFailed(publication.branch, publication.if_commit, head.commit.graph_commit_id)
    if publication.schema_id not in (None, head.commit.schema_id):
        raise SchemaChanged(publication.branch)
    if publication.queries is not None and publication.queries.before != head.commit.queries_id:
        raise ExpectedVersionMismatch(QUERIES, publication.based_on, head.version)
    _check_batch(head, publication)
    _check_reservations(head, publication)
    for table_key in sorted(publication.unchanged):
        if (changed_at := head.pins[table_key].changed_at) > publication.based_on:
            raise ExpectedVersionMismatch(table_key, publication.based_on, changed_at)
    for table_key in sorted(publication.intact):
        if (removed_at := head.pins[table_key].removed_at) > publication.based_on:
            raise ExpectedVersionMismatch(table_key, publication.based_on, removed_at)
    for table_key, version in sorted(publication.places.items()):
        if (actual := head.pins[table_key].version) != version:
            raise ExpectedVersionMismatch(table_key, version, actual)


def _check_batch(head: Manifest, publication: Publication) -> None:
    """Raises where another load has brought the batch of this one, or a later one, since it began. It starts over."""
    if publication.batch is not None and (last := head.batches.get(publication.batch.application)) is not None:
        number = publication.batch.number
        if last.number >= number:
            raise ExpectedVersionMismatch(f"application `{publication.batch.application}`", number - 1, last.number)


def _check_reservations(head: Manifest, publication: Publication) -> None:
    """Raises where another write has reserved what this one needs, or has ended the reservation of this one."""
    is_held = False
    for each in head.reservations:
        if each.operation_id == publication.commit_id:
            is_held = True
        elif each.operation_id not in publication.releases:
            conflicting = each.claim.conflicts(publication.claim)
            if conflicting:
                raise TablesReserved(min(conflicting), each.operation_id)
    if publication.is_reserved and not is_held:
        raise FenceLost(f"{publication.branch}/{next(iter(publication.tables), 'branch')}")


def _following(head: Manifest, publication: Publication, log: ManifestLog) -> Manifest:
    """The next manifest, if nothing has changed that the write depends on."""
    version = head.version + 1
    before = {after: key for key, after in publication.renamed.items()}
    pins = {
        key: update.applied_to(head.pins[before.get(key, key)], version) for key, update in publication.tables.items()
    }
    pins |= {key: update.applied_to(head.pins[key], version) for key, update in publication.carried.items()}
    commit = _commit(publication, log) if publication.is_commit else None
    following = head.after(commit, pins, publication.schema_change, publication.queries)
    following = following.with_batches(_batches_of(publication))
    ended = {*publication.releases, *([publication.commit_id] if publication.is_reserved else [])}
    kept = tuple(each for each in head.reservations if each.operation_id not in ended)
    reserved = (publication.reserves,) if publication.reserves is not None else ()
    return replace(following, reservations=(*kept, *reserved))


def join_writes(head: Manifest, so_far: Manifest, publication: Publication, log: ManifestLog) -> Manifest:
    """The manifest that follows `head` with one more small write, after those that `so_far` has already.

    Each of the writes is checked in turn against what those before it leave.
    """
    check_expectations(so_far, publication)
    if so_far is head:
        return _following(head, publication, log)
    pins = {key: update.applied_to(so_far.pins[key], so_far.version) for key, update in publication.carried.items()}
    following = so_far.together_with(_commit(publication, log), pins, publication.queries)
    return following.with_batches(_batches_of(publication))


def _batches_of(publication: Publication) -> Mapping[str, LoadedBatch]:
    """The batches that a write brings: its own, or those of the branch that it merges."""
    batch = publication.batch
    if batch is None or not publication.is_commit:
        return publication.batches if publication.is_commit else {}
    return {batch.application: LoadedBatch(batch.number, publication.commit_id, batch.digest)}


def _check_not_settled(log: ManifestLog, head: Manifest, publication: Publication) -> None:
    """Raises when the history up to `head` already has this commit, or the one that it excludes.

    The next manifest is written only directly after `head`, so the result is still valid when the commit is made.
    """
    if publication.since is None:
        return
    for commit in log.commits_before(head):
        if commit.manifest <= publication.since:
            return
        if commit.graph_commit_id in (publication.commit_id, publication.rival_id):
            raise FenceLost(f"{publication.branch}/{next(iter(publication.tables), 'branch')}")


def _commit(publication: Publication, log: ManifestLog) -> Commit:
    """The commit of a publication. Fields that depend on the previous commit are filled in later."""
    merged, batch = publication.merged_parent, publication.batch
    return Commit(
        graph_commit_id=publication.commit_id,
        branch=log.branch,
        incarnation=log.incarnation,
        manifest_version=0,
        parent_commit_id=None,
        merged_parent_commit_id=merged.commit_id if merged else None,
        merged_place=merged.place if merged else None,
        generation=merged.generation + 1 if merged else 0,
        actor=publication.actor,
        message=publication.message,
        created_at=datetime.now(UTC),
        application=batch.application if batch else None,
        batch=batch.number if batch else None,
        digest=batch.digest if batch else None,
        details=batch.details if batch else None,
        applied=publication.applied,
    )


class _Randomness:
    """Random bytes of the system, fetched for many ids at once.

    Each call of the system lets other threads run Python for up to 5 ms. A leader of many small writes would wait for
    them at each id. No two processes share what was fetched.
    """

    def __init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._rest = b""

    def take(self) -> bytes:
        """The bytes of one id."""
        with self._lock:
            if not self._rest:
                self._rest = os.urandom(_RANDOM_BYTES * _IDS_AT_ONCE)
            taken, self._rest = self._rest[:_RANDOM_BYTES], self._rest[_RANDOM_BYTES:]
        return taken


_RANDOM_BYTES, _IDS_AT_ONCE = 10, 64
_randomness = _Randomness()


def new_commit_id() -> str:
    """An id that sorts by time."""
    from ulid import ULID  # noqa: PLC0415 - who only reads needs none

    return str(ULID((time.time_ns() // 1_000_000).to_bytes(6, "big") + _randomness.take()))
