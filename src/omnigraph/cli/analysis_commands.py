"""Declares the commands that compute something from the whole graph: analyses, and vectors.

As in `main`, a command imports what it needs in its body, and only there.
"""
# ruff: noqa: PLC0415, FBT002, PLR0917 - a flag of a command is a keyword for its user

from pathlib import Path
from typing import Annotated

import typer

from omnigraph.cli.options import (
    Actor,
    AsJson,
    Branch,
    Durability,
    Engine,
    OnGraph,
    Store,
    Uri,
    named_graph,
    wrong_usage,
)


def declare(app: typer.Typer) -> None:
    """Adds the commands to an application."""
    app.command(cls=OnGraph)(analyze)
    app.command(cls=OnGraph)(embed)


def embed(
    type: Annotated[str, typer.Argument(metavar="TYPE", help="The node or edge type.")],
    uri: Uri = None,
    property: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this vector of the type.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also the vectors that are there.")] = False,
    batch: Annotated[
        int | None, typer.Option(metavar="ROWS", help="How many rows one commit takes.", show_default=False)
    ] = None,
    store: Store = None,
    branch: Branch = "main",
    actor: Actor = None,
    engine: Engine = "auto",
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Fill the vectors of a type that are missing; when it is interrupted, the same command goes on."""
    from omnigraph.cli import embed as command

    command.run_embed(
        named_graph(uri, store),
        type,
        property=property,
        everything=everything,
        branch=branch,
        actor=actor,
        batch=batch,
        engine=engine,
        durability=durability,
        as_json=as_json,
    )


def analyze(
    algorithm: Annotated[
        str,
        typer.Argument(
            metavar="ANALYSIS", help="pagerank, components, degrees, triangles, communities or shortest-paths."
        ),
    ],
    uri: Uri = None,
    edges: Annotated[
        list[str] | None,
        typer.Option("--edge", metavar="TYPE", help="Only these edges; may be repeated.", show_default=False),
    ] = None,
    nodes: Annotated[
        list[str] | None,
        typer.Option("--node", metavar="TYPE", help="Only these nodes; may be repeated.", show_default=False),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(metavar="PROPERTY", help="What an edge weighs.", show_default=False)
    ] = None,
    directed: Annotated[
        bool | None, typer.Option("--directed/--undirected", help="Whether edges lead one way.", show_default=False)
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option("--source", metavar="ID", help="Where walks begin; may be repeated.", show_default=False),
    ] = None,
    targets: Annotated[
        list[str] | None,
        typer.Option("--target", metavar="ID", help="Show the paths to it; may be repeated.", show_default=False),
    ] = None,
    max_hops: Annotated[int | None, typer.Option(help="Paths of at most so many edges.", show_default=False)] = None,
    kind: Annotated[str | None, typer.Option(metavar="weak|strong", help="Of components.", show_default=False)] = None,
    damping: Annotated[float | None, typer.Option(help="Of pagerank.", show_default="0.85")] = None,
    iterations: Annotated[int | None, typer.Option(help="At most, of pagerank.", show_default="100")] = None,
    tolerance: Annotated[float | None, typer.Option(help="Of pagerank.", show_default="1e-9")] = None,
    resolution: Annotated[float | None, typer.Option(help="Of communities.", show_default="1")] = None,
    seed: Annotated[int | None, typer.Option(help="Of communities.", show_default="0")] = None,
    store: Store = None,
    branch: Branch = "main",
    snapshot: Annotated[
        str | None, typer.Option(metavar="ID", help="A commit or version to read at.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="At most so many rows.", show_default="20 in a table, else all")
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="table|json|jsonl|csv|kv|arrow", help="How rows are printed.")
    ] = "table",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all rows there: .parquet, .csv or .jsonl.", show_default=False),
    ] = None,
    write: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=PROPERTY", help="Write back to the nodes; may be repeated.", show_default=False),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="BRANCH|COMMIT", help="Create the branch there first, if needed.", show_default=False
        ),
    ] = None,
    actor: Actor = None,
    engine: Engine = "auto",
    durability: Durability = None,
    as_json: AsJson = False,
) -> None:
    """Analyse the graph as a whole; print the result, or write it back as properties in one commit."""
    from omnigraph.cli import analyze as command

    pairs = [each.partition("=") for each in write or []]
    if any(not column or not name for column, _, name in pairs):
        raise wrong_usage("--write is COLUMN=PROPERTY")
    given = {
        "weight": weight,
        "directed": directed,
        "sources": sources or None,
        "targets": targets or None,
        "max_hops": max_hops,
        "kind": kind,
        "damping": damping,
        "iterations": iterations,
        "tolerance": tolerance,
        "resolution": resolution,
        "seed": seed,
    }
    command.run_analyze(
        named_graph(uri, store),
        algorithm,
        {name: value for name, value in given.items() if value is not None},
        edges=edges or None,
        nodes=nodes or None,
        branch=branch,
        snapshot=snapshot,
        write={column: name for column, _, name in pairs},
        from_=from_,
        actor=actor,
        engine=engine,
        durability=durability,
        limit=limit,
        format="json" if as_json else format,
        out=out,
    )
