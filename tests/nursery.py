"""Starts other processes at once: each is forked from one that has imported everything and has done nothing yet.

Most of the time of a short program goes into imports. What is forked is a process like any other: it has a number of
its own, signals stop and kill it, and the kernel frees what it held. Lance may not be forked once it has been used, so
the process that the others are forked from never uses it.
"""

import atexit
import gc
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from omnigraph import failpoints
from omnigraph.catalog import compile_schema
from omnigraph.storage import locks
from omnigraph.storage.environment import CARRIED_ROWS, bytes_setting, seconds_setting
from omnigraph.write import carried

ROOT = Path(__file__).parents[1]
_PATIENCE = 120.0
_STOPPED = "stopped"
CARRIED = "OMNIGRAPH_CARRIED_ROWS"
_LENGTH_BYTES = 8
_PIPES = 3
_IMPORTED = (
    "omnigraph.graph.graph",
    "omnigraph.graph.opening",
    "tests.consistency.actor",
    "tests.consistency.reader",
    "tests.consistency.worker",
    "tests.crash.schema_world",
    "tests.crash.till",
    "tests.crash.world",
)
_NURSERY = """
import sys
from tests.nursery import program_of_a_child
exec(program_of_a_child(int(sys.argv[1])))
"""


def started(
    program: str,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    born_with: Mapping[str, str] | None = None,
) -> "Child":
    """A process that runs a program, as `python -c` would, with more in its environment than this one has.

    What libraries read when they are loaded is given as `born_with`: it is there from the first on.
    """
    nursery = _nursery(tuple(sorted((born_with or {}).items())))
    return nursery.started(program, list(arguments), {**os.environ, **(born_with or {}), **(environment or {})})


def ended(program: str, *arguments: str, environment: Mapping[str, str] | None = None) -> tuple[int, str]:
    """How a process ended that ran a program, and what it said on stderr."""
    with started(program, *arguments, environment=environment) as child:
        child.communicate()
    return child.wait(), child.errors


class Child:
    """A process of the nursery; what it says on stderr is known once it has ended."""

    def __init__(self, nursery: "_Nursery", request: dict[str, Any]) -> None:
        its_input, mine = os.pipe()
        self.stdin = os.fdopen(mine, "w")
        mine, its_output = os.pipe()
        self.stdout = os.fdopen(mine)
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when it has ended
        self._nursery = nursery
        self.pid: int = nursery.answer(request, [its_input, its_output, self._stderr.fileno()])
        self.returncode: int | None = None
        self.errors = ""
        os.close(its_input)
        os.close(its_output)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.kill()
        self._close(self.stdin)
        self.wait()

    def tell(self, **job: Any) -> None:
        """Writes a line of JSON to it."""
        self.stdin.write(json.dumps(job) + "\n")
        self.stdin.flush()

    def communicate(self, timeout: float = _PATIENCE) -> tuple[str, str]:
        """Lets it end, and gives the rest of what it says on stdout, and all that it says on stderr."""
        late = threading.Timer(timeout, self.kill)
        late.start()
        self._close(self.stdin)
        output = self.stdout.read()
        self.wait()
        if not late.is_alive():
            raise subprocess.TimeoutExpired("a child", timeout)
        late.cancel()
        return output, self.errors

    def send_signal(self, number: signal.Signals) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        if self.returncode is None:
            self._look(math.inf)
        return self.returncode

    def wait(self, timeout: float = _PATIENCE) -> int:
        """Its exit code, once it has ended; a signal that killed it is a negative one."""
        deadline = time.monotonic() + timeout
        while self.returncode is None:
            self._look(deadline)
        return self.returncode

    def wait_until_stopped(self, timeout: float = _PATIENCE) -> None:
        """Until it has stopped itself."""
        deadline = time.monotonic() + timeout
        while not self._look(deadline):
            assert self.returncode is None, f"it ended with {self.returncode}: {self.errors}"

    def _look(self, deadline: float) -> bool:
        """Whether it has stopped since it was last looked at; knows afterwards if it has ended."""
        found = self._nursery.answer({"look": self.pid})
        if found is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a child", deadline)
            time.sleep(0.005)
        elif found != _STOPPED:
            self.returncode = found
            self._stderr.seek(0)
            self.errors = self._stderr.read()
            for file in (self.stdin, self.stdout, self._stderr):
                self._close(file)
        return bool(found == _STOPPED)

    def _close(self, file: IO[str]) -> None:
        with suppress(BrokenPipeError):  # it may have ended without having read everything
            file.close()


class _Nursery:
    """The process that others are forked from; answers one request after the other."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._channel, theirs = socket.socketpair()
        self._turn = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _NURSERY, str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=ROOT,
            env={**{name: os.environ[name] for name in os.environ if name != CARRIED}, **environment},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()

    def started(self, program: str, arguments: list[str], environment: dict[str, str]) -> Child:
        return Child(self, {"program": program, "arguments": arguments, "environment": environment})

    def answer(self, request: dict[str, Any], descriptors: list[int] | None = None) -> Any:
        with self._turn:
            _send(self._channel, request, descriptors or [])
            return _received(self._channel)[0]

    def close(self) -> None:
        self._channel.close()
        self._process.wait()


@cache
def _nursery(environment: tuple[tuple[str, str], ...]) -> _Nursery:
    """One of this process, started when the first asks for it, ended with this process."""
    nursery = _Nursery(dict(environment))
    atexit.register(nursery.close)
    return nursery


def _send(channel: socket.socket, message: Any, descriptors: list[int]) -> None:
    content = json.dumps(message).encode()
    length = len(content).to_bytes(_LENGTH_BYTES)
    socket.send_fds(channel, [length], descriptors)
    channel.sendall(content)


def _received(channel: socket.socket) -> tuple[Any, list[int]]:
    length, descriptors, _, _ = socket.recv_fds(channel, _LENGTH_BYTES, _PIPES)
    if not length:
        raise EOFError
    content, whole = b"", int.from_bytes(length)
    while len(content) < whole:
        content += channel.recv(whole - len(content))
    return json.loads(content), descriptors


# --- in the nursery ---


def program_of_a_child(descriptor: int) -> str:
    """Answers requests; returns only in a process that was forked, with what it is to run."""
    _import_everything()
    with socket.socket(fileno=descriptor) as channel:
        while True:
            try:
                request, pipes = _received(channel)
            except (EOFError, ConnectionResetError):
                sys.exit()
            if (pid := request.get("look")) is not None:
                _send(channel, _news(pid), [])
                continue
            pid = os.fork()
            if not pid:
                break
            for pipe in pipes:
                os.close(pipe)
            _send(channel, pid, [])
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
        os.close(pipe)
    sys.argv[1:] = request["arguments"]
    _take_over(request["environment"])
    program: str = request["program"]
    return program


def _news(pid: int) -> str | int | None:
    """That a child has stopped, or its exit code; none when there is nothing to be told that was not told before."""
    found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
    if not found:
        return None
    return _STOPPED if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)


def _import_everything() -> None:
    """What the programs of tests import; and the languages are ready to be read."""
    for name in _IMPORTED:
        import_module(name)
    compile_schema("node Any { name: String @key }")
    gc.collect()
    gc.freeze()  # or the collector of every child would touch, and so copy, all of it
    atexit.register(gc.unfreeze)


def _take_over(environment: Mapping[str, str]) -> None:
    """Makes the environment what it is told to be, also where it was read when a module was imported."""
    assert environment.get("OMNIGRAPH_WRITE_WAIT") == os.environ.get("OMNIGRAPH_WRITE_WAIT"), "needs its own imports"
    os.environ.clear()
    os.environ.update(environment)
    failpoints._armed.update(failpoints._parse(environment.get(failpoints.VARIABLE, "")))
    locks._SECONDS = seconds_setting("OMNIGRAPH_LEASE_SECONDS", locks._SECONDS)
    vars(carried)["CARRIED_ROWS"] = bytes_setting(CARRIED, CARRIED_ROWS, unit="rows")
