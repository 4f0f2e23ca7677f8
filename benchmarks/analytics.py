"""What an analysis of ten million edges costs, once they are in memory, and what reading them costs."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Figure
from omnigraph.analytics.edges import Edges
from omnigraph.analytics.numbered import read_numbered, select_types
from omnigraph.analytics.sparse import find_components, pagerank
from omnigraph.catalog import table_schema
from omnigraph.failpoints import Writer
from omnigraph.session.writes import WriteOrder
from omnigraph.write import TableChange, write_changes
from omnigraph.write.ids import new_ids

NODES, EDGES, ITERATIONS = 1_000_000, 10_000_000, 10
STORED_NODES, STORED_EDGES = 200_000, 2_000_000
SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"


def figures() -> list[Figure]:
    """All figures about analyses; none has a bound."""
    edges = _random_edges(NODES, EDGES)
    return [
        _figure(
            f"pagerank, {ITERATIONS} iterations over {EDGES:,} edges",
            lambda: pagerank(edges, iterations=ITERATIONS, tolerance=0.0),
        ),
        _figure(f"weak components of {EDGES:,} edges", lambda: find_components(edges, "weak")),
        _reading(),
    ]


def _random_edges(nodes: int, edges: int) -> Edges:
    chance = np.random.default_rng(1)
    begin, end = (chance.integers(0, nodes, edges, dtype=np.int32) for _ in range(2))
    return Edges(nodes, begin, end)


def _reading() -> Figure:
    """Ids of edges in Lance to numbers in memory."""
    with tempfile.TemporaryDirectory() as folder:
        graph = og.init(Path(folder) / "graph", SCHEMA, durability="fast")
        people = pa.array([f"person {number}" for number in range(STORED_NODES)])
        drawn = _random_edges(STORED_NODES, STORED_EDGES)
        ends = {"src": people.take(pa.array(drawn.begin)), "dst": people.take(pa.array(drawn.end))}
        catalog = graph.schema.catalog
        tables = (
            (catalog.nodes["Person"], {"id": people, "name": people}),
            (catalog.edges["Knows"], {"id": new_ids(STORED_EDGES), **ends}),
        )
        changes = {}
        for entity, columns in tables:
            rows = pa.table(columns, schema=table_schema(entity))
            changes[entity.table_key] = TableChange(entity=entity, rows=rows, strict=rows["id"].combine_chunks())
        with graph._session.writes.attempt(WriteOrder(kind=Writer.LOAD, actor=None, message="rows")) as attempt:
            write_changes(attempt, changes)
        selection = select_types(catalog, nodes=None, edges=None, weight=None)
        name = f"reading {STORED_EDGES:,} edges as numbers"
        return _figure(name, lambda: read_numbered(graph.snapshot(), selection))


def _figure(name: str, work: Callable[[], object]) -> Figure:
    """The best of three, in seconds."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return Figure(
        name=name, value=min(times), unit="s", bound=None, raw=", ".join(f"{seconds:.2f} s" for seconds in times)
    )
