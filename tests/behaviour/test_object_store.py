"""A graph on an object store, behind a real S3-compatible server."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage import location_of, objects_at
from tests.conftest import SOCIAL_SCHEMA


@pytest.fixture(scope="module")
def store() -> Iterator[dict[str, str]]:
    """The options that reach a server with one empty bucket."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _create_bucket(f"{endpoint}/bucket")
            yield {
                "aws_endpoint": endpoint,
                "allow_http": "true",
                "aws_region": "us-east-1",
                "aws_access_key_id": "test",
                "aws_secret_access_key": "test",
            }
        finally:
            server.terminate()


def _create_bucket(url: str) -> None:
    """Waits for the server, too."""
    for _ in range(300):
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="PUT")):  # noqa: S310 - our own server
                return
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("the server did not start")


def test_a_graph_lives_on_an_object_store(store: dict[str, str], tmp_path: Path) -> None:
    uri = "s3://bucket/graph.omni"
    graph = og.init(uri, SOCIAL_SCHEMA, storage_options=store)
    with pytest.raises(og.StorageError, match="already a graph"):
        og.init(uri, SOCIAL_SCHEMA, storage_options=store)
    records = [{"type": "Person", "data": {"name": name, "bio": "", "photo": "base64:aGk="}} for name in ("Ada", "Bob")]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, records)))
    graph.load(tmp_path / "data.jsonl")
    graph.mutate('query q { insert Knows { from: "Ada", to: "Bob" } update Person set { age: 3 } where name = "Ada" }')
    other = og.open(uri, storage_options=store)
    other.mutate('query q { delete Person where name = "Bob" }')
    ada = graph.entity("Person", "Ada")
    assert ada is not None
    assert (ada["age"], ada["photo"]) == (3, b"hi")
    assert graph.entity("Person", "Bob") is None
    assert [commit.message for commit in graph.commits.list()] == ["q", "q", "load data.jsonl", "init"]
    assert graph.entity("Person", "Bob", at=graph.commits.list()[1].graph_commit_id) is not None


def test_an_object_is_created_once(store: dict[str, str]) -> None:
    objects = objects_at(location_of("s3://bucket/objects", store))
    assert objects.read("folder/one.json") is None
    assert objects.create("folder/one.json", b"1")
    assert not objects.create("folder/one.json", b"2")
    objects.replace("folder/two.json", b"2")
    assert objects.read("folder/one.json") == b"1"
    assert objects.names("folder") == ["one.json", "two.json"]
    objects.delete("folder/one.json")
    objects.delete("folder/one.json")
    assert objects.names("folder") == ["two.json"]
    assert objects.names("nowhere") == []
