"""The application: its routes and middleware."""

import json
import os
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route
from starlette.types import Lifespan, Scope

from omnigraph.errors import OmnigraphError, RecoveryRequired
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import open as open_graph
from omnigraph.policy import Policy, policy_of
from omnigraph.server.errors import error_response
from omnigraph.server.exchange import exchange_of
from omnigraph.server.middleware import RequestMiddleware
from omnigraph.server.responses import ARROW, TAR
from omnigraph.server.routes import ALL_ROUTERS
from omnigraph.server.settings import ServerSettings
from omnigraph.server.state import make_state

_DESCRIPTION = """The same graphs as in Python and on the command line.

Every error has the same body. The id of a request is that of its header `X-Request-Id`, or a new one; it is returned in
that header, and is in the log of the server."""


def load_policy(settings: ServerSettings) -> Policy | None:
    """The policy of all graphs, from the settings or the environment."""
    named = settings.policy or os.environ.get("OMNIGRAPH_POLICY") or None
    return None if named is None else policy_of(Path(named))


def open_graphs(settings: ServerSettings, policy: Policy | None) -> dict[str, Graph]:
    """The graphs, open for writing, which recovers unfinished writes first."""
    return {id: open_graph(uri, policy=policy, id=id) for id, uri in settings.graphs.items()}


def make_app(settings: ServerSettings, lifespan: Lifespan[FastAPI] | None = None) -> FastAPI:
    """The application, with its graphs open."""
    policy = load_policy(settings)
    state = make_state(settings, open_graphs(settings, policy), policy)
    app = FastAPI(
        title="OmniGraph",
        description=_DESCRIPTION,
        version=version("omnigraph"),
        lifespan=lifespan,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.server = state

    async def handle_error(request: Request, error: Exception) -> Response:
        exchange = exchange_of(request.scope)
        if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            error.headers = {"Allow": ", ".join(_methods(app, request.scope))}
        if isinstance(error, RecoveryRequired) and exchange.graph is not None:
            state.recover(exchange.graph)
        return error_response(error, exchange, hidden=state.hidden)

    for kind in (OmnigraphError, HTTPException, RequestValidationError, ClientDisconnect):
        app.add_exception_handler(kind, handle_error)
    for router in ALL_ROUTERS:
        # Not `include_router`, which nests routers: metrics and `Allow` look at a flat list of routes.
        app.router.routes.extend(router.routes)
    _describe(app)
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=1, exclude_content_types=(ARROW, TAR))
    app.add_middleware(RequestMiddleware, state=state)
    return app


def _methods(app: FastAPI, scope: Scope) -> list[str]:
    """The methods of a path: each has its own route."""
    routes = [route for route in app.router.routes if isinstance(route, Route)]
    return sorted(
        {method for route in routes if route.matches(scope)[0] != Match.NONE for method in route.methods or ()}
    )


def _describe(app: FastAPI) -> None:
    """Adds the description of all routes, which is made at the first request."""

    @cache
    def description() -> bytes:
        return json.dumps(app.openapi(), separators=(",", ":")).encode()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(description(), media_type="application/json")
