"""A short read is answered directly from its bytes once its head is known, and no client can tell."""

import asyncio
import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState as ConnectionState

from omnigraph.server.app import make_app
from omnigraph.server.auth import Tokens, parse_tokens
from omnigraph.server.protocol import Protocol
from omnigraph.server.settings import ServerSettings
from tests.behaviour.http_graph import Door, door
from tests.behaviour.test_short_reads import ABSENT, COUNTED, FILTERED, HOP, LOOKUP
from tests.servers import token_of

SMALL = "small"
USUAL = "X-Request-Id: /"
"""A header that means nothing, and that is not answered directly."""
TOKEN = token_of("ann")


class _Transport(asyncio.Transport):
    """Keeps what is sent."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 1234), "sockname": ("10.0.0.2", 80)})
        self.sent = b""
        self.is_closed = False

    def write(self, data: Any) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def pause_reading(self) -> None:
        """Nothing comes by itself."""

    def resume_reading(self) -> None:
        """Nothing comes by itself."""


class _Wire:
    """A connection to the server of a door: bytes go in, and bytes come out."""

    def __init__(self, found: Door, *, keep_alive: float = 60) -> None:
        self.found = found

        async def connect() -> None:
            config = uvicorn.Config(
                found.app,
                http=Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                timeout_keep_alive=keep_alive,  # type: ignore[arg-type]
            )
            config.load()
            state = ConnectionState()
            state.default_headers = [(b"date", b"today")]
            self.transport = _Transport()
            self.protocol = Protocol(config, state, {}, asyncio.get_running_loop())
            self.protocol.connection_made(self.transport)

        found.run(connect())
        self.was_direct = False

    def send(self, *pieces: bytes, answers: int = 1) -> list[tuple[int, dict[str, str], bytes]]:
        """The answers to some bytes, which come in pieces; all but the last are parsed when the next comes."""

        async def exchange() -> list[tuple[int, dict[str, str], bytes]]:
            self.transport.sent = b""
            before = self.protocol.cycle
            for piece in pieces:
                self.protocol.data_received(piece)
                if piece is not pieces[-1]:
                    await asyncio.sleep(0)
            async with asyncio.timeout(60):
                while len(found := _answers(self.transport.sent)) < answers:
                    await asyncio.sleep(0.001)
            self.was_direct = self.protocol.cycle is before
            return found

        return self.found.run(exchange())  # type: ignore[no-any-return]

    def ask(self, source: str, name: Any, *headers: str, **more: Any) -> tuple[int, dict[str, str], bytes]:
        [answer] = self.send(_request(source, name, *headers, **more))
        return answer


def _request(source: str, name: Any, *headers: str, **more: Any) -> bytes:
    body = json.dumps({"source": source, **more, "params": {"name": name}}).encode()
    lines = ["Host: server", "Content-Type: application/json", *headers, f"Content-Length: {len(body)}"]
    return b"POST /graphs/people/query HTTP/1.1\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def _answers(sent: bytes) -> list[tuple[int, dict[str, str], bytes]]:
    """The whole answers in some bytes."""
    found = []
    while b"\r\n\r\n" in sent:
        head, _, rest = sent.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers["content-length"])
        if len(rest) < length:
            break
        found.append((int(first.split()[1]), headers, rest[:length]))
        sent = rest[length:]
    return found


def _visible(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, dict[str, str], bytes]:
    status, headers, body = answer
    request_id = headers["x-request-id"]
    assert len(request_id) == 24
    if headers.get("content-encoding") == "gzip":
        body = gzip.decompress(body)
        headers = {**headers, "content-length": ""}
    return status, {**headers, "x-request-id": ""}, body.replace(request_id.encode(), b"")


def _add_people(found: Door) -> None:
    records: list[dict[str, Any]] = [
        {"type": "Person", "data": {"name": SMALL, "age": None, "score": 1e16, "bio": 'é"\n' + "x" * 2_000}}
    ]
    records += [{"type": "Person", "data": {"name": f"p{at}", "age": at, "score": at / 7}} for at in range(30)]
    records += [{"edge": "Knows", "from": SMALL, "to": f"p{at}", "data": {}} for at in range(30)]
    found.ok(
        "POST",
        "/load",
        content="\n".join(map(json.dumps, records)).encode(),
        headers={"content-type": "application/x-ndjson"},
    )


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with door(tmp_path_factory.mktemp("direct")) as found:
        _add_people(found)
        yield found


def _known(wire: _Wire, source: str, name: str, *headers: str) -> None:
    """Asks until the tables are in memory and the head is known."""
    for _ in range(3):
        wire.ask(source, name, *headers)


@pytest.mark.parametrize("source", [LOOKUP, HOP, FILTERED, COUNTED, ABSENT])
@pytest.mark.parametrize("name", [SMALL, "p1", "nobody"])
@pytest.mark.parametrize("headers", [(), ("Accept-Encoding: gzip", "Accept: */*"), ("Connection: keep-alive",)])
def test_a_direct_answer_is_the_usual_one(people: Door, source: str, name: str, headers: tuple[str, ...]) -> None:
    wire = _Wire(people)
    wire.ask(source, SMALL)
    _known(wire, source, name, *headers)
    direct = wire.ask(source, name, *headers)
    assert wire.was_direct
    usual = wire.ask(source, name, *headers, USUAL)
    assert not wire.was_direct
    assert _visible(direct) == _visible(usual)
    assert direct[0] == 200


@pytest.mark.parametrize("given", [7, None, [1], {"a": {"b": 1e400}}])
def test_a_direct_error_is_the_usual_one(people: Door, given: Any) -> None:
    wire = _Wire(people)
    size = len(json.dumps(given))
    _known(wire, LOOKUP, "x" * (size - 2))  # the same length, so the same head
    direct = wire.ask(LOOKUP, given)
    usual = wire.ask(LOOKUP, given, USUAL)
    assert _visible(direct) == _visible(usual)
    assert direct[0] >= 400


def test_a_call_of_a_stored_query_is_answered_directly(people: Door) -> None:
    people.ok("POST", "/queries", json={"queries": [LOOKUP.replace("query q", "query looked_up")]})
    body = json.dumps({"params": {"name": "Ada"}}).encode()
    head = f"POST /graphs/people/queries/looked_up HTTP/1.1\r\nHost: server\r\nContent-Length: {len(body)}\r\n"
    request = head.encode() + b"Content-Type: application/json\r\n\r\n" + body
    wire = _Wire(people)
    answers = [wire.send(request)[0] for _ in range(3)]
    assert wire.was_direct
    expected = json.loads(wire.ask(LOOKUP, "Ada")[2])
    assert [(status, json.loads(content)) for status, _, content in answers] == [(200, expected)] * 3


def test_requests_in_pieces_and_in_one_piece_are_answered_in_their_order(people: Door) -> None:
    wire = _Wire(people)
    _known(wire, LOOKUP, "p1")
    requests = [_request(LOOKUP, f"p{at}") for at in range(4)]
    in_pieces = wire.send(requests[1][:-3], requests[1][-3:])
    assert not wire.was_direct
    at_once = wire.send(b"".join(requests), answers=4)
    one_by_one = wire.send(*requests, answers=4)
    split = wire.send(requests[0], requests[1][:20], requests[1][20:] + requests[2], requests[3], answers=4)
    expected = [_visible(wire.ask(LOOKUP, f"p{at}", USUAL)) for at in range(4)]
    assert [_visible(each) for each in in_pieces] == expected[1:2]
    for answers in (at_once, one_by_one, split):
        assert [_visible(each) for each in answers] == expected


def test_many_connections_in_one_turn_get_their_own_answers(people: Door) -> None:
    _known(_Wire(people), LOOKUP, "p1")
    wires = [_Wire(people) for _ in range(10)]

    async def ask_all() -> None:
        for at, wire in enumerate(wires):
            wire.protocol.data_received(_request(LOOKUP, f"p{at}"))
        assert not any(wire.transport.sent for wire in wires)
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    people.run(ask_all())
    for at, wire in enumerate(wires):
        [(status, _, body)] = _answers(wire.transport.sent)
        assert status == 200
        assert json.loads(body)["rows"][0]["p.age"] == at


def test_a_commit_is_seen_by_the_next_direct_read(people: Door) -> None:
    wire = _Wire(people)
    for age in (50, 51):
        change = 'query c($age: I64) { update Person set { age: $age } where name = "p29" }'
        people.graph.mutate(change, params={"age": age})
        for _ in range(3):
            status, _, body = wire.ask(LOOKUP, "p29")
            answer = json.loads(body)
            assert (status, answer["rows"][0]["p.age"]) == (200, age)
            assert answer["commit_id"] == people.graph.snapshot().commit_id
        assert wire.was_direct


def test_a_connection_is_closed_when_it_is_idle_and_not_while_it_is_used(people: Door) -> None:
    wire = _Wire(people, keep_alive=0.3)
    _known(wire, LOOKUP, "p1")
    for _ in range(8):
        people.run(asyncio.sleep(0.1))
        assert not wire.transport.is_closed
        wire.ask(LOOKUP, "p1")
        assert wire.was_direct
    people.run(asyncio.sleep(0.7))
    assert wire.transport.is_closed


def test_direct_reads_are_counted_and_logged_like_others(people: Door, caplog: pytest.LogCaptureFixture) -> None:
    wire = _Wire(people)
    _known(wire, LOOKUP, "p1")
    counts = people.app.state.server.metrics.requests

    def told(*headers: str) -> tuple[dict[str, Any], int, int]:
        caplog.clear()
        before = counts.received, counts.sent
        _, answered, _ = wire.ask(LOOKUP, "p1", *headers)
        record = vars(next(each for each in caplog.records if each.getMessage() == "request"))
        assert record["request_id"] == answered["x-request-id"]
        names = (
            "actor",
            "graph",
            "method",
            "path",
            "route",
            "status",
            "code",
            "received",
            "sent",
            "client",
            "cancelled",
        )
        return {name: record[name] for name in names}, counts.received - before[0], counts.sent - before[1]

    with caplog.at_level("INFO", "omnigraph.server"):
        direct = told()
        assert wire.was_direct
        assert direct == told(USUAL)
    route = 'route="/graphs/{id}/query"'
    assert f"omnigraph_request_seconds_count{{{route}}}" in people.app.state.server.metrics.text().decode()
    assert counts.in_flight == 0


def test_limits_and_the_end_of_the_server_hold_for_direct_reads(tmp_path: Path) -> None:
    with door(tmp_path, actor_requests=2) as found:
        _add_people(found)
        wire = _Wire(found)
        _known(wire, LOOKUP, "p1")
        state = found.app.state.server
        tickets = [state.admission.admit("at 10.0.0.1") for _ in range(2)]
        assert wire.ask(LOOKUP, "p1")[0] == 429
        tickets[0].release()
        assert wire.ask(LOOKUP, "p1")[0] == 200
        assert wire.was_direct
        state.draining = True
        status, headers, _ = wire.ask(LOOKUP, "p1")
        assert (status, headers["connection"]) == (503, "close")


def test_a_token_that_is_withdrawn_is_refused_at_once(tmp_path: Path) -> None:
    with door(tmp_path) as made:
        _add_people(made)
        tokens = parse_tokens(json.dumps({"ann": TOKEN}), "test")
        settings = ServerSettings(graphs={"people": made.graph.uri}, tokens=tokens)
        wire = _Wire(Door(make_app(settings), made._runner, made.graph))
        authorized = f"Authorization: Bearer {TOKEN}"
        _known(wire, LOOKUP, "p1", authorized)
        assert wire.was_direct
        assert wire.ask(LOOKUP, "p1")[0] == 401
        state = wire.found.app.state.server
        state.tokens = replace(tokens, digests=())
        for _ in range(2):
            assert wire.ask(LOOKUP, "p1", authorized)[0] == 401
        state.tokens = Tokens(tokens.digests)
        assert wire.ask(LOOKUP, "p1", authorized)[0] == 200


def test_no_token_is_kept(people: Door) -> None:
    wire = _Wire(people)
    _known(wire, LOOKUP, "p1", f"Authorization: Bearer {TOKEN}")
    assert wire.was_direct
    assert TOKEN not in repr(vars(people.app.state.direct_reads))
