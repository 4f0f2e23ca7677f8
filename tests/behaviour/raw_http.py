"""Asks a server in ways that no client library would, and looks at every answer for what must not be in it."""

import json
import re
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any
from urllib.parse import quote

JSON = ("Content-Type", "application/json")
LINES = ("Content-Type", "application/x-ndjson")
KNOWN_HEADERS = {
    "allow",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "date",
    "retry-after",
    "transfer-encoding",
    "vary",
    "www-authenticate",
    "x-commit-id",
    "x-request-id",
}
"""An answer has no other header, so none that a client wrote."""
_INSIDES = re.compile(r"Traceback|\.py\b|\.rs:|site-packages|omnigraph-scratch-|omnigraph-joins-|/home/|/root/")
_SECONDS = 120

Headers = Iterable[tuple[str, str | bytes]]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body, which is JSON."""
        return json.loads(self.body)

    @property
    def outcome(self) -> tuple[int, str]:
        """The status and the code of an error."""
        return self.status, self.document["code"]


@dataclass(frozen=True)
class RawClient:
    """Talks to one server over plain sockets. No answer may have any of the secrets in it."""

    address: tuple[str, int]
    tokens: Mapping[str, str]
    secrets: Sequence[str]

    def __call__(
        self,
        method: str,
        target: str | bytes,
        *,
        actor: str | None = "ann",
        headers: Headers = (),
        body: bytes | None = None,
        document: Any = None,
    ) -> Answer:
        """One request on a connection of its own; `document` is sent as JSON."""
        extra = list(headers)
        if document is not None:
            body = json.dumps(document).encode()
            extra.append(JSON)
        if body is not None:
            extra.append(("Content-Length", str(len(body))))
        with self.connected() as sending:
            sending.sendall(self.head(method, target, actor=actor, headers=extra) + (body or b""))
            return self.answer(sending, method)

    def head(self, method: str, target: str | bytes, *, actor: str | None = "ann", headers: Headers = ()) -> bytes:
        """The first lines of a request, as they are given."""
        path = target if isinstance(target, bytes) else target.encode("latin-1")
        lines = [method.encode() + b" " + path + b" HTTP/1.1", b"Host: server"]
        if actor is not None:
            lines.append(f"Authorization: Bearer {self.tokens[actor]}".encode())
        lines += [name.encode() + b": " + (v if isinstance(v, bytes) else v.encode("latin-1")) for name, v in headers]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    @contextmanager
    def connected(self) -> Iterator[socket.socket]:
        """A connection."""
        with socket.create_connection(self.address, timeout=_SECONDS) as opened:
            yield opened

    def exchanged(self, content: bytes) -> list[Answer]:
        """All answers to some bytes, until the server ends the connection."""
        received = b""
        with self.connected() as sending:
            # A server that closes before it has read everything resets the connection; what it said comes first.
            with suppress(ConnectionError):
                sending.sendall(content)
            with suppress(ConnectionError):
                while piece := sending.recv(65536):
                    received += piece
        return [*self._answers(received)]

    def _answers(self, received: bytes) -> Iterator[Answer]:
        while received:
            head, _, rest = received.partition(b"\r\n\r\n")
            lengths = re.findall(rb"(?im)^content-length: (\d+)\r?$", head)
            end = int(lengths[0]) if lengths else len(rest)
            with _Replayed(head + b"\r\n\r\n" + rest[:end]) as replayed:
                yield self.answer(replayed, "GET")
            received = rest[end:]

    def answer(self, sending: Any, method: str) -> Answer:
        """The next answer of a connection, after it was looked at."""
        response = HTTPResponse(sending, method=method)
        response.begin()
        answer = Answer(response.status, dict(response.headers.items()), response.read())
        self.check(answer, method)
        return answer

    def check(self, answer: Answer, method: str = "GET") -> None:
        """Raises when an answer tells something, or is an error that is not told like all others."""
        told = answer.body.decode("utf-8", "replace") + "".join(f"{k}: {v}\n" for k, v in answer.headers.items())
        for secret in self.secrets:
            assert secret not in told, told
        assert not _INSIDES.search(told), told
        assert {name.lower() for name in answer.headers} <= KNOWN_HEADERS, answer.headers
        if answer.status >= 400 and method != "HEAD":
            assert answer.headers["content-type"] == "application/json"
            assert {"error", "code", "request_id"} <= answer.document.keys()
        assert answer.status < 500, answer


class _Replayed:
    """Bytes that were received, as what `HTTPResponse` reads from."""

    def __init__(self, content: bytes) -> None:
        self._ends = socket.socketpair()
        self._ends[0].sendall(content)
        self._ends[0].close()

    def __enter__(self) -> socket.socket:
        return self._ends[1]

    def __exit__(self, *_: object) -> None:
        self._ends[1].close()


def quoted(name: str) -> str:
    """A name as one part of a path, whatever it has in it."""
    return quote(name.encode("utf-8", "surrogatepass"), safe="")


def chunked(*pieces: bytes) -> bytes:
    """Pieces as a body without a length."""
    return b"".join(map(chunk, (*pieces, b"")))


def chunk(piece: bytes) -> bytes:
    """A piece of a body without a length."""
    return b"%x\r\n%s\r\n" % (len(piece), piece)
