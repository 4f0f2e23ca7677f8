"""How many parts of a load are read and written at once, as the environment says."""

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.loading import tasks as loading
from omnigraph.loading.sources import LineRange, Numbered, parts_of_file
from omnigraph.storage.inputs import input_files
from tests.behaviour.contents import lines_of

SCHEMA = "node Person { name: String @key, age: I32? }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph.omni", SCHEMA)


def at_once(graph: og.Graph, monkeypatch: pytest.MonkeyPatch, mode: str) -> int:
    """The most parts of a load of several that are read at the same time."""
    lock, running, most = threading.Lock(), 0, 0
    together = threading.Event()
    read = loading.load_part

    def counted(job: loading.LoadJob, part: Numbered) -> loading.LoadOutcome:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running > 1:
                together.set()
        together.wait(1)
        try:
            return read(job, part)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr("omnigraph.loading.load.load_part", counted)
    tables = [{"Person": pa.table({"name": [str(number)]})} for number in range(3)]
    graph.load(tables, mode=mode)
    return most


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_load_writes_one_part_at_a_time_if_it_shall(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("OMNIGRAPH_LOAD_CONCURRENCY", "1")
    assert at_once(graph, monkeypatch, mode) == 1


def test_a_load_writes_several_parts_at_a_time_if_it_may(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIGRAPH_LOAD_CONCURRENCY", "3")
    assert at_once(graph, monkeypatch, "append") > 1


@pytest.mark.parametrize("value", ["", "0", "-1", "1.5", "many", "٣", "9" * 5_000])
def test_what_is_not_a_number_above_zero_is_refused_before_anything_is_read(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("OMNIGRAPH_LOAD_CONCURRENCY", value)
    with pytest.raises(og.UsageError, match=r"invalid OMNIGRAPH_LOAD_CONCURRENCY '.*': expected a number above zero"):
        graph.load({"Person": [{"name": "a"}]})
    assert lines_of(graph) == []


def test_the_largest_part_is_read_first_and_rows_keep_the_order_of_the_input(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OMNIGRAPH_LOAD_CONCURRENCY", "1")
    sizes = {"a": 3, "b": 100, "c": 20}
    for name, size in sizes.items():
        lines = (json.dumps({"type": "Person", "data": {"name": f"{name}{number}"}}) for number in range(size))
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines))
    read: list[int] = []
    read_part = loading.load_part

    def noted(job: loading.LoadJob, part: Numbered) -> loading.LoadOutcome:
        read.append(part.number)
        return read_part(job, part)

    monkeypatch.setattr("omnigraph.loading.load.load_part", noted)
    graph.load([tmp_path / f"{name}.jsonl" for name in sizes])
    assert read == [1, 2, 0]
    stored = graph.snapshot().table("node:Person").scan(["name"])["name"].to_pylist()
    assert [*dict.fromkeys(name[0] for name in stored)] == ["a", "b", "c"]


def test_a_file_is_cut_into_parts_of_one_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnigraph.loading.sources.PART_BYTES", 64)
    (tmp_path / "a.jsonl").write_bytes(b"x" * 130)
    (file,) = input_files(tmp_path / "a.jsonl")
    parts = [part for part in parts_of_file(file, None) if isinstance(part, LineRange)]
    assert [(part.start, part.end) for part in parts] == [(0, 44), (44, 88), (88, 130)]
