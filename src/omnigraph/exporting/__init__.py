"""Exports: what a snapshot holds becomes lines and files."""
