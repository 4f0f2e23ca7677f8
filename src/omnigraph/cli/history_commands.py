"""Declares the commands about history: branches, commits, differences and the change feed.

As in `main`, a command imports what it needs in its body, and only there.
"""
# ruff: noqa: PLC0415

from typing import Annotated

import typer

from omnigraph.cli.options import (
    Actor,
    AsJson,
    Branch,
    ChangeFormat,
    Durability,
    OnGraph,
    Store,
    Types,
    Uri,
    named_graph,
    wrong_usage,
)

branches = typer.Typer(help="The branches of a graph.", no_args_is_help=True, rich_markup_mode=None)
commits = typer.Typer(help="The history of a graph.", no_args_is_help=True, rich_markup_mode=None)

BranchName = Annotated[str, typer.Argument(metavar="NAME", help="The branch.")]
CommitId = Annotated[str, typer.Argument(metavar="ID", help="The commit.")]


def declare(app: typer.Typer) -> None:
    """Adds the commands to an application."""
    app.add_typer(branches, name="branch")
    app.add_typer(commits, name="commit")
    app.command(cls=OnGraph)(diff)
    app.command(cls=OnGraph)(changes)


@branches.command("create", cls=OnGraph)
def branch_create(
    name: BranchName,
    uri: Uri = None,
    from_: Annotated[
        str, typer.Option("--from", metavar="BRANCH|COMMIT", help="Where it begins: the head of a branch, or a commit.")
    ] = "main",
    store: Store = None,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Create a branch."""
    from omnigraph.cli import branches as command

    command.run_create(named_graph(uri, store), name, from_, durability=durability, as_json=as_json)


@branches.command("list", cls=OnGraph)
def branch_list(uri: Uri = None, store: Store = None, as_json: AsJson = False) -> None:
    """List the branches, main first."""
    from omnigraph.cli import branches as command

    command.run_list(named_graph(uri, store), as_json=as_json)


@branches.command("delete", cls=OnGraph)
def branch_delete(
    name: BranchName, uri: Uri = None, store: Store = None, durability: Durability = None, as_json: AsJson = False
) -> None:
    """Delete a branch. What was merged of it stays."""
    from omnigraph.cli import branches as command

    command.run_delete(named_graph(uri, store), name, durability=durability, as_json=as_json)


@branches.command("merge", cls=OnGraph)
def branch_merge(
    name: BranchName,
    uri: Uri = None,
    into: Annotated[str, typer.Option(metavar="BRANCH", help="The branch that gets it.")] = "main",
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="ours|theirs",
            help="Who wins where both changed an entity: the branch merged into, or the merged one.",
            show_default=False,
        ),
    ] = None,
    cells: Annotated[
        bool, typer.Option("--cells", help="Merge an entity that both changed property by property.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")] = False,
    delete_branch: Annotated[bool, typer.Option("--delete-branch", help="Delete the branch afterwards.")] = False,
    actor: Actor = None,
    store: Store = None,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Merge a branch as one commit, or show all conflicts and exit with 3."""
    from omnigraph.cli import branches as command

    options = command.MergeWords(
        into=into, strategy=strategy, cells=cells, dry_run=dry_run, delete_branch=delete_branch, actor=actor
    )
    command.run_merge(named_graph(uri, store), name, options, durability=durability, as_json=as_json)


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
    limit: Annotated[int | None, typer.Option(min=1, help="The newest so many.", show_default=False)] = None,
    graph: Annotated[bool, typer.Option("--graph", help="Draw how the commits of all branches hang together.")] = False,
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


@commits.command("show", cls=OnGraph)
def commit_show(commit: CommitId, uri: Uri = None, store: Store = None, as_json: AsJson = False) -> None:
    """Show one commit."""
    from omnigraph.cli import graphs

    graphs.run_commit(named_graph(uri, store), commit, as_json=as_json)


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
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many commits.", show_default=False)] = None,
    format: ChangeFormat = "table",
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Follow a branch: its commits after a cursor, each with what it changed."""
    from omnigraph.cli import changes as command

    command.run_changes(
        named_graph(uri, store), cursor, branch=branch, limit=limit, format="json" if as_json else format
    )
