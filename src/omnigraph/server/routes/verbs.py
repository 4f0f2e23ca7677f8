"""The routes whose answer is one document: each is a verb, its address and its parameters, and nothing else."""

from collections.abc import Callable, Coroutine
from inspect import Parameter as Argument
from inspect import Signature
from types import NoneType
from typing import Annotated, Any, TypeAlias

from fastapi import APIRouter, Depends, Security
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.responses import Response

from omnigraph.api import data, history, queries, schema, upkeep
from omnigraph.api.base import Request, description_of, result_type
from omnigraph.api.http import ADDRESSES
from omnigraph.recovery import recoveries_json, recovery_json
from omnigraph.server.bodies import JsonRoute
from omnigraph.server.context import RequestContext, request_context
from omnigraph.server.fields import known_parameters
from omnigraph.server.models import (
    Deleted,
    IndexBuildAnswer,
    IndexesAnswer,
    PendingAnswer,
    RecoveriesAnswer,
    SchemaAnswer,
    SchemaApplyAnswer,
    SchemaPlanAnswer,
    error_responses,
)
from omnigraph.server.requests import (
    body_model,
    path_parameters,
    request_from_address,
    request_from_body,
    route_arguments,
)
from omnigraph.server.responses import json_response
from omnigraph.server.scheduler import Threads

BEARER = HTTPBearer(auto_error=False, description="A token of the server, which identifies the actor.")
"""For the description only: the token is checked before any route."""

Context: TypeAlias = Annotated[RequestContext, Depends(request_context)]
CONTEXT = Argument("context", Argument.POSITIONAL_OR_KEYWORD, annotation=Context)


def graph_router(tag: str) -> APIRouter:
    """A router for routes below a graph."""
    return APIRouter(
        prefix="/graphs/{id}",
        tags=[tag],
        route_class=JsonRoute,
        dependencies=[Security(BEARER), Depends(known_parameters)],
    )


_MODELS: dict[type[Request[Any]], Any] = {
    schema.SchemaShowRequest: SchemaAnswer,
    schema.SchemaDiffRequest: SchemaPlanAnswer,
    schema.SchemaPlanRequest: SchemaPlanAnswer,
    schema.SchemaApplyRequest: SchemaApplyAnswer,
    schema.SchemaCatchUpRequest: SchemaApplyAnswer,
    upkeep.IndexListRequest: IndexesAnswer,
    upkeep.IndexBuildRequest: IndexBuildAnswer,
    upkeep.RecoveryListRequest: RecoveriesAnswer,
    upkeep.RecoveryShowRequest: upkeep.Recovery | PendingAnswer,
}
"""The answers that differ from the results of their verbs."""

_MAKE_NO_COMMIT = (
    history.BranchCreateRequest,
    history.BranchDeleteRequest,
    history.TagCreateRequest,
    history.TagDeleteRequest,
)
_MORE_FAILURES: dict[type[Request[Any]], tuple[int, ...]] = {
    schema.SchemaApplyRequest: (412,),
    **dict.fromkeys(_MAKE_NO_COMMIT, (409,)),
}
_DECLARED_ELSEWHERE = {
    data.QueryRequest,
    data.EntityRequest,
    data.ExportRequest,
    data.AnalyzeRequest,
    data.MutateRequest,
    data.LoadRequest,
    queries.CallRequest,
    history.CommitChangesRequest,
    history.DiffRequest,
    history.ChangesRequest,
    upkeep.RecoveryPendingRequest,  # a part of the list of recoveries
}
"""The verbs that stream, take files, or answer in several formats."""
_COMMITTING = (upkeep.RepairRequest, upkeep.CleanupRequest)
"""These write only sometimes."""


def routers() -> list[APIRouter]:
    """A router for each group of verbs, by the tags that they have in the description."""
    found: dict[str, APIRouter] = {}
    for request, address in ADDRESSES.items():
        if request not in _DECLARED_ELSEWHERE and address.flag is None:
            tag = request.__module__.rpartition(".")[2]
            if address.path.startswith(("branches", "tags")):
                tag = "branches"
            _declare(found.setdefault(tag, graph_router(tag)), request)
    return [*found.values()]


def _path_of(request: type[Request[Any]]) -> str:
    """The path of a verb; its last segment and the name of a commit may contain slashes."""
    path = ADDRESSES[request].path
    for name in path_parameters(request) - {"type"}:
        path = path.replace(f"{{{name}}}", f"{{{name}:path}}")
    return f"/{path}"


def summary_of(request: type[Request[Any]]) -> str:
    """The first sentence of a verb's documentation."""
    return (request.__doc__ or "").partition("\n")[0].partition(". ")[0].rstrip(".:")


def declare_route(
    router: APIRouter, request: type[Request[Any]], endpoint: Callable[..., Any], **settings: Any
) -> None:
    """Adds the route of a verb, under the names and with the texts that the verb has."""
    name = ADDRESSES[request].name or request.verb.replace(".", "_")
    router.add_api_route(
        _path_of(request),
        endpoint,
        operation_id=name,
        name=name,
        summary=summary_of(request),
        description=description_of(request),
        **settings,
    )


def _declare(router: APIRouter, request: type[Request[Any]]) -> None:
    address = ADDRESSES[request]
    takes_body = address.method == "POST"
    writes = (request.writes or request in _COMMITTING) and request not in _MAKE_NO_COMMIT
    kind = result_type(request)
    declare_route(
        router,
        request,
        _endpoint(request),
        methods=[address.method],
        status_code=address.status,
        response_model=_MODELS.get(request, Deleted if kind is NoneType else kind),
        responses=error_responses(*_MORE_FAILURES.get(request, ()), body=takes_body, writes=writes),
    )


def _endpoint(request: type[Request[Any]]) -> Callable[..., Coroutine[Any, Any, Response]]:
    """The function of a route, whose parameters are those of the verb."""
    address = ADDRESSES[request]

    async def with_body(context: RequestContext, *, body: BaseModel) -> Response:
        return await _answer(context, request_from_body(request, body))

    async def in_address(context: RequestContext, **values: Any) -> Response:
        return await _answer(context, request_from_address(request, values))

    if address.method == "POST":
        body = Argument("body", Argument.KEYWORD_ONLY, annotation=body_model(request))
        with_body.__signature__ = Signature([CONTEXT, body])  # type: ignore[attr-defined]
        return with_body
    in_address.__signature__ = Signature([CONTEXT, *route_arguments(request)])  # type: ignore[attr-defined]
    return in_address


async def _answer(context: RequestContext, request: Request[Any]) -> Response:
    address = ADDRESSES[request.__class__]
    threads = Threads.READS if address.method == "GET" else Threads.SLOW
    return await json_response(
        context, lambda: _document(context, request), status_code=address.status, threads=threads
    )


def _document(context: RequestContext, request: Request[Any]) -> Any:
    """The answer to a request as JSON. Those about the health of a graph do not contain its location."""
    match request:
        case upkeep.IndexListRequest():
            document: Any = upkeep.indexes_json(context.graph.indexes(request.branch))
        case upkeep.IndexBuildRequest():
            built = context.run_verb(request)
            document = upkeep.indexes_json(context.graph.indexes(request.branch), built)
        case upkeep.RecoveryListRequest():
            recoveries = context.graph.recoveries
            document = recoveries_json(recoveries.pending(), recoveries.list())
        case upkeep.RecoveryShowRequest():
            document = recovery_json(context.graph.recoveries, request.id)
        case history.BranchDeleteRequest() | history.TagDeleteRequest():
            context.run_verb(request)
            return {"deleted": request.name}
        case _:
            result = context.run_verb(request)
            document = [each.as_json() for each in result] if isinstance(result, list) else result.as_json()
    is_about_health = request.__class__.__module__ == upkeep.__name__
    return _without(document, context.graph.uri, context.graph.id) if is_about_health else document


def _without(value: Any, place: str, name: str) -> Any:
    match value:
        case dict():
            return {key: _without(inner, place, name) for key, inner in value.items()}
        case list() | tuple():
            return [_without(inner, place, name) for inner in value]
        case str():
            return value.replace(place, name)
        case plain:
            return plain
