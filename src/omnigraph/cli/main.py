"""Declares the commands.

A command imports what it needs in its body, and only there: `omnigraph --help` costs little more than Typer itself.
"""
# ruff: noqa: PLC0415

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from omnigraph.errors import OmnigraphError

app = typer.Typer(
    name="omnigraph",
    help="A typed property graph in a lakehouse, with commits and time travel.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

commits = typer.Typer(help="The history of a graph.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(commits, name="commit")
recoveries = typer.Typer(help="Writes that did not finish.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(recoveries, name="recovery")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Store = Annotated[
    str | None, typer.Option("--store", envvar="OMNIGRAPH_STORE", metavar="URI", help="The graph.", show_default=False)
]
Uri = Annotated[str | None, typer.Argument(metavar="[URI]", help="The graph, if not --store.", show_default=False)]
Branch = Annotated[str, typer.Option(help="The branch to work on.")]
Engine = Annotated[str, typer.Option(metavar="auto|local", help="Where the work runs.")]
Actor = Annotated[str | None, typer.Option("--as", metavar="ACTOR", help="Who the commit is by.", show_default=False)]
Durability = Annotated[
    str | None,
    typer.Option(
        metavar="full|fast", help="Whether a commit is on the disk before it is acknowledged.", show_default="full"
    ),
]
QueryFile = Annotated[
    Path | None, typer.Option("--query", metavar="FILE", help="The file with the query.", show_default=False)
]
Inline = Annotated[str | None, typer.Option("-e", metavar="GQ", help="The query itself.", show_default=False)]
QueryName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Which query, if there are several.", show_default=False)
]
Params = Annotated[
    str | None, typer.Option("--params", metavar="JSON", help="All parameters as an object.", show_default=False)
]
Param = Annotated[
    list[str] | None, typer.Option("--param", metavar="K=V", help="One parameter; may be repeated.", show_default=False)
]


def _usage(problem: str) -> Exception:
    from omnigraph.errors import UsageError

    return UsageError(problem)


def _graph(*candidates: str | None) -> str:
    """The graph that a command is about: the first way of naming it that was used."""
    for uri in candidates:
        if uri is not None:
            return uri
    raise _usage("name the graph as URI, with --store, or in $OMNIGRAPH_STORE")


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version."""
    import omnigraph
    from omnigraph.cli.output import print_json

    if as_json:
        print_json({"version": omnigraph.__version__})
    else:
        typer.echo(omnigraph.__version__)


@app.command()
def lint(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...", help="Query files (.gq), schemas (.pg), or folders of them.", show_default=False
        ),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE.pg", help="The schema that the queries are checked against.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(metavar="URI", help="Or a graph, whose schema they are checked against.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check schemas and queries, and say what each query reads and writes.

    All findings of all files are reported at once. The exit code is 1 when there is an error among them, else 0.
    """
    from omnigraph.cli import lint as command

    if not files and schema is None:
        raise _usage("name at least one file, or a --schema")
    if schema is not None and store is not None:
        raise _usage("queries are checked against a --schema or a --store, not both")
    raise typer.Exit(command.run(files or [], schema, store, as_json=as_json))


@app.command()
def demo(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Keep the graph and its files there.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build the sample graph, ask it, change it, and look back."""
    from omnigraph.cli import demo as command

    raise typer.Exit(command.run(directory, as_json=as_json))


@app.command()
def init(
    uri: Annotated[str, typer.Argument(metavar="URI", help="Where the graph will be.")],
    schema: Annotated[Path, typer.Option(metavar="FILE.pg", help="Its schema.")],
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Create an empty graph."""
    from omnigraph.cli import graphs

    graphs.run_init(uri, schema, durability=durability, as_json=as_json)


@app.command()
def load(
    uri: Uri = None,
    data: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="NDJSON; may be repeated.", show_default=False)
    ] = None,
    mode: Annotated[
        str, typer.Option(metavar="append|merge|overwrite", help="What becomes of what is there.")
    ] = "append",
    store: Store = None,
    branch: Branch = "main",
    actor: Actor = None,
    engine: Engine = "auto",
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Load records as one commit."""
    from omnigraph.cli import graphs
    from omnigraph.operations.load import LoadMode

    if not data:
        raise _usage("name at least one file with --data")
    if mode not in list(LoadMode):
        raise _usage(f"--mode is append, merge or overwrite, not {mode}")
    graphs.run_load(
        _graph(uri, store),
        data,
        LoadMode(mode),
        branch=branch,
        actor=actor,
        engine=engine,
        durability=durability,
        as_json=as_json,
    )


@app.command()
def query(
    name: QueryName = None,
    file: QueryFile = None,
    inline: Inline = None,
    params: Params = None,
    param: Param = None,
    store: Store = None,
    branch: Branch = "main",
    snapshot: Annotated[
        str | None, typer.Option(metavar="ID", help="A commit or version to read at.", show_default=False)
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="table|json|jsonl|csv|kv|arrow", help="How rows are printed.")
    ] = "table",
    engine: Engine = "auto",
    explain: Annotated[bool, typer.Option("--explain", help="Show how it would be answered, and stop.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a query that reads."""
    from omnigraph.cli import graphs, queries

    queries.run_query(
        _graph(store),
        graphs.query_source(file, inline),
        name,
        graphs.parameter_values(params, param or []),
        branch=branch,
        snapshot=snapshot,
        engine=engine,
        format="json" if as_json else format,
        explain=explain,
    )


@app.command()
def mutate(
    name: QueryName = None,
    file: QueryFile = None,
    inline: Inline = None,
    params: Params = None,
    param: Param = None,
    store: Store = None,
    branch: Branch = "main",
    if_commit: Annotated[
        str | None, typer.Option(metavar="ID", help="Only on top of this commit.", show_default=False)
    ] = None,
    actor: Actor = None,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Run a mutation as one commit."""
    from omnigraph.cli import graphs

    graphs.run_mutate(
        _graph(store),
        graphs.query_source(file, inline),
        name,
        graphs.parameter_values(params, param or []),
        branch=branch,
        actor=actor,
        if_commit=if_commit,
        durability=durability,
        as_json=as_json,
    )


@app.command()
def export(
    uri: Uri = None,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="Only this type; may be repeated.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write there, not to stdout.", show_default=False)
    ] = None,
    store: Store = None,
    branch: Branch = "main",
    as_json: AsJson = False,
) -> None:
    """Write the graph as NDJSON."""
    from omnigraph.cli import graphs

    graphs.run_export(_graph(uri, store), types or [], out, branch=branch, as_json=as_json)


@app.command()
def snapshot(uri: Uri = None, store: Store = None, branch: Branch = "main", as_json: AsJson = False) -> None:
    """Show the tables of the graph as it is now."""
    from omnigraph.cli import graphs

    graphs.run_snapshot(_graph(uri, store), branch=branch, as_json=as_json)


@app.command()
def indexes(uri: Uri = None, store: Store = None, durability: Durability = None, as_json: AsJson = False) -> None:
    """Build the indexes that are missing."""
    from omnigraph.cli import graphs

    graphs.run_indexes(_graph(uri, store), durability=durability, as_json=as_json)


@commits.command("list")
def commit_list(
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    filter: Annotated[
        str | None, typer.Option(metavar="actor=NAME", help="Only commits by this actor.", show_default=False)
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="The newest so many.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List the commits, newest first."""
    from omnigraph.cli import graphs

    actor = None
    if filter is not None:
        key, _, actor = filter.partition("=")
        if key != "actor" or not actor:
            raise _usage("--filter is actor=NAME")
    graphs.run_commits(_graph(uri, store), branch=branch, limit=limit, actor=actor, as_json=as_json)


@commits.command("show")
def commit_show(
    commit: Annotated[str, typer.Argument(metavar="ID", help="The commit.")],
    uri: Uri = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show one commit."""
    from omnigraph.cli import graphs

    graphs.run_commit(_graph(uri, store), commit, as_json=as_json)


@recoveries.command("list")
def recovery_list(uri: Uri = None, store: Store = None, as_json: AsJson = False) -> None:
    """List the writes that are pending, and those that were completed or undone."""
    from omnigraph.cli import recovery

    recovery.run_list(_graph(uri, store), as_json=as_json)


@recoveries.command("show")
def recovery_show(
    operation: Annotated[str, typer.Argument(metavar="ID", help="The write, or the commit that settled it.")],
    uri: Uri = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show one of them, table by table."""
    from omnigraph.cli import recovery

    recovery.run_show(_graph(uri, store), operation, as_json=as_json)


def run() -> None:
    """The console script: typed errors become a message and an exit code, never a traceback."""
    try:
        app()
    except Exception as error:
        from omnigraph.cli.output import print_error
        from omnigraph.errors import OmnigraphError

        if not isinstance(error, OmnigraphError):
            raise
        print_error(error, as_json="--json" in sys.argv)
        sys.exit(_exit_code(error))


def _exit_code(error: "OmnigraphError") -> int:
    """1 failed, 2 wrong usage, 3 refused because another writer was first, 4 a lost `--if-commit`."""
    from omnigraph.errors import Conflict, MergeConflicts, PreconditionFailed, UsageError

    match error:
        case UsageError():
            return 2
        case PreconditionFailed():
            return 4
        case Conflict() | MergeConflicts():
            return 3
        case _:
            return 1
