"""Declares the commands.

A command imports what it needs in its body, and only there: `omnigraph --help` costs little more than Typer itself.
"""
# ruff: noqa: PLC0415

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli import analysis_commands, health_commands, policy_commands, schema_commands, serve_command
from omnigraph.cli.history_commands import declare
from omnigraph.cli.options import (
    Actor,
    AsJson,
    Branch,
    Durability,
    Engine,
    Explain,
    IfCommit,
    Inline,
    OnGraph,
    Param,
    Params,
    QueryFile,
    QueryName,
    Store,
    Types,
    Uri,
    named_graph,
    wrong_usage,
)

app = typer.Typer(
    name="omnigraph",
    help="A typed property graph in a lakehouse, with branches, commits and time travel.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

recoveries = typer.Typer(help="Writes that did not finish.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(recoveries, name="recovery")


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
        raise wrong_usage("name at least one file, or a --schema")
    if schema is not None and store is not None:
        raise wrong_usage("queries are checked against a --schema or a --store, not both")
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


@app.command(cls=OnGraph)
def load(
    uri: Uri = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH", help="NDJSON files, a folder or a pattern; may be repeated.", show_default=False),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE=PATH", help="Parquet, CSV or Arrow files of one type.", show_default=False),
    ] = None,
    edges: Annotated[
        list[str] | None,
        typer.Option(metavar="TYPE=PATH", help="The same with columns `from` and `to`.", show_default=False),
    ] = None,
    mode: Annotated[
        str, typer.Option(metavar="append|merge|overwrite", help="What becomes of what is there.")
    ] = "append",
    store: Store = None,
    branch: Branch = "main",
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="BRANCH|COMMIT",
            help="Create the branch there first, if it does not exist.",
            show_default=False,
        ),
    ] = None,
    actor: Actor = None,
    engine: Engine = "auto",
    explain: Explain = False,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Load records as one commit."""
    from omnigraph.api.data import LoadMode
    from omnigraph.cli import loads

    if not (data or nodes or edges):
        raise wrong_usage("name at least one file with --data, --nodes or --edges")
    if mode not in list(LoadMode):
        raise wrong_usage(f"--mode is append, merge or overwrite, not {mode}")
    loads.run_load(
        named_graph(uri, store),
        data or [],
        LoadMode(mode),
        nodes=nodes or [],
        edges=edges or [],
        branch=branch,
        from_=from_,
        actor=actor,
        engine=engine,
        durability=durability,
        explain=explain,
        as_json=as_json,
    )


@app.command(cls=OnGraph)
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
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Run a query that reads."""
    from omnigraph.cli import graphs, queries

    queries.run_query(
        named_graph(store),
        graphs.query_source(file, inline),
        name,
        graphs.parameter_values(params, param or []),
        branch=branch,
        snapshot=snapshot,
        engine=engine,
        format="json" if as_json else format,
        explain=explain,
    )


@app.command(cls=OnGraph)
def mutate(
    name: QueryName = None,
    file: QueryFile = None,
    inline: Inline = None,
    params: Params = None,
    param: Param = None,
    store: Store = None,
    branch: Branch = "main",
    if_commit: IfCommit = None,
    actor: Actor = None,
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Run a mutation as one commit."""
    from omnigraph.cli import graphs

    graphs.run_mutate(
        named_graph(store),
        graphs.query_source(file, inline),
        name,
        graphs.parameter_values(params, param or []),
        branch=branch,
        actor=actor,
        if_commit=if_commit,
        durability=durability,
        as_json=as_json,
    )


@app.command(cls=OnGraph)
def export(
    uri: Uri = None,
    types: Types = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="A file, or a folder if it ends in a slash; else stdout.", show_default=False
        ),
    ] = None,
    format: Annotated[str, typer.Option(metavar="jsonl|csv|parquet", help="How rows are written.")] = "jsonl",
    store: Store = None,
    branch: Branch = "main",
    snapshot: Annotated[
        str | None, typer.Option(metavar="ID", help="A commit or version, not a head.", show_default=False)
    ] = None,
    ordered: Annotated[bool, typer.Option("--ordered", help="By id within each type.")] = False,
    engine: Engine = "auto",
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Write the graph as NDJSON, CSV or Parquet."""
    from omnigraph.cli import graphs

    if snapshot is not None and branch != "main":
        raise wrong_usage("an export is of a --branch or of a --snapshot, not of both")
    graphs.run_export(
        named_graph(uri, store),
        types or [],
        out,
        branch=branch,
        snapshot=snapshot,
        format=format,
        ordered=ordered,
        engine=engine,
        explain=explain,
        as_json=as_json,
    )


@app.command(cls=OnGraph)
def snapshot(uri: Uri = None, store: Store = None, branch: Branch = "main", as_json: AsJson = False) -> None:
    """Show the tables of the graph as it is now."""
    from omnigraph.cli import graphs

    graphs.run_snapshot(named_graph(uri, store), branch=branch, as_json=as_json)


@app.command(cls=OnGraph)
def indexes(
    uri: Uri = None,
    store: Store = None,
    branch: Branch = "main",
    list_: Annotated[bool, typer.Option("--list", help="Only show what there is, and build nothing.")] = False,
    actor: Actor = None,
    engine: Engine = "auto",
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Build the indexes that are missing, and show what each covers."""
    from omnigraph.cli import indexes as command

    graph = named_graph(uri, store)
    if list_:
        command.run_list(graph, branch=branch, as_json=as_json)
    else:
        command.run_build(graph, branch=branch, actor=actor, engine=engine, durability=durability, as_json=as_json)


@recoveries.command("list", cls=OnGraph)
def recovery_list(uri: Uri = None, store: Store = None, as_json: AsJson = False) -> None:
    """List the writes that are pending, and those that were completed or undone."""
    from omnigraph.cli import recovery

    recovery.run_list(named_graph(uri, store), as_json=as_json)


@recoveries.command("show", cls=OnGraph)
def recovery_show(
    operation: Annotated[str, typer.Argument(metavar="ID", help="The write, or the commit that settled it.")],
    uri: Uri = None,
    store: Store = None,
    as_json: AsJson = False,
) -> None:
    """Show one of them, table by table."""
    from omnigraph.cli import recovery

    recovery.run_show(named_graph(uri, store), operation, as_json=as_json)


declare(app)
analysis_commands.declare(app)
health_commands.declare(app)
schema_commands.declare(app)
policy_commands.declare(app)
serve_command.declare(app)


def run() -> None:
    """The console script: typed errors become a message and an exit code, never a traceback."""
    _announce_engines()
    try:
        app()
    except Exception as error:
        from omnigraph.cli.output import print_error
        from omnigraph.errors import OmnigraphError

        if not isinstance(error, OmnigraphError):
            raise
        print_error(error, as_json="--json" in sys.argv)
        sys.exit(error.exit_code)


def _announce_engines() -> None:
    """Prints on stderr where bulk work runs, once it is known that Spark is started: that takes seconds."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("omnigraph.engine")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
