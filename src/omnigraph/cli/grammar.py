"""The grammar of commands: how a command names its graph, where the graph is, and who asks.

1. The graph is the last argument of a command, and `--store` names it too. Both may be given if they are the same.
2. `--server` names a server instead. `--graph-id` selects one of its graphs; `--graph` is another name for it, unless
   the command uses that name for something else.
3. A command that takes the name of a query takes a lone argument for that name, unless it holds `/` or is the folder of
   a graph.
4. `--from` names a state of the graph: a branch, a commit or a tag.

`GraphCommand` adds the arguments and options of rules 1 and 2, so no command declares them itself. Nothing is imported
here but Typer, so that a command against a server starts quickly.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import UsageError

_MANIFEST_FOLDER = "__manifest"
"""The folder that makes a folder a graph. `versioning` knows it too, and takes long to import."""

plain_argument = partial(typer.Argument, show_default=False)
plain_option = partial(typer.Option, show_default=False)
"""For a parameter whose default is not worth showing."""
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphWords:
    """The words of a command that say which graph it is about, and who asks."""

    uri: str | None = None
    store: str | None = None
    server: str | None = None
    graph_ids: tuple[str, ...] = ()
    policy: str | None = None
    actor: str | None = None
    given: frozenset[str] = frozenset()
    """Which of them are on the command line, and not from the environment."""

    @property
    def graph_id(self) -> str | None:
        """The graph of the server, if one was selected."""
        return self.graph_ids[0] if self.graph_ids else None


_NO_WORDS = GraphWords()
_WORDS: ContextVar[GraphWords] = ContextVar("words", default=_NO_WORDS)


def graph_words() -> GraphWords:
    """The words of the command that is running."""
    return _WORDS.get()


def is_server(uri: str) -> bool:
    """Whether a URI is that of a server."""
    return uri.startswith(("http://", "https://"))


def is_graph(word: str) -> bool:
    """Whether a word can only be a graph: it has a slash, or it is the folder of a graph."""
    return "/" in word or (Path(word) / _MANIFEST_FOLDER).is_dir()


def named_graph() -> str:
    """The graph that the running command is about."""
    uri = named_graph_if_any()
    if uri is None:
        raise UsageError("name the graph as the last argument, with --store, in $OMNIGRAPH_STORE, or with --server")
    return uri


def named_graph_if_any() -> str | None:
    """The same for a command that works without a graph. The command line takes precedence over the environment."""
    words = graph_words()
    store = words.store if "store" in words.given else None
    if words.uri is not None and store is not None and words.uri.rstrip("/") != store.rstrip("/"):
        raise UsageError(f"the graph is given twice: {words.uri} as argument, {store} with --store")
    if len({*words.graph_ids}) > 1:
        raise UsageError(f"--graph-id is given twice: {' and '.join(words.graph_ids)}")
    uri = words.uri if words.uri is not None else store
    if uri is not None and "server" in words.given:
        raise UsageError("name a --server or a store, not both")
    if uri is None and words.server is not None:
        if not is_server(words.server):
            raise UsageError(f"invalid --server {words.server}: expected http://HOST:PORT")
        return words.server
    uri = uri if uri is not None else words.store
    if words.graph_id is not None and (uri is None or not is_server(uri)):
        raise UsageError("--graph-id selects a graph of a --server, and none is given")
    return uri


def skip_conversion(parameters: list[Any]) -> list[Any]:
    """Makes parameters take texts, and missing values, as they are.

    Typer would convert them with pydantic, whose import takes longer than the rest of a command against a server.
    """
    for each in parameters:
        if "process_value" not in vars(each):
            each.process_value = partial(_process_value, each, each.process_value)
    return parameters


def _process_value(parameter: Any, convert: Callable[[Any, Any], Any], ctx: Any, value: Any) -> Any:
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if value is None and not parameter.required:
        return None
    if kind is str and isinstance(value, str):
        return value
    if kind == list[str] and value is not None:
        return [*value]
    return convert(ctx, value)


class GraphCommand(TyperCommand):
    """A command about a graph. Beside its own parameters, it has those that name the graph and the actor."""

    takes: tuple[str, ...] = ("uri", "store", "server", "graph_id", "policy", "actor")

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        taken = {name for parameter in self.params for name in parameter.opts}
        self.added: set[str] = set()
        """The names of the parameters that the function of the command does not get."""
        for parameter in _graph_parameters():
            free = [name for name in parameter.opts if name not in taken]
            if free and parameter.name in self.takes:
                added = copy.copy(parameter)
                added.opts = free
                self.params.append(added)
                self.added.add(str(added.name))

    def get_params(self, ctx: Any) -> list[Any]:
        return skip_conversion(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        self.assign_arguments(ctx.params)
        with _keep_words(ctx, self.added):
            return super().invoke(ctx)

    def assign_arguments(self, params: dict[str, Any]) -> None:
        """Decides which argument is the graph, where their order does not tell."""


class QueryCommand(GraphCommand):
    """A command with the name of a query, which may be left out, before the graph."""

    def assign_arguments(self, params: dict[str, Any]) -> None:
        if params["uri"] is None and params["name"] is not None and is_graph(params["name"]):
            params.update(name=None, uri=params["name"])


class FilesCommand(GraphCommand):
    """A command with any number of files before the graph, which may be left out."""

    takes = ("store", "server", "graph_id", "policy", "actor")

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.added.add("uri")

    def assign_arguments(self, params: dict[str, Any]) -> None:
        files = [*(params["files"] or ())]
        if files and ("://" in str(files[-1]) or (files[-1] / _MANIFEST_FOLDER).is_dir()):
            params.update(files=files[:-1], uri=str(files[-1]))


class NamesCommand(GraphCommand):
    """A command with one or several names before the graph. The last of them is the graph if it can only be one."""

    takes = FilesCommand.takes

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.added.add("uri")

    def assign_arguments(self, params: dict[str, Any]) -> None:
        *names, last = params["names"]
        if names and is_graph(last):
            params.update(names=names, uri=last)


class NewGraphCommand(GraphCommand):
    """A command that creates a graph, which no server does."""

    takes = ("uri", "store")


@contextmanager
def _keep_words(ctx: Any, added: set[str]) -> Iterator[None]:
    """Keeps the words about the graph while the command runs, whose function does not get them.

    An actor from the environment is the one that the graph is opened as; only one from the command line is that of the
    commit.
    """
    values = ctx.params

    def is_given(name: str) -> bool:
        source = ctx.get_parameter_source(name)
        return source is not None and source.name == "COMMANDLINE" and values.get(name) is not None

    words = GraphWords(
        uri=values.get("uri"),
        store=values.get("store"),
        server=values.get("server"),
        graph_ids=tuple(values.get("graph_id") or ()),
        policy=values.get("policy"),
        actor=values.get("actor"),
        given=frozenset(name for name in ("store", "server", "policy", "actor") if is_given(name)),
    )
    for name in added:
        values.pop(name, None)
    if "actor" in values and "actor" not in words.given:
        values["actor"] = None
    kept = _WORDS.set(words)
    try:
        yield
    finally:
        _WORDS.reset(kept)


@cache
def _graph_parameters() -> tuple[Any, ...]:
    """The argument and the options that every command about a graph has."""
    holder = typer.Typer(add_completion=False, rich_markup_mode=None)

    @holder.command()
    def graph(
        *,
        uri: Annotated[str | None, plain_argument(metavar="GRAPH", help="The graph: a path or a URI.")] = None,
        store: Annotated[
            str | None, plain_option(envvar="OMNIGRAPH_STORE", metavar="URI", help="The graph, as an option.")
        ] = None,
        server: Annotated[
            str | None, plain_option(envvar="OMNIGRAPH_SERVER", metavar="URL", help="A server that has the graph.")
        ] = None,
        graph_id: Annotated[
            list[str] | None,
            plain_option(
                "--graph-id", "--graph", metavar="ID", help="Which graph of the server; required if it has several."
            ),
        ] = None,
        policy: Annotated[
            str | None, plain_option(envvar="OMNIGRAPH_POLICY", metavar="FILE", help="The rules to enforce (YAML).")
        ] = None,
        actor: Annotated[
            str | None,
            plain_option("--as", envvar="OMNIGRAPH_ACTOR", metavar="ACTOR", help="The actor of the request."),
        ] = None,
    ) -> None:
        """Declares them."""

    return tuple(typer.main.get_command(holder).params)
