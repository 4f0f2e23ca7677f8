"""Runs writes: on the newest state, under locks, after completing unfinished writes of others.

Every retry of a write is decided here: when an unfinished write is in its way, when the schema changes meanwhile, when
a write that is about to be published has reserved its tables, and when faster writers change the tables that it read.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Generic, TypeAlias, TypeVar

from omnigraph import failpoints
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import (
    ExpectedVersionMismatch,
    FenceHeld,
    FenceLost,
    NotFound,
    OmnigraphError,
    OutcomeUnknown,
    RecoveryRequired,
    SchemaChanged,
    StorageError,
)
from omnigraph.failpoints import Writer, WriteStep
from omnigraph.recovery import Mode, give_up, recover, undo, undo_remnants
from omnigraph.storage.location import Location
from omnigraph.storage.tables import Table
from omnigraph.versioning import Branches, Manifest, ManifestLog, Publication, Snapshot, new_commit_id
from omnigraph.versioning.kept import KeptVersions
from omnigraph.versioning.manifest import Claim, Reservation
from omnigraph.versioning.names import as_text, check_actor
from omnigraph.versioning.publisher import TablesReserved, publish_reservation, release_tables
from omnigraph.versioning.snapshot import RowFinder
from omnigraph.write import Allowed, WriteAttempt, WriteFence, anything
from omnigraph.write.fence import EXISTENCE, WAIT_SECONDS
from omnigraph.write.groups import SmallWrite, TooLargeToCarry, WriteGroup
from omnigraph.write.protocol import fold_tables, relied_on
from omnigraph.write.retention import marked_as_writing
from omnigraph.write.sidecar import read_sidecar

_Result = TypeVar("_Result")


_SCHEMA_ATTEMPTS = 5
_SMALL_ATTEMPTS = 3

_FOLDING = (Writer.LOAD, Writer.EMBED, Writer.ENSURE_INDICES, Writer.OPTIMIZE, Writer.SCHEMA_APPLY)
"""Who needs the rows of a table where the table is; others change what is carried, or fold it themselves."""

_MOVING = (Writer.ENSURE_INDICES, Writer.OPTIMIZE)
"""Who changes no content, so that small writes can go on."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.001, 0.1
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """The branch, the actor and the message of a write. `tables` are those that are known before anything is read."""

    kind: Writer
    branch: str = "main"
    actor: str | None
    message: str
    if_commit: str | None = None
    tables: Collection[str] = ()
    relies_on: Collection[str] = ()
    """Other tables that must stay as they are, if its own are known."""
    schema_id: str | None = None
    """The schema that the write was prepared for; None if it depends on no schema."""

    allowed: Allowed = anything
    check_head: Callable[[Manifest], None] = lambda _: None
    """Is called with the newest state when the known tables are held, before anything is reserved."""


Work: TypeAlias = Callable[[WriteAttempt], _Result]
Decide: TypeAlias = Callable[[WriteAttempt], SmallWrite[_Result]]
"""What a small write changes, decided without writing anything."""


class _WasFolded(Exception):
    """While a small write waited for its tables, another has folded what the manifest carries for them."""


def _check_not_folded(seen: Manifest, tables: frozenset[str], head: Manifest) -> None:
    """Raises `_WasFolded` if a table was folded after a state that a small write found too full for it.

    When what is carried for a table is full, all small writes that wait find it so, and want its lock. The first folds
    it. If the others did what it does, each of them would commit the table, one after the other.
    """
    known = tables & seen.pins.keys() & head.pins.keys()
    if any(head.pins[key].version != seen.pins[key].version for key in known):
        raise _WasFolded


@dataclass(frozen=True, slots=True)
class PreparedWrite(Generic[_Result]):
    """A write that was prepared for a schema. One that is probably small is tried as one first."""

    order: WriteOrder
    work: Work[_Result]
    small: Decide[_Result] | None = None


Prepare: TypeAlias = Callable[[Snapshot], PreparedWrite[_Result]]
"""Prepares a write for the newest state of a branch; called again when the schema has changed."""


class Writes:
    """The writes of one handle on a graph."""

    def __init__(self, graph: Location, branches: Branches, opened: KeptVersions[Table], finder: RowFinder) -> None:
        self._graph = graph
        self._branches = branches
        self._opened = opened
        self._finder = finder
        self._still_to_undo: set[str] = set()
        self._groups: dict[str, WriteGroup] = {}
        self._groups_lock = threading.Lock()

    def run(self, order: WriteOrder, work: Work[_Result]) -> _Result:
        """Runs a write.

        If it finds an unfinished write, because another process died meanwhile, it has changed nothing yet. It starts
        over, and waits until it is known which writers are dead. It also starts over if the schema has changed, unless
        it was prepared for one schema. Remnants of failed writes in its tables are undone in between.
        """
        patient = False
        mended: set[str] = set()
        refused: float | None = None
        while True:
            try:
                with self.attempt(order, patient=patient) as attempt:
                    return work(attempt)
            except SchemaChanged:
                if patient or order.schema_id is not None:
                    raise
            except RecoveryRequired as error:
                if not self._undo_remnants(order.branch, error, mended) and patient:
                    raise
            except TablesReserved as error:
                refused = refused or time.monotonic()
                self._await_release(order.branch, error, refused)
                continue
            patient = True

    def run_small(self, order: WriteOrder, decide: Decide[_Result]) -> _Result:
        """Runs a small write together with others that wait, as one file; `TooLargeToCarry` if it is not small.

        It takes no lock: if another process was faster, it is decided again on the newest state.
        """
        check_actor(order.actor)
        refused: float | None = None
        while True:
            log = self._branches.known_log(order.branch)
            with self._groups_lock:
                group = self._groups.get(log.location.uri)
                if group is None:
                    self._groups[log.location.uri] = group = WriteGroup(log, self._settle_before)
            try:
                result: _Result = group.run(partial(self._decide_small, order, decide, log))
            except TablesReserved as error:
                refused = refused or time.monotonic()
                self._await_release(order.branch, error, refused)
                continue
            failpoints.hit_step(order.kind, WriteStep.AFTER_PHASE_C)
            return result

    def _decide_small(
        self, order: WriteOrder, decide: Decide[_Result], log: ManifestLog, so_far: Manifest
    ) -> SmallWrite[_Result]:
        """What a small write changes in a state, which may have writes that are not published yet."""
        base = self._branches.snapshot(so_far, self._opened, self._finder)
        if order.schema_id not in (None, base.commit.schema_id):
            raise SchemaChanged(order.branch)
        with WriteFence(self._graph, order.branch, "") as nothing_held:
            attempt = WriteAttempt(
                kind=order.kind,
                actor=order.actor,
                base=base,
                log=log,
                fence=nothing_held,
                message=as_text(order.message),
                if_commit=order.if_commit,
                allowed=order.allowed,
            )
            found = decide(attempt)
        failpoints.hit_step(order.kind, WriteStep.BEFORE_PHASE_A)
        return found

    def _settle_before(self, head: Manifest) -> bool:
        """Completes writes of dead processes before small ones; on a store, only if one is known to the manifest."""
        if self._graph.path is None and not head.reservations and not self._still_to_undo:
            return False
        return self.heal(patient=False)

    def _await_release(self, branch: str, error: TablesReserved, since: float) -> None:
        """Returns once a reservation has ended, or its writer is known to be dead.

        Raises if it has been waiting too long `since` the write was refused first; not since it began.
        """
        pause = _FIRST_PAUSE
        while True:
            held = self._find_holder(self._branches.log(branch), error.operation_id)
            if held is None:
                return
            waited = time.monotonic() - since
            if waited > WAIT_SECONDS:
                raise FenceHeld(error.table_key, branch, held.holder, waited) from error
            time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _find_holder(self, log: ManifestLog, operation_id: str) -> FenceHeld | None:
        """Who has a reservation; None if it has ended. That of a dead writer is ended here.

        What a dead writer announced is completed if that is possible, and then its reservation has ended. Its lock may
        become free right after that was tried in vain, so it is tried again.
        """
        if _reservation(log.head(), operation_id) is None:
            return None
        for is_last in (False, True):
            self._recover_one(operation_id)
            with WriteFence(self._graph, log.branch, f"end of the reservation of {operation_id}") as fence:
                reservation = _reservation(log.head(), operation_id)
                if reservation is None:
                    return None
                for held in fence.take_free([reservation.lock], wait=0).values():
                    return held
                if is_last or read_sidecar(self._graph, operation_id) is None:
                    release_tables(log, operation_id)
                    return None
        return None

    def _recover_one(self, operation_id: str) -> None:
        """Completes one write of a dead process, if it can be."""
        but = self._still_to_undo
        recover(self._graph, self._branches, Mode.FORWARD_ONLY, patient=False, only=operation_id, but=but)

    def run_prepared(
        self, head: Callable[[], Snapshot], prepare: Prepare[_Result], *, persistent: bool = False
    ) -> _Result:
        """Runs a write that is prepared for the schema of a branch, and again whenever the schema changes meanwhile.

        With `persistent`, if others have changed its tables meanwhile, it runs once more and holds all tables.
        """

        def hold_all(order: WriteOrder) -> WriteOrder:
            now = head()
            tables = (EXISTENCE, *now.manifest.pins)
            return replace(order, tables=tables, schema_id=order.schema_id or now.commit.schema_id)

        def write(now: Snapshot) -> _Result:
            prepared = prepare(now)
            order, work = prepared.order, prepared.work
            run = partial(self.run_persistent, hold=hold_all) if persistent else self.run
            if prepared.small is not None:
                for _ in range(_SMALL_ATTEMPTS):
                    with suppress(TooLargeToCarry):
                        return self.run_small(order, prepared.small)
                    unless_folded = partial(_check_not_folded, now.manifest, frozenset(order.tables))
                    with suppress(_WasFolded):
                        return run(replace(order, check_head=unless_folded), work)
                    now = head()
            return run(order, work)

        return self.retry_schema(head, write)

    def run_persistent(
        self, order: WriteOrder, work: Work[_Result], hold: Callable[[WriteOrder], WriteOrder]
    ) -> _Result:
        """Runs a write. If others have changed its tables meanwhile, runs it again with the locks that `hold` adds."""
        with suppress(ExpectedVersionMismatch):
            return self.run(order, work)
        return self.run(hold(order), work)

    def retry_schema(self, head: Callable[[], Snapshot], write: Callable[[Snapshot], _Result]) -> _Result:
        """Calls `write` with the newest state, and again whenever the schema changes meanwhile."""
        for _ in range(_SCHEMA_ATTEMPTS - 1):
            with suppress(SchemaChanged):
                return write(head())
        return write(head())

    def _undo_remnants(self, branch: str, error: RecoveryRequired, mended: set[str]) -> bool:
        """Undoes the remnants in the table of an error, once for each table; returns whether none are left."""
        if error.operation_id is not None or error.table_key in mended:
            return False
        mended.add(error.table_key)
        return undo_remnants(self._graph, self._branches.log(branch), error.table_key)

    def heal(self, *, patient: bool) -> bool:
        """Completes writes of dead processes, and undoes our own failed writes that could not be undone before.

        Returns whether there were any.
        """
        settled = []
        for operation_id in sorted(self._still_to_undo):
            settled += recover(self._graph, self._branches, Mode.UNDO, patient=patient, only=operation_id)
            if read_sidecar(self._graph, operation_id) is None:
                self._still_to_undo.discard(operation_id)
        but = self._still_to_undo
        settled += recover(self._graph, self._branches, Mode.FORWARD_ONLY, patient=patient, but=but)
        return bool(settled)

    @contextmanager
    def attempt(self, order: WriteOrder, *, patient: bool = False) -> Iterator[WriteAttempt]:
        """One attempt at a write, undone when the block fails.

        Known tables are held before the state is read, so that no other write changes them.
        """
        check_actor(order.actor)
        self.heal(patient=patient)
        log = self._branches.log(order.branch)
        operation_id = new_commit_id()
        # A writer that holds no table leaves a mark. Without it, cleanup would remove its files as unused.
        mark = nullcontext() if order.tables else marked_as_writing(self._graph, operation_id)
        with mark as marked, WriteFence(self._graph, order.branch, f"{order.kind} {order.message}") as fence:
            fence.take(order.tables)
            if marked is not None:
                fence.watch(marked)
            log.check_exists()
            order.check_head(log.head())
            with self._releasing(log, operation_id):
                is_reserved = bool(order.tables) and order.kind not in _MOVING
                if is_reserved:
                    self._reserve_tables(order, log, operation_id)
                base = self._snapshot(order, log.head())
                if order.kind in _FOLDING and self._fold(order, log, base, fence):
                    base = self._snapshot(order, log.head())
                if order.schema_id not in (None, base.commit.schema_id):
                    raise SchemaChanged(order.branch)
                attempt = WriteAttempt(
                    operation_id=operation_id,
                    kind=order.kind,
                    actor=order.actor,
                    base=base,
                    log=log,
                    fence=fence,
                    message=as_text(order.message),
                    if_commit=order.if_commit,
                    allowed=order.allowed,
                    is_reserved=is_reserved,
                    await_release=partial(self._await_release, order.branch),
                )
                with self._undoing(attempt):
                    yield attempt

    def _reserve_tables(self, order: WriteOrder, log: ManifestLog, operation_id: str) -> None:
        """Keeps small writes away from the tables of a write that holds their locks, before it reads anything.

        Reservations of other writers that had these locks are of dead ones.
        """
        head = log.head()
        catalog = self._branches.schemas.get(head.commit.schema_id).catalog
        held = frozenset(order.tables)
        entities = [each for each in catalog.entities if each.table_key in held]
        needed = relied_on(catalog, brought=entities, reduced=entities)
        claim = Claim(
            changes=held & head.pins.keys(),
            removes=held & head.pins.keys(),
            unchanged=frozenset({*needed.unchanged, *order.relies_on}) - held,
            intact=frozenset(needed.intact) - held,
        )
        reservation = Reservation(operation_id=operation_id, lock=min(held), claim=claim)
        publication = Publication(
            commit_id=operation_id,
            based_on=head.version,
            is_commit=False,
            branch=log.branch,
            reserves=reservation,
            releases=frozenset(each.operation_id for each in head.reservations if each.lock in held),
        )
        publish_reservation(log, publication)

    @contextmanager
    def _releasing(self, log: ManifestLog, operation_id: str) -> Iterator[None]:
        """Ends the reservation of a write that was not published.

        If there is something of it to settle, whoever does that ends it; and whoever finds that its writer is dead.
        """
        try:
            yield
        except BaseException:
            with suppress(OmnigraphError):
                log.head()  # the write may not know what it has reserved
            raise
        finally:
            known = log.known_head()
            if known is not None and _reservation(known, operation_id) is not None:
                try:
                    if read_sidecar(self._graph, operation_id) is None:
                        release_tables(log, operation_id)
                except OmnigraphError as error:
                    _logger.warning("the tables reserved by write %s were not released: %s", operation_id, error)

    def _snapshot(self, order: WriteOrder, manifest: Manifest) -> Snapshot:
        """The state that a write is based on. A small one finds rows in tables that are open or in memory already."""
        if order.kind is Writer.MUTATE:
            return self._branches.snapshot(manifest, self._opened, self._finder)
        return self._branches.snapshot(manifest)

    def _fold(self, order: WriteOrder, log: ManifestLog, base: Snapshot, fence: WriteFence) -> bool:
        """Folds what the manifest carries, before a write that needs it in the tables; returns whether it did.

        Of tables that the write does not hold, those that another holds are left alone.
        """
        carried = [key for key, pin in base.manifest.pins.items() if pin.carried]
        if not carried:
            return False
        if order.tables:
            self._fold_tables(log, base, fence, [key for key in carried if key in order.tables])
            return True
        with WriteFence(self._graph, log.branch, f"{Writer.FOLD} {log.branch}") as own:
            busy = own.take_free(carried, wait=0)
            log.check_exists()
            now = self._branches.snapshot(log.head())
            self._fold_tables(log, now, own, [key for key in carried if key not in busy and key in now.manifest.pins])
        return True

    def _fold_tables(self, log: ManifestLog, base: Snapshot, fence: WriteFence, keys: Collection[str]) -> None:
        attempt = WriteAttempt(kind=Writer.FOLD, actor=None, base=base, log=log, fence=fence, message="fold")
        with self._undoing(attempt):
            fold_tables(attempt, keys)

    @contextmanager
    def _undoing(self, attempt: WriteAttempt) -> Iterator[None]:
        """Undoes an attempt when the block fails."""
        try:
            yield
        except BaseException as error:
            self._undo(attempt, error)
            if isinstance(error, (NotFound, StorageError)):
                attempt.log.check_exists()
            raise

    def _undo(self, attempt: WriteAttempt, error: BaseException) -> None:
        """Undoes a failed write, so that its error means that nothing of it is visible."""
        operation_id = attempt.operation_id
        try:
            sidecar = give_up(attempt)
        except OutcomeUnknown as problem:
            if not isinstance(error, OutcomeUnknown):
                error.add_note(str(problem))
            return
        except OmnigraphError as problem:
            self._still_to_undo.add(operation_id)
            error.add_note(f"write {operation_id} may become visible: it could not be marked as failed: {problem}")
            return
        if sidecar is None:
            return
        try:
            undo(attempt, sidecar)
        except FenceLost:
            error.add_note(f"nothing of write {operation_id} is visible; the process that holds its tables undoes it")
        except OmnigraphError as problem:
            self._still_to_undo.add(operation_id)
            error.add_note(f"write {operation_id} is still to be undone, before the next one: {problem}")


def _reservation(head: Manifest, operation_id: str) -> Reservation | None:
    return next((each for each in head.reservations if each.operation_id == operation_id), None)
