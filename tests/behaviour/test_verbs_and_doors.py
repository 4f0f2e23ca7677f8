"""Every verb is behind every door, or has a reason not to be."""

from collections.abc import Iterator
from inspect import signature
from typing import Any, get_type_hints

import pytest
from typer.core import TyperGroup
from typer.main import get_command

import omnigraph as og
from omnigraph.api.base import ParameterScope, Request, parameters_of
from omnigraph.api.data import LoadRequest
from omnigraph.api.graph import (
    BranchesApi,
    CommitsApi,
    GraphApi,
    QueriesApi,
    RecoveriesApi,
    SchemaApi,
    TagsApi,
    all_requests,
)
from omnigraph.api.http import ADDRESSES
from omnigraph.cli.commands import SPELLINGS, Spelling, request_named
from omnigraph.cli.main import VERBS as COMMANDS
from omnigraph.cli.main import app
from omnigraph.datasource.options import parse_write_options
from omnigraph.graph.graph import VERBS
from omnigraph.pipelines import Pipeline

PARTS = {
    "branches": BranchesApi,
    "commits": CommitsApi,
    "queries": QueriesApi,
    "recoveries": RecoveriesApi,
    "schema": SchemaApi,
    "tags": TagsApi,
}

WITHOUT_A_COMMAND = {"entity": "`query` with the key of an entity prints it, with any other fields"}
OTHER_SPELLINGS = {
    ("query", "source"): "--query FILE or -e GQ",
    ("mutate", "source"): "--query FILE or -e GQ",
    ("commit list", "actor"): "--filter actor=NAME",
    **{(words, "queries"): "FILE" for words in ("queries add", "queries validate")},
    ("queries show", "tag"): "all are shown",
    **dict.fromkeys(
        (
            ("query", "actor"),
            ("query", "message"),
            ("query", "if_commit"),
            ("mutate", "snapshot"),
            ("mutate", "timeout"),
        ),
        "of the other kind of query",
    ),
}
"""Parameters that a command takes under other names."""

WITHOUT_A_VERB = {
    "demo": "makes a graph of its own",
    "doctor": "is about the environment",
    "init": "makes the graph that verbs are for",
    "lint": "reads files and no graph",
    "mcp": "is a door",
    "policy explain": "reads a rule file and no graph",
    "policy test": "reads a rule file and no graph",
    "policy validate": "reads a rule file and no graph",
    "serve": "is a door",
    "version": "is about the program",
}
OF_PIPELINES = {f"pipeline {name}": name for name in ("validate", "plan", "run", "status", "history")}
"""Commands about pipelines, with the method of `Pipeline` that each calls."""

REQUESTS = all_requests()
each_command = pytest.mark.parametrize("words", COMMANDS)
each_verb = pytest.mark.parametrize("request_", REQUESTS, ids=[request.verb for request in REQUESTS])


@each_verb
def test_a_verb_is_a_method_of_every_graph(request_: type[Request[Any]]) -> None:
    part, _, name = request_.verb.rpartition(".")
    method = getattr(PARTS[part] if part else GraphApi, name)
    assert method.__wrapped__ is request_


@each_verb
def test_a_verb_is_run_by_a_graph_that_is_open_here(request_: type[Request[Any]]) -> None:
    function = VERBS[request_.verb].function()
    assert list(get_type_hints(function).values())[1] is request_


@each_verb
def test_a_verb_has_an_address_on_a_server(request_: type[Request[Any]]) -> None:
    address = ADDRESSES[request_]
    names = {each.wire_name for each in parameters_of(request_) if each.scope is None}
    assert {part[1:-1] for part in address.path.split("/") if part.startswith("{")} <= names


@each_verb
def test_a_verb_has_a_command(request_: type[Request[Any]]) -> None:
    found = [words for words, command in COMMANDS.items() if request_ in map(request_named, command.requests)]
    assert bool(found) != (request_.verb in WITHOUT_A_COMMAND)


@each_command
def test_a_command_has_every_parameter_of_its_verb_with_the_same_default_and_text(words: str) -> None:
    command = COMMANDS[words]
    given = {each.name: each for each in command.build(words).params}
    for request in map(request_named, command.requests):
        for each in parameters_of(request):
            if each.scope is ParameterScope.PROCESS or (words, each.name) in OTHER_SPELLINGS:
                continue
            option = given[each.name]
            if each.name not in command.options:
                text = SPELLINGS.get(each.name, Spelling()).text or each.doc
                assert option.help.startswith(text.removesuffix(".")), each.name
                assert option.required == each.required, each.name
                assert each.required or option.default in (each.default, "1h"), each.name


def commands_below(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Each command of a group by its words."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands_below(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


def test_a_command_is_of_a_verb_or_of_a_pipeline_or_has_a_reason() -> None:
    found = {words for words, _ in commands_below(get_command(app))}
    assert found == {*COMMANDS, *OF_PIPELINES, *WITHOUT_A_VERB}


@pytest.mark.parametrize(("words", "method"), OF_PIPELINES.items())
def test_a_command_about_pipelines_has_every_parameter_of_its_method(words: str, method: str) -> None:
    options = {each.name for each in dict(commands_below(get_command(app)))[words].params}
    given_otherwise = {"self", "graph", "report", "actor"}  # the graph with its actor, and a progress bar
    assert set(signature(getattr(Pipeline, method)).parameters) - given_otherwise <= options


def test_spark_writes_with_every_parameter_of_a_load() -> None:
    values = {"batch": "1", "application": "a", "path": "people.omni", "type": "Person"}
    names = {each.wire_name for each in parameters_of(LoadRequest) if each.scope is None} - {"engine"}
    given = {name: values.get(name, "main" if name in ("branch", "from") else "x") for name in {*names, *values}}
    assert names <= parse_write_options({**given, "mode": "apply"}).values.keys()


@each_verb
def test_every_parameter_is_documented(request_: type[Request[Any]]) -> None:
    assert request_.__doc__
    for each in parameters_of(request_):
        assert each.doc.endswith("."), each.name
        assert f"{each.name}: {each.doc}" in (getattr(_home(request_), _name(request_)).__doc__ or "")


def test_every_write_takes_a_message() -> None:
    silent = {"branches.create", "branches.delete", "tags.delete"}
    """These make no commit."""
    for request in REQUESTS:
        names = {each.name for each in parameters_of(request)}
        may_write = request.verb in ("analyze", "call")
        assert ("message" in names) == (request.writes and request.verb not in silent) or may_write


def test_what_only_this_process_knows_is_never_sent() -> None:
    local = {"cancellation", "data", "path", "report", "storage_options"}
    assert {
        each.name for request in REQUESTS for each in parameters_of(request) if each.scope is ParameterScope.PROCESS
    } == local


def test_a_value_that_is_not_among_its_choices_is_refused_before_anything_is_read() -> None:
    graph = og.connect("http://127.0.0.1:9", "nowhere")
    with pytest.raises(og.UsageError, match="invalid engine 'fast': expected `auto`, `local` or `spark`"):
        graph.query("query q { match { $p: Person } return { $p.name } }", engine="fast")


def _home(request: type[Request[Any]]) -> type:
    part = request.verb.rpartition(".")[0]
    return PARTS[part] if part else GraphApi


def _name(request: type[Request[Any]]) -> str:
    return request.verb.rpartition(".")[2]
