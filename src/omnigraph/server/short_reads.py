"""Answers short reads on the event loop: without a thread, and without what other routes need.

A read that is not short is left to the route.
"""

from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from pydantic import BaseModel

from omnigraph.api.values import answer_to_json
from omnigraph.graph.graph import Graph
from omnigraph.query.reading import MemoryResult
from omnigraph.server.query_bodies import QueryBodies, read_params
from omnigraph.server.responses import encode_json
from omnigraph.verbs.query import StateAtHand, call_at_once, query_at_once


class ShortReads:
    """Answers short reads. Only the event loop calls it."""

    def __init__(self, body_model: type[BaseModel]) -> None:
        self._bodies = QueryBodies(body_model)

    def answer(self, graph: Graph, state: StateAtHand, body: bytes, stored: str | None = None) -> bytes | None:
        """The answer to the query in a body, or to a call of a stored one, as JSON; None if the route must answer.

        It is that of a state of the graph. Raises `OmnigraphError`, as the route does.
        """
        if stored is not None:
            params = read_params(body)
            result = None if params is None else call_at_once(graph._session, state, stored, params)
        else:
            asked = self._bodies.read(body)
            if asked is None:
                return None
            result = query_at_once(graph._session, state, asked.source, asked.name, asked.params)
        return None if result is None else _encode(result)


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
