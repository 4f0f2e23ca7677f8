"""The HTTP protocol of a connection."""

import asyncio
import json
import resource
from typing import Any, cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from omnigraph.errors import Unavailable
from omnigraph.server.direct_reads import DirectReads
from omnigraph.server.errors import RETRY_AFTER
from omnigraph.server.middleware import ABORT

_HEADER_SECONDS = 30
_LONGEST_HEAD = 64 * 1024
"""In bytes: of the headers of a request, and of what surrounds its chunks and trailers."""
_MOST_HEADERS = 200


class Protocol(HttpToolsProtocol):
    """Uvicorn's HTTP parser with limits that it lacks: connections, and the size, number and duration of headers.

    It also answers in JSON what is not HTTP, drops trailers, which have passed no check, can abort a connection, and
    answers short reads directly.
    """

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        app: Any = self.config.app
        self._direct_reads: DirectReads = app.state.direct_reads
        self._requests = 0
        self._is_between = True
        """Whether the parser is between two requests."""
        self._waits = False
        """Whether a request waits for its answer from `DirectReads`."""
        self._used_at = 0.0
        """When a request was answered directly, in the time of the event loop."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.head_bytes = 0
        self.header_timeout = self.loop.call_later(_HEADER_SECONDS, self.transport.abort)
        if len(self.connections) > _most_connections():
            self._refuse("503 Service Unavailable", "the server has reached its limit of connections", Unavailable.code)

    def connection_lost(self, exc: Exception | None) -> None:
        self.header_timeout.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._waits:
            # What comes now is answered after what came before.
            self._direct_reads.answer_waiting()
        if not self._is_idle():
            self._feed(data)
        elif self._direct_reads.take(self, data):
            self._waits = True
        else:
            self.parse(data)

    def _is_idle(self) -> bool:
        """Whether the next byte begins a request that can be answered at once."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return self._is_between and is_answered and not (self.flow.write_paused or self.transport.is_closing())

    def answer(self, response: bytes) -> None:
        """Sends the response to a short read."""
        self._waits = False
        if self.transport.is_closing():
            return
        self.transport.write(response)
        self.server_state.total_requests += 1
        # The timer stays: to stop one and to start another takes longer than to look at the time when it fires.
        self._used_at = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self.header_timeout.cancel()
            self._start_keep_alive(self.timeout_keep_alive)

    def parse(self, data: bytes) -> None:
        """Answers a request in the usual way. If it is a query, its head is known from then on."""
        self._waits = False
        if self.transport.is_closing():
            return
        before = self._requests
        self._feed(data)
        if self._requests == before + 1 and self._is_between and self.cycle.keep_alive:
            self._direct_reads.learn(data, cast("Scope", self.scope))

    @property
    def client_host(self) -> str:
        """The address of the client."""
        return self.client[0] if self.client else ""

    @property
    def usual_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers that all responses have."""
        return self.server_state.default_headers

    def _start_keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Closes a connection that was not used for long."""
        left = self._used_at + self.timeout_keep_alive - self.loop.time()
        if left > 0 and not self.transport.is_closing():
            self._start_keep_alive(left)
        else:
            super().timeout_keep_alive_handler()

    def _feed(self, data: bytes) -> None:
        self.head_bytes += len(data)
        super().data_received(data)
        if self.head_bytes > _LONGEST_HEAD and not self.transport.is_closing():
            self._refuse("431 Request Header Fields Too Large", "the headers of the request are too long")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._requests += 1
        self._is_between = False
        self.head_bytes = 0
        self.header_timeout.cancel()
        self.header_timeout = self.loop.call_later(_HEADER_SECONDS, self.transport.abort)
        scope: dict[str, Any] = self.scope  # type: ignore[assignment]
        scope["extensions"] = {ABORT: self.transport.abort}

    def on_headers_complete(self) -> None:
        self.header_timeout.cancel()
        self.head_bytes = 0
        super().on_headers_complete()
        # Trailers must not become headers: these were checked already.
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        if len(self.headers) > _MOST_HEADERS:
            raise ValueError("too many headers")

    def on_body(self, body: bytes) -> None:
        self.head_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_between = not self.parser.should_upgrade()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - it is Uvicorn's
        """Answers a request that is not HTTP."""
        self._refuse("400 Bad Request", "the request is not HTTP")

    def _refuse(self, status: str, problem: str, code: str = "bad_request") -> None:
        body = json.dumps({"error": problem, "code": code, "request_id": ""})
        headers = f"content-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}"
        if code == Unavailable.code:
            headers += f"\r\nretry-after: {RETRY_AFTER}"
        self.transport.write(f"HTTP/1.1 {status}\r\n{headers}\r\n\r\n{body}".encode())
        self.transport.close()


def _most_connections() -> int:
    """Half of the file descriptors of the process: the others are for the files of graphs."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
