"""The commands about pipelines: validate, plan, run, status and history."""

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import typer

from omnigraph.cli.grammar import named_graph
from omnigraph.cli.opening import open_graph
from omnigraph.cli.output import (
    FAILED,
    plural,
    print_commit,
    print_diagnostic,
    print_fields,
    print_json,
    print_summary,
    print_table,
    show_progress,
)
from omnigraph.errors import PipelineError
from omnigraph.pipelines import Pipeline, PipelineRun, read_pipeline
from omnigraph.pipelines.results import ExpectationOutcome, PlannedSource


def run_validate(file: Path, engine: str, *, as_json: bool) -> int:
    """Reports all mistakes of a pipeline; returns the exit code."""
    try:
        pipeline = read_pipeline(file)
        with open_graph(named_graph(), "r") as graph:
            findings = pipeline.validate(graph, engine=engine)
    except PipelineError as error:
        findings = tuple(error.diagnostics)
    errors = sum(each.is_error for each in findings)
    if as_json:
        print_json({"ok": errors == 0, "findings": [each.as_json() for each in findings]})
    else:
        for each in findings:
            print_diagnostic(each)
        print_summary({"error": errors}, failed=errors > 0)
    return FAILED if errors else 0


def run_plan(file: Path, engine: str, *, full: bool, count: bool, as_json: bool) -> None:
    """Shows what a run would do."""
    pipeline = read_pipeline(file)
    with open_graph(named_graph(), "r") as graph:
        plan = pipeline.plan(graph, engine=engine, full=full, count=count)
    if as_json:
        print_json(plan.as_json())
        return
    typer.echo(f"engine: {plan.engine}, because {plan.why}", err=True)
    typer.echo(f"batch {plan.batch} on branch {plan.branch}")
    sources = (
        (each.name, each.increment, "yes" if each.is_new else "no", _what(each), _count(each.rows))
        for each in plan.sources
    )
    print_table(("source", "increment", "new", "from", "rows"), sources)
    print_table(("type", "records"), ((name, _count(rows)) for name, rows in plan.writes.items()))
    for change in plan.schema_changes:
        typer.echo(f"not written, because the schema lacks it: {change}")


def run_run(
    file: Path, engine: str, *, full: bool, replay: Sequence[str], continuous: float | None, as_json: bool
) -> None:
    """Runs a pipeline once, or again and again until it is interrupted."""
    pipeline = read_pipeline(file)
    stopped = threading.Event()
    with open_graph(named_graph()) as graph:
        while True:
            with show_progress(quiet=as_json) as report:
                done = pipeline.run(graph, engine=engine, full=full, replay=replay, report=report)
            if continuous is None or done.commit is not None:
                _print_run(pipeline, done, as_json=as_json)
            full, replay = False, ()  # what is left, and what comes later, is read as after any other batch
            if done.has_more:
                continue
            if continuous is None:
                return
            stopped.wait(continuous)


def _print_run(pipeline: Pipeline, done: PipelineRun, *, as_json: bool) -> None:
    if as_json:
        print_json(done.as_json())
        return
    typer.echo(f"engine: {done.engine}, because {done.why}", err=True)
    if done.commit is None:
        typer.echo("nothing is new, so there is no commit")
        return
    counts = {**done.nodes, **done.edges}
    print_table(("type", "records"), ((name, f"{count:,}") for name, count in counts.items()))
    _print_outcomes(done.expectations)
    if done.rejected_rows:
        typer.echo(f"{plural(done.rejected_rows, 'rejected row')} in {pipeline.place_of_rejected(done.run)}")
    typer.echo(f"batch {done.batch} on branch {done.branch}")
    print_commit(done.commit)
    if done.merged is not None:
        typer.echo("merged as:")
        print_commit(done.merged)


def _print_outcomes(outcomes: Iterable[ExpectationOutcome]) -> None:
    shown = [(each.name, each.view, each.action, f"{each.violations:,} of {each.rows:,}") for each in outcomes]
    if shown:
        print_table(("expectation", "rows of", "action", "violations"), shown)


def run_status(file: Path, *, as_json: bool) -> None:
    """Shows how far a pipeline has come."""
    pipeline = read_pipeline(file)
    with open_graph(named_graph(), "r") as graph:
        status = pipeline.status(graph)
    if as_json:
        print_json(status.as_json())
        return
    document = status.as_json()
    for name in ("files", "after"):
        document[name] = ", ".join(f"{source}: {value}" for source, value in document[name].items()) or None
    document["waiting"] = ", ".join(document["waiting"]) or None
    print_fields(document)


def run_history(file: Path, *, as_json: bool) -> None:
    """Lists the batches of a pipeline, newest first."""
    pipeline = read_pipeline(file)
    with open_graph(named_graph(), "r") as graph:
        batches = pipeline.history(graph)[::-1]
    if as_json:
        print_json([each.as_json() for each in batches])
        return
    rows = (
        (
            str(each.number),
            each.commit.graph_commit_id,
            each.commit.created_at.isoformat(timespec="seconds"),
            f"{sum(each.details.get('read', {}).values()):,}",
            f"{each.details.get('rejected', 0):,}",
            each.run or "",
            "yes" if each.details.get("definition") == pipeline.definition.digest else "no",
        )
        for each in batches
    )
    print_table(("batch", "commit", "at", "rows read", "rejected", "run", "this file"), rows)


def _what(source: PlannedSource) -> str:
    """What is read of a source: its files, or the positions between which it is read."""
    if source.after is not None or source.upto is not None:
        return f"{source.after or 'the beginning'} to {source.upto or 'the end'}"
    files = source.files
    return ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")


def _count(rows: int | None) -> str:
    return "?" if rows is None else f"{rows:,}"
