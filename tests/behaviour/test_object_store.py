"""A graph on an object store, behind a real S3-compatible server."""

import json
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage.location import location_of
from omnigraph.storage.objects import objects_at
from tests.conftest import SOCIAL_SCHEMA
from tests.stores import Options


def test_a_graph_lives_on_an_object_store(s3_store: Options, tmp_path: Path) -> None:
    uri = "s3://bucket/graph.omni"
    graph = og.init(uri, SOCIAL_SCHEMA, storage_options=s3_store)
    with pytest.raises(og.StorageError, match="already a graph"):
        og.init(uri, SOCIAL_SCHEMA, storage_options=s3_store)
    records = [{"type": "Person", "data": {"name": name, "bio": "", "photo": "base64:aGk="}} for name in ("Ada", "Bob")]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, records)))
    graph.load(tmp_path / "data.jsonl")
    graph.mutate('query q { insert Knows { from: "Ada", to: "Bob" } update Person set { age: 3 } where name = "Ada" }')
    other = og.open(uri, storage_options=s3_store)
    other.mutate('query q { delete Person where name = "Bob" }')
    ada = graph.entity("Person", "Ada")
    assert ada is not None
    assert (ada["age"], ada["photo"]) == (3, b"hi")
    assert graph.entity("Person", "Bob") is None
    assert [commit.message for commit in graph.commits.list()] == ["q", "q", "load data.jsonl", "init"]
    assert graph.entity("Person", "Bob", at=graph.commits.list()[1].graph_commit_id) is not None


def test_an_object_is_created_once(s3_store: Options) -> None:
    objects = objects_at(location_of("s3://bucket/objects", s3_store))
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
