"""What a small commit costs: beside one synced file, beside ladybug, by many threads, processes and clients."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import ladybug
from tests.servers import running_server, token_of
from tests.stores import BUCKET, FaultyProxy, moto_server

import omnigraph as og
from benchmarks.http_clients import Load, answers_elsewhere
from benchmarks.measure import Figure, medians

SCHEMA = """
node Person { name: String @key, age: I32?, city: String?, bio: String? }
edge Knows: Person -> Person { since: I32? }
"""
WRITES = """
query add($name: String) { insert Person { name: $name, age: 36, city: "Oslo", bio: "likes graphs" } }
query meet($name: String, $other: String) {
    insert Person { name: $name, age: 36, city: "Oslo", bio: "likes graphs" }
    insert Knows { from: $name, to: $other, since: 2020 }
}
query grow($name: String) { update Person set { age: 37 } where name = $name }
query remove($name: String) { delete Person where name = $name }
"""
ROUNDS = 300
THREADS, PROCESSES, CLIENTS = 16, 8, 64
DELAY = 0.03
SECONDS = 10.0


def figures() -> Iterator[Figure]:
    """All figures about small writes."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        yield from _one_by_one(place)
        yield _history(place)
        yield from _threads(place)
        yield from _threads_on_a_store()
        yield _processes(str(place / "processes.omni"), {}, "on a disk")
        yield _processes_on_a_store()
        yield from _server(place)


def _one_by_one(folder: Path) -> Iterator[Figure]:
    graph = og.init(folder / "single.omni", SCHEMA)
    graph.load({"Person": [{"name": f"known {number}"} for number in range(1_000)]})
    connection = ladybug.Connection(ladybug.Database(str(folder / "ladybug.db")))
    connection.execute("CREATE NODE TABLE Person(name STRING, age INT32, city STRING, bio STRING, PRIMARY KEY(name))")
    text = "CREATE (:Person {name: $name, age: 36, city: 'Oslo', bio: 'likes graphs'})"
    insert = connection.prepare(text)
    number = count()
    for _ in range(60):
        graph.mutate(WRITES, "meet", {"name": f"warm {next(number)}", "other": "known 1"})
    size = max(each.stat().st_size for each in (folder / "single.omni/__manifest/lines/main").iterdir())
    by_hand = _synced_file(folder / "by hand", size)
    work: dict[str, Callable[[], object]] = {
        "insert": lambda: graph.mutate(WRITES, "add", {"name": f"p{next(number)}"}),
        "file": by_hand,
        "ladybug": lambda: connection.execute(insert, {"name": f"p{next(number)}"}),
        "node with edge": lambda: graph.mutate(WRITES, "meet", {"name": f"p{next(number)}", "other": "known 1"}),
        "update": lambda: graph.mutate(WRITES, "grow", {"name": f"known {next(number) % 1_000}"}),
    }
    seconds = medians(work, rounds=ROUNDS)
    for each in range(ROUNDS):
        graph.mutate(WRITES, "meet", {"name": f"gone {each}", "other": "known 2"})
    gone = count()
    deletes = medians(
        {
            "delete": lambda: graph.mutate(WRITES, "remove", {"name": f"gone {next(gone)}"}),
            "insert": lambda: graph.mutate(WRITES, "add", {"name": f"p{next(number)}"}),
        },
        rounds=ROUNDS,
    )
    raw = ", ".join(f"{name} {each * 1e3:.2f} ms" for name, each in seconds.items())
    one = seconds["insert"]
    yield _ratio("one-row insert / one such file, synced and linked by hand", one / seconds["file"], 3.0, raw)
    yield _ratio("one-row insert / ladybug", one / seconds["ladybug"], 5.0, raw)
    yield _ratio("a node with an edge / one-row insert", seconds["node with edge"] / one, 1.3, raw)
    yield _ratio("update / one-row insert", seconds["update"] / one, 2.0, raw)
    raw = ", ".join(f"{name} {each * 1e3:.2f} ms" for name, each in deletes.items())
    yield _ratio("delete with an edge / one-row insert", deletes["delete"] / deletes["insert"], 2.0, raw)


def _ratio(name: str, value: float, bound: float, raw: str) -> Figure:
    return Figure(name=name, value=value, unit="x", bound=bound, raw=raw)


def _synced_file(folder: Path, size: int) -> Callable[[], None]:
    """Writes a file under another name, through to the disk, and links it to its own."""
    folder.mkdir()
    number, content = count(), b"x" * size

    def write() -> None:
        name = folder / str(next(number))
        draft = folder / "draft"
        descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.close(descriptor)
        os.link(draft, name)
        draft.unlink()
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    return write


def _history(folder: Path) -> Figure:
    """The mean of many inserts, so that folds are among them, after 20 commits and after 2 000, turn by turn."""
    graphs = {name: og.init(folder / f"{name}.omni", SCHEMA) for name in ("short", "long")}
    number = count()
    for name, commits in (("short", 20), ("long", 2_000)):
        for _ in range(commits):
            graphs[name].mutate(WRITES, "add", {"name": f"p{next(number)}"})
    spent = dict.fromkeys(graphs, 0.0)
    inserts = 1_040  # two folds
    for _ in range(inserts):
        for name, graph in graphs.items():
            start = time.perf_counter()
            graph.mutate(WRITES, "add", {"name": f"p{next(number)}"})
            spent[name] += time.perf_counter() - start
    raw = ", ".join(f"{name} {seconds / inserts * 1e3:.2f} ms" for name, seconds in spent.items())
    name = "mean of 1 040 inserts after 2 000 commits / after 20, folds among them"
    return _ratio(name, spent["long"] / spent["short"], 1.2, raw)


def _rate(graph: og.Graph, threads: int, writes: int, called: str) -> float:
    """How many inserts a second so many threads make."""

    def write(thread: int) -> None:
        for number in range(writes // threads):
            graph.mutate(WRITES, "add", {"name": f"{called} {thread} {number}"})

    running = [threading.Thread(target=write, args=(number,)) for number in range(threads)]
    start = time.perf_counter()
    for each in running:
        each.start()
    for each in running:
        each.join()
    return threads * (writes // threads) / (time.perf_counter() - start)


def _more_threads(graph: og.Graph, writes: tuple[int, int], rounds: int, name: str, bound: float) -> Iterator[Figure]:
    graph.mutate(WRITES, "add", {"name": "first"})
    one, many = [], []
    for turn in range(rounds):
        one.append(_rate(graph, 1, writes[0], f"one {turn}"))
        many.append(_rate(graph, THREADS, writes[1], f"many {turn}"))
    ratio = statistics.median(one) / statistics.median(many)
    raw = f"{statistics.median(one):.0f}/s against {statistics.median(many):.0f}/s"
    yield _ratio(f"{name}: rate of one thread that inserts / of {THREADS}", ratio, 1 / bound, raw)
    if graph.uri.startswith("s3:"):
        seconds = 1 / statistics.median(one)
        yield Figure(name=f"{name}: one-row insert", value=seconds * 1e3, unit="ms", bound=200.0, raw="one thread")


def _threads(folder: Path) -> Iterator[Figure]:
    graph = og.init(folder / "threads.omni", SCHEMA)
    yield from _more_threads(graph, (200, 800), 5, "on a disk", 2.5)


def _threads_on_a_store() -> Iterator[Figure]:
    with moto_server() as options, FaultyProxy(options).running() as proxy:
        graph = og.init(f"s3://{BUCKET}/threads", SCHEMA, storage_options=proxy.options)
        proxy.delay = DELAY
        yield from _more_threads(graph, (10, 160), 3, "on a store with 30 ms a request", 8.0)


_WRITER = """
import json, sys
import omnigraph as og
graph = og.open(sys.argv[1], storage_options=json.loads(sys.argv[4]))
print("ready", flush=True)
sys.stdin.readline()
for number in range(100):
    graph.mutate(sys.argv[2], "add", {"name": f"{sys.argv[3]} {number}"})
"""


def _processes_on_a_store() -> Figure:
    with moto_server() as options, FaultyProxy(options).running() as proxy:
        proxy.delay = DELAY
        return _processes(f"s3://{BUCKET}/processes", proxy.options, "on a store with 30 ms a request")


def _processes(uri: str, options: dict[str, str], where: str) -> Figure:
    graph = og.init(uri, SCHEMA, storage_options=options)
    pipe = subprocess.PIPE
    writer = [sys.executable, "-c", _WRITER, graph.uri, WRITES]
    children = [
        subprocess.Popen([*writer, f"process {number}", json.dumps(options)], stdin=pipe, stdout=pipe, text=True)
        for number in range(PROCESSES)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    start = time.perf_counter()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    codes = [child.wait() for child in children]
    seconds = time.perf_counter() - start
    for child in children:
        child.communicate()
    rows = graph.snapshot().table("node:Person").count()
    assert codes == [0] * PROCESSES, codes
    assert rows == 100 * PROCESSES, rows
    name = f"{where}: {PROCESSES} processes with 100 inserts each on one graph"
    return Figure(name=name, value=seconds, unit="s", bound=None, raw=f"{rows} rows, none lost or doubled")


def _server(folder: Path) -> Iterator[Figure]:
    graph = og.init(folder / "people.omni", SCHEMA)
    tokens = {f"actor{number}": token_of(f"actor{number}") for number in range(8)}
    write = 'query add($name: String) { insert Person { name: $name, age: 36, city: "Oslo", bio: "likes graphs" } }'
    with running_server([graph.uri], tokens) as server:
        host, port = server.address
        load = Load(
            host=host,
            port=port,
            graph="people",
            tokens=list(tokens.values()),
            clients=CLIENTS,
            seconds=SECONDS,
            reads=(),
            write=write,
            writes_in_a_hundred=100,
        )
        found = answers_elsewhere(load)
    stored = set(og.open(graph.uri, "r").snapshot().table("node:Person").scan(["name"])["name"].to_pylist())
    lost = len({*found.acknowledged} - stored)
    rate = len(found.acknowledged) / found.seconds
    ordered = sorted(found.writes)
    p99 = ordered[len(ordered) * 99 // 100] * 1e3 if ordered else 0.0
    raw = f"{rate:.0f}/s, p99 {p99:.0f} ms, {len(found.acknowledged)} acknowledged, {lost} lost, {dict(found.statuses)}"
    yield _ratio(f"1 000 commits a second / those of {CLIENTS} writers over HTTP", 1_000 / rate, 1.0, raw)
