"""Declares the commands.

A command imports what it needs in its body, and only there: `omnigraph --help` costs little more than Typer itself.
"""
# ruff: noqa: PLC0415

import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.api.base import Request
from omnigraph.api.data import ExportRequest, LoadRequest, MutateRequest, QueryRequest
from omnigraph.cli import (
    analysis_commands,
    history_commands,
    policy_commands,
    schema_commands,
    serve_command,
    verb_commands,
)
from omnigraph.cli.derived import request_from, takes
from omnigraph.cli.options import (
    Actor,
    AsJson,
    Branch,
    Durability,
    Engine,
    Explain,
    Inline,
    OnGraph,
    Param,
    Params,
    QueryFile,
    QueryName,
    Store,
    Uri,
    named_graph,
    wrong_usage,
)

DataFiles = Annotated[
    list[str] | None,
    typer.Option(metavar="PATH", help="NDJSON files, a folder or a pattern; may be repeated.", show_default=False),
]
NodeFiles = Annotated[
    list[str] | None,
    typer.Option(metavar="TYPE=PATH", help="Parquet, CSV or Arrow files of one node type.", show_default=False),
]
EdgeFiles = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TYPE=PATH", help="The same of an edge type, with columns `from` and `to`.", show_default=False
    ),
]
RowFormat = Annotated[str, typer.Option(metavar="table|json|jsonl|csv|kv|arrow", help="How rows are printed.")]
Out = Annotated[
    str | None,
    typer.Option(
        metavar="PATH", help="A file, or a folder if it ends in a slash; otherwise stdout.", show_default=False
    ),
]

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
@takes(
    LoadRequest,
    first={"uri": (Uri, None), "data": (DataFiles, None), "nodes": (NodeFiles, None), "edges": (EdgeFiles, None)},
    last={
        "store": (Store, None),
        "explain": (Explain, False),
        "durability": (Durability, None),
        "as_json": (AsJson, False),
    },
)
def load(**values: Any) -> None:
    """Load records as one commit."""
    from omnigraph.cli import loads

    files = {name: values.pop(name) or [] for name in ("data", "nodes", "edges")}
    if not any(files.values()):
        raise wrong_usage("name at least one file with --data, --nodes or --edges")
    loads.run_load(
        named_graph(values["uri"], values["store"]),
        request_from(LoadRequest, values, data=None),
        files["data"],
        nodes=files["nodes"],
        edges=files["edges"],
        durability=values["durability"],
        explain=values["explain"],
        as_json=values["as_json"],
    )


_QUERY = {
    "name": (QueryName, None),
    "file": (QueryFile, None),
    "inline": (Inline, None),
    "params": (Params, None),
    "param": (Param, None),
}
"""How a query is given, and its parameters."""


@app.command(cls=OnGraph)
@takes(
    QueryRequest,
    skip=("source", "name", "params"),
    first=_QUERY,
    last={
        "store": (Store, None),
        "format": (RowFormat, "table"),
        "explain": (Explain, False),
        "as_json": (AsJson, False),
    },
)
def query(**values: Any) -> None:
    """Run a query that reads."""
    from omnigraph.cli import queries

    queries.run_query(
        named_graph(values["store"]),
        _query_request(QueryRequest, values),
        format="json" if values["as_json"] else values["format"],
        explain=values["explain"],
    )


@app.command(cls=OnGraph)
@takes(
    MutateRequest,
    skip=("source", "name", "params"),
    first=_QUERY,
    last={"store": (Store, None), "durability": (Durability, None), "as_json": (AsJson, False)},
)
def mutate(**values: Any) -> None:
    """Run a mutation as one commit."""
    from omnigraph.cli import graphs
    from omnigraph.cli.opening import opened
    from omnigraph.cli.output import print_json

    request = _query_request(MutateRequest, values)
    with opened(named_graph(values["store"]), durability=values["durability"]) as graph:
        result = graph._run(request)
    if values["as_json"]:
        print_json(result.as_json())
    else:
        graphs.show_mutation(result)


def _query_request(kind: type[Request[Any]], values: dict[str, Any]) -> Any:
    """The request of a query that is in a file or on the command line."""
    from omnigraph.cli import graphs

    source = graphs.query_source(values.pop("file"), values.pop("inline"))
    params = graphs.parameter_values(values.pop("params"), values.pop("param") or [])
    return request_from(kind, values, source=source, params=params)


@app.command(cls=OnGraph)
@takes(
    ExportRequest,
    first={"uri": (Uri, None), "out": (Out, None)},
    last={"store": (Store, None), "explain": (Explain, False), "as_json": (AsJson, False)},
)
def export(**values: Any) -> None:
    """Write the graph as NDJSON, CSV or Parquet."""
    from omnigraph.cli import graphs

    if values["snapshot"] is not None and values["branch"] != "main":
        raise wrong_usage("an export is of a --branch or of a --snapshot, not of both")
    graphs.run_export(
        named_graph(values["uri"], values["store"]),
        request_from(ExportRequest, values, path=values["out"]),
        explain=values["explain"],
        as_json=values["as_json"],
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


verb_commands.declare_all(app)
history_commands.declare(app)
analysis_commands.declare(app)
schema_commands.declare()
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
