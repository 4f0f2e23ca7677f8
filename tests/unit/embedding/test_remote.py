"""A model behind HTTP: asked in batches, again when it is busy, never for ever, and never with a word of the key."""

import json
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest

from omnigraph.embedding import EmbeddingFailed, EmbeddingSettings, remote
from omnigraph.embedding.models import Model
from omnigraph.embedding.remote import RemoteModel
from tests.unit.clock import Clock
from tests.unit.embedding.server import Answer, Server, failing, running_server, vector_of

KEY = "sk-very-secret"
NAME = "openai/some-model"


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as started:
        yield started


def model_at(url: str, **given: Any) -> RemoteModel:
    return RemoteModel(Model("openai", "some-model"), url, EmbeddingSettings(api_key=KEY, **given))


def test_a_request_names_the_model_the_texts_and_the_length_and_carries_the_key(server: Server) -> None:
    found = model_at(server.url).vectors(["one", "three"], 4)
    assert found.tolist() == [vector_of("one", 4), vector_of("three", 4)]
    expected = {"model": "some-model", "input": ["one", "three"], "encoding_format": "float", "dimensions": 4}
    assert (server.asked, server.keys, server.paths) == ([expected], [f"Bearer {KEY}"], ["/v1/embeddings"])


def test_the_length_is_left_out_for_servers_that_refuse_it(server: Server) -> None:
    model_at(f"{server.url}/", sends_dimensions=False).vectors(["one"], 4)
    assert "dimensions" not in server.asked[0]
    assert server.paths == ["/v1/embeddings"]


def test_many_texts_are_asked_for_in_batches_and_a_long_one_alone(server: Server) -> None:
    texts = ["a", "b", "c", "x" * 300_000, "d"]
    assert model_at(server.url, batch=2).vectors(texts, 3).tolist() == [vector_of(text, 3) for text in texts]
    assert [len(asked["input"]) for asked in server.asked] == [2, 1, 1, 1]
    assert model_at(server.url).vectors([], 3).shape == (0, 3)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(server: Server, status: int) -> None:
    server.planned += [failing(status), failing(status, headers={"Retry-After": "0"})]
    assert model_at(server.url).vectors(["one"], 4).tolist() == [vector_of("one", 4)]
    assert len(server.asked) == 3


@pytest.mark.parametrize("wait", [lambda: "1", lambda: formatdate(time.time() + 2, usegmt=True)])
def test_a_server_that_says_when_is_asked_then(server: Server, wait: Callable[[], str]) -> None:
    before = time.monotonic()
    server.planned.append(failing(429, headers={"Retry-After": wait()}))
    model_at(server.url).vectors(["one"], 4)
    assert time.monotonic() - before >= 0.9


def test_a_server_that_asks_for_more_time_than_there_is_is_given_up_at_once(server: Server) -> None:
    server.planned.append(failing(429, headers={"Retry-After": "3600"}))
    with pytest.raises(EmbeddingFailed, match="HTTP 429: busy; no answer within 60 seconds") as caught:
        model_at(server.url, deadline=60.0).vectors(["one"], 4)
    assert len(server.asked) == 1
    assert caught.value.details == {"model": NAME, "problem": caught.value.problem, "attempts": 1}
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


@pytest.fixture
def longest_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits does so as long as it may, which costs no time: each attempt has many seconds for its answer."""
    monkeypatch.setattr(remote, "time", Clock())
    monkeypatch.setattr(remote, "random", SimpleNamespace(uniform=lambda _, most: most))


@pytest.mark.usefixtures("longest_waits")
def test_a_server_that_stays_busy_is_given_up_at_the_deadline(server: Server) -> None:
    server.planned += [failing(500)] * 100
    with pytest.raises(EmbeddingFailed, match="HTTP 500") as caught:
        model_at(server.url, deadline=30.0).vectors(["one"], 4)
    # At 0, 0.25, 0.75, 1.75, 3.75, 7.75 and 15.75 seconds.
    assert caught.value.attempts == len(server.asked) == 7


def test_a_server_that_does_not_answer_is_given_up_at_the_deadline(server: Server) -> None:
    given_up = threading.Event()

    def late(_: dict[str, Any]) -> Answer:
        given_up.wait()
        return 200, {}, b"{}"

    server.planned.append(late)
    with pytest.raises(EmbeddingFailed, match=r"no answer within 0\.5 seconds"):
        model_at(server.url, deadline=0.5).vectors(["one"], 4)
    given_up.set()


@pytest.mark.usefixtures("longest_waits")
def test_a_server_that_is_not_there_is_tried_until_the_deadline() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        with pytest.raises(EmbeddingFailed, match="refused") as caught:
            model_at(f"http://127.0.0.1:{taken.getsockname()[1]}/v1", deadline=30.0).vectors(["one"], 4)
    assert caught.value.attempts == 7


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_request_that_is_refused_is_not_made_again_and_no_error_has_the_key(server: Server, status: int) -> None:
    server.planned.append(failing(status, f"Incorrect API key provided: {KEY}"))
    with pytest.raises(EmbeddingFailed, match=f"HTTP {status}: Incorrect API key provided: …") as caught:
        model_at(server.url).vectors(["one"], 4)
    assert len(server.asked) == 1
    assert KEY not in f"{caught.value!r} {caught.value} {caught.value.details} {model_at(server.url)!r}"


def test_a_redirect_is_not_followed(server: Server) -> None:
    with running_server() as elsewhere:
        server.planned.append(failing(307, "gone", {"Location": f"{elsewhere.url}/embeddings"}))
        server.planned.append(failing(302, "gone", {"Location": f"{elsewhere.url}/embeddings"}))
        for status in (307, 302):
            with pytest.raises(EmbeddingFailed, match=f"HTTP {status}"):
                model_at(server.url).vectors(["one"], 4)
        assert elsewhere.keys == []


def answered(content: Any) -> Callable[[Any], Answer]:
    return lambda _: (200, {}, json.dumps(content).encode())


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"data": [{"index": 0, "embedding": [1.0, 2.0]}]}, "expected vectors of 4 numbers, found 2"),
        ({"data": []}, "expected vectors for 1 texts, found 0"),
        ({"data": [{"index": 0, "embedding": [1.0, 2.0, 3.0, "x"]}]}, "not have the form of an embeddings API"),
        ({"data": [{"index": 0, "embedding": [1.0, 2.0, 3.0, 1e300]}]}, "not finite"),
        ({"result": 7}, "not have the form of an embeddings API"),
        ([], "not have the form of an embeddings API"),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_an_answer_that_makes_no_sense_is_an_error(server: Server, content: Any, problem: str) -> None:
    server.planned.append(answered(content))
    with pytest.raises(EmbeddingFailed, match=problem):
        model_at(server.url).vectors(["one"], 4)
    assert len(server.asked) == 1


def test_an_answer_that_is_no_json_is_an_error(server: Server) -> None:
    server.planned.append(lambda _: (200, {}, b"<html>"))
    with pytest.raises(EmbeddingFailed, match="not JSON"):
        model_at(server.url).vectors(["one"], 4)


def test_a_response_that_is_too_large_is_an_error(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_MAX_RESPONSE_BYTES", 1 << 20)
    server.planned.append(lambda _: (200, {}, b" " * (1 << 21)))
    with pytest.raises(EmbeddingFailed, match="larger than 1 MiB"):
        model_at(server.url).vectors(["one"], 4)
    assert len(server.asked) == 1


def test_a_response_that_comes_in_small_pieces_is_given_up_at_the_deadline(server: Server) -> None:
    given_up = threading.Event()

    def pieces() -> Iterator[bytes]:
        while not given_up.wait(0.05):
            yield b" "

    server.planned.append(lambda _: (200, {"Content-Length": "1000000"}, pieces()))
    with pytest.raises(EmbeddingFailed, match=r"took too long; no answer within 0\.5 seconds"):
        model_at(server.url, deadline=0.5).vectors(["one"], 4)
    given_up.set()


def test_no_log_has_the_key(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        server.planned.append(failing(503, f"no room for {KEY}", headers={"Retry-After": "0"}))
        model_at(server.url).vectors(["one"], 4)
    assert caplog.records
    assert KEY not in caplog.text


def test_batches_share_a_connection(server: Server) -> None:
    model_at(server.url, batch=1).vectors(["one", "two", "three"], 4)
    assert len(server.asked) == 3
    assert len(set(server.clients)) == 1
