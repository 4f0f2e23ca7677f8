"""Parts of an export: how they are cut, and what the lines of a row look like."""

import base64
import json
import pickle
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.api.data import Format
from omnigraph.api.values import value_to_json
from omnigraph.catalog import EntityType, compile_schema, table_schema
from omnigraph.errors import StorageError
from omnigraph.exporting import export
from omnigraph.exporting.export import ExportPart, parts_of, write_piece
from omnigraph.exporting.lines import cell_header, cell_lines, record_lines, shape_of
from omnigraph.parts.streaming import Effort, stream_query, stream_sorted
from omnigraph.storage.commits import commit_created, commit_staged
from omnigraph.storage.location import Location
from omnigraph.storage.staging import stage_append, stage_create
from omnigraph.storage.tables import FragmentSize, Table, fragment_groups

CATALOG = compile_schema(
    """
    node Every {
        s: String?, e: enum(x, y)?, b: Bool?, i: I32?, l: I64?, u: U32?, w: U64?, f: F32?, d: F64?, day: Date?,
        at: DateTime?, raw: Blob?, v: Vector(2)?, ss: [String]?, ls: [I64]?, ds: [F64]?, days: [Date]?, ats: [DateTime]?
    }
    node Named { before: I32?, name: String @key, after: I32? }
    node Own { id: String @key, n: I32? }
    edge Ties: Every -> Named { n: I32? }
    """
)
EVERY = CATALOG.nodes["Every"]

moments = st.datetimes(timezones=st.just(UTC)).map(
    lambda each: each.replace(microsecond=each.microsecond // 1000 * 1000)
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(['"', "a,b", "\n", "é😀", "''"])
longs = st.integers(-(2**63), 2**63 - 1)
doubles = st.floats(allow_nan=False, allow_infinity=False)
singles = st.floats(allow_nan=False, allow_infinity=False, width=32)
values: dict[str, st.SearchStrategy[Any]] = {
    "s": texts,
    "e": st.sampled_from(["x", "y"]),
    "b": st.booleans(),
    "i": st.integers(-(2**31), 2**31 - 1),
    "l": longs,
    "u": st.integers(0, 2**32 - 1),
    "w": st.integers(0, 2**64 - 1),
    "f": singles,
    "d": doubles,
    "day": st.dates(),
    "at": moments,
    "raw": st.binary(max_size=4),
    "v": st.lists(singles, min_size=2, max_size=2),
    "ss": st.lists(texts, max_size=3),
    "ls": st.lists(longs, max_size=3),
    "ds": st.lists(doubles, max_size=3),
    "days": st.lists(st.dates(), max_size=2),
    "ats": st.lists(moments, max_size=2),
}
rows_of_every = st.lists(
    st.fixed_dictionaries({"id": texts, **{name: st.none() | each for name, each in values.items()}}), max_size=5
)


def text_of(entity: EntityType, line: str, rows: list[dict[str, Any]]) -> str:
    """The lines of rows as they would be written."""
    table = pa.Table.from_pylist(rows, table_schema(entity))
    found = stream_query(f"SELECT {line} FROM rows", table.to_batches(), table.schema, 100)
    return "".join(text for batch in found for text in batch.column(0).to_pylist())


def records(entity: EntityType, rows: list[dict[str, Any]]) -> list[Any]:
    text = text_of(entity, record_lines(shape_of(entity)), rows)
    return [json.loads(line) for line in text.split("\n")[:-1]]


def as_json(value: Any) -> Any:
    return value_to_json(tuple(value) if isinstance(value, list) else value)


@settings(max_examples=40)
@given(rows_of_every)
def test_a_line_says_of_a_row_what_json_says_of_its_values(rows: list[dict[str, Any]]) -> None:
    expected = [
        {"type": "Every", "data": {name: as_json(value) for name, value in row.items() if value is not None}}
        for row in rows
    ]
    assert records(EVERY, rows) == expected


@settings(max_examples=40)
@given(rows_of_every)
def test_a_csv_line_reads_back_as_the_same_cells(rows: list[dict[str, Any]]) -> None:
    text = cell_header(shape_of(EVERY)).decode() + text_of(EVERY, cell_lines(shape_of(EVERY)), rows)
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(table_schema(EVERY).names, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    parsing = pa.csv.ParseOptions(newlines_in_values=True)
    read = pa.csv.read_csv(pa.BufferReader(text.encode()), parse_options=parsing, convert_options=options).to_pylist()
    assert len(read) == len(rows)
    for cells, row in zip(read, rows, strict=True):
        for name, value in row.items():
            match value:
                case None:
                    assert cells[name] is None
                case str() | bytes() | date() | datetime():
                    assert cells[name] == as_json(value)
                case _:
                    assert json.loads(cells[name]) == as_json(value)


def test_the_key_of_a_node_says_its_id_and_a_comma_is_only_between() -> None:
    rows: list[dict[str, Any]] = [
        {"id": "a", "name": "a"},
        {"id": "b", "before": 1, "name": "b"},
        {"id": "c", "name": "c", "after": 2},
        {"id": "d", "before": 1, "name": "d", "after": 2},
    ]
    assert records(CATALOG.nodes["Named"], rows) == [
        {"type": "Named", "data": {name: value for name, value in row.items() if name != "id"}} for row in rows
    ]


def test_an_id_that_is_the_key_is_told() -> None:
    assert records(CATALOG.nodes["Own"], [{"id": "a"}]) == [{"type": "Own", "data": {"id": "a"}}]


def test_an_edge_says_its_ends() -> None:
    row = {"id": "e", "src": 'a"', "dst": "b", "n": 3}
    expected = {"edge": "Ties", "from": 'a"', "to": "b", "data": {"id": "e", "n": 3}}
    assert records(CATALOG.edges["Ties"], [row]) == [expected]


def test_a_sort_goes_by_the_code_points_of_the_ids() -> None:
    ids = ["b", "B", "é", "a", "😀", "", "ab", "￿"]
    table = pa.table({"id": ids})
    found = stream_sorted("SELECT c0 FROM rows ORDER BY c0", table.to_batches(), table.schema, 3, effort=Effort())
    assert [each for batch in found for each in batch.column(0).to_pylist()] == sorted(ids)


def test_an_error_of_the_rows_comes_out_as_it_is() -> None:
    def failing() -> Any:
        yield pa.record_batch({"id": ["a"]})
        raise StorageError("somewhere", "is gone")

    schema = pa.schema([("id", pa.string())])
    for stream in (
        stream_query("SELECT c0 FROM rows", failing(), schema, 10),
        stream_sorted("SELECT c0 FROM rows ORDER BY c0", failing(), schema, 10, effort=Effort(2, 1)),
    ):
        with pytest.raises(StorageError) as caught:
            list(stream)
        assert caught.value.problem == "is gone"


def test_fragments_are_grouped_until_they_are_many_rows_or_bytes() -> None:
    sizes = [(4, 1), (6, 1), (1, 1), (50, 1), (1, 60), (1, 60), (0, 0)]
    fragments = [FragmentSize(number, rows, bytes) for number, (rows, bytes) in enumerate(sizes)]
    assert fragment_groups(fragments, rows=10, size=100) == [(0, 1), (2,), (3,), (4,), (5, 6)]
    assert fragment_groups([], rows=10) == []


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of three fragments."""
    schema = table_schema(EVERY)

    def rows(*ids: str) -> pa.Table:
        return pa.Table.from_pylist([{"id": each, "raw": each.encode()} for each in ids], schema)

    created = commit_created(stage_create(Location(str(tmp_path / "table")), rows(), "first"))
    for operation, ids in (("second", ["d", "a"]), ("third", ["c"]), ("fourth", ["b", "e"])):
        created = commit_staged(created, stage_append(created, rows(*ids), operation))
    return created


def written(part: ExportPart) -> list[Any]:
    piece = write_piece(part)
    lines = [json.loads(line) for line in Path(piece.path).read_text("utf-8").splitlines()]
    assert piece.rows == len(lines)
    return lines


def test_parts_have_the_rows_of_their_fragments_and_travel(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "MOST_ROWS", 3)
    parts = parts_of(EVERY, table, folder=str(tmp_path))
    assert [part.fragments for part in parts] == [(0, 1), (2,)]
    sent = pickle.loads(pickle.dumps(parts))  # noqa: S301 - our own
    found = [[line["data"] for line in written(part)] for part in sent]
    ids = [[line["id"] for line in lines] for lines in found]
    assert ids == [["d", "a", "c"], ["b", "e"]]
    assert found[0][0]["raw"] == "base64:" + base64.b64encode(b"d").decode()


def test_an_ordered_table_is_one_part(table: Table, tmp_path: Path) -> None:
    (part,) = parts_of(EVERY, table, ordered=True, folder=str(tmp_path))
    assert [line["data"]["id"] for line in written(part)] == ["a", "b", "c", "d", "e"]


def test_a_part_is_written_under_a_new_name_each_time(table: Table, tmp_path: Path) -> None:
    (part,) = parts_of(EVERY, table, folder=str(tmp_path), format=Format.PARQUET)
    assert write_piece(part).path != write_piece(part).path


def test_a_folder_that_is_gone_is_a_storage_error(table: Table, tmp_path: Path) -> None:
    for format in Format:
        (part,) = parts_of(EVERY, table, folder=str(tmp_path / "gone"), format=format)
        with pytest.raises(StorageError, match="cannot be written"):
            write_piece(part)
