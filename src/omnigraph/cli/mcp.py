"""The command that serves a graph to an agent."""

from collections.abc import Sequence

from omnigraph.cli.grammar import named_graph
from omnigraph.cli.opening import open_graph
from omnigraph.errors import UsageError
from omnigraph.extras import MCP, require_extra


def run_mcp(*, writes: bool, branches: Sequence[str], most_rows: int, timeout: float) -> None:
    """Serves until standard input ends."""
    require_extra(MCP, "`omnigraph mcp`")
    from omnigraph.mcp import AgentSettings, Toolbox, serve_stdio  # noqa: PLC0415 - an extra

    if branches and not writes:
        raise UsageError("--branch says which branches may be written, and needs --write")
    settings = AgentSettings(writes=writes, branches=tuple(branches) or ("*",), most_rows=most_rows, timeout=timeout)
    with open_graph(named_graph(), "rw" if writes else "r") as graph:
        serve_stdio(Toolbox(graph, settings))
