"""Declares the commands.

A command imports what it needs in its body, and only there: `omnigraph --help` costs little more than Typer itself.
"""
# ruff: noqa: PLC0415

import sys
from pathlib import Path
from typing import Annotated

import typer

from omnigraph.errors import OmnigraphError, UsageError

app = typer.Typer(
    name="omnigraph",
    help="A typed property graph in a lakehouse, with branches, commits and merges.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version."""
    import omnigraph
    from omnigraph.cli.output import print_json

    if as_json:
        print_json({"version": omnigraph.__version__})
    else:
        typer.echo(omnigraph.__version__)


@app.command()
def lint(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...", help="Query files (.gq), schemas (.pg), or folders of them.", show_default=False
        ),
    ] = None,
    schema: Annotated[
        Path | None, typer.Option(metavar="FILE.pg", help="The schema that the queries are checked against.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check schemas and queries, and say what each query reads and writes.

    All findings of all files are reported at once. The exit code is 1 when there is an error among them, else 0.
    """
    from omnigraph.cli import lint as command

    if not files and schema is None:
        raise UsageError("name at least one file, or a --schema")
    raise typer.Exit(command.run(files or [], schema, as_json=as_json))


@app.command()
def demo(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="Also write the sample's files there.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the sample that ships with OmniGraph and show its catalog."""
    from omnigraph.cli import demo as command

    raise typer.Exit(command.run(directory, as_json=as_json))


def run() -> None:
    """The console script: typed errors become a message and an exit code, never a traceback."""
    try:
        app()
    except OmnigraphError as error:
        from omnigraph.cli.output import print_error

        print_error(error, as_json="--json" in sys.argv)
        sys.exit(2 if isinstance(error, UsageError) else 1)
