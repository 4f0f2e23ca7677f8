"""Runs writes: on the newest state, under locks, after completing unfinished writes of others.

Every retry of a write is decided here: when an unfinished write is in its way, when the schema changes meanwhile, and
when faster writers change the tables that it read.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from omnigraph.errors import (
    ExpectedVersionMismatch,
    FenceLost,
    NotFound,
    OmnigraphError,
    OutcomeUnknown,
    RecoveryRequired,
    SchemaChanged,
    StorageError,
)
from omnigraph.failpoints import Writer
from omnigraph.recovery import Mode, give_up, recover, undo, undo_remnants
from omnigraph.storage.location import Location
from omnigraph.versioning import Branches, Snapshot, new_commit_id
from omnigraph.versioning.names import as_text, check_actor
from omnigraph.write import Allowed, WriteAttempt, WriteFence, anything
from omnigraph.write.fence import EXISTENCE
from omnigraph.write.retention import marked_as_writing
from omnigraph.write.sidecar import read_sidecar

_Result = TypeVar("_Result")


_SCHEMA_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOrder:
    """The branch, the actor and the message of a write. `tables` are those that are known before anything is read."""

    kind: Writer
    branch: str = "main"
    actor: str | None
    message: str
    if_commit: str | None = None
    tables: Collection[str] = ()
    schema_id: str | None = None
    """The schema that the write was prepared for; None if it depends on no schema."""

    allowed: Allowed = anything


Work: TypeAlias = Callable[[WriteAttempt], _Result]
Prepare: TypeAlias = Callable[[Snapshot], tuple[WriteOrder, Work[_Result]]]
"""Makes an order and its work for the newest state of a branch; called again when the schema has changed."""


class Writes:
    """The writes of one handle on a graph."""

    def __init__(self, graph: Location, branches: Branches) -> None:
        self._graph = graph
        self._branches = branches
        self._still_to_undo: set[str] = set()

    def run(self, order: WriteOrder, work: Work[_Result]) -> _Result:
        """Runs a write.

        If it finds an unfinished write, because another process died meanwhile, it has changed nothing yet. It starts
        over, and waits until it is known which writers are dead. It also starts over if the schema has changed, unless
        it was prepared for one schema. Remnants of failed writes in its tables are undone in between.
        """
        patient = False
        mended: set[str] = set()
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
            patient = True

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
            order, work = prepare(now)
            return self.run_persistent(order, work, hold_all) if persistent else self.run(order, work)

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

    def heal(self, *, patient: bool) -> None:
        """Completes writes of dead processes, and undoes our own failed writes that could not be undone before."""
        for operation_id in sorted(self._still_to_undo):
            recover(self._graph, self._branches, Mode.UNDO, patient=patient, only=operation_id)
            if read_sidecar(self._graph, operation_id) is None:
                self._still_to_undo.discard(operation_id)
        recover(self._graph, self._branches, Mode.FORWARD_ONLY, patient=patient, but=self._still_to_undo)

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
            base = self._branches.snapshot(log.head())
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
            )
            try:
                yield attempt
            except BaseException as error:
                self._undo(attempt, error)
                if isinstance(error, (NotFound, StorageError)):
                    log.check_exists()
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
