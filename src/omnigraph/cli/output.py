"""How commands print: JSON for scripts, text and tables for people, errors and progress on standard error."""
# ruff: noqa: PLC0415 - Rich is imported when there is a table or a bar

import json
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from omnigraph.api.progress import Progress, Report, no_report
from omnigraph.diagnostics import Diagnostic, Severity, any_of
from omnigraph.errors import (
    MergeConflicts,
    OmnigraphError,
    PipelineError,
    PolicyError,
    QueryError,
    SchemaError,
    SchemaRefused,
    UsageError,
)

if TYPE_CHECKING:
    from omnigraph.api.history import Commit, Tag

EXIT_CODES = {
    0: "The command succeeded.",
    1: "The command failed, or what it checks is not in order.",
    2: "Wrong usage: options or arguments are missing, unknown, or do not go together.",
    3: "Refused: another writer was first, something is in use, exists or conflicts, the change is impossible, a "
    "policy denies it, or it is not confirmed.",
    4: "The branch is no longer at the commit of `--if-commit`.",
}
"""What the exit code of a command means. An error says with which it ends."""

FAILED, REFUSED = 1, 3

_Choice = TypeVar("_Choice", bound=StrEnum)

_COLORS = {Severity.ERROR: typer.colors.RED, Severity.WARNING: typer.colors.YELLOW}
_ID_LENGTH = 26
_UNLIMITED_WIDTH = 10_000
_LONGEST_VALUE = 60
_FORCING = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Variables that make Rich write as to a terminal."""


# --- JSON and lines ---


def chosen_format(kind: type[_Choice], values: Mapping[str, Any]) -> _Choice:
    """The format of the output that a command was given; `--json` wins."""
    name = "json" if values["as_json"] else values["format"]
    if name not in list(kind):
        raise UsageError(f"invalid --format {name}: expected {any_of(list(kind))}")
    return kind(name)


def print_json(document: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_error(error: OmnigraphError, *, as_json: bool) -> None:
    """An error as `error[code]: message`, merge conflicts with a table of all of them; or as JSON."""
    notes = getattr(error, "__notes__", [])
    if as_json:
        document = {"code": error.code, "message": str(error), "details": error.details}
        print_json({"error": {**document, "notes": notes} if notes else document})
    elif isinstance(error, SchemaError | SchemaRefused | QueryError | PipelineError | PolicyError):
        typer.secho(str(error), fg=typer.colors.RED, err=True)
    else:
        typer.secho(f"error[{error.code}]: {error}", fg=typer.colors.RED, err=True)
        for note in notes:
            typer.secho(f"note: {note}", err=True)
        if isinstance(error, MergeConflicts):
            from omnigraph.cli.history import print_conflicts

            print_conflicts(error.conflicts)


def print_diagnostic(diagnostic: Diagnostic) -> None:
    """A finding on standard output, its first line coloured in a terminal."""
    head, _, rest = diagnostic.render().partition("\n")
    typer.secho(head, fg=_COLORS[diagnostic.severity], bold=True)
    typer.echo(rest + "\n")


def print_fields(document: dict[str, Any]) -> None:
    """The fields of one thing that have a value, one on each line."""
    for name, value in document.items():
        if value is not None:
            typer.echo(f"{name:24} {value}")


def print_commit(commit: "Commit | None") -> None:
    """The commit that a write became."""
    if commit is None:
        typer.echo("nothing changed, so there is no commit")
    else:
        typer.echo(f"commit {commit.graph_commit_id}  {time_text(commit)}")


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    plurals = {"query": "queries", "index": "indexes"}
    return f"{count} {noun}" if count == 1 else f"{count} {plurals.get(noun, noun + 's')}"


def print_summary(counts: Mapping[str, int], *, failed: bool) -> None:
    """Counts with their nouns in one line, coloured in a terminal."""
    text = ", ".join(plural(count, noun) for noun, count in counts.items())
    typer.secho(text, fg=typer.colors.RED if failed else typer.colors.GREEN)


def time_text(made: "Commit | Tag") -> str:
    """The time of a commit or a tag, in UTC."""
    return made.created_at.strftime("%Y-%m-%d %H:%M:%S")


def short_text(text: str) -> str:
    """A value of any length, cut to fit into a table."""
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


# --- tables and progress ---


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    ids: Collection[str] = (),
    numbers: Collection[str] = (),
    title: str | None = None,
    err: bool = False,
) -> None:
    """A table: as wide as the terminal, or as wide as it needs to be if there is none.

    Words are folded, ids are never cut since they are there to be copied, and numbers stand at the right.
    """
    stream, cells = sys.stderr if err else sys.stdout, [tuple(row) for row in rows]
    is_terminal = stream.isatty()
    if not is_terminal and title is None and _is_plain(stream, (headings, *cells)):
        stream.write(_plain_table(headings, cells, ids=ids, numbers=numbers))
        return
    from rich.console import Console
    from rich.table import Column, Table

    def column(name: str) -> Column:
        if name in ids:
            return Column(name, no_wrap=True, min_width=_ID_LENGTH)
        return Column(name, overflow="fold", justify="right" if name in numbers else "left")

    table = Table(*map(column, headings), title=title, title_justify="left")
    for row in cells:
        table.add_row(*row)
    width = None if is_terminal else _UNLIMITED_WIDTH
    Console(stderr=err, markup=False, highlight=False, emoji=False, width=width).print(table)


def _is_plain(stream: Any, rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table can be printed without Rich, whose import takes as long as a short command."""
    return (
        len(rows) > 1
        and sum(max(map(len, column)) for column in zip(*rows, strict=True)) < _UNLIMITED_WIDTH // 2
        and str(stream.encoding).lower() == "utf-8"
        and not os.environ.keys() & _FORCING
        and all(cell.isascii() and cell.isprintable() for row in rows for cell in row)
    )


def _plain_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, ids: Collection[str], numbers: Collection[str]
) -> str:
    """A table of one-line ASCII texts, as Rich prints it where there is no terminal."""
    least = [_ID_LENGTH if name in ids else 0 for name in headings]
    widths = [
        max(floor, *map(len, column)) for floor, column in zip(least, zip(headings, *rows, strict=True), strict=True)
    ]
    lines = {line: [line * (width + 2) for width in widths] for line in "━─"}

    def text(row: Sequence[str], bar: str) -> str:
        cells = zip(headings, row, widths, strict=True)
        padded = (cell.rjust(width) if name in numbers else cell.ljust(width) for name, cell, width in cells)
        return f"{bar} {f' {bar} '.join(padded)} {bar}"

    head = ("┏" + "┳".join(lines["━"]) + "┓", text(headings, "┃"), "┡" + "╇".join(lines["━"]) + "┩")
    body = (text(row, "│") for row in rows)
    return "\n".join((*head, *body, "└" + "┴".join(lines["─"]) + "┘")) + "\n"


@contextmanager
def show_progress(*, quiet: bool = False) -> Iterator[Report]:
    """Shows a bar for each stage of long work on standard error, if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield no_report
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

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
