"""Branches and tags: created, listed, resolved and deleted."""
