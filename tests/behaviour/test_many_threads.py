"""One handle of a graph that many threads use at once, as a server does."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import Conflict, NotFound, SchemaBehind
from tests.behaviour.people import SCHEMA, TABLES
from tests.crash.children import SOAKING

SECONDS = 60.0 if SOAKING else 4.0
ADD = "query add($name: String) { insert Person { name: $name, age: 1 } }"
FOUND = "query found($name: String) { insert City { name: $name } }"
MEET = """query meet($one: String, $two: String) {
    insert Person { name: $one, age: 1 }
    insert Person { name: $two, age: 2 }
    insert Knows { from: $one, to: $two }
}"""
COUNT = "query q { match { $p: Person } return { count($p) as n } }"
WALK = "query q { match { $p: Person  $p knows{1,2} $q } return { $p.name, $q.age } }"
LARGER_SCHEMA = SCHEMA.replace("age: I32?", "age: I32?, nick: String?") + "node Club { name: String @key }\n"


class Crowd:
    """Threads that use one graph until their time is up; what they were told is written down."""

    def __init__(self, graph: og.Graph) -> None:
        self.graph = graph
        self.until = time.monotonic() + SECONDS
        self.people: set[str] = set()
        self.cities: set[str] = set()
        self.edges: set[tuple[str, str]] = set()
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.failures: list[BaseException] = []

    def run(self, *jobs: Callable[[str], None]) -> None:
        threads = [threading.Thread(target=self._repeat, args=(job, number)) for number, job in enumerate(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for failure in self.failures:
            raise failure

    def _repeat(self, job: Callable[[str], None], number: int) -> None:
        step = 0
        while (time.monotonic() < self.until or not self.done[job.__name__]) and not self.failures:
            try:
                job(f"{job.__name__}-{number}-{step}")
                self.done[job.__name__] += 1
            except (Conflict, SchemaBehind) as error:
                self.refused[type(error).__name__] += 1
            except BaseException as error:
                self.failures.append(error)
            step += 1

    # --- jobs ---

    def add(self, name: str) -> None:
        self.graph.mutate(ADD, params={"name": name})
        self.people.add(name)

    def found(self, name: str) -> None:
        self.graph.mutate(FOUND, params={"name": name})
        self.cities.add(name)

    def meet(self, name: str) -> None:
        one, two = f"{name}-a", f"{name}-b"
        self.graph.mutate(MEET, params={"one": one, "two": two})
        self.people |= {one, two}
        self.edges.add((one, two))

    def load(self, name: str) -> None:
        self.graph.load({"Person": [{"name": name}]}, mode="append")
        self.people.add(name)

    def branch_off(self, name: str) -> None:
        """A branch that is written, read, and merged or thrown away."""
        self.graph.branches.create(name)
        try:
            self.graph.mutate(MEET, params={"one": f"{name}-a", "two": f"{name}-b"}, branch=name)
            found = {row["p.name"] for row in self.graph.query(WALK, branch=name)}
            assert f"{name}-a" in found
            if random.random() < 0.7:  # noqa: S311
                self.graph.merge(name)
                self.people |= {f"{name}-a", f"{name}-b"}
                self.edges.add((f"{name}-a", f"{name}-b"))
        finally:
            self.graph.branches.delete(name)

    def reuse(self, _: str) -> None:
        """A name that is given to one branch after the other."""
        self.graph.branches.create("reused")
        try:
            mark = f"mark-{random.getrandbits(60)}"
            self.graph.mutate(ADD, params={"name": mark}, branch="reused")
            rows = self.graph.snapshot("reused").table("node:Person").scan(["name"]).to_pylist()
            assert [row["name"] for row in rows if row["name"].startswith("mark-")] == [mark]
        finally:
            self.graph.branches.delete("reused")

    def read(self, _: str) -> None:
        known = len(self.people)
        assert self.graph.query(COUNT, timeout=60).rows()[0]["n"] >= known

    def walk(self, _: str) -> None:
        known = set(self.edges)
        found = {row["p.name"] for row in self.graph.query(WALK, cancellation=og.Cancellation())}
        assert {one for one, _ in known} <= found

    def look_around(self, _: str) -> None:
        """At every branch; one that is gone is not found."""
        for branch in self.graph.branches.list():
            try:
                self.graph.query(COUNT, branch=branch.name)
            except NotFound as error:
                assert (error.kind, error.name) == ("branch", branch.name)  # noqa: PT017

    def refresh(self, _: str) -> None:
        self.graph.refresh()
        time.sleep(0.02)

    def apply_schema(self, _: str) -> None:
        time.sleep(1.0)
        self.graph.schema.apply(LARGER_SCHEMA)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")


@pytest.mark.long
def test_what_many_threads_were_told_is_there_and_nothing_else(graph: og.Graph) -> None:
    crowd = Crowd(graph)
    writers = (crowd.add, crowd.add, crowd.found, crowd.meet, crowd.load)
    readers = (crowd.read, crowd.read, crowd.walk, crowd.look_around, crowd.refresh)
    crowd.run(*writers, *readers, crowd.branch_off, crowd.branch_off, crowd.reuse, crowd.apply_schema)

    assert all(crowd.done[each.__name__] for each in (*writers, *readers, crowd.apply_schema))
    for seen in (graph, og.open(graph.uri, "r")):
        rows = {key: seen.snapshot().table(key).scan().to_pylist() for key in TABLES}
        assert sorted(row["name"] for row in rows["node:Person"]) == sorted(crowd.people)
        assert sorted(row["name"] for row in rows["node:City"]) == sorted(crowd.cities)
        assert sorted((row["src"], row["dst"]) for row in rows["edge:Knows"]) == sorted(crowd.edges)
    assert graph.schema.text == LARGER_SCHEMA
    assert graph.recoveries.pending() == []
    assert set(crowd.refused) <= {"ExpectedVersionMismatch", "SchemaChanged", "SchemaBehind", "HeadMoved"}


@pytest.mark.long
def test_threads_that_write_one_table_all_get_their_turn(graph: og.Graph) -> None:
    written: Counter[int] = Counter()
    graph.mutate(ADD, params={"name": "first"})
    until = time.monotonic() + 2.0
    all_there = threading.Barrier(8)

    def write(number: int) -> None:
        all_there.wait()
        while time.monotonic() < until:
            graph.mutate(ADD, params={"name": f"{number}-{written[number]}"})
            written[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Those who wait are published together, so nobody waits for more than those before; but not all are equally quick.
    assert 2 * min(written[number] for number in range(8)) >= max(written.values())
    assert graph.query(COUNT).rows() == [{"n": written.total() + 1}]
