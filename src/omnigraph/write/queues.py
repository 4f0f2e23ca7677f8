"""Write queues: within a process, writers of one table take turns."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

_registry_lock = threading.Lock()
_queues: dict[tuple[str, str, str], threading.RLock] = {}


@contextmanager
def write_queues(graph: str, branch: str, table_keys: Iterable[str]) -> Iterator[None]:
    """Holds the queues of all these tables. They are taken in sorted order, so that no two writers wait in a circle.

    A writer that knows its tables takes them before it reads what it builds on, and again where it commits.
    """
    with ExitStack() as held:
        for table_key in sorted(table_keys):
            held.enter_context(_queue(graph, branch, table_key))
        yield


def _queue(graph: str, branch: str, table_key: str) -> threading.RLock:
    with _registry_lock:
        return _queues.setdefault((graph, branch, table_key), threading.RLock())
