"""The routes below a graph: those that stream or take data first, as their paths are longer, then the documents."""

from omnigraph.server.routes import history, reads, writes
from omnigraph.server.routes.documents import routers

ROUTERS = (reads.router, writes.router, history.router, *routers())

__all__ = ["ROUTERS"]
