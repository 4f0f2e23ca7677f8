"""The command that finds damaged files."""

import typer
from rich.table import Table

from omnigraph.api.upkeep import VerifyRequest, VerifyResult
from omnigraph.cli.output import plural
from omnigraph.cli.tables import print_wide, text_column
from omnigraph.diagnostics import size_text

_DAMAGED = 1


def exit_code(result: VerifyResult) -> int:
    """1 when something is damaged."""
    return 0 if result.whole else _DAMAGED


def show(result: VerifyResult, request: VerifyRequest) -> None:  # noqa: ARG001 - the result says it all
    """Prints what is damaged, and how much was looked at."""
    if result.damage:
        table = Table(*(text_column(name) for name in ("damaged", "problem", "commits")))
        for each in result.damage:
            table.add_row(each.path, each.problem, str(each.commits))
        print_wide(table)
    broken = [each for each in result.commits if not each.whole]
    if broken:
        table = Table(*(text_column(name) for name in ("commit that is not whole", "branch", "version")))
        for commit in broken:
            table.add_row(commit.graph_commit_id or "unknown", commit.branch, str(commit.manifest_version))
        print_wide(table)
    read = f"{plural(result.records, 'record')}, {plural(result.files, 'file')} ({size_text(result.bytes)})"
    if result.data:
        read = f"{read}, {plural(result.rows, 'row')}"
    whole = len(result.commits) - len(broken)
    typer.echo(f"{whole} of {plural(len(result.commits), 'retained commit')} whole; looked at {read}")
    if result.unverified:
        typer.echo(f"{result.unverified:,} of them were written without a checksum")
    if not result.data:
        typer.echo("sizes of data files were compared; --data compares their content")
