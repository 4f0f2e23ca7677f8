"""Declares the command that compares two schemas, of which either may be in a file.

As in `main`, a command imports what it needs in its body, and only there.
"""
# ruff: noqa: PLC0415, FBT002 - a flag of a command is a keyword for its user

from typing import Annotated

import typer

from omnigraph.cli.options import AsJson, OnGraph, Store, Uri, named_graph_if_any
from omnigraph.cli.verb_commands import schemas


def declare() -> None:
    """Adds the command to those about schemas."""
    schemas.command("diff", cls=OnGraph)(diff)


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="What to begin with: a file, commit, tag or branch.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What to end with.")],
    uri: Uri = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show the steps from one schema to another, as `schema plan` does, without the rows.

    Two files need no graph. A commit, a tag or a branch stands for the schema that a graph has there.
    """
    from omnigraph.cli import schema

    schema.run_diff(named_graph_if_any(uri, store), old, new, as_json=as_json)
