"""The application: its routes, and what each request passes on its way to one."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route
from starlette.types import Scope

from omnigraph.errors import OmnigraphError, RecoveryRequired
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import open as open_graph
from omnigraph.policy import Policy, policy_of
from omnigraph.server.compressing import Compressing
from omnigraph.server.exchange import exchange_of
from omnigraph.server.hosting import hosting_of
from omnigraph.server.observing import Observing
from omnigraph.server.problems import answer_to
from omnigraph.server.routes import ROUTERS, about
from omnigraph.server.settings import Settings

_DESCRIPTION = """The same graphs as in Python and on the command line.

Every error has the same body. A request is called what its client calls it in `X-Request-Id`, or else gets a name; it
comes back in that header, and is in the log of the server."""


def policy_for(settings: Settings) -> Policy | None:
    """The policy that holds for all graphs: the one that is named, or that the environment names."""
    named = settings.policy or os.environ.get("OMNIGRAPH_POLICY") or None
    return None if named is None else policy_of(Path(named))


def opened_graphs(settings: Settings, policy: Policy | None) -> dict[str, Graph]:
    """The graphs, open for writing, which settles first what writers left unfinished."""
    return {id: open_graph(uri, policy=policy, id=id) for id, uri in settings.graphs.items()}


def app_of(settings: Settings) -> FastAPI:
    """The application, with its graphs open."""
    policy = policy_for(settings)
    hosting = hosting_of(settings, opened_graphs(settings, policy), policy)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        hosting.shutdown()

    app = FastAPI(
        title="OmniGraph",
        description=_DESCRIPTION,
        version=version("omnigraph"),
        lifespan=lifespan,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.hosting = hosting

    async def answered(request: Request, error: Exception) -> Response:
        exchange = exchange_of(request.scope)
        if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            error.headers = {"Allow": ", ".join(_methods(app, request.scope))}
        if isinstance(error, RecoveryRequired) and exchange.graph is not None:
            hosting.settle(exchange.graph)
        return answer_to(error, exchange, hidden=hosting.hidden)

    for kind in (OmnigraphError, HTTPException, RequestValidationError, ClientDisconnect):
        app.add_exception_handler(kind, answered)
    for router in (about.router, *ROUTERS):
        # Not `include_router`, which makes every request look through the routers before it looks through their routes.
        app.router.routes.extend(router.routes)
    _describe(app)
    app.add_middleware(Compressing)
    app.add_middleware(Observing, hosting=hosting)
    return app


def _methods(app: FastAPI, scope: Scope) -> list[str]:
    """What an address is for: each method has a route of its own."""
    routes = [route for route in app.router.routes if isinstance(route, Route)]
    return sorted(
        {method for route in routes if route.matches(scope)[0] != Match.NONE for method in route.methods or ()}
    )


def _describe(app: FastAPI) -> None:
    """Adds the description of all routes; it is made when the first asks for it, and kept."""

    @cache
    def description() -> bytes:
        return json.dumps(app.openapi(), separators=(",", ":")).encode()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(description(), media_type="application/json")
