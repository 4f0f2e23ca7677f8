"""Analyses of a whole graph: ranks, components, degrees, triangles, communities, shortest paths."""

from omnigraph.analytics.algorithms import ALGORITHMS, Algorithm, Outcome, algorithm_named
from omnigraph.analytics.numbered import Choice, NumberedGraph, chosen, numbered

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "Choice",
    "NumberedGraph",
    "Outcome",
    "algorithm_named",
    "chosen",
    "numbered",
]
