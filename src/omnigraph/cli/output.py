"""How commands speak: JSON for scripts on stdout, text for people, errors on stderr."""

import json
import sys
from typing import Any

import typer

from omnigraph.diagnostics import Diagnostic, Severity
from omnigraph.errors import MergeConflicts, OmnigraphError, PolicyError, QueryError, SchemaError, SchemaRefused

_COLORS = {Severity.ERROR: typer.colors.RED, Severity.WARNING: typer.colors.YELLOW}


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def print_error(error: OmnigraphError, *, as_json: bool) -> None:
    """An error as `error[code]: message`, merge conflicts with a table of all of them; or as JSON."""
    if as_json:
        notes = getattr(error, "__notes__", None)
        document = {"code": error.code, "message": str(error), "details": error.details}
        print_json({"error": {**document, "notes": notes} if notes else document})
    elif isinstance(error, SchemaError | SchemaRefused | QueryError | PolicyError):
        typer.secho(str(error), fg=typer.colors.RED, err=True)
    else:
        typer.secho(f"error[{error.code}]: {error}", fg=typer.colors.RED, err=True)
        for note in getattr(error, "__notes__", ()):
            typer.secho(f"note: {note}", err=True)
        if isinstance(error, MergeConflicts):
            from omnigraph.cli.branches import print_conflicts  # noqa: PLC0415 - most errors need no table

            print_conflicts(error.conflicts)


def print_diagnostic(diagnostic: Diagnostic) -> None:
    """A finding on stdout, its first line coloured in a terminal."""
    head, _, rest = diagnostic.render().partition("\n")
    typer.secho(head, fg=_COLORS[diagnostic.severity], bold=True)
    typer.echo(rest + "\n")


def plural(count: int, noun: str) -> str:
    """A count with its noun."""
    plurals = {"query": "queries", "index": "indexes"}
    return f"{count} {noun}" if count == 1 else f"{count} {plurals.get(noun, noun + 's')}"


def is_interactive() -> bool:
    """Whether a person is looking at stdout."""
    return sys.stdout.isatty()
