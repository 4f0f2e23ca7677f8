"""Loads: records of files, tables and frames become rows of the graph, checked, as one commit."""
