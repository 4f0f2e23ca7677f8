"""`omnigraph embed`: fills vectors, with a bar that counts rows."""

import typer
from rich.table import Table

from omnigraph.api.data import EmbedRequest, EmbedResult
from omnigraph.api.words import LOCAL
from omnigraph.cli.graphs import print_commit
from omnigraph.cli.output import plural
from omnigraph.cli.tables import human


def show(result: EmbedResult, request: EmbedRequest) -> None:  # noqa: ARG001 - the result says it all
    """Prints how many vectors were filled."""
    if result.engine == LOCAL:  # Spark was announced before it was started
        typer.echo(str(result.choice), err=True)
    table = Table("property", "vectors")
    for name, count in result.filled.items():
        table.add_row(name, f"{count:,}")
    human.print(table)
    if len(result.commits) > 1:
        typer.echo(f"{plural(len(result.commits), 'commit')}, the last:")
    print_commit(result.commits[-1] if result.commits else None)
