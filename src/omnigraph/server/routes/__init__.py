"""The routes of the server. Those below a graph that stream or take data come first, as their paths are longer."""

from omnigraph.server.routes import data, history, server, verbs

ROUTERS = (data.router, history.router, *verbs.routers())
"""The routes below a graph."""
ALL_ROUTERS = (server.router, *ROUTERS)

__all__ = ["ALL_ROUTERS", "ROUTERS"]
