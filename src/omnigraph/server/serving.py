"""What a route gets: a graph that acts as who asks, threads to work in, and streams that end when their client is gone.

A route below `/graphs/{id}` has `served: Served = Depends(serving)` among its parameters, and its router is an
`APIRouter(route_class=JsonRoute)`. Who asks and whether there is room for them was settled before.
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
from omnigraph.server.hosting import Hosting
from omnigraph.server.settings import Settings

_Result = TypeVar("_Result")

GraphId = Annotated[str, Path(description="The graph.", examples=["people"])]

_WATCHED_AFTER = 0.05
"""Work that is done sooner is not watched for its client's leaving, which would cost more than the rest of the work."""


class Served:
    """A request to a graph. Its work runs in threads, and stops when its client is gone, if it can be stopped."""

    __slots__ = ("_hosting", "_receive", "exchange", "graph")

    def __init__(self, hosting: Hosting, exchange: Exchange, graph: Graph, receive: Receive) -> None:
        self._hosting = hosting
        self._receive = receive
        self.exchange = exchange
        self.graph = graph

    @property
    def actor(self) -> str | None:
        """Who asks; nobody in particular where the server asks nobody who they are."""
        return self.exchange.actor

    @property
    def request_id(self) -> str:
        """What the request is called in logs."""
        return self.exchange.request_id

    @property
    def settings(self) -> Settings:
        """What the server was told when it started."""
        return self._hosting.settings

    @property
    def cancellation(self) -> Cancellation:
        """Is cancelled when the client is gone, when somebody cancels the request, and when the server has to stop."""
        return self.exchange.cancellation

    def run_verb(self, request: VerbRequest[_Result]) -> _Result:
        """What a verb gives, as who asks. It may take long, so it is called in a thread."""
        return self.graph._run(request)

    def query_limits(self) -> Cancellation:
        """Stops a query as `cancellation` does, and when it holds too much alone, or beside others of its actor."""
        ticket = self.exchange.ticket
        return Cancellation(
            parent=self.cancellation,
            max_bytes=self.settings.max_query_bytes,
            count=None if ticket is None else ticket.hold,
        )

    def take_up_to(self, limit: int) -> None:
        """Lets the body of this request be so large; to be called before it is read."""
        assert self.exchange.body is not None
        self.exchange.body.limit = limit

    async def run(self, work: Callable[[], _Result], *, slow: bool = False) -> _Result:
        """What `work` gives, from a thread. It is not begun if the request is cancelled before there is one.

        What is `slow` writes, or takes long for another reason: it has threads of its own.

        When the client goes away, the cancellation is cancelled, and `work` ends by itself: a query soon, a write when
        it is done. Until then the request counts as in flight.
        """
        future = self._hosting.begun(work, self.cancellation, slow=slow)
        done, _ = await asyncio.wait((future,), timeout=_WATCHED_AFTER)
        if done:
            return future.result()
        async with watched(self._receive, self.cancellation):
            return await asyncio.shield(future)

    async def run_before_body(self, work: Callable[[], _Result]) -> _Result:
        """What `work` gives, from a thread, while the body of the request is still to be read.

        Whoever watches for the client to leave drops what comes of the body, so nobody watches here.
        """
        return await asyncio.shield(self._hosting.begun(work, self.cancellation))

    def stream(
        self,
        chunks: Iterable[bytes],
        media_type: str,
        *,
        headers: Mapping[str, str] | None = None,
        status_code: int = 200,
        slow: bool = False,
    ) -> "Streamed":
        """An answer that is pulled from `chunks`, one at a time, in threads, no faster than its client reads it.

        An error before the first chunk is answered like any other. A later one ends the connection without the end of
        the answer, so that nobody takes what came for all of it. If `chunks` can be closed, they are in any case.
        With `slow`, the first chunk is work that takes long.
        """
        return Streamed(
            self._hosting,
            self.cancellation,
            chunks,
            media_type,
            headers=headers,
            status_code=status_code,
            slow=slow,
        )


async def serving(request: Request, id: GraphId) -> Served:
    """The dependency of every route below `/graphs/{id}`."""
    hosting: Hosting = request.app.state.hosting
    graph = hosting.graphs.get(id)
    if graph is None:
        raise NotFound("graph", id)
    exchange = exchange_of(request.scope)
    exchange.graph = id
    acting = graph if exchange.actor is None else graph.acting_as(exchange.actor)
    return Served(hosting, exchange, acting, request.receive)


@asynccontextmanager
async def watched(receive: Receive, cancellation: Cancellation) -> AsyncIterator[None]:
    """Cancels when the client is gone, while this is entered. What is left of the body of the request is dropped."""

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


class Streamed(Response):
    """The response of `Served.stream`."""

    def __init__(
        self,
        hosting: Hosting,
        cancellation: Cancellation,
        chunks: Iterable[bytes],
        media_type: str,
        *,
        headers: Mapping[str, str] | None,
        status_code: int,
        slow: bool,
    ) -> None:
        super().__init__(status_code=status_code, headers=headers, media_type=media_type)
        del self.headers["content-length"]
        self._hosting = hosting
        self._cancellation = cancellation
        self._chunks = chunks
        self._slow = slow

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - it is ASGI
        iterator: Iterator[bytes] = iter(self._chunks)

        def next_chunk() -> bytes | None:
            return next(iterator, None)

        try:
            async with watched(receive, self._cancellation):
                chunk = await self._hosting.begun(next_chunk, self._cancellation, slow=self._slow)
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                while chunk is not None:
                    if chunk:
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    chunk = await self._hosting.begun(next_chunk, self._cancellation)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                await asyncio.shield(self._hosting.begun(close))
