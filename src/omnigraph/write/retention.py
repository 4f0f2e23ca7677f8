"""What keeps cleanup away from things that somebody still needs: the lock of the history, and the marks of writers."""

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from ulid import ULID

from omnigraph.errors import StorageError
from omnigraph.storage import Location, Lock, Taken, locks_at, objects_at
from omnigraph.storage.file_locks import LocalLocks
from omnigraph.storage.holders import LOCK_FOLDER, lock_file
from omnigraph.versioning.log import MANIFEST_FOLDER
from omnigraph.versioning.names import physical_name
from omnigraph.write.fence import WAIT_SECONDS, WriteFence

_HISTORY = "history"
_OF_ALL_BRANCHES = "__history__"
_WRITERS = "__writing"
CLOCK_TICK = timedelta(milliseconds=50)
"""By how much the time of a file may lie before that at which it was written: a disk takes it from a coarse clock."""
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
    can be lost, and the files with it: whoever is about to refer to them checks it first.
    """
    lock = locks_at(graph.child(_WRITERS)).take(operation_id, "writing", WAIT_SECONDS)
    try:
        yield lock
    finally:
        _unmark(graph, operation_id, lock)


def oldest_marked_writer(graph: Location) -> datetime | None:
    """Since when the oldest writer that lives and has a mark is at work; the marks of dead ones are removed."""
    marks = graph.child(_WRITERS)
    locks = locks_at(marks)
    names = objects_at(marks).names(LOCK_FOLDER)
    locks.look(names)
    oldest = None
    for operation_id in names:
        try:
            lock = locks.take(operation_id, "removal", locks.patience)
        except Taken:
            began = ULID.from_str(operation_id).datetime - CLOCK_TICK
            oldest = began if oldest is None else min(oldest, began)
        else:
            _unmark(graph, operation_id, lock)
    return oldest


def _unmark(graph: Location, operation_id: str, lock: Lock) -> None:
    """Ends a mark. Its file goes while the mark is held, so that nobody can take what is about to go for a mark.

    What is written does not depend on whether this succeeds: a mark that stays is free, and cleanup removes it.
    """
    try:
        objects_at(graph.child(_WRITERS)).delete(lock_file(operation_id))
    except StorageError as error:
        _logger.warning("the mark of %s stays for cleanup: %s", operation_id, error)
    finally:
        lock.release()
