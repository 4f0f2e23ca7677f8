"""Queries that read: planned once, run in the process; `omnigraph.spark` runs the same plans on Spark."""

from omnigraph.errors.answers import NoEmbeddingModel, SumOutOfRange, WrongEmbedding
from omnigraph.query.adjacency import AdjacencyCache
from omnigraph.query.cancelling import NEVER, Cancellation, cancellation_of
from omnigraph.query.leaves import Embed
from omnigraph.query.local import execute
from omnigraph.query.plan import Plan, Shortcuts, plan_read
from omnigraph.query.source import GraphReader

__all__ = [
    "NEVER",
    "AdjacencyCache",
    "Cancellation",
    "Embed",
    "GraphReader",
    "NoEmbeddingModel",
    "Plan",
    "Shortcuts",
    "SumOutOfRange",
    "WrongEmbedding",
    "cancellation_of",
    "execute",
    "plan_read",
]
