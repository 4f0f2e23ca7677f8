"""A graph that a server has: the same verbs, over HTTP."""

from omnigraph.remote.connecting import connect
from omnigraph.remote.graph import RemoteGraph

__all__ = ["RemoteGraph", "connect"]
