"""Keeping a graph healthy: indexes, compaction, repair and cleanup."""
