"""Upserts into a graph that upserts have made: the tenth beside the second, of every row and of few."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Figure

NODES, EDGES = 300_000, 2_000_000
"""Together more keys than are compared in one bucket."""

TIMES = 10
_SCHEMA = """
node Person { name: String @key, age: I64, city: String? }
edge Knows: Person -> Person { since: I64 }
"""
_SHARES = (0.01, 1.0)


def figures() -> Iterator[Figure]:
    """All figures about repeated upserts."""
    for share in _SHARES:
        with tempfile.TemporaryDirectory() as folder:
            graph = og.init(Path(folder) / "graph", _SCHEMA)
            _upsert(graph, 1.0, seed=0)
            seconds = [_upsert(graph, share, seed=number) for number in range(1, TIMES)]
            graph.optimize()
            after = _upsert(graph, share, seed=TIMES)
        raw = ", ".join(f"{each:.2f}" for each in seconds)
        name = f"of {share:.0%} of {NODES:,} nodes and {EDGES:,} edges"
        yield Figure(
            name=f"CPU of the tenth upsert {name} / of the second",
            value=seconds[-1] / seconds[0],
            unit="x",
            bound=2.0,
            raw=f"second to tenth: {raw} s of CPU",
        )
        yield Figure(
            name=f"CPU of an upsert after optimize {name} / of the second",
            value=after / seconds[0],
            unit="x",
            bound=2.0,
            raw=f"{after:.2f} s of CPU, the second {seconds[0]:.2f}",
        )


def _upsert(graph: og.Graph, share: float, *, seed: int) -> float:
    """Merges some of the nodes and edges with new values, and returns the CPU seconds."""
    data = {"Person": _people(share, seed), "Knows": _friendships(share, seed)}
    start = time.process_time()
    graph.load(data, mode="merge", engine="local")
    return time.process_time() - start


def _people(share: float, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    numbers = _some(chance, NODES, share)
    names = pa.array([f"person{number:08d}" for number in numbers.tolist()])
    return pa.table({"name": names, "age": chance.integers(0, 100, len(numbers)), "city": names})


def _friendships(share: float, seed: int) -> pa.Table:
    chance = np.random.default_rng(seed)
    numbers = _some(chance, EDGES, share)
    ends = {"from": numbers * 7 % NODES, "to": (numbers * 13 + 1) % NODES}
    return pa.table(
        {
            "id": pa.array([f"edge{number:08d}" for number in numbers.tolist()]),
            **{name: pa.array([f"person{each:08d}" for each in end.tolist()]) for name, end in ends.items()},
            "since": chance.integers(1990, 2026, len(numbers)),
        }
    )


def _some(chance: np.random.Generator, count: int, share: float) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.arange(count) if share == 1 else chance.choice(count, int(count * share), replace=False)
