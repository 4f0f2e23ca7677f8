"""The application: its routes and middleware."""

import json
import os
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from omnigraph.errors import OmnigraphError, RecoveryRequired
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import open as open_graph
from omnigraph.policy import Policy, policy_of
from omnigraph.server.direct_reads import DirectReads
from omnigraph.server.errors import error_response
from omnigraph.server.exchange import exchange_of
from omnigraph.server.middleware import RequestMiddleware
from omnigraph.server.responses import ARROW, LEAST_COMPRESSED, TAR
from omnigraph.server.routes import ALL_ROUTERS
from omnigraph.server.routes.data import QueryBody
from omnigraph.server.settings import ServerSettings
from omnigraph.server.short_reads import ShortReads
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


class Application(FastAPI):
    """FastAPI's application, in which requests pass our own middleware first.

    That answers all errors, so nothing is left for FastAPI's outer layers, which take longer than a short read.
    """

    _outermost: RequestMiddleware | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
            return
        if self._outermost is None:
            self._outermost = self._find_outermost()
        scope["app"] = self
        await self._outermost(scope, receive, send)

    def _find_outermost(self) -> RequestMiddleware:
        if self.middleware_stack is None:
            self.middleware_stack = self.build_middleware_stack()
        layer: Any = self.middleware_stack
        while not isinstance(layer, RequestMiddleware):
            layer = layer.app
        return layer


def make_app(settings: ServerSettings, lifespan: Lifespan[FastAPI] | None = None) -> FastAPI:
    """The application, with its graphs open."""
    policy = load_policy(settings)
    state = make_state(settings, open_graphs(settings, policy), policy)
    app = Application(
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
    app.add_middleware(_compress_answers)
    short_reads = ShortReads(QueryBody)
    app.add_middleware(RequestMiddleware, state=state, short_reads=short_reads, compressed=_compress_answers)
    app.state.direct_reads = DirectReads(state, short_reads, _compress_answers)
    return app


def _compress_answers(app: ASGIApp) -> ASGIApp:
    """Compresses answers for clients that accept it."""
    return GZipMiddleware(app, minimum_size=LEAST_COMPRESSED, compresslevel=1, exclude_content_types=(ARROW, TAR))


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
