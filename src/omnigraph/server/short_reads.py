"""Answers short reads on the event loop: without a thread, and without what other routes need.

A request that is not plain in every respect, and a read that is not short, are left to the route, which has the errors
and the documentation. So both ways give the same answers.
"""

from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from pydantic import BaseModel
from starlette.types import Message, Receive, Scope

from omnigraph.api.values import answer_to_json
from omnigraph.graph.graph import Graph
from omnigraph.query.reading import MemoryResult
from omnigraph.server.query_bodies import QueryBodies
from omnigraph.server.responses import encode_json
from omnigraph.verbs.query import StateAtHand, query_at_once

ROUTE = "/graphs/{id}/query"
_PREFIX, _SUFFIX = "/graphs/", "/query"
_LONGEST_BODY = 16 * 1024
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


class ShortReads:
    """Answers short reads. Only the event loop calls it."""

    def __init__(self, body_model: type[BaseModel]) -> None:
        self._bodies = QueryBodies(body_model)

    def answer(self, graph: Graph, state: StateAtHand, body: bytes) -> bytes | None:
        """The answer to the query in a body, from a state of the graph, as JSON; None if the route must answer.

        Raises `OmnigraphError`, as the route does.
        """
        asked = self._bodies.read(body)
        if asked is None:
            return None
        result = query_at_once(graph._session, state, asked.source, asked.name, asked.params)
        return None if result is None else _encode(result)


def graph_in(path: str) -> str:
    """The graph in the path of a query."""
    return path[len(_PREFIX) : -len(_SUFFIX)]


def _encode(result: MemoryResult) -> bytes:
    """What `encode_json` makes of the whole answer: for few rows, to begin takes it longer than to write them."""
    columns, keys = _names(result.names)
    rows = [
        ",".join(
            [
                key + (encode_basestring(value) if value.__class__ is str else _text(value))
                for key, value in zip(keys, row, strict=True)
            ]
        )
        for row in zip(*result.values(), strict=True)
    ]
    listed = "{" + "},{".join(rows) + "}" if rows else ""
    text = f'{{"columns":{columns},"rows":[{listed}],"commit_id":"{result.commit_id}"}}'
    return text.encode("utf-8", "backslashreplace")


@lru_cache(256)
def _names(names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The names of columns as JSON, and each as the beginning of a member."""
    return encode_json(names).decode(), tuple(f"{encode_basestring(name)}:" for name in names)


def _text(value: Any) -> str:
    if value.__class__ is int:
        return str(value)
    return "null" if value is None else encode_json(answer_to_json(value)).decode()


async def receive_nothing() -> Message:
    """For an answer to a request that was received whole."""
    return {"type": "http.disconnect"}


def replay(messages: list[Message], receive: Receive) -> Receive:
    """Gives messages that were received to those who receive next."""
    left = messages[::-1]

    async def receive_again() -> Message:
        return left.pop() if left else await receive()

    return receive_again
