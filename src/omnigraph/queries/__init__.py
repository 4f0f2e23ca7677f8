"""Stored queries: texts that a graph keeps, versioned with it, and what they take and give."""

from omnigraph.queries.stored import breaking_queries, check_stored, cut_queries, describe_query

__all__ = ["breaking_queries", "check_stored", "cut_queries", "describe_query"]
