"""The short and complex reads of LDBC SNB Interactive beside DuckDB and ladybug, on a network of the shape of SNB.

`OMNIGRAPH_SNB_PERSONS` is the number of persons: 10 000 if it is not given; 1 000 and 30 000 are the other usual ones.
This is not an audited run of the benchmark: its data comes from a generator of ours, and only its reads are asked.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measure import Figure
from benchmarks.snb.data import make_network, sizes
from benchmarks.snb.databases import NAMES, Database, open_duckdb, open_ladybug, open_ours
from benchmarks.snb.parameters import NONE_FOUND, Parameters, make_parameters

PERSONS = int(os.environ.get("OMNIGRAPH_SNB_PERSONS", "10000"))
BLOCK, WARM_UP = 10, 2
"""How many questions a database answers in a row, and how many others before them to warm up."""
PATIENCE = 10.0
"""A peer that needs more seconds than these for a block answers only the questions that it has answered by then."""
MOST_READS = 21
ASKED_FASTEST, ASKED_SLOWEST = 15, 3.0


def figures() -> Iterator[Figure]:
    """The ratio of each read, how many are at most as slow as the best peer, and the slowest."""
    network = make_network(PERSONS)
    questions = make_parameters(network)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = network.write(folder)
        started = time.perf_counter()
        _, ours = open_ours(folder, files)
        loaded = time.perf_counter() - started
        counts = dict(sizes(network))
        rows = ", ".join(f"{counts[each]:,} {each}" for each in ("Person", "Knows", "Message", "Likes", "HasMember"))
        yield Figure(
            name=f"snb: load of {PERSONS:,} persons, and its reads prepared",
            value=loaded,
            unit="s",
            bound=60.0,
            raw=f"{sum(counts.values()):,} nodes and edges: {rows}",
        )
        databases = {"ours": ours, "duckdb": open_duckdb(folder), "ladybug": open_ladybug(folder, files)}
        ratios: dict[str, float] = {}
        for read in NAMES:
            seconds, found = compare(databases, read, questions[read])
            times = {each: statistics.median(taken) for each, taken in seconds.items()}
            best = min((each for each in times if each != "ours"), key=times.__getitem__)
            ratios[read] = times["ours"] / times[best]
            raw = ", ".join(f"{each} {times[each] * 1e3:.3f} ({min(seconds[each]) * 1e3:.3f})" for each in times)
            yield Figure(
                name=f"snb {read}: ours / {best}, the best peer",
                value=ratios[read],
                unit="x",
                bound=ASKED_SLOWEST,
                raw=f"median (fastest) in ms: {raw}; {found} of {len(questions[read])} questions have answers",
            )
    slower = {read: ratio for read, ratio in ratios.items() if ratio > 1.0}
    yield Figure(
        name=f"snb: reads that are slower than the best peer, of {len(ratios)}",
        value=len(slower),
        unit="reads",
        bound=MOST_READS - ASKED_FASTEST,
        raw=", ".join(f"{read} {ratio:.2f}" for read, ratio in slower.items()) or "none",
    )
    slowest = max(ratios, key=ratios.__getitem__)
    yield Figure(
        name=f"snb: the slowest ratio of all, of {slowest}",
        value=ratios[slowest],
        unit="x",
        bound=ASKED_SLOWEST,
        raw=", ".join(f"{read} {ratio:.2f}" for read, ratio in ratios.items()),
    )


def compare(
    databases: Mapping[str, Database], read: str, questions: Sequence[Parameters]
) -> tuple[dict[str, list[float]], int]:
    """The seconds of each answer of each database, and how many questions have answers; all answers must agree.

    They take turns block by block, and each answers several questions in a row, as in `peers`.
    """
    seconds: dict[str, list[float]] = {name: [] for name in databases}
    order, found = [*databases], 0
    for start in range(0, len(questions), BLOCK):
        block = questions[start : start + BLOCK]
        answers: dict[str, list[Sequence[Any]]] = {}
        order = [*order[1:], order[0]]
        for name in order:
            database = databases[name]
            given = [database.parameters(each) for each in block]
            warm = [database.parameters(each) for each in questions[start - WARM_UP : start] or questions[-WARM_UP:]]
            is_late = time.perf_counter() + PATIENCE
            for each in warm if time.perf_counter() < is_late else ():
                database.ask(read, each)
            answers[name] = []
            for each in given:
                if name != "ours" and answers[name] and time.perf_counter() > is_late:
                    break
                began = time.perf_counter()
                answer = database.ask(read, each)
                seconds[name].append(time.perf_counter() - began)
                answers[name].append(answer)
        for number, given_here in enumerate(block):
            expected = databases["ours"].comparable(read, answers["ours"][number])
            found += bool(expected) and expected != NONE_FOUND
            for name in order:
                if number < len(answers[name]):
                    rows = databases[name].comparable(read, answers[name][number])
                    assert rows == expected, (read, given_here, name, rows[:3], expected[:3])
    return seconds, found
