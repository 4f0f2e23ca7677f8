"""Mutations: statements decide on one snapshot what becomes of entities, in memory, and the result is one commit."""
