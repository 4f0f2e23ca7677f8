"""Answers short reads on the event loop: without a thread, and without what other routes need.

A request that is not plain in every respect, and a read that is not short, are left to the route, which has the errors
and the documentation. So both ways give the same answers.
"""

from typing import Any

from pydantic import BaseModel, ValidationError
from starlette.types import Message, Receive, Scope

from omnigraph.api.data import QueryRequest, QueryResult
from omnigraph.api.values import answer_to_json
from omnigraph.server.exchange import Exchange
from omnigraph.server.responses import encode_json
from omnigraph.server.state import ServerState
from omnigraph.strict_json import read_json
from omnigraph.verbs.query import query_at_once

ROUTE = "/graphs/{id}/query"
_PREFIX, _SUFFIX = "/graphs/", "/query"
_LONGEST_BODY = 16 * 1024
_PLAIN = frozenset({"source", "name", "params", "branch", "timeout"})
"""The fields of a body that a short read may have."""
_USUAL = frozenset({b"*/*", b"application/json"})


def may_be_short(scope: Scope) -> bool:
    """Whether a request asks for a query, with a short plain body, and for an answer in JSON."""
    path: str = scope["path"]
    if scope["method"] != "POST" or not (path.startswith(_PREFIX) and path.endswith(_SUFFIX)) or scope["query_string"]:
        return False
    length, is_json = 0, False
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = int(value) if value.isdigit() else 0
        elif name == b"content-type":
            is_json = value == b"application/json"
        elif name in (b"content-encoding", b"transfer-encoding") or (name == b"accept" and value not in _USUAL):
            return False
    return is_json and 0 < length <= _LONGEST_BODY


def answer_short_read(state: ServerState, exchange: Exchange, path: str, *, body: bytes, model: Any) -> bytes | None:
    """The answer to the query in a body, as JSON; None if the route must answer. `model` checks the body.

    Raises `OmnigraphError`, as the route does.
    """
    graph = state.acting_graph(path[len(_PREFIX) : -len(_SUFFIX)], exchange.actor)
    if graph is None:
        return None
    try:
        document = read_json(body.decode())
        if not (isinstance(document, dict) and document.keys() <= _PLAIN):
            return None
        asked: BaseModel = model.model_validate(document)
    except (ValueError, ValidationError):
        return None
    exchange.graph, exchange.route = graph.id, ROUTE
    exchange.cancellation.check()
    values = vars(asked)
    request = QueryRequest(values["source"], values["name"], values["params"], branch=values["branch"])
    result = query_at_once(graph._session, request)
    if result is None:
        return None
    return _encode(result)


def _encode(result: QueryResult) -> bytes:
    rows = [{name: _plain(value) for name, value in row.items()} for row in result.rows()]
    return encode_json({"columns": result.columns, "rows": rows, "commit_id": result.commit_id})


def _plain(value: Any) -> Any:
    return value if value.__class__ is str or value.__class__ is int else answer_to_json(value)


async def receive_nothing() -> Message:
    """For an answer to a request that was received whole."""
    return {"type": "http.disconnect"}


def replay(messages: list[Message], receive: Receive) -> Receive:
    """Gives messages that were received to those who receive next."""
    left = messages[::-1]

    async def receive_again() -> Message:
        return left.pop() if left else await receive()

    return receive_again
