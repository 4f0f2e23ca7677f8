"""The command that repairs drift."""

import typer
from rich.table import Table

from omnigraph.cli.graphs import print_commit
from omnigraph.cli.opening import opened
from omnigraph.cli.output import plural, print_json
from omnigraph.cli.tables import print_wide, text_column
from omnigraph.maintenance.repair import Classification, RepairAction, RepairResult

_REFUSED = 3


def run_repair(
    uri: str,
    *,
    branch: str,
    confirm: bool,
    force: bool,
    actor: str | None,
    durability: str | None,
    as_json: bool,
) -> None:
    """Shows what has drifted, or publishes it; ends with 3 when a table is refused."""
    with opened(uri, "rw" if confirm else "r", durability=durability) as graph:
        result = graph.repair(confirm=confirm, force=force, branch=branch, actor=actor)
    if as_json:
        print_json(result.as_json())
    else:
        _print_result(result, confirm=confirm)
    if result.refused:
        raise typer.Exit(_REFUSED)


def _print_result(result: RepairResult, *, confirm: bool) -> None:
    drifted = [each for each in result.tables if each.classification is not Classification.NO_DRIFT]
    if not drifted:
        typer.echo("no table has drifted")
        return
    names = ("table", "sees", "newest", "classification", "operations", "action", "error")
    table = Table(*(text_column(name) for name in names))
    for each in drifted:
        table.add_row(
            each.table_key,
            str(each.manifest_version),
            str(each.lance_head_version),
            each.classification.value,
            ", ".join(each.operations),
            each.action.value,
            each.error or "",
        )
    print_wide(table)
    if confirm:
        _print_outcome(result)
    else:
        ready = sum(each.action is RepairAction.PUBLISH for each in drifted)
        typer.echo(f"nothing was changed; --confirm publishes {plural(ready, 'table')}", err=True)
        if ready < len(drifted):
            typer.echo("hint: --force --confirm publishes the others too, once you have looked at them", err=True)


def _print_outcome(result: RepairResult) -> None:
    if result.commit is not None:
        print_commit(result.commit)
    if result.refused:
        tables = ", ".join(each.table_key for each in result.refused)
        typer.echo(f"refused: {tables}; look at them, and publish them with --force --confirm", err=True)
