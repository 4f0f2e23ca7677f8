"""Answers in pieces: what their client sees when they end, fail, or are left; and that nothing is held afterwards."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI
from starlette.responses import Response
from starlette.types import Message

import omnigraph as og
from omnigraph.errors import StorageError
from omnigraph.server.app import make_app
from omnigraph.server.middleware import ABORT
from omnigraph.server.routes.verbs import Context
from omnigraph.server.settings import ServerSettings, parse_graphs
from omnigraph.server.state import ServerState

PLACE = "/srv/secret"


class Chunks:
    """What a route streams, and what became of it."""

    def __init__(self) -> None:
        self.closed = threading.Event()
        self.released = threading.Event()

    def good(self) -> Iterator[bytes]:
        try:
            yield b"one"
            yield b""
            yield b"two" * 50_000
        finally:
            self.closed.set()

    def bad_at_once(self) -> Iterator[bytes]:
        raise StorageError(PLACE, "gone")
        yield b""

    def bad_later(self) -> Iterator[bytes]:
        try:
            yield b"one"
            raise RuntimeError(PLACE)
        finally:
            self.closed.set()

    def endless(self) -> Iterator[bytes]:
        try:
            while True:
                yield b"x"
        finally:
            self.closed.set()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streaming") / "people.omni"
    og.init(place, schema="node Person { name: String @key }")
    return place


@pytest.fixture
def chunks() -> Chunks:
    return Chunks()


@pytest.fixture
def app(place: Path, chunks: Chunks) -> Iterator[FastAPI]:
    app = make_app(
        ServerSettings(graphs=parse_graphs([str(place)]), unauthenticated=True, client_timeout=0.2, actor_requests=1)
    )
    router = APIRouter()

    @router.get("/graphs/{id}/streamed/{kind}")
    async def streamed(served: Context, kind: str) -> Response:
        return served.stream(getattr(chunks, kind)(), "application/x-ndjson", headers={"X-Commit-Id": "c1"})

    @router.get("/graphs/{id}/long")
    async def long(served: Context) -> Response:
        def work() -> bytes:
            while not served.cancellation.is_stopped and not chunks.released.wait(0.005):
                pass
            chunks.closed.set()
            return b"done"

        return Response(await served.run(work))

    app.include_router(router)
    yield app
    state: ServerState = app.state.server
    assert not state.in_flight
    assert not state.admission.in_flight
    state.pool.shutdown()
    assert not state.working


async def exchanged(app: FastAPI, path: str, send: Callable[[Message], Awaitable[None]], **more: Any) -> None:
    """One request, of which the answer goes to `send`; the client leaves when `left` is set."""
    left: asyncio.Event = more.get("left") or asyncio.Event()
    came: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if came:
            return came.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [(b"accept-encoding", b"gzip")] if more.get("gzip") else [],
        "client": ("here", 1),
        "extensions": {ABORT: more.get("abort", lambda: None)},
    }
    async with asyncio.timeout(120):
        await app(scope, receive, send)


def answered(app: FastAPI, path: str, **more: Any) -> list[Message]:
    """All messages of the answer."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    asyncio.run(exchanged(app, path, send, **more))
    return messages


def test_what_is_streamed_comes_whole_and_in_pieces(app: FastAPI, chunks: Chunks) -> None:
    start, *pieces = answered(app, "/graphs/people/streamed/good")
    assert start["status"] == 200
    assert dict(start["headers"])[b"x-commit-id"] == b"c1"
    assert b"content-length" not in dict(start["headers"])
    assert b"".join(piece["body"] for piece in pieces) == b"one" + b"two" * 50_000
    assert max(len(piece["body"]) for piece in pieces) <= 64 * 1024
    assert [piece["more_body"] for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert chunks.closed.is_set()


def test_an_error_before_the_first_piece_is_answered_like_any_other(app: FastAPI) -> None:
    start, body = answered(app, "/graphs/people/streamed/bad_at_once")
    assert start["status"] == 500
    assert b'"storage_error"' in body["body"]
    assert PLACE.encode() not in body["body"]


@pytest.mark.parametrize("gzip", [False, True])
def test_an_error_in_the_middle_leaves_the_answer_without_an_end(
    app: FastAPI, chunks: Chunks, caplog: pytest.LogCaptureFixture, gzip: bool
) -> None:
    aborted = threading.Event()
    start, *pieces = answered(app, "/graphs/people/streamed/bad_later", abort=aborted.set, gzip=gzip)
    assert start["status"] == 200
    assert all(piece["more_body"] for piece in pieces)
    assert aborted.is_set()
    assert chunks.closed.is_set()
    [logged] = [record for record in caplog.records if record.name == "omnigraph.server" and record.msg == "request"]
    assert logged.exc_info
    assert vars(logged)["code"] == "internal_error"


def test_a_client_that_leaves_ends_its_stream(app: FastAPI, chunks: Chunks) -> None:
    async def run() -> None:
        left, count = asyncio.Event(), 0

        async def send(message: Message) -> None:
            nonlocal count
            count += 1
            if count == 10:
                left.set()
            await asyncio.sleep(0)

        await exchanged(app, "/graphs/people/streamed/endless", send, left=left)

    asyncio.run(run())
    assert chunks.closed.is_set()


def test_a_client_that_does_not_read_ends_its_stream(app: FastAPI, chunks: Chunks) -> None:
    aborted = threading.Event()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(60)

    asyncio.run(exchanged(app, "/graphs/people/streamed/endless", send, abort=aborted.set))
    assert aborted.is_set()
    assert chunks.closed.is_set()


def test_work_whose_client_leaves_is_told_and_holds_its_place_until_it_ends(app: FastAPI, chunks: Chunks) -> None:
    async def run() -> None:
        left = asyncio.Event()
        messages: list[Message] = []

        async def send(message: Message) -> None:
            messages.append(message)

        first = asyncio.ensure_future(exchanged(app, "/graphs/people/long", send, left=left))
        while not app.state.server.working:
            await asyncio.sleep(0.001)
        await exchanged(app, "/graphs/people/long", send)
        assert messages[0]["status"] == 429
        left.set()
        await first

    asyncio.run(run())
    assert chunks.closed.is_set()


def test_a_request_that_a_server_has_no_more_time_for_is_told_so(app: FastAPI, chunks: Chunks) -> None:
    state: ServerState = app.state.server

    async def run() -> list[Message]:
        messages: list[Message] = []

        async def send(message: Message) -> None:
            messages.append(message)

        asked = asyncio.ensure_future(exchanged(app, "/graphs/people/long", send))
        while not state.working:
            await asyncio.sleep(0.001)
        state.draining = True
        asked.cancel()
        await asked
        return messages

    try:
        start, body = asyncio.run(run())
    finally:
        chunks.released.set()
    assert start["status"] == 503
    assert b'"unavailable"' in body["body"]
