"""Analyses of a whole graph: ranks, components, degrees, triangles, communities, shortest paths."""
