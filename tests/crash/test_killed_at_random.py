"""A process that loads and mutates in a loop and is killed at any moment loses nothing that it acknowledged."""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.crash.children import SOAKING, Children
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.crash.world import SCHEMA, state_of

KILLS = 200 if SOAKING else 15
PROGRAM = """
import itertools, json, sys
from pathlib import Path
import omnigraph as og
from tests.crash.world import write_records
job = json.loads(sys.stdin.readline())
print("opening", flush=True)
graph = og.open(job["uri"])
file = Path(job["folder"]) / "data.jsonl"
for number in itertools.count():
    batch = f"{job['life']}-{number}-"
    latest = job["life"] * 100_000 + number
    if number % 3:
        graph.mutate(
            f'query add {{ insert A {{ name: "{batch}a", value: 1 }} insert B {{ name: "{batch}b", value: 1 }}'
            f' insert E {{ from: "{batch}a", to: "{batch}b", value: 1 }}'
            f' update C set {{ value: {latest} }} where name = "latest" }}'
        )
    else:
        rows = {("A", batch + "a", 1), ("B", batch + "b", 1), ("E", batch + "a", batch + "b", 1)}
        write_records(file, rows | {("C", "latest", latest)})
        graph.load(file, "merge")
    print(batch, flush=True)
"""


@pytest.mark.long
def test_no_acknowledged_write_is_lost_and_none_is_there_in_part(tmp_path: Path, kills: Callable[[int], None]) -> None:
    chance = random.Random(11)  # noqa: S311
    graph = og.init(tmp_path / "graph", SCHEMA)
    graph.mutate('query start { insert C { name: "latest", value: 0 } }')
    acknowledged: list[str] = []
    for life in range(1, KILLS + 1):
        with Children(PROGRAM).next() as child:
            child.tell(uri=graph.uri, folder=str(tmp_path), life=life)
            assert child.stdout.readline() == "opening\n"
            acknowledged += [child.stdout.readline().strip() for _ in range(chance.randrange(4))]
            time.sleep(chance.uniform(0, 0.1))
            child.kill()
            output, errors = child.communicate()
        assert errors == ""
        acknowledged += output.split("\n")[:-1]
        _check(og.open(graph.uri), acknowledged)
    assert_history_is_linear(graph)
    kills(KILLS)


def _check(graph: og.Graph, acknowledged: list[str]) -> None:
    """Every batch is whole, and all that were acknowledged are there."""
    assert graph.recoveries.pending() == []
    assert_heads_are_pinned(graph)
    state = state_of(graph)
    batches = {row[1].removesuffix("a") for row in state if row[0] == "A"}
    assert batches >= set(acknowledged)
    expected: set[tuple[Any, ...]] = {("C", "latest", _number(max(batches, key=_number, default="0-0-")))}
    for batch in batches:
        expected |= {("A", batch + "a", 1), ("B", batch + "b", 1), ("E", batch + "a", batch + "b", 1)}
    assert state == expected


def _number(batch: str) -> int:
    life, number, _ = batch.split("-")
    return int(life) * 100_000 + int(number)
