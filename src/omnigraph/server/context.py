"""What a route gets: a graph that acts for the actor, threads to work in, and streams that end with their client.

A route below `/graphs/{id}` has `context: Context` among its parameters, and its router is an
`APIRouter(route_class=JsonRoute)`. Authentication and admission come before.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Annotated, TypeVar

from fastapi import Path, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omnigraph.api.base import Request as VerbRequest
from omnigraph.errors import NotFound, OmnigraphError
from omnigraph.graph.graph import Graph
from omnigraph.query.cancelling import Cancellation
from omnigraph.server.exchange import Exchange, exchange_of
from omnigraph.server.scheduler import Threads
from omnigraph.server.settings import ServerSettings
from omnigraph.server.state import ServerState

_Result = TypeVar("_Result")

GraphId = Annotated[str, Path(description="The graph.", examples=["people"])]

_WATCHED_AFTER = 0.05
"""In seconds. Shorter work does not watch for a disconnect, which would cost more than the work."""
_WRITES_WATCHED_AFTER = 1.0
"""The same for mutations: one that has begun goes on in any case, and small ones wait for one another for a while."""


class RequestContext:
    """A request to a graph. Its work runs in threads, and is cancelled when its client disconnects."""

    __slots__ = ("_receive", "_state", "exchange", "graph")

    def __init__(self, state: ServerState, exchange: Exchange, graph: Graph, receive: Receive) -> None:
        self._state = state
        self._receive = receive
        self.exchange = exchange
        self.graph = graph

    @property
    def actor(self) -> str | None:
        """The actor; None for a server without authentication."""
        return self.exchange.actor

    @property
    def request_id(self) -> str:
        """The id of the request in logs."""
        return self.exchange.request_id

    @property
    def settings(self) -> ServerSettings:
        """The settings of the server."""
        return self._state.settings

    @property
    def cancellation(self) -> Cancellation:
        """Is cancelled when the client disconnects, when the request is cancelled, and when the server stops."""
        return self.exchange.cancellation

    def run_verb(self, request: VerbRequest[_Result]) -> _Result:
        """The result of a verb, run as the actor. It may take long, so call it in a thread."""
        return self.graph._run(request)

    def count_load(self, records: int) -> None:
        """Counts a load that made a commit, for the metrics; call it in the event loop."""
        self._state.metrics.loads.count(records)

    def query_limits(self) -> Cancellation:
        """Stops a query as `cancellation` does, and when it, or all queries of its actor, hold too much memory."""
        ticket = self.exchange.ticket
        return Cancellation(
            parent=self.cancellation,
            max_bytes=self.settings.max_query_bytes,
            count=None if ticket is None else ticket.hold,
        )

    def limit_body(self, limit: int) -> None:
        """Sets the largest body of this request; call it before the body is read."""
        assert self.exchange.body is not None
        self.exchange.body.limit = limit

    async def run(self, work: Callable[[], _Result], *, threads: Threads = Threads.READS) -> _Result:
        """Runs `work` in a thread and returns its result. It does not start if the request is cancelled before.

        Work that writes, or takes long for another reason, has other threads than reads.

        When the client disconnects, the cancellation is cancelled, and `work` ends by itself: a query soon, a write
        when it is done. Until then the request counts as in flight.
        """
        future = self._state.start(work, self.cancellation, threads=threads)
        watched_after = _WRITES_WATCHED_AFTER if threads is Threads.WRITES else _WATCHED_AFTER
        done, _ = await asyncio.wait((future,), timeout=watched_after)
        if done:
            return future.result()
        async with cancel_on_disconnect(self._receive, self.cancellation):
            return await asyncio.shield(future)

    async def run_before_body(self, work: Callable[[], _Result]) -> _Result:
        """Runs `work` in a thread and returns its result, before the body of the request is read.

        It does not watch for a disconnect, as that would drop the body.
        """
        return await asyncio.shield(self._state.start(work, self.cancellation))

    def stream(
        self,
        chunks: Iterable[bytes],
        media_type: str,
        *,
        headers: Mapping[str, str] | None = None,
        status_code: int = 200,
        threads: Threads = Threads.READS,
    ) -> "StreamedResponse":
        """A response whose chunks are read in threads, one at a time, no faster than its client reads them.

        An error before the first chunk is answered as usual. A later one ends the connection without the end of the
        response, so that the client notices. If `chunks` can be closed, they are always closed. `threads` make
        the first chunk, which may take long.
        """
        return StreamedResponse(
            self._state,
            self.cancellation,
            chunks,
            media_type,
            headers=headers,
            status_code=status_code,
            threads=threads,
        )


async def request_context(request: Request, id: GraphId) -> RequestContext:
    """The dependency of every route below `/graphs/{id}`."""
    state: ServerState = request.app.state.server
    exchange = exchange_of(request.scope)
    graph = state.acting_graph(id, exchange.actor)
    if graph is None:
        raise NotFound("graph", id)
    exchange.graph = id
    return RequestContext(state, exchange, graph, request.receive)


@asynccontextmanager
async def cancel_on_disconnect(receive: Receive, cancellation: Cancellation) -> AsyncIterator[None]:
    """Cancels when the client disconnects, while the block runs. The rest of the body of the request is dropped."""

    async def watch() -> None:
        with suppress(OmnigraphError):
            while (await receive())["type"] != "http.disconnect":
                pass
            cancellation.cancel()

    task = asyncio.ensure_future(watch())
    try:
        yield
    finally:
        task.cancel()


class StreamedResponse(Response):
    """The response of `RequestContext.stream`."""

    def __init__(
        self,
        state: ServerState,
        cancellation: Cancellation,
        chunks: Iterable[bytes],
        media_type: str,
        *,
        headers: Mapping[str, str] | None,
        status_code: int,
        threads: Threads,
    ) -> None:
        super().__init__(status_code=status_code, headers=headers, media_type=media_type)
        del self.headers["content-length"]
        self._state = state
        self._cancellation = cancellation
        self._chunks = chunks
        self._threads = threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - it is ASGI
        iterator: Iterator[bytes] = iter(self._chunks)

        def next_chunk() -> bytes | None:
            return next(iterator, None)

        try:
            async with cancel_on_disconnect(receive, self._cancellation):
                chunk = await self._state.start(next_chunk, self._cancellation, threads=self._threads)
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                while chunk is not None:
                    if chunk:
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    chunk = await self._state.start(next_chunk, self._cancellation)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                await asyncio.shield(self._state.start(close))
