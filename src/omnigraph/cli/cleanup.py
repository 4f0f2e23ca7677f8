"""The command that removes what nobody needs any more."""

import typer
from rich.table import Table

from omnigraph.api.upkeep import CleanupRequest, CleanupResult
from omnigraph.cli.output import plural
from omnigraph.cli.tables import print_wide, text_column
from omnigraph.diagnostics import size_text

_FAILED, _REFUSED = 1, 3


def exit_code(result: CleanupResult) -> int:
    """1 when a table could not be cleaned up, 3 when nothing was removed because it was not confirmed."""
    if result.failed:
        return _FAILED
    return 0 if result.confirmed else _REFUSED


def show(result: CleanupResult, request: CleanupRequest) -> None:  # noqa: ARG001 - the result says it all
    """Prints what was removed, or would be."""
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
