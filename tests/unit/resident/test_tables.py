"""What tables in memory promise to threads that share them."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph as og
from omnigraph.resident.memory import MemoryBound
from omnigraph.resident.tables import Base

PATIENCE = 60.0


class NoticedLock:
    """A lock that says when a thread other than its maker asks for it."""

    def __init__(self) -> None:
        self._lock, self._maker = threading.RLock(), threading.get_ident()
        self.was_asked = threading.Event()

    def __enter__(self) -> None:
        if threading.get_ident() != self._maker:
            self.was_asked.set()
        self._lock.acquire()

    def __exit__(self, *_: Any) -> None:
        self._lock.release()


def test_threads_that_need_the_index_of_two_tables_do_not_wait_for_each_other(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node Person { name: String @key }")
    table = graph.snapshot().table("node:Person")
    memory = MemoryBound()
    memory.lock = lock = NoticedLock()  # type: ignore[assignment]
    one, other = (Base(table, np.arange(1, dtype=np.uint64), {"id": pa.array([name])}, memory) for name in "ab")
    with lock:
        thread = threading.Thread(target=lambda: other.index.find("b"), daemon=True)
        thread.start()
        assert lock.was_asked.wait(PATIENCE)
        assert one.index.find("a") == 0
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert other.index.find("b") == 0
