"""What bulk loads cost: against the bare engines below, against the size of the data, and in memory.

Every contestant runs in a process of its own, `python -m benchmarks.pipeline NAME …`, and says what it took; the rounds
interleave, so that noise meets all of them. Starting Python and importing does not count for anybody. Memory is watched
in further runs, because watching takes time away from the work.
"""

import importlib
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
from lance.fragment import write_fragments

import lance
import omnigraph as og
from benchmarks.measure import Figure
from benchmarks.pipeline_data import FRIENDSHIPS, PEOPLE, SCHEMA, write_lines, write_parquet
from omnigraph import spark
from omnigraph.storage.indexes import FULL_TEXT_PARAMETERS

LINES = 10_000_000
PARQUET_PEOPLE, PARQUET_FRIENDSHIPS = 1_000_000, 10_000_000
ROUNDS = 3
_WARM_UP_LINES = 50_000
_BATCH = 131_072
_ID_PREFIX, _FIRST_ID = "0123456789ABCDEF", 1_000_000_000  # ids of 26 characters that cost next to nothing
_SAMPLED_EVERY = 0.1
_CORES = 2

Run = Mapping[str, float]


def figures() -> list[Figure]:
    """All figures about bulk loads."""
    with tempfile.TemporaryDirectory() as folder:
        lines = _lines(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        return [*lines, *_parquet(Path(folder))]


def _lines(folder: Path) -> list[Figure]:
    """NDJSON with every check on Spark, against one DuckDB process that does the least that could be right."""
    sizes = {"tenth": LINES // 10, "half": LINES // 2, "all": LINES, "warm": _WARM_UP_LINES}
    files = {name: folder / f"{name}.jsonl" for name in sizes}
    for name, count in sizes.items():
        write_lines(files[name], count)
    bare: list[Run] = []
    ours: list[Run] = []
    for _ in range(ROUNDS):
        bare.append(_run("duckdb", folder, files["all"]))
        ours.append(_run("spark", folder, files["warm"], files["tenth"], files["all"]))
    peaks = {
        name: _watched("spark", folder, files["warm"], files[name])["peak_gib"] for name in ("tenth", "half", "all")
    }
    alone = _watched("duckdb", folder, files["all"])["peak_gib"]
    seconds, bare_seconds = _median(ours, "all"), _median(bare, "seconds")
    return [
        Figure(
            name=f"load of {LINES:,} NDJSON lines on Spark, local[{_CORES}] / one DuckDB process, unguarded",
            value=seconds / bare_seconds,
            unit="x",
            bound=2.0,
            raw=f"{seconds:.1f} s against {bare_seconds:.1f} s ({_shares(bare)})",
        ),
        Figure(
            name=f"that load / the load of {LINES // 10:,} lines",
            value=seconds / _median(ours, "tenth"),
            unit="x",
            bound=11.0,
            raw=f"{seconds:.1f} s against {_median(ours, 'tenth'):.1f} s",
        ),
        Figure(
            name="peak memory of that load, all processes together",
            value=peaks["all"],
            unit="GiB",
            bound=6.0,
            raw=f"{_size(files['all'])} of NDJSON; the DuckDB process takes {alone:.1f} GiB",
        ),
        Figure(
            name=f"that peak / the peak of a load of {LINES // 2:,} lines",
            value=peaks["all"] / peaks["half"],
            unit="x",
            bound=1.2,
            raw=f"{peaks['all']:.2f} GiB against {peaks['half']:.2f} GiB; {peaks['tenth']:.2f} GiB for a tenth",
        ),
    ]


def _parquet(folder: Path) -> list[Figure]:
    """Parquet with every check and the indexes of keys, against Lance with the same indexes and against Ladybug."""
    write_parquet(folder, people=PARQUET_PEOPLE, friendships=PARQUET_FRIENDSHIPS)
    rival = importlib.util.find_spec("ladybug") is not None
    runs: dict[str, list[Run]] = {"lance": [], "graph": [], **({"ladybug": []} if rival else {})}
    for _ in range(ROUNDS):
        for name, results in runs.items():
            results.append(_run(name, folder, folder / "nodes.parquet", folder / "edges.parquet"))
    seconds = {name: _median(results, "seconds") for name, results in runs.items()}
    what = f"Parquet of {PARQUET_PEOPLE:,} nodes and {PARQUET_FRIENDSHIPS:,} edges, loaded and indexed"
    taken = f"{seconds['graph']:.1f} s ({_shares(runs['graph'])})"
    found = [
        Figure(
            name=f"{what} / Lance alone",
            value=seconds["graph"] / seconds["lance"],
            unit="x",
            bound=1.7,
            raw=f"{taken} against {seconds['lance']:.1f} s ({_shares(runs['lance'])})",
        )
    ]
    if rival:
        raw = f"{taken} against {seconds['ladybug']:.1f} s ({_shares(runs['ladybug'])})"
        loaded = _median(runs["graph"], "load") / seconds["ladybug"]
        indexed = seconds["graph"] / seconds["ladybug"]
        found += [
            Figure(name="the load of that alone / Ladybug's COPY", value=loaded, unit="x", bound=1.0, raw=raw),
            Figure(name="that load with its indexes / Ladybug's COPY", value=indexed, unit="x", bound=None, raw=raw),
        ]
    return found


def _size(file: Path) -> str:
    """How large a file is, for people."""
    return f"{file.stat().st_size / 2**20:.0f} MiB"


def _median(runs: list[Run], name: str) -> float:
    return statistics.median(run[name] for run in runs)


def _shares(runs: list[Run]) -> str:
    """The median of each part of the work."""
    return ", ".join(f"{name} {_median(runs, name):.1f}" for name in runs[0] if name != "seconds")


# Processes


def _run(contestant: str, folder: Path, *files: Path) -> Run:
    """What a contestant says about its work in a process of its own; what it wrote is gone afterwards."""
    with tempfile.TemporaryDirectory(dir=folder) as target, _started(contestant, target, files) as process:
        return _said(process)


def _watched(contestant: str, folder: Path, *files: Path) -> Run:
    """The same, with the peak memory of the process and of all that it started."""
    with tempfile.TemporaryDirectory(dir=folder) as target, _started(contestant, target, files) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, _proportional_bytes(process.pid))
            time.sleep(_SAMPLED_EVERY)
        return {**_said(process), "peak_gib": peak / 2**30}


def _started(contestant: str, target: str, files: tuple[Path, ...]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.pipeline", contestant, target, *map(str, files)]
    # Nobody shares the cores with a recorder of Spark's classes, which the first session of a machine would start.
    quiet = {**os.environ, "OMNIGRAPH_SPARK_RECORD": "off"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1], env=quiet)


def _said(process: subprocess.Popen[str]) -> Run:
    output, _ = process.communicate()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args, output)
    said: dict[str, float] = json.loads(output.splitlines()[-1])
    return said


def _proportional_bytes(root: int) -> int:
    """The memory of a process and its descendants; a page that several share counts once."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            status = _text(entry / "stat").rpartition(")")[2].split()
            if status:
                children.setdefault(int(status[1]), []).append(int(entry.name))
    total, waiting = 0, [root]
    while waiting:
        process = waiting.pop()
        waiting += children.get(process, [])
        for line in _text(Path(f"/proc/{process}/smaps_rollup")).splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1]) * 1024
    return total


def _text(file: Path) -> str:
    """What the system says of a process; nothing, if it has just ended."""
    try:
        return file.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class _Clock:
    """The seconds of each part of the work, and of all of it."""

    def __init__(self) -> None:
        self._start = self._last = time.perf_counter()
        self._parts: dict[str, float] = {}

    def part(self, name: str) -> None:
        now = time.perf_counter()
        self._parts[name] = now - self._last
        self._last = now

    def result(self) -> dict[str, float]:
        return {"seconds": self._last - self._start, **self._parts}


# Contestants


def _spark(target: Path, warm: str, *files: str) -> Run:
    """Our load of each file on a session that is warm, into a graph of its own."""
    spark.session(master=f"local[{_CORES}]")
    try:
        og.init(target / "warm", SCHEMA).load(warm, engine="spark")
        seconds = {}
        for file in map(Path, files):
            graph = og.init(target / file.stem, SCHEMA)
            start = time.perf_counter()
            graph.load(file, engine="spark")
            seconds[file.stem] = time.perf_counter() - start
            shutil.rmtree(target / file.stem)
        return seconds
    finally:
        spark.stop()


def _graph(target: Path, nodes: str, edges: str) -> Run:
    """Our load of Parquet on a session that is warm, and the indexes that lookups and traversals need."""
    spark.session(master=f"local[{_CORES}]")
    graph = og.init(target / "graph", SCHEMA)
    try:
        few = pyarrow.dataset.dataset(nodes).head(1_000)
        og.init(target / "warm", SCHEMA).load({"Person": few}, engine="spark")
        clock = _Clock()
        graph.load({"Person": nodes, "Knows": edges}, engine="spark")
        clock.part("load")
        graph.ensure_indices(engine="spark")
        clock.part("indexes")
        return clock.result()
    finally:
        spark.stop()


def _duckdb(target: Path, file: str) -> Run:
    """The file parsed once into tables of DuckDB, keys and ends checked there, and written in two threads."""
    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    clock = _Clock()
    con.execute(f"""
        CREATE TABLE records AS SELECT type, "from", "to", data FROM read_json('{file}', format = 'newline_delimited',
            columns = {{type: 'VARCHAR', edge: 'VARCHAR', "from": 'VARCHAR', "to": 'VARCHAR',
                        data: 'STRUCT(name VARCHAR, age INTEGER, city VARCHAR, since DATE)'}})""")
    con.execute("""CREATE TABLE people AS SELECT data.name AS name, data.age AS age, data.city AS city FROM records
                   WHERE type IS NOT NULL""")
    con.execute("""CREATE TABLE friendships AS SELECT "from" AS src, "to" AS dst, data.since AS since FROM records
                   WHERE type IS NULL""")
    con.execute("DROP TABLE records")
    clock.part("parse")
    assert _answer(con, "SELECT count(*) - count(DISTINCT name) FROM people") == 0
    dangling = """SELECT count(*) FROM friendships WHERE NOT EXISTS (FROM people WHERE name = src)
                  OR NOT EXISTS (FROM people WHERE name = dst)"""
    assert _answer(con, dangling) == 0
    clock.part("check")
    people = "SELECT name AS id, name, age, city FROM people"
    _written(target / "people", _of_query(con, people, PEOPLE), PEOPLE)
    _write_in_halves(con, str(target / "friendships"))
    clock.part("write")
    return clock.result()


def _write_in_halves(con: duckdb.DuckDBPyConnection, uri: str) -> None:
    """Two writers of fragments and one commit: one writer of Lance does not fill two cores."""
    step = -(-_answer(con, "SELECT count(*) FROM friendships") // _CORES)
    empty = lance.write_dataset(FRIENDSHIPS.empty_table(), uri, enable_stable_row_ids=True)

    def half(number: int) -> Any:
        query = f"""SELECT '{_ID_PREFIX}' || ({_FIRST_ID} + rowid) AS id, src, dst, since FROM friendships
                    WHERE rowid >= {number * step} AND rowid < {number * step + step}"""
        return write_fragments(_of_query(con, query, FRIENDSHIPS), empty, schema=FRIENDSHIPS, mode="append")

    with ThreadPoolExecutor(_CORES) as pool:
        fragments = [fragment for part in pool.map(half, range(_CORES)) for fragment in part]
    lance.LanceDataset.commit(empty, lance.LanceOperation.Append(fragments), read_version=empty.version)


def _answer(con: duckdb.DuckDBPyConnection, query: str) -> int:
    number: int = con.execute(query).fetchall()[0][0]
    return number


def _of_query(con: duckdb.DuckDBPyConnection, query: str, schema: pa.Schema) -> pa.RecordBatchReader:
    reader = con.cursor().sql(query).to_arrow_reader(_BATCH)
    return pa.RecordBatchReader.from_batches(schema, (_as(schema, batch.columns) for batch in reader))


def _as(schema: pa.Schema, columns: list[pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _lance(target: Path, nodes: str, edges: str) -> Run:
    """The rows as they are, with ids, and the same indexes as ours."""

    def friendships() -> Iterator[pa.RecordBatch]:
        first = _FIRST_ID
        for batch in _batches(edges):
            numbers = pa.array(np.arange(first, first + len(batch))).cast(pa.string())
            first += len(batch)
            yield _as(FRIENDSHIPS, [pc.binary_join_element_wise(_ID_PREFIX, numbers, ""), *batch.columns])

    clock = _Clock()
    rows = (_as(PEOPLE, [batch["name"], *batch.columns]) for batch in _batches(nodes))
    people = _written(target / "people", rows, PEOPLE)
    known = _written(target / "friendships", friendships(), FRIENDSHIPS)
    clock.part("write")
    for dataset, column in ((people, "id"), (people, "name"), (known, "id"), (known, "src"), (known, "dst")):
        dataset.create_scalar_index(column, "BTREE")
    people.create_scalar_index("name", "INVERTED", name="name_inverted", **FULL_TEXT_PARAMETERS)
    clock.part("indexes")
    return clock.result()


def _batches(file: str) -> Iterator[pa.RecordBatch]:
    yield from pyarrow.dataset.dataset(file).to_batches(batch_size=_BATCH)


def _written(path: Path, rows: Any, schema: pa.Schema) -> lance.LanceDataset:
    return lance.write_dataset(rows, str(path), schema=schema, enable_stable_row_ids=True)


def _ladybug(target: Path, nodes: str, edges: str) -> Run:
    """The COPY of another embedded graph database; its primary key and its adjacency come with it."""
    ladybug = importlib.import_module("ladybug")
    database = ladybug.Database(str(target / "database"))
    connection = ladybug.Connection(database)
    connection.execute("CREATE NODE TABLE Person(name STRING, age INT32, city STRING, PRIMARY KEY(name))")
    connection.execute("CREATE REL TABLE Knows(FROM Person TO Person, since DATE)")
    clock = _Clock()
    connection.execute(f"COPY Person FROM '{nodes}'")
    clock.part("nodes")
    connection.execute(f"COPY Knows FROM '{edges}'")
    clock.part("edges")
    connection.close()
    database.close()
    return clock.result()


_CONTESTANTS: Mapping[str, Callable[..., Run]] = {
    "duckdb": _duckdb,
    "spark": _spark,
    "lance": _lance,
    "graph": _graph,
    "ladybug": _ladybug,
}

if __name__ == "__main__":
    print(json.dumps(_CONTESTANTS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])))
