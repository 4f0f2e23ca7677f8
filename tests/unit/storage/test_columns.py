"""Columns that come, go, and are called otherwise."""

import pickle
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from omnigraph.catalog.types import BLOB_METADATA
from omnigraph.errors import StorageError
from omnigraph.storage.branches import create_branch
from omnigraph.storage.columns import LayoutColumn, WrittenColumns, stage_columns, write_columns
from omnigraph.storage.commits import commit_created, commit_staged, restore, sync_staged
from omnigraph.storage.compaction import (
    Drafts,
    fragment_states,
    index_removal,
    index_segments,
    rewrite_fragments,
    rewrite_operation,
    stage_in_order,
    with_numbers,
)
from omnigraph.storage.drift import operation_at
from omnigraph.storage.location import location_of
from omnigraph.storage.staging import StagedWrite, stage_append, stage_change, stage_create, stage_overwrite
from omnigraph.storage.tables import Table, open_table
from tests.unit.storage.lines import stage_delete, stage_upsert

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("number", pa.int32()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("place", pa.list_(pa.float32(), 3)),
        pa.field("file", pa.large_binary(), metadata=BLOB_METADATA),
        pa.field("gone", pa.int64()),
    ]
)
IDENTITY = ["id", "_rowid", "_rowaddr", "_row_created_at_version", "_row_last_updated_at_version"]


@dataclass(frozen=True)
class Constant:
    value: Any
    type: pa.DataType
    reads: tuple[str, ...] = ()

    def make(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        assert rows.schema.names == []
        return pa.array([self.value] * count, self.type)


@dataclass(frozen=True)
class Wider:
    column: str
    type: pa.DataType

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)

    def make(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        assert (rows.schema.names, rows.num_rows) == ([self.column], count)
        return rows.column(0).cast(self.type)


def rows(start: int, end: int) -> pa.Table:
    numbers = range(start, end)
    return pa.table(
        {
            "id": [f"r{number}" for number in numbers],
            "text": [f"text {number}" for number in numbers],
            "number": [None if number % 5 == 0 else number for number in numbers],
            "tags": [[] if number % 3 == 0 else [f"t{number}", "t"] for number in numbers],
            "place": [None if number % 4 == 0 else [float(number)] * 3 for number in numbers],
            "file": [None if number % 6 == 0 else bytes([number % 256]) * 10 for number in numbers],
            "gone": [-number for number in numbers],
        },
        schema=SCHEMA,
    )


def created(place: Path) -> Table:
    return commit_created(stage_create(location_of(place), SCHEMA.empty_table(), "create"))


def appended(table: Table, more: pa.Table) -> Table:
    return commit_staged(table, stage_append(table, more, "append"))


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Two fragments, in both of which rows are deleted at either end and between; a row is changed."""
    table = appended(appended(created(tmp_path / "t"), rows(0, 40)), rows(40, 60))
    gone = pa.array([f"r{number}" for number in (0, 1, 17, 39, 40, 59)])
    table = commit_staged(table, stage_delete(table, gone, "delete"))
    return commit_staged(table, stage_upsert(table, rows(20, 21), "upsert"))


MAKERS = {
    "number": Wider("number", pa.int64()),
    "kind": Constant("a", pa.string()),
    "marks": Constant([1, 2], pa.list_(pa.int32())),
}
LAYOUT = [
    LayoutColumn(SCHEMA.field("id"), "id"),
    LayoutColumn(pa.field("kind", pa.string(), nullable=False)),
    LayoutColumn(SCHEMA.field("file").with_name("blob"), "file"),
    LayoutColumn(pa.field("number", pa.int64())),
    LayoutColumn(pa.field("title", pa.string()), "text"),
    LayoutColumn(pa.field("marks", pa.list_(pa.int32()))),
    LayoutColumn(SCHEMA.field("tags"), "tags"),
    LayoutColumn(SCHEMA.field("place").with_name("position"), "place"),
    LayoutColumn(pa.field("text", pa.list_(pa.string()))),
    LayoutColumn(pa.field("photo", pa.large_binary(), metadata=BLOB_METADATA)),
]
NAMES = [column.field.name for column in LAYOUT]


def expected(before: pa.Table) -> pa.Table:
    """Rows of the old columns as they are with the others."""
    count = before.num_rows
    columns = {
        "id": before["id"],
        "kind": pa.array(["a"] * count),
        "blob": before["file"],
        "number": before["number"].cast(pa.int64()),
        "title": before["text"],
        "marks": pa.array([[1, 2]] * count, pa.list_(pa.int32())),
        "tags": before["tags"],
        "position": before["place"],
        "text": pa.nulls(count, pa.list_(pa.string())),
        "photo": pa.nulls(count, pa.large_binary()),
    }
    return pa.table([columns[name] for name in NAMES], schema=pa.schema([column.field for column in LAYOUT]))


def written(table: Table, makers: Any = MAKERS) -> list[WrittenColumns]:
    """What is written for each fragment by itself, as tasks elsewhere do."""
    parts = [write_columns(table, [fragment.number], makers) for fragment in fragment_states(table)]
    restored: list[WrittenColumns] = pickle.loads(pickle.dumps([each for part in parts for each in part]))  # noqa: S301
    return restored


def committed(table: Table, staged: Sequence[StagedWrite]) -> Table:
    sync_staged(staged)
    for each in staged:
        table = commit_staged(table, each)
    return table


def changed(table: Table) -> Table:
    return committed(table, stage_columns(table, LAYOUT, written(table), "change"))


def listed(rows: pa.Table) -> list[dict[str, Any]]:
    return sorted(rows.to_pylist(), key=lambda row: row["id"])


def check(table: Table, before: pa.Table) -> None:
    assert table.schema.names == NAMES
    assert [field.nullable for field in table.schema] == [column.field.nullable for column in LAYOUT]
    assert listed(table.scan()) == listed(expected(before))
    assert listed(open_table(table.location, table.version).scan()) == listed(expected(before))


def test_columns_come_go_and_are_renamed(table: Table) -> None:
    before = table.scan()
    identity = table.scan(IDENTITY)
    staged = stage_columns(table, LAYOUT, written(table), "change")
    assert open_table(table.location).version == table.version
    after = committed(table, staged)
    assert (after.version, operation_at(after.location, after.version)) == (table.version + len(staged), "change")
    check(after, before)
    assert after.scan(IDENTITY) == identity
    assert open_table(table.location, table.version).scan() == before


def kept(*names: str) -> list[LayoutColumn]:
    return [LayoutColumn(SCHEMA.field(name), name) for name in names]


KIND = LayoutColumn(pa.field("kind", pa.string(), nullable=False))
NUMBER = LayoutColumn(pa.field("number", pa.int64()))


@pytest.mark.parametrize(
    ("layout", "made"),
    [
        ([*kept("text"), KIND], ["kind"]),
        ([NUMBER, *kept("text")], ["number"]),
        ([KIND, LayoutColumn(pa.field("n", pa.int32()), "number")], ["kind"]),
        ([LayoutColumn(pa.field("text", pa.string()), "text"), KIND], ["kind"]),
        ([LayoutColumn(pa.field("text", pa.int64())), KIND], ["kind"]),
        ([LayoutColumn(pa.field("file", pa.string(), nullable=False), "text"), NUMBER, KIND], ["kind", "number"]),
        ([LayoutColumn(pa.field("text", pa.string()), "text"), LayoutColumn(pa.field("number", pa.string()))], []),
        (
            [
                LayoutColumn(pa.field("number", pa.string()), "text"),
                LayoutColumn(pa.field("text", pa.int32()), "number"),
            ],
            [],
        ),
        ([LayoutColumn(pa.field("tags", pa.list_(pa.string()), nullable=False), "tags")], []),
    ],
)
def test_each_change_can_be_alone(table: Table, layout: list[LayoutColumn], made: list[str]) -> None:
    before = table.scan()
    layout = [*kept("id"), *layout]
    staged = stage_columns(table, layout, written(table, {name: MAKERS[name] for name in made}), "change")
    assert len(staged) == (2 if made else 1)
    after = committed(table, staged)
    assert after.schema.equals(pa.schema([column.field for column in layout]))
    made_columns = expected(before)
    values = {
        column.field.name: before[column.continues]
        if column.continues is not None
        else made_columns[column.field.name]
        if column.field.name in made
        else pa.nulls(before.num_rows, column.field.type)
        for column in layout
    }
    assert after.scan().to_pylist() == pa.table(values).to_pylist()


def test_the_files_that_come_are_known_and_no_other_is_synced(table: Table) -> None:
    folder = table.location.path
    assert folder is not None
    before = {*(folder / "data").iterdir()}
    staged = stage_columns(table, LAYOUT, written(table), "change")
    assert {file for each in staged for file in each.new_files()} == {*(folder / "data").iterdir()} - before


@contextmanager
def emptied_files(table: Table) -> Iterator[Path]:
    """Leaves the data files of a table without content, so that none of them can be read; gives their folder."""
    assert table.location.path is not None
    folder = table.location.path / "data"
    contents = {file: file.read_bytes() for file in folder.iterdir()}
    for file in contents:
        file.write_bytes(b"")
    yield folder
    for file, content in contents.items():
        file.write_bytes(content)


def test_a_value_that_is_always_the_same_is_written_without_reading_a_row(table: Table) -> None:
    before = table.scan()
    layout = [*kept(*SCHEMA.names), KIND, LayoutColumn(pa.field("marks", pa.list_(pa.int32())))]
    with emptied_files(table):
        values = written(table, {name: MAKERS[name] for name in ("kind", "marks")})
        staged = stage_columns(table, layout, values, "change")
        with pytest.raises(StorageError):
            written(table, {"number": MAKERS["number"]})
    after = committed(table, staged)
    assert after.scan(SCHEMA.names) == before
    assert after.scan(["kind", "marks"]).to_pylist() == [{"kind": "a", "marks": [1, 2]}] * before.num_rows


def test_columns_that_come_without_values_or_go_or_are_renamed_write_and_read_nothing(table: Table) -> None:
    before = table.scan()
    layout = [
        *kept("id"),
        LayoutColumn(pa.field("title", pa.string()), "text"),
        LayoutColumn(pa.field("n", pa.int32())),
    ]
    with emptied_files(table) as folder:
        files = {*folder.iterdir()}
        after = committed(table, stage_columns(table, layout, [], "change"))
        assert {*folder.iterdir()} == files
    assert (
        after.scan(["id", "title"]).to_pylist()
        == before.select(["id", "text"]).rename_columns(["id", "title"]).to_pylist()
    )
    assert after.scan(["n"])["n"].null_count == before.num_rows


def test_an_empty_table_changes_its_columns(tmp_path: Path) -> None:
    table = created(tmp_path / "t")
    after = changed(table)
    check(after, SCHEMA.empty_table())
    check(appended(after, expected(rows(0, 5))), rows(0, 5))


def test_a_table_that_lost_all_rows_changes_its_columns(table: Table) -> None:
    empty = commit_staged(table, stage_delete(table, table.scan(["id"])["id"].combine_chunks(), "delete"))
    check(changed(empty), SCHEMA.empty_table())


def test_many_batches_are_written_in_their_order(tmp_path: Path) -> None:
    table = appended(created(tmp_path / "t"), rows(0, 30_001))
    gone = [0, 1, 3_000, *range(8_192, 16_384), 17_000, *range(24_000, 29_000), 30_000]
    table = commit_staged(table, stage_delete(table, pa.array([f"r{number}" for number in gone]), "delete"))
    before = table.scan()
    check(changed(table), before)


def write_on(table: Table, before: pa.Table) -> None:
    """All ways to write to a table whose columns have changed."""
    table = appended(table, expected(rows(100, 110)))
    before = pa.concat_tables([before, rows(100, 110)])
    check(table, before)
    change = {"rows": expected(rows(103, 108)), "deleted": pa.array(["r101", "r30", "r45"])}
    table = commit_staged(table, stage_change(table, **change, operation="change"))
    gone = pc.is_in(before["id"], value_set=pa.array(["r101", "r30", "r45"]))
    before = before.filter(pc.invert(gone))
    check(table, before)
    identity = listed(table.scan(["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"]))
    table = compacted(table)
    check(table, before)
    assert listed(table.scan(["id", "_rowid", "_row_created_at_version", "_row_last_updated_at_version"])) == identity
    replaced = commit_staged(table, stage_overwrite(table, expected(rows(7, 9)), "overwrite"))
    check(replaced, rows(7, 9))


def compacted(table: Table) -> Table:
    """The table as one fragment, made as `optimize` does."""
    with closing(Drafts()) as drafts:
        draft = drafts.without_indexes(table)
        rewritten = [rewrite_fragments(draft)]
        rewritten = with_numbers(rewritten, drafts.first_spare_number(draft, rewritten))
        removed = [index_removal(index_segments(table))] if index_segments(table) else []
        table = committed(table, stage_in_order(table, [*removed, rewrite_operation(rewritten)], "compact"))
    assert len(fragment_states(table)) == 1
    return table


def test_every_write_works_on_the_changed_columns(table: Table) -> None:
    before = table.scan()
    write_on(changed(table), before)


def test_small_writes_take_small_fragments_with_other_files_along(table: Table) -> None:
    before = table.scan()
    table = changed(table)
    for number in range(100, 120):
        table = appended(table, expected(rows(number, number + 1)))
        before = pa.concat_tables([before, rows(number, number + 1)])
    assert len(fragment_states(table)) < 20
    check(table, before)


def test_a_fork_changes_its_columns_by_itself(table: Table) -> None:
    before = table.scan()
    fork = create_branch(table.location, "b", parent=table.location, version=table.version)
    fork = appended(fork, rows(60, 70))
    there = fork.scan()
    identity = fork.scan(IDENTITY)
    staged = stage_columns(fork, LAYOUT, written(fork), "change")
    assert {file.is_relative_to(f"{table.location.path}/tree/b") for each in staged for file in each.new_files()} == {
        True
    }
    after = committed(fork, staged)
    assert after.scan(IDENTITY) == identity
    check(after, there)
    write_on(after, there)
    assert open_table(table.location).scan() == before


def test_a_fork_has_the_columns_that_its_parent_had(table: Table) -> None:
    before = table.scan()
    after = changed(table)
    fork = create_branch(table.location, "b", parent=table.location, version=after.version)
    check(fork, before)
    write_on(fork, before)
    check(open_table(table.location), before)


def test_a_column_that_comes_after_one_went_has_nothing_of_it(table: Table) -> None:
    """Values of a column that went still lie in the files, under a number that none may get again."""
    before = table.scan()
    without = committed(table, stage_columns(table, kept("id", "text"), [], "drop"))
    layout = [*kept("id", "text"), *(LayoutColumn(SCHEMA.field(name)) for name in ("tags", "gone", "file"))]
    again = committed(without, stage_columns(without, layout, [], "add"))
    assert again.scan(["id", "text"]) == before.select(["id", "text"])
    assert {again.scan([name])[name].null_count for name in ("tags", "gone", "file")} == {before.num_rows}
    number = LayoutColumn(pa.field("number", pa.int64()))
    once = committed(
        again, stage_columns(again, [*kept("id"), number], written(again, {"number": Constant(7, pa.int64())}), "fill")
    )
    twice = committed(once, stage_columns(once, [*kept("id"), KIND], written(once, {"kind": MAKERS["kind"]}), "other"))
    assert twice.scan()["kind"].to_pylist() == ["a"] * before.num_rows
    assert len(twice.dataset.get_fragments()[0].data_files()) == 2


def test_an_earlier_version_comes_back_with_its_columns(table: Table) -> None:
    before = table.scan()
    after = changed(table)
    back = restore(table.location, head=after.version, version=table.version, operation="undo")
    assert back.scan() == before
    assert back.schema == table.schema
    check(changed(back), before)
