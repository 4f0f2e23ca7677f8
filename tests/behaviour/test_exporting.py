"""Exports: every format, of any commit, whole or not at all, the same in the process and on Spark."""

import json
import struct
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import omnigraph as og
from omnigraph.api.data import Format
from omnigraph.api.progress import Choice, Progress
from omnigraph.exporting import export as bulk_export
from omnigraph.exporting import export as exporting
from omnigraph.exporting.export import ExportOptions, export_files, reasons_for_spark, target_of
from omnigraph.parts.choice import choose_engine
from omnigraph.parts.engine import InProcess
from tests import nursery
from tests.behaviour.test_cli import omnigraph_cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = """
node Every {
    key: String @key, e: enum(x, y)?, b: Bool?, i: I32?, l: I64?, u: U32?, w: U64?, f: F32?, d: F64?, day: Date?,
    at: DateTime?, raw: Blob?, v: Vector(2)?, ss: [String]?, ls: [I64]?, ds: [F64]?, days: [Date]?, ats: [DateTime]?
}
node Note { text: String? }
node Unused { name: String @key, size: I32? }
edge Knows: Every -> Every { since: Date?, text: String? }
"""
FULL: dict[str, Any] = {
    "key": 'Ada "A", of\nLondon é😀',
    "e": "x",
    "b": False,
    "i": -(2**31),
    "l": 2**63 - 1,
    "u": 2**32 - 1,
    "w": 2**64 - 1,
    "f": 0.1,
    "d": 5e-324,
    "day": "0001-01-01",
    "at": "9999-12-31T23:59:59.999Z",
    "raw": "base64:AP8=",
    "v": [0.1, -3e38],
    "ss": ["", 'a,"b', "é"],
    "ls": [-(2**63)],
    "ds": [1e22, -0.0],
    "days": ["2020-02-29"],
    "ats": ["1969-12-31T23:59:59Z", "2026-01-01T00:00:00.120Z"],
}
RECORDS: list[dict[str, Any]] = [
    {"type": "Every", "data": FULL},
    {"type": "Every", "data": {"key": "bob", "ss": [], "raw": "base64:"}},
    {"type": "Every", "data": {"key": "Cid"}},
    {"type": "Note", "data": {"id": "n2", "text": ""}},
    {"type": "Note", "data": {"id": "n1"}},
    {"edge": "Knows", "from": "bob", "to": FULL["key"], "data": {"id": "k2", "since": "2020-01-02", "text": "a\r\nb"}},
    {"edge": "Knows", "from": "Cid", "to": "bob", "data": {"id": "k1"}},
]


def graph_of(folder: Path, *loads: list[dict[str, Any]]) -> og.Graph:
    """A graph with these records, of one load after the other."""
    graph = og.init(folder / "graph.omni", SCHEMA)
    for records in loads:
        (folder / "load.jsonl").write_text("\n".join(map(json.dumps, records)), "utf-8")
        graph.load(folder / "load.jsonl")
    return graph


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """The records in several fragments of each table."""
    return graph_of(tmp_path, RECORDS[:2], RECORDS[2:4], RECORDS[4:6], RECORDS[6:])


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_export, "MOST_ROWS", 1)


def lines_of(graph: og.Graph, **options: Any) -> list[str]:
    lines = graph.export(**options)
    assert not isinstance(lines, int)
    return list(lines)


def in_some_order(records: list[Any]) -> list[Any]:
    return sorted(records, key=lambda record: json.dumps(record, sort_keys=True))


def as_f32(number: float) -> float:
    value: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return value


def files_in(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_what_is_exported_is_what_was_loaded_and_loads_again(graph: og.Graph, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert graph.export(out) == len(RECORDS)
    found = [json.loads(line) for line in out.read_text("utf-8").split("\n")[:-1]]
    expected = json.loads(json.dumps(RECORDS))
    expected[0]["data"] |= {"f": as_f32(FULL["f"]), "v": [as_f32(each) for each in FULL["v"]]}
    assert in_some_order(found) == in_some_order(expected)
    copy = og.init(tmp_path / "copy.omni", SCHEMA)
    copy.load(out)
    assert lines_of(copy, ordered=True) == lines_of(graph, ordered=True)


@pytest.mark.parametrize("format", list(Format))
def test_a_folder_of_any_format_loads_into_an_equal_graph(graph: og.Graph, tmp_path: Path, format: Format) -> None:
    graph.export(f"{tmp_path}/out/", format=format)
    copy = og.init(tmp_path / "copy.omni", SCHEMA)
    names = {"Every": "nodes/Every", "Note": "nodes/Note", "Knows": "edges/Knows"}
    folders = {type: tmp_path / "out" / name for type, name in names.items()}
    copy.load(list(folders.values()) if format is Format.JSONL else folders)
    assert lines_of(copy, ordered=True) == lines_of(graph, ordered=True)


def test_a_file_has_the_lines_that_come_without_a_path(graph: og.Graph, tmp_path: Path, small_parts: None) -> None:
    graph.export(tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text("utf-8").split("\n")[:-1] == lines_of(graph)
    assert [next(iter(json.loads(line))) for line in lines_of(graph)] == ["type"] * 5 + ["edge"] * 2


def test_equal_graphs_have_equal_ordered_exports(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = graph_of(tmp_path / "other", RECORDS[::-1])
    for each, name in ((graph, "one"), (other, "two")):
        each.export(tmp_path / f"{name}.jsonl", ordered=True)
        for format in Format:
            each.export(f"{tmp_path}/{name}-{format}/", format=format, ordered=True)
    assert (tmp_path / "one.jsonl").read_bytes() == (tmp_path / "two.jsonl").read_bytes()
    for format in Format:
        one, two = tmp_path / f"one-{format}", tmp_path / f"two-{format}"
        assert files_in(one) == files_in(two)
        assert [(one / name).read_bytes() for name in files_in(one)] == [
            (two / name).read_bytes() for name in files_in(two)
        ]
    ids = [
        json.loads(line)["data"].get("id") or json.loads(line)["data"]["key"] for line in lines_of(graph, ordered=True)
    ]
    assert ids == [FULL["key"], "Cid", "bob", "n1", "n2", "k1", "k2"]


def test_a_parquet_export_has_the_rows_with_their_types(graph: og.Graph, tmp_path: Path) -> None:
    assert graph.export(tmp_path / "out", format="parquet") == len(RECORDS)
    assert files_in(tmp_path / "out") == [
        "edges/Knows/part-00000.parquet",
        "nodes/Every/part-00000.parquet",
        "nodes/Note/part-00000.parquet",
        "nodes/Unused/part-00000.parquet",
    ]
    for name, kind in (("Every", "nodes"), ("Note", "nodes"), ("Knows", "edges"), ("Unused", "nodes")):
        read = pq.read_table(tmp_path / "out" / kind / name)
        stored = graph.snapshot().table(f"{kind[:-1]}:{name}").scan()
        assert read.to_pylist() == stored.to_pylist()
        assert read.schema.names == stored.schema.names
    assert str(pq.read_table(tmp_path / "out/nodes/Every").schema.field("at").type) == "timestamp[ms, tz=UTC]"


def test_a_csv_export_tells_an_empty_text_from_none(graph: og.Graph, tmp_path: Path) -> None:
    assert graph.export(tmp_path / "out", types=["Note", "Knows"], format="csv", ordered=True) == 4
    assert (tmp_path / "out/nodes/Note/part-00000.csv").read_text() == 'id,text\n"n1",\n"n2",""\n'
    knows = (tmp_path / "out/edges/Knows/part-00000.csv").read_bytes().decode()
    key = FULL["key"].replace('"', '""')
    assert knows == f'id,src,dst,since,text\n"k1","Cid","bob",,\n"k2","bob","{key}",2020-01-02,"a\r\nb"\n'


def test_a_csv_export_spells_values_as_a_load_reads_them(graph: og.Graph, tmp_path: Path) -> None:
    graph.export(tmp_path / "out", types=["Every"], format="csv", ordered=True)
    everything = csv.ConvertOptions(column_types=dict.fromkeys(["id", *FULL], "string"))
    parsing = csv.ParseOptions(newlines_in_values=True)
    (row, *_) = csv.read_csv(
        tmp_path / "out/nodes/Every/part-00000.csv", parse_options=parsing, convert_options=everything
    ).to_pylist()
    for name in ("key", "e", "day", "at", "raw"):
        assert row[name] == FULL[name]
    for name in ("b", "i", "l", "u", "w", "d", "ss", "ls", "ds", "days", "ats"):
        assert json.loads(row[name]) == FULL[name]


def test_a_type_of_many_rows_is_many_files(graph: og.Graph, tmp_path: Path, small_parts: None) -> None:
    for format in Format:
        graph.export(f"{tmp_path}/{format}/", types=["Every", "Knows"], format=format)
        assert files_in(tmp_path / format) == [
            f"edges/Knows/part-00000.{format}",
            f"edges/Knows/part-00001.{format}",
            f"nodes/Every/part-00000.{format}",
            f"nodes/Every/part-00001.{format}",
        ]
    parts = sorted((tmp_path / "jsonl/nodes/Every").iterdir())
    assert [len(part.read_text("utf-8").split("\n")) - 1 for part in parts] == [2, 1]
    assert pq.read_table(tmp_path / "parquet/nodes/Every").num_rows == 3


def test_an_export_is_of_a_branch_or_of_any_commit(graph: og.Graph, tmp_path: Path) -> None:
    before = graph.snapshot()
    graph.branches.create("b")
    graph.mutate('query q { insert Note { text: "new" } }', branch="b")
    graph.mutate('query q { delete Note where text = "" }')
    counts = {name: len(lines_of(graph, types="Note", branch=name)) for name in ("main", "b")}
    assert counts == {"main": 1, "b": 3}
    for at in (before, before.commit_id, before.commit.manifest_version, before.commit.created_at):
        assert graph.export(tmp_path / "old.jsonl", types=["Note"], snapshot=at) == 2
        assert len(lines_of(graph, types=["Note"], snapshot=at)) == 2


def test_a_folder_with_something_in_it_is_left_alone(graph: og.Graph, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    graph.export(full)
    assert len(files_in(full)) == 4
    (tmp_path / "file").write_text("mine")
    for path in (full, tmp_path / "file"):
        with pytest.raises(og.UsageError, match="already exists"):
            graph.export(path, format="csv")
    assert (tmp_path / "file").read_text() == "mine"
    assert all(name.endswith(".jsonl") for name in files_in(full))


def test_wrong_words_are_usage_errors(graph: og.Graph, tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [
        {"format": "csv"},
        {"path": tmp_path / "x", "format": "xml"},
        {"path": "s3://bucket/x", "format": "csv"},
        {"path": tmp_path / "x", "engine": "abacus"},
    ]
    for words in wrong:
        with pytest.raises(og.UsageError):
            graph.export(**words)
    with pytest.raises(og.NotFound):
        graph.export(tmp_path / "x", types=["Nope"])


def test_an_export_that_fails_leaves_what_was_there(graph: og.Graph, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "all.jsonl").write_text("older")
    lost = graph.snapshot().table("edge:Knows").location.path
    assert lost is not None
    for file in (lost / "data").iterdir():
        file.unlink()
    for target, format in ((out / "all.jsonl", "jsonl"), (out / "csv", "csv"), (out / "parquet", "parquet")):
        with pytest.raises(og.StorageError):
            graph.export(target, format=format)
    assert [path.name for path in out.iterdir()] == ["all.jsonl"]
    assert (out / "all.jsonl").read_text() == "older"


KILLED = """
import os, sys
import omnigraph as og

def die(progress):
    if progress.stage == sys.argv[3] and progress.done:
        os._exit(9)

og.open(sys.argv[1], mode="r").export(sys.argv[2], report=die)
"""


@pytest.mark.parametrize(("stage", "end"), [("joining", ""), ("exporting", "/")])
def test_an_export_that_is_killed_leaves_nothing_under_its_name(
    graph: og.Graph, tmp_path: Path, stage: str, end: str
) -> None:
    assert nursery.ended(KILLED, graph.uri, f"{tmp_path}/out{end}", stage)[0] == 9
    assert not (tmp_path / "out").exists()
    assert graph.export(f"{tmp_path}/out{end}") == len(RECORDS)


def test_progress_is_told_by_stage_and_rows(graph: og.Graph, tmp_path: Path) -> None:
    told: list[Progress] = []
    graph.export(tmp_path / "out.jsonl", report=told.append)
    assert told[0] == Progress("exporting", 0, 4, 0)
    assert Progress("exporting", 4, 4, len(RECORDS)) in told
    assert told[-1] == Progress("joining", 4, 4)


def test_a_large_export_runs_on_spark(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = partial(reasons_for_spark, graph.snapshot(), ExportOptions())
    assert choose_engine("auto", reasons).engine == "local"
    monkeypatch.setattr(exporting, "LARGE_EXPORT", len(RECORDS) - 1)
    assert choose_engine("auto", reasons) == Choice("spark", "there are 7 rows to write (threshold: 6)")


def test_spark_writes_the_same_files(spark: "SparkSession", graph: og.Graph, tmp_path: Path, small_parts: None) -> None:
    from omnigraph.spark import SparkEngine  # noqa: PLC0415 - heavy, and only needed here

    def written(name: str, format: Format, engine: Any) -> dict[str, bytes]:
        target = target_of(f"{tmp_path}/{name}", format)
        options = ExportOptions(types=["Every", "Knows"], format=format)
        assert export_files(graph.snapshot(), target, options, engine) == 5
        folder = tmp_path / name
        return {each: (folder / each).read_bytes() for each in files_in(folder)} or {"": folder.read_bytes()}

    for name, format in (("one", Format.JSONL), ("many", Format.PARQUET)):
        here = written(f"here-{name}", format, InProcess())
        assert here == written(f"there-{name}", format, SparkEngine(spark))
    assert not [path for path in tmp_path.iterdir() if ".draft-" in path.name]


def test_an_export_on_spark_that_fails_is_a_storage_error(
    spark: "SparkSession", graph: og.Graph, tmp_path: Path
) -> None:
    lost = graph.snapshot().table("node:Note").location.path
    assert lost is not None
    for file in (lost / "data").iterdir():
        file.unlink()
    with pytest.raises(og.StorageError, match="cannot be read"):
        graph.export(tmp_path / "out.jsonl", types=["Note"], engine="spark")
    assert not (tmp_path / "out.jsonl").exists()


def test_the_command_line_exports_in_every_format(graph: og.Graph, tmp_path: Path) -> None:
    for format in Format:
        words = ["export", graph.uri, "--out", f"{tmp_path}/{format}/", "--format", format, "--type", "Note", "--json"]
        ended = omnigraph_cli(*words)
        assert json.loads(ended.stdout) == {"out": f"{tmp_path}/{format}/", "records": 2}
        assert files_in(tmp_path / format) == [f"nodes/Note/part-00000.{format}"]
        refused = omnigraph_cli(*words)
        assert (refused.returncode, "already exists" in refused.stdout) == (2, True)


def test_the_command_line_exports_a_commit_in_order(graph: og.Graph) -> None:
    first = graph.commits.list()[-2].graph_commit_id
    assert omnigraph_cli("export", graph.uri, "--snapshot", first).stdout.count("\n") == 2
    assert omnigraph_cli("export", graph.uri, "--snapshot", "2").stdout.count("\n") == 2
    ordered = omnigraph_cli("export", graph.uri, "--ordered", "--engine", "local").stdout
    assert ordered.split("\n")[:-1] == lines_of(graph, ordered=True)
    for words in (["--snapshot", first, "--branch", "b"], ["--format", "csv"], ["--format", "xml", "--out", "x"]):
        assert omnigraph_cli("export", graph.uri, *words).returncode == 2


def test_dates_and_times_are_what_they_were(graph: og.Graph, tmp_path: Path) -> None:
    graph.export(tmp_path / "out", types=["Every"], format="parquet")
    (row,) = [row for row in pq.read_table(tmp_path / "out/nodes/Every").to_pylist() if row["e"]]
    assert row["at"] == datetime(9999, 12, 31, 23, 59, 59, 999_000, UTC)
    assert (row["day"], row["days"], row["raw"]) == (date(1, 1, 1), [date(2020, 2, 29)], b"\x00\xff")
