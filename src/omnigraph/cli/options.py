"""The options that several commands have, and how a command finds its graph.

Nothing is imported here but Typer, so that the modules that declare commands stay cheap to import.
"""
# ruff: noqa: PLC0415

from pathlib import Path
from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Store = Annotated[
    str | None, typer.Option("--store", envvar="OMNIGRAPH_STORE", metavar="URI", help="The graph.", show_default=False)
]
Uri = Annotated[str | None, typer.Argument(metavar="[URI]", help="The graph, if not --store.", show_default=False)]
Branch = Annotated[str, typer.Option(help="The branch to work on.")]
Engine = Annotated[str, typer.Option(metavar="auto|local|spark", help="Where the work runs.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show how it would be done and where, and stop.")]
Actor = Annotated[str | None, typer.Option("--as", metavar="ACTOR", help="Who the commit is by.", show_default=False)]
IfCommit = Annotated[str | None, typer.Option(metavar="ID", help="Only on top of this commit.", show_default=False)]
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
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only this type; may be repeated.", show_default=False),
]
ChangeFormat = Annotated[str, typer.Option("--format", metavar="table|jsonl", help="How changes are printed.")]


def wrong_usage(problem: str) -> Exception:
    """The error of a command whose words do not go together."""
    from omnigraph.errors import UsageError

    return UsageError(problem)


def named_graph(*candidates: str | None) -> str:
    """The graph that a command is about: the first way of naming it that was used."""
    for uri in candidates:
        if uri is not None:
            return uri
    raise wrong_usage("name the graph as URI, with --store, or in $OMNIGRAPH_STORE")
