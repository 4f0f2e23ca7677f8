"""What a write costs: against Lance alone, and over a long history."""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.json
from lance.fragment import write_fragments

import lance
import omnigraph as og
from benchmarks.measure import Figure, medians

SCHEMA = """
node Person { name: String @key, age: I32?, city: enum(berlin, oslo, quito)?, bio: String  @range(age, 0..200) }
node Note { text: String }
edge Knows: Person -> Person { since: Date? }
"""
INSERT = 'query add { insert Note { text: "hello" } }'
NODES, EDGES = 200_000, 1_000_000


def figures() -> list[Figure]:
    """All figures about writes."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_one_row(Path(folder)), *_history(Path(folder)), *_load(Path(folder))]


def _one_row(folder: Path) -> list[Figure]:
    """One insert against the same two commits, of a table and of a manifest, done by hand."""
    graph = og.init(folder / "one", SCHEMA)
    graph.mutate(INSERT)
    manifest = pa.table({"key": [f"table {number}" for number in range(8)], "version": list(range(8))})
    row = pa.table({"id": ["x"], "text": ["hello"]})
    raw = {"table": _created(folder / "raw_table", row), "manifest": _created(folder / "raw_manifest", manifest)}

    def by_hand() -> None:
        for name, mode, data in (("table", "append", row), ("manifest", "overwrite", manifest)):
            staged = write_fragments(data, raw[name], mode=mode, return_transaction=True)
            raw[name] = lance.LanceDataset.commit(raw[name], staged, max_retries=0)

    seconds = medians({"ours": lambda: graph.mutate(INSERT), "raw": by_hand}, rounds=40)
    return [
        Figure(
            name="one-row insert / the same two Lance commits by hand",
            value=seconds["ours"] / seconds["raw"],
            unit="x",
            bound=3.0,
            raw=f"{seconds['ours'] * 1e3:.1f} ms against {seconds['raw'] * 1e3:.1f} ms",
        )
    ]


def _created(path: Path, rows: pa.Table) -> lance.LanceDataset:
    staged = write_fragments(rows, str(path), mode="create", return_transaction=True)
    return lance.LanceDataset.commit(str(path), staged, enable_stable_row_ids=True, max_retries=0)


def _history(folder: Path) -> list[Figure]:
    """Commits, openings and heads of a graph with 20 commits and of one with 2 000, turn by turn."""
    graphs = {name: og.init(folder / name, SCHEMA) for name in ("short", "long")}
    for name, commits in (("short", 20), ("long", 2_000)):
        for _ in range(commits):
            graphs[name].mutate(INSERT)
    opened = medians({name: partial(_open, graph.uri) for name, graph in graphs.items()}, rounds=31)
    committed = medians({name: partial(graph.mutate, INSERT) for name, graph in graphs.items()}, rounds=31)
    return [
        Figure(
            name=f"{what} after 2 000 commits / after 20",
            value=seconds["long"] / seconds["short"],
            unit="x",
            bound=1.5,
            raw=f"{seconds['long'] * 1e3:.1f} ms against {seconds['short'] * 1e3:.1f} ms",
        )
        for what, seconds in (("one-row insert", committed), ("open and read the head", opened))
    ]


def _open(uri: str) -> None:
    og.open(uri).snapshot()


def _load(folder: Path) -> list[Figure]:
    """A load with every check against reading the same file with Arrow and writing it with Lance, unchecked."""
    file = folder / "data.jsonl"
    _write_records(file)
    ours, raw = [], []
    for number in range(3):
        raw.append(_timed_raw(file, folder / f"raw_{number}"))
        graph = og.init(folder / f"load_{number}", SCHEMA)
        start = time.perf_counter()
        graph.load(file)
        ours.append(time.perf_counter() - start)
    ratio = statistics.median(ours) / statistics.median(raw)
    return [
        Figure(
            name=f"load of {NODES:,} nodes and {EDGES:,} edges / unchecked Arrow and Lance",
            value=ratio,
            unit="x",
            bound=4.0,
            raw=f"{statistics.median(ours):.1f} s against {statistics.median(raw):.1f} s",
        ),
        Figure(
            name="peak memory of that load, in a process of its own",
            value=_peak_gib(file, folder / "peak"),
            unit="GiB",
            bound=2.5,
            raw=f"{file.stat().st_size / 2**20:.0f} MiB of NDJSON",
        ),
    ]


def _write_records(file: Path) -> None:
    chance = random.Random(1)  # noqa: S311 - the same graph every time
    with file.open("w") as out:
        for number in range(NODES):
            data = {"name": f"Person {number}", "age": number % 90, "city": "oslo", "bio": f"the life of {number}"}
            out.write(json.dumps({"type": "Person", "data": data}) + "\n")
        for _ in range(EDGES):
            ends = (f"Person {chance.randrange(NODES)}" for _ in range(2))
            record = {"edge": "Knows", "from": next(ends), "to": next(ends), "data": {"since": "2020-01-02"}}
            out.write(json.dumps(record) + "\n")


def _timed_raw(file: Path, target: Path) -> float:
    start = time.perf_counter()
    lance.write_dataset(pa.json.read_json(file), str(target))
    return time.perf_counter() - start


def _peak_gib(file: Path, target: Path) -> float:
    code = (
        "import sys, resource, omnigraph as og\n"
        "og.init(sys.argv[1], sys.argv[2]).load(sys.argv[3])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    command = [sys.executable, "-c", code, str(target), SCHEMA, str(file)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    kibibytes = int(result.stdout.split()[-1])
    return kibibytes / 2**20
