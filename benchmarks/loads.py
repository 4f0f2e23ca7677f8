"""Loads: with the indexes that later reads need, beside an embedded database of graphs; and on Spark."""

import json
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import ladybug
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq

import omnigraph as og
from benchmarks.measure import Figure
from benchmarks.peers import EDGES, NODES, SCHEMA, write_data
from benchmarks.pipeline_data import SCHEMA as BULK_SCHEMA
from benchmarks.pipeline_data import write_lines, write_parquet
from omnigraph import spark

ROUNDS = 3
BULK_NODES, BULK_EDGES, BULK_LINES = 300_000, 3_000_000, 2_000_000
_TABLES = (
    "CREATE NODE TABLE Person(name STRING, age INT32, city STRING, bio STRING, PRIMARY KEY(name))",
    "CREATE REL TABLE Knows(FROM Person TO Person, since INT32)",
)


def figures() -> Iterator[Figure]:
    """All figures about loads beside a peer."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder, NODES, EDGES)
        _write_lines(folder)
        yield from _compare(folder, "Parquet", _ours_from_parquet, _theirs_from_parquet, bound=1.0)
        yield from _compare(folder, "NDJSON", _ours_from_lines, _theirs_from_lines, bound=0.8)
    with tempfile.TemporaryDirectory() as name:
        yield from _on_spark(Path(name))


def _on_spark(folder: Path) -> Iterator[Figure]:
    """The same load in this process and in a session of Spark on its cores; the first turn warms up."""
    write_parquet(folder, people=BULK_NODES, friendships=BULK_EDGES)
    write_lines(folder / "graph.jsonl", BULK_LINES)
    spark.session()
    tables = {"Person": folder / "nodes.parquet", "Knows": folder / "edges.parquet"}
    rows = f"{BULK_NODES:,} nodes and {BULK_EDGES:,} edges of Parquet"
    for given, what in ((tables, rows), (folder / "graph.jsonl", f"{BULK_LINES:,} lines of NDJSON")):
        seconds: dict[str, list[float]] = {"spark": [], "local": []}
        for _ in range(ROUNDS + 1):
            for engine, each in seconds.items():
                shutil.rmtree(folder / "graph", ignore_errors=True)
                graph = og.init(folder / "graph", BULK_SCHEMA)
                start = time.perf_counter()
                graph.load(given, engine=engine)
                each.append(time.perf_counter() - start)
        wall = {engine: median(each[1:]) for engine, each in seconds.items()}
        yield Figure(
            name=f"warm load on Spark of {what} / in this process",
            value=wall["spark"] / wall["local"],
            unit="x",
            bound=1.3,
            raw=f"{wall['spark']:.2f} / {wall['local']:.2f} s",
        )
    spark.stop()


def _compare(
    folder: Path,
    format: str,
    ours: Callable[[Path, Path], None],
    theirs: Callable[[Path, Path], None],
    *,
    bound: float,
) -> Iterator[Figure]:
    """The two take turns, each into a new place; the first turn warms up the files and the libraries."""
    works = {"ours": ours, "ladybug": theirs}
    seconds: dict[str, list[float]] = {name: [] for name in works}
    busy: dict[str, list[float]] = {name: [] for name in works}
    sizes: dict[str, float] = {}
    for _ in range(ROUNDS + 1):
        for name, work in works.items():
            target = folder / name
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir()
            start, cpu = time.perf_counter(), _cpu_seconds()
            work(folder, target)
            seconds[name].append(time.perf_counter() - start)
            busy[name].append(_cpu_seconds() - cpu)
            sizes[name] = sum(file.stat().st_size for file in target.rglob("*") if file.is_file()) / 1e6
    wall = {name: median(values[1:]) for name, values in seconds.items()}
    cpu_seconds = {name: median(values[1:]) for name, values in busy.items()}
    yield Figure(
        name=f"load of {format} with indexes, {NODES:,} nodes and {EDGES:,} edges / ladybug",
        value=wall["ours"] / wall["ladybug"],
        unit="x",
        bound=bound,
        raw=", ".join(f"{name} {wall[name]:.2f} s ({cpu_seconds[name]:.2f} s of CPU)" for name in works),
    )
    yield Figure(
        name=f"size on disk after this load of {format} / ladybug",
        value=sizes["ours"] / sizes["ladybug"],
        unit="x",
        bound=1.0,
        raw=", ".join(f"{name} {size:.1f} MB" for name, size in sizes.items()),
    )


def _ours_from_parquet(folder: Path, target: Path) -> None:
    graph = og.init(target / "graph", SCHEMA)
    graph.load({name: folder / f"{name}.parquet" for name in ("Person", "Knows")}, engine="local")
    graph.ensure_indices(engine="local")


def _ours_from_lines(folder: Path, target: Path) -> None:
    graph = og.init(target / "graph", SCHEMA)
    graph.load([folder / "Person.jsonl", folder / "Knows.jsonl"], engine="local")
    graph.ensure_indices(engine="local")


def _theirs_from_parquet(folder: Path, target: Path) -> None:
    with _new_ladybug(target) as connection:
        for name in ("Person", "Knows"):
            connection.execute(f"COPY {name} FROM '{folder / f'{name}.parquet'}'")


def _theirs_from_lines(folder: Path, target: Path) -> None:
    """Its reader of JSON is an extension that has to be downloaded, so Arrow reads the lines for it."""
    with _new_ladybug(target) as connection:
        for name, ends in (("Person", ()), ("Knows", ("from", "to"))):
            lines = pyarrow.json.read_json(folder / f"{name}.jsonl")
            data = lines["data"].combine_chunks()
            fields = dict(zip(data.type.names, data.flatten(), strict=True))
            rows = pa.table({**{end: lines[end] for end in ends}, **fields})
            assert rows.num_rows
            connection.execute(f"COPY {name} FROM rows")


def _new_ladybug(target: Path) -> ladybug.Connection:
    connection = ladybug.Connection(ladybug.Database(str(target / "ladybug.db")))
    for statement in _TABLES:
        connection.execute(statement)
    return connection


def _write_lines(folder: Path) -> None:
    """The rows of the Parquet files as lines that both can read."""
    for name, kind in (("Person", "type"), ("Knows", "edge")):
        with (folder / f"{name}.jsonl").open("w") as file:
            for row in pq.read_table(folder / f"{name}.parquet").to_pylist():
                ends = {end: row.pop(end) for end in ("from", "to") if end in row}
                file.write(json.dumps({kind: name, **ends, "data": row}) + "\n")


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
