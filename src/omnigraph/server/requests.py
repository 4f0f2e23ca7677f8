"""Builds the requests of verbs from bodies and addresses: each parameter is a field of one of them."""

from collections.abc import Mapping
from inspect import Parameter as Argument
from typing import Any, Literal, get_args

from fastapi import Path, Query
from pydantic import BaseModel, Field, create_model, model_validator

from omnigraph.api.base import MAIN, Request, VerbParameter, description_of, parameters_of
from omnigraph.api.http import ADDRESSES, numbered_source
from omnigraph.diagnostics import Source
from omnigraph.server.fields import BodyModel, Name, Number, Plain, Text, Words, state_in_address, state_of

_MOST_NAMES = 10_000
_MOST_NAMES_IN_ADDRESS = 1_000
_LARGEST = 2**31
_TEXTS = ("source", "schema")
_LONG_WORDS = ("details", "entity", "recovery", "cursor", "message", "sources", "targets", "actor")
_LEAST_TIMEOUT = 0.1
_STATES = ("snapshot", "at", "left", "right")


def sent_parameters(request: type[Request[Any]]) -> list[VerbParameter]:
    """The parameters of a verb that clients may send: none that only a process knows, and never the actor."""
    return [each for each in parameters_of(request) if each.scope is None]


def path_parameters(request: type[Request[Any]]) -> set[str]:
    """The names of the parameters that are part of the path."""
    return {part[1:-1] for part in ADDRESSES[request].path.split("/") if part.startswith("{")}


def body_model(request: type[Request[Any]], *more: tuple[str, Any, Any]) -> type[BodyModel]:
    """The body that describes a request, with more fields that only the route knows: name, type and `Field`."""
    places = path_parameters(request)
    fields: dict[str, Any] = {
        each.name: _field(each) for each in sent_parameters(request) if each.wire_name not in places
    }
    fields |= {name: (kind, field) for name, kind, field in more}
    base = _OneState if {"branch", "snapshot"} <= fields.keys() else BodyModel
    name = request.__name__.removesuffix("Request") + "Body"
    made: type[BodyModel] = create_model(name, __base__=base, __doc__=description_of(request), **fields)
    return made


class _OneState(BodyModel):
    """A body that names the head of a branch, or another state of the graph."""

    @model_validator(mode="after")
    def _names_one(self) -> "_OneState":
        values = vars(self)
        if values["snapshot"] is not None and values["branch"] != MAIN and not values.get("write"):
            raise ValueError("set branch or snapshot, not both")
        return self


def _field(parameter: VerbParameter) -> tuple[Any, Any]:
    """The type and the `Field` of a parameter in a body."""
    options: dict[str, Any] = {"description": parameter.doc, "alias": parameter.wire_name}
    kind = _kind(parameter)
    options |= _bounds(parameter)
    if parameter.wire_name == "params":
        return kind, Field(default_factory=dict, **options)
    if parameter.required:
        return kind, Field(**options)
    default = parameter.default if isinstance(parameter.default, str | int | float | None) else None
    return (kind | None if parameter.default is None else kind), Field(default, **options)


def _bounds(parameter: VerbParameter) -> dict[str, Any]:
    if parameter.takes_many or "Mapping[" in str(parameter.hint):
        return {} if parameter.wire_name == "params" else {"max_length": _MOST_NAMES}
    bounds = {"ge": parameter.bounds.least, "le": parameter.bounds.most}
    if parameter.wire_name == "timeout":
        bounds["ge"] = _LEAST_TIMEOUT
    if parameter.wire_name == "limit":
        bounds |= {"ge": 1, "le": _LARGEST}
    return {name: value for name, value in bounds.items() if value is not None}


def _kind(parameter: VerbParameter) -> Any:
    """The type of a parameter in requests: strings are bounded, and a state is a name."""
    name, kinds = parameter.wire_name, {*get_args(parameter.hint)} or {parameter.hint}
    words = Words if name in _LONG_WORDS else Name
    if parameter.choices:
        return Literal[parameter.choices]
    if name in _TEXTS:
        return Text
    if name == "params":
        return Plain
    if parameter.hint is Any or {int, str} <= kinds:
        return Name | int
    if name == "queries":
        return list[Text]
    if parameter.takes_many:
        return list[words]  # type: ignore[valid-type]
    if "Mapping[" in str(parameter.hint):
        return dict[Name, Name]
    for plain, bounded in ((bool, bool), (float, Number), (int, int)):
        if plain in kinds:
            return bounded
    return words


def request_from_body(request: type[Request[Any]], body: BaseModel, **places: str) -> Request[Any]:
    """The request that a body describes, and the parts of its address."""
    fields = {each.name: getattr(body, each.name) for each in sent_parameters(request) if each.name not in places}
    return build(request, {**fields, **places}, state_of)


def request_from_address(request: type[Request[Any]], values: Mapping[str, Any]) -> Request[Any]:
    """The request that the parts of an address describe, by the names of the parameters."""
    return build(request, values, state_in_address)


def build(request: type[Request[Any]], values: Mapping[str, Any], state: Any) -> Request[Any]:
    """A request of these values; `state` decodes the names of states."""
    given = {name: state(value) if name in _STATES else value for name, value in values.items()}
    if "new" in given:  # a schema is always a text, never the path of a file of the server
        given["new"] = Source("<schema>", given["new"])
    if given.get("queries") is not None:
        given["queries"] = [Source(numbered_source(at), text) for at, text in enumerate(given["queries"], 1)]
    durations = {each.name for each in parameters_of(request) if "timedelta" in str(each.hint)}
    return request(**{name: value for name, value in given.items() if not (name in durations and value is None)})


def route_arguments(request: type[Request[Any]]) -> list[Argument]:
    """The parameters of a verb as those of a route: parts of the path, and of the query of a GET."""
    places = path_parameters(request)
    found = [_path_argument(each) for each in sent_parameters(request) if each.wire_name in places]
    return [*found, *query_arguments(request)] if ADDRESSES[request].method == "GET" else found


def _path_argument(parameter: VerbParameter) -> Argument:
    described = Path(description=parameter.doc, alias=parameter.wire_name)
    return Argument(parameter.name, Argument.KEYWORD_ONLY, annotation=_kind(parameter), default=described)


def query_arguments(request: type[Request[Any]]) -> list[Argument]:
    """The parameters of a verb that are in the query of its address."""
    places = path_parameters(request)
    found = []
    for each in sent_parameters(request):
        if each.wire_name not in places:
            kind, bounds = _in_query(each)
            default = ... if each.required else each.default
            described = Query(default, description=each.doc, alias=each.wire_name, **bounds)
            found.append(Argument(each.name, Argument.KEYWORD_ONLY, annotation=kind, default=described))
    return found


def _in_query(parameter: VerbParameter) -> tuple[Any, dict[str, Any]]:
    """The type of a parameter in a query, where everything is a string."""
    if parameter.takes_many:
        return list[Name] | None, {"max_length": _MOST_NAMES_IN_ADDRESS}
    kind = Name if parameter.hint is Any else _kind(parameter)
    return (kind if parameter.required or parameter.default is not None else kind | None), _bounds(parameter)
