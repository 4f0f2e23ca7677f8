"""Queries that read: planned once, run in the process; `omnigraph.spark` runs the same plans on Spark."""

from omnigraph.errors import NoEmbeddingModel, SumOutOfRange, WrongEmbedding
from omnigraph.query.adjacency import AdjacencyCache
from omnigraph.query.cancelling import NEVER, Cancellation, cancellation_of
from omnigraph.query.leaves import Embed
from omnigraph.query.local import execute
from omnigraph.query.plan import Plan, Shortcuts, plan_read
from omnigraph.query.steps import GraphReader
