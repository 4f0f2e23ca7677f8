"""Tables in the documentation that repeat declarations of the code: generated between markers, and checked by a test.

A page has a block

    <!-- table: options load -->
    <!-- end of table -->

whose first word names a function that is registered here with `table`, and whose other words are its arguments. The
function gives the rows, the first of which is the heading. `python -m tools.docs_tables` writes the blocks of all
pages; with `--check` it lists the pages whose blocks are not up to date, and ends with 1 if there are any.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias

from fastapi.routing import APIRoute

ROOT = Path(__file__).parents[1]
Row: TypeAlias = Sequence[str]
_BLOCK = re.compile(r"(?ms)^<!-- table: ([^\n]+?) -->\n(.*?)^<!-- end of table -->$")
_TABLES: dict[str, Callable[..., list[Row]]] = {}


def table(name: str) -> Callable[[Callable[..., list[Row]]], Callable[..., list[Row]]]:
    """Registers a function that gives the rows of a table, under the first word of its blocks."""

    def register(rows: Callable[..., list[Row]]) -> Callable[..., list[Row]]:
        _TABLES[name] = rows
        return rows

    return register


def pages() -> list[Path]:
    """The pages that may have tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def generate_page(text: str) -> str:
    """A page with all its blocks up to date."""

    def generate_block(found: re.Match[str]) -> str:
        name, *arguments = found[1].split()
        lines = _markdown(_TABLES[name](*arguments))
        return f"<!-- table: {found[1]} -->\n{lines}<!-- end of table -->"

    return _BLOCK.sub(generate_block, text)


def outdated_pages() -> list[str]:
    """The pages with a block that is not as the code declares it."""
    found = [page for page in pages() if (text := page.read_text("utf-8")) != generate_page(text)]
    return [page.relative_to(ROOT).as_posix() for page in found]


def _markdown(rows: list[Row]) -> str:
    heading, *rest = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in (heading, ["---"] * len(heading), *rest))


# --- the command line ---


def _command(words: Sequence[str]) -> Any:
    from typer.main import get_command

    from omnigraph.cli.main import app

    command: Any = get_command(app)
    for word in words:
        command = command.commands[word]
    return command


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """All commands with their words, those of groups too, in the order in which help lists them."""

    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        if not hasattr(command, "commands"):
            yield words, command
            return
        for name, each in command.commands.items():
            yield from below(each, (*words, name))

    yield from below(_command(()), ())


@table("commands")
def command_rows() -> list[Row]:
    """Every command, with a link to its section and the first sentence of its help."""
    rows: list[Row] = [("Command", "Purpose")]
    for words, command in commands():
        summary = re.split(r"(?<=\.)\s", command.help.strip(), maxsplit=1)[0]
        rows.append((f"[`{' '.join(words)}`](#{'-'.join(words)})", summary.replace("\n", " ")))
    return rows


@table("options")
def option_rows(*words: str) -> list[Row]:
    """The arguments and options of a command, without those that all commands about a graph have."""
    command = _command(words)
    common = {"as_json", "help"} | getattr(command, "added", set())
    return _parameter_rows(each for each in command.params if each.name not in common)


@table("common-options")
def common_option_rows() -> list[Row]:
    """The arguments and options that every command about a graph has."""
    command = _command(("status",))
    parameters = [each for each in command.params if each.name in command.added]
    return _parameter_rows([*parameters, *(each for each in command.params if each.name == "as_json")])


def _parameter_rows(parameters: Iterable[Any]) -> list[Row]:
    rows: list[Row] = [("Option", "Default", "Meaning")]
    rows += [(_spelling(each), _default(each), each.help) for each in parameters if not getattr(each, "hidden", False)]
    return rows


def _spelling(parameter: Any) -> str:
    metavar = parameter.metavar or "N"
    if parameter.param_type_name == "argument":
        return f"`{metavar}`"
    names = [*parameter.opts, *parameter.secondary_opts]
    value = "" if parameter.is_flag else f" {metavar}"
    return ", ".join(f"`{name}{value}`" for name in names)


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    shown = getattr(parameter, "show_default", False)
    if isinstance(shown, str):
        return shown
    if getattr(parameter, "envvar", None):
        return f"`${parameter.envvar}`"
    default = parameter.default
    return f"`{default}`" if shown and default is not None and default is not False else ""


@table("settings")
def setting_rows() -> list[Row]:
    """The environment variables that OmniGraph reads."""
    from omnigraph.cli.doctor import SETTINGS

    rows: list[Row] = [("Variable", "Default", "Meaning")]
    return [*rows, *((f"`{name}`", each.default, each.meaning) for name, each in SETTINGS.items())]


@table("exit-codes")
def exit_code_rows() -> list[Row]:
    """What each exit code of a command means, with the codes of the errors that end with it."""
    from omnigraph.cli.output import EXIT_CODES

    errors: dict[int, list[str]] = {number: [] for number in EXIT_CODES}
    for error in error_classes():
        errors[error.exit_code].append(f"`{error.code}`")
    rows: list[Row] = [("Exit code", "Meaning", "Errors")]
    return [*rows, *((str(number), text, ", ".join(sorted(errors[number]))) for number, text in EXIT_CODES.items())]


def error_classes() -> list[Any]:
    """All errors with a code of their own, each before those that it is the base of."""
    from omnigraph import errors

    found: dict[str, Any] = {}

    def collect(error: Any) -> None:
        if "code" in vars(error) and error.__module__ == errors.__name__:
            found.setdefault(error.code, error)
        for each in error.__subclasses__():
            collect(each)

    collect(errors.OmnigraphError)
    return [*found.values()]


# --- errors and routes ---


@table("errors")
def error_rows() -> list[Row]:
    """Every error of Python, with its fields, HTTP status and exit code."""
    import omnigraph

    rows: list[Row] = [("Error", "`code`", "Meaning", "Fields", "HTTP", "Exit")]
    for error in error_classes():
        name = f"og.{error.__name__}" if hasattr(omnigraph, error.__name__) else error.__name__
        fields = [] if error.__init__ is Exception.__init__ else [*signature(error).parameters]
        meaning = re.split(r"(?<=\.)\s", inspect.cleandoc(error.__doc__), maxsplit=1)[0].replace("\n", " ")
        codes = (str(error.http_status), str(error.exit_code))
        rows.append((f"`{name}`", f"`{error.code}`", meaning, ", ".join(f"`{each}`" for each in fields), *codes))
    return rows


@table("statuses")
def status_rows() -> list[Row]:
    """Every HTTP status of an error, with the codes of the errors that have it."""
    from omnigraph.errors import OmnigraphError
    from omnigraph.server import errors as server_errors
    from omnigraph.server.models import STATUSES

    codes: dict[int, list[str]] = {status: [] for status in STATUSES}
    own = (each for each in vars(server_errors).values() if isinstance(each, type) and issubclass(each, OmnigraphError))
    for error in (*error_classes(), *own):
        if (code := f"`{error.code}`") not in codes[error.http_status]:
            codes[error.http_status].append(code)
    rows: list[Row] = [("Status", "Meaning", "Codes")]
    return [*rows, *((str(status), text, ", ".join(codes[status])) for status, text in STATUSES.items())]


@table("routes")
def route_rows(tag: str) -> list[Row]:
    """The routes with a tag, with the parameters that each takes in its address and its body."""
    from omnigraph.server.routes import ALL_ROUTERS

    rows: list[Row] = [("Method", "Path", "Takes", "Purpose")]
    for route in (each for router in ALL_ROUTERS for each in router.routes):
        if isinstance(route, APIRoute) and tag in route.tags:
            fields = [each.alias for each in route.dependant.query_params]
            for body in route.dependant.body_params:
                model: Any = body.field_info.annotation
                fields += [field.alias or name for name, field in model.model_fields.items()]
            takes = " ".join(f"`{name}`" for name in fields)
            path = re.sub(r":path\}", "}", route.path)
            rows.append((", ".join(sorted(route.methods or ())), f"`{path}`", takes, route.summary or ""))
    return rows


def main(arguments: Sequence[str]) -> int:
    """Writes all tables, or lists the pages that are not up to date; gives the exit code."""
    outdated = outdated_pages()
    if "--check" in arguments:
        sys.stdout.writelines(f"{page}: run python -m tools.docs_tables\n" for page in outdated)
        return int(bool(outdated))
    for name in outdated:
        page = ROOT / name
        page.write_text(generate_page(page.read_text("utf-8")), "utf-8")
        sys.stdout.write(f"{name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
