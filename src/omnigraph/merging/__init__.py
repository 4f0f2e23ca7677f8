"""Merges of branches: three-way, entity by entity."""
