"""Queries that read: planned once, run in the process."""

from omnigraph.query.adjacency import AdjacencyCache
from omnigraph.query.errors import NoEmbeddingModel, SumOutOfRange, WrongEmbedding
from omnigraph.query.leaves import Embed
from omnigraph.query.local import execute
from omnigraph.query.plan import Plan, plan_read
from omnigraph.query.source import GraphReader

__all__ = [
    "AdjacencyCache",
    "Embed",
    "GraphReader",
    "NoEmbeddingModel",
    "Plan",
    "SumOutOfRange",
    "WrongEmbedding",
    "execute",
    "plan_read",
]
