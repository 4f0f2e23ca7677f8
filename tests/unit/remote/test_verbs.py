"""A graph of a server has the verbs of a graph, with the same parameters."""

import inspect
from typing import Any

import pytest

from omnigraph.graph.graph import Graph
from omnigraph.graph.handles import Commits, GraphBranches, GraphTags, Schema
from omnigraph.recovery import Recoveries
from omnigraph.remote.asking import Door
from omnigraph.remote.graph import RemoteGraph
from omnigraph.remote.handles import RemoteBranches, RemoteCommits, RemoteRecoveries, RemoteTags
from omnigraph.remote.schema import RemoteSchema
from omnigraph.remote.wire import Wire

ONLY_HERE = {
    "acting_as": "who asks is told by the token",
    "under": "the rules are those of the server",
    "actor": "who asks is told by the token",
    "check_load": "a server asks before it receives a load",
    "check_there": "a server looks after itself",
    "durability": "the server decides",
}
PARTS = {"branches", "commits", "recoveries", "schema", "tags"}
NOT_SENT = {"query": {"cancellation"}}
"""A query is stopped by its timeout, by closing the connection, or by a request to the server."""


def verbs(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (Graph, RemoteGraph),
        (Schema, RemoteSchema),
        (Commits, RemoteCommits),
        (GraphBranches, RemoteBranches),
        (GraphTags, RemoteTags),
        (Recoveries, RemoteRecoveries),
    ],
    ids=lambda kind: kind.__name__,
)
def test_a_server_has_the_same_verbs_with_the_same_parameters(here: type, there: type) -> None:
    for name, verb in verbs(here).items():
        if name in ONLY_HERE:
            assert name not in verbs(there)
            continue
        if name in PARTS:
            continue
        remote = verbs(there)[name]
        if not callable(verb):
            assert not callable(remote)
            continue
        expected, found = (inspect.signature(each).parameters.values() for each in (verb, remote))
        left_out = NOT_SENT.get(name, set())
        assert [(each.name, each.kind, each.default) for each in found] == [
            (each.name, each.kind, each.default) for each in expected if each.name not in left_out
        ], name


def test_a_graph_of_a_server_has_the_same_parts() -> None:
    with RemoteGraph(Door(Wire("http://127.0.0.1:1", None), "people")) as graph:
        assert {type(getattr(graph, name)) for name in PARTS} == {
            RemoteBranches,
            RemoteCommits,
            RemoteRecoveries,
            RemoteSchema,
            RemoteTags,
        }
