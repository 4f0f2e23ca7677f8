"""Declares the commands about schemas.

As in `main`, a command imports what it needs in its body, and only there.
"""
# ruff: noqa: PLC0415, FBT002, PLR0917 - a flag of a command is a keyword for its user

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.options import (
    Actor,
    AsJson,
    Branch,
    Durability,
    Engine,
    IfCommit,
    OnGraph,
    Store,
    Uri,
    named_graph,
    named_graph_if_any,
)

schemas = typer.Typer(help="The schema of a graph.", no_args_is_help=True, rich_markup_mode=None)


def declare(app: typer.Typer) -> None:
    """Adds the commands to an application."""
    app.add_typer(schemas, name="schema")


@schemas.command("show", cls=OnGraph)
def schema_show(
    uri: Uri = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="COMMIT", help="A commit, tag or branch.", show_default=False)
    ] = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Print the schema of a graph, as it is or as it was."""
    from omnigraph.cli import schema

    schema.run_show(named_graph(uri, store), at=at, as_json=as_json)


@schemas.command("plan", cls=OnGraph)
def schema_plan(
    new: Annotated[Path, typer.Argument(metavar="NEW.pg", help="The schema that the graph is to have.")],
    uri: Uri = None,
    branch: Branch = "main",
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show the steps from the schema of a graph to another, and what each costs.

    Nothing is changed. The rows that are there are checked by the rules that come. The exit code is 3 if something is
    refused, or if rows are in the way.
    """
    from omnigraph.cli import schema

    schema.run_plan(named_graph(uri, store), new, branch=branch, as_json=as_json)


@schemas.command("diff", cls=OnGraph)
def schema_diff(
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


@schemas.command("apply", cls=OnGraph)
def schema_apply(
    new: Annotated[Path, typer.Argument(metavar="NEW.pg", help="The schema that the graph is to have.")],
    uri: Uri = None,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Remove what is dropped from the history too.")
    ] = False,
    actor: Actor = None,
    if_commit: IfCommit = None,
    engine: Engine = "auto",
    store: Store = None,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Make a file the schema of a graph, and change its data with it, as one commit.

    What is dropped can still be read in the history. Other branches keep the schema that they have.
    """
    from omnigraph.cli import schema

    schema.run_apply(
        named_graph(uri, store),
        new,
        allow_data_loss=allow_data_loss,
        actor=actor,
        if_commit=if_commit,
        engine=engine,
        durability=durability,
        as_json=as_json,
    )


@schemas.command("catch-up", cls=OnGraph)
def schema_catch_up(
    branch: Annotated[str, typer.Argument(metavar="BRANCH", help="The branch that is to have the schema of main.")],
    uri: Uri = None,
    actor: Actor = None,
    engine: Engine = "auto",
    store: Store = None,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Give a branch the schema that main has by now, and change its data with it, as one commit."""
    from omnigraph.cli import schema

    schema.run_catch_up(
        named_graph(uri, store), branch, actor=actor, engine=engine, durability=durability, as_json=as_json
    )
