"""A graph whose server is under load: what is in it, what clients ask of it, and what must be there afterwards."""

import random
import threading
from asyncio import run
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from benchmarks.http_clients import Answers, Load, answers_to

import omnigraph as og
from tests.crash.children import SOAKING
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear
from tests.servers import RunningServer, token_of

ACTORS = [f"actor{number}" for number in range(8)]
TOKENS = {actor: token_of(actor) for actor in ACTORS}
CLIENTS = 64 if SOAKING else 16
PEOPLE = 200
SCHEMA = """
node Person { name: String @key }
node Note { text: String }
edge Knows: Person -> Person
"""
FRIENDS = "query q($name: String) { match { $a: Person { name: $name } $a knows $b $b knows $c } return { $c.name } }"
LOOKUP = "query q($name: String) { match { $a: Person { name: $name } } return { $a.name } }"
WRITE = """query add($name: String) {
    insert Person { name: $name }
    insert Note { text: $name }
    insert Knows { from: $name, to: "person 0" }
}"""
"""Three tables in one commit: a note has no key, so it would be there twice if the write were done twice."""


def filled_graph(folder: Path | str, options: dict[str, str] | None = None) -> og.Graph:
    """People who know each other."""
    chance = random.Random(1)  # noqa: S311 - the same graph every time
    names = [f"person {number}" for number in range(PEOPLE)]
    graph = og.init(f"{folder}/people.omni", SCHEMA, storage_options=options)
    ends = {side: chance.choices(names, k=4 * PEOPLE) for side in ("src", "dst")}
    graph.load({"Person": pa.table({"name": names}), "Knows": pa.table(ends)})
    return graph


def load_on(server: RunningServer, seconds: float, called: str) -> Load:
    """Nine reads for each write, by several actors."""
    host, port = server.address
    return Load(
        host=host,
        port=port,
        graph="people",
        tokens=list(TOKENS.values()),
        clients=CLIENTS,
        seconds=seconds,
        reads=(FRIENDS, LOOKUP),
        write=WRITE,
        writes_in_a_hundred=10,
        names=PEOPLE,
        called=called,
    )


@contextmanager
def under_load(load: Load) -> Iterator[Answers]:
    """The answers as they come; when this is left, the last client has ended."""
    answers = Answers()
    clients = threading.Thread(target=lambda: run(answers_to(load, answers)))
    clients.start()
    try:
        yield answers
    finally:
        clients.join()


def written(graph: og.Graph) -> Counter[str]:
    """The writes that are there, after a look that each is there as a whole."""
    snapshot = graph.snapshot()
    notes = Counter(snapshot.table("node:Note").scan(["text"])["text"].to_pylist())
    people = snapshot.table("node:Person").scan(["name"])["name"].to_pylist()
    known = snapshot.table("edge:Knows").scan(["src"])["src"].to_pylist()
    assert Counter(name for name in people if not name.startswith("person ")) == notes
    assert Counter(name for name in known if not name.startswith("person ")) == notes
    return notes


def assert_sound(graph: og.Graph) -> None:
    """Nothing is pending or drifted, and history is one line."""
    assert graph.recoveries.pending() == []
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)
