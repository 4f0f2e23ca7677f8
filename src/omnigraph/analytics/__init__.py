"""Analyses of a whole graph: ranks, components, labels, degrees, triangles, communities, shortest paths."""
