"""The command that finds damaged files."""

import typer
from rich.table import Table

from omnigraph.api.upkeep import VerifyResult
from omnigraph.cli.opening import opened
from omnigraph.cli.output import plural, print_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.tables import print_wide, text_column
from omnigraph.diagnostics import size_text

_DAMAGED = 1


def run_verify(uri: str, *, data: bool, as_json: bool) -> None:
    """Verifies a graph; ends with 1 when something is damaged."""
    with opened(uri, "r") as graph, shown_progress(quiet=as_json) as report:
        result = graph.verify(data=data, report=report)
    if as_json:
        print_json(result.as_json())
    else:
        _print_result(result)
    if not result.whole:
        raise typer.Exit(_DAMAGED)


def _print_result(result: VerifyResult) -> None:
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
