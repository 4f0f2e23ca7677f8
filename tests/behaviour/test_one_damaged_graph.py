"""Damage of one graph is an error of the requests that meet it; the server and its other graphs go on."""

from pathlib import Path

import pytest

import omnigraph as og
from tests.manifest_files import manifest_file, manifest_versions
from tests.servers import running_server

SCHEMA = "node Person { name: String @key }"


@pytest.fixture
def graphs(tmp_path: Path) -> list[Path]:
    """Two graphs, of which the first has a history that is read in several steps."""
    paths = [tmp_path / "damaged.omni", tmp_path / "whole.omni"]
    for path, count in zip(paths, (40, 1), strict=True):
        graph = og.init(path, SCHEMA, durability="fast", upkeep=False)
        for number in range(count):
            graph.mutate(f'query add {{ insert Person {{ name: "{number}" }} }}')
    return paths


@pytest.mark.parametrize(("place", "value"), [(-13, b"\xff"), (-45, b"\0" * 32), (0, b"\0" * 4000)])
def test_a_damaged_history_ends_the_request_and_not_the_server(graphs: list[Path], place: int, value: bytes) -> None:
    newest = og.open(graphs[0], mode="r").snapshot().manifest.version
    versions = manifest_versions(str(graphs[0]))
    assert versions == [*range(1, newest + 1)]
    for file in (manifest_file(str(graphs[0]), version) for version in versions[:-1]):
        content = bytearray(file.read_bytes())
        start = place % len(content)
        content[start : start + len(value)] = value[: len(content) - start]
        file.write_bytes(bytes(content))
    with running_server(graphs) as server, server.client() as client:
        answer = client.get("/graphs/damaged/commits", params={"limit": 40})
        assert answer.status_code == 500
        assert answer.json()["code"] in ("damaged", "storage_error")
        assert client.get("/graphs/whole/commits").status_code == 200
        assert server.process.poll() is None
