"""Opens the graph of a command, and helps with names of branches that are not there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, OmnigraphError
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph

_BRANCHES = ("branch", "branch or commit")


@contextmanager
def opened(uri: str, mode: Literal["r", "rw"] = "rw", *, durability: str | None = None) -> Iterator[Graph]:
    """The graph. A branch that the block does not find is reported with the names that it may have meant."""
    graph = open_graph(uri, mode, durability=durability)
    try:
        yield graph
    except NotFound as error:
        if error.kind not in _BRANCHES or error.hint is not None:
            raise
        raise NotFound(error.kind, error.name, _similar(graph, error.name)) from error


def _similar(graph: Graph, name: str) -> str | None:
    """A hint with the branches that there are; none where even these cannot be read."""
    try:
        return did_you_mean(name, (info.name for info in graph.branches.list()))
    except OmnigraphError:
        return None
