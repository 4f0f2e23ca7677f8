"""Gives tests an object store: a real S3-compatible server, and a proxy before it that fails as it is told."""

import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlparse

import pytest

Options = dict[str, str]
Concerns = Callable[[str, str], bool]
"""Whether a request is meant, by its method and its path with the query."""
BUCKET = "bucket"

# Says at which port it is, for no other process can take a port that a server has chosen itself; ends with its stdin.
# A store compares and puts in one step; moto does it in two, so of two puts with one condition both could succeed.
_MOTO = """
import sys
import threading
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer
turn, put = threading.Lock(), S3Response.put_object
def put_in_turn(*arguments, **options):
    with turn:
        return put(*arguments, **options)
S3Response.put_object = put_in_turn
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding"})
_CONDITIONS = frozenset({"if-match", "if-none-match"})


@pytest.fixture(scope="session")
def s3_store() -> Iterator[Options]:
    """The options that reach a server with one empty bucket."""
    with moto_server() as options:
        yield options


@contextmanager
def moto_server() -> Iterator[Options]:
    """The options that reach a server with one empty bucket, as long as the block lasts."""
    command = [sys.executable, "-c", _MOTO]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            port = server.stdout.readline().strip()
            assert port, "the server did not start"
            endpoint = f"http://127.0.0.1:{port}"
            _create_bucket(f"{endpoint}/{BUCKET}")
            yield {
                "aws_endpoint": endpoint,
                "allow_http": "true",
                "aws_region": "us-east-1",
                "aws_access_key_id": "test",
                "aws_secret_access_key": "test",
            }
        finally:
            server.terminate()


def _create_bucket(url: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT")):  # noqa: S310 - our own server
        pass


@pytest.fixture
def s3_uri() -> str:
    """A place in the bucket that no other test knows."""
    return f"s3://{BUCKET}/{uuid.uuid4().hex}"


@pytest.fixture
def proxy(s3_store: Options) -> Iterator["FaultyProxy"]:
    """A proxy before the server that passes everything on until it is told otherwise."""
    with FaultyProxy(s3_store).running() as proxy:
        yield proxy


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to every n-th request, or every n-th of those with a method and with a text in their path.

    With a `status` the request is answered so and goes no further. Without one it is passed on, and the connection is
    closed in place of the answer.
    """

    every: int
    status: int | None = None
    method: str = ""
    path: str = ""

    def concerns(self, request: BaseHTTPRequestHandler) -> bool:
        return self.method in ("", request.command) and self.path in request.path


class Hold:
    """A request that a proxy keeps for itself until it is let go; with it all that come after it, unless `alone`."""

    def __init__(self, concerns: Concerns, *, alone: bool) -> None:
        self.concerns = concerns
        self.alone = alone
        self._reached = threading.Event()
        self._over = threading.Event()

    def wait_until_reached(self, timeout: float = 60.0) -> None:
        """Until the request is there."""
        assert self._reached.wait(timeout), "the request that was to be held back did not come"

    def let_go(self) -> None:
        """Passes the request on, and all others."""
        self._over.set()

    def keep(self) -> None:
        """Keeps the request that this is about, in a thread of the proxy."""
        self._reached.set()
        self._over.wait()

    @property
    def is_reached(self) -> bool:
        return self._reached.is_set()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128


class FaultyProxy:
    """A server that passes requests on to the store, one after the other."""

    def __init__(self, store: Options) -> None:
        self._store = store
        self._target = urlparse(store["aws_endpoint"]).netloc
        self._fault: Fault | None = None
        self._hold: Hold | None = None
        self._turn = threading.Lock()
        self._seen = 0
        self.faults = 0
        self.requests: list[tuple[str, str]] = []
        """The method and the path of each request that came."""
        self.delay = 0.0
        """How many seconds each request takes longer."""
        self.ignores_conditions = False
        self._server = _Server(("127.0.0.1", 0), self._handler())

    @property
    def options(self) -> Options:
        """The options that reach the store through the proxy, by clients that give up soon."""
        return {
            **self._store,
            "aws_endpoint": f"http://127.0.0.1:{self._server.server_port}",
            "client_max_retries": "1",
            "client_retry_timeout": "5",
            "download_retry_count": "1",
            "lance_aimd_max_retries": "0",
        }

    @contextmanager
    def running(self) -> Iterator["FaultyProxy"]:
        """Serves until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[None]:
        """Fails for a while; the counting starts anew."""
        self._seen, self._fault = 0, fault
        try:
            yield
        finally:
            self._fault = None

    @contextmanager
    def holding(self, concerns: Concerns, *, alone: bool = False) -> Iterator[Hold]:
        """Holds back the first request of a kind, and all that come after it, as if the net hung, or it `alone`."""
        self._hold = Hold(concerns, alone=alone)
        try:
            yield self._hold
        finally:
            self._hold.let_go()
            self._hold = None

    def _held(self, request: BaseHTTPRequestHandler) -> Hold | None:
        """What holds this request back, if anything does."""
        hold = self._hold
        if hold is None or hold.is_reached or not hold.concerns(request.command, request.path):
            return None
        return hold

    def _due(self, request: BaseHTTPRequestHandler) -> Fault | None:
        fault = self._fault
        if fault is None or not fault.concerns(request):
            return None
        self._seen += 1
        if self._seen % fault.every:
            return None
        self.faults += 1
        return fault

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 2

            def handle_one_request(self) -> None:
                self.raw_requestline = self.rfile.readline(65537)
                if not self.raw_requestline or not self.parse_request():
                    return
                proxy._answer(self)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers.get("content-length", 0)))
        self.requests.append((request.command, request.path))
        time.sleep(self.delay)
        hold = self._held(request)
        if hold is not None and hold.alone:
            hold.keep()
        with self._turn:
            if hold is not None:
                hold.keep()
            self._pass_on(request, body)

    def _pass_on(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        fault = self._due(request)
        if fault is not None and fault.status is not None:
            _send(request, fault.status, [("Content-Length", "0")], b"")
            return
        dropped = _HOP_BY_HOP | _CONDITIONS if self.ignores_conditions else _HOP_BY_HOP
        headers = {name: value for name, value in request.headers.items() if name.lower() not in dropped}
        connection = HTTPConnection(self._target, timeout=60)
        try:
            connection.request(request.command, request.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if fault is None:
            _send(request, answer.status, answer.getheaders(), content)


def _send(request: BaseHTTPRequestHandler, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
    request.send_response_only(status)
    for name, value in headers:
        if name.lower() not in _HOP_BY_HOP:
            request.send_header(name, value)
    request.end_headers()
    request.wfile.write(content)
