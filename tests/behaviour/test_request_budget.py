"""How many requests the verbs that are asked often send to an object store, one after the other."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage.locks import seconds_since_boot
from omnigraph.versioning.log import TRUSTED_SECONDS
from tests.stores import FaultyProxy, Options

SCHEMA = """
node Person { name: String @key, age: I32? }
node City { name: String @key }
edge LivesIn: Person -> City
"""
QUERIES = """
query add($name: String) { insert Person { name: $name } }
query move($name: String) { insert Person { name: $name } insert LivesIn { from: $name, to: "Oslo" } }
query grow($name: String, $age: I32) { update Person set { age: $age } where name = $name }
query remove($name: String) { delete Person where name = $name }
query find($name: String) { match { $p: Person { name: $name } } return { $p.age } }
"""
VERBS: dict[str, Callable[[og.Graph, int], object]] = {
    "read, if all tables are in memory or open": lambda graph, _: graph.query(QUERIES, "find", {"name": "Ada"}),
    "insert": lambda graph, turn: graph.mutate(QUERIES, "add", {"name": f"own{turn}"}),
    "insert a node and an edge": lambda graph, turn: graph.mutate(QUERIES, "move", {"name": f"own{turn}"}),
    "update": lambda graph, turn: graph.mutate(QUERIES, "grow", {"name": "Ada", "age": turn}),
    "delete": lambda graph, turn: graph.mutate(QUERIES, "remove", {"name": f"new{turn}"}),
    "insert on a branch": lambda graph, turn: graph.mutate(QUERIES, "add", {"name": f"own{turn}"}, branch="review"),
    "create a branch": lambda graph, _: graph.branches.create(f"b-{uuid.uuid4().hex}"),
    "merge": lambda graph, _: graph.merge("small"),
    "list commits": lambda graph, _: graph.commits.list(),
    "open for reading": lambda graph, _: og.open(graph.uri, "r", storage_options=dict(graph._session.location.options)),
    "open for writing": lambda graph, _: og.open(graph.uri, storage_options=dict(graph._session.location.options)),
}
"""Each does what it says in every turn: a write that changes nothing would send fewer requests."""

_PAGE = Path(__file__).parents[2] / "docs/guide/safety.md"


def documented_budgets() -> dict[str, int]:
    """The table of the documentation."""
    section = _PAGE.read_text().partition("#### Requests\n")[2].partition("\n#")[0]
    rows = (line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| "))
    return {verb: int(most) for verb, most in rows if most.isdecimal()}


BUDGETS = documented_budgets()
READS = {verb for verb in VERBS if verb.startswith(("read", "list", "open"))}
MOST = {"insert": 4, "insert a node and an edge": 4, "insert on a branch": 6, "create a branch": 6, "merge": 10}
"""What the documentation may say at most."""


@pytest.fixture
def graph(proxy: FaultyProxy, s3_uri: str) -> og.Graph:
    """A graph that has been read and written before, on `main` and on a branch."""
    graph = og.init(s3_uri, SCHEMA, storage_options=proxy.options)
    graph.load({"Person": [{"name": "Ada"}], "City": [{"name": "Oslo"}]})
    graph.branches.create("review")
    graph.branches.create("small")
    for branch in ("main", "review", "small"):
        graph.mutate(QUERIES, "move", {"name": "Ada"}, branch=branch)
        graph.query(QUERIES, "find", {"name": "Ada"}, branch=branch)
    return graph


def test_the_documentation_names_every_verb() -> None:
    assert BUDGETS.keys() == VERBS.keys()
    assert all(BUDGETS[verb] <= most for verb, most in MOST.items())


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_sends_no_more_requests_than_the_documentation_says(
    graph: og.Graph, proxy: FaultyProxy, verb: str
) -> None:
    for number in range(2):
        graph.mutate(QUERIES, "move", {"name": f"small{number}"}, branch="small")
        graph.mutate(QUERIES, "move", {"name": f"new{number}"})
        if verb.startswith("read"):
            graph.query(QUERIES, "find", {"name": "Ada"})
        before = _writes(graph)
        proxy.requests.clear()
        VERBS[verb](graph, number)
        assert len(proxy.requests) <= BUDGETS[verb], proxy.requests
        assert (_writes(graph) > before) == (verb not in READS), "it did not do what it is counted for"


def _writes(graph: og.Graph) -> int:
    """How many commits and branches there are."""
    branches = graph.branches.list()
    return len(branches) + sum(each.head.manifest_version for each in branches)


def test_a_commit_of_another_process_costs_a_read_one_more_request(
    graph: og.Graph, proxy: FaultyProxy, s3_store: Options
) -> None:
    graph.query(QUERIES, "find", {"name": "Ada"})
    og.open(graph.uri, storage_options=s3_store).mutate(QUERIES, "grow", {"name": "Ada", "age": 3})
    proxy.requests.clear()
    assert graph.query(QUERIES, "find", {"name": "Ada"}).rows() == [{"p.age": 3}]
    assert len(proxy.requests) <= 2, proxy.requests


def test_what_was_the_newest_version_before_a_suspension_is_looked_up_again(
    graph: og.Graph, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have written, and cleanup removed, all that came after it."""
    graph.snapshot()
    proxy.requests.clear()
    graph.snapshot()
    assert not any("/__heads/" in path for _, path in proxy.requests)
    monkeypatch.setattr("omnigraph.versioning.log.seconds_since_boot", lambda: seconds_since_boot() + TRUSTED_SECONDS)
    graph.snapshot()
    assert any(path.endswith("/__heads/main") for _, path in proxy.requests)
