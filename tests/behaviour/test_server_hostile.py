"""Whatever is thrown at a server, nothing gets in, nothing gets out, nothing is written, and it goes on."""

import ast
import asyncio
import base64
import gzip
import inspect
import io
import json
import os
import socket
import struct
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from operator import not_
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.server.auth import Tokens
from omnigraph.server.bodies import RequestBody
from omnigraph.storage.location import Location
from omnigraph.write.fence import WriteFence
from tests.behaviour.raw_http import JSON, LINES, Answer, Headers, RawClient, chunk, chunked, quoted
from tests.conftest import carry_rows
from tests.servers import RunningServer, awaited, running_server, token_of

SCHEMA = """
node Person { name: String @key, age: I64?, score: F64?, photo: Blob?, bio: String? @search }
node Secret { name: String @key, text: String? @index }
edge Knows: Person -> Person { since: I64? }
edge Keeps: Person -> Secret
"""
RECORDS = [
    {"type": "Person", "data": {"name": "Ada", "age": 36, "bio": "engines"}},
    {"type": "Person", "data": {"name": "Bob", "age": 40}},
    {"type": "Secret", "data": {"name": "s1", "text": "xyzzy"}},
    {"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": 1833}},
    {"edge": "Keeps", "from": "Ada", "to": "s1"},
]
POLICY = """
rules:
  - {id: ann, actors: [ann], actions: any}
  - {id: eve, actors: [eve], actions: any, graphs: [people]}
  - {id: no-secrets, effect: forbid, actors: [eve], actions: [read, export, change], types: [Secret]}
  - {id: no-admin, effect: forbid, actors: [eve], actions: [admin]}
  - {id: reader, actors: [bob], actions: [read], graphs: [people]}
"""
pytestmark = pytest.mark.xdist_group("hostile")  # one server for all of them

TOKENS = {actor: token_of(actor) for actor in ("ann", "eve", "bob")}
MEBIBYTE = 1024 * 1024
NAMES = "query names() { match { $p: Person } return { $p.name } }"
NAMED = "query named($name: String) { match { $p: Person { name: $name } } return { $p.name } }"
ADD = "query add($name: String) { insert Person { name: $name } }"
QUERY = {"source": NAMES}
GRAPH = "/graphs/people"
CLOSE = [("Connection", "close")]


def below(folder: Path) -> Iterator[Path]:
    """All that is in a folder, in which a server may remove things while this looks: `Path.rglob` would stumble."""
    for place, folders, files in os.walk(folder):
        yield from (Path(place, name) for name in (*folders, *files))


def left_behind(folder: Path) -> list[Path]:
    """What lies where the server keeps its files, but for the folder of its joins, which is for all processes."""
    return [path for path in below(folder / "spool") if not path.name.startswith("omnigraph-joins-")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two graphs, a policy, a place for the files of the server, and a file that nobody may see."""
    folder = tmp_path_factory.mktemp("hostile")
    for name in ("people", "vault"):
        graph = og.init(folder / f"{name}.omni", SCHEMA, durability="fast", upkeep=False)
        (folder / "data.jsonl").write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
        graph.load(str(folder / "data.jsonl"))
    graph = og.open(folder / "people.omni", durability="fast", upkeep=False)
    graph.branches.create("review")
    with pytest.MonkeyPatch.context() as patch:
        carry_rows(patch, 0)  # a load that is refused would fold them all the same
        graph.mutate('query q { update Secret set { text: "plugh" } where name = "s1" }', branch="review")
        graph.mutate('query q { update Secret set { text: "xyzzy2" } where name = "s1" }')
    graph.tags.create("v1")
    (folder / "policy.yaml").write_text(POLICY)
    (folder / "spool").mkdir()
    (folder / "file.pg").write_text("node Canary { name: String @key }")
    (folder / "file.gq").write_text(NAMES)
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RunningServer]:
    limits = ("--max-body", "1M", "--max-load", "4M", "--threads", "2")
    places = {"TMPDIR": str(folder / "spool"), "OMNIGRAPH_WRITE_WAIT": "120", "OMNIGRAPH_DURABILITY": "fast"}
    graphs = [folder / "people.omni", folder / "vault.omni"]
    options = ("--policy", str(folder / "policy.yaml"), *limits)
    with running_server(graphs, TOKENS, *options, environment=places) as running:
        yield running
        assert running.process.poll() is None
        lines = running.errors().splitlines()
        log = [json.loads(line) for line in lines]
        assert [line for line in log if line.get("status", 0) >= 500 or line["level"] == "error"] == []
        assert not any(token in line for line in lines for token in TOKENS.values())
        awaited(lambda: left_behind(folder), not_)


@pytest.fixture
def ask(server: RunningServer, folder: Path) -> RawClient:
    places = (str(folder), folder.name, "Canary")
    return RawClient(server.address, TOKENS, (*TOKENS.values(), *places))


@pytest.fixture(autouse=True)
def _unharmed(request: pytest.FixtureRequest, ask: RawClient, folder: Path) -> Iterator[None]:
    """After each test the server answers, and no file is new or gone, unless the test says that it writes.

    Nothing writes without a request, so files are looked at when the server has none: one whose client has left may
    still be at work.
    """
    before = files_in(folder)
    yield
    assert ask("GET", "/readyz", actor=None).status == 200
    awaited(lambda: in_flight(ask), not_)
    if "writes" not in request.fixturenames:
        assert files_in(folder) == before


@pytest.fixture
def writes() -> None:
    """Says that a test writes."""


def files_in(folder: Path) -> set[str]:
    """All files, but for those that are locks, and those of the server's own place, which is looked at in the end."""
    found = {str(path) for path in below(folder) if "lock" not in path.name and "spool" not in path.parts}
    return found | {path.name for path in folder.parent.iterdir()}


def in_flight(ask: RawClient) -> list[tuple[str, str]]:
    """The ids and addresses of all requests, besides those that ask for them."""
    found = ask("GET", "/requests").document["requests"]
    return [(each["request_id"], each["path"]) for each in found if each["path"] != "/requests"]


# --- tokens ---

ANN = TOKENS["ann"]
NO_TOKENS: dict[str, Headers] = {
    "none": [],
    "no words": [("Authorization", "")],
    "no token": [("Authorization", "Bearer")],
    "blank": [("Authorization", "Bearer  ")],
    "forged": [("Authorization", "Bearer " + "x" * 32)],
    "cut": [("Authorization", f"Bearer {ANN[:-1]}")],
    "longer": [("Authorization", f"Bearer {ANN}x")],
    "doubled": [("Authorization", f"Bearer {ANN}{ANN}")],
    "listed": [("Authorization", f"Bearer {ANN}, Bearer {ANN}")],
    "followed": [("Authorization", f"Bearer {ANN} {ANN}")],
    "another case": [("Authorization", f"Bearer {ANN.upper()}")],
    "quoted": [("Authorization", f'Bearer "{ANN}"')],
    "with a tab": [("Authorization", f"Bearer\t{ANN}")],
    "without a scheme": [("Authorization", ANN)],
    "its digest": [("Authorization", "Bearer " + Tokens.__name__)],
    "very long": [("Authorization", "Bearer " + "x" * 30_000)],
    "not ASCII": [("Authorization", b"Bearer \xff\xfe\xc3\xa9" + ANN.encode())],
    "basic": [("Authorization", "Basic " + base64.b64encode(f"ann:{ANN}".encode()).decode())],
    "another scheme": [("Authorization", f"Token {ANN}")],
    "twice": [("Authorization", f"Bearer {ANN}"), ("authorization", f"Bearer {ANN}")],
    "right and wrong": [("Authorization", f"Bearer {ANN}"), ("AUTHORIZATION", "Bearer x")],
    "wrong and right": [("Authorization", "Bearer x"), ("Authorization", f"Bearer {ANN}")],
    "of a proxy": [("Proxy-Authorization", f"Bearer {ANN}"), ("X-Authorization", f"Bearer {ANN}")],
    "cookie": [("Cookie", f"token={ANN}; Authorization=Bearer {ANN}")],
    "other header": [("X-Api-Key", ANN), ("X-Auth-Token", ANN), ("X-Original-Authorization", f"Bearer {ANN}")],
}


@pytest.mark.parametrize("headers", NO_TOKENS.values(), ids=NO_TOKENS.keys())
def test_without_a_token_nothing_is_answered(ask: RawClient, headers: Headers) -> None:
    for method, target in (("GET", "/graphs"), ("POST", f"{GRAPH}/mutate"), ("GET", "/nowhere"), ("GET", "/metrics")):
        answer = ask(method, target, actor=None, headers=[*headers, JSON], body=b'{"source": "x"}')
        assert answer.outcome == (401, "unauthenticated")
        assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("name", ["token", "access_token", "authorization", "api_key"])
def test_a_token_is_not_taken_from_anywhere_else(ask: RawClient, name: str) -> None:
    assert ask("GET", f"/graphs?{name}={ANN}", actor=None).status == 401
    assert ask("POST", f"{GRAPH}/query", actor=None, document={**QUERY, name: ANN}).status == 401
    assert ask("POST", f"{GRAPH}/query", document={**QUERY, name: "x"}).outcome == (400, "bad_request")
    trailer = b"0\r\nAuthorization: Bearer %s\r\n\r\n" % ANN.encode()
    chunks = [JSON, ("Transfer-Encoding", "chunked"), *CLOSE]
    assert [
        each.status for each in ask.exchanged(ask.head("POST", f"{GRAPH}/query", actor=None, headers=chunks) + trailer)
    ] == [401]


def test_the_scheme_of_a_token_has_no_case(ask: RawClient) -> None:
    for scheme in ("bearer", "BEARER", "bEaReR"):
        assert ask("GET", "/graphs", actor=None, headers=[("Authorization", f"{scheme} {ANN}")]).status == 200


def test_tokens_are_compared_in_constant_time_and_all_of_them() -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(Tokens.actor_of)))
    [loop] = [node for node in ast.walk(tree) if isinstance(node, ast.For)]
    assert not [node for node in ast.walk(loop) if isinstance(node, ast.Return | ast.Break | ast.Compare)]
    assert [ast.unparse(node.func) for node in ast.walk(loop) if isinstance(node, ast.Call)] == ["hmac.compare_digest"]


# --- actors ---

CLAIMS = [
    ("X-Actor", "ann"),
    ("Actor", "ann"),
    ("From", "ann"),
    ("X-User", "ann"),
    ("Remote-User", "ann"),
    ("X-Remote-User", "ann"),
    ("X-Forwarded-User", "ann"),
    ("X-Forwarded-For", "127.0.0.1"),
    ("Forwarded", "for=127.0.0.1;by=ann"),
    ("X-Original-URL", "/healthz"),
    ("X-HTTP-Method-Override", "GET"),
]


def test_no_header_says_who_somebody_is(ask: RawClient, folder: Path, writes: None) -> None:
    for actor, status in ((None, 401), ("bob", 403), ("eve", 200)):
        body = {"source": ADD, "params": {"name": "by-eve"}, "branch": "review"}
        assert ask("POST", f"{GRAPH}/mutate", actor=actor, headers=CLAIMS, document=body).status == status
    assert og.open(folder / "people.omni", "r").commits.list("review", limit=1)[0].actor == "eve"


@pytest.mark.parametrize("name", ["actor", "as", "user", "Actor"])
def test_nothing_else_says_who_somebody_is(ask: RawClient, name: str) -> None:
    body = {"source": ADD, "params": {"name": "x"}}
    assert ask("POST", f"{GRAPH}/mutate", actor="eve", document={**body, name: "ann"}).outcome == (400, "bad_request")
    for target in (f"/mutate?{name}=ann", f"/load?{name}=ann"):
        assert ask("POST", GRAPH + target, actor="eve", document=body).status in (400, 415)
    assert ask("POST", f"{GRAPH}/branches", actor="eve", document={"name": "b", name: "ann"}).status == 400


def test_others_requests_are_neither_seen_nor_cancelled(ask: RawClient, folder: Path) -> None:
    headers = [LINES, ("Transfer-Encoding", "chunked"), ("X-Request-Id", "of-ann")]
    with ask.connected() as sending:
        sending.sendall(ask.head("POST", f"{GRAPH}/load", headers=headers) + b"5\r\nhello\r\n")
        awaited(lambda: in_flight(ask), lambda found: "of-ann" in dict(found))
        for other in ("eve", "bob"):
            assert "of-ann" not in str(ask("GET", "/requests", actor=other).document)
            assert ask("DELETE", "/requests/of-ann", actor=other).outcome == (404, "not_found")
        taken = ask("GET", "/graphs", actor="eve", headers=[("X-Request-Id", "of-ann")])
        assert taken.headers["x-request-id"] != "of-ann"
        assert ask("DELETE", "/requests/of-ann").status == 200
    awaited(lambda: left_behind(folder), not_)


# --- names ---

ODD_NAMES = [
    "..",
    "../vault",
    "../../vault.omni",
    "/etc/passwd",
    "..\\..\\vault",
    "a\0b",
    "x" * 151,
    "．．/．．",
    "m\u0430in",
    "ma\u200bin",
    "main\u202e",
    "a\r\nX-Evil: 1",
    "\x1b[31m",
    "~root",
    "*",
    "%2e%2e",
    "file:///etc/passwd",
    "s3://bucket/x",
    "http://127.0.0.1:1/x",
    "__schema_apply_lock__",
    "' OR 1=1 --",
]
WRONG = (400, 404, 405)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_name_nothing(ask: RawClient, name: str) -> None:
    given = quoted(name)
    for method, target in (
        ("GET", f"/graphs/{given}/snapshot"),
        ("DELETE", f"{GRAPH}/branches/{given}"),
        ("GET", f"{GRAPH}/tags/{given}"),
        ("DELETE", f"{GRAPH}/tags/{given}"),
        ("GET", f"{GRAPH}/commits/{given}"),
        ("GET", f"{GRAPH}/commits/{given}/changes"),
        ("GET", f"{GRAPH}/entities/{given}/Ada"),
        ("GET", f"{GRAPH}/entities/Person/{given}"),
        ("GET", f"{GRAPH}/recoveries/{given}"),
        ("GET", f"{GRAPH}/snapshot?branch={given}"),
        ("GET", f"{GRAPH}/schema?at={given}"),
        ("GET", f"{GRAPH}/diff?left=main&right={given}"),
        ("GET", f"{GRAPH}/changes?cursor={given}"),
        ("DELETE", f"/requests/{given}"),
    ):
        assert ask(method, target).status in WRONG, target
    for target, document in (
        ("/query", {**QUERY, "branch": name}),
        ("/query", {**QUERY, "snapshot": name}),
        ("/query", {**QUERY, "name": name}),
        ("/export", {"types": [name]}),
        ("/branches", {"name": "new", "from": name}),
        ("/branches/merge", {"source": name}),
        ("/branches/merge", {"source": "review", "into": name, "dry_run": True}),
        ("/tags", {"name": "new", "at": name}),
        ("/analyze", {"algorithm": name}),
        ("/analyze", {"algorithm": "pagerank", "edges": [name]}),
        ("/analyze", {"algorithm": "pagerank", "weight": name}),
        ("/embed", {"type": name}),
        ("/optimize", {"branch": name}),
        ("/cleanup", {"keep": 1, "older_than": name}),
        ("/schema/catch-up", {"branch": name}),
    ):
        assert ask("POST", GRAPH + target, document=document).status in WRONG, (target, document)
    line = json.dumps(RECORDS[0]).encode()
    for target in (f"/load?branch={given}", f"/load?branch=new&from={given}"):
        assert ask("POST", GRAPH + target, headers=[LINES], body=line).status in WRONG, target
    if not name.isprintable() or not name.strip("*%$~"):
        assert ask("POST", f"{GRAPH}/branches", document={"name": name}).status == 400
        assert ask("POST", f"{GRAPH}/tags", document={"name": name}).status == 400


@pytest.mark.parametrize(
    "target",
    [
        "/graphs/../graphs/vault/snapshot",
        "/graphs/people/../vault/snapshot",
        "/graphs/%2e%2e/vault",
        "/graphs/people%2f..%2fvault/snapshot",
        "//graphs/people/snapshot",
        "/graphs//people/snapshot",
        "/graphs/people/snapshot/",
        "/graphs/people;x=1/snapshot",
        "/graphs/PEOPLE/snapshot",
        "/graphs/people.omni/snapshot",
        "/graphs/people%00/snapshot",
        "/graphs/%ff%fe/snapshot",
        "/static/../../etc/passwd",
        "/docs",
        "/redoc",
        "/healthz/../graphs/people/snapshot",
        "/healthz%2f..%2fgraphs",
    ],
)
def test_tricks_with_paths_lead_nowhere(ask: RawClient, target: str) -> None:
    assert ask("GET", target).status in (400, 404)
    assert ask("GET", target, actor=None).status in (400, 401)
    assert ask("GET", target, actor="eve").status in (400, 404)


def test_a_graph_that_may_not_be_read_is_not_listed(ask: RawClient) -> None:
    assert ask("GET", "/graphs", actor="eve").document == {"graphs": [{"id": "people"}]}
    assert ask("POST", "/graphs/vault/query", actor="eve", document=QUERY).outcome == (403, "policy_denied")


# --- bodies ---


def test_a_large_body_is_refused_before_it_comes(ask: RawClient) -> None:
    for target, kind, size in (
        ("/query", JSON, MEBIBYTE + 1),
        ("/load", LINES, 4 * MEBIBYTE + 1),
        ("/query", JSON, 10**30),
    ):
        with ask.connected() as sending:
            sending.sendall(ask.head("POST", GRAPH + target, headers=[kind, ("Content-Length", str(size))]))
            assert ask.answer(sending, "POST").outcome in ((413, "too_large"), (400, "bad_request"))


def test_a_large_body_without_a_length_is_refused_while_it_comes(ask: RawClient) -> None:
    for target, kind, size in (("/query", JSON, MEBIBYTE), ("/load", LINES, 4 * MEBIBYTE)):
        with ask.connected() as sending:
            sending.sendall(ask.head("POST", GRAPH + target, headers=[kind, ("Transfer-Encoding", "chunked")]))
            with suppress(ConnectionError):
                sending.sendall(chunked(*[b" " * 65536] * (size // 65536 + 1)))
            assert ask.answer(sending, "POST").outcome == (413, "too_large")


def test_a_bomb_does_not_go_off(ask: RawClient) -> None:
    bomb = gzip.compress(b"[" + b" " * 5 * MEBIBYTE + b"]")
    packed = ("Content-Encoding", "gzip")
    assert len(bomb) < MEBIBYTE
    for target, kind in (("/query", JSON), ("/load", LINES)):
        assert ask("POST", GRAPH + target, headers=[kind, packed], body=bomb).outcome == (413, "too_large")
    assert ask("POST", f"{GRAPH}/query", headers=[JSON, packed], body=gzip.compress(bomb)).outcome == (
        400,
        "bad_request",
    )
    twice = ("Content-Encoding", "gzip, gzip")
    assert ask("POST", f"{GRAPH}/query", headers=[JSON, twice], body=bomb).outcome == (415, "unsupported_media_type")
    for broken in (b"\x1f\x8b", bomb[:-100], b"plain", gzip.compress(b"{}") + b"tail"):
        assert ask("POST", f"{GRAPH}/query", headers=[JSON, packed], body=broken).outcome[0] in (400, 413)


def test_files_of_gzip_that_unpack_to_nothing_are_counted_as_they_were_sent(ask: RawClient) -> None:
    packed = [("Content-Encoding", "gzip"), ("Transfer-Encoding", "chunked")]
    piece = gzip.compress(b"") * 3000
    for actor, target, kind, size in (("bob", "/query", JSON, MEBIBYTE), ("ann", "/load", LINES, 4 * MEBIBYTE)):
        with ask.connected() as sending:
            sending.sendall(ask.head("POST", GRAPH + target, actor=actor, headers=[kind, *packed]))
            for _ in range(size // len(piece)):
                sending.sendall(chunk(piece))
                assert ask("GET", "/healthz", actor=None).status == 200
            with suppress(ConnectionError):
                sending.sendall(chunked(piece, piece))
            assert ask.answer(sending, "POST").outcome == (413, "too_large")


def test_unpacking_leaves_turns_to_other_requests() -> None:
    """What was received already is there at once, so only the one who unpacks it can let others have a turn."""
    messages = [gzip.compress(b"") * 1000, b"".join(gzip.compress(b" " * 100_000) for _ in range(100))]
    turns = 0

    async def receive() -> Any:
        return {"type": "http.request", "body": messages.pop(0), "more_body": bool(messages)}

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def unpacked() -> int:
        body = RequestBody({"headers": [(b"content-encoding", b"gzip")]}, receive, limit=100 * MEBIBYTE, timeout=60)
        beside = asyncio.ensure_future(others())
        while (await body.receive())["more_body"]:
            pass
        beside.cancel()
        return body.received

    assert asyncio.run(unpacked()) == 100 * 100_000
    assert turns > 100


def test_a_file_that_unpacks_to_more_than_a_load_may_have_is_refused(ask: RawClient) -> None:
    line = json.dumps({"type": "Person", "data": {"name": "x", "bio": " " * MEBIBYTE}}).encode() + b"\n"
    for name, content in (("a.jsonl.gz", gzip.compress(line * 6)), ("a.jsonl.gz", gzip.compress(b" " * 5 * MEBIBYTE))):
        answer = ask("POST", f"{GRAPH}/load", **form([("data", name, content)]))
        assert answer.outcome == (413, "too_large")


def test_a_file_of_columns_that_unpacks_to_more_than_a_load_may_have_is_refused(ask: RawClient) -> None:
    """One long text may be the value of many rows, and one number that of very many, in a file of some bytes."""
    rows = 2_000
    long = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * 50_000]))
    repeated = pa.table({"name": pa.array(["x"] * rows), "bio": long})
    numbers = pa.table({"age": pa.array(np.zeros(5_000_000, np.int64))})
    for table in (repeated, numbers):
        packed = io.BytesIO()
        pq.write_table(table, packed, compression="zstd")
        assert len(packed.getvalue()) < 100_000
        answer = ask("POST", f"{GRAPH}/load", **form([("Person", "a.parquet", packed.getvalue())]))
        assert answer.outcome == (413, "too_large")
    packed = io.BytesIO()
    with pa.ipc.new_file(packed, repeated.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(repeated)
    answer = ask("POST", f"{GRAPH}/load", **form([("Person", "a.arrow", packed.getvalue())]))
    assert answer.outcome == (413, "too_large")


def test_who_may_not_load_is_told_so_before_anything_is_sent(ask: RawClient) -> None:
    """The body is announced and never comes, so an answer says that nobody waited for it."""
    for target in (f"{GRAPH}/load", f"{GRAPH}/load?branch=review", f"{GRAPH}/load?branch=new&from=main"):
        with ask.connected() as sending:
            announced = [LINES, ("Content-Length", str(3 * MEBIBYTE))]
            sending.sendall(ask.head("POST", target, actor="bob", headers=announced))
            assert ask.answer(sending, "POST").outcome == (403, "policy_denied")


def test_a_length_that_is_a_lie_cuts_the_body(ask: RawClient) -> None:
    body = json.dumps(QUERY).encode()
    short = ask.head("POST", f"{GRAPH}/query", headers=[JSON, ("Content-Length", "9")])
    assert {answer.status for answer in ask.exchanged(short + body)} == {400}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'"x"',
        b"{",
        b"\xef\xbb\xbf{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"source": "x", "params": {"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"source": "x", "params": {"x": ' + b"[" * 100 + b"]" * 100 + b"}}",
        b'{"source": "x", "params": {"x": NaN}}',
        b'{"source": "x", "params": {"x": -Infinity}}',
        b'{"source": "x", "params": {"x": 1e999}}',
        b'{"source": "x", "params": {"x": ' + b"9" * 10_000 + b"}}",
        b'{"source": "x", "params": {"x": [' + b"1," * 300_000 + b"1]}}",
        b"{" + b",".join(b'"a%d":1' % n for n in range(5_000)) + b"}",
        b'{"source": "\xff\xfe"}',
        b'{"source": "\xed\xa0\x80"}',
        b'{"source": "\\ud800"}',
        b'{"source": "\\u0000"}',
        b'{"source": "a\0b"}',
        b'{"source": {"$ne": null}}',
        b'{"source": ["x"]}',
        b'{"source": 1}',
        b'{"__proto__": {}, "source": "x"}',
        b'{"source": "x", "source": 1}',
    ],
    ids=lambda body: body[:24].decode("latin-1") + str(len(body)),
)
def test_what_is_no_body_is_refused(ask: RawClient, body: bytes) -> None:
    for target in ("/query", "/mutate", "/export", "/schema/plan", "/branches/merge"):
        answer = ask("POST", GRAPH + target, headers=[JSON], body=body)
        assert answer.status == 400, (target, answer)
        assert len(answer.body) < 20_000


def test_a_field_that_is_there_twice_is_refused(ask: RawClient) -> None:
    """Whoever reads the first, and whoever reads the last, would take it for another request."""
    denied = b'{"source": %s, "source": %s}'
    secret = json.dumps("query q { match { $s: Secret } return { $s.text } }").encode()
    plain = json.dumps(NAMES).encode()
    assert ask("POST", f"{GRAPH}/query", actor="eve", headers=[JSON], body=denied % (plain, secret)).status == 400
    assert ask("POST", f"{GRAPH}/query", actor="eve", headers=[JSON], body=denied % (secret, plain)).status == 400


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/html", "*/*", "json", "\t"]
)
def test_bodies_of_another_kind_are_refused(ask: RawClient, kind: str) -> None:
    body = json.dumps(QUERY).encode()
    assert ask("POST", f"{GRAPH}/query", headers=[("Content-Type", kind)], body=body).status == 415
    assert ask("POST", f"{GRAPH}/load", headers=[("Content-Type", kind)], body=body).status in (400, 415)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[" * 100_000,
        b'{"type": "Person", "data": ' + b'{"a":' * 100_000,
        b'{"type": "Person", "data": {"name": "\xff"}}',
        b'{"type": "Person", "data": {"name": "\xed\xa0\x80"}}',
        b'{"type": "Person", "data": {"name": "\\ud800"}}',
        b'{"type": "Person", "data": {"name": "x", "age": 99999999999999999999999}}',
        b'{"type": "Person", "data": {"name": "x", "age": ' + b"9" * 5_000 + b"}}",
        b'{"type": "Person", "data": {"name": "x", "score": NaN}}',
        b'{"type": "Person", "data": {"name": "x", "photo": "file:///etc/passwd"}}',
        b'{"type": "Person", "data": {"name": "x", "photo": "http://127.0.0.1:1/x"}}',
        b'{"type": "Person", "data": {"name": "x", "photo": {"uri": "/etc/passwd"}}}',
        b'{"type": "../Person", "data": {"name": "x"}}',
        b'{"type": "Person", "data": {"name": null}}',
        b'{"type": "Person", "data": {"name": "x", "id": "../../x"}}',
        b'{"edge": "Knows", "from": "Ada", "to": "\' OR 1=1 --"}',
        b'{"type": "Person", "actor": "ann", "data": {"name": "x"}}',
        b"\0" * 1000,
        b"\x1f\x8b\x08" + b"x" * 1000,
    ],
    ids=lambda line: line[:60].decode("latin-1") + str(len(line)),
)
def test_lines_that_are_no_records_are_refused(ask: RawClient, line: bytes) -> None:
    answer = ask("POST", f"{GRAPH}/load", headers=[LINES], body=line)
    assert answer.outcome == (422, "validation_error"), answer
    assert len(answer.body) < 20_000
    assert b"root:" not in answer.body


# --- files ---


def form(parts: list[tuple[str, str, bytes]]) -> dict[str, Any]:
    """Parts as a form, with names as they are given."""
    pieces = [
        b'--b\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n'
        % (name.encode(), file.encode(), content)
        for name, file, content in parts
    ]
    return {"headers": [("Content-Type", "multipart/form-data; boundary=b")], "body": b"".join(pieces) + b"--b--\r\n"}


@pytest.mark.parametrize(
    "place", ["{}/file.gq", "{}/file.pg", "file://{}/file.pg", "/etc/passwd", "file.pg", "@{}/file.gq"]
)
def test_a_text_is_never_the_path_of_one(ask: RawClient, folder: Path, place: str) -> None:
    path = place.format(folder)
    hidden = RawClient(ask.address, TOKENS, ("root:", "Canary", *TOKENS.values()))
    for target, field in (
        ("/query", "source"),
        ("/mutate", "source"),
        ("/schema/plan", "schema"),
        ("/schema/apply", "schema"),
    ):
        assert hidden("POST", GRAPH + target, document={field: path}).outcome[0] == 400


@pytest.mark.parametrize(
    "name", ["../../x.jsonl", "/etc/x.jsonl", "..\\x.jsonl", "a\\..\\x.jsonl", "C:\\x.jsonl", "x.jsonl"]
)
def test_the_name_of_a_file_is_only_its_last_part(ask: RawClient, name: str) -> None:
    answer = ask("POST", f"{GRAPH}/load", **form([("data", name, b"no record")]))
    assert answer.outcome == (422, "validation_error")
    assert [violation["file"] for violation in answer.document["violations"]] == ["x.jsonl"]
    assert (
        ask("POST", f"{GRAPH}/load?file={quoted(name)}", headers=[LINES], body=b"no").document["violations"][0]["file"]
        == "x.jsonl"
    )


def arrow_file(offsets: tuple[int, ...]) -> bytes:
    """An Arrow file of texts whose places in the file are these."""
    content = io.BytesIO()
    table = pa.table({"name": ["aaaaaaaa", "bbbbbbbb", "cccccccc"]})
    with pa.ipc.new_file(content, table.schema) as writer:
        writer.write_table(table)
    right = struct.pack("<4i", 0, 8, 16, 24)
    assert content.getvalue().count(right) == 1
    return content.getvalue().replace(right, struct.pack("<4i", *offsets))


@pytest.mark.parametrize(
    ("name", "file", "content"),
    [
        ("Person", "x.arrow", arrow_file((0, 8, 16, 2_000_000_000))),
        ("Person", "x.arrow", arrow_file((-100_000, 8, 16, 24))),
        ("Person", "x.arrow", arrow_file((0, 16, 8, 24))),
        ("Person", "x.arrow", arrow_file((0, 8, 16, 24)).replace(b"bbbbbbbb", b"\xff" * 8)),
        ("Person", "x.parquet", b"PAR1" + b"\xff" * 100 + b"PAR1"),
        ("Person", "x.csv", b"name\n\xff\xfe\n"),
        ("data", "x.jsonl.zst", b"(\xb5/\xfd" + b"\xff" * 100),
        ("data", "x.jsonl.bz2", b"BZh9" + b"\xff" * 100),
    ],
)
def test_files_that_are_none_are_refused(ask: RawClient, name: str, file: str, content: bytes) -> None:
    answer = ask("POST", f"{GRAPH}/load", **form([(name, file, content)]))
    assert answer.outcome == (422, "validation_error"), answer


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("data", ".."),
        ("data", "/"),
        ("data", ""),
        ("", "x.jsonl"),
        ("Person", "x.exe"),
        ("../Person", "x.csv"),
        ("node:Person", "x.csv"),
        ("a\r\nX-Evil: 1", "x.csv"),
        ("/etc/passwd", "/etc/passwd"),
        ("data", "http://127.0.0.1:1/x.csv"),
        ("data", "s3:x.parquet"),
    ],
)
def test_forms_with_odd_names_are_refused(ask: RawClient, name: str, file: str) -> None:
    assert ask("POST", f"{GRAPH}/load", **form([(name, file, b"name\nx\n")])).status in (400, 404, 422)


INJECTED = [
    "' OR 1=1 --",
    "x' OR 'x'='x",
    'x" OR "x"="x',
    "Ada' --",
    "\\' OR true OR name = \\'",
    "') OR true OR (name = '",
    "x'; COPY (SELECT 1) TO '/tmp/hostile'; --",
    "x' UNION SELECT content FROM read_text('/etc/passwd') --",
    "read_csv('/etc/passwd')",
    "${jndi:ldap://127.0.0.1}",
    "{{7*7}}",
    "Ada\0",
    "%",
    "_da",
    "A*",
]


@pytest.mark.parametrize("words", INJECTED)
def test_words_are_only_words(ask: RawClient, words: str) -> None:
    found = ask("POST", f"{GRAPH}/query", document={"source": NAMED, "params": {"name": words}})
    assert (found.status, found.document["rows"]) == (200, [])
    assert ask("GET", f"{GRAPH}/entities/Person/{quoted(words)}").status in (400, 404)
    gone = "query gone($name: String) { delete Person where name = $name }"
    assert (
        ask("POST", f"{GRAPH}/mutate", document={"source": gone, "params": {"name": words}}).document["commit"] is None
    )
    search = "query q($words: String) { match { $p: Person  search($p.bio, $words) } return { $p.name } }"
    assert ask("POST", f"{GRAPH}/query", document={"source": search, "params": {"words": words}}).status in (200, 400)
    paths = {"algorithm": "shortest-paths", "sources": [words]}
    assert ask("POST", f"{GRAPH}/analyze", document=paths).status in (200, 400, 404)
    assert ask("GET", f"{GRAPH}/commits?actor={quoted(words)}").status in (200, 400)


@pytest.mark.parametrize(
    "text",
    [
        "query q { match { $p: Person } return { read_text('/etc/passwd') } }",
        'query q { match { $p: Person } return { read_csv("/etc/passwd") } }',
        'query q { match { $p: Person  $p.name = getenv("HOME") } return { $p.name } }',
        "query q { match { $p: Person } return { $p.name } } ; ATTACH '/etc/passwd'",
        'query q { match { $p: "/etc/passwd" } return { $p } }',
        "query q { match { $p: vault.Person } return { $p.name } }",
        "query q { match { $p: `../vault`.Person } return { $p.name } }",
        'query q { match { $p: Person } return { $p.name as "x\\"; DROP" } }',
        "SELECT * FROM read_parquet('../vault.omni/**')",
        "PRAGMA database_list",
        "query q { match { $p: Person } return { $p.__class__ } }",
        "query q { match { $p: Person } return { $p._rowid } }",
        "import 'file:///etc/passwd'",
        "query q { match { " + "not { " * 5_000 + "}" * 5_000 + " } return { 1 } }",
    ],
    ids=lambda text: text[:60],
)
def test_a_query_reaches_nothing_but_its_graph(ask: RawClient, text: str) -> None:
    for target, extra in (("/query", {}), ("/query", {"explain": True}), ("/mutate", {})):
        answer = ask("POST", GRAPH + target, document={"source": text, **extra})
        assert answer.outcome == (400, "query_error")


def test_nobody_starts_spark_or_endless_work(ask: RawClient) -> None:
    assert ask("POST", f"{GRAPH}/query", document={**QUERY, "engine": "spark"}).outcome == (400, "usage")
    assert ask("POST", f"{GRAPH}/load?engine=spark", headers=[LINES], body=b"{}").outcome == (400, "usage")
    for target, document in (("/optimize", {}), ("/indexes", {}), ("/export", {"format": "csv"})):
        assert ask("POST", GRAPH + target, document={**document, "engine": "spark"}).outcome == (400, "usage")
    endless = {"algorithm": "pagerank", "iterations": 10**12, "tolerance": 0.0}
    assert ask("POST", f"{GRAPH}/analyze", document=endless).outcome == (400, "bad_request")
    assert ask("POST", f"{GRAPH}/query", document={**QUERY, "timeout": 1e308}).status == 200


# --- HTTP ---


@pytest.mark.parametrize(
    "given", ["a\r\n b", "a\nX-Evil: 1", "a b", "x" * 65, "é", "../x", "", "%0d%0aX-Evil:1", "a;b"]
)
def test_an_id_of_a_request_comes_back_only_if_it_is_one(ask: RawClient, given: str) -> None:
    with suppress(ValueError):
        answers = ask.exchanged(ask.head("GET", "/graphs", headers=[("X-Request-Id", given), *CLOSE]))
        assert answers
        assert all(answer.headers.get("x-request-id", "") != given for answer in answers)
        assert all("x-evil" not in answer.headers for answer in answers)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PUT", "PATCH", "PROPFIND", "DELETE"])
def test_other_methods_are_refused_and_other_sites_are_told_nothing(ask: RawClient, method: str) -> None:
    asking = [
        ("Origin", "https://evil.example"),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization"),
    ]
    for target in ("/graphs", f"{GRAPH}/query", f"{GRAPH}/snapshot", "/healthz"):
        assert ask(method, target, headers=asking).status == 405
        assert ask(method, target, headers=asking, actor=None).status == (405 if target == "/healthz" else 401)


@pytest.mark.parametrize("method", ["get", "GEt", "EVIL", "x" * 10_000, ""])
def test_what_is_no_method_is_not_http(ask: RawClient, method: str) -> None:
    assert [answer.outcome for answer in ask.exchanged(ask.head(method, "/graphs"))] == [(400, "bad_request")]


@pytest.mark.parametrize(
    "headers",
    [
        [("Host", "evil.example")],
        [("X-Forwarded-Host", "evil.example"), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Prefix", "/x")],
        [("Origin", "null"), ("Referer", "https://evil.example")],
        [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Key", "x")],
        [("Connection", "Upgrade, HTTP2-Settings"), ("Upgrade", "h2c"), ("HTTP2-Settings", "AAMAAABk")],
        [("Range", "bytes=0-1"), ("If-None-Match", "*")],
        [("Accept", "text/html"), ("Accept-Encoding", "br, zstd;q=0.5, *;q=0")],
    ],
)
def test_other_headers_change_nothing(ask: RawClient, headers: list[tuple[str, str]]) -> None:
    [answer] = ask.exchanged(ask.head("GET", "/graphs", headers=[*headers, *CLOSE]))
    assert (answer.status, answer.document) == (200, {"graphs": [{"id": "people"}, {"id": "vault"}]})


def test_the_address_in_a_request_is_not_followed(ask: RawClient) -> None:
    assert ask("GET", "http://evil.example/graphs").document == {"graphs": [{"id": "people"}, {"id": "vault"}]}
    for target in ("http://evil.example", "*", "evil.example:80", "graphs", "?x", b"/graphs/\xff\xfe", "/a b"):
        [answer] = ask.exchanged(ask.head("GET", target, headers=CLOSE))
        assert answer.status in (400, 404)


SMUGGLED = f"DELETE {GRAPH}/branches/review HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ANN}\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 0\r\nContent-Length: 90",
        "Content-Length: +5",
        "Content-Length: -1",
        "Content-Length: 5, 5",
        "Content-Length: 0x5",
        "Content-Length : 5",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding:\x0bchunked",
        " Transfer-Encoding: chunked",
        "Transfer-Encoding\t: chunked",
        "Content-Length: 1\r\n 0",
    ],
)
def test_a_request_whose_end_is_in_doubt_is_the_last_of_its_connection(ask: RawClient, framing: str) -> None:
    head = f"POST {GRAPH}/query HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKENS['bob']}\r\n{framing}\r\n\r\n"
    answers = ask.exchanged(f"{head}0\r\n\r\n{SMUGGLED}".encode())
    assert [answer.status for answer in answers] == [400]


@pytest.mark.parametrize("size", [b"FFFFFFFFFFFFFFFFF", b"-1", b"0x5", b"5 ", b"", b"z"])
def test_a_piece_whose_size_is_in_doubt_ends_its_connection(ask: RawClient, size: bytes) -> None:
    head = ask.head("POST", f"{GRAPH}/query", headers=[JSON, ("Transfer-Encoding", "chunked")])
    answers = ask.exchanged(head + size + b"\r\nhello\r\n0\r\n\r\n")
    assert answers[0].status == 400


def test_requests_in_a_row_are_answered_in_a_row_each_by_its_own_token(ask: RawClient) -> None:
    actors = ["ann", "eve", None]
    last = ask.head("GET", "/graphs", headers=CLOSE)
    answers = ask.exchanged(b"".join(ask.head("GET", "/graphs", actor=actor) for actor in actors) + last)
    assert [answer.status for answer in answers] == [200, 200, 401, 200]
    assert [len(answer.document.get("graphs", ())) for answer in answers] == [2, 1, 0, 2]


@pytest.mark.parametrize("kind", ["one", "many", "address", "trailer", "extension"])
def test_headers_without_an_end_are_not_kept(ask: RawClient, kind: str) -> None:
    in_chunks = ask.head("POST", f"{GRAPH}/query", headers=[JSON, ("Transfer-Encoding", "chunked")])
    begin, piece = {
        "one": (b"GET / HTTP/1.1\r\nX: ", b"x" * 65536),
        "many": (b"GET / HTTP/1.1\r\n", b"X: x\r\n" * 10_000),
        "address": (b"GET /", b"x" * 65536),
        "trailer": (in_chunks + b"2\r\n{}\r\n0\r\nX: ", b"x" * 65536),
        "extension": (in_chunks + b"2;", b"x" * 65536),
    }[kind]
    sent = 0
    with ask.connected() as sending, suppress(ConnectionError):
        sending.sendall(begin)
        while sent < 64 * MEBIBYTE:
            sending.sendall(piece)
            sent += len(piece)
    assert sent < 64 * MEBIBYTE


# --- resources ---


@contextmanager
def held(folder: Path, table: str) -> Iterator[None]:
    """Holds the lock of a table, as a writer that takes long."""
    with WriteFence(Location(str(folder / "people.omni")), "main", "hold") as fence:
        fence.take([table])
        yield


def test_writers_that_wait_do_not_keep_readers_waiting(ask: RawClient, folder: Path, writes: None) -> None:
    answers: list[Answer] = []

    def write(name: str) -> None:
        answers.append(ask("POST", f"{GRAPH}/mutate", document={"source": ADD, "params": {"name": name}}))

    writers = [threading.Thread(target=write, args=(f"waits-{number}",)) for number in range(6)]
    with held(folder, "node:Person"):
        for writer in writers:
            writer.start()
        awaited(lambda: in_flight(ask), lambda found: [path for _, path in found] == [f"{GRAPH}/mutate"] * 6)
        for _ in range(5):
            assert ask("POST", f"{GRAPH}/query", actor="eve", document=QUERY).status == 200
        assert answers == []
    for writer in writers:
        writer.join()
    assert {answer.status for answer in answers} <= {200, 409}


def test_readers_that_do_not_read_hold_no_threads(ask: RawClient, folder: Path, writes: None) -> None:
    graph = og.open(folder / "vault.omni", durability="fast", upkeep=False)
    graph.load({"Person": [{"name": f"large-{number}", "bio": "x" * MEBIBYTE} for number in range(6)]})
    lazy = []
    try:
        for _ in range(4):
            connection = socket.socket()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(ask.address)
            head = ask.head("POST", "/graphs/vault/export", headers=[JSON, ("Content-Length", "2")])
            connection.sendall(head + b"{}")
            assert connection.recv(16).startswith(b"HTTP/1.1 200")
            lazy.append(connection)
        for _ in range(5):
            assert ask("POST", f"{GRAPH}/query", document=QUERY).status == 200
    finally:
        for connection in lazy:
            connection.close()


def test_no_metric_has_a_name_that_a_client_chose(ask: RawClient) -> None:
    for number in range(20):
        ask("GET", f"/evil-{number}")
        ask("GET", f"/graphs/evil-{number}/snapshot", headers=[("X-Request-Id", f"evil-{number}")])
    metrics = ask("GET", "/metrics").body.decode()
    assert "evil" not in metrics
    assert "people" not in metrics


def test_a_log_has_one_line_for_each_request_whatever_is_in_it(ask: RawClient, server: RunningServer) -> None:
    ask("GET", "/evil%0a%7b%22level%22:%22info%22%7d%1b[31m%e2%80%a8")
    [line] = awaited(lambda: [each for each in server.log() if str(each.get("path", "")).startswith("/evil\n")])
    assert line["path"] == '/evil\n{"level":"info"}\x1b[31m\u2028'
    assert "\x1b" not in server.errors()


# --- types ---

HIDDEN = ("xyzzy", "plugh")


@pytest.fixture
def eve(ask: RawClient) -> RawClient:
    """Somebody who may do everything but read, take away and change secrets."""
    return RawClient(ask.address, {"ann": TOKENS["eve"]}, (*ask.secrets, *HIDDEN))


def test_the_words_that_are_hidden_are_there(ask: RawClient) -> None:
    told = ask("POST", f"{GRAPH}/export", document={}).body + ask("GET", f"{GRAPH}/diff?left=main&right=review").body
    assert all(word.encode() in told for word in HIDDEN)


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "match { $s: Secret } return { $s.text }",
        "match { $s: Secret } return { count($s) }",
        "match { $p: Person  $p keeps $s } return { $p.name }",
        "match { $p: Person  not { $p keeps $_ } } return { $p.name }",
        'match { $s: Secret  $s.text = "xyzzy" } return { 1 }',
    ],
)
def test_a_query_does_not_tell_of_a_type_that_may_not_be_read(eve: RawClient, text: str, explain: bool) -> None:
    body = {"source": f"query q {{ {text} }}", "explain": explain}
    places: list[dict[str, Any]] = [{}, {"branch": "review"}, {"snapshot": "v1"}, {"snapshot": 2}]
    for place in places[: 2 if explain else 4]:
        answer = eve("POST", f"{GRAPH}/query", document={**body, **place})
        assert (*answer.outcome, answer.document["types"]) == (403, "policy_denied", ["Secret"])


def test_no_route_tells_of_a_type_that_may_not_be_read(eve: RawClient) -> None:
    delete = 'query q { delete Secret where text = "xyzzy" }'
    update = 'query q { update Secret set { text: "x" } where name = "s1" }'
    stricter = SCHEMA.replace("text: String? @index", "text: String @unique")
    for method, target, document in (
        ("GET", "/entities/Secret/s1", None),
        ("GET", "/entities/Secret/s1?at=v1", None),
        ("GET", "/entities/Secret/not-there", None),
        ("POST", "/export", {}),
        ("POST", "/export", {"types": ["Secret"]}),
        ("POST", "/export", {"snapshot": "v1", "format": "csv"}),
        ("POST", "/export", {"explain": True}),
        ("GET", "/diff?left=main&right=review", None),
        ("GET", "/diff?left=1&right=main&type=Secret", None),
        ("GET", "/changes", None),
        ("GET", "/changes?branch=review&type=Secret", None),
        ("GET", "/commits/v1/changes", None),
        ("POST", "/analyze", {"algorithm": "degrees"}),
        ("POST", "/analyze", {"algorithm": "degrees", "nodes": ["Secret"], "edges": []}),
        ("POST", "/branches/merge", {"source": "review", "dry_run": True}),
        ("POST", "/branches/merge", {"source": "review"}),
        ("POST", "/schema/plan", {"schema": stricter}),
        ("POST", "/mutate", {"source": delete}),
        ("POST", "/mutate", {"source": update}),
        ("POST", "/mutate", {"source": 'query q { insert Secret { name: "s1" } }'}),
        ("POST", "/embed", {"type": "Secret"}),
    ):
        answer = eve(method, GRAPH + target, document=document)
        assert answer.outcome == (403, "policy_denied"), (target, document, answer)


def test_what_is_told_of_all_types_leaves_out_those_that_may_not_be_read(eve: RawClient, ask: RawClient) -> None:
    for target in ("/snapshot", "/status", "/indexes"):
        assert "Secret" in str(ask("GET", GRAPH + target).document)
        answer = eve("GET", GRAPH + target)
        assert answer.status == 200
        assert "Secret" not in str(answer.document), target


def test_a_load_of_what_may_not_be_changed_does_not_tell_what_is_there(eve: RawClient) -> None:
    for name in ("s1", "not-there"):
        lines = json.dumps({"type": "Secret", "data": {"name": name}}).encode()
        for mode in ("append", "merge", "overwrite"):
            assert eve("POST", f"{GRAPH}/load?mode={mode}", headers=[LINES], body=lines).outcome == (
                403,
                "policy_denied",
            )
        rows = form([("Secret", "rows.csv", b"name,text\n%s,x\n" % name.encode())])
        assert eve("POST", f"{GRAPH}/load", **rows).outcome == (403, "policy_denied")
