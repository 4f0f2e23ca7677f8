"""The command that puts tables in order."""

import typer
from rich.table import Table

from omnigraph.api.upkeep import OptimizeRequest, OptimizeResult, Skipped
from omnigraph.cli.graphs import print_commit
from omnigraph.cli.output import plural
from omnigraph.cli.tables import print_wide, text_column

_FAILED = 1


def exit_code(result: OptimizeResult) -> int:
    """1 when a table could not be optimized."""
    return _FAILED if result.failed else 0


def show(result: OptimizeResult, request: OptimizeRequest) -> None:  # noqa: ARG001 - the result says it all
    """Prints what was done to each table."""
    told = [each for each in result.tables if each.committed or each.skipped is not None or each.error is not None]
    if told:
        names = ("table", "fragments", "built", "extended", "skipped", "error")
        table = Table(*(text_column(name) for name in names[: len(names) if result.failed else -1]))
        for each in told:
            table.add_row(
                each.table_key,
                f"{each.fragments_removed} → {each.fragments_added}" if each.fragments_removed else "",
                ", ".join(each.indexes_built),
                ", ".join(each.indexes_extended),
                each.skipped.value if each.skipped is not None else "",
                *([each.error or ""] if result.failed else []),
            )
        print_wide(table)
    if result.failed:
        typer.echo(f"{plural(len(result.failed), 'table')} could not be put in order", err=True)
    if result.commit is None:
        typer.echo("nothing was done" if result.failed else "nothing to do")
    else:
        print_commit(result.commit)
    if any(each.skipped is Skipped.DRIFT_NEEDS_REPAIR for each in result.tables):
        typer.echo("hint: something else has committed to tables; look at them with `omnigraph repair`", err=True)
