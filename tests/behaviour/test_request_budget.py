"""How many requests the verbs that are asked often send to an object store, one after the other."""

import uuid
from collections.abc import Callable

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
BUDGETS: dict[str, tuple[int, Callable[[og.Graph], object]]] = {
    "insert": (4, lambda graph: graph.mutate(QUERIES, "add", {"name": "Bob"})),
    "insert a node and an edge": (4, lambda graph: graph.mutate(QUERIES, "move", {"name": "Bob"})),
    "update": (4, lambda graph: graph.mutate(QUERIES, "grow", {"name": "Ada"})),
    "delete": (4, lambda graph: graph.mutate(QUERIES, "remove", {"name": "Ada"})),
    "merge": (10, lambda graph: graph.merge("small")),
    "create a branch": (6, lambda graph: graph.branches.create(f"b-{uuid.uuid4().hex}")),
    "insert on a branch": (6, lambda graph: graph.mutate(QUERIES, "add", {"name": "Bob"}, branch="review")),
    "read": (1, lambda graph: graph.query(QUERIES, "find", {"name": "Ada"})),
}


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


@pytest.mark.parametrize("verb", BUDGETS)
def test_a_verb_sends_no_more_requests_than_the_documentation_says(
    graph: og.Graph, proxy: FaultyProxy, verb: str
) -> None:
    most, run = BUDGETS[verb]
    for number in range(2):
        graph.mutate(QUERIES, "move", {"name": f"new{number}"}, branch="small")
        graph.mutate(QUERIES, "move", {"name": f"new{number}"})
        proxy.requests.clear()
        run(graph)
        assert len(proxy.requests) <= most, proxy.requests


def test_a_commit_of_another_process_costs_a_read_one_more_request(
    graph: og.Graph, proxy: FaultyProxy, s3_store: Options
) -> None:
    graph.query(QUERIES, "find", {"name": "Ada"})
    og.open(graph.uri, storage_options=s3_store).mutate(QUERIES, "grow", {"name": "Ada"})
    proxy.requests.clear()
    assert graph.query(QUERIES, "find", {"name": "Ada"}).rows() == [{"p.age": 3}]
    assert len(proxy.requests) <= 2, proxy.requests
