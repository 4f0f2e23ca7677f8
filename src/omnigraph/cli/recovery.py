"""The commands that tell what became of writes that did not finish."""

import typer
from rich.table import Table

from omnigraph.cli.opening import opened
from omnigraph.cli.output import plural, print_json
from omnigraph.cli.tables import human, id_column
from omnigraph.recovery import recoveries_json, recovery_json
from omnigraph.write.sidecar import Sidecar


def run_list(uri: str, *, as_json: bool) -> None:
    """Lists sidecars and recoveries."""
    with opened(uri, "r") as graph:
        pending, settled = graph.recoveries.pending(), graph.recoveries.list()
    if as_json:
        print_json(recoveries_json(pending, settled))
        return
    table = Table(id_column("write"), "state", "by", "actor", "started")
    for each in pending:
        if isinstance(each, Sidecar):
            table.add_row(each.operation_id, "pending", each.kind, each.actor or "", each.started_at)
        else:
            table.add_row(each.sidecar.removesuffix(".json"), "unreadable")
    for recovery in settled:
        actor = recovery.recovery_for_actor or ""
        table.add_row(recovery.operation_id, recovery.recovery_kind, recovery.writer_kind, actor, recovery.started_at)
    human.print(table)
    typer.echo(f"{plural(len(pending), 'sidecar')} pending, {plural(len(settled), 'write')} recovered")


def run_show(uri: str, operation: str, *, as_json: bool) -> None:
    """Shows one sidecar or recovery."""
    with opened(uri, "r") as graph:
        description = recovery_json(graph.recoveries, operation)
    if as_json:
        print_json(description)
        return
    for name, value in description.items():
        if isinstance(value, list | tuple):
            for each in value:
                typer.echo(f"  {'  '.join(f'{key}={part}' for key, part in each.items())}")
        elif value not in (None, {}):
            typer.echo(f"{name:24} {value}")
