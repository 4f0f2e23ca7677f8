"""How many requests the verbs that are asked often send to an object store, one after the other."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from tests.stores import FaultyProxy, Options

SCHEMA = """
node Person { name: String @key, age: I32? }
node City { name: String @key }
edge LivesIn: Person -> City
"""
QUERIES = """
query add($name: String) { insert Person { name: $name } }
query move($name: String) { insert Person { name: $name } insert LivesIn { from: $name, to: "Oslo" } }
query grow($name: String) { update Person set { age: 3 } where name = $name }
query remove($name: String) { delete Person where name = $name }
query find($name: String) { match { $p: Person { name: $name } } return { $p.age } }
"""
VERBS: dict[str, Callable[[og.Graph], object]] = {
    "read, if all tables are in memory or open": lambda graph: graph.query(QUERIES, "find", {"name": "Ada"}),
    "insert": lambda graph: graph.mutate(QUERIES, "add", {"name": "Bob"}),
    "insert a node and an edge": lambda graph: graph.mutate(QUERIES, "move", {"name": "Bob"}),
    "update": lambda graph: graph.mutate(QUERIES, "grow", {"name": "Ada"}),
    "delete": lambda graph: graph.mutate(QUERIES, "remove", {"name": "Ada"}),
    "insert on a branch": lambda graph: graph.mutate(QUERIES, "add", {"name": "Bob"}, branch="review"),
    "create a branch": lambda graph: graph.branches.create(f"b-{uuid.uuid4().hex}"),
    "merge": lambda graph: graph.merge("small"),
    "list commits": lambda graph: graph.commits.list(),
    "open for reading": lambda graph: og.open(graph.uri, "r", storage_options=dict(graph._session.location.options)),
    "open for writing": lambda graph: og.open(graph.uri, storage_options=dict(graph._session.location.options)),
}
_PAGE = Path(__file__).parents[2] / "docs/guide/safety.md"


def documented_budgets() -> dict[str, int]:
    """The table of the documentation."""
    section = _PAGE.read_text().partition("#### Requests\n")[2].partition("\n#")[0]
    rows = (line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| "))
    return {verb: int(most) for verb, most in rows if most.isdecimal()}


BUDGETS = documented_budgets()
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
        graph.mutate(QUERIES, "move", {"name": f"new{number}"}, branch="small")
        graph.mutate(QUERIES, "move", {"name": f"new{number}"})
        if verb.startswith("read"):
            graph.query(QUERIES, "find", {"name": "Ada"})
        proxy.requests.clear()
        VERBS[verb](graph)
        assert len(proxy.requests) <= BUDGETS[verb], proxy.requests


def test_a_commit_of_another_process_costs_a_read_one_more_request(
    graph: og.Graph, proxy: FaultyProxy, s3_store: Options
) -> None:
    graph.query(QUERIES, "find", {"name": "Ada"})
    og.open(graph.uri, storage_options=s3_store).mutate(QUERIES, "grow", {"name": "Ada"})
    proxy.requests.clear()
    assert graph.query(QUERIES, "find", {"name": "Ada"}).rows() == [{"p.age": 3}]
    assert len(proxy.requests) <= 2, proxy.requests
