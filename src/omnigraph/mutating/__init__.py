"""Mutations: statements change entities of one snapshot in memory, and the result is one commit."""
