"""Tables and small files."""

import os
import random
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.catalog import IndexIntent, IndexKind, Scalar
from omnigraph.errors import Damaged, HeadMoved, StorageError
from omnigraph.storage import tables
from omnigraph.storage.commits import commit_created, commit_staged
from omnigraph.storage.drift import operation_at
from omnigraph.storage.indexes import stage_indexes, write_index
from omnigraph.storage.location import location_of
from omnigraph.storage.objects import objects_at
from omnigraph.storage.predicates import ColumnPredicate, column_predicate, holds, lance_filter
from omnigraph.storage.staging import stage_append, stage_change, stage_create, stage_overwrite
from omnigraph.storage.tables import ROW_ADDRESS, Table, has_version, open_table
from omnigraph.syntax.query_ast import Operator
from tests.unit.storage.lines import stage_delete, stage_upsert

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64())])


def rows(**values: int) -> pa.Table:
    return pa.table({"id": list(values), "v": list(values.values())}, schema=SCHEMA)


def content(table: Table) -> dict[str, int]:
    return {row["id"]: row["v"] for row in table.scan().to_pylist()}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return commit_created(stage_create(location_of(tmp_path / "t"), rows(a=1, b=2, c=3), "create"))


def test_a_new_table_may_be_empty(tmp_path: Path) -> None:
    table = commit_created(stage_create(location_of(tmp_path / "t"), SCHEMA.empty_table(), "create"))
    assert (table.version, table.count()) == (1, 0)
    assert table.schema == SCHEMA


def test_a_table_is_created_once(table: Table) -> None:
    with pytest.raises(HeadMoved):
        commit_created(stage_create(table.location, rows(x=1), "again"))
    assert content(open_table(table.location)) == {"a": 1, "b": 2, "c": 3}


def test_a_commit_that_is_repeated_because_its_answer_was_lost_is_the_version_that_it_made(tmp_path: Path) -> None:
    created = stage_create(location_of(tmp_path / "t"), rows(a=1), "create")
    table = commit_created(created)
    assert commit_created(created).version == table.version
    appended = stage_append(table, rows(b=2), "append")
    with pytest.raises(HeadMoved):  # which is then found by its transaction
        commit_staged(commit_staged(table, appended), appended)


def test_append_adds_and_overwrite_replaces(table: Table) -> None:
    more = commit_staged(table, stage_append(table, rows(d=4), "append"))
    assert content(more) == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert content(commit_staged(more, stage_overwrite(more, rows(z=9), "overwrite"))) == {"z": 9}
    assert content(open_table(table.location, 1)) == {"a": 1, "b": 2, "c": 3}


def test_an_upsert_replaces_what_is_there_and_adds_what_is_not(table: Table) -> None:
    after = commit_staged(table, stage_upsert(table, rows(b=20, d=4), "upsert"))
    assert content(after) == {"a": 1, "b": 20, "c": 3, "d": 4}


def test_a_delete_takes_rows_away_and_passes_by_what_is_not_there(table: Table) -> None:
    assert content(commit_staged(table, stage_delete(table, pa.array(["a", "x"]), "delete"))) == {"b": 2, "c": 3}


def test_a_change_mixes_everything_in_one_version(table: Table) -> None:
    staged = stage_change(table, rows=rows(c=30, d=4), deleted=pa.array(["a"]), operation="mixed")
    assert content(open_table(table.location)) == {"a": 1, "b": 2, "c": 3}
    after = commit_staged(table, staged)
    assert after.version == table.version + 1
    assert content(after) == {"b": 2, "c": 30, "d": 4}
    assert operation_at(after.location, after.version) == "mixed"


def test_all_rows_can_go(table: Table) -> None:
    assert content(commit_staged(table, stage_delete(table, pa.array(["a", "b", "c"]), "delete"))) == {}


def test_a_commit_on_a_head_that_moved_is_told(table: Table) -> None:
    first, second = stage_append(table, rows(d=4), "first"), stage_append(table, rows(e=5), "second")
    commit_staged(table, first)
    with pytest.raises(HeadMoved) as caught:
        commit_staged(table, second)
    assert (caught.value.expected, caught.value.actual) == (2, 3)


def test_many_ids_are_found_like_few(tmp_path: Path) -> None:
    many = rows(**{f"r{number}": number for number in range(5_000)})
    table = commit_created(stage_create(location_of(tmp_path / "t"), many, "create"))
    wanted = pa.array([f"r{number}" for number in range(0, 6_000, 2)])
    assert table.rows_with_ids(wanted).num_rows == 2_500
    assert table.rows_with_ids(wanted.slice(0, 10), ("id", "v"))["v"].to_pylist() == list(range(0, 20, 2))
    assert table.rows_with_ids(pa.array([], pa.string()), ("id", "_rowid")).num_rows == 0


def test_rows_at_addresses_are_found_whether_they_are_many_or_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_FEW_IDS", 10)
    numbers = {f"r{number:03d}": number for number in range(100)}
    table = commit_created(stage_create(location_of(tmp_path / "t"), rows(**numbers), "create"))
    others = {f"s{number:03d}": number for number in range(100)}
    table = commit_staged(table, stage_append(table, rows(**others), "more"))
    table = commit_staged(table, stage_delete(table, pa.array(["r005", "s007"]), "less"))
    there = table.scan(["id", "v", ROW_ADDRESS])
    chance = random.Random(3)  # noqa: S311
    for count in (0, 1, 9, 11, 60, 198):
        chosen = there.take(pa.array(chance.sample(range(there.num_rows), count), pa.int64()))
        found = table.rows_at(chosen[ROW_ADDRESS].combine_chunks(), ["v", "id"])
        assert found.select(["id", "v"]).to_pylist() == chosen.select(["id", "v"]).to_pylist()
    mostly_first = there.slice(0, 99).append_column("n", pa.array(range(99)))
    few_of_second = pa.concat_tables([mostly_first.drop_columns(["n"]), there.slice(150, 1)])
    found = table.rows_at(few_of_second[ROW_ADDRESS].combine_chunks(), ["id"])
    assert found["id"].to_pylist() == few_of_second["id"].to_pylist()
    twice = pa.concat_arrays([there[ROW_ADDRESS].combine_chunks().slice(0, 30)] * 2)
    assert table.rows_at(twice, ["id"])["id"].to_pylist() == there["id"].to_pylist()[:30] * 2


def test_an_address_without_a_row_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_FEW_IDS", 10)
    numbers = {f"r{number:03d}": number for number in range(100)}
    table = commit_created(stage_create(location_of(tmp_path / "t"), rows(**numbers), "create"))
    table = commit_staged(table, stage_delete(table, pa.array(["r005"]), "less"))
    for wanted in ([5], range(50), [1, 7 << 32]):
        with pytest.raises(Damaged, match="1 rows are missing at their recorded addresses"):
            table.rows_at(pa.array(wanted, pa.uint64()), ["id"])


def test_an_index_is_staged_and_serves_lookups(table: Table) -> None:
    written = [write_index(table, IndexIntent(name, IndexKind.BTREE)) for name in ("id", "v")]
    indexed = commit_staged(table, stage_indexes(table, written, "index"))
    assert indexed.version == table.version + 1
    assert indexed.scan(filter="`id` = 'b'").to_pylist() == [{"id": "b", "v": 2}]
    assert {each.name for each in indexed.dataset.describe_indices()} == {"id_btree", "v_btree"}


def test_only_the_columns_that_are_asked_for_are_read(table: Table) -> None:
    assert table.scan(["v"], "`id` = 'c'").to_pylist() == [{"v": 3}]
    assert table.scan(["v"], limit=1).num_rows == 1


def test_a_version_is_there_or_not(table: Table) -> None:
    assert has_version(table.location, 1)
    assert not has_version(table.location, 2)
    with pytest.raises(StorageError):
        open_table(table.location, 7)


@pytest.mark.parametrize(
    ("arrow", "scalar", "value"),
    [
        (pa.string(), Scalar.STRING, "it's `quoted` \\ \n"),
        (pa.bool_(), Scalar.BOOL, True),
        (pa.int64(), Scalar.I64, -(2**63)),
        (pa.uint64(), Scalar.U64, 2**64 - 1),
        (pa.float32(), Scalar.F32, 0.1),
        (pa.float64(), Scalar.F64, 1e-300),
        (pa.date32(), Scalar.DATE, date(2026, 1, 31)),
        (pa.timestamp("ms", tz="UTC"), Scalar.DATETIME, datetime(2026, 1, 31, 12, 0, 0, 5_000, tzinfo=UTC)),
    ],
)
def test_a_literal_finds_the_value_it_stands_for(
    tmp_path: Path, arrow: pa.DataType, scalar: Scalar, value: Any
) -> None:
    data = pa.table({"id": ["yes", "no"], "order": pa.array([value, None], arrow)})
    table = commit_created(stage_create(location_of(tmp_path / "t"), data, "create"))
    predicate = column_predicate("order", scalar, Operator.EQUAL, value, scalar)
    assert isinstance(predicate, ColumnPredicate)
    assert table.scan(["id"], lance_filter((predicate,)))["id"].to_pylist() == ["yes"]
    assert holds(predicate, value)
    assert not holds(predicate, None)


# --- places and small files ---


def test_a_local_place_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert location_of("graph").uri == str(tmp_path / "graph")
    assert location_of(f"file://{tmp_path}/a%20b").path == tmp_path / "a b"
    assert location_of("s3://bucket/graph/").uri == "s3://bucket/graph"
    with pytest.raises(StorageError, match="ftp"):
        location_of("ftp://host/graph")


def test_a_file_is_created_once_and_whole(tmp_path: Path) -> None:
    objects = objects_at(location_of(tmp_path))
    assert objects.create("folder/one.json", b"1")
    assert not objects.create("folder/one.json", b"2")
    assert objects.read("folder/one.json") == b"1"
    objects.replace("folder/one.json", b"3")
    assert objects.read("folder/one.json") == b"3"
    assert objects.names("folder") == ["one.json"]
    objects.delete("folder/one.json")
    objects.delete("folder/one.json")
    assert objects.read("folder/one.json") is None
    assert objects.names("folder") == []
    assert objects.names("nowhere") == []


def test_a_folder_goes_although_somebody_writes_to_it_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects, late = objects_at(location_of(tmp_path)), ["one", "two"]
    objects.create("folder/first", b"")
    remove = os.rmdir

    def remove_later(*place: Any, **options: Any) -> None:
        if late:
            (tmp_path / "folder" / late.pop()).touch()
        remove(*place, **options)

    monkeypatch.setattr(os, "rmdir", remove_later)
    objects.delete_folder("folder")
    assert not (tmp_path / "folder").exists()
    assert late == []
    objects.delete_folder("folder")


def test_a_folder_that_cannot_go_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = objects_at(location_of(tmp_path))
    objects.create("folder/first", b"")

    def refuse(*_place: Any, **_options: Any) -> None:
        raise PermissionError("it is another's")

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(StorageError, match="another's"):
        objects.delete_folder("folder")


def test_many_small_writes_leave_few_fragments_and_every_row_as_it_was(tmp_path: Path) -> None:
    table = commit_created(stage_create(location_of(tmp_path / "t"), SCHEMA.empty_table(), "create"))
    expected: dict[str, int] = {}
    row_ids: dict[str, int] = {}
    for number in range(80):
        name = f"r{number}"
        table = commit_staged(table, stage_append(table, rows(**{name: number}), "append"))
        expected[name] = number
        if number % 7 == 3:
            change = {f"r{number - 2}": -number}
            table = commit_staged(
                table, stage_change(table, rows=rows(**change), deleted=pa.array([f"r{number - 1}"]), operation="mixed")
            )
            expected.update(change)
            del expected[f"r{number - 1}"]
        assert content(table) == expected
        found = {row["id"]: row["_rowid"] for row in table.scan(["id", "_rowid"]).to_pylist()}
        assert all(found[name] == row_id for name, row_id in row_ids.items() if name in found)
        row_ids.update(found)
    assert len(table.dataset.get_fragments()) < 20
