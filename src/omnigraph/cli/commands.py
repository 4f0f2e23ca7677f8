"""Commands out of requests: names, types, defaults and texts of options are those of the parameters of a verb.

A command is declared when it is looked up. Most runs need one of them, and a request takes a while to import.
"""

from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, field, replace
from datetime import timedelta
from importlib import import_module
from inspect import Parameter as Argument
from inspect import Signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from omnigraph.api.base import ParameterScope, Request, VerbParameter, description_of, parameters_of
from omnigraph.cli.grammar import AsJson, GraphCommand, named_graph, skip_conversion
from omnigraph.cli.opening import open_graph
from omnigraph.cli.output import print_json, show_progress
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import UsageError

Values: TypeAlias = dict[str, Any]
"""The arguments and options that a command was given, by name."""

Durability = Annotated[
    str | None,
    typer.Option(
        metavar="full|fast", help="Whether a commit is on the disk before it is acknowledged.", show_default="full"
    ),
]


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the command line spells a parameter, where it is not `--name`."""

    names: tuple[str, ...] = ()
    metavar: str | None = None
    envvar: str | None = None
    default_text: str | None = None
    """What is shown as the default, where the value does not say it."""
    text: str | None = None
    """The help, where it is not the text of the parameter, which is written for Python."""


_AGE, _STATE, _TYPE = Spelling(metavar="AGE"), "BRANCH|COMMIT|TAG", "TYPE"
SPELLINGS: Mapping[str, Spelling] = {
    "actor": Spelling(("--as",), "ACTOR", "OMNIGRAPH_ACTOR"),
    "algorithm": Spelling(metavar="ANALYSIS"),
    "all": Spelling(("--all",)),
    "at": Spelling(metavar=f"{_STATE}|VERSION", default_text="main"),
    "application": Spelling(metavar="NAME"),
    "batch": Spelling(metavar="N"),
    "branch": Spelling(metavar="BRANCH"),
    "commit": Spelling(("--at",), f"{_STATE}|VERSION", default_text="main"),
    "commit_id": Spelling(metavar="COMMIT"),
    "cursor": Spelling(metavar="CURSOR"),
    "damping": Spelling(default_text="0.85"),
    "delete": Spelling(metavar="COLUMN[=VALUE]"),
    "details": Spelling(metavar="TEXT"),
    "directed": Spelling(("--directed/--undirected",)),
    "edges": Spelling(("--edge",), _TYPE),
    "force": Spelling(text="With --confirm: publish everything that other programs committed."),
    "from_": Spelling(("--from",), _STATE),
    "grace": _AGE,
    "edge_id": Spelling(metavar="COLUMNS"),
    "id": Spelling(metavar="ID"),
    "if_commit": Spelling(
        metavar="COMMIT",
        text="Write only if this is still the newest commit of the branch; otherwise the exit code is 4.",
    ),
    "into": Spelling(metavar="BRANCH"),
    "iterations": Spelling(default_text="100; 20 for label-propagation"),
    "keep": Spelling(metavar="N"),
    "left": Spelling(metavar="A"),
    "message": Spelling(("-m", "--message"), "TEXT"),
    "name": Spelling(metavar="NAME"),
    "new": Spelling(metavar="FILE.pg", text="The file with the new schema."),
    "nodes": Spelling(("--node",), _TYPE),
    "older_than": _AGE,
    "property": Spelling(metavar="NAME"),
    "resolution": Spelling(default_text="1"),
    "right": Spelling(metavar="B"),
    "seed": Spelling(default_text="0"),
    "sequence": Spelling(metavar="COLUMN"),
    "snapshot": Spelling(
        metavar="COMMIT|TAG|VERSION",
        text="Read this commit, tag or version of `main`, not the head of the branch.",
    ),
    "source": Spelling(metavar="BRANCH"),
    "sources": Spelling(("--source",), "ID"),
    "targets": Spelling(("--target",), "ID"),
    "timeout": Spelling(metavar="SECONDS"),
    "tolerance": Spelling(default_text="1e-9"),
    "type": Spelling(metavar=_TYPE),
    "types": Spelling(("--type",), _TYPE),
    "weight": Spelling(metavar="PROPERTY"),
    "write": Spelling(metavar="COLUMN=PROPERTY"),
}
_FILES = ("new",)
_NO_SPELLING = Spelling()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainCommand:
    """A command that is a function with typed parameters."""

    function: Callable[..., None]
    kind: type[TyperCommand] = TyperCommand

    def build(self, name: str) -> Any:
        """The command, as Typer makes it."""
        return _typer_command(name, self.kind, self.function)


def exit_code_0(result: Any) -> int:  # noqa: ARG001 - most commands succeed whatever the result is
    """The exit code of a command whose result is never a failure."""
    return 0


@dataclass(frozen=True, slots=True)
class VerbCommand:
    """A command that runs one verb or several. Modules are named, and imported when the command runs."""

    requests: tuple[str, ...]
    """The requests of the verbs, as in `history.TagShowRequest`. The first has the parameters."""
    _: KW_ONLY
    show: str = ""
    """Prints the result for people, as in `history.show_merge`; it takes the result and the request."""
    run: str = ""
    """Or the function that does everything; it takes the values of the command line."""
    positional: tuple[str, ...] = ()
    options: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Options of the command alone: their types and defaults. They replace parameters of the same name."""
    skip: tuple[str, ...] = ()
    help: str = ""
    exit_code: Callable[[Any], int] = exit_code_0
    kind: type[GraphCommand] = GraphCommand

    @property
    def request(self) -> type[Request[Any]]:
        """The request that has the parameters; without one, the command has only its own options."""
        return request_named(self.requests[0]) if self.requests else Request

    def build(self, name: str) -> Any:
        """The command, as Typer makes it."""
        request = self.request
        skip = (*self.skip, *self.options)
        own = [_argument(name, kind, default) for name, (kind, default) in self.options.items()]
        arguments = [each for each in own if isinstance(each.annotation.__metadata__[0], typer.models.ArgumentInfo)]
        derived = options_of(request, positional=self.positional, skip=skip)
        count = len(self.positional)
        last = [_argument("durability", Durability)] if _may_write(request) else []
        parameters = [
            *derived[:count],
            *arguments,
            *(each for each in own if each not in arguments),
            *derived[count:],
            *last,
            _argument("as_json", AsJson, default=False),
        ]

        def command(**values: Any) -> None:
            if self.run:
                _function(self.run)(values)
            else:
                _run_verb(self, values)

        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        text = self.help or description_of(request)
        return _typer_command(name, self.kind, command, help=" ".join(text.split()))


def request_named(words: str) -> type[Request[Any]]:
    """A request by its module and class."""
    module, _, name = words.partition(".")
    found: type[Request[Any]] = getattr(import_module(f"omnigraph.api.{module}"), name)
    return found


def _may_write(request: type[Request[Any]]) -> bool:
    """Whether the graph may have to be opened for writing."""
    return request.writes or bool({"confirm", "write"} & {each.name for each in parameters_of(request)})


def _typer_command(name: str, kind: type[TyperCommand], function: Callable[..., None], **settings: Any) -> Any:
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)
    holder.command(name, cls=kind, **settings)(function)
    return typer.main.get_command(holder)


def _argument(name: str, kind: Any, default: Any = None) -> Argument:
    return Argument(name, Argument.KEYWORD_ONLY, annotation=kind, default=default)


class LazyCommands(UserDict[str, Any]):
    """Commands that are built when they are looked up."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if isinstance(found, PlainCommand | VerbCommand):
            found = self.data[name] = found.build(name)
        return found


class CommandGroup(TyperGroup):
    """A group of commands, which are built when they are looked up."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "rich_markup_mode": None})
        self.commands = LazyCommands(self.commands)

    def get_params(self, ctx: Any) -> list[Any]:
        return skip_conversion(super().get_params(ctx))


# --- options out of parameters ---


def options_of(
    request: type[Request[Any]], *, positional: tuple[str, ...] = (), skip: tuple[str, ...] = ()
) -> list[Argument]:
    """The parameters of a verb as those of a command: arguments first, then options."""
    found = [
        each for each in parameters_of(request) if each.scope is not ParameterScope.PROCESS and each.name not in skip
    ]
    arguments = [_positional(each) for name in positional for each in found if each.name == name]
    return [*arguments, *(_option(each) for each in found if each.name not in positional)]


def _positional(parameter: VerbParameter) -> Argument:
    spelling = SPELLINGS.get(parameter.name, _NO_SPELLING)
    kind: Any = Path if parameter.name in _FILES else str
    described = typer.Argument(metavar=spelling.metavar or parameter.name.upper(), help=spelling.text or parameter.doc)
    return Argument(parameter.name, Argument.KEYWORD_ONLY, annotation=Annotated[kind, described])


def _option(parameter: VerbParameter) -> Argument:
    spelling = SPELLINGS.get(parameter.name, _NO_SPELLING)
    kind, default = _kind(parameter), parameter.default
    names = spelling.names or (f"--{parameter.wire_name.replace('_', '-')}",)
    if isinstance(default, timedelta):
        default = f"{default.total_seconds() / 3600:.0f}h"
    shown: bool | str = spelling.default_text or (default is not None and default is not False)
    text = spelling.text or parameter.doc
    described = typer.Option(
        *names,
        metavar="|".join(parameter.choices) or spelling.metavar,
        envvar=spelling.envvar,
        help=f"{text.removesuffix('.')}; may be repeated." if "list" in str(kind) else text,
        show_default=shown,
        min=parameter.bounds.least if kind in (int | None, float | None) else None,
    )
    return _argument(parameter.name, Annotated[kind, described], default)


def _kind(parameter: VerbParameter) -> Any:
    kinds = {*get_args(parameter.hint)} or {parameter.hint}
    if parameter.takes_many or parameter.name == "write":
        return list[str] | None
    for plain in (bool, int, float):
        if plain in kinds and str not in kinds:
            return plain | None if parameter.default is None else plain
    return str if isinstance(parameter.default, str | timedelta) else str | None


def request_from(request: type[Request[Any]], values: Mapping[str, Any], **more: Any) -> Any:
    """The request that the values of a command line describe."""
    names = {each.name for each in parameters_of(request)} - more.keys()
    return request(**{name: _value(name, value) for name, value in values.items() if name in names}, **more)


def _value(name: str, value: Any) -> Any:
    if name in ("snapshot", "commit") and isinstance(value, str) and value.isdecimal():
        return int(value)
    if name == "write":
        pairs = [each.partition("=") for each in value or ()]
        if any(not column or not property for column, _, property in pairs):
            raise UsageError("invalid --write: expected COLUMN=PROPERTY")
        return {column: property for column, _, property in pairs} or None
    return value or None if isinstance(value, list) else value


# --- running a command ---


def _function(words: str) -> Callable[..., Any]:
    module, _, name = words.partition(".")
    found: Callable[..., Any] = getattr(import_module(f"omnigraph.cli.{module}"), name)
    return found


def _run_verb(command: VerbCommand, values: Values) -> None:
    as_json, durability = values.pop("as_json"), values.pop("durability", None)
    request = request_from(command.request, values)
    reports = "report" in {each.name for each in parameters_of(command.request)}
    mode: Literal["r", "rw"] = "rw" if request.is_write else "r"
    with open_graph(named_graph(), mode, durability=durability) as graph, show_progress(quiet=as_json) as report:
        result = graph._run(replace(request, report=report) if reports else request)
    if as_json:
        print_json(_document(result, values))
    else:
        _function(command.show)(result, request)
    if code := command.exit_code(result):
        raise typer.Exit(code)


def _document(result: Any, values: Values) -> Any:
    match result:
        case None:
            return {"deleted": values["name"]}
        case list():
            return [each.as_json() for each in result]
        case _:
            return result.as_json()
