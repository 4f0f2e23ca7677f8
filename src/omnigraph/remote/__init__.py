"""A graph of a server: the same verbs, over HTTP."""

from omnigraph.remote.graph import RemoteGraph, connect

__all__ = ["RemoteGraph", "connect"]
