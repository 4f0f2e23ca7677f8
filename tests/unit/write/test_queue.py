"""Threads that stand in line."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from omnigraph.storage.location import location_of
from omnigraph.write import fence as fences
from omnigraph.write.fence import Queue, WriteFence


def test_whoever_came_first_is_next() -> None:
    queue, order = Queue(), list[int]()

    def stand_in_line(number: int) -> None:
        assert queue.acquire(60)
        order.append(number)
        queue.release()

    assert queue.acquire(0)
    threads = []
    for number in range(6):
        thread = threading.Thread(target=stand_in_line, args=(number,))
        thread.start()
        threads.append(thread)
        while len(queue._waiting) <= number:
            time.sleep(0.001)
    queue.release()
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4, 5]
    assert queue.acquire(0)


def test_whoever_gives_it_back_does_not_get_it_before_those_who_wait() -> None:
    queue, got = Queue(), threading.Event()
    assert queue.acquire(0)

    def stand_in_line() -> None:
        if queue.acquire(60):
            got.set()

    waiting = threading.Thread(target=stand_in_line)
    waiting.start()
    while not queue._waiting:
        time.sleep(0.001)
    queue.release()
    assert not queue.acquire(0)
    waiting.join()
    assert got.is_set()


def test_whoever_waited_too_long_leaves_the_line() -> None:
    queue = Queue()
    assert queue.acquire(0)
    assert not queue.acquire(0.02)
    assert not queue._waiting
    queue.release()
    assert queue.acquire(0)


def test_no_two_threads_have_it_at_once_though_some_give_up() -> None:
    queue, inside, most = Queue(), [0], [0]

    def work(number: int) -> int:
        got = 0
        for step in range(60):
            if queue.acquire(0.0005 if (number + step) % 3 else 60):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0002)
                inside[0] -= 1
                got += 1
                queue.release()
        return got

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(work, range(8))) >= 8 * 20
    assert most == [1]
    assert queue.acquire(0)


def test_the_line_of_a_table_is_gone_when_nobody_stands_in_it(tmp_path: Path) -> None:
    graph = location_of(str(tmp_path))
    with WriteFence(graph, "main", "a test") as fence:
        fence.take(["node:A", "node:B"])
        assert len([key for key in fences._queues if key[0] == graph.uri]) == 2
    assert not [key for key in fences._queues if key[0] == graph.uri]
