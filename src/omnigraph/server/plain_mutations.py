"""Runs mutations of plain requests, in the same threads and with the same limits as their route."""

from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.types import Receive

from omnigraph.api.data import MutateRequest
from omnigraph.graph.graph import Graph
from omnigraph.server.context import RequestContext
from omnigraph.server.exchange import Exchange
from omnigraph.server.requests import body_model, request_from_body
from omnigraph.server.responses import encode_json
from omnigraph.server.scheduler import Threads
from omnigraph.server.state import ServerState
from omnigraph.strict_json import read_json

_Body: Any = body_model(MutateRequest)


async def run_mutation(
    state: ServerState, exchange: Exchange, graph: Graph, *, body: bytes, receive: Receive
) -> bytes | None:
    """The answer to the mutation in a body, as JSON; None if the route must answer. Raises what the route raises."""
    try:
        asked: BaseModel = _Body.model_validate(read_json(body.decode()))
    except (ValueError, ValidationError):
        return None
    request = request_from_body(MutateRequest, asked)
    context = RequestContext(state, exchange, graph, receive)
    return await context.run(lambda: encode_json(context.run_verb(request).as_json()), threads=Threads.WRITES)
