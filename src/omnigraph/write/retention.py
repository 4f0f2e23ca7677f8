"""What keeps cleanup away from files that are still needed: the lock of the history, and the marks of writers.

A change of a schema holds the lock of the history too. A file beside the manifests shows it to other tools that look at
the graph. If it exists while nobody holds the history, it was left by a process that died.
"""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

from omnigraph import failpoints
from omnigraph.errors import FenceHeld, StorageError
from omnigraph.failpoints import Point
from omnigraph.storage.location import Location
from omnigraph.storage.locks import LOCK_FOLDER, LocalLocks, Lock, Taken, lock_file, locks_at, seems_abandoned
from omnigraph.storage.objects import objects_at
from omnigraph.versioning import Branches
from omnigraph.versioning.log import MANIFEST_FOLDER
from omnigraph.versioning.names import physical_name
from omnigraph.write.fence import WAIT_SECONDS, WriteFence

_HISTORY = "history"
_OF_ALL_BRANCHES = "__history__"
_WRITERS, _BEGAN = "__writing", "began"
CLOCK_TICK = timedelta(milliseconds=50)
"""By how much the time of a file may lie before that at which it was written: a disk takes it from a coarse clock."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_logger = logging.getLogger(__name__)


@contextmanager
def holding_history(graph: Location, purpose: str, wait: float = WAIT_SECONDS) -> Iterator[WriteFence]:
    """Nobody removes old commits, names one, or begins a branch on one while another does.

    It is taken before any other lock. A commit that is found inside the block and named there is one that stays.
    """
    with WriteFence(graph, _OF_ALL_BRANCHES, purpose) as fence:
        fence.take([_HISTORY], wait)
        yield fence


def forget_locks(graph: Location, branches: Collection[str]) -> None:
    """Removes the lock files of branches other than these; no branch is begun meanwhile.

    On an object store they stay: a lease that is deleted might be another's by then.
    """
    if graph.path is None:
        return
    locks = LocalLocks(graph.path)
    turns = {f"{MANIFEST_FOLDER}/{physical_name(each)}" for each in branches}
    for name in locks.names():
        if name not in turns and name.rpartition("/")[0] not in {*branches, _OF_ALL_BRANCHES}:
            locks.forget(name)


@contextmanager
def marked_as_writing(graph: Location, operation_id: str) -> Iterator[Lock]:
    """A mark that files written in this block will be referred to later; for writers that hold no lock meanwhile.

    It is a lock of its own that ends with its process, so that a killed writer protects nothing. On an object store it
    can be lost, and the files with it: whoever is about to refer to them checks it first. A note beside it, written
    once and before anything is read, has from the store the time at which the writer began.
    """
    marks = graph.child(_WRITERS)
    objects_at(marks).note(f"{_BEGAN}/{operation_id}", b"")
    lock = locks_at(marks).take(operation_id, "writing", WAIT_SECONDS)
    try:
        yield lock
    finally:
        _unmark(graph, operation_id, lock)


def is_anybody_writing(graph: Location) -> bool:
    """Whether there are marks of writers, alive or not yet known to be dead."""
    marks = objects_at(graph.child(_WRITERS))
    return bool(marks.names(LOCK_FOLDER) or marks.names(_BEGAN))


def oldest_marked_writer(graph: Location) -> datetime | None:
    """Since when the oldest writer that lives and has a mark is at work; the marks of dead ones are removed.

    The time is that of the clock which dates the files of the store. It is the beginning of time if it is not known.
    """
    locks = locks_at(graph.child(_WRITERS))
    began = _beginnings(graph)
    locks.look(began)
    alive = []
    for operation_id in began:
        try:
            lock = locks.take(operation_id, "removal", locks.patience)
        except Taken:
            alive.append(operation_id)
        else:
            _unmark(graph, operation_id, lock)
    return min((began[each] for each in alive), default=None)


def oldest_seen_writer(graph: Location) -> datetime | None:
    """The same for those who only look: nothing is taken or removed, and who may be alive is alive."""
    began = _beginnings(graph)
    marks = graph.child(_WRITERS)
    return min((began[each] for each in began if not seems_abandoned(marks, each)), default=None)


def _beginnings(graph: Location) -> dict[str, datetime]:
    """When each writer with a mark began, by the clock of the store."""
    from omnigraph.storage.files import files_below  # noqa: PLC0415 - who only takes a lock needs none

    marks = graph.child(_WRITERS)
    written = {file.name: file.modified - CLOCK_TICK for file in files_below(marks.child(_BEGAN))}
    names = {*objects_at(marks).names(LOCK_FOLDER), *objects_at(marks).names(_BEGAN)}
    return {name: written.get(name, _LONG_AGO) for name in sorted(names)}


def _unmark(graph: Location, operation_id: str, lock: Lock) -> None:
    """Ends a mark. Its file goes while the mark is held, so that nobody can take what is about to go for a mark.

    What is written does not depend on whether this succeeds: a mark that stays is free, and cleanup removes it.
    """
    marks = objects_at(graph.child(_WRITERS))
    try:
        marks.delete(lock_file(operation_id))
        marks.delete(f"{_BEGAN}/{operation_id}")
    except StorageError as error:
        _logger.warning("the mark of %s stays for cleanup: %s", operation_id, error)
    finally:
        lock.release()


SCHEMA_LOCK = f"{MANIFEST_FOLDER}/schema_apply.lock"


@contextmanager
def holding_schema(branches: Branches, purpose: str) -> Iterator[WriteFence]:
    """Nobody changes a schema, begins a branch or removes old commits in this block; taken before any other lock."""
    with holding_history(branches.graph, purpose) as history:
        objects_at(branches.graph).replace(SCHEMA_LOCK, b"")
        try:
            failpoints.hit(Point.SCHEMA_LOCKED)
            yield history
        finally:
            # What was done does not depend on whether this succeeds: a lock that stays is nobody's.
            try:
                objects_at(branches.graph).delete(SCHEMA_LOCK)
            except StorageError as error:
                _logger.warning("the lock of the schema stays for whoever comes next: %s", error)


def remove_stale_schema_lock(branches: Branches) -> None:
    """Removes the lock of a process that died. The caller holds the history."""
    objects_at(branches.graph).delete(SCHEMA_LOCK)


def is_schema_locked(graph: Location) -> bool:
    """Whether the lock is there, be its holder alive or dead."""
    return objects_at(graph).exists(SCHEMA_LOCK)


def settle_schema_lock(branches: Branches) -> None:
    """Removes the lock if whoever took it is dead, and leaves it alone otherwise."""
    if not is_schema_locked(branches.graph):
        return
    try:
        with holding_history(branches.graph, "settling a schema change", wait=0.0):
            remove_stale_schema_lock(branches)
    except FenceHeld:
        pass
