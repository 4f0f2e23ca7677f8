"""Declares the commands about schemas.

As in `main`, a command imports what it needs in its body, and only there.
"""
# ruff: noqa: PLC0415, FBT002 - a flag of a command is a keyword for its user

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.options import AsJson, Branch, Store, Uri, named_graph

schemas = typer.Typer(help="The schema of a graph.", no_args_is_help=True, rich_markup_mode=None)


def declare(app: typer.Typer) -> None:
    """Adds the commands to an application."""
    app.add_typer(schemas, name="schema")


@schemas.command("show")
def schema_show(uri: Uri = None, store: Store = None, as_json: AsJson = False) -> None:
    """Print the schema of a graph."""
    from omnigraph.cli import schema

    schema.run_show(named_graph(uri, store), as_json=as_json)


@schemas.command("plan")
def schema_plan(
    new: Annotated[Path, typer.Argument(metavar="NEW.pg", help="The schema that the graph is to have.")],
    uri: Uri = None,
    branch: Branch = "main",
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show the steps from the schema of a graph to another, and what each costs.

    Nothing is changed. The exit code is 3 if something is refused, or if data would be lost.
    """
    from omnigraph.cli import schema

    schema.run_plan(named_graph(uri, store), new, branch=branch, as_json=as_json)


@schemas.command("diff")
def schema_diff(
    old: Annotated[Path, typer.Argument(metavar="OLD.pg", help="The schema to begin with.")],
    new: Annotated[Path, typer.Argument(metavar="NEW.pg", help="The schema to end with.")],
    as_json: AsJson = False,
) -> None:
    """Show the steps from one file to another, as `schema plan` does, without a graph."""
    from omnigraph.cli import schema

    schema.run_diff(old, new, as_json=as_json)
