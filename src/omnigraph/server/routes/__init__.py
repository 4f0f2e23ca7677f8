"""The routes, each module with those of one kind."""

from omnigraph.server.routes import branches, history, reads, schema, upkeep, writes

ROUTERS = (reads.router, writes.router, branches.router, history.router, schema.router, upkeep.router)
"""Those below a graph."""

__all__ = ["ROUTERS"]
