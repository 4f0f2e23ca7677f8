"""A graph on an object store, behind a real S3-compatible server."""

import gzip
import json
import uuid
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.storage.location import location_of
from omnigraph.storage.objects import objects_at
from tests.conftest import SOCIAL_SCHEMA
from tests.stores import Options

PERSON = "node Person { name: String @key, bio: String? }"
NAMES = "query names { match { $p: Person } return { $p.name } order { $p.name } }"


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


def test_a_load_reads_a_file_a_folder_and_a_pattern_of_an_object_store(s3_store: Options, s3_uri: str) -> None:
    objects = objects_at(location_of(s3_uri, s3_store))
    for name in ("Ada", "Bob", "Cyd"):
        objects.create(f"in/{name}.jsonl", json.dumps({"type": "Person", "data": {"name": name}}).encode())
    objects.create("in/_left.jsonl", b"no JSON")
    large = [{"type": "Person", "data": {"name": f"p{number}", "bio": "x" * 1_000}} for number in range(10_000)]
    objects.create("large.jsonl.gz", gzip.compress("\n".join(map(json.dumps, large)).encode()))

    def loaded(source: str) -> list[str]:
        graph = og.init(f"{s3_uri}/{uuid.uuid4().hex}.omni", PERSON, storage_options=s3_store)
        graph.load(f"{s3_uri}/{source}", engine="local", storage_options=s3_store)
        return [row["p.name"] for row in graph.query(NAMES).rows()]

    assert loaded("in/Ada.jsonl") == ["Ada"]
    assert loaded("in") == loaded("in/") == ["Ada", "Bob", "Cyd"]
    assert loaded("in/[AB]*.jsonl") == ["Ada", "Bob"]
    assert len(loaded("large.jsonl.gz")) == len(large)
    with pytest.raises(og.NotFound, match="nothing"):
        loaded("nothing.jsonl")
    with pytest.raises(og.StorageError, match=r"nowhere.*cannot be listed") as refused:
        og.init(f"{s3_uri}/other.omni", PERSON, storage_options=s3_store).load(
            "s3://nowhere/a.jsonl", storage_options=s3_store
        )
    assert "\n" not in str(refused.value)
