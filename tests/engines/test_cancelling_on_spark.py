"""A query on Spark that is stopped before it has ended."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from omnigraph.catalog import Catalog
from omnigraph.errors import QueryCancelled, QueryTimedOut
from omnigraph.query import Cancellation, Shortcuts
from omnigraph.spark.executor import SparkResult, execute_on_spark
from tests.engines.both import OpenedTables
from tests.unit.query.world import World, written

# Takes half a minute or so: in the middle of a product Spark does not ask a task whether it shall end.
LONG = """query q { match { $a: Person  $b: Person  $c: Person  $a.age < $b.age  $b.age < $c.age }
    return { max($a.age) as most, count($c) as n } }"""
PEOPLE = 400
PATIENCE = 400.0


def wait_until(it_is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not it_is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_query_on_spark_is_stopped_with_its_jobs(
    catalog: Catalog, spark_for_few_rows: SparkSession, tmp_path: Path
) -> None:
    people = [{"name": f"p{number}", "age": number % 97, "bio": ""} for number in range(PEOPLE)]
    world = World(catalog, written(tmp_path, catalog, {"node:Person": people}))
    context = spark_for_few_rows.sparkContext

    def has_jobs() -> bool:
        return len(context.statusTracker().getActiveJobsIds()) > 0

    def is_idle() -> bool:
        """Whether no task runs on: it would keep the queries of others waiting."""
        executors = context._jsc.sc().statusTracker().getExecutorInfos()
        return not any(executor.numRunningTasks() for executor in executors)

    def ask(text: str, cancellation: Cancellation) -> SparkResult:
        plan = world.planned(text, {}, Shortcuts.NONE)
        tables = OpenedTables(world.reader.tables)
        return execute_on_spark(plan, tables, spark_for_few_rows, cancellation=cancellation)

    with pytest.raises(QueryTimedOut):
        ask(LONG, Cancellation(1.5))
    wait_until(lambda: not has_jobs() and is_idle())
    cancellation = Cancellation()

    def cancel() -> None:
        wait_until(has_jobs)
        time.sleep(1.0)  # by now it is at the long one of its tasks, or it is stopped earlier
        cancellation.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(QueryCancelled):
        ask(LONG, cancellation)
    canceller.join()
    wait_until(lambda: not has_jobs() and is_idle())
    assert len(context.getJobTags()) == 0

    answer = ask("query q { match { $p: Person } return { count($p) as n } }", Cancellation(600))
    assert answer._fetched, "its rows are fetched while they can be cancelled"
    assert answer.rows() == [{"n": PEOPLE}]
