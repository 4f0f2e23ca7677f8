"""Options and commands out of requests: names, types, defaults and texts are those of the parameters of a verb.

A command that is one verb needs no more than its request and a function that shows the result. Others take the options
of a request with `takes`, and do the rest themselves.
"""
# ruff: noqa: PLC0415 - a command imports what it needs when it runs

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from importlib import import_module
from inspect import Parameter as Argument
from inspect import Signature
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from omnigraph.api.base import Parameter, Request, Scope, parameters_of
from omnigraph.cli.options import AsJson, Durability, OnGraph, Store, Uri, named_graph, wrong_usage


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the command line spells a parameter, where it is not `--name`."""

    names: tuple[str, ...] = ()
    metavar: str | None = None
    envvar: str | None = None
    default_text: str | None = None
    """What is shown as the default, where the value does not say it."""


SPELLINGS: Mapping[str, Spelling] = {
    "actor": Spelling(("--as",), "ACTOR", "OMNIGRAPH_ACTOR"),
    "algorithm": Spelling(metavar="ANALYSIS"),
    "all": Spelling(("--all",)),
    "batch": Spelling(metavar="ROWS"),
    "branch": Spelling(metavar="BRANCH"),
    "commit": Spelling(("--at",), "COMMIT|BRANCH|TAG|VERSION", default_text="main"),
    "commit_id": Spelling(metavar="ID"),
    "cursor": Spelling(("--from",), "CURSOR"),
    "damping": Spelling(default_text="0.85"),
    "directed": Spelling(("--directed/--undirected",)),
    "edges": Spelling(("--edge",), "TYPE"),
    "from_": Spelling(("--from",), "BRANCH|COMMIT"),
    "grace": Spelling(metavar="AGE"),
    "if_commit": Spelling(metavar="ID"),
    "into": Spelling(metavar="BRANCH"),
    "iterations": Spelling(default_text="100"),
    "keep": Spelling(metavar="N"),
    "left": Spelling(metavar="A"),
    "message": Spelling(("-m", "--message"), "TEXT"),
    "name": Spelling(metavar="NAME"),
    "new": Spelling(metavar="NEW.pg"),
    "nodes": Spelling(("--node",), "TYPE"),
    "older_than": Spelling(metavar="AGE"),
    "property": Spelling(metavar="NAME"),
    "resolution": Spelling(default_text="1"),
    "right": Spelling(metavar="B"),
    "seed": Spelling(default_text="0"),
    "snapshot": Spelling(metavar="ID"),
    "source": Spelling(metavar="NAME"),
    "sources": Spelling(("--source",), "ID"),
    "targets": Spelling(("--target",), "ID"),
    "tolerance": Spelling(default_text="1e-9"),
    "type": Spelling(metavar="TYPE"),
    "types": Spelling(("--type",), "TYPE"),
    "weight": Spelling(metavar="PROPERTY"),
    "write": Spelling(metavar="COLUMN=PROPERTY"),
}
_FILES = ("new",)
_NO_SPELLING = Spelling()


def options_of(
    request: type[Request[Any]], *, positional: tuple[str, ...] = (), skip: tuple[str, ...] = ()
) -> list[Argument]:
    """The parameters of a verb as those of a command: arguments first, then options."""
    found = [each for each in parameters_of(request) if each.scope is not Scope.PROCESS and each.name not in skip]
    arguments = [_argument(each) for name in positional for each in found if each.name == name]
    return [*arguments, *(_option(each) for each in found if each.name not in positional)]


def _argument(parameter: Parameter) -> Argument:
    spelling = SPELLINGS.get(parameter.name, _NO_SPELLING)
    kind: Any = Path if parameter.name in _FILES else str
    described = typer.Argument(metavar=spelling.metavar or parameter.name.upper(), help=parameter.doc)
    return Argument(parameter.name, Argument.KEYWORD_ONLY, annotation=Annotated[kind, described])


def _option(parameter: Parameter) -> Argument:
    spelling = SPELLINGS.get(parameter.name, _NO_SPELLING)
    kind, default = _kind(parameter), parameter.default
    names = spelling.names or (f"--{parameter.wire_name.replace('_', '-')}",)
    if isinstance(default, timedelta):
        default = f"{default.total_seconds() / 3600:.0f}h"
    shown: bool | str = spelling.default_text or (default is not None and default is not False)
    text = f"{parameter.doc.removesuffix('.')}; may be repeated." if "list" in str(kind) else parameter.doc
    described = typer.Option(
        *names,
        metavar="|".join(parameter.choices) or spelling.metavar,
        envvar=spelling.envvar,
        help=text,
        show_default=shown,
        min=parameter.bounds.least if kind in (int | None, float | None) else None,
    )
    return Argument(parameter.name, Argument.KEYWORD_ONLY, annotation=Annotated[kind, described], default=default)


def _kind(parameter: Parameter) -> Any:
    kinds = {*get_args(parameter.hint)} or {parameter.hint}
    if parameter.takes_many or parameter.name == "write":
        return list[str] | None
    for plain in (bool, int, float):
        if plain in kinds and str not in kinds:
            return plain | None if parameter.default is None else plain
    return str if isinstance(parameter.default, str | timedelta) else str | None


def request_from(request: type[Request[Any]], values: Mapping[str, Any], **more: Any) -> Any:
    """The request that the words of a command line describe."""
    names = {each.name for each in parameters_of(request)}
    return request(**{name: _value(name, value) for name, value in values.items() if name in names}, **more)


def _value(name: str, value: Any) -> Any:
    if name in ("snapshot", "commit") and isinstance(value, str) and value.isdecimal():
        return int(value)
    if name == "write":
        pairs = [each.partition("=") for each in value or ()]
        if any(not column or not property for column, _, property in pairs):
            raise wrong_usage("--write is COLUMN=PROPERTY")
        return {column: property for column, _, property in pairs} or None
    return value or None if isinstance(value, list) else value


def takes(
    request: type[Request[Any]],
    *,
    skip: tuple[str, ...] = (),
    first: Mapping[str, tuple[Any, Any]] | None = None,
    last: Mapping[str, tuple[Any, Any]] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the options of a verb between those of its own, which have a type and a default."""

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        own = [
            [Argument(name, Argument.KEYWORD_ONLY, annotation=kind, default=default) for name, (kind, default) in each]
            for each in ((first or {}).items(), (last or {}).items())
        ]
        arguments = [*own[0], *options_of(request, skip=skip), *own[1]]
        command.__signature__ = Signature(arguments)  # type: ignore[attr-defined]
        return command

    return with_options


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbCommand:
    """A command that is one verb."""

    request: type[Request[Any]]
    module: str
    """The module of the command, whose `show` prints the result for people; `exit_code` may say how it ends."""
    positional: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    help: str = ""
    show: str = "show"

    @property
    def may_write(self) -> bool:
        """Whether the graph may have to be opened for writing."""
        return self.request.writes or "confirm" in {each.name for each in parameters_of(self.request)}


def declare(app: typer.Typer, name: str, command: VerbCommand) -> None:
    """Adds a command to an application."""

    def run(**values: Any) -> None:
        _run(command, values)

    graph = [_graph_argument("uri", Uri)]
    rest = [_graph_argument("store", Store)]
    if command.may_write:
        rest.append(_graph_argument("durability", Durability))
    rest.append(Argument("as_json", Argument.KEYWORD_ONLY, annotation=AsJson, default=False))
    options = options_of(command.request, positional=command.positional, skip=command.skip)
    count = len(command.positional)
    run.__signature__ = Signature([*options[:count], *graph, *options[count:], *rest])  # type: ignore[attr-defined]
    text = command.help or (command.request.__doc__ or "").partition("\n\n    Raises:")[0]
    app.command(name, cls=OnGraph, help=" ".join(text.split()))(run)


def _graph_argument(name: str, kind: Any) -> Argument:
    return Argument(name, Argument.KEYWORD_ONLY, annotation=kind, default=None)


def _run(command: VerbCommand, values: dict[str, Any]) -> None:
    from omnigraph.cli.opening import opened
    from omnigraph.cli.output import print_json
    from omnigraph.cli.progress import shown_progress

    uri = named_graph(values.pop("uri"), values.pop("store"))
    as_json, durability = values.pop("as_json"), values.pop("durability", None)
    request = request_from(command.request, values)
    writes = request.is_write
    reports = "report" in {each.name for each in parameters_of(command.request)}
    with opened(uri, "rw" if writes else "r", durability=durability) as graph, shown_progress(quiet=as_json) as report:
        result = graph._run(replace(request, report=report) if reports else request)
    module = import_module(f"omnigraph.cli.{command.module}")
    if as_json:
        print_json(_document(result, values))
    else:
        getattr(module, command.show)(result, request)
    exit_code: Callable[[Any], int] | None = getattr(module, "exit_code", None)
    if exit_code is not None and (code := exit_code(result)):
        raise typer.Exit(code)


def _document(result: Any, values: Mapping[str, Any]) -> Any:
    match result:
        case None:
            return {"deleted": values["name"]}
        case list():
            return [each.as_json() for each in result]
        case _:
            return result.as_json()
