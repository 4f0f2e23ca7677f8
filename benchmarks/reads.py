"""What a read costs: against Lance alone, and against DuckDB on Parquet."""

import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lance
import omnigraph as og
from benchmarks.measure import Figure, medians
from omnigraph.catalog import table_schema
from omnigraph.failpoints import Writer
from omnigraph.session.writes import WriteOrder
from omnigraph.write import TableChange, write_changes
from omnigraph.write.ids import new_ids

NODES, PEOPLE, EDGES = 1_000_000, 100_000, 1_000_000
SCHEMA = """
node Item { name: String @key, size: I32? }
node Person { name: String @key }
edge Knows: Person -> Person
"""
LOOKUP = "query q($name: String) { match { $x: Item { name: $name } } return { $x.name, $x.size } }"
TWO_HOPS = "query q { match { $a: Person  $a knows{2,2} $c } return { count($c) } }"


def figures() -> list[Figure]:
    """All figures about reads."""
    with tempfile.TemporaryDirectory() as folder:
        graph = _filled_graph(Path(folder))
        return [_lookup(graph), _two_hops(graph, Path(folder))]


def _filled_graph(folder: Path) -> og.Graph:
    """A graph with many rows, put there through the write protocol: loads are measured elsewhere."""
    graph = og.init(folder / "graph", SCHEMA)
    chance = np.random.default_rng(1)
    catalog = graph.schema.catalog
    names = pa.array([f"item {number}" for number in range(NODES)])
    people = pa.array([f"person {number}" for number in range(PEOPLE)])
    ends = {name: people.take(pa.array(chance.integers(0, PEOPLE, EDGES))) for name in ("src", "dst")}
    tables = {
        "node:Item": {"id": names, "name": names, "size": pa.array(np.arange(NODES) % 100, pa.int32())},
        "node:Person": {"id": people, "name": people},
        "edge:Knows": {"id": new_ids(EDGES), **ends},
    }
    changes = {}
    for entity in (catalog.nodes["Item"], catalog.nodes["Person"], catalog.edges["Knows"]):
        rows = pa.table(tables[entity.table_key], schema=table_schema(entity))
        changes[entity.table_key] = TableChange(entity=entity, rows=rows, strict=rows["id"].combine_chunks())
    with graph._session.writes.attempt(WriteOrder(kind=Writer.LOAD, actor=None, message="rows")) as attempt:
        write_changes(attempt, changes)
    graph.ensure_indices()
    return graph


def _lookup(graph: og.Graph) -> Figure:
    """A lookup by key against the same lookup by hand in Lance, with the same index."""
    table = graph.snapshot().table("node:Item")
    dataset = lance.dataset(table.location.uri, version=table.version)
    turn = iter(range(10_000_000))

    def name() -> str:
        return f"item {next(turn) * 7_919 % NODES}"

    def raw() -> None:
        dataset.scanner(columns=["name", "size"], filter=f"id = '{name()}'").to_table().to_pylist()

    def ours() -> None:
        graph.query(LOOKUP, params={"name": name()}).rows()

    for warm_up in (ours, raw):
        warm_up()
    seconds = medians({"ours": ours, "raw": raw}, rounds=60)
    return Figure(
        name=f"point lookup by key among {NODES:,} nodes / a raw indexed lookup in Lance",
        value=seconds["ours"] / seconds["raw"],
        unit="x",
        bound=3.0,
        raw=f"{seconds['ours'] * 1e3:.2f} ms against {seconds['raw'] * 1e3:.2f} ms",
    )


def _two_hops(graph: og.Graph, folder: Path) -> Figure:
    """How many different pairs are two edges apart, against DuckDB's join of the same edges in Parquet."""
    file = folder / "knows.parquet"
    pq.write_table(graph.snapshot().table("edge:Knows").scan(["src", "dst"]), file)
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    # DuckDB answers the simpler question: pairs that a walk of two edges connects, whatever their distance.
    join = (
        "SELECT count(*) FROM (SELECT DISTINCT a.src, b.dst "
        f"FROM read_parquet('{file}') a JOIN read_parquet('{file}') b ON a.dst = b.src)"
    )
    graph.query(TWO_HOPS)
    seconds = medians(
        {"ours": lambda: graph.query(TWO_HOPS).rows(), "duckdb": lambda: connection.execute(join).fetchall()}, rounds=3
    )
    return Figure(
        name=f"two-hop distinct count over {EDGES:,} edges, warm / DuckDB's join of the same Parquet",
        value=seconds["ours"] / seconds["duckdb"],
        unit="x",
        bound=1.0,
        raw=f"{seconds['ours']:.2f} s against {seconds['duckdb']:.2f} s",
    )
