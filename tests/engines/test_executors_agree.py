"""Every executor gives the same rows in the same order: in memory, from the tables through DuckDB, and on Spark.

Random queries are asked on random graphs of random schemas, also while another process commits. Values compare exactly.
Sums and averages of floats are the exception: their last digits depend on the order in which rows are added, and the
executor over tables in memory adds a value that many rows have once, times their number. They compare up to a relative
difference of 1e-9, or 1e-9 where values cancel each other. No query orders rows by them: two groups whose sums differ
by less may change places.

`OMNIGRAPH_SOAK=1` asks twenty times as many queries, and asks Spark four times as often.
"""

import math
import multiprocessing
import re
import time
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import omnigraph as og
from omnigraph.query.reading import MemoryResult, plan_query, read
from omnigraph.versioning import Snapshot
from tests.crash.children import SOAKING
from tests.engines.random_graphs import RandomGraph

SEEDS = 400 if SOAKING else 20
"""Graphs for each of both tests."""
QUERIES = 90
QUERIES_MEANWHILE = 10
SPARK_EACH = 10 if SOAKING else 40
"""One query in this many is asked on Spark too."""


def from_tables(graph: og.Graph, text: str, at: Snapshot) -> list[dict[str, Any]]:
    """The rows of a query that is answered without tables in memory."""
    session = graph._session
    _, plan = plan_query(session.queries.prepare(text, None, at).compiled, {}, at, "local")
    return read(plan, at, session.adjacency, to_frame=lambda table: table).rows()


def is_same(one: Any, other: Any, *, rounded: bool) -> bool:
    """Whether two values are the same; floats that are `rounded` may differ in their last digits."""
    if rounded and isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return type(one) is type(other) and bool(one == other)


def check_rows(found: list[dict[str, Any]], expected: list[dict[str, Any]], query: str) -> None:
    """Fails where the rows of a query, their order or their columns differ."""
    assert [[*row] for row in found] == [[*row] for row in expected], query
    rounded = set(re.findall(r"(?:sum|avg)\([^)]*\) as (\w+)", query))
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        same = (is_same(one[name], other[name], rounded=name in rounded) for name in other)
        assert all(same), (query, number, one, other)


def graph_of(seed: int, path: Path) -> tuple[RandomGraph, og.Graph]:
    """A random graph, stored."""
    chance = RandomGraph.of_seed(seed)
    graph = og.init(path / "graph.omni", chance.schema, durability="fast")
    rows = chance.rows()
    if rows:
        graph.load(rows, engine="local")
    return chance, graph


@pytest.mark.parametrize("seed", range(SEEDS))
def test_executors_agree(tmp_path: Path, spark_for_few_rows: SparkSession, seed: int) -> None:
    chance, graph = graph_of(seed, tmp_path)
    changes = chance.changes()
    in_memory = 0
    for number in range(QUERIES):
        if number % 15 == 14:
            name, rows = next(changes)
            graph.load({name: rows}, mode="merge", engine="local")
        text = chance.query()
        found = graph.query(text, engine="local")
        in_memory += isinstance(found, MemoryResult)
        check_rows(found.rows(), from_tables(graph, text, graph._session.head()), text)
        if number % SPARK_EACH == seed % SPARK_EACH:
            check_rows(graph.query(text, engine="spark").rows(), found.rows(), text)
    assert in_memory > QUERIES // 3


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
    for seed in range(1000, 1000 + SEEDS // 4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        chance, graph = graph_of(seed, folder)
        begun, ended = context.Event(), context.Event()
        writer = context.Process(target=_commit, args=(seed, folder / "graph.omni", begun, ended))
        writer.start()
        assert begun.wait(60)
        asked, commits, late = 0, set[str](), time.monotonic() + 60
        try:
            # However slowly the other process comes to its commits.
            while asked < QUERIES_MEANWHILE * 4 or (len(commits) < 2 and time.monotonic() < late):
                asked += 1
                text = chance.query()
                found = graph.query(text, engine="local")
                at = graph._session.state_at(commit=found.commit_id)[0]
                commits.add(found.commit_id)
                check_rows(found.rows(), from_tables(graph, text, at), text)
        finally:
            ended.set()
            writer.join(60)
        assert writer.exitcode == 0
        assert len(commits) > 1
