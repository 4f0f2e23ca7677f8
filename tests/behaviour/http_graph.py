"""A graph behind the routes of a server, in this process: requests go to the application without a network."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

import omnigraph as og
from omnigraph.server.app import make_app
from omnigraph.server.routes import ROUTERS
from omnigraph.server.settings import ServerSettings

SCHEMA = """
node Person {
    name: String @key
    age: I64?
    score: F64?
    rank: F64?
    photo: Blob?
    bio: String?
    embedding: Vector(4)? @embed("bio", model="mock/small")
}
edge Knows: Person -> Person { since: I64? }
"""
ARROW = "application/vnd.apache.arrow.stream"
LINES = {"content-type": "application/x-ndjson"}
NAMES = "query names() { match { $p: Person } return { $p.name } }"
TAKE = "query take($name: String) { delete Person where name = $name returning { id, age, photo } }"
ADD = "query add($name: String) { insert Person { name: $name } }"
RECORDS = b"""{"type": "Person", "data": {"name": "Ada", "age": 36, "bio": "engines", "photo": "base64:AAE="}}
{"type": "Person", "data": {"name": "Bob", "age": 9007199254740993}}
{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": 1833}}
"""


class Door:
    """One graph as a client of the server sees it; `graph` is the same one without the server."""

    def __init__(self, app: FastAPI, runner: asyncio.Runner, graph: og.Graph) -> None:
        self.app, self.graph, self._runner = app, graph, runner

    def __call__(self, method: str, path: str, **given: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, f"/graphs/people{path}", **given)

        return self._runner.run(asked())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """What a coroutine gives, in the loop that the application is used in."""
        return self._runner.run(work)

    def ok(self, method: str, path: str, **given: Any) -> Any:
        """The document of a request that succeeds."""
        answer = self(method, path, **given)
        assert answer.is_success, answer.text
        return answer.json()


@contextmanager
def door(folder: Path, **limits: Any) -> Iterator[Door]:
    """A new graph, and the application that serves it."""
    uri = folder / "people.omni"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMNIGRAPH_DURABILITY", "fast")
        graph = og.init(uri, SCHEMA)
        app = make_app(ServerSettings(graphs={"people": str(uri)}, unauthenticated=True, **limits))
    with asyncio.Runner() as runner:
        yield Door(app, runner, graph)


def graph_routes() -> dict[str, APIRoute]:
    """The routes below a graph, by their operation ids."""
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    return {str(route.operation_id): route for route in routes}
