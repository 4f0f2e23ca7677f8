"""The connection to a server: sends calls, and reads documents, lines, tables and errors.

Nothing is sent to another server than the one that was named, so a redirect is an error: following it would disclose
the token. A read whose connection was closed before an answer came is sent again, once; a write never is.
"""

import json
import re
import socket
import ssl
import sys
import urllib.request
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from omnigraph.errors import OmnigraphError, ServerFailed, Unavailable, UsageError
from omnigraph.remote.calls import HttpCall
from omnigraph.remote.errors import error_of, with_names

if TYPE_CHECKING:
    import pyarrow as pa


@contextmanager
def _hide_module(name: str) -> Iterator[None]:
    """Lets imports of a module fail, unless it is imported already."""
    modules: dict[str, Any] = sys.modules
    is_hidden = modules.setdefault(name, None) is None
    yield
    if is_hidden:
        del modules[name]


with _hide_module("httpx._main"):
    # Where click and rich are installed, httpx imports its own command line with them, which takes as long as the rest
    # of it. It expects that this import fails.
    import httpx

COMMIT_HEADER, REQUEST_HEADER = "X-Commit-Id", "X-Request-Id"
_CONNECT_SECONDS = 10.0
# A server may close idle connections after some seconds; ours are closed earlier.
_IDLE_SECONDS = 3.0
_CONNECTIONS = 32
_TOKEN = re.compile(r"[!-~]+")
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
_UNCERTAIN = "the write may have been done; check the commits before you try again"


class Connection:
    """The connections to one server. Threads may share it."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        headers = {"User-Agent": "omnigraph"}
        if token is not None:
            if not _TOKEN.fullmatch(token):
                raise UsageError("invalid token: expected printable ASCII characters without spaces")
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
            raise UsageError(f"invalid server URL {url!r}: {error}") from error
        self._closing = weakref.finalize(self, self._client.close)

    def close(self) -> None:
        """Closes the connections."""
        self._closing()

    def document(self, call: HttpCall) -> Any:
        """The JSON document of an answer."""
        with self._open(call) as response:
            content = self._content(call, response)
        try:
            return json.loads(content) if content else None
        except ValueError as error:
            raise Unavailable(
                f"{self.url} answered with something that is not JSON; is it an omnigraph server?"
            ) from error

    def table(self, call: HttpCall) -> "tuple[pa.Table, str]":
        """The table of an answer, and the commit that it was read at."""
        with self._open(call) as response:
            commit = response.headers.get(COMMIT_HEADER, "")
            content = self._content(call, response)
        import pyarrow as pa  # noqa: PLC0415 - most answers are documents

        try:
            return pa.ipc.open_stream(content).read_all(), commit
        except pa.ArrowException as error:
            raise Unavailable(f"{self.url} answered with something that is not an Arrow stream") from error

    def lines(self, call: HttpCall) -> Iterator[str]:
        """The lines of an answer, as they come."""
        with self.stream(call) as pieces:
            line: list[bytes] = []  # joined once: a line may be as long as all the changes of a commit
            for piece in pieces:
                first, *others = piece.split(b"\n")
                line.append(first)
                for each in others:
                    yield b"".join(line).decode()
                    line = [each]
            if rest := b"".join(line):
                yield rest.decode()

    @contextmanager
    def stream(self, call: HttpCall) -> Iterator[Iterator[bytes]]:
        """The bytes of an answer, piece by piece, as they come."""
        with self._open(call) as response:
            yield self._pieces(call, response)

    # --- one exchange ---

    @contextmanager
    def _open(self, call: HttpCall) -> Iterator[httpx.Response]:
        """The answer to a call, whose status is a success and whose content was not read yet."""
        response = self._send(call)
        try:
            if not response.is_success:
                raise self._error(call, response)
            yield response
        finally:
            response.close()

    def _send(self, call: HttpCall) -> httpx.Response:
        try:
            return self._client.send(self._request(call), stream=True)
        except httpx.RemoteProtocolError as error:
            if call.writes or call.files is not None:
                raise self._lost_connection(call, error) from error
        except (httpx.TransportError, ssl.SSLError, OSError) as error:
            raise self._lost_connection(call, error) from error
        try:
            return self._client.send(self._request(call), stream=True)
        except (httpx.TransportError, ssl.SSLError, OSError) as error:
            raise self._lost_connection(call, error) from error

    def _request(self, call: HttpCall) -> httpx.Request:
        if not self._closing.alive:
            raise UsageError(f"the connection to {self.url} was closed")
        query = {name: value for name, value in (call.query or {}).items() if value is not None}
        content, headers = None, {"Accept": call.accept}
        if call.body is not None:
            content, headers["Content-Type"] = encode_body(call.body), "application/json"
        try:
            return self._client.build_request(
                call.method, call.path, params=query or None, content=content, files=call.files, headers=headers
            )
        except (httpx.InvalidURL, UnicodeError) as error:
            raise UsageError(f"the request cannot be sent: {error}") from error

    def _content(self, call: HttpCall, response: httpx.Response) -> bytes:
        return b"".join(self._pieces(call, response))

    def _pieces(self, call: HttpCall, response: httpx.Response) -> Iterator[bytes]:
        try:
            yield from response.iter_bytes()
        except (httpx.TransportError, httpx.DecodingError, OSError) as error:
            raise self._lost_connection(call, error) from error

    def _lost_connection(self, call: HttpCall, error: Exception) -> Unavailable:
        cause = str(error) or type(error).__name__
        if isinstance(error, _NEVER_SENT):
            return Unavailable(f"{self.url} cannot be reached: {cause}")
        problem = f"the connection to {self.url} was lost: {cause}"
        return Unavailable(f"{problem}; {_UNCERTAIN}" if call.writes else problem)

    def _error(self, call: HttpCall, response: httpx.Response) -> OmnigraphError:
        if response.is_redirect:
            place = response.headers.get("Location", "another place")
            return Unavailable(f"{self.url} redirects to {place}; if that is the server, connect to it")
        try:
            body = json.loads(self._content(call, response))
        except ValueError:
            body = None
        if isinstance(body, dict) and "code" in body:
            return with_names(error_of(body), call.names or {})
        request = response.headers.get(REQUEST_HEADER)
        if request is not None and response.is_server_error:
            return ServerFailed(request)
        return Unavailable(
            f"{self.url} answered {response.status_code} {response.reason_phrase}: is it an omnigraph server?"
        )


def encode_body(body: Mapping[str, Any]) -> bytes:
    """A body as JSON."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"the request cannot be sent as JSON: {error}") from error


def _transport(url: str) -> httpx.HTTPTransport:
    """Connections with keep-alive, which notice a server that is gone; through a proxy if one is configured."""
    parts = urlsplit(url)
    proxy = None
    if parts.hostname and not urllib.request.proxy_bypass(parts.hostname):
        proxy = urllib.request.getproxies().get(parts.scheme)
    options: list[tuple[int, int, int]] = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    for name, seconds in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6)):
        if hasattr(socket, name):
            options.append((socket.IPPROTO_TCP, getattr(socket, name), seconds))
    return httpx.HTTPTransport(
        # Reading the certificates takes longer than a small request, so it is done for https only.
        verify=True if parts.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=_CONNECTIONS, keepalive_expiry=_IDLE_SECONDS
        ),
        proxy=proxy,
        socket_options=options,
    )
