"""Processes whose threads write together are killed and stopped at any moment, while what they carry is folded often.

Every thread counts in a row of its own: with a value that it computes, so that a write that is done twice is seen too.
"""

import random
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

import omnigraph as og
from tests.crash.children import SOAKING, Children
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.nursery import CARRIED, Child

LIVES = 60 if SOAKING else 4
PROCESSES, THREADS = 2, 4
SCHEMA = """
node Counter { name: String @key, value: I64 }
node Step { name: String @key }
edge Took: Counter -> Step
"""
WRITES = """
query begin($me: String) { insert Counter { name: $me, value: 0 } }
query count($me: String, $step: String) {
    update Counter set { value: value + 1 } where name = $me
    insert Step { name: $step }
    insert Took { from: $me, to: $step }
}
"""
PROGRAM = f"""
import json, os, sys, threading
import omnigraph as og
WRITES = {WRITES!r}
job = json.loads(sys.stdin.readline())
graph = og.open(job["uri"])

def work(me):
    graph.mutate(WRITES, "begin", {{"me": me}})
    for number in range(1_000_000):
        graph.mutate(WRITES, "count", {{"me": me, "step": f"{{me}} {{number}}"}})
        os.write(1, f"{{me}} {{number}}\\n".encode())

threads = [threading.Thread(target=work, args=(f"{{job['life']}}.{{number}}",)) for number in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.long
def test_no_member_of_a_group_is_lost_or_done_twice(tmp_path: Path, kills: Callable[[int], None]) -> None:
    chance = random.Random(23)  # noqa: S311
    graph = og.init(tmp_path / "graph", SCHEMA)
    acknowledged: dict[str, int] = {}
    for life in range(LIVES):
        with ExitStack() as running:
            children = [_begin(running, graph, f"{life}.{number}") for number in range(PROCESSES)]
            for child in children:
                acknowledged |= _some_steps(child, chance.randrange(1, 30))
            children[0].send_signal(signal.SIGSTOP)
            time.sleep(chance.uniform(0, 0.05))
            children[1].kill()
            children[0].send_signal(signal.SIGCONT)
            acknowledged |= _some_steps(children[0], chance.randrange(1, 10))
            children[0].kill()
            for child in children:
                output, errors = child.communicate()
                assert errors == ""
                acknowledged |= _steps(output.split("\n")[:-1])
        _check(og.open(graph.uri), acknowledged)
    assert_history_is_linear(graph)
    kills(LIVES * PROCESSES)


def _begin(running: ExitStack, graph: og.Graph, life: str) -> Child:
    child = running.enter_context(Children(PROGRAM, {CARRIED: "6"}).next())
    child.tell(uri=graph.uri, life=life)
    return child


def _some_steps(child: Child, many: int) -> dict[str, int]:
    """The last steps that the threads of a process were told of, of the next so many."""
    return _steps(child.stdout.readline().removesuffix("\n") for _ in range(many))


def _steps(lines: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in lines:
        me, _, number = line.partition(" ")
        found[me] = int(number)
    return found


def _check(graph: og.Graph, acknowledged: dict[str, int]) -> None:
    """Each thread has taken the steps that it was told of, and at most one more; each of them once."""
    assert graph.recoveries.pending() == []
    assert_heads_are_pinned(graph)
    snapshot = graph.snapshot()
    counted = {row["name"]: row["value"] for row in snapshot.table("node:Counter").scan(["name", "value"]).to_pylist()}
    steps = snapshot.table("node:Step").scan(["name"])["name"].to_pylist()
    assert sorted(steps) == sorted(f"{me} {number}" for me, value in counted.items() for number in range(value))
    took = snapshot.table("edge:Took").scan(["src", "dst"]).to_pylist()
    assert sorted(row["dst"] for row in took) == sorted(steps)
    for me, last in acknowledged.items():
        assert last < counted[me] <= last + 2
