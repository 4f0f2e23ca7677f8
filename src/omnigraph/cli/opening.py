"""Opens the graph of a command, here or at a server, and helps with names of branches that are not there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

from omnigraph.cli.options import given_words, is_server
from omnigraph.diagnostics import did_you_mean, quoted
from omnigraph.errors import NotFound, OmnigraphError, UsageError
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import open as open_graph

if TYPE_CHECKING:
    from omnigraph.remote import RemoteGraph

AnyGraph: TypeAlias = "Graph | RemoteGraph"
_BRANCH, _STATE = "branch", "branch or commit"


@contextmanager
def opened(uri: str, mode: Literal["r", "rw"] = "rw", *, durability: str | None = None) -> Iterator[AnyGraph]:
    """The graph. A branch that the block does not find is reported with the names that may have been meant."""
    graph = _graph(uri, mode, durability)
    try:
        yield graph
    except NotFound as error:
        if error.kind not in (_BRANCH, _STATE) or error.hint is not None:
            raise
        try:
            hint = (_deleted(graph, error.name) if error.kind == _STATE else None) or _similar(graph, error.name)
        except OmnigraphError:
            raise error from None
        raise NotFound(error.kind, error.name, hint) from error


def _graph(uri: str, mode: Literal["r", "rw"], durability: str | None) -> AnyGraph:
    words = given_words()
    if not is_server(uri):
        return open_graph(uri, mode, durability=durability, policy=words.policy, actor=words.actor)
    refused = {"--as": words.names_actor, "--policy": words.names_policy, "--durability": durability is not None}
    for option, given in refused.items():
        if given:
            raise UsageError(f"{option} is not for a server, which decides that itself")
    from omnigraph.remote import connect  # noqa: PLC0415 - only a server needs an HTTP client

    return connect(uri, words.graph)


def _deleted(graph: AnyGraph, commit_id: str) -> str | None:
    """Why a commit that is known cannot be read."""
    try:
        return f"its branch {quoted(graph.commits.show(commit_id).branch)} was deleted"
    except NotFound:
        return None


def _similar(graph: AnyGraph, name: str) -> str | None:
    names = [*(branch.name for branch in graph.branches.list()), *(tag.name for tag in graph.tags.list())]
    return did_you_mean(name, names)
