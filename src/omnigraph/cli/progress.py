"""Bars for long work: one for each stage, on stderr, where a person is looking."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from omnigraph.api.progress import Progress, Report, no_report


@contextmanager
def shown_progress(*, quiet: bool = False) -> Iterator[Report]:
    """Shows what is reported while the block runs; nothing when nobody is looking, or nobody should be told."""
    if quiet or not sys.stderr.isatty():
        yield no_report
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rows]}"),
        TimeElapsedColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
        stages: dict[str, TaskID] = {}

        def report(progress: Progress) -> None:
            if progress.stage not in stages:
                stages[progress.stage] = bars.add_task(progress.stage, total=None, rows="")
            rows = f"{progress.rows:,} rows" if progress.rows else ""
            bars.update(stages[progress.stage], completed=progress.done, total=progress.total or None, rows=rows)

        yield report
