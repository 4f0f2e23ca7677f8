"""Routes about the server: whether it is well, which graphs it has, and what is in flight."""

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
from omnigraph.server.hosting import Hosting
from omnigraph.server.metrics import MEDIA_TYPE
from omnigraph.server.models.failures import failures
from omnigraph.server.routes.declaring import BEARER

_logger = logging.getLogger("omnigraph.server")
_READY_SECONDS = 1.0
_READ_SECONDS = 5.0

router = APIRouter(route_class=JsonRoute, tags=["server"], generate_unique_id_function=lambda route: route.name)
_WITH_TOKEN = [Security(BEARER)]


class Health(BaseModel):
    """Whether the server is well."""

    status: str = Field(examples=["ok"])


class ServedGraph(BaseModel):
    """A graph."""

    id: str = Field(description="What routes call it.", examples=["people"])


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
    """A request that was told to stop."""

    request_id: str


@router.get("/healthz", summary="Whether the process is there", responses=failures())
async def healthz() -> Health:
    """Answers as long as the process is there."""
    return Health(status="ok")


@router.get("/readyz", summary="Whether the graphs can be read", responses=failures())
async def readyz(request: Request) -> Health:
    """Answers with 503 when a graph cannot be read, and as soon as the server is about to stop."""
    hosting: Hosting = request.app.state.hosting
    if hosting.draining:
        raise Unavailable("the server is about to stop")
    async with hosting.readiness.turn:
        if time.monotonic() - hosting.readiness.checked_at > _READY_SECONDS:
            hosting.readiness.problem = await _problem(hosting)
            hosting.readiness.checked_at = time.monotonic()
    if hosting.readiness.problem is not None:
        raise Unavailable(hosting.readiness.problem)
    return Health(status="ready")


async def _problem(hosting: Hosting) -> str | None:
    """What is wrong with the first graph that cannot be read. It has threads of its own: the others may be at work."""
    for id, graph in hosting.graphs.items():
        look = hosting.readiness.looking.get(id)
        if look is None or look.done():
            look = hosting.readiness.looking[id] = asyncio.ensure_future(asyncio.to_thread(graph.check_readable))
        try:
            async with asyncio.timeout(_READ_SECONDS):
                await asyncio.shield(look)
        except Exception:
            _logger.warning("a graph cannot be read", extra={"graph": id}, exc_info=True)
            return f"graph `{id}` cannot be read"
    return None


@router.get(
    "/metrics",
    summary="Counts and times",
    dependencies=_WITH_TOKEN,
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **failures()},
)
async def metrics(request: Request) -> Response:
    """What has happened since the server began, as Prometheus reads it."""
    hosting: Hosting = request.app.state.hosting
    return Response(hosting.metrics.text(), media_type=MEDIA_TYPE)


@router.get("/graphs", summary="The graphs", dependencies=_WITH_TOKEN, responses=failures())
async def graphs(request: Request) -> ServedGraphs:
    """The graphs that you may read."""
    hosting: Hosting = request.app.state.hosting
    asking = exchange_of(request.scope)
    return ServedGraphs(graphs=[ServedGraph(id=id) for id in hosting.graphs if _may(hosting, asking, Action.READ, id)])


@router.get("/requests", summary="What is in flight", dependencies=_WITH_TOKEN, responses=failures())
async def requests(request: Request) -> RequestsInFlight:
    """Your requests that are being answered, and those of others to graphs that you administrate."""
    hosting: Hosting = request.app.state.hosting
    asking = exchange_of(request.scope)
    seen = [each for each in hosting.in_flight.values() if _may_see(hosting, asking, each)]
    return RequestsInFlight(requests=[RequestInFlight(**each.as_json()) for each in seen])


@router.delete("/requests/{request_id}", summary="Cancel a request", dependencies=_WITH_TOKEN, responses=failures())
async def cancel(request: Request, request_id: Annotated[str, Path(description="The request.")]) -> CancelledRequest:
    """Stops a query. A write goes on, as it is not known how far it is; so does what is already being sent."""
    hosting: Hosting = request.app.state.hosting
    found = hosting.in_flight.get(request_id)
    if found is None or not _may_see(hosting, exchange_of(request.scope), found):
        raise NotFound("request", request_id)
    found.cancellation.cancel()
    return CancelledRequest(request_id=request_id)


def _may_see(hosting: Hosting, asking: Exchange, other: Exchange) -> bool:
    """Whether somebody may see and cancel a request: their own, and those to graphs of which they are an admin."""
    if other.actor == asking.actor:
        return True
    named = [other.graph] if other.graph is not None else list(hosting.graphs)
    return hosting.policy is not None and all(_may(hosting, asking, Action.ADMIN, id) for id in named)


def _may(hosting: Hosting, asking: Exchange, action: Action, id: str) -> bool:
    return Guard(hosting.policy, id, asking.actor).allows(action)
