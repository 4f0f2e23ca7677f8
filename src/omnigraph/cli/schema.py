"""The commands that show a schema, what leads from one to another, and that change it."""

from pathlib import Path

import typer
from rich.table import Column, Table

from omnigraph.catalog import compile_schema
from omnigraph.cli.graphs import print_commit
from omnigraph.cli.opening import opened
from omnigraph.cli.options import wrong_usage
from omnigraph.cli.output import plural, print_diagnostic, print_json
from omnigraph.cli.progress import shown_progress
from omnigraph.cli.tables import print_wide, text_column
from omnigraph.diagnostics import Source
from omnigraph.evolution.apply import SchemaApplyResult
from omnigraph.evolution.migration import MigrationPlan, migration_plan
from omnigraph.evolution.migration.plan import HEADINGS
from omnigraph.source_files import schema_text

_REFUSED = 3


def run_show(uri: str, *, at: str | None, as_json: bool) -> None:
    """Prints the schema as it was accepted, or as it was at a commit or on a branch."""
    with opened(uri, "r") as graph:
        accepted = graph.schema.at(at)
    if as_json:
        print_json(accepted.as_json())
    else:
        typer.echo(accepted.text, nl=not accepted.text.endswith("\n"))


def run_plan(uri: str, new: Path, *, branch: str, as_json: bool) -> None:
    """Shows what leads from the schema of a graph to that of a file."""
    with opened(uri, "r") as graph:
        plan = graph.schema.plan(new, branch)
    _show(plan, as_json=as_json)


def run_diff(uri: str | None, old: str, new: str, *, as_json: bool) -> None:
    """Shows what leads from one schema to another; each is a file, or what a branch or a commit of a graph has."""
    if _is_file(old):
        if not _is_file(new):
            raise wrong_usage("a schema that a graph has does not follow from one in a file; name the file second")
        (before, before_name), (after, after_name) = schema_text(Path(old)), schema_text(Path(new))
        plan = migration_plan(compile_schema(before, name=before_name), Source(after_name, after))
    elif uri is None:
        raise wrong_usage(f"{old} is no file; to compare commits or branches, name the graph")
    else:
        with opened(uri, "r") as graph:
            if _is_file(new):
                text, name = schema_text(Path(new))
                plan = migration_plan(graph.schema.at(old).catalog, Source(name, text))
            else:
                plan = graph.schema.diff(old, new)
    _show(plan, as_json=as_json)


def run_apply(
    uri: str,
    new: Path,
    *,
    allow_data_loss: bool,
    actor: str | None,
    if_commit: str | None,
    engine: str,
    durability: str | None,
    as_json: bool,
) -> None:
    """Makes the schema of a file that of a graph."""
    with opened(uri, durability=durability) as graph, shown_progress(quiet=as_json) as report:
        result = graph.schema.apply(
            new, allow_data_loss=allow_data_loss, actor=actor, if_commit=if_commit, engine=engine, report=report
        )
    _show_result(result, as_json=as_json)


def run_catch_up(
    uri: str, branch: str, *, actor: str | None, engine: str, durability: str | None, as_json: bool
) -> None:
    """Gives a branch the schema of main."""
    with opened(uri, durability=durability) as graph, shown_progress(quiet=as_json) as report:
        result = graph.schema.catch_up(branch, actor=actor, engine=engine, report=report)
    _show_result(result, as_json=as_json)


def _is_file(named: str) -> bool:
    return named.endswith(".pg") or Path(named).is_file()


def _show_result(result: SchemaApplyResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result.as_json())
        return
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
        _print_steps(plan)
        for line in plan.violation_lines():
            typer.secho(line, fg=typer.colors.RED)
        typer.echo(_summary(plan))
    if not plan.is_possible:
        raise typer.Exit(_REFUSED)


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
