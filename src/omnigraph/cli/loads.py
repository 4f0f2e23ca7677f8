"""Loads: from files that say their types, and from tables whose type the command names."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import typer
from rich.table import Table

from omnigraph.api.data import LoadRequest
from omnigraph.api.words import LOCAL
from omnigraph.catalog import Catalog, EdgeType, NodeType
from omnigraph.cli.graphs import print_commit
from omnigraph.cli.opening import opened
from omnigraph.cli.output import print_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.tables import human
from omnigraph.errors import NotFound, UsageError


def run_load(
    uri: str,
    request: LoadRequest,
    paths: Sequence[str],
    *,
    nodes: Sequence[str],
    edges: Sequence[str],
    durability: str | None,
    explain: bool,
    as_json: bool,
) -> None:
    """Loads, or with `explain` only shows how it would be done."""
    with opened(uri, "r" if explain else "rw", durability=durability) as graph:
        catalog = graph.schema.catalog
        data = [*paths, *_typed(catalog, nodes, NodeType, "--nodes"), *_typed(catalog, edges, EdgeType, "--edges")]
        if explain:
            typer.echo(graph.explain_load(data, request.mode, engine=request.engine))
            return
        with shown_progress(quiet=as_json) as report:
            result = graph._run(replace(request, data=data, report=report))
    if as_json:
        print_json(result.as_json())
        return
    if result.engine == LOCAL:  # Spark was announced before it was started
        typer.echo(str(result.choice), err=True)
    table = Table("type", "records")
    for name, count in {**result.nodes, **result.edges}.items():
        table.add_row(name, f"{count:,}")
    human.print(table)
    print_commit(result.commit)


def _typed(
    catalog: Catalog, pairs: Sequence[str], kind: type[NodeType] | type[EdgeType], option: str
) -> list[dict[str, Any]]:
    """The files of ``Type=PATH`` words, each as the mapping that a load takes."""
    found = []
    for pair in pairs:
        name, equals, path = pair.partition("=")
        if not equals:
            raise UsageError(f"{option} is TYPE=PATH, not {pair!r}")
        entity = catalog.entity(name)
        if not isinstance(entity, kind):
            raise NotFound("node type" if kind is NodeType else "edge type", name)
        found.append({name: path})
    return found
