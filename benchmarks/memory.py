"""Tables in memory: what reads cost after many commits, and when another process has committed."""

import multiprocessing
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

import omnigraph as og
from benchmarks.measure import Figure
from benchmarks.peers import EDGES, NODES, QUERIES, SCHEMA, write_data

COMMITS, ROUNDS, SEEN_COMMITS = 320, 300, 40
CHANGE = """
query add($name: String, $to: String) {
    insert Person { name: $name, age: 30, city: "city-1", bio: "new" }
    insert Knows { from: $name, to: $to, since: 2026 }
}
"""
OF_ALL = """
query average { match { $p: Person } return { $p.city, avg($p.age) as a } }
query degrees { match { $p: Person  $p knows $q } return { $p.id, count($q) as n } order { n desc } limit 10 }
query cities { match { $p: Person } return { $p.city, count($p) as n } }
query of_city { match { $p: Person  $p.city = "city-7" } return { $p.name, $p.age } }
query oldest { match { $p: Person } return { $p.name, $p.age } order { $p.age desc } limit 10 }
query years { match { $p: Person  $p $k:knows $q } return { $k.since, count($k) as n } }
"""
"""Reads of whole types."""

ROUNDS_OF_ALL = 21
BOUNDS = {"lookup": 1.2, "one_hop": 1.2, "two_hops": 1.5} | dict.fromkeys(
    ("average", "degrees", "cities", "of_city", "oldest", "years"), 1.5
)


def figures() -> Iterator[Figure]:
    """All figures of tables in memory."""
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        names = write_data(folder, NODES, EDGES)
        graph = og.init(folder / "fresh.omni", SCHEMA)
        graph.load({"Person": folder / "Person.parquet", "Knows": folder / "Knows.parquet"}, engine="local")
        shutil.copytree(folder / "fresh.omni", folder / "used.omni")
        yield _head_lookup(graph)
        yield from _after_commits(graph, og.open(folder / "used.omni"), names)
        yield from _after_another(folder / "used.omni", names)


def _head_lookup(graph: og.Graph) -> Figure:
    """What every read pays to know the newest commit."""
    main = graph._session.branches.main
    median = statistics.median(_seconds(main.head) for _ in range(5000)) * 1e3
    return Figure(name="look for the newest commit", value=median, unit="ms", bound=0.005, raw=f"{median * 1e3:.1f} us")


def _after_commits(fresh: og.Graph, used: og.Graph, names: list[str]) -> Iterator[Figure]:
    chance = np.random.default_rng(5)
    graphs = {"fresh": fresh, "used": used}
    for _ in range(3):
        for graph in graphs.values():
            for query in BOUNDS:
                _ask(graph, query, names[0])
    for number in range(COMMITS):
        to = names[int(chance.integers(0, len(names)))]
        used.mutate(CHANGE, params={"name": f"new-{number}", "to": to})
    for query, bound in BOUNDS.items():
        seconds: dict[str, list[float]] = {name: [] for name in graphs}
        rounds = ROUNDS_OF_ALL if _reads_all(query) else ROUNDS
        for graph in graphs.values():
            _ask(graph, query, names[0])
        for number in chance.integers(0, len(names), rounds):
            for name, graph in graphs.items():
                seconds[name].append(_seconds(_ask, graph, query, names[number]))
        yield _ratio(f"{query.replace('_', ' ')} after {COMMITS} commits / fresh", seconds, bound)


def _after_another(path: Path, names: list[str]) -> Iterator[Figure]:
    """The first lookup after a commit of another process reads it; the one after that is as any other.

    A lookup right after another process has worked takes longer than one of many in a row, whatever that process did:
    the caches of the processor are cold. So the second lookup is compared with one that follows the same work of the
    other process and one lookup, but where that work was in another graph.
    """
    elsewhere = path.with_name("elsewhere.omni")
    shutil.copytree(path, elsewhere)
    here, there = multiprocessing.Pipe()
    writer = multiprocessing.get_context("spawn").Process(
        target=_commit_when_asked, args=({"here": path, "elsewhere": elsewhere}, there), daemon=True
    )
    writer.start()
    graph = og.open(path)
    chance = np.random.default_rng(6)
    kinds = ("warm", "in a row", "next", "first", "manifest alone")
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for _ in range(3):
        _ask(graph, "lookup", names[0])
    for number in range(SEEN_COMMITS):
        for place in ("here", "elsewhere"):
            here.send((place, f"other-{number}", names[int(chance.integers(0, len(names)))]))
            here.recv()
            first = _seconds(_expect_one, graph, f"other-{number}")
            second = _seconds(_expect_one, graph, f"other-{number}")
            if place == "here":
                seconds["first"].append(first)
            seconds["next" if place == "here" else "warm"].append(second)
        for person in chance.integers(0, len(names), 5):
            seconds["in a row"].append(_seconds(_ask, graph, "lookup", names[person]))
        seconds["manifest alone"].append(_seconds(_read_manifest, path))
    here.send(None)
    writer.join()
    medians = {name: statistics.median(each) * 1e3 for name, each in seconds.items()}
    yield Figure(
        name="second lookup after a commit of another process / after one in another graph",
        value=medians["next"] / medians["warm"],
        unit="x",
        bound=2.0,
        raw=f"{medians['next']:.3f} / {medians['warm']:.3f} ms; one of many in a row {medians['in a row']:.3f} ms",
    )
    yield Figure(
        name="first lookup after a commit of another process / after one in another graph",
        value=medians["first"] / medians["warm"],
        unit="x",
        bound=2.0,
        raw=f"{medians['first']:.2f} / {medians['warm']:.3f} ms; the bytes of its manifest "
        f"{medians['manifest alone']:.2f} ms",
    )


def _read_manifest(path: Path) -> None:
    """Reads the bytes of the newest manifest: what no process can avoid that has not written it."""
    with os.scandir(path / "__manifest/lines/main") as files:
        newest = max((file.path for file in files), key=lambda each: (len(each), each))
    Path(newest).read_bytes()


def _commit_when_asked(paths: dict[str, Path], asked: Connection) -> None:
    graphs = {place: og.open(path) for place, path in paths.items()}
    while (given := asked.recv()) is not None:
        graphs[given[0]].mutate(CHANGE, params={"name": given[1], "to": given[2]})
        asked.send(None)


def _expect_one(graph: og.Graph, name: str) -> None:
    assert len(_ask(graph, "lookup", name)) == 1, name


def _ask(graph: og.Graph, query: str, name: str) -> list[dict[str, Any]]:
    return (
        graph.query(OF_ALL, query).rows()
        if _reads_all(query)
        else graph.query(QUERIES, query, params={"name": name}).rows()
    )


def _reads_all(query: str) -> bool:
    return f"query {query} " in OF_ALL


def _seconds(work: Callable[..., object], *given: object) -> float:
    start = time.perf_counter()
    work(*given)
    return time.perf_counter() - start


def _ratio(name: str, seconds: dict[str, list[float]], bound: float) -> Figure:
    fresh, used = statistics.median(seconds["fresh"]), statistics.median(seconds["used"])
    return Figure(name=name, value=used / fresh, unit="x", bound=bound, raw=f"{used * 1e3:.3f} / {fresh * 1e3:.3f} ms")
