"""What the routes below a graph have in common."""

from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Security
from fastapi.security import HTTPBearer

from omnigraph.server.direct import DirectRoute
from omnigraph.server.models.parameters import known_parameters
from omnigraph.server.serving import Served, serving

BEARER = HTTPBearer(auto_error=False, description="A token that the server knows; it says who the actor is.")
"""For the description only: the token was looked at before any route."""

Serving: TypeAlias = Annotated[Served, Depends(serving)]


def graph_router(tag: str) -> APIRouter:
    """A router for routes below a graph."""
    return APIRouter(
        prefix="/graphs/{id}",
        tags=[tag],
        route_class=DirectRoute,
        dependencies=[Security(BEARER), Depends(known_parameters)],
    )
