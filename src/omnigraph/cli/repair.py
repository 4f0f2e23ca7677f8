"""The command that repairs drift."""

import typer
from rich.table import Table

from omnigraph.api.upkeep import Classification, RepairAction, RepairRequest, RepairResult, TableRepair
from omnigraph.cli.graphs import print_commit
from omnigraph.cli.output import plural
from omnigraph.cli.tables import print_wide, text_column

_REFUSED = 3


def exit_code(result: RepairResult) -> int:
    """3 when a table is refused."""
    return _REFUSED if result.refused else 0


def show(result: RepairResult, request: RepairRequest) -> None:
    """Prints what has drifted, and what was done about it."""
    drifted = [each for each in result.tables if each.classification is not Classification.NO_DRIFT]
    if not drifted:
        typer.echo("no table has drifted")
        return
    names = ("table", "sees", "newest", "classification", "operations", "rows", "action", "error")
    table = Table(*(text_column(name) for name in names))
    for each in drifted:
        table.add_row(
            each.table_key,
            str(each.manifest_version),
            str(each.lance_head_version),
            each.classification.value,
            ", ".join(each.operations),
            _row_counts(each),
            each.action.value,
            each.error or "",
        )
    print_wide(table)
    for each in drifted:
        _print_rows(each)
    if request.confirm:
        _print_outcome(result)
    else:
        ready = sum(each.action is RepairAction.PUBLISH for each in drifted)
        undone = sum(each.action is RepairAction.UNDO for each in drifted)
        undoing = f", and undoes {plural(undone, 'table')}" if undone else ""
        typer.echo(f"nothing was changed; --confirm publishes {plural(ready, 'table')}{undoing}", err=True)
        if ready + undone < len(drifted):
            typer.echo("hint: --force --confirm publishes the others too, once you have looked at them", err=True)


def _row_counts(table: TableRepair) -> str:
    """What the newest version has in other ways than the one that the graph sees: `-removed +added ~changed`."""
    if table.removed is None:
        return "unknown"
    counts = (("-", table.removed), ("+", table.added), ("~", table.changed))
    return " ".join(f"{sign}{count}" for sign, count in counts if count) or "same"


def _print_rows(table: TableRepair) -> None:
    """The ids of rows that differ, as far as they are listed."""
    samples = (
        ("lacks", table.removed, table.removed_ids),
        ("adds", table.added, table.added_ids),
        ("changes", table.changed, table.changed_ids),
    )
    for verb, count, ids in samples:
        if count:
            more = f" and {count - len(ids)} more" if count > len(ids) else ""
            typer.echo(f"{table.table_key}: version {table.lance_head_version} {verb} {', '.join(ids)}{more}")


def _print_outcome(result: RepairResult) -> None:
    if result.commit is not None:
        print_commit(result.commit)
    if result.refused:
        tables = ", ".join(each.table_key for each in result.refused)
        typer.echo(f"refused: {tables}; look at them, and publish them with --force --confirm", err=True)
