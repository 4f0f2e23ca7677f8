"""The yardstick of the server: a bare uvicorn route that reads a request and returns the same bytes each time.

It runs in a process of its own with the HTTP parser and the event loop that the server has: what uvicorn itself costs.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def bare_route(body: bytes) -> Iterator[tuple[str, int, int]]:
    """The host, the port and the process id of a route that answers all requests with these bytes, for a block."""
    command = [sys.executable, "-m", "benchmarks.bare_route"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(body)
        process.stdin.close()
        try:
            yield "127.0.0.1", int(process.stdout.readline()), process.pid
        finally:
            process.kill()


def _main() -> None:
    import uvicorn  # noqa: PLC0415 - only the process of the route needs it

    content = sys.stdin.buffer.read()
    headers = [(b"content-length", str(len(content)).encode()), (b"content-type", b"application/json")]

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001 - it is ASGI
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": content})

    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, lifespan="off", ws="none", log_config=None, access_log=False, server_header=False)
    uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    _main()
