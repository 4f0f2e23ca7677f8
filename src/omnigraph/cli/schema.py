"""The commands that show a schema, what leads from one to another, and that change it."""

from pathlib import Path

import typer
from rich.table import Column, Table

from omnigraph.api.schema import SchemaPlanRequest, SchemaShowRequest
from omnigraph.catalog import compile_schema
from omnigraph.cli.graphs import print_commit
from omnigraph.cli.opening import opened
from omnigraph.cli.options import wrong_usage
from omnigraph.cli.output import plural, print_diagnostic, print_json
from omnigraph.cli.tables import print_wide, text_column
from omnigraph.diagnostics import Source
from omnigraph.evolution.apply import SchemaApplyResult
from omnigraph.evolution.migration import MigrationPlan, migration_plan
from omnigraph.evolution.migration.plan import HEADINGS
from omnigraph.source_files import schema_text
from omnigraph.versioning.schemas import AcceptedSchema

_REFUSED = 3


def show_text(result: AcceptedSchema, request: SchemaShowRequest) -> None:  # noqa: ARG001 - the schema says it all
    """Prints a schema as it was written."""
    typer.echo(result.text, nl=not result.text.endswith("\n"))


def show_plan(result: MigrationPlan, request: SchemaPlanRequest) -> None:  # noqa: ARG001 - the plan says it all
    """Prints the steps of a plan, and what is in their way."""
    _print_plan(result)


def exit_code(result: object) -> int:
    """3 for a plan that cannot be done."""
    return _REFUSED if isinstance(result, MigrationPlan) and not result.is_possible else 0


def run_diff(uri: str | None, old: str, new: str, *, as_json: bool) -> None:
    """Shows what leads from one schema to another; each is a file, or what a branch or a commit of a graph has."""
    if _is_file(old):
        if not _is_file(new):
            raise wrong_usage("a schema that a graph has does not follow from one in a file; name the file second")
        (before, before_name), (after, after_name) = schema_text(Path(old)), schema_text(Path(new))
        plan = migration_plan(compile_schema(before, name=before_name), Source(after_name, after))
    elif uri is None:
        raise wrong_usage(f"{old} is not a file; to compare commits or branches, name the graph")
    else:
        with opened(uri, "r") as graph:
            if _is_file(new):
                text, name = schema_text(Path(new))
                plan = migration_plan(graph.schema.at(old).catalog, Source(name, text))
            else:
                plan = graph.schema.diff(old, new)
    _show(plan, as_json=as_json)


def _is_file(named: str) -> bool:
    return named.endswith(".pg") or Path(named).is_file()


def show_applied(result: SchemaApplyResult, request: object) -> None:  # noqa: ARG001 - the result says it all
    """Prints the steps that were done, and the commit."""
    _print_steps(result.plan)
    if result.commit is None:
        typer.echo("nothing to do: the schema is as asked")
        return
    typer.echo(f"schema {result.schema.number}")
    if result.purged:
        typer.echo(f"removed from the history too: {', '.join(result.purged)}")
    print_commit(result.commit)


def _show(plan: MigrationPlan, *, as_json: bool) -> None:
    """Prints a plan; ends with 3 when it cannot be done."""
    if as_json:
        print_json(plan.as_json())
    else:
        _print_plan(plan)
    if code := exit_code(plan):
        raise typer.Exit(code)


def _print_plan(plan: MigrationPlan) -> None:
    _print_steps(plan)
    for line in plan.violation_lines():
        typer.secho(line, fg=typer.colors.RED)
    typer.echo(_summary(plan))


def _print_steps(plan: MigrationPlan) -> None:
    for finding in (*plan.notes, *plan.refused):
        print_diagnostic(finding)
    if plan.steps:
        *first, rows = HEADINGS
        table = Table(*(text_column(name) for name in first), Column(rows, justify="right"))
        for row in plan.rows():
            table.add_row(*row)
        print_wide(table)


def _summary(plan: MigrationPlan) -> str:
    if plan.is_empty:
        return "nothing to do: both schemas mean the same"
    told = [plural(len(plan.steps), "step")]
    losing = sum(step.loses_data for step in plan.steps)
    if losing:
        told.append(f"{losing} of them with data loss; the history keeps it, unless --allow-data-loss is given")
    if plan.refused:
        told.append(f"{len(plan.refused)} refused, so the change cannot be made as it is")
    if plan.violation_count:
        told.append(f"{plural(plan.violation_count, 'row')} in the way, so the change cannot be made yet")
    return "; ".join(told)
