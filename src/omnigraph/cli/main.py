"""Declares the commands: which request each is, what its own options are, and what runs it.

A command imports what it needs when it runs, and only then: `omnigraph --help` costs little more than Typer itself.
"""
# ruff: noqa: PLC0415

import atexit
import gc
import logging
import sys
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.cli.commands import CommandGroup, Durability, PlainCommand, VerbCommand
from omnigraph.cli.grammar import (
    AsJson,
    FilesCommand,
    GraphCommand,
    NamesCommand,
    NewGraphCommand,
    QueryCommand,
    named_graph,
    plain_argument,
    plain_option,
)
from omnigraph.cli.output import FAILED, REFUSED


def _option(kind: Any, *names: str, metavar: str | None = None, help: str, default: Any = None, **more: Any) -> Any:
    """An option that only the command line has: its type, and its default."""
    more.setdefault("show_default", default is not None and default is not False)
    return Annotated[kind, typer.Option(*names, metavar=metavar, help=help, **more)], default


def _argument(kind: Any, *, metavar: str, help: str) -> Any:
    """An argument that only the command line has, and that may be left out."""
    return Annotated[kind | None, typer.Argument(metavar=metavar, help=help, show_default=False)], None


def _required_argument(kind: Any, *, metavar: str, help: str) -> Any:
    """An argument that only the command line has."""
    return Annotated[kind, typer.Argument(metavar=metavar, help=help, show_default=False)], ...


_QUERY = {
    "name": _argument(
        str,
        metavar="NAME",
        help="The name of the query, if there are several. Without --query and -e, that of a stored query.",
    ),
    "file": _option(Path | None, "--query", metavar="FILE", help="The file with the query."),
    "inline": _option(str | None, "-e", metavar="GQ", help="The text of the query. A single query needs no header."),
    "params": _option(str | None, metavar="JSON", help="All parameters, as an object."),
    "param": _option(list[str] | None, metavar="K=V", help="One parameter, as JSON or a text; may be repeated."),
}
_GQ_FILES = _argument(list[Path], metavar="FILE", help="Query files (.gq).")
_EXPLAIN = _option(bool, "--explain", help="Show how and where it would run, and stop.", default=False)
_ROWS = _option(str, metavar="table|json|jsonl|csv|kv|arrow", help="How rows are printed.", default="table")
_CHANGES = _option(str, metavar="table|jsonl", help="How changes are printed.", default="table")

GROUPS = {
    "branch": "Branches of a graph.",
    "commit": "History of a graph.",
    "tag": "Names for commits. A commit with a tag is kept.",
    "schema": "Schema of a graph.",
    "queries": "Stored queries, which are called by name.",
    "recovery": "Writes that did not finish.",
    "pipeline": "Load raw tables into a graph, again and again.",
    "policy": "Rules that say who may do what.",
}

VERBS: dict[str, VerbCommand] = {
    "load": VerbCommand(
        ("data.LoadRequest", "data.ExplainLoadRequest"),
        run="data.run_load",
        options={
            "data": _option(
                list[str] | None, metavar="PATH", help="NDJSON files, a folder or a pattern; may be repeated."
            ),
            "nodes": _option(
                list[str] | None,
                metavar="TYPE=PATH",
                help="Parquet, CSV or Arrow files of a node type; may be repeated.",
            ),
            "edges": _option(
                list[str] | None,
                metavar="TYPE=PATH",
                help="The same for an edge type, with columns `from` and `to`; may be repeated.",
            ),
            "explain": _EXPLAIN,
        },
        help="Load records as one commit, or none of them.",
    ),
    "query": VerbCommand(
        ("data.QueryRequest", "data.ExplainRequest", "queries.CallRequest"),
        run="data.run_query",
        options={**_QUERY, "format": _ROWS, "explain": _EXPLAIN},
        skip=("source",),
        help="Run a query that reads: of a file, of the command line, or a stored one by its NAME. "
        "All of it sees one commit.",
        kind=QueryCommand,
    ),
    "mutate": VerbCommand(
        ("data.MutateRequest", "queries.CallRequest"),
        run="data.run_mutate",
        options=_QUERY,
        skip=("source",),
        help="Run a query that writes, as one commit: of a file, of the command line, or a stored one by its NAME.",
        kind=QueryCommand,
    ),
    "queries add": VerbCommand(
        ("queries.QueryAddRequest",),
        run="queries.run_add",
        options={"files": _GQ_FILES},
        skip=("queries",),
        kind=FilesCommand,
    ),
    "queries list": VerbCommand(("queries.QueryListRequest",), show="queries.show_list"),
    "queries show": VerbCommand(
        ("queries.QueryShowRequest", "queries.QueryListRequest"),
        run="queries.run_show",
        options={"name": _argument(str, metavar="NAME", help="The stored query. Without it, all are shown.")},
        skip=("tag",),
        help="Print the text of a stored query, or of all of them, as a file that can be stored again.",
        kind=QueryCommand,
    ),
    "queries remove": VerbCommand(
        ("queries.QueryRemoveRequest",),
        run="queries.run_remove",
        options={"names": _required_argument(list[str], metavar="NAME", help="The names of the queries.")},
        kind=NamesCommand,
    ),
    "queries validate": VerbCommand(
        ("queries.QueryValidateRequest",),
        run="queries.run_validate",
        options={"files": _GQ_FILES},
        skip=("queries",),
        help="Check whether queries fit the schema of a branch: those of files, or all that are stored. "
        "The exit code is 1 if one does not.",
        kind=FilesCommand,
    ),
    "export": VerbCommand(
        ("data.ExportRequest", "data.ExplainExportRequest"),
        run="data.run_export",
        options={
            "out": _option(
                str | None,
                metavar="PATH",
                help="A file, or a folder if it ends in a slash.",
                show_default="NDJSON on standard output",
            ),
            "explain": _EXPLAIN,
        },
        help="Export a branch or a snapshot as NDJSON, CSV or Parquet.",
    ),
    "analyze": VerbCommand(
        ("data.AnalyzeRequest",),
        run="data.run_analyze",
        positional=("algorithm",),
        options={
            "limit": _option(
                int | None,
                metavar="N",
                help="At most this many rows.",
                min=0,
                show_default="20 in a table, otherwise all",
            ),
            "format": _ROWS,
            "out": _option(Path | None, metavar="FILE", help="Write all rows to a .parquet, .csv or .jsonl file."),
        },
        help="Analyze the graph as a whole; print the result, or write it back as properties in one commit.",
    ),
    "embed": VerbCommand(("data.EmbedRequest",), show="data.show_embed", positional=("type",)),
    "status": VerbCommand(("upkeep.StatusRequest",), show="upkeep.show_status"),
    "verify": VerbCommand(
        ("upkeep.VerifyRequest",),
        show="upkeep.show_verify",
        help="Check the content of a graph: find damaged files, and report which commits are whole. "
        "The exit code is 1 if anything is damaged.",
        exit_code=lambda result: 0 if result.whole else FAILED,
    ),
    "optimize": VerbCommand(
        ("upkeep.OptimizeRequest",),
        show="upkeep.show_optimize",
        exit_code=lambda result: FAILED if result.failed_tables else 0,
    ),
    "repair": VerbCommand(
        ("upkeep.RepairRequest",),
        show="upkeep.show_repair",
        help="Report drift (versions of tables that no commit made), or repair it. "
        "The exit code is 3 if a table is refused.",
        exit_code=lambda result: REFUSED if result.refused_tables else 0,
    ),
    "cleanup": VerbCommand(
        ("upkeep.CleanupRequest",),
        show="upkeep.show_cleanup",
        help="Report data that nobody needs any more, or remove it. "
        "The exit code is 3 if data would be removed with --confirm, and 1 if a table could not be cleaned up.",
        exit_code=lambda result: FAILED if result.failed_tables else 0 if result.confirmed else REFUSED,
    ),
    "indexes": VerbCommand(
        ("upkeep.IndexBuildRequest", "upkeep.IndexListRequest"),
        run="upkeep.run_indexes",
        options={"list": _option(bool, "--list", help="Only list them, and build nothing.", default=False)},
        help="Build the indexes that are missing, and list all indexes with the rows that each covers.",
    ),
    "snapshot": VerbCommand(
        (),
        run="history.run_snapshot",
        options={"branch": _option(str, metavar="BRANCH", help="The branch to work on.", default="main")},
        help="Show the tables of the graph at the head of a branch.",
    ),
    "diff": VerbCommand(
        ("history.DiffRequest",),
        run="history.run_diff",
        positional=("left", "right"),
        options={"format": _CHANGES},
    ),
    "changes": VerbCommand(
        ("history.ChangesRequest",),
        run="history.run_changes",
        options={
            "cursor_from": _option(str | None, "--from", help="The old name of --cursor.", hidden=True),
            "limit": _option(int | None, metavar="N", help="At most this many commits.", min=1),
            "format": _CHANGES,
        },
    ),
    "branch create": VerbCommand(
        ("history.BranchCreateRequest",), show="history.show_created_branch", positional=("name",)
    ),
    "branch list": VerbCommand(("history.BranchListRequest",), show="history.show_branches"),
    "branch delete": VerbCommand(("history.BranchDeleteRequest",), show="history.show_deleted", positional=("name",)),
    "branch merge": VerbCommand(
        ("history.MergeRequest",),
        show="history.show_merge",
        positional=("source",),
        help="Merge a branch as one commit, or list all conflicts. The exit code is 3 if there are conflicts.",
        exit_code=lambda result: REFUSED if result.conflicts else 0,
    ),
    "commit list": VerbCommand(
        ("history.CommitListRequest",),
        run="history.run_commit_list",
        skip=("actor",),
        options={
            "branch": _option(
                str | None, metavar="BRANCH", help="The branch; with --graph only this one.", show_default="main"
            ),
            "filter": _option(str | None, metavar="actor=NAME", help="Only commits by this actor."),
            "limit": _option(int | None, metavar="N", help="At most this many, the newest.", min=1),
            "graph": _option(bool, "--graph", help="Draw the graph of the commits of all branches.", default=False),
        },
        help="List the commits of a branch, newest first.",
    ),
    "commit show": VerbCommand(("history.CommitShowRequest",), show="history.show_fields", positional=("commit_id",)),
    "commit changes": VerbCommand(
        ("history.CommitChangesRequest",),
        run="history.run_commit_changes",
        positional=("commit_id",),
        options={"format": _CHANGES},
    ),
    "tag create": VerbCommand(("history.TagCreateRequest",), show="history.show_created_tag", positional=("name",)),
    "tag list": VerbCommand(("history.TagListRequest",), show="history.show_tags"),
    "tag show": VerbCommand(("history.TagShowRequest",), show="history.show_fields", positional=("name",)),
    "tag delete": VerbCommand(("history.TagDeleteRequest",), show="history.show_deleted", positional=("name",)),
    "schema show": VerbCommand(("schema.SchemaShowRequest",), show="schema.show_schema"),
    "schema plan": VerbCommand(
        ("schema.SchemaPlanRequest",),
        show="schema.show_plan",
        positional=("new",),
        help="Plan a change of the schema: its steps, the cost of each, and the rows that prevent it. Nothing is "
        "changed. The exit code is 3 if the change is refused, or rows or stored queries prevent it.",
        exit_code=lambda result: 0 if result.is_possible and not result.broken_queries else REFUSED,
    ),
    "schema diff": VerbCommand(
        ("schema.SchemaDiffRequest",),
        run="schema.run_schema_diff",
        positional=("left", "right"),
        help="List the steps from one schema to another, as `schema plan` does, without the rows. Each is a file, or a "
        "branch, commit or tag of a graph, which stands for the schema there. Two files need no graph.",
    ),
    "schema apply": VerbCommand(("schema.SchemaApplyRequest",), show="schema.show_applied_schema", positional=("new",)),
    "schema catch-up": VerbCommand(
        ("schema.SchemaCatchUpRequest",), show="schema.show_applied_schema", positional=("branch",)
    ),
    "recovery list": VerbCommand(
        ("upkeep.RecoveryListRequest", "upkeep.RecoveryPendingRequest"),
        run="upkeep.run_recovery_list",
        help="List the writes that are pending, and those that were completed or undone.",
    ),
    "recovery show": VerbCommand(
        ("upkeep.RecoveryShowRequest",),
        run="upkeep.run_recovery_show",
        positional=("id",),
        help="Show a write that is pending, or that was completed or undone, table by table.",
    ),
}
"""The commands that run verbs of a graph."""


# --- commands that are not verbs ---


def init(
    schema: Annotated[Path, typer.Option(metavar="FILE.pg", help="The schema of the graph.")],
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Create an empty graph."""
    from omnigraph.cli.data import run_init

    run_init(named_graph(), schema, durability=durability, as_json=as_json)


def lint(
    files: Annotated[
        list[Path] | None, plain_argument(metavar="FILE", help="Query files (.gq), schemas (.pg), or folders of them.")
    ] = None,
    schema: Annotated[Path | None, plain_option(metavar="FILE.pg", help="The schema to check queries against.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check schemas and queries, and list what each query reads and writes.

    The findings of all files are reported at once. Queries are checked against --schema, or against the schema of a
    graph. The exit code is 1 if a finding is an error.
    """
    from omnigraph.cli.lint import run_lint

    raise typer.Exit(run_lint(files or [], schema, as_json=as_json))


def demo(
    folder: Annotated[
        Path | None,
        plain_argument(
            metavar="FOLDER", help="The folder for the graph and its files. Without one, they are removed at the end."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build the sample graph, query it, change it, and read its history."""
    from omnigraph.cli.demo import run_demo

    run_demo(folder, as_json=as_json)


def doctor(
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark, which takes seconds.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check the environment: Python, packages, Java, Spark, disk, memory, settings, and whether a graph is reachable.

    The exit code is 1 if something that is needed does not work.
    """
    from omnigraph.cli.doctor import run_doctor

    raise typer.Exit(run_doctor(spark=spark, as_json=as_json))


def version(as_json: AsJson = False) -> None:
    """Print the version."""
    import omnigraph
    from omnigraph.cli.output import print_json

    if as_json:
        print_json({"version": omnigraph.__version__})
    else:
        typer.echo(omnigraph.__version__)


def serve(
    graphs: Annotated[
        list[str] | None,
        plain_argument(metavar="[ID=]URI", help="The graphs to serve. The id defaults to the last segment of the URI."),
    ] = None,
    *,
    store: Annotated[
        list[str] | None, plain_option(metavar="[ID=]URI", help="A graph to serve, as an option; may be repeated.")
    ] = None,
    bind: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The address to listen on; port 0 is any free port.")
    ] = "127.0.0.1:8080",
    unauthenticated: Annotated[
        bool, typer.Option("--unauthenticated", help="Require no token: everyone is the anonymous actor.")
    ] = False,
    policy: Annotated[
        Path | None, plain_option(metavar="FILE", envvar="OMNIGRAPH_POLICY", help="The rules to enforce (YAML).")
    ] = None,
    max_body: Annotated[str, typer.Option(metavar="SIZE", help="The largest body of a request.")] = "16M",
    max_load: Annotated[str, typer.Option(metavar="SIZE", help="The largest body of a load.")] = "64G",
    actor_requests: Annotated[int, typer.Option(metavar="N", help="Concurrent requests of one actor.")] = 16,
    actor_bytes: Annotated[
        str,
        typer.Option(
            metavar="SIZE",
            help="The size of all concurrent request bodies of one actor, and of the rows of its queries.",
        ),
    ] = "1G",
    total_requests: Annotated[int, typer.Option(metavar="N", help="Concurrent requests of all actors.")] = 512,
    query_timeout: Annotated[float, typer.Option(metavar="SECONDS", help="The longest time of a query.")] = 60,
    max_query_memory: Annotated[
        str, typer.Option(metavar="SIZE", help="The size of the rows that one query may hold.")
    ] = "2G",
    client_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="The longest time that a client may neither send nor read.")
    ] = 60,
    grace: Annotated[float, typer.Option(metavar="SECONDS", help="How long requests may continue after SIGTERM.")] = 30,
    threads: Annotated[int, typer.Option(metavar="N", help="How many requests are processed at once.")] = 32,
    spark: Annotated[
        bool, typer.Option("--spark", help="Allow requests to run on Spark (default: in this process only).")
    ] = False,
) -> None:
    """Serve graphs over HTTP.

    Tokens are read from $OMNIGRAPH_SERVER_BEARER_TOKENS_FILE or $OMNIGRAPH_SERVER_BEARER_TOKENS_JSON: an object with a
    token, or a list of tokens, for each actor. The first line on standard output is the address of the server.
    """
    from omnigraph.cli.serve import run_serve, size_in_bytes

    run_serve(
        [*(graphs or ()), *(store or ())],
        bind=bind,
        unauthenticated=unauthenticated,
        policy=policy,
        max_body_bytes=size_in_bytes(max_body, "--max-body"),
        max_load_bytes=size_in_bytes(max_load, "--max-load"),
        max_query_bytes=size_in_bytes(max_query_memory, "--max-query-memory"),
        actor_bytes=size_in_bytes(actor_bytes, "--actor-bytes"),
        actor_requests=actor_requests,
        total_requests=total_requests,
        query_timeout=query_timeout,
        client_timeout=client_timeout,
        grace_seconds=grace,
        threads=threads,
        spark=spark,
    )


def mcp(
    write: Annotated[
        bool, typer.Option("--write", help="Offer tools that write (default: only tools that read).")
    ] = False,
    branches: Annotated[
        list[str] | None,
        plain_option("--branch", metavar="PATTERN", help="With --write: only to branches like this; may be repeated."),
    ] = None,
    max_rows: Annotated[int, typer.Option(metavar="N", help="How many rows a tool gives at once.", min=1)] = 100,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="The longest time of a query.")] = 30,
) -> None:
    """Serve a graph to an agent by the Model Context Protocol, on standard input and output.

    The tools are the stored queries, and some that every graph has. An MCP client starts this command.
    """
    from omnigraph.cli.mcp import run_mcp

    run_mcp(writes=write, branches=branches or (), most_rows=max_rows, timeout=timeout)


RuleFile = Annotated[Path, typer.Argument(metavar="FILE", help="The rule file (YAML).")]


def policy_validate(file: RuleFile, as_json: AsJson = False) -> None:
    """Check a rule file: report all errors and warnings.

    The exit code is 1 if there is an error.
    """
    from omnigraph.cli.policy import run_validate

    raise typer.Exit(run_validate(file, as_json=as_json))


def policy_test(file: RuleFile, as_json: AsJson = False) -> None:
    """Run the tests of a rule file, and show those that fail.

    The exit code is 1 if a test fails.
    """
    from omnigraph.cli.policy import run_test

    raise typer.Exit(run_test(file, as_json=as_json))


def policy_explain(
    file: RuleFile,
    action: Annotated[str, typer.Option(metavar="ACTION", help="The action: `read`, `change`, ...")],
    actor: Annotated[
        str | None, typer.Option(metavar="ACTOR", help="The actor.", show_default="the anonymous actor")
    ] = None,
    graph: Annotated[
        str,
        typer.Option("--graph-id", "--graph", metavar="ID", help="The graph.", show_default="one that no rule names"),
    ] = "",
    branch: Annotated[
        str | None, typer.Option(metavar="BRANCH", help="The branch.", show_default="no particular one")
    ] = None,
    type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="The node or edge type.", show_default="no particular one")
    ] = None,
    cedar: Annotated[bool, typer.Option("--cedar", help="Also print the rules as Cedar policies.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show whether a request would be allowed, and by which rules."""
    from omnigraph.cli.policy import run_explain

    run_explain(file, action=action, actor=actor, graph=graph, branch=branch, type=type, cedar=cedar, as_json=as_json)


PipelineFile = Annotated[Path, typer.Argument(metavar="FILE", help="The file of the pipeline (YAML).")]
PipelineEngine = Annotated[
    str, typer.Option(metavar="auto|local|spark", help="Where the work runs; `auto` decides by what is to be read.")
]
Full = Annotated[bool, typer.Option("--full", help="Read everything, also what earlier batches have read.")]


def pipeline_validate(file: PipelineFile, engine: PipelineEngine = "auto", as_json: AsJson = False) -> None:
    """Check a pipeline against the schema of a graph and the columns of its sources. No row is read.

    All mistakes are reported, each with its line. The exit code is 1 if there is one.
    """
    from omnigraph.cli.pipeline import run_validate

    raise typer.Exit(run_validate(file, engine, as_json=as_json))


def pipeline_plan(
    file: PipelineFile,
    engine: PipelineEngine = "auto",
    full: Full = False,
    count: Annotated[bool, typer.Option("--count/--no-count", help="Read the rows to count them.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show what a run of a pipeline would read and write, and where it would run."""
    from omnigraph.cli.pipeline import run_plan

    run_plan(file, engine, full=full, count=count, as_json=as_json)


def pipeline_run(
    file: PipelineFile,
    engine: PipelineEngine = "auto",
    full: Full = False,
    replay: Annotated[
        list[str] | None,
        plain_option(metavar="RUN", help="Read the rejected rows of a run, and no sources; may be repeated."),
    ] = None,
    once: Annotated[bool, typer.Option("--once/--continuous", help="Run once, or until it is interrupted.")] = True,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="With --continuous: the pause between runs.")] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Run a pipeline: read what is new, check it, and write it as one commit.

    If nothing is new, there is no commit. A run that is interrupted is repeated by the next one.
    """
    from omnigraph.cli.pipeline import run_run

    continuous = None if once else every
    run_run(file, engine, full=full, replay=replay or (), continuous=continuous, as_json=as_json)


def pipeline_status(file: PipelineFile, as_json: AsJson = False) -> None:
    """Show how far a pipeline has come, as the commits of the graph say."""
    from omnigraph.cli.pipeline import run_status

    run_status(file, as_json=as_json)


def pipeline_history(file: PipelineFile, as_json: AsJson = False) -> None:
    """List the batches of a pipeline, newest first."""
    from omnigraph.cli.pipeline import run_history

    run_history(file, as_json=as_json)


COMMANDS: dict[str, PlainCommand | VerbCommand] = {
    "init": PlainCommand(function=init, kind=NewGraphCommand),
    **VERBS,
    "policy validate": PlainCommand(function=policy_validate),
    "policy test": PlainCommand(function=policy_test),
    "policy explain": PlainCommand(function=policy_explain),
    "pipeline validate": PlainCommand(function=pipeline_validate, kind=GraphCommand),
    "pipeline plan": PlainCommand(function=pipeline_plan, kind=GraphCommand),
    "pipeline run": PlainCommand(function=pipeline_run, kind=GraphCommand),
    "pipeline status": PlainCommand(function=pipeline_status, kind=GraphCommand),
    "pipeline history": PlainCommand(function=pipeline_history, kind=GraphCommand),
    "serve": PlainCommand(function=serve),
    "mcp": PlainCommand(function=mcp, kind=GraphCommand),
    "lint": PlainCommand(function=lint, kind=FilesCommand),
    "doctor": PlainCommand(function=doctor, kind=GraphCommand),
    "demo": PlainCommand(function=demo),
    "version": PlainCommand(function=version),
}
"""All commands, by the words that call them."""


class _AllCommands(CommandGroup):
    """The group of all commands and groups of commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        members: dict[str, Any] = {}
        for words, command in COMMANDS.items():
            group, _, name = words.rpartition(" ")
            (members.setdefault(group, {}) if group else members)[name] = command
        for name, text in GROUPS.items():
            members[name] = CommandGroup(name=name, help=text, commands=members[name], no_args_is_help=True)
        self.commands.update(members)


app = typer.Typer(
    name="omnigraph",
    cls=_AllCommands,
    help="A typed property graph in a lakehouse, with branches, commits and time travel.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _omnigraph() -> None:
    """Makes the application a group of commands."""


def run() -> None:
    """The console script: typed errors become a message and an exit code, never a traceback."""
    _announce_engines()
    _end_quickly()
    try:
        app()
    except Exception as error:
        from omnigraph.cli.output import print_error
        from omnigraph.errors import OmnigraphError

        if not isinstance(error, OmnigraphError):
            raise
        print_error(error, as_json="--json" in sys.argv)
        sys.exit(error.exit_code)


@cache
def _end_quickly() -> None:
    """Lets the process end without looking for garbage, which Python does several times.

    The system takes back all memory anyway. DuckDB would report on standard error that its objects are still there, so
    a process that used it ends as ever.
    """

    def spare_all() -> None:
        if "duckdb" not in sys.modules:
            gc.freeze()

    atexit.register(spare_all)


def _announce_engines() -> None:
    """Prints on standard error where bulk work runs, once it is known that Spark is started: that takes seconds."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("omnigraph.engine")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
