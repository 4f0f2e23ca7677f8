"""Tables in memory within a bound: 10 000 random reads of a graph that is ten times as large, all of them checked.

Half of the types fit into memory one at a time, the columns of the other half do not fit at all. It takes some minutes,
so `make soak` runs it, and `make bench` does not.
"""

import base64
import hashlib
import os
import random
import resource
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import omnigraph as og
from benchmarks.measure import Figure
from omnigraph.resident.cache import ResidentCache

MOST_BYTES = 100_000_000
QUERIES = int(os.environ.get("OMNIGRAPH_BENCH_QUERIES", "10000"))
COUNTS = (*(100_000,) * 4, *(500_000,) * 4)
"""The nodes of each type."""
EDGES_OF_NODE = 2
TEXT_BYTES = 384
AGES = 97
_Question = tuple[str, dict[str, Any], list[tuple[Any, ...]]]


def figures() -> Iterator[Figure]:
    """All figures of the bound."""
    with tempfile.TemporaryDirectory() as folder:
        graph = _filled_graph(Path(folder))
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
        resident = ResidentCache(most_bytes=MOST_BYTES)
        vars(graph._session.shared)["resident"] = resident
        before, started = _resident_kilobytes(), time.monotonic()
        most, wrong = 0, 0
        seconds: dict[str, list[float]] = {}
        kinds: Counter[str] = Counter()
        for kind, (source, params, expected) in _questions(QUERIES):
            begin = time.perf_counter()
            found = graph.query(source, params=params).rows()
            seconds.setdefault(kind, []).append(time.perf_counter() - begin)
            wrong += [tuple(row.values()) for row in found] != expected
            most = max(most, resident.memory.nbytes)
            kinds[kind] += 1
        status = resident.status()
        grown = (_resident_kilobytes() - before) / 1024
        medians = ", ".join(
            f"{kind} {statistics.median(each) * 1e3:.2f} ms ({kinds[kind]})" for kind, each in seconds.items()
        )
        name = f"{QUERIES:,} random reads of {size / 1e9:.2f} GB with {MOST_BYTES / 1e6:.0f} MB for tables in memory"
        yield Figure(
            name=f"{name}: most bytes",
            value=most / 1e6,
            unit="MB",
            bound=MOST_BYTES / 1e6,
            raw=f"{status.answered} answered from memory, {status.declined} not; the most that the process had grew "
            f"by {grown:.0f} MiB",
        )
        yield Figure(
            name=f"{name}: wrong answers",
            value=wrong,
            unit="answers",
            bound=0,
            raw=f"{time.monotonic() - started:.0f} s; {medians}",
        )


def _schema() -> str:
    kinds = range(len(COUNTS))
    nodes = [f"node T{kind} {{ name: String @key, age: I32, text: String }}" for kind in kinds]
    edges = [f"edge E{kind}: T{kind} -> T{_next(kind)}" for kind in kinds]
    return "\n".join((*nodes, *edges))


def _filled_graph(folder: Path) -> og.Graph:
    graph = og.init(folder / "graph.omni", _schema())
    for kind, count in enumerate(COUNTS):
        numbers = range(count)
        columns = {
            "name": [_name(kind, number) for number in numbers],
            "age": pa.array([_age(kind, number) for number in numbers], pa.int32()),
            "text": [_text(kind, number) for number in numbers],
        }
        graph.load({f"T{kind}": pa.table(columns)}, engine="local")
    for kind, count in enumerate(COUNTS):
        starts = np.repeat(np.arange(count), EDGES_OF_NODE)
        ends = [end for number in range(count) for end in _ends(kind, number)]
        table = pa.table(
            {
                "src": [_name(kind, number) for number in starts.tolist()],
                "dst": [_name(_next(kind), number) for number in ends],
            }
        )
        graph.load({f"E{kind}": table}, engine="local")
    return graph


# --- what is there, by its number ---


def _next(kind: int) -> int:
    return (kind + 1) % len(COUNTS)


def _name(kind: int, number: int) -> str:
    return f"t{kind}-{number:07}"


def _age(kind: int, number: int) -> int:
    return (number * 7919 + kind) % AGES


def _text(kind: int, number: int) -> str:
    """A text that hardly becomes shorter when it is compressed."""
    return base64.b85encode(hashlib.shake_128(f"{kind} {number}".encode()).digest(TEXT_BYTES)).decode()


def _ends(kind: int, number: int) -> list[int]:
    """The nodes that the edges of a node lead to, all different."""
    count = COUNTS[_next(kind)]
    return [(number * 31 + 17 * turn + 1) % count for turn in range(EDGES_OF_NODE)]


# --- questions, with their answers ---


def _questions(count: int) -> Iterator[tuple[str, _Question]]:
    chance = random.Random(11)  # noqa: S311 - the same questions every time
    kinds: dict[str, Callable[[int, int], _Question]] = {
        "lookup": _lookup,
        "lookup with a long text": partial(_lookup, with_text=True),
        "one hop": _one_hop,
        "two hops by age": _two_hops,
        "count by age": _count,
    }
    weights = (40, 20, 20, 19, 1)
    for name in chance.choices(list(kinds), weights, k=count):
        kind = chance.randrange(len(COUNTS))
        yield name, kinds[name](kind, chance.randrange(COUNTS[kind]))


def _lookup(kind: int, number: int, *, with_text: bool = False) -> _Question:
    returned = "$p.name, $p.age, $p.text" if with_text else "$p.name, $p.age"
    source = f"query q($name: String) {{ match {{ $p: T{kind} {{ name: $name }} }} return {{ {returned} }} }}"
    row = (_name(kind, number), _age(kind, number), _text(kind, number))
    return source, {"name": row[0]}, [row[: 3 if with_text else 2]]


def _one_hop(kind: int, number: int) -> _Question:
    source = (
        f"query q($name: String) {{ match {{ $p: T{kind} {{ name: $name }}  $p e{kind} $q }}"
        " return { $q.name, $q.age } }"
    )
    rows = sorted((_name(_next(kind), end), _age(_next(kind), end)) for end in _ends(kind, number))
    return source, {"name": _name(kind, number)}, [*rows]


def _two_hops(kind: int, number: int) -> _Question:
    middle = _next(kind)
    last = _next(middle)
    source = (
        f"query q($name: String) {{ match {{ $p: T{kind} {{ name: $name }}  $p e{kind} $q  $q e{middle} $r }}"
        " return { $r.age, count($r) as n } }"
    )
    ages = Counter(_age(last, end) for each in _ends(kind, number) for end in _ends(middle, each))
    return source, {"name": _name(kind, number)}, sorted(ages.items())


def _count(kind: int, number: int) -> _Question:
    age = number % AGES
    source = f"query q($age: I32) {{ match {{ $p: T{kind}  $p.age = $age }} return {{ count($p) as n }} }}"
    count = int(np.count_nonzero((np.arange(COUNTS[kind]) * 7919 + kind) % AGES == age))
    return source, {"age": age}, [(count,)]


def _resident_kilobytes() -> int:
    """The most memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
