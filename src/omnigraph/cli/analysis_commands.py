"""Declares the command that analyzes the whole graph. Its options are the parameters of the verb."""
# ruff: noqa: PLC0415 - a command imports what it needs when it runs

from inspect import Parameter as Argument
from inspect import Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from omnigraph.api.data import AnalyzeRequest
from omnigraph.cli.derived import options_of, request_from
from omnigraph.cli.options import AsJson, Durability, OnGraph, Store, Uri, named_graph

Limit = Annotated[
    int | None, typer.Option(min=0, help="At most this many rows.", show_default="20 in a table, otherwise all")
]
Format = Annotated[str, typer.Option(metavar="table|json|jsonl|csv|kv|arrow", help="How rows are printed.")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write all rows there: .parquet, .csv or .jsonl.", show_default=False),
]


def declare(app: typer.Typer) -> None:
    """Adds the command to an application."""
    app.command("analyze", cls=OnGraph)(analyze)


def analyze(**values: Any) -> None:
    """Analyze the graph as a whole; print the result, or write it back as properties in one commit."""
    from omnigraph.cli import analyze as command

    command.run_analyze(
        named_graph(values["uri"], values["store"]),
        request_from(AnalyzeRequest, values),
        durability=values["durability"],
        limit=values["limit"],
        format="json" if values["as_json"] else values["format"],
        out=values["out"],
    )


def _option(name: str, kind: Any, default: Any = None) -> Argument:
    return Argument(name, Argument.KEYWORD_ONLY, annotation=kind, default=default)


_ALGORITHM, *_OPTIONS = options_of(AnalyzeRequest, positional=("algorithm",))
analyze.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        _ALGORITHM,
        _option("uri", Uri),
        *_OPTIONS,
        _option("limit", Limit),
        _option("format", Format, "table"),
        _option("out", Out),
        _option("store", Store),
        _option("durability", Durability),
        _option("as_json", AsJson, default=False),
    ]
)
