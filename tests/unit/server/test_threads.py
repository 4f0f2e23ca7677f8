"""Mutations, reads and slow work have their own threads."""

import asyncio
import threading

from omnigraph.server.scheduler import Threads
from omnigraph.server.settings import ServerSettings
from omnigraph.server.state import make_state

PATIENCE = 60


def test_64_mutations_wait_together_and_neither_reads_nor_slow_work_wait_for_them() -> None:
    state = make_state(ServerSettings(graphs={"a": "a"}, unauthenticated=True, threads=2), {}, None)
    all_there, may_end = threading.Barrier(65), threading.Event()

    def write() -> str:
        all_there.wait(PATIENCE)
        assert may_end.wait(PATIENCE)
        return "written"

    async def run() -> list[str]:
        writes = [state.start(write, threads=Threads.WRITES) for _ in range(64)]
        await asyncio.to_thread(all_there.wait, PATIENCE)
        for threads in (Threads.READS, Threads.SLOW):
            assert await state.start(lambda: "answered", threads=threads) == "answered"
        may_end.set()
        return await asyncio.gather(*writes)

    assert asyncio.run(run()) == ["written"] * 64
    state.shutdown()
