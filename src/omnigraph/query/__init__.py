"""Queries that read: planned once, run in the process; `omnigraph.spark` runs the same plans on Spark.

Names are imported when they are first used: what is answered from tables in memory needs no plan.
"""

from typing import TYPE_CHECKING

from omnigraph.errors import NoEmbeddingModel, SumOutOfRange, WrongEmbedding
from omnigraph.lazy import lazy_names

if TYPE_CHECKING:
    from omnigraph.query.adjacency import AdjacencyCache
    from omnigraph.query.cancelling import NEVER, Cancellation, cancellation_of
    from omnigraph.query.leaves import Embed
    from omnigraph.query.local import execute
    from omnigraph.query.plan import Plan, Shortcuts, plan_read
    from omnigraph.query.steps import GraphReader
else:
    __getattr__ = lazy_names(
        __name__,
        {
            "adjacency": "AdjacencyCache",
            "cancelling": "NEVER Cancellation cancellation_of",
            "leaves": "Embed",
            "local": "execute",
            "plan": "Plan Shortcuts plan_read",
            "steps": "GraphReader",
        },
    )
