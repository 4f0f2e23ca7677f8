"""A server of embeddings in the test process: it really speaks HTTP, and misbehaves as it is told to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, str], bytes | Iterator[bytes]]
"""A status, headers, and a body, or its pieces as they are sent."""


def vector_of(text: str, dimension: int) -> list[float]:
    """Something that depends on the text alone."""
    return [float(len(text)), *([float(ord(text[0]))] * (dimension - 1))]


def good(asked: dict[str, Any]) -> Answer:
    """The vectors of all texts, last first, as a server may do."""
    rows = [
        {"index": index, "embedding": vector_of(text, asked.get("dimensions", 4))}
        for index, text in enumerate(asked["input"])
    ]
    return 200, {}, json.dumps({"object": "list", "data": rows[::-1], "model": asked["model"]}).encode()


def failing(status: int, message: str = "busy", headers: dict[str, str] | None = None) -> Callable[[Any], Answer]:
    """An error as these servers put it."""
    body = json.dumps({"error": {"message": message}}).encode()
    return lambda _: (status, headers or {}, body)


@dataclass
class Server:
    """What the server was asked, and what it answers: first what is planned, then what is right."""

    url: str = ""
    planned: list[Callable[[dict[str, Any]], Answer]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    clients: list[int] = field(default_factory=list)
    """The port that each request came from."""

    @property
    def texts(self) -> list[str]:
        return [text for asked in self.asked for text in asked["input"]]


@contextmanager
def running_server() -> Iterator[Server]:
    """A server, while the block runs."""
    state = Server()
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with turn:
                state.asked.append(asked)
                state.keys.append(self.headers.get("Authorization"))
                state.paths.append(self.path)
                state.clients.append(self.client_address[1])
                answer = state.planned.pop(0) if state.planned else good
            status, headers, body = answer(asked)
            self.send_response(status)
            pieces = [body] if isinstance(body, bytes) else body
            length = {"Content-Length": str(len(body))} if isinstance(body, bytes) else {}
            for name, value in {**length, **headers}.items():
                self.send_header(name, value)
            with suppress(ConnectionError):  # who asked may have given up
                self.end_headers()
                for piece in pieces:
                    self.wfile.write(piece)

        def log_message(self, *_: Any) -> None:
            """Nobody reads a log here."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    serving.start()
    state.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
