"""Checks of the repository that ruff and mypy do not make."""
