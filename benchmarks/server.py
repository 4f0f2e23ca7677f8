"""What HTTP costs: the rate of a query through a server against the same query in the process, and a mixed load."""

import json
import os
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from tests.servers import RunningServer, running_server, token_of

import omnigraph as og
from benchmarks.bare_route import bare_route
from benchmarks.http_clients import Answers, Load, answers_elsewhere
from benchmarks.measure import Figure

SECONDS = float(os.environ.get("OMNIGRAPH_BENCH_SECONDS", "60"))
"""How long the mixed load lasts."""
ROUNDS, ROUND_SECONDS = 5, 2.0
THREADS, CLIENTS = 4, (1, 8, 64)
PEOPLE, EDGES = 5_000, 20_000
WARM_SECONDS = 10.0
ACTORS = [f"actor{number}" for number in range(8)]
SCHEMA = """
node Person { name: String @key, age: I64?, city: String? }
node Note { text: String }
edge Knows: Person -> Person
"""
QUERIES = {
    "friends of friends": (
        "query q($name: String) { match { $a: Person { name: $name }  $a knows $b  $b knows $c }"
        " return { $c.name, $c.age } }"
    ),
    "a lookup by key": (
        "query q($name: String) { match { $x: Person { name: $name } } return { $x.name, $x.age, $x.city } }"
    ),
}
WRITE = "query add($name: String) { insert Note { text: $name } }"
LOOKUP = "a lookup by key"
BY_ITSELF, IN_THREADS = "in the process", f"in the process, {THREADS} threads"


@dataclass(frozen=True, slots=True)
class _Rate:
    """How often in a second, and how long it took."""

    rate: float
    seconds: Sequence[float] = ()


def figures() -> list[Figure]:
    """All figures about the server."""
    with tempfile.TemporaryDirectory() as folder:
        graph = _filled_graph(Path(folder))
        tokens = {actor: token_of(actor) for actor in ACTORS}
        with running_server([graph.uri], tokens) as server:
            host, port = server.address
            asked = Load(
                host=host,
                port=port,
                graph="people",
                tokens=list(tokens.values()),
                clients=1,
                seconds=ROUND_SECONDS,
                reads=(),
                names=PEOPLE,
            )
            bare = _beside_bare_route(server, replace(asked, clients=CLIENTS[1], reads=[QUERIES[LOOKUP]]))
            through = [figure for name in QUERIES for figure in _through_http(graph, asked, name)]
            mixed = _mixed(graph, server, replace(asked, reads=[*QUERIES.values()], clients=CLIENTS[-1]))
        return [bare, *through, *mixed]


def _filled_graph(folder: Path) -> og.Graph:
    chance = random.Random(1)  # noqa: S311 - the same graph every time
    graph = og.init(folder / "people.omni", SCHEMA)
    names = [f"person {number}" for number in range(PEOPLE)]
    people = {"name": names, "age": [number % 90 for number in range(PEOPLE)], "city": ["oslo"] * PEOPLE}
    ends = {side: chance.choices(names, k=EDGES) for side in ("src", "dst")}
    graph.load({"Person": pa.table(people), "Knows": pa.table(ends)})
    graph.ensure_indices()
    return graph


# --- one query, both ways ---


def _through_http(graph: og.Graph, asked: Load, name: str) -> list[Figure]:
    """The same query in the process and over HTTP; the ways take turns, so that noise meets all of them."""
    source = QUERIES[name]
    ways: dict[str, Callable[[], _Rate]] = {
        BY_ITSELF: lambda: _rate_in_process(graph, source, 1),
        IN_THREADS: lambda: _rate_in_process(graph, source, THREADS),
    }
    for clients in CLIENTS:
        ways[_way(clients)] = partial(_rate_over_http, replace(asked, reads=[source], clients=clients))
    measured: dict[str, list[_Rate]] = {way: [] for way in ways}
    for turn in range(ROUNDS + 1):
        for way, rate in ways.items():
            found = rate()
            if turn:  # the first warms up
                measured[way].append(found)
    rates = {way: statistics.median(each.rate for each in found) for way, found in measured.items()}
    best = max((_way(clients) for clients in CLIENTS), key=lambda way: rates[way])
    ratio = statistics.median(
        here.rate / there.rate for here, there in zip(measured[BY_ITSELF], measured[best], strict=True)
    )
    compared = Figure(
        name=f"{name} among {PEOPLE:,} nodes: rate {BY_ITSELF}, one thread / over HTTP, {best}",
        value=ratio,
        unit="x",
        bound=2.0,
        raw=", ".join(f"{way} {rate:.0f}/s" for way, rate in rates.items()),
    )
    return [compared, *(_latency(name, clients, measured[_way(clients)]) for clients in CLIENTS)]


def _beside_bare_route(server: RunningServer, load: Load) -> Figure:
    """Lookups against a bare uvicorn route that returns the same bytes to the same clients, in turns."""
    with server.client(ACTORS[0]) as client:
        document = {"source": load.reads[0], "params": {"name": "person 7"}}
        answer = client.post(f"/graphs/{load.graph}/query", json=document).content
    with bare_route(answer) as (host, port, pid):
        sides = {
            "ours": (load, server.process.pid),
            "bare": (replace(load, host=host, port=port), pid),
        }
        rates: dict[str, list[_Rate]] = {name: [] for name in sides}
        busy = dict.fromkeys(sides, 0.0)
        for turn in range(ROUNDS + 1):
            for name, (asked, process) in sides.items():
                before = _cpu_seconds(process)
                found = _rate_over_http(asked)
                if turn:  # the first warms up
                    rates[name].append(found)
                    busy[name] += _cpu_seconds(process) - before
    raw = []
    for name, measured in rates.items():
        seconds = [each for one in measured for each in one.seconds]
        rate = statistics.median(each.rate for each in measured)
        p50, p99 = (_quantile(seconds, hundredth) * 1e3 for hundredth in (50, 99))
        cpu = busy[name] / len(seconds) * 1e6
        raw.append(f"{name} {rate:.0f}/s, p50 {p50:.2f} ms, p99 {p99:.2f} ms, {cpu:.0f} us of CPU each")
    return Figure(
        name=f"{LOOKUP} over HTTP, {_way(load.clients)}: rate of a bare uvicorn route / ours",
        value=statistics.median(there.rate / here.rate for here, there in zip(*rates.values(), strict=True)),
        unit="x",
        bound=2.0,
        raw="; ".join(raw),
    )


def _cpu_seconds(process: int) -> float:
    """The CPU time that a process has used, which depends less on what else runs than its rate does."""
    used = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def _way(clients: int) -> str:
    return f"{clients} clients" if clients > 1 else "1 client"


def _latency(name: str, clients: int, measured: Sequence[_Rate]) -> Figure:
    seconds = [each for one in measured for each in one.seconds]
    return Figure(
        name=f"{name} over HTTP, {_way(clients)}: p99",
        value=_quantile(seconds, 99) * 1e3,
        unit="ms",
        bound=None,
        raw=f"p50 {_quantile(seconds, 50) * 1e3:.1f} ms, {statistics.median(each.rate for each in measured):.0f}/s",
    )


def _rate_in_process(graph: og.Graph, source: str, threads: int) -> _Rate:
    """What a program does that has the graph open: the query, and its rows as JSON."""
    counts = [0] * threads
    started = time.perf_counter()

    def ask(me: int) -> None:
        chance = random.Random(me)  # noqa: S311
        while time.perf_counter() < started + ROUND_SECONDS:
            name = f"person {chance.randrange(PEOPLE)}"
            json.dumps(graph.query(source, params={"name": name}).as_json()).encode()
            counts[me] += 1

    running = [threading.Thread(target=ask, args=(me,)) for me in range(threads)]
    for each in running:
        each.start()
    for each in running:
        each.join()
    return _Rate(sum(counts) / (time.perf_counter() - started))


def _rate_over_http(load: Load) -> _Rate:
    answers = answers_elsewhere(load)
    assert answers.statuses.keys() == {"200"}, (answers.statuses, answers.bodies)
    return _Rate(len(answers.reads) / answers.seconds, answers.reads)


def _quantile(seconds: Sequence[float], hundredth: int) -> float:
    return statistics.quantiles(seconds, n=100)[hundredth - 1]


# --- reads and writes at once ---


def _mixed(graph: og.Graph, server: RunningServer, asked: Load) -> list[Figure]:
    """Many clients, nine reads for each write: what is answered how soon, what is lost, and what memory it takes."""
    load = replace(asked, write=WRITE, writes_in_a_hundred=10)
    warm = answers_elsewhere(replace(load, seconds=min(WARM_SECONDS, SECONDS), called="warm"))
    before = _mebibytes(server)
    answers = answers_elsewhere(replace(load, seconds=SECONDS))
    after = _mebibytes(server)
    told = ", ".join(f"{status}: {count}" for status, count in sorted(answers.statuses.items()))
    wrong = sum(count for status, count in answers.statuses.items() if status not in ("200", "409", "429"))
    asked_in_words = f"{load.clients} clients for {SECONDS:g} s, 90 % reads"
    return [
        *(
            Figure(
                name=f"{asked_in_words}: p99 of {kind}",
                value=_quantile(seconds, 99) * 1e3,
                unit="ms",
                bound=None,
                raw=f"p50 {_quantile(seconds, 50) * 1e3:.0f} ms, {len(seconds) / answers.seconds:.0f}/s",
            )
            for kind, seconds in (("reads", answers.reads), ("writes", answers.writes))
        ),
        Figure(
            name=f"{asked_in_words}: answers but 200, 409 and 429",
            value=wrong,
            unit="answers",
            bound=0,
            raw=told,
        ),
        Figure(
            name=f"{asked_in_words}: acknowledged writes that are not there once, and others that are",
            value=_lost_or_more(graph, warm, answers),
            unit="writes",
            bound=0,
            raw=f"{len(warm.acknowledged) + len(answers.acknowledged)} acknowledged",
        ),
        Figure(
            name=f"{asked_in_words}: what the server's memory grew by after a warm-up",
            value=after - before,
            unit="MiB",
            bound=200,
            raw=f"{before:.0f} MiB, then {after:.0f} MiB",
        ),
    ]


def _lost_or_more(graph: og.Graph, *answers: Answers) -> int:
    there = Counter(graph.snapshot().table("node:Note").scan(["text"])["text"].to_pylist())
    acknowledged = Counter(name for each in answers for name in each.acknowledged)
    return (there - acknowledged).total() + (acknowledged - there).total()


def _mebibytes(server: RunningServer) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
