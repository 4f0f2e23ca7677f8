"""A connection that is refused, sent on, cut off or abused."""

import io
import socket
import tarfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import NotFound, ServerFailed, Unavailable, UsageError
from omnigraph.remote.calls import Endpoint, HttpCall
from omnigraph.remote.connection import Connection
from omnigraph.remote.graph import RemoteGraph

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrue"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CUT_OFF = CHUNKED + b"5\r\n{}\n{}\r\n"


@dataclass
class Answering:
    """A server that gives one answer for each connection, and keeps what it was asked."""

    url: str
    requests: list[bytes] = field(default_factory=list)


@contextmanager
def answering(*answers: bytes) -> Iterator[Answering]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)
        server = Answering(f"http://127.0.0.1:{listening.getsockname()[1]}")

        def answer() -> None:
            for each in answers:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(30)
                    server.requests.append(_request(connection))
                    connection.sendall(each)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            yield server
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def _request(connection: socket.socket) -> bytes:
    """One request with its body."""
    content = b""
    while b"\r\n\r\n" not in content:
        content += connection.recv(65_536)
    head, _, body = content.partition(b"\r\n\r\n")
    lengths = [line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    while len(body) < int(lengths[0]) if lengths else False:
        body += connection.recv(65_536)
    return head + b"\r\n\r\n" + body


@contextmanager
def connected(url: str) -> Iterator[RemoteGraph]:
    with og.connect(url, "people", "secret") as graph:
        yield graph


# --- where things are sent ---


def test_a_redirect_is_not_followed_and_no_other_server_gets_the_token() -> None:
    with answering(OK) as other:
        moved = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {other.url}/graphs\r\nContent-Length: 0\r\n\r\n"
        with answering(moved.encode()) as server, connected(server.url) as graph:
            with pytest.raises(Unavailable, match=f"redirects to {other.url}/graphs"):
                graph.snapshot()
            assert b"authorization: bearer secret" in server.requests[0].lower()
        assert other.requests == []


@pytest.mark.parametrize(
    "url",
    ["graph.omni", "ftp://host", "http://", "http://ann:pw@host", "http://host?x=1", "http://host:x", "http://[::1"],
)
def test_what_is_no_address_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        og.connect(url, "people")


def test_a_token_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(UsageError):
        og.connect("http://localhost", "people", "a\nb").snapshot()


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("{}", b"/graphs/people/branches"),
        ("{}/", b"/graphs/people/branches"),
        ("{}/graphs/people", b"/graphs/people/branches"),
        ("{}/behind/a/proxy/graphs/people/", b"/behind/a/proxy/graphs/people/branches"),
    ],
)
def test_a_graph_is_named_by_its_id_or_by_its_url(url: str, path: bytes) -> None:
    with answering(OK.replace(b"4", b"2").replace(b"true", b"[]")) as server:
        with og.connect(url.format(server.url), "people") as graph:
            assert graph.branches.list() == []
        assert server.requests[0].split(b" ")[1] == path


def test_the_only_graph_of_a_server_need_not_be_named() -> None:
    body = b'{"graphs": [{"id": "people"}]}'
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    with answering(answer) as server, og.connect(server.url) as graph:
        assert (graph.id, graph.uri) == ("people", f"{server.url}/graphs/people")


@pytest.mark.parametrize(
    ("ids", "error"), [("[]", NotFound), ('[{"id": "a"}, {"id": "b"}]', UsageError)], ids=["none", "several"]
)
def test_a_server_without_an_only_graph_needs_its_id(ids: str, error: type[Exception]) -> None:
    body = f'{{"graphs": {ids}}}'
    answer = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    with answering(answer.encode()) as server, pytest.raises(error):
        og.connect(server.url)


@pytest.mark.parametrize("name", ["a/b", "ü b", "a%2Fb", "x?y#z", "..x"])
def test_a_name_stays_one_part_of_the_path(name: str) -> None:
    with answering(OK) as server, connected(server.url) as graph:
        graph.branches.delete(name)
        path = server.requests[0].split(b" ")[1]
        assert path.startswith(b"/graphs/people/branches/")
        assert path.count(b"/") == 4


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with connected("http://127.0.0.1:1") as graph, pytest.raises(UsageError, match="cannot be part of an address"):
        graph.branches.delete(name)


def test_nobody_names_an_actor_to_a_server() -> None:
    with connected("http://127.0.0.1:1") as graph, pytest.raises(UsageError, match="identifies the actor by the token"):
        graph.mutate("query q { insert A {} }", actor="ada")


# --- connections that are lost ---


def test_a_server_that_is_not_there_is_told() -> None:
    with connected("http://127.0.0.1:1") as graph, pytest.raises(Unavailable, match="cannot be reached"):
        graph.mutate("query q { insert A {} }")


def test_a_write_whose_answer_was_lost_is_not_repeated_and_may_have_been_done() -> None:
    with answering(b"", OK) as server, connected(server.url) as graph:
        with pytest.raises(Unavailable, match=r"was lost.*may have been done; check the commits"):
            graph.mutate("query q { insert A {} }")
        assert len(server.requests) == 1


def test_a_read_whose_connection_was_closed_is_asked_again_once() -> None:
    with answering(b"", OK) as server:
        connection = Connection(server.url, None)
        assert connection.document(HttpCall(path="/x")) is True
        connection.close()
        assert len(server.requests) == 2
    with answering(b"", b"", OK) as server, connected(server.url) as graph:
        with pytest.raises(Unavailable, match="was lost") as caught:
            graph.branches.list()
        assert "may have been done" not in str(caught.value)
        assert len(server.requests) == 2


def test_a_part_is_never_taken_for_the_whole(tmp_path: Path) -> None:
    for read in (lambda graph: [*graph.export()], lambda graph: graph.export(tmp_path / "all.jsonl")):
        with answering(CUT_OFF) as server, connected(server.url) as graph, pytest.raises(Unavailable, match="was lost"):
            read(graph)
    assert [*tmp_path.iterdir()] == []


def test_another_server_than_one_of_graphs_is_told() -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>"
    with answering(page) as server, connected(server.url) as graph, pytest.raises(Unavailable, match="not JSON"):
        graph.branches.list()
    gone = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>"
    with answering(gone) as server, connected(server.url) as graph, pytest.raises(Unavailable, match="502 Bad Gateway"):
        graph.branches.list()


def test_a_server_that_failed_says_which_request_to_look_for() -> None:
    failed = b"HTTP/1.1 500 Oops\r\nX-Request-Id: r7\r\nContent-Length: 0\r\n\r\n"
    with answering(failed) as server, connected(server.url) as graph, pytest.raises(ServerFailed) as caught:
        graph.branches.list()
    assert caught.value.request_id == "r7"


# --- files that come ---


def tar_of(members: Sequence[tarfile.TarInfo]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    body = content.getvalue()
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    found = tarfile.TarInfo(name)
    found.type, found.linkname, found.size = kind, target, 3 if kind == tarfile.REGTYPE else 0
    return found


@pytest.mark.parametrize(
    "evil",
    [
        member("people/../../../evil.csv"),
        member("/people/../evil.csv"),
        member("people"),
        member("people/nodes/x.csv", tarfile.SYMTYPE, "/etc/passwd"),
        member("people/nodes", tarfile.DIRTYPE),
        member("people/nodes/..\\evil.csv"),
    ],
    ids=lambda each: each.name,
)
def test_a_file_that_no_export_has_is_refused_and_nothing_is_written(tmp_path: Path, evil: tarfile.TarInfo) -> None:
    target = tmp_path / "deep" / "down"
    target.mkdir(parents=True)
    answer = tar_of([member("people/nodes/Person/part-00000.csv"), evil])
    expected = pytest.raises(Unavailable, match="an invalid file name")
    with answering(answer) as server, connected(server.url) as graph, expected:
        graph.export(target / "out", format="csv")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert [*target.iterdir()] == []


def test_what_is_no_tar_is_refused(tmp_path: Path) -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n" + b"<html>" * 100
    with answering(page) as server, connected(server.url) as graph, pytest.raises(Unavailable, match="cannot be read"):
        graph.export(tmp_path / "out", format="parquet")
    assert [*tmp_path.iterdir()] == []


def test_lines_come_whole_however_they_are_cut() -> None:
    pieces = (b"a", b"b\nc", b"\n", b"\nd\ne", b"f\xc3", b"\xa9")
    body = b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in pieces) + b"0\r\n\r\n"
    with answering(CHUNKED + body) as server:
        assert [*Connection(server.url, None).lines(HttpCall(path="/"))] == ["ab", "c", "", "d", "efé"]


def test_lines_of_csv_are_counted_with_those_in_quotes(tmp_path: Path) -> None:
    text = b'name,note\n"a ""b""\n","x"\n' + b'c,"\n\n"\n' * 200_000
    found = tarfile.TarInfo("people/nodes/Person/part-00000.csv")
    found.size = len(text)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        tar.addfile(found, io.BytesIO(text))
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(content.getvalue())}\r\n\r\n".encode()
    with answering(head + content.getvalue()) as server, connected(server.url) as graph:
        assert graph.export(tmp_path / "out", format="csv") == 200_001
    assert (tmp_path / "out" / "nodes" / "Person" / "part-00000.csv").read_bytes() == text


def test_a_graph_that_is_closed_is_told(tmp_path: Path) -> None:
    graph = RemoteGraph(Endpoint(Connection("http://127.0.0.1:1", None), "people"))
    graph.close()
    graph.close()
    with pytest.raises(UsageError, match="closed"):
        graph.snapshot()
