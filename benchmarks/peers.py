"""Reads beside those of embedded databases on the same data: ladybug, a graph database, and DuckDB."""

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import ladybug
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph as og
from benchmarks.measure import Figure

NODES, EDGES, CITIES = 100_000, 1_000_000, 200
SMALL_NODES, SMALL_EDGES = 10_000, 100_000
ROUNDS = 200
BLOCK, WARM_UP = 20, 3
"""How many questions a database answers in a row, and how many others before them to warm up."""
SCHEMA = """
node Person { name: String @key, age: I32, city: String, bio: String }
edge Knows: Person -> Person { since: I32 }
"""
QUERIES = """
query lookup($name: String) {
    match { $p: Person { name: $name } } return { $p.id, $p.name, $p.age, $p.city, $p.bio }
}
query one_hop($name: String) {
    match { $p: Person { name: $name }  $p knows $q } return { $q.id, $q.age }
}
query two_hops($name: String) {
    match { $p: Person { name: $name }  $p knows $q  $q knows $r } return { $r.city, count($r) as n }
}
query three_hops($name: String) {
    match { $p: Person { name: $name }  $p knows{1,3} $r } return { count($r) as n }
}
query average { match { $p: Person } return { $p.city, avg($p.age) as a } }
query degrees { match { $p: Person  $p knows $q } return { $p.id, count($q) as n } order { n desc } limit 10 }
"""
CYPHER = {
    "lookup": "MATCH (p:Person {name: $name}) RETURN p.name, p.name, p.age, p.city, p.bio",
    "one_hop": "MATCH (p:Person {name: $name})-[:Knows]->(q:Person) RETURN DISTINCT q.name, q.age ORDER BY q.name",
    "two_hops": "MATCH (p:Person {name: $name})-[:Knows]->(q:Person)-[:Knows]->(r:Person) "
    "RETURN r.city, count(*) ORDER BY r.city",
    "three_hops": "MATCH (p:Person {name: $name})-[:Knows*1..3]->(r:Person) RETURN count(DISTINCT r.name)",
    "average": "MATCH (p:Person) RETURN p.city, avg(p.age) ORDER BY p.city",
    "degrees": "MATCH (p:Person)-[:Knows]->(q:Person) RETURN p.name, count(*) AS n ORDER BY n DESC, p.name LIMIT 10",
}
_ENDS = "SELECT k.dst AS d FROM knows k WHERE k.src = $name"
SQL = {
    "lookup": "SELECT name, name, age, city, bio FROM person WHERE name = $name",
    "one_hop": "SELECT q.name, q.age FROM knows k JOIN person q ON q.name = k.dst WHERE k.src = $name ORDER BY q.name",
    "two_hops": "SELECT r.city, count(*) FROM knows a JOIN knows b ON b.src = a.dst JOIN person r ON r.name = b.dst "
    "WHERE a.src = $name GROUP BY r.city ORDER BY r.city",
    "three_hops": f"WITH one AS ({_ENDS}), two AS (SELECT dst AS d FROM knows SEMI JOIN one ON src = d), "
    "three AS (SELECT dst AS d FROM knows SEMI JOIN two ON src = d) "
    "SELECT count(*) FROM (SELECT d FROM one UNION SELECT d FROM two UNION SELECT d FROM three)",
    "average": "SELECT city, avg(age) FROM person GROUP BY city ORDER BY city",
    "degrees": "SELECT src, count(*) AS n FROM knows GROUP BY src ORDER BY n DESC, src LIMIT 10",
}
BOUNDS = {"lookup": 1.0, "one_hop": 1.0, "two_hops": 0.5, "three_hops": 0.1, "average": 0.5, "degrees": 0.5}


def figures() -> Iterator[Figure]:
    """All figures beside peers."""
    for nodes, edges in ((NODES, EDGES), (SMALL_NODES, SMALL_EDGES)):
        with tempfile.TemporaryDirectory() as folder:
            yield from _reads(Path(folder), nodes, edges)


@dataclass(frozen=True)
class Peer:
    """A database: what it answers to a query by its name."""

    name: str
    ask: Callable[[str, Mapping[str, Any]], list[tuple[Any, ...]]]


def write_data(folder: Path, nodes: int, edges: int) -> list[str]:
    """Files of nodes and edges, of which some have hundreds of neighbours; the names of the nodes."""
    chance = np.random.default_rng(7)
    names = [f"person-{number:06}" for number in range(nodes)]
    table = pa.table(
        {
            "name": names,
            "age": pa.array(chance.integers(18, 90, nodes), pa.int32()),
            "city": [f"city-{number}" for number in chance.integers(0, CITIES, nodes)],
            "bio": [f"lives somewhere and knows {number} others" for number in chance.integers(0, 1000, nodes)],
        }
    )
    pq.write_table(table, folder / "Person.parquet")
    weights = 1.0 / (np.arange(nodes) + 50) ** 0.5
    begins = chance.choice(nodes, edges, p=weights / weights.sum())
    ends_at = chance.choice(nodes, edges, p=weights / weights.sum())
    pairs = np.unique(begins.astype(np.int64) * nodes + ends_at)
    chance.shuffle(pairs)
    column = table["name"].combine_chunks()
    ends = {"from": column.take(pa.array(pairs // nodes)), "to": column.take(pa.array(pairs % nodes))}
    pq.write_table(
        pa.table({**ends, "since": pa.array(chance.integers(1990, 2026, len(pairs)), pa.int32())}),
        folder / "Knows.parquet",
    )
    return names


def open_peers(folder: Path) -> dict[str, Peer]:
    """The same data in each database, ours by prepared reads, as ladybug by prepared statements, and by text."""
    graph = og.init(folder / "graph.omni", SCHEMA)
    graph.load({"Person": folder / "Person.parquet", "Knows": folder / "Knows.parquet"}, engine="local")

    prepared = {name: graph.prepare(QUERIES, name) for name in CYPHER}

    def ours(name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in prepared[name].run(params).rows()]

    def ours_by_text(name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in graph.query(QUERIES, name, params=params).rows()]

    connection = ladybug.Connection(ladybug.Database(str(folder / "ladybug.db")))
    connection.execute("CREATE NODE TABLE Person(name STRING, age INT32, city STRING, bio STRING, PRIMARY KEY(name))")
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since INT32)")
    connection.execute(f"COPY Person FROM '{folder / 'Person.parquet'}'")
    connection.execute(f"COPY Knows FROM '{folder / 'Knows.parquet'}'")
    statements = {name: connection.prepare(text) for name, text in CYPHER.items()}

    def theirs(name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        found = connection.execute(statements[name], dict(params))
        assert isinstance(found, ladybug.QueryResult)
        return [tuple(row) for row in found.get_all()]

    duck = duckdb.connect(str(folder / "duck.db"))
    duck.execute(f"CREATE TABLE person AS SELECT * FROM '{folder / 'Person.parquet'}'")
    duck.execute(f'CREATE TABLE knows AS SELECT "from" AS src, "to" AS dst, since FROM \'{folder / "Knows.parquet"}\'')
    duck.execute("CREATE UNIQUE INDEX person_name ON person(name)")
    duck.execute("CREATE INDEX knows_src ON knows(src)")

    def relational(name: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return duck.execute(SQL[name], dict(params)).fetchall()

    return {
        "ours": Peer("ours", ours),
        "ours by text": Peer("ours by text", ours_by_text),
        "ladybug": Peer("ladybug", theirs),
        "duckdb": Peer("duckdb", relational),
    }


def _reads(folder: Path, nodes: int, edges: int) -> Iterator[Figure]:
    names = write_data(folder, nodes, edges)
    peers = open_peers(folder)
    chance = np.random.default_rng(3)
    beside_duckdb = {}
    for query in CYPHER:
        has_name = query not in ("average", "degrees")
        rounds = {"lookup": 2 * ROUNDS, "one_hop": ROUNDS, "two_hops": ROUNDS}.get(query, 21)
        given = [{"name": names[number]} if has_name else {} for number in chance.integers(0, nodes, rounds)]
        seconds = compare_peers(peers, query, given)
        medians = {name: statistics.median(each) for name, each in seconds.items()}
        beside_duckdb[query] = medians["ours"] / medians["duckdb"]
        times = ", ".join(f"{name} {medians[name] * 1e3:.3f} ({min(each) * 1e3:.3f})" for name, each in seconds.items())
        bound = BOUNDS[query] if nodes == NODES else (2.0 if query == "lookup" else None)
        yield Figure(
            name=f"{query.replace('_', ' ')}, {nodes:,} nodes / ladybug",
            value=medians["ours"] / medians["ladybug"],
            unit="x",
            bound=bound,
            raw=f"median (fastest) in ms: {times}; ours / duckdb {beside_duckdb[query]:.3f} x",
        )
    yield Figure(
        name=f"the query that is slowest beside duckdb, {nodes:,} nodes / duckdb",
        value=max(beside_duckdb.values()),
        unit="x",
        bound=1.0,
        raw=", ".join(f"{query.replace('_', ' ')} {ratio:.3f}" for query, ratio in beside_duckdb.items()),
    )


def compare_peers(peers: Mapping[str, Peer], query: str, given: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The seconds of each answer of each peer; all answers must agree.

    The peers take turns block by block, so that noise meets all of them, and each answers several questions in a row,
    as it does for its users. If they took turns question by question, each would find the caches of the processor full
    of the data of the one before.
    """
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    order = list(peers)
    for start in range(0, len(given), BLOCK):
        block = given[start : start + BLOCK]
        answers: dict[str, list[list[tuple[Any, ...]]]] = {}
        order = [*order[1:], order[0]]
        for name in order:
            ask = peers[name].ask
            for params in given[start - WARM_UP : start] or given[-WARM_UP:]:
                ask(query, params)
            answers[name] = []
            for params in block:
                begin = time.perf_counter()
                answer = ask(query, params)
                seconds[name].append(time.perf_counter() - begin)
                answers[name].append(answer)
        for number, params in enumerate(block):
            expected = _rounded(answers["duckdb"][number])
            for name in order:
                assert _rounded(answers[name][number]) == expected, (query, params, name)
    return seconds


def _rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [tuple(round(value, 6) if isinstance(value, float) else value for value in row) for row in rows]
