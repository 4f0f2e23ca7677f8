"""Declares the commands about the health of a graph: status, verify, optimize, repair, cleanup and tags.

As in `main`, a command imports what it needs in its body, and only there.
"""
# ruff: noqa: PLC0415, FBT002, PLR0917 - a flag of a command is a keyword for its user

from typing import Annotated

import typer

from omnigraph.cli.options import Actor, AsJson, Branch, Durability, Engine, OnGraph, Store, Uri, named_graph

tags = typer.Typer(help="Names for commits, which they keep.", no_args_is_help=True, rich_markup_mode=None)

TagName = Annotated[str, typer.Argument(metavar="NAME", help="The tag.")]


def declare(app: typer.Typer) -> None:
    """Adds the commands to an application."""
    app.add_typer(tags, name="tag")
    app.command(cls=OnGraph)(status)
    app.command(cls=OnGraph)(verify)
    app.command(cls=OnGraph)(optimize)
    app.command(cls=OnGraph)(repair)
    app.command(cls=OnGraph)(cleanup)


def status(uri: Uri = None, store: Store = None, branch: Branch = "main", as_json: AsJson = False) -> None:
    """Show how a graph is, and what to do about it."""
    from omnigraph.cli import status as command

    command.run_status(named_graph(uri, store), branch=branch, as_json=as_json)


def verify(
    uri: Uri = None,
    data: Annotated[
        bool, typer.Option("--data", help="Also compare every byte with its checksum, and read the newest rows.")
    ] = False,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Find damaged files, and report which commits are whole; exit with 1 if anything is damaged."""
    from omnigraph.cli import verify as command

    command.run_verify(named_graph(uri, store), data=data, as_json=as_json)


def optimize(
    uri: Uri = None,
    branch: Branch = "main",
    actor: Actor = None,
    engine: Engine = "auto",
    store: Store = None,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Put small fragments together and complete indexes, as one commit; nothing that is read changes."""
    from omnigraph.cli import optimize as command

    command.run_optimize(
        named_graph(uri, store), branch=branch, actor=actor, engine=engine, durability=durability, as_json=as_json
    )


def repair(
    uri: Uri = None,
    branch: Branch = "main",
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Publish maintenance, undo what failed writes left.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="With --confirm: publish everything.")] = False,
    actor: Actor = None,
    store: Store = None,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Show tables with versions that no commit made, publish or undo them; exit with 3 if one is refused."""
    from omnigraph.cli import repair as command

    command.run_repair(
        named_graph(uri, store),
        branch=branch,
        confirm=confirm,
        force=force,
        actor=actor,
        durability=durability,
        as_json=as_json,
    )


def cleanup(
    uri: Uri = None,
    keep: Annotated[
        int | None, typer.Option(metavar="N", help="Keep the last N commits of each branch.", show_default=False)
    ] = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Remove only what is older, as in 7d.", show_default=False)
    ] = None,
    grace: Annotated[str, typer.Option(metavar="AGE", help="Leave what was newest or written so recently.")] = "1h",
    confirm: Annotated[bool, typer.Option("--confirm", help="Remove, and do not only show.")] = False,
    store: Store = None,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Show what nobody needs any more, or remove it; exit with 3 if that is still to be confirmed."""
    from omnigraph.cli import cleanup as command

    command.run_cleanup(
        named_graph(uri, store),
        command.CleanupOptions(keep=keep, older_than=older_than, grace=grace, confirm=confirm),
        durability=durability,
        as_json=as_json,
    )


@tags.command("create", cls=OnGraph)
def tag_create(
    name: TagName,
    uri: Uri = None,
    at: Annotated[str, typer.Option("--at", metavar="COMMIT|BRANCH|TAG|VERSION", help="What it names.")] = "main",
    message: Annotated[str | None, typer.Option("-m", metavar="TEXT", help="Why.", show_default=False)] = None,
    actor: Annotated[
        str | None,
        typer.Option("--as", envvar="OMNIGRAPH_ACTOR", metavar="ACTOR", help="Who the tag is by.", show_default=False),
    ] = None,
    store: Store = None,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Name a commit, and keep it."""
    from omnigraph.cli import tags as command

    command.run_create(
        named_graph(uri, store), name, at, message=message, actor=actor, durability=durability, as_json=as_json
    )


@tags.command("list", cls=OnGraph)
def tag_list(uri: Uri = None, store: Store = None, as_json: AsJson = False) -> None:
    """List the tags."""
    from omnigraph.cli import tags as command

    command.run_list(named_graph(uri, store), as_json=as_json)


@tags.command("delete", cls=OnGraph)
def tag_delete(
    name: TagName, uri: Uri = None, store: Store = None, durability: Durability = None, as_json: AsJson = False
) -> None:
    """Delete a tag. Its commit stays until a cleanup."""
    from omnigraph.cli import tags as command

    command.run_delete(named_graph(uri, store), name, durability=durability, as_json=as_json)
