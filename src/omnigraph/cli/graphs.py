"""The commands that work on a graph: create, load, change, export, history."""

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from omnigraph.cli.output import plural, print_json
from omnigraph.cli.tables import human, id_column, text_column
from omnigraph.errors import UsageError
from omnigraph.graph import Graph, init
from omnigraph.graph import open as open_graph
from omnigraph.operations.export import chosen_types
from omnigraph.operations.load import LoadMode
from omnigraph.versioning import Commit


def run_init(uri: str, schema: Path, *, durability: str | None, as_json: bool) -> None:
    """Creates a graph."""
    graph = init(uri, schema, durability=durability)
    catalog = graph.schema.catalog
    if as_json:
        print_json({"uri": graph.uri, "commit": graph.snapshot().commit.as_json()})
    else:
        sizes = f"{plural(len(catalog.nodes), 'node type')}, {plural(len(catalog.edges), 'edge type')}"
        typer.echo(f"created {graph.uri} ({sizes})")


def run_load(
    uri: str,
    files: Sequence[Path],
    mode: LoadMode,
    *,
    branch: str,
    actor: str | None,
    engine: str,
    durability: str | None,
    as_json: bool,
) -> None:
    """Loads NDJSON files."""
    graph = open_graph(uri, durability=durability)
    with _progress("reading", quiet=as_json) as bar:
        result = graph.load(files, mode, branch=branch, actor=actor, engine=engine, progress=_advance(bar))
    if as_json:
        print_json(result.as_json())
        return
    table = Table("type", "records")
    for name, count in {**result.nodes, **result.edges}.items():
        table.add_row(name, f"{count:,}")
    human.print(table)
    _print_commit(result.commit)


def run_mutate(
    uri: str,
    source: str | Path,
    name: str | None,
    parameters: dict[str, Any],
    *,
    branch: str,
    actor: str | None,
    if_commit: str | None,
    durability: str | None,
    as_json: bool,
) -> None:
    """Runs a mutation."""
    graph = open_graph(uri, durability=durability)
    result = graph.mutate(source, name, parameters, branch=branch, actor=actor, if_commit=if_commit)
    if as_json:
        print_json(result.as_json())
        return
    typer.echo(f"{plural(result.affected['nodes'], 'node')}, {plural(result.affected['edges'], 'edge')}")
    _print_commit(result.commit)


def run_export(uri: str, types: Sequence[str], out: Path | None, *, branch: str, as_json: bool) -> None:
    """Writes the graph as NDJSON to a file, or to stdout."""
    graph = open_graph(uri, "r")
    with _progress("writing", quiet=out is None or as_json) as bar:
        result = graph.export(out, branch, types or None, progress=_count_up(bar, graph, branch, types))
    if isinstance(result, int):
        if as_json:
            print_json({"out": str(out), "records": result})
        else:
            typer.echo(f"{plural(result, 'record')} to {out}", err=True)
        return
    for line in result:
        sys.stdout.write(line + "\n")


def run_indexes(uri: str, *, durability: str | None, as_json: bool) -> None:
    """Builds the indexes that are missing."""
    built = open_graph(uri, durability=durability).ensure_indices()
    if as_json:
        print_json({"built": built})
        return
    for table, columns in built.items():
        typer.echo(f"{table}: {', '.join(columns)}")
    if not built:
        typer.echo("every index is there")


def run_snapshot(uri: str, *, branch: str, as_json: bool) -> None:
    """Shows the tables of the graph at its head."""
    snapshot = open_graph(uri, "r").snapshot(branch)
    tables = [
        {"table_key": key, "version": pin.version, "rows": snapshot.table(key).count()}
        for key, pin in snapshot.manifest.pins.items()
    ]
    if as_json:
        print_json({"commit": snapshot.commit.as_json(), "tables": tables})
        return
    _print_commit(snapshot.commit)
    shown = Table("table", "version", "rows")
    for table in tables:
        shown.add_row(str(table["table_key"]), str(table["version"]), f"{table['rows']:,}")
    human.print(shown)


def run_commits(uri: str, *, branch: str, limit: int | None, actor: str | None, as_json: bool) -> None:
    """Lists the commits of a branch, newest first."""
    commits = open_graph(uri, "r").commits.list(branch, limit, actor)
    if as_json:
        print_json([commit.as_json() for commit in commits])
        return
    table = Table(id_column("commit"), "time", text_column("actor"), text_column("message"))
    for commit in commits:
        table.add_row(commit.graph_commit_id, _when(commit), commit.actor or "", commit.message or "")
    human.print(table)


def run_commit(uri: str, commit_id: str, *, as_json: bool) -> None:
    """Shows one commit."""
    commit = open_graph(uri, "r").commits.show(commit_id)
    if as_json:
        print_json(commit.as_json())
        return
    for name, value in commit.as_json().items():
        if value is not None:
            typer.echo(f"{name:24} {value}")


def query_source(file: Path | None, inline: str | None) -> str | Path:
    """The queries that a command was given: a file, or the text on the command line."""
    if (file is None) == (inline is None):
        raise UsageError("give the query with --query FILE or with -e GQ")
    return file if file is not None else inline or ""


def parameter_values(document: str | None, pairs: Iterable[str]) -> dict[str, Any]:
    """The parameters of a query: a JSON object, and single ones as ``name=value`` (JSON, or else a text)."""
    values: dict[str, Any] = {}
    if document is not None:
        try:
            values = json.loads(document)
        except ValueError as error:
            raise UsageError(f"--params is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise UsageError("--params is a JSON object")
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"--param is name=value, not {pair!r}")
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text
    return values


def _progress(verb: str, *, quiet: bool) -> AbstractContextManager[Progress | None]:
    """A bar on stderr, where a person is looking."""
    if quiet or not sys.stderr.isatty():
        return nullcontext(None)
    amount = DownloadColumn() if verb == "reading" else MofNCompleteColumn()
    columns = (TextColumn(verb), BarColumn(), amount, TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _count_up(bar: Progress | None, graph: Graph, branch: str, types: Sequence[str]) -> Any:
    if bar is None:
        return None
    snapshot = graph.snapshot(branch)
    total = sum(snapshot.table(each.table_key).count() for each in chosen_types(snapshot, types or None))
    task = bar.add_task("writing", total=total)
    return lambda done: bar.update(task, completed=done)


def _advance(bar: Progress | None) -> Any:
    if bar is None:
        return None
    task = bar.add_task("reading", total=None)
    return lambda done, total: bar.update(task, completed=done, total=total)


def _print_commit(commit: Commit | None) -> None:
    if commit is None:
        typer.echo("nothing changed, so there is no commit")
    else:
        typer.echo(f"commit {commit.graph_commit_id}  {_when(commit)}")


def _when(commit: Commit) -> str:
    return commit.created_at.strftime("%Y-%m-%d %H:%M:%S")
