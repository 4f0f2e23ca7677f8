"""A graph as a server of the Model Context Protocol: agents list its tools, call them, and read its schema."""

from omnigraph.mcp.server import make_server, serve_stdio
from omnigraph.mcp.tools import AgentSettings, Toolbox

__all__ = ["AgentSettings", "Toolbox", "make_server", "serve_stdio"]
