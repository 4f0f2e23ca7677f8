"""Every executor gives the same rows in the same order: in memory, from the tables through DuckDB, and on Spark.

Random queries of every form are asked on random graphs of random schemas, at the heads of branches and in the past,
while small commits, deletions, forks and compactions change the graph, and while another process commits. Where the
graph is small enough, a plain evaluator in Python says what the rows must be.

Values compare exactly. Where a query adds up floats, these compare up to a relative difference of 1e-9, or 1e-9 where
values cancel each other: the last digits of a sum depend on the order in which rows are added, and the executor over
tables in memory adds a value that many rows have once, times their number. No query orders rows by such sums or decides
by them: two groups whose sums differ by less may change places.

There are 2,000 queries: 1,800 on 40 graphs that change, and 200 on 5 graphs that another process changes.
`OMNIGRAPH_SOAK=1` asks twenty times as many, and `OMNIGRAPH_SPARK_EACH=8` one in eight of them on Spark too, as
`make soak` does. `OMNIGRAPH_SEED=5000` begins with other graphs.
"""

import multiprocessing
import os
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

import omnigraph as og
from tests.crash.children import SOAKING
from tests.engines.random_graphs import RandomGraph
from tests.engines.random_worlds import RandomWorld

FIRST = int(os.environ.get("OMNIGRAPH_SEED", "0"))
SEEDS = 800 if SOAKING else 40
"""Graphs that change; another process changes an eighth as many."""
QUERIES = 45
QUERIES_MEANWHILE = 40
SPARK_EACH = int(os.environ.get("OMNIGRAPH_SPARK_EACH", "0"))
"""One query in this many is asked on Spark too; 0 for none."""


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_executors_agree(tmp_path: Path, request: pytest.FixtureRequest, seed: int) -> None:
    if SPARK_EACH:
        request.getfixturevalue("spark_for_few_rows")
    world = RandomWorld.of_seed(seed, tmp_path)
    for number in range(QUERIES):
        if number % 9 == 8:
            world.change()
        is_for_spark = bool(SPARK_EACH) and number % SPARK_EACH == seed % SPARK_EACH
        at = world.moment()
        world.check(world.query(at), at, spark=is_for_spark, where=f"query {number}")
    assert world.in_memory > QUERIES // 5


def _commit(seed: int, path: Path, begun: Event, ended: Event) -> None:
    """Commits until the other process has asked all its queries."""
    chance = RandomGraph.of_seed(seed)
    chance.rows()
    graph = og.open(path)
    begun.set()
    for name, rows in chance.changes():
        graph.load({name: rows}, mode="merge", engine="local")
        if ended.is_set():
            return


def test_executors_agree_while_another_process_commits(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    for seed in range(FIRST + 1000, FIRST + 1000 + SEEDS // 8):
        folder = tmp_path / str(seed)
        folder.mkdir()
        world = RandomWorld.of_seed(seed, folder)
        begun, ended = context.Event(), context.Event()
        writer = context.Process(target=_commit, args=(seed, folder / "graph.omni", begun, ended))
        writer.start()
        assert begun.wait(60)
        asked, commits, late = 0, set[str](), time.monotonic() + 60
        try:
            # However slowly the other process comes to its commits.
            while asked < QUERIES_MEANWHILE or (len(commits) < 2 and time.monotonic() < late):
                asked += 1
                at = world.graph.snapshot()
                commits.add(at.commit_id)
                world.check(world.query(at), at, spark=False, where=f"query {asked} while another process commits")
        finally:
            ended.set()
            writer.join(60)
        assert writer.exitcode == 0
        assert len(commits) > 1
