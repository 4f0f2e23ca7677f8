"""Many clients of one server, in a process that does little else: what they ask, and what they were answered.

Each client has a connection of its own, and asks again as soon as it is answered. A client knows of HTTP what it needs
to count answers, so that on a small machine the cores are left to the server.
"""

import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Self, cast

_GONE = 5
"""How often in a row a client must find nobody listening before it believes that the server is gone."""
_PAUSE = 0.05
_HEAD_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What clients ask of a graph: reads, and so many writes among them, until the time is up or the server is gone.

    Reads have one parameter, `name`, which is one of `names` numbers after the word `person`. Writes have one too, and
    it is another for each write, so that afterwards it can be told which of them are there.
    """

    host: str
    port: int
    graph: str
    tokens: Sequence[str]
    """Client after client takes the next, and begins again after the last."""
    clients: int
    seconds: float
    reads: Sequence[str]
    write: str = ""
    writes_in_a_hundred: int = 0
    names: int = 1
    called: str = "w"
    """What the names of the writes begin with."""


@dataclass(slots=True, kw_only=True)
class Answers:
    """What came of a load. The latencies are in seconds, and those of answers 200 only."""

    seconds: float = 0.0
    reads: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    acknowledged: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Writes that were answered, with something else than 200."""
    unanswered: list[str] = field(default_factory=list)
    """Writes whose connection ended before there was an answer."""
    bodies: list[str] = field(default_factory=list)
    """Some answers that are none of 200, 409, 429 and 503."""

    def as_json(self) -> dict[str, Any]:
        """What another process needs to have them too."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def of_json(cls, document: dict[str, Any]) -> Self:
        """Answers that another process has written down."""
        return cls(**{**document, "statuses": Counter(document["statuses"])})


class _Connection(asyncio.Protocol):
    """One connection: a request at a time, and the status and the body of what is answered."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._answer: asyncio.Future[tuple[int, bytes] | None] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # that of uvloop is none by its class

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        self._settle(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(_HEAD_END)
        if head_end < 0:
            return
        head = bytes(self._received[:head_end]).lower()
        _, _, rest = head.partition(b"content-length: ")
        body_start = head_end + len(_HEAD_END)
        if len(self._received) < body_start + int(rest.partition(b"\r\n")[0]):
            return
        status, body = int(head[9:12]), bytes(self._received[body_start:])
        self._received.clear()
        if b"\r\nconnection: close" in head:
            self.close()
        self._settle((status, body))

    def _settle(self, answer: tuple[int, bytes] | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    async def answer(self, request: bytes) -> tuple[int, bytes] | None:
        """What the request is answered with; None if the connection ends before that."""
        if self._transport is None:
            return None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class _Client:
    """One client, with its own chances and its own connection."""

    def __init__(self, load: Load, number: int, answers: Answers) -> None:
        self._load, self._number, self._answers = load, number, answers
        self._chance = random.Random(f"{load.called} {number}")  # noqa: S311 - the same load every time
        self._head = (
            f"Host: {load.host}:{load.port}\r\n"
            + (f"Authorization: Bearer {load.tokens[number % len(load.tokens)]}\r\n" if load.tokens else "")
            + "Content-Type: application/json\r\nContent-Length: "
        )
        self._connection = _Connection()
        self._turn = 0

    async def ask_until(self, end: float) -> None:
        """Asks one thing after the other."""
        while time.monotonic() < end and await self._is_connected():
            if self._chance.randrange(100) < self._load.writes_in_a_hundred:
                await self._write()
            else:
                await self._read()
        self._connection.close()

    async def _is_connected(self) -> bool:
        for _ in range(_GONE):
            if self._connection.is_open:
                return True
            try:
                loop = asyncio.get_running_loop()
                _, self._connection = await loop.create_connection(_Connection, self._load.host, self._load.port)
            except OSError:
                await asyncio.sleep(_PAUSE)
        return self._connection.is_open

    async def _read(self) -> None:
        source = self._chance.choice(self._load.reads)
        name = f"person {self._chance.randrange(self._load.names)}"
        started = time.perf_counter()
        if await self._asked("query", source, name) == 200:
            self._answers.reads.append(time.perf_counter() - started)

    async def _write(self) -> None:
        self._turn += 1
        name = f"{self._load.called}-{self._number}-{self._turn}"
        started = time.perf_counter()
        status = await self._asked("mutate", self._load.write, name)
        if status == 200:
            self._answers.writes.append(time.perf_counter() - started)
            self._answers.acknowledged.append(name)
        else:
            (self._answers.unanswered if status is None else self._answers.refused).append(name)

    async def _asked(self, verb: str, source: str, name: str) -> int | None:
        """The status of the answer; who is told to come later does."""
        document = json.dumps({"source": source, "params": {"name": name}})
        head = f"POST /graphs/{self._load.graph}/{verb} HTTP/1.1\r\n{self._head}{len(document)}\r\n\r\n"
        answer = await self._connection.answer((head + document).encode())
        if answer is None:
            self._answers.statuses["none"] += 1
            return None
        status, body = answer
        self._answers.statuses[str(status)] += 1
        if status not in (200, 409, 429, 503) and len(self._answers.bodies) < 10:
            self._answers.bodies.append(body.decode())
        if status in (429, 503):
            await asyncio.sleep(_PAUSE)
        return status


async def answers_to(load: Load, answers: Answers | None = None) -> Answers:
    """All that clients were answered, when the last of them has ended; who gives `answers` can watch them come."""
    answers = answers or Answers()
    started = time.monotonic()
    clients = [_Client(load, number, answers) for number in range(load.clients)]
    await asyncio.gather(*(client.ask_until(started + load.seconds) for client in clients))
    answers.seconds = time.monotonic() - started
    return answers


def answers_elsewhere(load: Load) -> Answers:
    """The same, from clients in a process of their own.

    Its output goes to a file: a pipe takes a part of a long text, and an unbuffered Python (PYTHONUNBUFFERED) drops the
    rest without an error.
    """
    command = [sys.executable, "-m", "benchmarks.http_clients"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        subprocess.run(command, input=json.dumps(asdict(load)), check=True, stdout=output, text=True)
        output.seek(0)
        return Answers.of_json(json.load(output))


def _main() -> None:
    import uvloop  # noqa: PLC0415 - only clients that have a process for themselves need it

    load = Load(**json.loads(sys.stdin.read()))
    print(json.dumps(uvloop.run(answers_to(load)).as_json()))


if __name__ == "__main__":
    _main()
