"""The commands that show a schema, and what leads from one to another."""

from pathlib import Path

import typer
from rich.table import Column, Table

from omnigraph.catalog import catalog_to_json, compile_schema
from omnigraph.catalog.migration import MigrationPlan, migration_plan
from omnigraph.catalog.migration.plan import HEADINGS
from omnigraph.cli.opening import opened
from omnigraph.cli.output import plural, print_diagnostic, print_json
from omnigraph.cli.tables import print_wide, text_column
from omnigraph.diagnostics import Source
from omnigraph.operations.texts import schema_text

_REFUSED = 3


def run_show(uri: str, *, as_json: bool) -> None:
    """Prints the schema as it was accepted."""
    with opened(uri, "r") as graph:
        text, catalog = graph.schema.text, graph.schema.catalog
    if as_json:
        print_json({"schema": text, "catalog": catalog_to_json(catalog)})
    else:
        typer.echo(text, nl=not text.endswith("\n"))


def run_plan(uri: str, new: Path, *, branch: str, as_json: bool) -> None:
    """Shows what leads from the schema of a graph to that of a file."""
    with opened(uri, "r") as graph:
        plan = graph.schema.plan(new, branch)
    _show(plan, as_json=as_json)


def run_diff(old: Path, new: Path, *, as_json: bool) -> None:
    """Shows what leads from the schema of one file to that of another."""
    (before, before_name), (after, after_name) = schema_text(old), schema_text(new)
    _show(migration_plan(compile_schema(before, name=before_name), Source(after_name, after)), as_json=as_json)


def _show(plan: MigrationPlan, *, as_json: bool) -> None:
    """Prints a plan; ends with 3 when it cannot be done, or not without the loss of data."""
    if as_json:
        print_json(plan.as_json())
    else:
        _print_plan(plan)
    if plan.refused or plan.loses_data:
        raise typer.Exit(_REFUSED)


def _print_plan(plan: MigrationPlan) -> None:
    for finding in (*plan.notes, *plan.refused):
        print_diagnostic(finding)
    if plan.steps:
        *first, rows = HEADINGS
        table = Table(*(text_column(name) for name in first), Column(rows, justify="right"))
        for row in plan.rows():
            table.add_row(*row)
        print_wide(table)
    typer.echo(_summary(plan))


def _summary(plan: MigrationPlan) -> str:
    if plan.is_empty:
        return "nothing to do: both schemas mean the same"
    told = [plural(len(plan.steps), "step")]
    losing = sum(step.loses_data for step in plan.steps)
    if losing:
        told.append(f"{losing} of them with data loss, which needs --allow-data-loss")
    if plan.refused:
        told.append(f"{len(plan.refused)} refused, so the change cannot be made as it is")
    return "; ".join(told)
