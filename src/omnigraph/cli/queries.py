"""`omnigraph query`: runs a read and prints its rows in the format that was asked for."""

import csv
import json
import sys
from enum import StrEnum
from typing import Any

import pyarrow as pa
import typer
from rich.console import Console
from rich.table import Table

from omnigraph.api.data import QueryRequest, QueryResult
from omnigraph.api.values import answer_to_json
from omnigraph.cli.opening import opened
from omnigraph.cli.output import is_interactive, plural, print_json
from omnigraph.errors import UsageError


class Format(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    KV = "kv"
    ARROW = "arrow"


def run_query(uri: str, request: QueryRequest, *, format: str, explain: bool) -> None:
    """Runs a query, or explains how it would be run."""
    if format not in list(Format):
        raise UsageError(f"--format is one of {', '.join(Format)}, not {format}")
    with opened(uri, "r") as graph:
        if explain:
            asked = (request.source, request.name, request.params)
            typer.echo(graph.explain(*asked, branch=request.branch, engine=request.engine))
            return
        result = graph._run(request)
    _print(result, Format(format))


def _print(result: QueryResult, format: Format) -> None:
    match format:
        case Format.TABLE:
            _print_table(result)
        case Format.JSON:
            print_json(result.as_json())
        case Format.JSONL:
            for row in result.rows():
                sys.stdout.write(json.dumps(answer_to_json(row), ensure_ascii=False) + "\n")
        case Format.CSV:
            writer = csv.writer(sys.stdout)
            writer.writerow(result.columns)
            writer.writerows([_text(value) for value in row.values()] for row in result.rows())
        case Format.KV:
            _print_pairs(result)
        case Format.ARROW:
            with pa.ipc.new_stream(sys.stdout.buffer, result.table.schema) as stream:
                stream.write_table(result.table)


def _print_table(result: QueryResult) -> None:
    table = Table(*result.columns)
    for row in result.rows():
        table.add_row(*(_text(value) for value in row.values()))
    width = None if is_interactive() else 10_000
    Console(markup=False, highlight=False, width=width).print(table)
    typer.echo(plural(len(result), "row"), err=True)


def _print_pairs(result: QueryResult) -> None:
    widest = max(map(len, result.columns), default=0)
    for number, row in enumerate(result.rows()):
        if number:
            typer.echo()
        for name, value in row.items():
            typer.echo(f"{name:{widest}}  {_text(value)}")


def _text(value: Any) -> str:
    plain = answer_to_json(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
