"""The routes whose answer is one document: each is a verb, its address and its parameters, and nothing else."""

from collections.abc import Callable, Coroutine
from inspect import Parameter as Argument
from inspect import Signature
from types import NoneType
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from omnigraph.api import data, history, schema, upkeep
from omnigraph.api.base import Request, result_type
from omnigraph.api.http import ADDRESSES
from omnigraph.maintenance.indexes import indexes_json
from omnigraph.recovery import recoveries_json, recovery_json
from omnigraph.server.models.answers import (
    Deleted,
    IndexBuildAnswer,
    IndexesAnswer,
    PendingAnswer,
    RecoveriesAnswer,
    SchemaAnswer,
    SchemaApplyAnswer,
    SchemaPlanAnswer,
)
from omnigraph.server.models.failures import failures
from omnigraph.server.requests import arguments_of, body_model, in_path, request_in_address, request_of
from omnigraph.server.routes.declaring import Serving, graph_router
from omnigraph.server.serving import Served
from omnigraph.server.streams import answered

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
"""The answers that are not the results of their verbs."""

_MORE_FAILURES: dict[type[Request[Any]], tuple[int, ...]] = {
    data.MutateRequest: (412,),
    schema.SchemaApplyRequest: (412,),
    history.BranchCreateRequest: (409,),
    history.BranchDeleteRequest: (409,),
    history.TagCreateRequest: (409,),
    history.TagDeleteRequest: (409,),
}
_COMMITTING = (upkeep.RepairRequest, upkeep.CleanupRequest)
"""These write only sometimes."""
_MAKE_NO_COMMIT = (
    history.BranchCreateRequest,
    history.BranchDeleteRequest,
    history.TagCreateRequest,
    history.TagDeleteRequest,
)


def _documents() -> dict[str, tuple[type[Request[Any]], ...]]:
    """The verbs of this kind, by the tag that they have in the description."""
    return {
        "data": (data.MutateRequest, data.EmbedRequest),
        "branches": (
            history.BranchListRequest,
            history.BranchCreateRequest,
            history.MergeRequest,
            history.BranchDeleteRequest,
            history.TagListRequest,
            history.TagCreateRequest,
            history.TagShowRequest,
            history.TagDeleteRequest,
        ),
        "history": (history.CommitListRequest, history.CommitShowRequest),
        "schema": (
            schema.SchemaShowRequest,
            schema.SchemaDiffRequest,
            schema.SchemaPlanRequest,
            schema.SchemaApplyRequest,
            schema.SchemaCatchUpRequest,
        ),
        "upkeep": (
            upkeep.StatusRequest,
            upkeep.IndexListRequest,
            upkeep.IndexBuildRequest,
            upkeep.OptimizeRequest,
            upkeep.RepairRequest,
            upkeep.CleanupRequest,
            upkeep.VerifyRequest,
            upkeep.RecoveryListRequest,
            upkeep.RecoveryShowRequest,
        ),
    }


def routers() -> list[APIRouter]:
    """A router for each group of verbs."""
    found = []
    for tag, requests in _documents().items():
        router = graph_router(tag)
        for request in requests:
            _declare(router, request)
        found.append(router)
    return found


def operation_name(request: type[Request[Any]]) -> str:
    """The name of a verb in the description of the server."""
    return ADDRESSES[request].name or request.verb.replace(".", "_")


def path_of(request: type[Request[Any]]) -> str:
    """The path of a verb; its last part may have slashes in it, and so may the name of a commit."""
    path = ADDRESSES[request].path
    for name in in_path(request) - {"type"}:
        path = path.replace(f"{{{name}}}", f"{{{name}:path}}")
    return f"/{path}"


def summary_of(request: type[Request[Any]]) -> str:
    """The first sentence of a verb's documentation."""
    return (request.__doc__ or "").partition("\n")[0].partition(". ")[0].rstrip(".:")


def description_of(request: type[Request[Any]]) -> str:
    """The documentation of a verb without the errors that Python raises."""
    return (request.__doc__ or "").partition("\n\n    Raises:")[0].strip()


def _declare(router: APIRouter, request: type[Request[Any]]) -> None:
    address = ADDRESSES[request]
    takes_body = address.method == "POST"
    writes = (request.writes or request in _COMMITTING) and request not in _MAKE_NO_COMMIT
    kind = result_type(request)
    router.add_api_route(
        path_of(request),
        _endpoint(request),
        methods=[address.method],
        operation_id=operation_name(request),
        name=operation_name(request),
        summary=summary_of(request),
        description=description_of(request),
        status_code=address.status,
        response_model=_MODELS.get(request, Deleted if kind is NoneType else kind),
        responses=failures(*_MORE_FAILURES.get(request, ()), body=takes_body, writes=writes),
    )


def _endpoint(request: type[Request[Any]]) -> Callable[..., Coroutine[Any, Any, Response]]:
    """The function of a route, whose parameters are those of the verb."""
    address = ADDRESSES[request]

    async def with_body(served: Served, *, body: BaseModel) -> Response:
        return await _answer(served, request_of(request, body))

    async def in_address(served: Served, **values: Any) -> Response:
        return await _answer(served, request_in_address(request, values))

    served = Argument("served", Argument.POSITIONAL_OR_KEYWORD, annotation=Serving)
    if address.method == "POST":
        body = Argument("body", Argument.KEYWORD_ONLY, annotation=body_model(request))
        with_body.__signature__ = Signature([served, body])  # type: ignore[attr-defined]
        return with_body
    in_address.__signature__ = Signature([served, *arguments_of(request)])  # type: ignore[attr-defined]
    return in_address


async def _answer(served: Served, request: Request[Any]) -> Response:
    address = ADDRESSES[request.__class__]
    return await answered(
        served, lambda: _document(served, request), status_code=address.status, slow=address.method != "GET"
    )


def _document(served: Served, request: Request[Any]) -> Any:
    """The answer to a request, as JSON has it. Where the graph is stored is in none of those about its health."""
    match request:
        case upkeep.IndexListRequest():
            document: Any = indexes_json(served.graph.indexes(request.branch))
        case upkeep.IndexBuildRequest():
            built = served.run_verb(request)
            document = indexes_json(served.graph.indexes(request.branch), built)
        case upkeep.RecoveryListRequest():
            recoveries = served.graph.recoveries
            document = recoveries_json(recoveries.pending(), recoveries.list())
        case upkeep.RecoveryShowRequest():
            document = recovery_json(served.graph.recoveries, request.id)
        case history.BranchDeleteRequest() | history.TagDeleteRequest():
            served.run_verb(request)
            return {"deleted": request.name}
        case _:
            result = served.run_verb(request)
            document = [each.as_json() for each in result] if isinstance(result, list) else result.as_json()
    is_about_health = request.__class__.__module__ == upkeep.__name__
    return _without(document, served.graph.uri, served.graph.id) if is_about_health else document


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
