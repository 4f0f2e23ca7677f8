"""Opens the graph of a command, here or at a server, and adds hints to errors about states that are not there."""
# ruff: noqa: PLC0415 - a command against a server needs no storage, and one against a store no HTTP client

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

from omnigraph.cli.grammar import graph_words, is_server
from omnigraph.diagnostics import did_you_mean, quoted
from omnigraph.errors import NotFound, OmnigraphError, UsageError

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.remote import RemoteGraph

AnyGraph: TypeAlias = "Graph | RemoteGraph"
_BRANCH, _STATE = "branch", "branch or commit"


@contextmanager
def open_graph(uri: str, mode: Literal["r", "rw"] = "rw", *, durability: str | None = None) -> Iterator[AnyGraph]:
    """The graph. A branch that the block does not find is reported with similar names."""
    graph = _connect(uri, durability) if is_server(uri) else _open(uri, mode, durability)
    try:
        yield graph
    except NotFound as error:
        if error.kind not in (_BRANCH, _STATE) or error.hint is not None:
            raise
        try:
            hint = (_deletion(graph, error.name) if error.kind == _STATE else None) or _similar_name(graph, error.name)
        except OmnigraphError:
            raise error from None
        raise NotFound(error.kind, error.name, hint) from error


def _open(uri: str, mode: Literal["r", "rw"], durability: str | None) -> AnyGraph:
    from omnigraph.graph.opening import open as open_store

    words = graph_words()
    return open_store(uri, mode, durability=durability, policy=words.policy, actor=words.actor)


def _connect(uri: str, durability: str | None) -> AnyGraph:
    words = graph_words()
    refused = {"--as": "actor" in words.given, "--policy": "policy" in words.given, "--durability": durability}
    for option, given in refused.items():
        if given:
            raise UsageError(f"{option} is not for a server, which decides that itself")
    from omnigraph.remote import connect

    return connect(uri, words.graph_id)


def _deletion(graph: AnyGraph, commit_id: str) -> str | None:
    """Why a commit that is known cannot be read."""
    try:
        return f"its branch {quoted(graph.commits.show(commit_id).branch)} was deleted"
    except NotFound:
        return None


def _similar_name(graph: AnyGraph, name: str) -> str | None:
    names = [*(branch.name for branch in graph.branches.list()), *(tag.name for tag in graph.tags.list())]
    return did_you_mean(name, names)
