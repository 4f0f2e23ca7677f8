"""The commands that tell what became of writes that did not finish."""

from dataclasses import asdict
from typing import Any

import typer
from rich.table import Table

from omnigraph.cli.output import plural, print_json
from omnigraph.cli.tables import human, id_column
from omnigraph.errors import NotFound, RecoveryFailed
from omnigraph.opening import open as open_graph
from omnigraph.recovery import Recovery
from omnigraph.write.sidecar import Sidecar


def run_list(uri: str, *, as_json: bool) -> None:
    """Lists sidecars and recoveries."""
    reports = open_graph(uri, "r").recoveries
    pending, settled = reports.pending(), reports.list()
    if as_json:
        print_json(
            {
                "pending": [_pending_json(each) for each in pending],
                "recoveries": [recovery.as_json() for recovery in settled],
            }
        )
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
    reports = open_graph(uri, "r").recoveries
    for each in reports.pending():
        name = each.operation_id if isinstance(each, Sidecar) else each.sidecar.removesuffix(".json")
        if name == operation:
            _show(_pending_json(each), as_json=as_json)
            return
    try:
        recovery: Recovery = reports.show(operation)
    except NotFound as error:
        raise NotFound("sidecar or recovery", operation) from error
    _show(recovery.as_json(), as_json=as_json)


def _pending_json(pending: Sidecar | RecoveryFailed) -> dict[str, Any]:
    if isinstance(pending, RecoveryFailed):
        return {
            "state": "unreadable",
            "operation_id": pending.sidecar.removesuffix(".json"),
            "problem": pending.problem,
        }
    return {"state": "pending", **asdict(pending)}


def _show(description: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(description)
        return
    for name, value in description.items():
        if isinstance(value, list | tuple):
            for each in value:
                typer.echo(f"  {'  '.join(f'{key}={part}' for key, part in each.items())}")
        elif value not in (None, {}):
            typer.echo(f"{name:24} {value}")
