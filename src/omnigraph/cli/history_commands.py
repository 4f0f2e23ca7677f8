"""Declares the commands about history that print long lists: commits, differences and the change feed.

As in `main`, a command imports what it needs in its body, and only there.
"""
# ruff: noqa: PLC0415

from typing import Annotated

import typer

from omnigraph.cli.options import (
    AsJson,
    Branch,
    ChangeFormat,
    OnGraph,
    Store,
    Types,
    Uri,
    named_graph,
    wrong_usage,
)
from omnigraph.cli.verb_commands import commits

CommitId = Annotated[str, typer.Argument(metavar="ID", help="The commit.")]


def declare(app: typer.Typer) -> None:
    """Adds the commands to an application."""
    app.command(cls=OnGraph)(diff)
    app.command(cls=OnGraph)(changes)


@commits.command("list", cls=OnGraph)
def commit_list(
    uri: Uri = None,
    store: Store = None,
    branch: Annotated[
        str | None, typer.Option(help="The branch; with --graph only this one.", show_default="main")
    ] = None,
    filter: Annotated[
        str | None, typer.Option(metavar="actor=NAME", help="Only commits by this actor.", show_default=False)
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only this many, the newest.", show_default=False)] = None,
    graph: Annotated[bool, typer.Option("--graph", help="Draw the graph of the commits of all branches.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the commits, newest first."""
    from omnigraph.cli import graphs

    actor = None
    if filter is not None:
        key, _, actor = filter.partition("=")
        if key != "actor" or not actor:
            raise wrong_usage("--filter is actor=NAME")
        if graph:
            raise wrong_usage("--graph shows all commits; it does not go with --filter")
    uri = named_graph(uri, store)
    if graph:
        graphs.run_commit_graph(uri, branch=branch, limit=limit, as_json=as_json)
    else:
        graphs.run_commits(uri, branch=branch or "main", limit=limit, actor=actor, as_json=as_json)


@commits.command("changes", cls=OnGraph)
def commit_changes(
    commit: CommitId, uri: Uri = None, format: ChangeFormat = "table", store: Store = None, as_json: AsJson = False
) -> None:
    """Show what a commit changed, against the one before it."""
    from omnigraph.cli import changes as command

    command.run_commit_changes(named_graph(uri, store), commit, format="json" if as_json else format)


def diff(
    left: Annotated[str, typer.Argument(metavar="A", help="A branch, a commit, or a version of main.")],
    right: Annotated[str, typer.Argument(metavar="B", help="The same, of the state to get to.")],
    uri: Uri = None,
    types: Types = None,
    format: ChangeFormat = "table",
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show what leads from one state of the graph to another."""
    from omnigraph.cli import changes as command

    command.run_diff(named_graph(uri, store), left, right, types or [], format="json" if as_json else format)


def changes(
    uri: Uri = None,
    cursor: Annotated[
        str | None, typer.Option("--from", metavar="CURSOR", help="Where the last call ended.", show_default=False)
    ] = None,
    branch: Branch = "main",
    limit: Annotated[int | None, typer.Option(min=1, help="At most this many commits.", show_default=False)] = None,
    format: ChangeFormat = "table",
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Follow a branch: its commits after a cursor, each with what it changed."""
    from omnigraph.cli import changes as command

    command.run_changes(
        named_graph(uri, store), cursor, branch=branch, limit=limit, format="json" if as_json else format
    )
