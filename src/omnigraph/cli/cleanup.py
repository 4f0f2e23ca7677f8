"""The command that removes what nobody needs any more."""

from dataclasses import dataclass
from typing import Literal

import typer
from rich.table import Table

from omnigraph.api.upkeep import CleanupResult
from omnigraph.cli.opening import opened
from omnigraph.cli.output import plural, print_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.tables import print_wide, text_column
from omnigraph.diagnostics import size_text

_FAILED, _REFUSED = 1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupOptions:
    """What the command line asks for; ages are as people write them."""

    keep: int | None
    older_than: str | None
    grace: str
    confirm: bool


def run_cleanup(uri: str, options: CleanupOptions, *, durability: str | None, as_json: bool) -> None:
    """Removes, or shows what would go and ends with 3; ends with 1 when a table could not be cleaned up."""
    mode: Literal["r", "rw"] = "rw" if options.confirm else "r"
    with opened(uri, mode, durability=durability) as graph, shown_progress(quiet=as_json) as report:
        result = graph.cleanup(
            keep=options.keep,
            older_than=options.older_than,
            grace=options.grace,
            confirm=options.confirm,
            report=report,
        )
    if as_json:
        print_json(result.as_json())
    else:
        _print_result(result)
    if result.failed:
        raise typer.Exit(_FAILED)
    if not result.confirmed:
        raise typer.Exit(_REFUSED)


def _print_result(result: CleanupResult) -> None:
    touched = [each for each in result.tables if each.files_removed or each.old_versions_removed or each.error]
    if touched:
        table = Table(*(text_column(name) for name in ("table", "versions", "files", "forks", "size", "error")))
        for each in touched:
            table.add_row(
                each.table_key,
                f"{each.old_versions_removed:,}",
                f"{each.files_removed:,}",
                str(len(each.forks_removed)),
                size_text(each.bytes_removed),
                each.error or "",
            )
        print_wide(table)
    size = size_text(result.bytes_removed)
    if not result.confirmed:
        typer.echo(f"nothing was removed; --confirm removes {size}", err=True)
    elif result.failed:
        typer.echo(f"removed {size}; {plural(len(result.failed), 'table')} could not be cleaned up, so run it again")
    else:
        typer.echo(f"removed {size}")
