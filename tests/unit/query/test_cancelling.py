"""What stops a query before it has ended."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from omnigraph.catalog import Catalog
from omnigraph.compiler import compile_query
from omnigraph.compiler.ir import Direction
from omnigraph.errors import QueryCancelled, QueryExceedsMemory, QueryTimedOut, UsageError
from omnigraph.query import NEVER, AdjacencyCache, Cancellation, cancellation_of, execute, plan_read
from omnigraph.query.adjacency import Adjacency, adjacency_of
from omnigraph.query.walks import reachable_pairs
from tests.unit.query.world import NOW, World, written

ENDLESS = """query q { match { $a: Person  $b: Person  $c: Person  $d: Person  $a.age < $b.age  $c.age < $d.age }
    return { max($a.age) as most, count($d) as n } }"""


@pytest.fixture(scope="module")
def crowd(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> World:
    """So many people that all pairs of their pairs take hours."""
    people = [{"name": f"p{number}", "age": number % 97, "bio": ""} for number in range(3000)]
    edges = [{"src": f"p{number}", "dst": f"p{number + 1}"} for number in range(2999)]
    reader = written(tmp_path_factory.mktemp("crowd"), catalog, {"node:Person": people, "edge:Knows": edges})
    return World(catalog, reader)


def ask(world: World, text: str, cancellation: Cancellation, cache: AdjacencyCache | None = None) -> pa.Table:
    query = compile_query(text, world.catalog)
    return execute(plan_read(query, {}, world.catalog, now=NOW), world.reader, cache, cancellation=cancellation)


def answers(world: World) -> bool:
    rows = ask(world, "query q { match { $p: Person } return { count($p) as n } }", NEVER).to_pylist()
    return bool(rows == [{"n": 3000}])


class CancelledAt(Cancellation):
    """Is cancelled when it is asked for the so-manieth time."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.left = number

    def check(self) -> None:
        self.left -= 1
        if self.left <= 0:
            self.cancel()
        super().check()


# --- what runs in the process ---


def test_a_statement_of_duckdb_is_stopped_by_another_thread(crowd: World) -> None:
    cancellation = Cancellation()
    timer = threading.Timer(0.3, cancellation.cancel)
    timer.start()
    with pytest.raises(QueryCancelled):
        ask(crowd, ENDLESS, cancellation)
    timer.join()
    assert answers(crowd)


def test_a_statement_of_duckdb_is_stopped_when_its_time_is_up(crowd: World) -> None:
    with pytest.raises(QueryTimedOut) as caught:
        ask(crowd, ENDLESS, Cancellation(0.3))
    assert caught.value.seconds == 0.3
    assert answers(crowd)


def test_many_queries_are_stopped_by_one_thread(crowd: World) -> None:
    caught: list[type[Exception]] = []

    def run(timeout: float) -> None:
        try:
            ask(crowd, ENDLESS, Cancellation(timeout))
        except QueryTimedOut as error:
            caught.append(type(error))

    threads = [threading.Thread(target=run, args=(0.2 + number / 50,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert caught == [QueryTimedOut] * 8
    assert [each.name for each in threading.enumerate()].count("omnigraph-cancelling") == 1


def test_a_query_that_was_stopped_before_it_began_reads_nothing(crowd: World) -> None:
    stopped = Cancellation()
    stopped.cancel()
    crowd.reader.scans.clear()
    with pytest.raises(QueryCancelled):
        ask(crowd, "query q { match { $p: Person } return { $p.name } }", stopped)
    assert crowd.reader.scans == []


def test_a_scan_is_stopped_between_its_batches(crowd: World) -> None:
    table = crowd.reader.table("node:Person")
    asked = CancelledAt(3)
    for _ in range(2):
        table.scan(["name"], check=asked.hold)
    with pytest.raises(QueryCancelled):
        table.scan(["name"], check=asked.hold)


def test_a_walk_is_stopped_between_its_levels() -> None:
    names = [f"n{number:04}" for number in range(1000)]
    chain = adjacency_of(pa.chunked_array([names[:-1]]), pa.chunked_array([names[1:]]), is_one_type=True)
    asked = CancelledAt(5)
    with pytest.raises(QueryCancelled):
        list(reachable_pairs(chain.neighbours(Direction.FORWARD), np.array([0]), 1, None, cancellation=asked))
    assert asked.left == 0


def test_texts_are_read_no_further_when_a_query_is_stopped(catalog: Catalog, tmp_path: Path) -> None:
    people = [{"name": f"p{number}", "bio": "a word"} for number in range(5000)]
    world = World(catalog, written(tmp_path, catalog, {"node:Person": people}))
    ranked = """query q { match { $p: Person } return { $p.name } order { bm25($p.bio, "word") desc } limit 3 }"""
    whole = CancelledAt(10**9)
    ask(world, ranked, whole)
    for number in range(1, 10**9 - whole.left + 1):
        with pytest.raises(QueryCancelled):
            ask(world, ranked, CancelledAt(number))


@pytest.mark.parametrize(
    "pattern",
    ["$a: Person  $b: Person", "$a: Person  $a knows{1,} $b", "$a: Person"],
    ids=["a product", "a walk", "a scan"],
)
def test_a_query_holds_no_more_than_it_may(crowd: World, pattern: str) -> None:
    text = f"query q {{ match {{ {pattern} }} return {{ $a.name }} }}"
    limit = 50_000
    with pytest.raises(QueryExceedsMemory) as caught:
        ask(crowd, text, Cancellation(60, parent=Cancellation(max_bytes=limit)))
    assert caught.value.limit == limit
    few = f'query q {{ match {{ {pattern}  $a.name = "p2990" }} return {{ $a.name }} limit 3 }}'
    assert ask(crowd, few, Cancellation(max_bytes=10**7)).num_rows > 0


def test_a_limit_of_bytes_is_one() -> None:
    with pytest.raises(UsageError):
        Cancellation(max_bytes=0)


@pytest.mark.parametrize(
    "text",
    [
        "query q { match { $p: Person } return { $p.name } }",
        "query q { match { $p: Person  $p knows{1,4} $q } return { count($q) as n } }",
        'query q { match { $p: Person { name: "p5" }  $p knows{1,3} $q } return { $q.age } }',
    ],
)
def test_wherever_a_query_is_stopped_the_next_one_answers(crowd: World, text: str) -> None:
    """Each number stops it at another place, until it has ended before it was asked so often."""
    cache, whole = AdjacencyCache(), CancelledAt(10**9)
    expected = ask(crowd, text, whole)
    for number in range(1, 10**9 - whole.left + 1):
        with pytest.raises(QueryCancelled):
            ask(crowd, text, CancelledAt(number), AdjacencyCache())
        assert ask(crowd, text, NEVER, cache).equals(expected)


# --- what waits ---


def test_a_query_that_waits_for_another_to_build_an_adjacency_can_be_stopped() -> None:
    cache, begun, go_on = AdjacencyCache(), threading.Event(), threading.Event()

    def build() -> Adjacency:
        begun.set()
        go_on.wait()
        return adjacency_of(pa.chunked_array([["a"]]), pa.chunked_array([["b"]]), is_one_type=True)

    builder = threading.Thread(target=cache.get_or_build, args=("edge:A", 1, build))
    builder.start()
    begun.wait()
    with pytest.raises(QueryTimedOut):
        cache.get_or_build("edge:A", 1, build, cancellation=Cancellation(0.05))
    go_on.set()
    builder.join()
    assert cache.get("edge:A", 1) is not None


# --- the cancellation itself ---


def test_without_a_reason_to_stop_nothing_happens() -> None:
    NEVER.check()
    with NEVER.watching(pytest.fail):
        pass
    with pytest.raises(UsageError):
        NEVER.cancel()
    assert cancellation_of(None, None) is NEVER


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_timeout_is_above_zero(timeout: float) -> None:
    with pytest.raises(UsageError):
        Cancellation(timeout)


def test_a_timeout_and_a_cancellation_both_count() -> None:
    given = Cancellation()
    both = cancellation_of(60.0, given)
    both.check()
    given.cancel()
    with pytest.raises(QueryCancelled):
        both.check()
    late = cancellation_of(0.01, Cancellation())
    time.sleep(0.02)
    with pytest.raises(QueryTimedOut):
        late.check()
    assert cancellation_of(None, given) is given


def test_an_interrupt_is_repeated_until_the_work_ends_and_never_comes_later() -> None:
    calls: list[float] = []
    enough = threading.Event()

    def interrupt() -> None:
        calls.append(time.monotonic())
        if len(calls) == 3:
            enough.set()

    cancellation = Cancellation()

    def watch() -> None:
        with cancellation.watching(interrupt):
            cancellation.cancel()
            enough.wait()

    watch()
    seen = len(calls)
    time.sleep(0.2)
    assert len(calls) == seen >= 3


def test_an_error_that_was_no_interrupt_is_passed_on() -> None:
    with pytest.raises(OSError, match="no disk"), Cancellation(60.0).watching(lambda: None):
        raise OSError("no disk")


def test_an_interrupt_that_fails_does_not_keep_others_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def fail() -> None:
        raise OSError("no connection")

    both, inside = Cancellation(), threading.Barrier(2)

    def interrupted(interrupt: Callable[[], None]) -> None:
        with pytest.raises(QueryCancelled), both.watching(interrupt):  # noqa: PT012 - what is watched fails last
            inside.wait()
            both.cancel()
            done.wait()
            raise OSError("interrupted")

    first = threading.Thread(target=interrupted, args=(fail,))
    first.start()
    interrupted(done.set)
    first.join()
    assert "could not interrupt a query" in caplog.text


# --- what we lean on ---


@pytest.fixture
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as root, root.cursor() as cursor:
        yield cursor


def test_duckdb_forgets_an_interrupt_that_comes_while_nothing_runs(duck: duckdb.DuckDBPyConnection) -> None:
    duck.interrupt()
    assert duck.sql("select 1").fetchall() == [(1,)]


def test_duckdb_raises_an_interrupt_where_the_statement_runs_and_can_be_used_on(
    duck: duckdb.DuckDBPyConnection,
) -> None:
    endless = "select count(*) from range(1000000) a, range(1000000) b where a.range * b.range % 7 = 3"
    ended = threading.Event()

    def interrupt() -> None:
        while not ended.wait(0.2):  # one that comes before the statement runs is forgotten
            duck.interrupt()

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    try:
        with pytest.raises(duckdb.InterruptException):
            duck.sql(endless).fetchall()
    finally:
        ended.set()
        interrupter.join()
    assert duck.sql("select 1").fetchall() == [(1,)]
