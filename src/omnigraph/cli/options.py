"""The options that several commands have, and how a command finds its graph.

Nothing is imported here but Typer, so that the modules that declare commands stay cheap to import.
"""
# ruff: noqa: PLC0415

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
Store = Annotated[
    str | None, typer.Option("--store", envvar="OMNIGRAPH_STORE", metavar="URI", help="The graph.", show_default=False)
]
Uri = Annotated[str | None, typer.Argument(metavar="[URI]", help="The graph, if not --store.", show_default=False)]
Branch = Annotated[str, typer.Option(help="The branch to work on.")]
Engine = Annotated[str, typer.Option(metavar="auto|local|spark", help="Where the work runs.")]
Explain = Annotated[bool, typer.Option("--explain", help="Show how it would be done and where, and stop.")]
Actor = Annotated[
    str | None,
    typer.Option("--as", envvar="OMNIGRAPH_ACTOR", metavar="ACTOR", help="Who the commit is by.", show_default=False),
]
IfCommit = Annotated[str | None, typer.Option(metavar="ID", help="Only on top of this commit.", show_default=False)]
Durability = Annotated[
    str | None,
    typer.Option(
        metavar="full|fast", help="Whether a commit is on the disk before it is acknowledged.", show_default="full"
    ),
]
QueryFile = Annotated[
    Path | None, typer.Option("--query", metavar="FILE", help="The file with the query.", show_default=False)
]
Inline = Annotated[str | None, typer.Option("-e", metavar="GQ", help="The query itself.", show_default=False)]
QueryName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Which query, if there are several.", show_default=False)
]
Params = Annotated[
    str | None, typer.Option("--params", metavar="JSON", help="All parameters as an object.", show_default=False)
]
Param = Annotated[
    list[str] | None, typer.Option("--param", metavar="K=V", help="One parameter; may be repeated.", show_default=False)
]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", metavar="TYPE", help="Only this type; may be repeated.", show_default=False),
]
ChangeFormat = Annotated[str, typer.Option("--format", metavar="table|jsonl", help="How changes are printed.")]


def wrong_usage(problem: str) -> Exception:
    """The error of a command whose words do not go together."""
    from omnigraph.errors import UsageError

    return UsageError(problem)


# --- which graph, where, and as whom ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What was said about the graph of a command, beside its store. What is named was said on the command line."""

    server: str | None = None
    graph: str | None = None
    policy: str | None = None
    actor: str | None = None
    names_server: bool = False
    names_store: bool = False
    names_policy: bool = False
    names_actor: bool = False


_NONE = Words()
_WORDS: ContextVar[Words] = ContextVar("words", default=_NONE)


def given_words() -> Words:
    """What the command that is running was told."""
    return _WORDS.get()


def is_server(uri: str) -> bool:
    """Whether a graph is that of a server."""
    return uri.startswith(("http://", "https://"))


def named_graph(*candidates: str | None) -> str:
    """The graph that a command is about: the first way of naming it that was used."""
    uri = named_graph_if_any(*candidates)
    if uri is None:
        raise wrong_usage("name the graph as URI, with --store, in $OMNIGRAPH_STORE, or with --server")
    return uri


def named_graph_if_any(*candidates: str | None) -> str | None:
    """The same of a command that needs no graph. What is on the command line counts more than the environment."""
    words = given_words()
    *places, store = candidates
    place = next((each for each in places if each is not None), None)
    is_named = place is not None or (words.names_store and store is not None)
    if words.names_server and is_named:
        raise wrong_usage("name a --server or a store, not both")
    if words.server is not None and not is_named:
        if not is_server(words.server):
            raise wrong_usage(f"--server is http://HOST:PORT, not {words.server}")
        return words.server
    uri = place if place is not None else store
    if words.graph is not None and (uri is None or not is_server(uri)):
        raise wrong_usage("--graph is for a --server")
    return uri


class OnGraph(TyperCommand):
    """A command about a graph: it takes, beside what it declares, the options that say where and as whom."""

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        taken = {name for parameter in self.params for name in parameter.opts}
        self._added: set[str] = set()
        for option in _graph_options():
            free = [name for name in option.opts if name not in taken]
            if free:
                added = copy.copy(option)
                added.opts = free
                self.params.append(added)
                self._added.add(str(added.name))

    def invoke(self, ctx: Any) -> Any:
        with _told(ctx, self._added):
            return super().invoke(ctx)


@contextmanager
def _told(ctx: Any, added: set[str]) -> Iterator[None]:
    """Keeps what was said about the graph while a command runs, which is not told of it.

    An actor that the environment names is that of whoever opens the graph; only a given one is that of the commit.
    """

    def is_named(name: str) -> bool:
        source = ctx.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE"

    words = Words(
        server=ctx.params.get("server"),
        graph=ctx.params.get("graph_id"),
        policy=ctx.params.get("policy"),
        actor=ctx.params.get("actor"),
        names_server=is_named("server"),
        names_store=is_named("store"),
        names_policy=is_named("policy"),
        names_actor=is_named("actor") and ctx.params.get("actor") is not None,
    )
    for name in added:
        ctx.params.pop(name, None)
    if "actor" in ctx.params and not words.names_actor:
        ctx.params["actor"] = None
    kept = _WORDS.set(words)
    try:
        yield
    finally:
        _WORDS.reset(kept)


@cache
def _graph_options() -> tuple[Any, ...]:
    """The options that every command about a graph has. Those whose names a command uses otherwise have fewer names."""
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)

    @holder.command()
    def options(
        server: Annotated[
            str | None,
            typer.Option(
                envvar="OMNIGRAPH_SERVER", metavar="URL", help="A server, instead of a store.", show_default=False
            ),
        ] = None,
        graph_id: Annotated[
            str | None,
            typer.Option("--graph", "--graph-id", metavar="ID", help="Which graph of the server.", show_default=False),
        ] = None,
        policy: Annotated[
            str | None,
            typer.Option(envvar="OMNIGRAPH_POLICY", metavar="FILE", help="Who may do what.", show_default=False),
        ] = None,
        actor: Annotated[
            str | None,
            typer.Option("--as", envvar="OMNIGRAPH_ACTOR", metavar="ACTOR", help="Who asks.", show_default=False),
        ] = None,
    ) -> None:
        """Declares them."""

    return tuple(typer.main.get_command(holder).params)
