"""The commands about stored queries."""

from collections.abc import Sequence
from typing import Any

import typer

from omnigraph.api.queries import (
    QueriesReport,
    QueryAddRequest,
    QueryListRequest,
    QueryRemoveRequest,
    QueryShowRequest,
    QueryValidateRequest,
    StoredQueriesResult,
    StoredQuery,
)
from omnigraph.cli.commands import Values, request_from
from omnigraph.cli.grammar import named_graph
from omnigraph.cli.opening import open_graph
from omnigraph.cli.output import FAILED, plural, print_commit, print_json, print_table
from omnigraph.errors import UsageError


def run_add(values: Values) -> None:
    """Stores the queries of files."""
    if not values["files"]:
        raise UsageError("name at least one file with queries")
    _run_write(request_from(QueryAddRequest, values, queries=values["files"]), values)


def run_remove(values: Values) -> None:
    """Removes stored queries."""
    _run_write(request_from(QueryRemoveRequest, values), values)


def _run_write(request: QueryAddRequest | QueryRemoveRequest, values: Values) -> None:
    with open_graph(named_graph(), durability=values["durability"]) as graph:
        result: StoredQueriesResult = graph._run(request)
    if values["as_json"]:
        print_json(result.as_json())
        return
    for word in ("added", "replaced", "removed", "unchanged"):
        for name in getattr(result, word):
            typer.echo(f"{word} {name}")
    print_commit(result.commit)


def show_list(result: Sequence[StoredQuery], request: QueryListRequest) -> None:  # noqa: ARG001 - the result says it
    """Prints the stored queries."""
    rows = ((each.name, _kind(each), _parameters(each), each.description or "") for each in result)
    print_table(("query", "kind", "parameters", "description"), rows)


def run_show(values: Values) -> None:
    """Prints one stored query or all, so that they can be stored again, and what does not fit the schema."""
    with open_graph(named_graph(), "r") as graph:
        if values["name"] is None:
            found: list[StoredQuery] = graph._run(request_from(QueryListRequest, values))
        else:
            found = [graph._run(request_from(QueryShowRequest, values))]
    if values["as_json"]:
        print_json(found[0].as_json() if values["name"] is not None else [each.as_json() for each in found])
        return
    typer.echo("\n\n".join(each.source for each in found))
    for each in found:
        for problem in each.problems:
            typer.echo(f"{each.name} does not fit the schema: {problem}", err=True)


def run_validate(values: Values) -> None:
    """Checks queries of files, or those that are stored."""
    request = request_from(QueryValidateRequest, values, queries=values["files"] or None)
    with open_graph(named_graph(), "r") as graph:
        report: QueriesReport = graph._run(request)
    if values["as_json"]:
        print_json(report.as_json())
    else:
        for each in report.broken:
            typer.echo(str(each))
        typer.echo(f"{plural(len(report.queries), 'query')} checked, {len(report.broken)} broken")
    if report.broken:
        raise typer.Exit(FAILED)


def _kind(query: StoredQuery) -> str:
    return "broken" if query.kind is None else query.kind.value


def _parameters(query: StoredQuery) -> str:
    given: dict[str, Any] = dict((query.parameters or {}).get("properties", {}))
    required = (query.parameters or {}).get("required", ())
    return ", ".join(name if name in required else f"{name}?" for name in given)
