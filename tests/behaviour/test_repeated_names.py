"""A name that stands twice where one value is meant is refused: otherwise one of the two values would be lost."""

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import omnigraph as og
from omnigraph.cli.main import app
from tests.behaviour.contents import lines_of
from tests.behaviour.http_graph import door

SCHEMA = """
node Person { name: String @key, age: I32?, face: Vector(2)? }
edge Knows: Person -> Person { since: I32? }
"""
GOOD = '{"type": "Person", "data": {"name": "good"}}\n'
TWICE = {
    '{"type": "Person", "data": {"name": "a", "age": 1, "age": 2}}': "age",
    '{"type": "Person", "data": {"name": "a", "age": null, "age": 2}}': "age",
    '{"type": "Person", "data": {"name": "a", "age": 2, "age": 2}}': "age",
    r'{"type": "Person", "data": {"name": "a", "age": 1, "\u0061ge": 2}}': "age",
    '{"type": "Person", "data": {"name": "a", "face": [1, 2], "face": [2, 3]}}': "face",
    '{"type": "Person", "data": {"name": "a"}, "data": {"name": "b"}}': "data",
    '{"type": "Person", "type": "Person", "data": {"name": "a"}}': "type",
    '{"data": {"name": "a", "name": "b"}, "type": "Person"}': "name",
    '{"type": "Person", "data": {"name": "a", "age": {"x": 1, "x": 2}}}': "x",
    '{"edge": "Knows", "from": "good", "to": "good", "from": "good"}': "from",
}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph.omni", SCHEMA)


@pytest.mark.parametrize(("line", "name"), TWICE.items())
def test_a_record_with_a_name_twice_is_refused_with_its_line(
    graph: og.Graph, tmp_path: Path, line: str, name: str
) -> None:
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress((GOOD + line + "\n").encode()))
    with pytest.raises(og.ValidationError) as caught:
        graph.load(path)
    (violation,) = caught.value.violations
    assert (violation.file, violation.line) == (str(path), 2)
    assert violation.problem == f'invalid JSON: an object has the name "{name}" twice'
    assert lines_of(graph) == []


def test_arrow_refuses_a_block_with_a_name_twice_so_that_its_lines_are_read_one_by_one() -> None:
    schema = pa.schema([("type", pa.string()), ("data", pa.struct([("age", pa.int32()), ("name", pa.string())]))])
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    for text in ('{"data": {"age": 1, "age": null}}', '{"type": "P", "type": "P"}', '{"data": {}, "data": null}'):
        with pytest.raises(pa.ArrowInvalid, match="specified twice"):
            pyarrow.json.read_json(pa.py_buffer(text.encode()), parse_options=options)


@pytest.mark.parametrize("header", ["name,age,age", "age,name,name", "name,age,type,type"])
def test_a_csv_header_with_a_name_twice_is_refused_in_its_line(graph: og.Graph, tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"{header}\n{','.join('1' for _ in header.split(','))}\n")
    with pytest.raises(og.ValidationError, match=r"rows\.csv:1: Person\.\w+: there are two columns of this name"):
        graph.load({"Person": path})


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_table_with_two_columns_of_one_name_is_refused(graph: og.Graph, tmp_path: Path, suffix: str) -> None:
    table = pa.table([["a"], [1], [2]], names=["name", "age", "age"])
    path = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    for rows, place in ((path, f"{path}:1"), (table, "Person:1")):
        with pytest.raises(og.ValidationError) as caught:
            graph.load({"Person": rows})
        assert f"{place}: Person.age: there are two columns of this name" in str(caught.value)


def test_the_ends_of_edges_are_one_column_each(graph: og.Graph) -> None:
    graph.load({"Person": [{"name": "a"}]})
    with pytest.raises(og.ValidationError, match=r"Knows:1: Knows\.from: there are two columns of this name"):
        graph.load({"Knows": pa.table([["a"], ["a"], ["a"]], names=["from", "to", "from"])})


def test_a_frame_with_two_columns_of_one_name_is_refused(graph: og.Graph) -> None:
    frame = pd.DataFrame([["a", 1, 2]], columns=["name", "age", "age"])
    with pytest.raises(og.ValidationError, match=r"Person\.age: there are two columns of this name"):
        graph.load({"Person": frame})


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame([["a", 1]], columns=["name", 0]),
        pd.DataFrame([["a", 1]], columns=["name", b"age"]),
        pd.DataFrame([["a", 1]], columns=["name", ("age", "years")]),
        pd.DataFrame([["a", 1]], columns=pd.MultiIndex.from_tuples([("name", "x"), ("age", "y")])),
        pd.DataFrame([["a", 1]], columns=["name", None]),
        [{"name": "a", 1: 1}],
        [{"name": "a", b"age": 1}],
        [{"name": "a", ("age",): 1}],
        [{"name": "a", None: 1}],
        [{"name": "a", "age\ud800": 1}],
        pa.table([pa.array(["a"]), pa.array([1])], schema=pa.schema([("name", pa.string()), (b"\xff", pa.int64())])),
    ],
    ids=lambda rows: rows.__class__.__name__,
)
def test_a_name_of_a_column_that_is_not_text_is_refused(graph: og.Graph, rows: Any) -> None:
    with pytest.raises(og.ValidationError, match="the name of a column must be text"):
        graph.load({"Person": rows})
    assert lines_of(graph) == []


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_file_whose_column_has_a_name_that_is_not_text_is_refused(
    graph: og.Graph, tmp_path: Path, suffix: str
) -> None:
    table = pa.table(
        [pa.array(["a"]), pa.array([1])], schema=pa.schema([("name", pa.string()), (b"a\xff", pa.int64())])
    )
    path = tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
    with pytest.raises((og.ValidationError, og.StorageError)):
        graph.load({"Person": path})


# --- other documents ---

QUERY = "query q($age: I32?) { match { $p: Person } return { $p.name } }"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--params", '{"age": 1, "age": 2}'],
        ["--params", '{"age": [{"x": 1, "x": 2}]}'],
        ["--param", "age=1", "--param", "age=2"],
        ["--params", '{"age": NaN}'],
        ["--params", "[" * 100_000],
        ["--param", "age=" + "[" * 100_000],
    ],
)
def test_a_command_refuses_a_parameter_given_twice(graph: og.Graph, arguments: list[str]) -> None:
    outcome = CliRunner().invoke(app, ["query", "-e", QUERY, *arguments, "--store", graph.uri])
    assert isinstance(outcome.exception, og.UsageError | og.ParameterError), outcome.output


@pytest.mark.parametrize("params", ['{"age": 1, "age": 2}', '{"age": 1}, "params": {"age": 2}'])
def test_a_body_with_a_name_twice_is_refused(tmp_path: Path, params: str) -> None:
    with door(tmp_path) as ask:
        body = f'{{"source": {json.dumps(QUERY)}, "params": {params}}}'
        answer = ask("POST", "/query", content=body.encode(), headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
        assert "twice" in answer.text
