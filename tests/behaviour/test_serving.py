"""A server that runs: who gets in, what it refuses, and how it stops."""

import json
import resource
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import omnigraph as og
from omnigraph.server.auth import JSON_VARIABLE
from omnigraph.storage.location import Location
from omnigraph.write.fence import WriteFence
from tests.behaviour.raw_http import JSON, RawClient
from tests.behaviour.test_cli import omnigraph_cli
from tests.servers import RunningServer, awaited, running_server, token_of

SCHEMA = "node Person { name: String @key  note: String? }"
TOKENS = {actor: token_of(actor) for actor in ("ada", "bob", "root")}
NAMES = {"source": "query names() { match { $p: Person } return { $p.name } }"}
SLOW = {
    "source": "query slow() { match { $a: Person $b: Person $c: Person $d: Person } return { count($a) as n } }",
}
POLICY = """
rules:
  - {id: all-read, actors: any, actions: [read, export], graphs: [people]}
  - {id: root-does-all, actors: [root], actions: any}
  - {id: ada-writes, actors: [ada], actions: [change], graphs: [people]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that is large enough for a slow query, one that is empty, and a policy."""
    folder = tmp_path_factory.mktemp("served")
    rows = [{"name": f"p{number:04}", "note": "x" * 2000} for number in range(2000)]
    og.init(folder / "people.omni", schema=SCHEMA).load({"Person": rows})
    og.init(folder / "secret.omni", schema=SCHEMA)
    (folder / "policy.yaml").write_text(POLICY)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    """One server for the tests that leave it as it is."""
    graphs = [str(folder / "people.omni"), f"hidden={folder / 'secret.omni'}"]
    options = ("--policy", str(folder / "policy.yaml"), "--actor-requests", "4", "--max-body", "64K")
    with running_server(graphs, TOKENS, *options, "--client-timeout", "2") as running:
        yield running


def asked(server: RunningServer, actor: str | None, method: str, path: str, **options: Any) -> httpx.Response:
    with server.client(actor) as client:
        return client.request(method, path, **options)


def wait_for(server: RunningServer, actor: str, count: int, *, seen_by: str = "") -> list[dict[str, Any]]:
    """So many requests of an actor that work on a graph, once they are there; seen by the actor, or by an admin."""

    def at_work() -> list[dict[str, Any]]:
        found = asked(server, seen_by or actor, "GET", "/requests").json()["requests"]
        return [each for each in found if each["actor"] == actor and each["path"].startswith("/graphs/")]

    return awaited(at_work, lambda found: len(found) == count)


# --- who gets in ---


def test_health_and_description_need_no_token_and_nothing_else_is_open(server: RunningServer) -> None:
    assert asked(server, None, "GET", "/healthz").json() == {"status": "ok"}
    assert asked(server, None, "GET", "/readyz").json() == {"status": "ready"}
    description = asked(server, None, "GET", "/openapi.json").json()
    for path, methods in description["paths"].items():
        if path in ("/healthz", "/readyz"):
            continue
        for method in methods:
            answer = asked(server, None, method.upper(), path.replace("{id}", "people"))
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), path
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer " + "x" * 32},
        {"Authorization": "Bearer"},
        {"Authorization": f"Basic {TOKENS['ada']}"},
        {"Authorization": f"Bearer {TOKENS['ada']}x"},
        {"Authorization": f"Bearer {'x' * 100_0}"},
        {"X-Actor": "ada", "X-Forwarded-User": "ada"},
    ],
)
def test_a_forged_token_gets_nowhere(server: RunningServer, headers: dict[str, str]) -> None:
    assert asked(server, None, "GET", "/graphs", headers=headers).status_code == 401


def test_two_tokens_at_once_are_none(server: RunningServer) -> None:
    both = [("Authorization", f"Bearer {TOKENS['ada']}"), ("Authorization", f"Bearer {TOKENS['root']}")]
    assert asked(server, None, "GET", "/graphs", headers=both).status_code == 401


def test_the_actor_of_a_commit_is_the_owner_of_the_token(server: RunningServer) -> None:
    mutation = {"source": 'query add() { insert Person { name: "new" } }'}
    answer = asked(server, "ada", "POST", "/graphs/people/mutate", json=mutation, headers={"X-Actor": "root"})
    assert answer.json()["commit"]["actor"] == "ada"
    refused = asked(server, "ada", "POST", "/graphs/people/mutate", json={**mutation, "actor": "root"})
    assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")


def test_a_policy_holds_and_graphs_that_may_not_be_read_are_not_listed(server: RunningServer) -> None:
    assert asked(server, "bob", "GET", "/graphs").json() == {"graphs": [{"id": "people"}]}
    assert asked(server, "root", "GET", "/graphs").json() == {"graphs": [{"id": "people"}, {"id": "hidden"}]}
    denied = asked(server, "bob", "POST", "/graphs/hidden/query", json=NAMES)
    assert (denied.status_code, denied.json()["code"]) == (403, "policy_denied")
    assert server.logged(logger="omnigraph.policy", actor="bob", graph="hidden")["action"] == "read"


# --- one body for all errors ---


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code"),
    [
        ("GET", "/", {}, 404, "not_found"),
        ("GET", "/graphs/", {}, 404, "not_found"),
        ("GET", "/graphs/none/snapshot", {}, 404, "not_found"),
        ("GET", "/graphs/..%2Fsecret.omni/snapshot", {}, 404, "not_found"),
        ("GET", "/graphs/people/snapshot?branch=none", {}, 404, "not_found"),
        ("PATCH", "/graphs/people/query", {}, 405, "method_not_allowed"),
        ("POST", "/graphs/people/query", {"content": b""}, 400, "bad_request"),
        ("POST", "/graphs/people/query", {"content": b"{\xff}"}, 400, "bad_request"),
        ("POST", "/graphs/people/query", {"content": b'{"source": NaN}'}, 400, "bad_request"),
        ("POST", "/graphs/people/query", {"content": b'{"source": "\\ud800"}'}, 400, "bad_request"),
        ("POST", "/graphs/people/query", {"content": b"[" * 60_000}, 400, "bad_request"),
        ("POST", "/graphs/people/query", {"content": b"1" * 60_000}, 400, "bad_request"),
        ("POST", "/graphs/people/query", {"json": {"source": 1}}, 400, "bad_request"),
        ("POST", "/graphs/people/query", {"json": {"source": "query"}}, 400, "query_error"),
        ("POST", "/graphs/people/query", {"json": {"source": "x" * 70_000}}, 413, "too_large"),
        ("POST", "/graphs/people/query", {"data": {"source": "x"}}, 415, "unsupported_media_type"),
    ],
)
def test_every_error_has_the_one_body(  # noqa: PLR0917 - all of them are one case
    server: RunningServer, method: str, path: str, options: dict[str, Any], status: int, code: str
) -> None:
    if "content" in options:
        options = {**options, "headers": {"Content-Type": "application/json"}}
    answer = asked(server, "ada", method, path, **options)
    body = answer.json()
    assert (answer.status_code, body["code"]) == (status, code)
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["error"]
    assert "Traceback" not in answer.text
    assert "/served" not in answer.text


def test_a_wrong_method_is_told_the_right_ones(server: RunningServer) -> None:
    answer = asked(server, "ada", "PUT", "/graphs/people/branches")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


def test_what_is_not_http_is_answered_in_the_same_way(server: RunningServer) -> None:
    with socket.create_connection(server.address) as raw:
        raw.sendall(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
        answer = raw.makefile("rb").read()
    assert b" 400 " in answer.splitlines()[0]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "bad_request"


def test_a_request_is_called_what_its_client_calls_it_if_that_is_a_name(server: RunningServer) -> None:
    assert asked(server, None, "GET", "/healthz", headers={"X-Request-Id": "a-1"}).headers["x-request-id"] == "a-1"
    for wrong in ("a b", "x" * 65, "é".encode(), "a%0d%0aSet-Cookie: x"):
        answer = asked(server, None, "GET", "/healthz", headers=[("X-Request-Id", wrong)])
        assert len(answer.headers["x-request-id"]) == 24
        assert "set-cookie" not in answer.headers
        assert "server" not in answer.headers


def test_each_request_leaves_a_line_in_the_log_and_is_counted(server: RunningServer) -> None:
    asked(server, "ada", "POST", "/graphs/people/query", json=NAMES, headers={"X-Request-Id": "logged-1"})
    line = server.logged(request_id="logged-1")
    expected = {"actor": "ada", "graph": "people", "status": 200, "route": "/graphs/{id}/query", "code": None}
    assert expected.items() <= line.items()
    asked(server, "ada", "PROPFIND", "/x/" + "y" * 100)
    metrics = asked(server, "ada", "GET", "/metrics").text
    assert 'omnigraph_requests_total{method="POST",route="/graphs/{id}/query",status="200"}' in metrics
    assert 'omnigraph_requests_total{method="other",route="unknown",status="404"}' in metrics
    assert "yyy" not in metrics
    assert "process_resident_memory_bytes" in metrics


# --- room ---


def test_large_answers_are_compressed_for_those_who_ask_except_arrow(server: RunningServer) -> None:
    plain = asked(server, "ada", "POST", "/graphs/people/query", json=NAMES, headers={"Accept-Encoding": "identity"})
    small = asked(server, "ada", "POST", "/graphs/people/query", json=NAMES, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert small.json() == plain.json()
    accept = {"Accept": "application/vnd.apache.arrow.stream", "Accept-Encoding": "gzip"}
    arrow = asked(server, "ada", "POST", "/graphs/people/query", json=NAMES, headers=accept)
    assert arrow.headers["content-type"] == accept["Accept"]
    assert "content-encoding" not in arrow.headers


def test_an_actor_has_so_many_requests_at_once_and_a_cancelled_query_makes_room(server: RunningServer) -> None:
    answers: list[httpx.Response] = []

    def ask() -> None:
        answers.append(asked(server, "bob", "POST", "/graphs/people/query", json=SLOW))

    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    slow = wait_for(server, "bob", 4, seen_by="root")
    refused = asked(server, "bob", "GET", "/graphs")
    assert (refused.status_code, refused.json()["code"]) == (429, "too_busy")
    assert int(refused.headers["retry-after"]) > 0
    assert asked(server, "ada", "GET", "/graphs").status_code == 200
    assert asked(server, "ada", "DELETE", f"/requests/{slow[0]['request_id']}").status_code == 404
    for asker_name, each in zip(("bob", "root", "bob", "root"), slow, strict=True):
        assert asked(server, asker_name, "DELETE", f"/requests/{each['request_id']}").status_code == 200
    for asker in askers:
        asker.join()
    assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(499, "query_cancelled")] * 4
    assert asked(server, "bob", "GET", "/graphs").status_code == 200


def test_a_client_that_leaves_has_its_query_stopped(server: RunningServer) -> None:
    patience = httpx.Timeout(120, read=0.3)
    with server.client("ada") as client, pytest.raises(httpx.ReadTimeout):
        client.post("/graphs/people/query", json=SLOW, headers={"X-Request-Id": "left"}, timeout=patience)
    assert server.logged(request_id="left", cancelled=True)["code"] == "query_cancelled"
    wait_for(server, "ada", 0)


def test_a_client_that_does_not_read_is_not_waited_for(server: RunningServer) -> None:
    export = b'{"branch": "main"}'
    headers = [JSON, ("Content-Length", str(len(export))), ("X-Request-Id", "unread")]
    head = raw_client(server).head("POST", "/graphs/people/export", actor="ada", headers=headers)
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(120)
        raw.connect(server.address)
        raw.sendall(head + export)
        assert server.logged(request_id="unread")["code"] == "too_slow"
        wait_for(server, "ada", 0)
        received = b""
        try:
            while piece := raw.recv(1 << 20):
                received += piece
        except ConnectionResetError:
            pass
        assert not received.endswith(b"0\r\n\r\n")


def raw_client(server: RunningServer) -> RawClient:
    return RawClient(server.address, TOKENS, [*TOKENS.values()])


def test_a_client_that_does_not_send_is_not_waited_for(server: RunningServer) -> None:
    ask, body = raw_client(server), json.dumps(NAMES).encode()
    for length, sent in ((100, b'{"sou'), (len(body) + 5, body)):
        head = ask.head("POST", "/graphs/people/query", actor="ada", headers=[JSON, ("Content-Length", str(length))])
        assert [answer.outcome for answer in ask.exchanged(head + sent)] == [(408, "too_slow")]


# --- starting and stopping ---


@pytest.mark.parametrize(
    ("tokens", "options", "problem"),
    [
        (None, [], "--unauthenticated"),
        (json.dumps(TOKENS), ["--unauthenticated"], "not both"),
        ('{"ada": "short"}', [], "fewer than 16"),
        (json.dumps(TOKENS), ["other/people.omni"], "two graphs have the id `people`"),
        (json.dumps(TOKENS), ["--bind", "8080"], "--bind"),
        (json.dumps(TOKENS), ["--max-body", "much"], "--max-body"),
        (json.dumps(TOKENS), ["--threads", "0"], "threads"),
    ],
)
def test_what_does_not_go_together_does_not_start(
    monkeypatch: pytest.MonkeyPatch, tokens: str | None, options: list[str], problem: str
) -> None:
    monkeypatch.delenv(JSON_VARIABLE, raising=False)
    if tokens is not None:
        monkeypatch.setenv(JSON_VARIABLE, tokens)
    result = omnigraph_cli("serve", "people.omni", *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error[usage]")
    assert problem in result.stderr


def test_a_graph_that_is_not_there_is_told_and_ends_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JSON_VARIABLE, json.dumps(TOKENS))
    result = omnigraph_cli("serve", folder / "people.omni", folder / "none.omni", "--bind", "127.0.0.1:0")
    assert (result.returncode, result.stdout) == (1, "")
    assert "there is no graph" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_address_that_is_taken_is_told_and_ends_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JSON_VARIABLE, json.dumps(TOKENS))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = omnigraph_cli("serve", folder / "people.omni", "--bind", f"127.0.0.1:{port}")
    assert (result.returncode, result.stdout) == (1, "")
    assert "cannot listen" in result.stderr


def test_a_policy_is_read_again_and_stays_if_it_cannot_be(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    with running_server([folder / "people.omni"], TOKENS, "--policy", str(file)) as server:

        def status() -> int:
            return asked(server, "bob", "POST", "/graphs/people/query", json=NAMES).status_code

        def read_again(message: str, text: str) -> None:
            file.write_text(text)
            server.process.send_signal(signal.SIGHUP)
            awaited(server.log, lambda lines: any(message in line["message"] for line in lines))

        assert status() == 200
        read_again("the policy was not reloaded", "rules: 1")
        assert status() == 200
        read_again("the policy was reloaded", "rules: [{id: root, actors: [root], actions: any}]")
        assert status() == 403


def test_connections_that_say_nothing_leave_room_for_the_files_of_graphs(folder: Path) -> None:
    with running_server([folder / "people.omni"], TOKENS) as server, server.client("ada") as client:
        assert client.post("/graphs/people/query", json=NAMES).status_code == 200
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (200, 200))
        with ExitStack() as silent:
            connections = [silent.enter_context(socket.create_connection(server.address)) for _ in range(250)]
            assert connections[-1].recv(1000).startswith(b"HTTP/1.1 503 ")
            assert client.post("/graphs/people/query", json=NAMES).status_code == 200

        def status() -> int:  # it may still be about to learn that the others are gone
            with suppress(httpx.TransportError):
                return asked(server, "bob", "POST", "/graphs/people/query", json=NAMES).status_code
            return 0

        awaited(status, lambda found: found == 200)


def asked_aside(
    server: RunningServer, actor: str, path: str, document: dict[str, Any]
) -> tuple[threading.Thread, list[httpx.Response]]:
    """A request that is at work, by a thread that waits for its answer, and a place for that."""
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(asked(server, actor, "POST", path, json=document)))
    asking.start()
    wait_for(server, actor, 1)
    return asking, answers


def test_it_finishes_what_is_in_flight_and_refuses_what_is_new(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps({"ada": TOKENS["ada"]}))
    file.chmod(0o600)
    patience = {"OMNIGRAPH_WRITE_WAIT": "120"}
    with running_server(
        [folder / "people.omni"], TOKENS, "--grace", "600", tokens_file=file, environment=patience
    ) as server:
        assert asked(server, "root", "GET", "/graphs").status_code == 401
        file.write_text(json.dumps(TOKENS))
        server.process.send_signal(signal.SIGHUP)
        awaited(lambda: asked(server, "root", "GET", "/graphs").status_code, lambda status: status == 200)
        mutation = {"source": 'query add() { insert Person { name: "the last" } }'}
        with WriteFence(Location(str(folder / "people.omni")), "main", "hold") as fence:
            fence.take(["node:Person"])
            writing, answers = asked_aside(server, "ada", "/graphs/people/mutate", mutation)
            server.process.send_signal(signal.SIGTERM)
            ready = awaited(lambda: asked(server, None, "GET", "/readyz"), lambda answer: answer.status_code != 200)
            assert (ready.status_code, ready.json()["code"]) == (503, "unavailable")
            refused = asked(server, "ada", "GET", "/graphs")
            assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
            assert refused.headers["connection"] == "close"
            assert refused.headers["retry-after"]
            assert asked(server, None, "GET", "/healthz").status_code == 200
            assert answers == []
        writing.join()
        assert [answer.status_code for answer in answers] == [200]
        assert server.process.wait(120) == 0
        assert server.logged(message="stopped")
    assert og.open(folder / "people.omni", "r").entity("Person", "the last") is not None


def test_a_query_that_is_in_flight_when_grace_is_over_is_cancelled(folder: Path) -> None:
    with running_server([folder / "people.omni"], TOKENS, "--grace", "0.2") as server:
        asking, answers = asked_aside(server, "bob", "/graphs/people/query", SLOW)
        server.process.send_signal(signal.SIGTERM)
        asking.join()
        assert [(answer.status_code, answer.json()["code"]) for answer in answers] == [(499, "query_cancelled")]
        assert server.process.wait(120) == 0
        assert server.logged(message="stopped")
