"""The connection to a server: requests out, documents, lines and tables in, and errors as they were raised there.

Nothing is ever sent to another place than the one that was named, so a redirect is an error: it would take the token
along. A read whose connection was closed before anything came back is asked again, once; a write never is.
"""

import json
import re
import socket
import ssl
import urllib.request
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx

if TYPE_CHECKING:
    import pyarrow as pa

from omnigraph.errors import OmnigraphError, ServerFailed, Unavailable, UsageError
from omnigraph.remote.problems import error_of, with_names

ARROW, LINES, TAR = "application/vnd.apache.arrow.stream", "application/x-ndjson", "application/x-tar"
COMMIT_HEADER, REQUEST_HEADER = "X-Commit-Id", "X-Request-Id"
_CONNECT_SECONDS = 10.0
# A server may close a connection that is idle for some seconds; ours are gone before that.
_IDLE_SECONDS = 3.0
_CONNECTIONS = 32
_TOKEN = re.compile(r"[!-~]+")
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_UNCERTAIN = "it may have been done all the same, so look at the commits before you try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request: what is asked for at which path, and with what. `names` are those of the texts in it."""

    path: str
    method: str = "GET"
    query: Mapping[str, Any] | None = None
    body: Mapping[str, Any] | None = None
    files: Any = None
    accept: str = "application/json"
    writes: bool = False
    names: Mapping[str, str] | None = None


class Wire:
    """The connections to one server. Any number of threads may use it."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        headers = {"User-Agent": "omnigraph"}
        if token is not None:
            if not _TOKEN.fullmatch(token):
                raise UsageError("a token has no spaces, and no characters but those of ASCII")
            headers["Authorization"] = f"Bearer {token}"
        try:
            self._client = httpx.Client(
                base_url=url,
                headers=headers,
                timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
                transport=_transport(url),
                follow_redirects=False,
                trust_env=False,
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise UsageError(f"a server is named as http://HOST:PORT, not {url!r}: {error}") from error
        self._closing = weakref.finalize(self, self._client.close)

    def close(self) -> None:
        """Closes the connections."""
        self._closing()

    def document(self, ask: Ask) -> Any:
        """The JSON document of an answer."""
        with self._answered(ask) as response:
            content = self._content(ask, response)
        try:
            return json.loads(content) if content else None
        except ValueError as error:
            raise Unavailable(
                f"{self.url} answered with something that is no JSON; is it a server of graphs?"
            ) from error

    def table(self, ask: Ask) -> "tuple[pa.Table, str]":
        """The table of an answer, and the commit that it was read at."""
        with self._answered(ask) as response:
            commit = response.headers.get(COMMIT_HEADER, "")
            content = self._content(ask, response)
        import pyarrow as pa  # noqa: PLC0415 - most answers are documents

        try:
            return pa.ipc.open_stream(content).read_all(), commit
        except pa.ArrowException as error:
            raise Unavailable(f"{self.url} answered with something that is no Arrow stream") from error

    def lines(self, ask: Ask) -> Iterator[str]:
        """The lines of an answer, as they come."""
        with self.stream(ask) as pieces:
            begun: list[bytes] = []  # put together once, as a line may be as long as all that a commit changed
            for piece in pieces:
                first, *others = piece.split(b"\n")
                begun.append(first)
                for each in others:
                    yield b"".join(begun).decode()
                    begun = [each]
            if rest := b"".join(begun):
                yield rest.decode()

    @contextmanager
    def stream(self, ask: Ask) -> Iterator[Iterator[bytes]]:
        """The bytes of an answer, piece by piece, as they come."""
        with self._answered(ask) as response:
            yield self._pieces(ask, response)

    # --- one exchange ---

    @contextmanager
    def _answered(self, ask: Ask) -> Iterator[httpx.Response]:
        """The answer to a request, once its status says that all is well; its content is still to come."""
        response = self._sent(ask)
        try:
            if not response.is_success:
                raise self._error(ask, response)
            yield response
        finally:
            response.close()

    def _sent(self, ask: Ask) -> httpx.Response:
        try:
            return self._client.send(self._request(ask), stream=True)
        except httpx.RemoteProtocolError as error:
            if ask.writes or ask.files is not None:
                raise self._lost(ask, error) from error
        except (httpx.TransportError, ssl.SSLError, OSError) as error:
            raise self._lost(ask, error) from error
        try:
            return self._client.send(self._request(ask), stream=True)
        except (httpx.TransportError, ssl.SSLError, OSError) as error:
            raise self._lost(ask, error) from error

    def _request(self, ask: Ask) -> httpx.Request:
        if not self._closing.alive:
            raise UsageError(f"the connection to {self.url} was closed")
        query = {name: value for name, value in (ask.query or {}).items() if value is not None}
        content, headers = None, {"Accept": ask.accept}
        if ask.body is not None:
            content, headers["Content-Type"] = encoded(ask.body), "application/json"
        try:
            return self._client.build_request(
                ask.method, ask.path, params=query or None, content=content, files=ask.files, headers=headers
            )
        except (httpx.InvalidURL, UnicodeError) as error:
            raise UsageError(f"this cannot be asked of a server: {error}") from error

    def _content(self, ask: Ask, response: httpx.Response) -> bytes:
        return b"".join(self._pieces(ask, response))

    def _pieces(self, ask: Ask, response: httpx.Response) -> Iterator[bytes]:
        try:
            yield from response.iter_bytes()
        except (httpx.TransportError, httpx.DecodingError, OSError) as error:
            raise self._lost(ask, error) from error

    def _lost(self, ask: Ask, error: Exception) -> Unavailable:
        told = str(error) or type(error).__name__
        if isinstance(error, _NEVER_SENT):
            return Unavailable(f"{self.url} cannot be reached: {told}")
        lost = f"the connection to {self.url} was lost: {told}"
        return Unavailable(f"{lost}; {_UNCERTAIN}" if ask.writes else lost)

    def _error(self, ask: Ask, response: httpx.Response) -> OmnigraphError:
        if response.is_redirect:
            place = response.headers.get("Location", "another place")
            return Unavailable(f"{self.url} sends on to {place}; if that is right, name it as the server")
        try:
            body = json.loads(self._content(ask, response))
        except ValueError:
            body = None
        if isinstance(body, dict) and "code" in body:
            return with_names(error_of(body), ask.names or {})
        request = response.headers.get(REQUEST_HEADER)
        if request is not None and response.is_server_error:
            return ServerFailed(request)
        return Unavailable(f"{self.url} answered {response.status_code} {response.reason_phrase}: no server of graphs")


def encoded(body: Mapping[str, Any]) -> bytes:
    """A body as it is sent."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"this cannot be sent as JSON: {error}") from error


def _transport(url: str) -> httpx.HTTPTransport:
    """Connections that notice when the other side is gone without a word; through a proxy if there is one."""
    parts = urlsplit(url)
    proxy = None
    if parts.hostname and not urllib.request.proxy_bypass(parts.hostname):
        proxy = urllib.request.getproxies().get(parts.scheme)
    options: list[tuple[int, int, int]] = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), seconds))
    return httpx.HTTPTransport(
        # Certificates are read where they are needed; that takes longer than a small request.
        verify=True if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=_CONNECTIONS, keepalive_expiry=_IDLE_SECONDS
        ),
        proxy=proxy,
        socket_options=options,
    )
