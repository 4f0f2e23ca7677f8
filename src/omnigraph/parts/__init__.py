"""Bulk work as a list of parts: what an engine is, and what the tasks of one job share."""

from omnigraph.api.progress import Progress

__all__ = ["Progress"]
