"""Opens the graph of a command, and helps with names of branches that are not there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from omnigraph.diagnostics import did_you_mean, quoted
from omnigraph.errors import NotFound, OmnigraphError
from omnigraph.graph import Graph
from omnigraph.opening import open as open_graph

_BRANCH, _STATE = "branch", "branch or commit"


@contextmanager
def opened(uri: str, mode: Literal["r", "rw"] = "rw", *, durability: str | None = None) -> Iterator[Graph]:
    """The graph. A branch that the block does not find is reported with the names that may have been meant."""
    graph = open_graph(uri, mode, durability=durability)
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


def _deleted(graph: Graph, commit_id: str) -> str | None:
    """Why a commit that is known cannot be read."""
    try:
        return f"its branch {quoted(graph.commits.show(commit_id).branch)} was deleted"
    except NotFound:
        return None


def _similar(graph: Graph, name: str) -> str | None:
    names = [*(branch.name for branch in graph.branches.list()), *(tag.name for tag in graph.tags.list())]
    return did_you_mean(name, names)
