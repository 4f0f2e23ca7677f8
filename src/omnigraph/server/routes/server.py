"""The routes about the server: health, graphs, metrics, and requests in flight."""

import asyncio
import logging
import time
from typing import Annotated

from fastapi import APIRouter, Path, Request, Security
from pydantic import BaseModel, Field
from starlette.responses import Response

from omnigraph.errors import NotFound, Unavailable
from omnigraph.policy import Action, Guard
from omnigraph.server.bodies import JsonRoute
from omnigraph.server.exchange import Exchange, exchange_of
from omnigraph.server.metrics import MEDIA_TYPE
from omnigraph.server.models import error_responses
from omnigraph.server.routes.verbs import BEARER
from omnigraph.server.state import ServerState

_logger = logging.getLogger("omnigraph.server")
_READY_SECONDS = 1.0
_READ_SECONDS = 5.0

router = APIRouter(route_class=JsonRoute, tags=["server"], generate_unique_id_function=lambda route: route.name)
_WITH_TOKEN = [Security(BEARER)]


class Health(BaseModel):
    """The health of the server."""

    status: str = Field(examples=["ok"])


class ServedGraph(BaseModel):
    """A graph."""

    id: str = Field(description="The id of the graph in paths.", examples=["people"])


class ServedGraphs(BaseModel):
    """The graphs of a server that may be read."""

    graphs: list[ServedGraph]


class RequestInFlight(BaseModel):
    """A request that is being answered."""

    request_id: str
    actor: str | None
    graph: str | None
    method: str
    path: str
    seconds: float = Field(description="How long ago it began.")


class RequestsInFlight(BaseModel):
    """Requests that are being answered."""

    requests: list[RequestInFlight]


class CancelledRequest(BaseModel):
    """A request that was cancelled."""

    request_id: str


@router.get("/healthz", summary="Report whether the process is alive", responses=error_responses())
async def healthz() -> Health:
    """Answers as long as the process is alive."""
    return Health(status="ok")


@router.get("/readyz", summary="Report whether the graphs can be read", responses=error_responses())
async def readyz(request: Request) -> Health:
    """Answers with 503 when a graph cannot be read, and when the server is shutting down."""
    state: ServerState = request.app.state.server
    if state.draining:
        raise Unavailable("the server is shutting down")
    async with state.readiness.turn:
        if time.monotonic() - state.readiness.checked_at > _READY_SECONDS:
            state.readiness.problem = await _problem(state)
            state.readiness.checked_at = time.monotonic()
    if state.readiness.problem is not None:
        raise Unavailable(state.readiness.problem)
    return Health(status="ready")


async def _problem(state: ServerState) -> str | None:
    """The first graph that cannot be read. The check has its own threads, as all others may be busy."""
    for id, graph in state.graphs.items():
        check = state.readiness.checks.get(id)
        if check is None or check.done():
            check = state.readiness.checks[id] = asyncio.ensure_future(asyncio.to_thread(graph.check_readable))
        try:
            async with asyncio.timeout(_READ_SECONDS):
                await asyncio.shield(check)
        except Exception:
            _logger.warning("a graph cannot be read", extra={"graph": id}, exc_info=True)
            return f"graph `{id}` cannot be read"
    return None


@router.get(
    "/metrics",
    summary="Show the metrics",
    dependencies=_WITH_TOKEN,
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **error_responses()},
)
async def metrics(request: Request) -> Response:
    """The metrics since the start of the server, in the format of Prometheus."""
    state: ServerState = request.app.state.server
    return Response(state.metrics.text(), media_type=MEDIA_TYPE)


@router.get("/graphs", summary="List the graphs", dependencies=_WITH_TOKEN, responses=error_responses())
async def graphs(request: Request) -> ServedGraphs:
    """The graphs that you may read."""
    state: ServerState = request.app.state.server
    asking = exchange_of(request.scope)
    return ServedGraphs(graphs=[ServedGraph(id=id) for id in state.graphs if _may(state, asking, Action.READ, id)])


@router.get("/requests", summary="List the requests in flight", dependencies=_WITH_TOKEN, responses=error_responses())
async def requests(request: Request) -> RequestsInFlight:
    """Your requests that are being answered, and those of others to graphs that you administer."""
    state: ServerState = request.app.state.server
    asking = exchange_of(request.scope)
    seen = [each for each in state.in_flight.values() if _may_see(state, asking, each)]
    return RequestsInFlight(requests=[RequestInFlight(**each.as_json()) for each in seen])


@router.delete(
    "/requests/{request_id}", summary="Cancel a request", dependencies=_WITH_TOKEN, responses=error_responses()
)
async def cancel(request: Request, request_id: Annotated[str, Path(description="The request.")]) -> CancelledRequest:
    """Stops a query. If its response is already being sent, the connection is closed. A write continues."""
    state: ServerState = request.app.state.server
    found = state.in_flight.get(request_id)
    if found is None or not _may_see(state, exchange_of(request.scope), found):
        raise NotFound("request", request_id)
    found.cancellation.cancel()
    return CancelledRequest(request_id=request_id)


def _may_see(state: ServerState, asking: Exchange, other: Exchange) -> bool:
    """Whether an actor may see and cancel a request: its own, and those to graphs that it administers."""
    if other.actor == asking.actor:
        return True
    named = [other.graph] if other.graph is not None else list(state.graphs)
    return state.policy is not None and all(_may(state, asking, Action.ADMIN, id) for id in named)


def _may(state: ServerState, asking: Exchange, action: Action, id: str) -> bool:
    return Guard(state.policy, id, asking.actor).allows(action)
