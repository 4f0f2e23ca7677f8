"""Starts real servers: `omnigraph serve` as a process of its own, on a port that the system chooses."""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import httpx

from omnigraph.server.auth import FILE_VARIABLE, JSON_VARIABLE

_PREFIX = "OMNIGRAPH_LISTEN_ADDR="
_PROGRAM = "from omnigraph.cli.main import run; run()"
_PATIENCE = 120
"""For what takes moments: a machine that does too much at once stands still for many of them."""
_Seen = TypeVar("_Seen")


def awaited(look: Callable[[], _Seen], is_wanted: Callable[[_Seen], object] = bool) -> _Seen:
    """What is seen once it is what was wanted: much of what a server does is done a moment after its answer."""
    until = time.monotonic() + _PATIENCE
    while not is_wanted(seen := look()):
        assert time.monotonic() < until, f"it is still {seen!r}"
        time.sleep(0.02)
    return seen


@dataclass(frozen=True)
class RunningServer:
    """A server that runs, and how to talk to it."""

    url: str
    process: subprocess.Popen[str]
    tokens: Mapping[str, str]
    _errors: IO[str]

    @property
    def address(self) -> tuple[str, int]:
        """Its host and port."""
        host, _, port = self.url.removeprefix("http://").rpartition(":")
        return host, int(port)

    def client(self, actor: str | None = None, **options: Any) -> httpx.Client:
        """A client that acts as somebody who has a token; without one, it sends none."""
        headers = {"Authorization": f"Bearer {self.tokens[actor]}"} if actor is not None else {}
        # To read the store of certificates takes longer than a request, and there is nothing to verify.
        options = {"timeout": _PATIENCE, "trust_env": False, "verify": False, **options}
        return httpx.Client(base_url=self.url, headers=headers, **options)

    def log(self) -> list[dict[str, Any]]:
        """What it has logged so far."""
        return [json.loads(line) for line in self.errors().splitlines() if line.startswith("{")]

    def logged(self, **fields: Any) -> dict[str, Any]:
        """The last line of its log with these fields, which may come after the answer has."""
        awaited(self.log, lambda lines: any(fields.items() <= line.items() for line in lines))
        return [line for line in self.log() if fields.items() <= line.items()][-1]

    def errors(self) -> str:
        """All that it has written to stderr so far, up to the last line that is whole."""
        descriptor = self._errors.fileno()
        # The place in the file is that of the server, which writes there: it must not be moved.
        written = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        return written[: written.rfind(b"\n") + 1].decode()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal, and waits for its exit code."""
        self.process.send_signal(number)
        return self.process.wait(_PATIENCE)


def token_of(actor: str) -> str:
    """A token for an actor of a test."""
    return f"token-of-{actor}-".ljust(32, "x")


def started_server(
    graphs: Sequence[str | Path],
    tokens: Mapping[str, Any] | None,
    *options: str,
    tokens_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    errors: IO[str],
) -> subprocess.Popen[str]:
    """The process of `omnigraph serve`; without tokens it is told that it needs none."""
    given = {key: value for key, value in os.environ.items() if not key.startswith("OMNIGRAPH_SERVER_")}
    if tokens_file is not None:
        given[FILE_VARIABLE] = str(tokens_file)
    elif tokens:
        given[JSON_VARIABLE] = json.dumps(tokens)
    command = [sys.executable, "-c", _PROGRAM, "serve", *map(str, graphs), "--bind", "127.0.0.1:0", *options]
    if tokens is None:
        command.append("--unauthenticated")
    return subprocess.Popen(
        command,
        env={**given, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
    )


@contextmanager
def running_server(
    graphs: Sequence[str | Path],
    tokens: Mapping[str, str] | None = None,
    *options: str,
    tokens_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[RunningServer]:
    """A server that answers; it is ended with the block, however that ends.

    It knows the tokens from its environment, or from a file that has some of them.
    """
    with (
        tempfile.TemporaryFile("w+") as errors,
        started_server(
            graphs, tokens, *options, tokens_file=tokens_file, environment=environment, errors=errors
        ) as process,
    ):
        try:
            address = _address_of(process)
            if address is None:
                errors.seek(0)
                raise AssertionError(f"the server did not start: {process.poll()}\n{errors.read()}")
            yield RunningServer(f"http://{address}", process, tokens or {}, errors)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def _address_of(process: subprocess.Popen[str]) -> str | None:
    """The address in its first line; None if it ended without one."""
    assert process.stdout is not None
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if select.select([process.stdout], [], [], 0.1)[0]:
            line = process.stdout.readline()
            return line.strip().removeprefix(_PREFIX) if line.startswith(_PREFIX) else None
        if process.poll() is not None:
            return None
    return None
