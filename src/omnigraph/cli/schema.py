"""The commands that show a schema and the steps from one to another, and that change it."""
# ruff: noqa: PLC0415 - a command against a server that cannot be reached needs no catalog

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from omnigraph.cli.commands import Values
from omnigraph.cli.grammar import named_graph_if_any
from omnigraph.cli.opening import open_graph
from omnigraph.cli.output import REFUSED, plural, print_commit, print_diagnostic, print_json, print_table
from omnigraph.diagnostics import Source
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.api.schema import SchemaPlanRequest, SchemaShowRequest
    from omnigraph.evolution.apply import SchemaApplyResult
    from omnigraph.evolution.migration import MigrationPlan
    from omnigraph.versioning.schemas import AcceptedSchema


def show_schema(result: "AcceptedSchema", request: "SchemaShowRequest") -> None:  # noqa: ARG001 - the text says it all
    """Prints a schema as it was written."""
    typer.echo(result.text, nl=not result.text.endswith("\n"))


def show_plan(result: "MigrationPlan", request: "SchemaPlanRequest | None" = None) -> None:  # noqa: ARG001
    """Prints the steps of a plan, and what is in their way."""
    _print_steps(result)
    for line in (*result.violation_lines(), *result.broken_lines()):
        typer.secho(line, fg=typer.colors.RED)
    typer.echo(_plan_summary(result))


def show_applied_schema(result: "SchemaApplyResult", request: object) -> None:  # noqa: ARG001 - the result says it all
    """Prints the steps that were done, and the commit."""
    _print_steps(result.plan)
    if result.commit is None:
        typer.echo("nothing to do: the schema is as requested")
        return
    typer.echo(f"schema {result.schema.number}")
    if result.purged:
        typer.echo(f"removed from the history too: {', '.join(result.purged)}")
    print_commit(result.commit)


def run_schema_diff(values: Values) -> None:
    """Shows the steps from one schema to another; each is a file, or the schema of a state of a graph."""
    plan = _plan_between(values["left"], values["right"])
    if values["as_json"]:
        print_json(plan.as_json())
    else:
        show_plan(plan)
    if not plan.is_possible:
        raise typer.Exit(REFUSED)


def _plan_between(old: str, new: str) -> "MigrationPlan":
    uri = named_graph_if_any()
    if _is_file(old):
        from omnigraph.catalog import compile_schema
        from omnigraph.evolution.migration import migration_plan
        from omnigraph.source_files import schema_text

        if not _is_file(new):
            raise UsageError("the schema of a graph cannot follow one in a file: name the file second")
        (before, before_name), (after, after_name) = schema_text(Path(old)), schema_text(Path(new))
        return migration_plan(compile_schema(before, name=before_name), Source(after_name, after))
    if uri is None:
        raise UsageError(f"{old} is not a file; to compare states of a graph, name the graph")
    with open_graph(uri, "r") as graph:
        if not _is_file(new):
            return graph.schema.diff(old, new)
        from omnigraph.evolution.migration import migration_plan
        from omnigraph.source_files import schema_text

        text, name = schema_text(Path(new))
        return migration_plan(graph.schema.at(old).catalog, Source(name, text))


def _is_file(name: str) -> bool:
    return name.endswith(".pg") or Path(name).is_file()


def _print_steps(plan: "MigrationPlan") -> None:
    from omnigraph.evolution.migration.plan import HEADINGS

    for finding in (*plan.notes, *plan.refused):
        print_diagnostic(finding)
    if plan.steps:
        print_table(HEADINGS, plan.rows(), numbers=HEADINGS[-1:])


def _plan_summary(plan: "MigrationPlan") -> str:
    if plan.is_empty:
        return "nothing to do: both schemas mean the same"
    parts = [plural(len(plan.steps), "step")]
    losing = sum(step.loses_data for step in plan.steps)
    if losing:
        parts.append(f"{losing} of them with data loss; the history keeps it, unless --allow-data-loss is given")
    if plan.refused:
        parts.append(f"{len(plan.refused)} refused, so the change cannot be made as it is")
    if plan.violation_count:
        parts.append(f"{plural(plan.violation_count, 'row')} in the way, so the change cannot be made yet")
    return "; ".join(parts)
