"""`omnigraph embed`: fills vectors, with a bar that counts rows."""

import typer
from rich.table import Table

from omnigraph.api.words import LOCAL
from omnigraph.cli.graphs import print_commit
from omnigraph.cli.opening import opened
from omnigraph.cli.output import plural, print_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.tables import human


def run_embed(
    uri: str,
    type: str,
    *,
    property: str | None,
    everything: bool,
    branch: str,
    actor: str | None,
    batch: int | None,
    engine: str,
    durability: str | None,
    as_json: bool,
) -> None:
    """Fills the vectors of a type."""
    with opened(uri, durability=durability) as graph, shown_progress(quiet=as_json) as report:
        result = graph.embed(
            type, property, all=everything, branch=branch, actor=actor, batch=batch, engine=engine, report=report
        )
    if as_json:
        print_json(result.as_json())
        return
    if result.engine == LOCAL:  # Spark was announced before it was started
        typer.echo(str(result.choice), err=True)
    table = Table("property", "vectors")
    for name, count in result.filled.items():
        table.add_row(name, f"{count:,}")
    human.print(table)
    if len(result.commits) > 1:
        typer.echo(f"{plural(len(result.commits), 'commit')}, the last:")
    print_commit(result.commits[-1] if result.commits else None)
