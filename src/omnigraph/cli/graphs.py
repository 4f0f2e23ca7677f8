"""The commands that work on a graph: create, load, change, export, history."""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.table import Table

from omnigraph.api.data import ExplainExportRequest, ExportRequest, MutationResult
from omnigraph.api.history import Commit, CommitShowRequest
from omnigraph.cli.drawing import Node, drawn, in_drawing_order
from omnigraph.cli.opening import opened
from omnigraph.cli.output import plural, print_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.tables import human, id_column, text_column, when
from omnigraph.diagnostics import quoted
from omnigraph.errors import UsageError
from omnigraph.graph.opening import init
from omnigraph.strict_json import read_json


def run_init(uri: str, schema: Path, *, durability: str | None, as_json: bool) -> None:
    """Creates a graph."""
    graph = init(uri, schema, durability=durability)
    catalog = graph.schema.catalog
    if as_json:
        print_json({"uri": graph.uri, "commit": graph.snapshot().commit.as_json()})
    else:
        sizes = f"{plural(len(catalog.nodes), 'node type')}, {plural(len(catalog.edges), 'edge type')}"
        typer.echo(f"created {graph.uri} ({sizes})")


def show_mutation(result: MutationResult) -> None:
    """Prints how much a mutation changed, and its commit."""
    typer.echo(f"{plural(result.affected['nodes'], 'node')}, {plural(result.affected['edges'], 'edge')}")
    print_commit(result.commit)


def run_export(uri: str, request: ExportRequest, *, explain: bool, as_json: bool) -> None:
    """Writes the graph to a file or a folder, or as NDJSON to stdout; with `explain` only shows how."""
    out = request.path
    if explain:
        asked = ExplainExportRequest(
            request.branch, request.types, snapshot=request.snapshot, ordered=request.ordered, engine=request.engine
        )
        with opened(uri, "r") as graph:
            typer.echo(graph._run(asked))
        return
    with opened(uri, "r") as graph, shown_progress(quiet=out is None or as_json) as report:
        result = graph._run(replace(request, report=report))
    if isinstance(result, int):
        if as_json:
            print_json({"out": out, "records": result})
        else:
            typer.echo(f"{plural(result, 'record')} to {out}", err=True)
        return
    for line in result:
        sys.stdout.write(line + "\n")


def run_snapshot(uri: str, *, branch: str, as_json: bool) -> None:
    """Shows the tables of the graph at its head."""
    with opened(uri, "r") as graph:
        snapshot = graph.snapshot(branch)
    document = snapshot.as_json()
    if as_json:
        print_json(document)
        return
    print_commit(snapshot.commit)
    shown = Table("table", "version", "rows")
    for table in document["tables"]:
        shown.add_row(str(table["table_key"]), str(table["version"]), f"{table['rows']:,}")
    human.print(shown)


def run_commits(uri: str, *, branch: str, limit: int | None, actor: str | None, as_json: bool) -> None:
    """Lists the commits of a branch, newest first."""
    with opened(uri, "r") as graph:
        commits = graph.commits.list(branch, limit, actor)
    if as_json:
        print_json([commit.as_json() for commit in commits])
        return
    table = Table(id_column("commit"), "time", text_column("actor"), text_column("message"))
    for commit in commits:
        table.add_row(commit.graph_commit_id, when(commit), commit.actor or "", commit.message or "")
    human.print(table)


def run_commit_graph(uri: str, *, branch: str | None, limit: int | None, as_json: bool) -> None:
    """Draws the commits of one branch, or of all, with the names of the branches at their heads."""
    with opened(uri, "r") as graph:
        branches = graph.branches.list()
        shown = [each.name for each in branches] if branch is None else [branch]
        known = {commit.graph_commit_id: commit for name in shown for commit in graph.commits.list(name)}
    names: dict[str, list[str]] = {}
    for each in branches:
        names.setdefault(each.head.graph_commit_id, []).append(each.name)
    newest_first = sorted(known, key=lambda commit_id: known[commit_id].created_at, reverse=True)
    parents = {commit_id: _parents(commit) for commit_id, commit in known.items()}
    order = in_drawing_order(parents, newest_first)[:limit]
    if as_json:
        print_json([known[commit_id].as_json() for commit_id in order])
        return
    nodes = (Node(each, parents[each], _summary(known[each], names.get(each, []))) for each in order)
    for line in drawn(nodes):
        typer.echo(line)


def _parents(commit: Commit) -> tuple[str, ...]:
    return tuple(each for each in (commit.parent_commit_id, commit.merged_parent_commit_id) if each is not None)


def _summary(commit: Commit, heads: Sequence[str]) -> str:
    """A commit in one line, with the branches that end at it."""
    marks = f"({', '.join(heads)})" if heads else ""
    words = (commit.graph_commit_id, marks, when(commit), commit.actor, commit.message)
    return "  ".join(filter(None, words))


def show_commit(result: Commit, request: CommitShowRequest) -> None:  # noqa: ARG001 - the commit says it all
    """Prints one commit."""
    for name, value in result.as_json().items():
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
            values = read_json(document)
        except ValueError as error:
            raise UsageError(f"--params is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise UsageError("--params is a JSON object")
    given: set[str] = set()
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"--param is name=value, not {pair!r}")
        if name in given:
            raise UsageError(f"--param gives {quoted(name)} twice")
        given.add(name)
        try:
            values[name] = read_json(text)
        except ValueError:
            values[name] = text
    return values


def print_commit(commit: Commit | None) -> None:
    """Says which commit a write became."""
    if commit is None:
        typer.echo("nothing changed, so there is no commit")
    else:
        typer.echo(f"commit {commit.graph_commit_id}  {when(commit)}")
