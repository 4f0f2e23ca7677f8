"""Every verb is behind every door, or has a reason not to be."""

from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.base import Request, Scope, parameters_of
from omnigraph.api.graph import REQUESTS, BranchesApi, CommitsApi, GraphApi, RecoveriesApi, SchemaApi, TagsApi
from omnigraph.api.http import ADDRESSES
from omnigraph.graph.graph import VERBS

PARTS = {
    "branches": BranchesApi,
    "commits": CommitsApi,
    "recoveries": RecoveriesApi,
    "schema": SchemaApi,
    "tags": TagsApi,
}

each_verb = pytest.mark.parametrize("request_", REQUESTS, ids=[request.verb for request in REQUESTS])


@each_verb
def test_a_verb_is_a_method_of_every_graph(request_: type[Request[Any]]) -> None:
    part, _, name = request_.verb.rpartition(".")
    method = vars(PARTS[part] if part else GraphApi)[name]
    assert method.__wrapped__ is request_


@each_verb
def test_a_verb_is_run_by_a_graph_that_is_open_here(request_: type[Request[Any]]) -> None:
    assert request_ in VERBS


@each_verb
def test_a_verb_has_an_address_on_a_server(request_: type[Request[Any]]) -> None:
    address = ADDRESSES[request_]
    names = {each.wire_name for each in parameters_of(request_) if each.scope is None}
    assert {part[1:-1] for part in address.path.split("/") if part.startswith("{")} <= names


@each_verb
def test_every_parameter_is_documented(request_: type[Request[Any]]) -> None:
    assert request_.__doc__
    for each in parameters_of(request_):
        assert each.doc.endswith("."), each.name
        assert f"{each.name}: {each.doc}" in (vars(_home(request_))[_name(request_)].__doc__ or "")


def test_every_write_takes_a_message() -> None:
    silent = {"branches.create", "branches.delete", "tags.delete"}
    """These make no commit."""
    for request in REQUESTS:
        names = {each.name for each in parameters_of(request)}
        assert ("message" in names) == (request.writes and request.verb not in silent) or request.verb == "analyze"


def test_what_only_this_process_knows_is_never_sent() -> None:
    local = {"cancellation", "data", "path", "report", "storage_options"}
    assert {
        each.name for request in REQUESTS for each in parameters_of(request) if each.scope is Scope.PROCESS
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
