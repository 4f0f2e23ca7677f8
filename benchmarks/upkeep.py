"""What a graph costs after many small commits, with nothing but the upkeep that writes do along the way."""

import tempfile
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Figure, medians
from omnigraph.versioning import new_commit_id

NODES, EDGES, COMMITS = 100_000, 300_000, 2_000
INSERTS = 16
"""So many at a time, so that what only some of them do is in every time that is taken."""

SCHEMA = """
node Person { name: String @key, age: I32? }
edge Knows: Person -> Person
"""
LOOKUP = "query q($name: String) { match { $x: Person { name: $name } } return { $x.name, $x.age } }"
ONE_HOP = "query q($name: String) { match { $x: Person { name: $name }  $x knows $y } return { $y.name, $y.age } }"
INSERT = """
query q($name: String, $to: String) { insert Person { name: $name, age: 1 } insert Knows { from: $name, to: $to } }
"""
UPDATE = "query q($name: String) { update Person set { age: 7 } where name = $name }"


def figures() -> list[Figure]:
    """All figures about upkeep."""
    with tempfile.TemporaryDirectory() as folder:
        graphs = {name: _World(Path(folder) / name) for name in ("fresh", "aged")}
        for _ in range(COMMITS):
            graphs["aged"].write()
        return [
            _figure("point lookup by key", graphs, _World.look_up, rounds=60, bound=2.0),
            _figure("one hop from a node", graphs, _World.walk, rounds=60, bound=2.0),
            _figure(f"{INSERTS} inserts of a node and an edge", graphs, _World.insert_some, rounds=15, bound=1.5),
        ]


def _figure(
    what: str, graphs: "dict[str, _World]", work: "Callable[[_World], None]", *, rounds: int, bound: float
) -> Figure:
    for world in graphs.values():
        work(world)
    seconds = medians({name: partial(work, world) for name, world in graphs.items()}, rounds=rounds)
    return Figure(
        name=f"{what} after {COMMITS:,} commits of one or two rows / in a fresh graph",
        value=seconds["aged"] / seconds["fresh"],
        unit="x",
        bound=bound,
        raw=f"{seconds['aged'] * 1e3:.2f} ms against {seconds['fresh'] * 1e3:.2f} ms, {NODES:,} nodes, {EDGES:,} edges",
    )


class _World:
    """A graph with indexes, and the small things that are done with it."""

    def __init__(self, path: Path) -> None:
        self._chance = np.random.default_rng(1)
        self._turns = count()
        self._graph = og.init(path, SCHEMA)
        people = pa.array([f"person {number}" for number in range(NODES)])
        ends = {name: people.take(pa.array(self._chance.integers(0, NODES, EDGES))) for name in ("from", "to")}
        ages = pa.array(np.arange(NODES) % 90, pa.int32())
        self._graph.load({"Person": pa.table({"name": people, "age": ages}), "Knows": pa.table(ends)}, engine="local")
        self._graph.ensure_indices(engine="local")

    def _someone(self) -> str:
        return f"person {self._chance.integers(0, NODES)}"

    def write(self) -> None:
        """One commit: every fourth changes a node, the others bring a node and an edge."""
        if next(self._turns) % 4:
            self.insert()
        else:
            self._graph.mutate(UPDATE, params={"name": self._someone()})

    def insert(self) -> None:
        name = f"new {new_commit_id()}"
        self._graph.mutate(INSERT, params={"name": name, "to": self._someone()})

    def insert_some(self) -> None:
        for _ in range(INSERTS):
            self.insert()

    def look_up(self) -> None:
        assert self._graph.query(LOOKUP, params={"name": self._someone()}).rows()

    def walk(self) -> None:
        self._graph.query(ONE_HOP, params={"name": self._someone()}).rows()
