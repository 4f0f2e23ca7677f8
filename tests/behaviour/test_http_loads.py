"""What comes in and goes out in bulk over HTTP: loads that wait on disk, and exports that are streams."""

import gzip
import io
import json
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from omnigraph.api.data import MOST_DETAILS
from omnigraph.graph.graph import Graph
from omnigraph.loading import sources
from omnigraph.parts.duck import connection
from omnigraph.server import context
from omnigraph.server.responses import ROWS_IN_A_PIECE
from omnigraph.server.scratch import Scratch
from omnigraph.server.uploads import file_name
from tests.behaviour.http_graph import LINES, RECORDS, Door, door


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """A graph that tests read, or write to without minding each other."""
    with door(tmp_path_factory.mktemp("served")) as opened:
        opened.ok("POST", "/load", content=RECORDS, headers=LINES)
        yield opened


# --- loads ---


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the server keeps what comes in."""
    with connection():  # it chooses its own place for files when it is first used
        pass
    folder = tmp_path / "spool"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def person(name: str, **data: Any) -> bytes:
    return json.dumps({"type": "Person", "data": {"name": name, **data}}).encode() + b"\n"


def parquet(**columns: Any) -> bytes:
    content = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), content)
    return content.getvalue()


def test_records_that_were_loaded_are_counted_once(tmp_path: Path) -> None:
    with door(tmp_path) as opened:
        for _ in range(2):
            opened.ok("POST", "/load?application=nightly&batch=1", content=person("Ada"), headers=LINES)
        opened.ok("POST", "/load", content=b"", headers=LINES)
        assert b"omnigraph_loaded_records_total 1.0" in opened.app.state.server.metrics.text()


def test_the_body_of_a_load_is_whole_however_long_the_policy_takes(
    served: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever watches for a client to leave takes what comes from it, which must not be its records."""
    check = Graph.check_load

    def check_slowly(graph: Graph, branch: str, begins_at: str | None) -> None:
        time.sleep(0.2)
        check(graph, branch, begins_at)

    monkeypatch.setattr(Graph, "check_load", check_slowly)
    monkeypatch.setattr(context, "_WATCHED_AFTER", 0.0)
    served.ok("POST", "/load", content=person("Patient"), headers=LINES)
    found = served.ok(
        "POST", "/query", json={"source": 'query q { match { $p: Person { name: "Patient" } } return { $p.name } }'}
    )
    assert len(found["rows"]) == 1


def test_a_form_loads_files_of_all_kinds_as_one_commit(served: Door, spool: Path) -> None:
    files = [
        ("data", ("one.jsonl", person("Form-1"))),
        ("data", ("two.jsonl.gz", gzip.compress(person("Form-2")))),
        ("Person", ("people.csv", b"name,age\nForm-3,3\n")),
        ("Person", ("more.parquet", parquet(name=["Form-4", "Form-5"]))),
        ("Knows", ("edges.csv", b"from,to\nForm-1,Form-2\n")),
    ]
    before = served.graph.snapshot().commit
    answer = served.ok("POST", "/load?mode=merge", files=files)
    assert (answer["nodes"], answer["edges"]) == ({"Person": 5}, {"Knows": 1})
    assert answer["commit"]["parent_commit_id"] == before.graph_commit_id
    assert answer["commit"]["message"] == "load one.jsonl, two.jsonl.gz, people.csv, …"
    assert [*spool.iterdir()] == []


def test_details_that_are_too_long_for_an_address_are_a_part_of_the_form(served: Door, spool: Path) -> None:
    def load(batch: int, *details: str, query: str = "") -> Any:
        files = [("data", ("one.jsonl", person(f"Detailed-{batch}"))), *(("details", (None, each)) for each in details)]
        return served("POST", f"/load?application=forms&batch={batch}{query}", files=files)

    longest = '"' * MOST_DETAILS
    assert load(1, longest).json()["commit"]["details"] == longest
    commit = served.graph.snapshot().commit
    assert commit.details == longest
    refused = [load(2, longest + "x"), load(2, "one", "two"), load(2, "one", query="&details=two")]
    assert [answer.status_code for answer in refused] == [400] * 3
    assert served.graph.snapshot().commit == commit
    assert [*spool.iterdir()] == []


def test_a_body_may_be_compressed_and_have_a_name(served: Door, spool: Path) -> None:
    headers = {**LINES, "content-encoding": "gzip"}
    path = "/load?mode=merge&file=/home/ann/packed.jsonl"
    answer = served.ok("POST", path, content=gzip.compress(person("Packed")), headers=headers)
    assert (answer["total"], answer["commit"]["message"]) == (1, "load packed.jsonl")
    assert [*spool.iterdir()] == []


def test_a_load_begins_a_branch(served: Door) -> None:
    answer = served.ok("POST", "/load?branch=begun/1&from=main", content=person("Branched"), headers=LINES)
    assert answer["commit"]["branch"] == "begun/1"


BROKEN = [
    ("bad.jsonl", "data", person("Good") + b"{\n", "bad.jsonl:2: record"),
    ("C:\\tmp\\wrong.jsonl", "data", person("Good", age="old"), "wrong.jsonl:1: Person.age"),
    ("/etc/wrong.csv", "Person", b"name,age\nGood,1\nBad,old\n", "wrong.csv:3: Person.age"),
    ("no.parquet", "Person", b"PAR1 is how it begins", "no.parquet: file: cannot be read"),
    ("no.arrow", "Person", b"ARROW1", "no.arrow: file: cannot be read"),
    ("no.jsonl.gz", "data", b"\x1f\x8b but no more", "no.jsonl.gz: file: cannot be read"),
    ("deep.jsonl", "data", b"[" * 100_000, "deep.jsonl:1: record"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=[each[0] for each in BROKEN])
def test_what_is_wrong_with_a_file_is_told_with_the_name_that_its_sender_gave_it(
    served: Door, spool: Path, broken: tuple[str, str, bytes, str]
) -> None:
    name, part, content, told = broken
    before = served.graph.snapshot().commit_id
    answer = served("POST", "/load", files=[(part, (name, content))])
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_error")
    assert told in answer.json()["error"]
    assert str(spool) not in answer.text
    assert Scratch.PREFIX not in answer.text
    assert [*spool.iterdir()] == []
    assert served.graph.snapshot().commit_id == before


def form(*parts: bytes, end: bytes = b"--edge--\r\n") -> dict[str, Any]:
    content = b"".join(b"--edge\r\n" + part + b"\r\n" for part in parts) + end
    return {"content": content, "headers": {"content-type": "multipart/form-data; boundary=edge"}}


NO_FORMS = [
    form(b"Content-Disposition: form-data; name=data; filename=a.jsonl\r\n\r\n{}", end=b""),
    form(b"Content-Disposition: form-data; filename=a.jsonl\r\n\r\n{}"),
    form(b'Content-Disposition: form-data; name="data"; filename=".."\r\n\r\n{}'),
    form(b'Content-Disposition: form-data; name="data"; filename="a\xff"\r\n\r\n{}'),
    form(b"Content-Disposition: form-data; name=Person\r\n\r\nname\n"),
    form(b"no header at all"),
    {"content": b"anything", "headers": {"content-type": "multipart/form-data"}},
    {"content": b"anything", "headers": {"content-type": "multipart/form-data; boundary=edge"}},
    {"content": b"", "headers": {"content-type": "multipart/form-data; boundary=edge"}},
]


@pytest.mark.parametrize("given", NO_FORMS, ids=range(len(NO_FORMS)))
def test_what_is_no_form_is_refused(served: Door, spool: Path, given: dict[str, Any]) -> None:
    answer = served("POST", "/load", **given)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    assert [*spool.iterdir()] == []


@pytest.mark.parametrize("name", ["../other.omni/x.jsonl", "s3://bucket/x.jsonl", "*.jsonl", "~/x.jsonl"])
def test_the_name_of_a_file_leads_nowhere(served: Door, spool: Path, name: str) -> None:
    (spool.parent / "secret.jsonl").write_bytes(person("Secret"))
    answer = served.ok("POST", "/load?mode=merge", files=[("data", (name, person("Named")))])
    assert answer["nodes"] == {"Person": 1}
    assert served.graph.entity("Person", "Named") is not None


def test_a_load_that_is_too_large_is_refused_and_leaves_nothing(tmp_path: Path, spool: Path) -> None:
    with door(tmp_path, max_load_bytes=5_000_000, max_body_bytes=1_000) as ask:
        lines = b"".join(person(f"P{number}") for number in range(100))
        assert len(lines) > 1_000
        assert ask.ok("POST", "/load", content=lines, headers=LINES)["total"] == 100
        packed = {"content": gzip.compress(b" " * 6_000_000), "headers": {**LINES, "content-encoding": "gzip"}}
        for given in (packed, {"content": b" " * 6_000_000, "headers": LINES}):
            answer = ask("POST", "/load", **given)
            assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert [*spool.iterdir()] == []


def test_a_line_that_would_not_fit_into_memory_is_refused(
    served: Door, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LONGEST_LINE", 1024)
    packed = gzip.compress(b'"' + b"x" * (sources.BLOCK_BYTES + 2048), 1)
    answer = served("POST", "/load", files=[("data", ("long.jsonl.gz", packed))])
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_error")
    assert "long.jsonl.gz: record: a line is longer than 1.0 KiB" in answer.json()["error"]


def test_a_client_that_leaves_in_the_middle_of_a_load_leaves_nothing(served: Door, spool: Path) -> None:
    before = served.graph.snapshot().commit_id
    messages: list[dict[str, Any]] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": person("Gone") * 100_000, "more_body": True},
    ]
    seen: list[list[Path]] = []

    async def receive() -> dict[str, Any]:
        seen.append([*spool.iterdir()])
        return messages.pop()

    async def send(_: Any) -> None:
        pass

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/graphs/people/load",
        "raw_path": b"/graphs/people/load",
        "query_string": b"",
        "headers": [(b"content-type", b"application/x-ndjson")],
        "client": ("127.0.0.1", 1),
    }
    served.run(served.app(scope, receive, send))
    assert len(seen[1]) == 1
    assert [*spool.iterdir()] == []
    assert served.graph.snapshot().commit_id == before


def test_a_file_has_the_last_part_of_its_name() -> None:
    assert file_name("a/b\\c.jsonl") == "c.jsonl"
    assert file_name("\x1b[31m\r\nx.csv") == "[31mx.csv"
    assert file_name("x" * 400 + ".parquet").endswith("x.parquet")


# --- exports ---


def test_an_export_loads_again(served: Door, tmp_path: Path) -> None:
    lines = served("POST", "/export", json={"ordered": True})
    assert lines.headers["content-type"] == "application/x-ndjson"
    with door(tmp_path) as other:
        other.ok("POST", "/load", content=lines.content, headers=LINES)
        again = other("POST", "/export", json={"ordered": True})
        assert again.text == lines.text


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_an_export_of_files_is_a_tar(served: Door, spool: Path, tmp_path: Path, format: str) -> None:
    answer = served("POST", "/export", json={"format": format, "snapshot": 2})
    assert answer.headers["content-type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as files:
        files.extractall(tmp_path / "out", filter="data")
    assert [*spool.iterdir()] == []
    expected = tmp_path / "expected"
    served.graph.export(expected, format=format, snapshot=2)
    names = sorted(each.relative_to(expected).as_posix() for each in expected.rglob("*") if each.is_file())
    for name in names:
        assert (tmp_path / "out" / "people" / name).read_bytes() == (expected / name).read_bytes()
    assert len(names) == 2


# --- long answers ---

EVERY_PAIR = {"source": "query q { match { $a: Person  $b: Person } return { $a.name, $b.age, $b } }"}


def test_a_long_answer_is_sent_in_pieces_and_is_the_same(tmp_path: Path) -> None:
    with door(tmp_path) as ask:
        people = b"".join(person(f"P{number}", age=number) for number in range(70))
        ask.ok("POST", "/load", content=people, headers=LINES)
        answer = ask("POST", "/query", json=EVERY_PAIR)
        result = ask.graph.query(EVERY_PAIR["source"])
        assert len(result) == 70 * 70 > ROWS_IN_A_PIECE
        assert "content-length" not in answer.headers
        assert answer.headers["content-type"] == "application/json"
        assert answer.json() == result.as_json()


@pytest.mark.parametrize("accepted", ["application/json", "application/vnd.apache.arrow.stream"])
def test_a_query_that_would_hold_too_much_is_refused(tmp_path: Path, accepted: str) -> None:
    with door(tmp_path, max_query_bytes=100_000) as ask:
        ask.ok("POST", "/load", content=b"".join(person(f"P{number}") for number in range(100)), headers=LINES)
        answer = ask("POST", "/query", json=EVERY_PAIR, headers={"accept": accepted})
        told = answer.json()
        assert (answer.status_code, told["code"], told["limit"]) == (413, "query_exceeds_memory", 100_000)
        assert ask.ok("POST", "/query", json={"source": EVERY_PAIR["source"].replace("$b }", "$b } limit 2")})


def test_what_queries_hold_is_of_the_budget_of_their_actor(tmp_path: Path) -> None:
    with door(tmp_path, actor_bytes=200_000) as ask:
        ask.ok("POST", "/load", content=b"".join(person(f"P{number}") for number in range(100)), headers=LINES)
        other = ask.app.state.server.admission.admit("at 127.0.0.1")
        other.take(10**9)
        assert ask.ok("POST", "/query", json=EVERY_PAIR)["rows"]
        other.hold(199_000)
        answer = ask("POST", "/query", json=EVERY_PAIR)
        assert (answer.status_code, answer.json()["code"]) == (429, "too_busy")
        assert answer.headers["retry-after"]
        other.release()
        assert len(ask.ok("POST", "/query", json=EVERY_PAIR)["rows"]) == 100 * 100
