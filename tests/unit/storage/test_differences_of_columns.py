"""What differs between two versions of a table whose columns are not the same."""

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import Damaged
from omnigraph.storage.column_match import ColumnMatch, stored_as_one
from omnigraph.storage.columns import LayoutColumn, stage_columns, write_columns
from omnigraph.storage.commits import commit_created, commit_staged
from omnigraph.storage.differences import difference_counts, differing_rows
from omnigraph.storage.equality import equal_values, widens
from omnigraph.storage.location import location_of
from omnigraph.storage.staging import stage_change, stage_create
from omnigraph.storage.tables import Table
from tests.unit.storage.lines import compacted, data_read, forked

ID = pa.field("id", pa.string(), nullable=False)


@dataclass(frozen=True)
class Same:
    """The same value in all rows."""

    value: Any
    type: pa.DataType
    reads: tuple[str, ...] = ()

    def make(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        assert rows.schema.names == []
        return pa.repeat(pa.scalar(self.value, self.type), count)


@dataclass(frozen=True)
class Plus:
    """The numbers of another column and some more, in a type."""

    column: str
    more: int
    type: pa.DataType

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)

    def make(self, rows: pa.RecordBatch, count: int) -> pa.Array:
        assert rows.num_rows == count
        return pc.add(rows.column(0).cast(self.type), pa.scalar(self.more, self.type))


def created(path: Path, rows: pa.Table) -> Table:
    return commit_created(stage_create(location_of(path, durable=False), rows, "create"))


def with_columns(table: Table, layout: list[LayoutColumn], makers: Mapping[str, Any] | None = None) -> Table:
    fragments = [size.number for size in table.fragment_sizes()]
    for staged in stage_columns(table, layout, write_columns(table, fragments, makers or {}), "columns"):
        table = commit_staged(table, staged)
    return table


def changed(table: Table, rows: list[dict[str, Any]], *deleted: str) -> Table:
    staged = stage_change(
        table,
        rows=pa.Table.from_pylist(rows, schema=table.schema),
        deleted=pa.array(deleted, pa.string()),
        operation="change",
    )
    return commit_staged(table, staged)


def numbers(start: int, end: int) -> pa.Table:
    ids = [f"row number {number}" for number in range(start, end)]
    return pa.table(
        {"id": ids, "v": list(range(start, end)), "w": [f"some text {each}" for each in ids]},
        schema=pa.schema([ID, pa.field("v", pa.int32()), pa.field("w", pa.string())]),
    )


WIDER = [
    LayoutColumn(ID, "id"),
    LayoutColumn(pa.field("text", pa.string()), "w"),
    LayoutColumn(pa.field("v", pa.int64())),
    LayoutColumn(pa.field("n", pa.int64())),
]
MAKERS = {"v": Plus("v", 0, pa.int64()), "n": Same(7, pa.int64())}
MATCH = ColumnMatch({"id": "id", "v": "v", "w": "text"}, kept=("id", "v", "w"))


# --- the same values in other columns ---


def test_columns_that_were_renamed_widened_and_added_are_no_difference_and_nothing_is_read(tmp_path: Path) -> None:
    table = created(tmp_path / "t", numbers(0, 100_000))
    after = with_columns(table, WIDER, MAKERS)
    for there in (after, compacted(changed(after, [], "row number 3"))):
        data_read(table, there)
        found = differing_rows(table, there, MATCH)
        assert (found.inserted.num_rows, found.before.num_rows) == (0, 0)
        assert data_read(table, there) < 50_000
    assert found.deleted["id"].to_pylist() == ["row number 3"]


def test_few_changes_after_a_change_of_columns_are_found_by_a_small_read(tmp_path: Path) -> None:
    table = created(tmp_path / "t", numbers(0, 100_000))
    wider = with_columns(table, WIDER, MAKERS)
    size = sum(file.stat().st_size for file in (tmp_path / "t" / "data").iterdir())
    rows = [{"id": f"row number {number}", "v": 2**40, "text": "new", "n": 1} for number in (5, 70_000)]
    after = changed(wider, rows, "row number 7")
    data_read(table, after)
    found = differing_rows(table, after, MATCH)
    assert data_read(table, after) < size / 10
    assert found.before.to_pylist() == [
        {"id": f"row number {number}", "v": number, "w": f"some text row number {number}"} for number in (5, 70_000)
    ]
    assert found.after.to_pylist() == [{"id": row["id"], "text": "new", "v": 2**40, "n": 1} for row in rows]
    assert found.deleted["v"].to_pylist() == [7]
    back = ColumnMatch({later: name for name, later in MATCH.names.items()})
    counts = difference_counts(after, table, back)
    assert (counts.inserted, counts.updated, counts.deleted) == (1, 2, 0)


def test_a_column_that_came_counts_as_what_it_was_filled_with(tmp_path: Path) -> None:
    table = created(tmp_path / "t", numbers(0, 10))
    wider = with_columns(table, WIDER, MAKERS)
    same = [{"id": "row number 1", "v": 1, "text": "some text row number 1", "n": 7}]
    other = [{"id": "row number 2", "v": 2, "text": "some text row number 2", "n": None}]
    after = changed(changed(wider, same), other)
    assert differing_rows(table, after, MATCH).is_empty
    filled = replace(MATCH, came={"n": pa.scalar(7, pa.int64())})
    assert differing_rows(table, after, filled).after["id"].to_pylist() == ["row number 2"]
    assert difference_counts(table, wider, filled).updated == 0


# --- other values beside the same rows ---


def anew(table: Table, more: int) -> Table:
    """The column `v` written once more, with other values, beside rows that stay."""
    layout = [
        LayoutColumn(ID, "id"),
        LayoutColumn(pa.field("v", pa.int32())),
        LayoutColumn(pa.field("w", pa.string()), "w"),
    ]
    return with_columns(table, layout, {"v": Plus("v", more, pa.int32())})


def test_a_column_that_was_computed_anew_is_compared_and_no_other_is_read(tmp_path: Path) -> None:
    rows = numbers(0, 20_000)
    long = pa.array([f"{number} " * 200 for number in range(20_000)])
    table = created(tmp_path / "t", rows.set_column(2, "w", long))
    same = anew(table, 0)
    size = max(file.stat().st_size for file in (tmp_path / "t" / "data").iterdir())
    data_read(table, same)
    assert difference_counts(table, same).updated == 0
    assert data_read(table, same) < size / 4
    mixed = changed(same, [{"id": "row number 1", "v": 5, "w": "x"}, {"id": "new", "v": 1, "w": ""}], "row number 2")
    found = differing_rows(table, mixed)
    assert found.after["id"].to_pylist() == ["row number 1"]
    assert (found.inserted["id"].to_pylist(), found.deleted["id"].to_pylist()) == (["new"], ["row number 2"])
    assert difference_counts(table, anew(mixed, 1)).updated == 19_999


@pytest.mark.parametrize("moved", [False, True])
def test_forks_number_the_columns_that_come_to_them_each_for_itself(tmp_path: Path, moved: bool) -> None:
    table = changed(created(tmp_path / "t", numbers(0, 50)), [{"id": "one more", "v": 1, "w": ""}])
    fork = forked(table, "fork")
    ours, theirs = anew(table, 1), anew(fork, 2)
    assert ours.dataset.lance_schema.fields()[1].id() == theirs.dataset.lance_schema.fields()[1].id()
    if moved:
        ours, theirs = compacted(ours), compacted(theirs)
    assert difference_counts(ours, theirs).updated == 51
    again = forked(ours, "again")
    assert difference_counts(ours, changed(again, [{"id": "one more", "v": 5, "w": ""}])).updated == 1


# --- any history ---


@dataclass(frozen=True)
class State:
    """A table, and what its columns are called and hold, by what they are, whatever happened to their names."""

    table: Table
    names: dict[int, str]
    content: dict[str, dict[int, int | None]]

    @property
    def layout(self) -> dict[int, LayoutColumn]:
        return {which: LayoutColumn(self.table.schema.field(name), name) for which, name in self.names.items()}

    def arranged(self, layout: Mapping[int, LayoutColumn], makers: Mapping[str, Any]) -> Table:
        return with_columns(self.table, [LayoutColumn(ID, "id"), *layout.values()], makers)


def renamed(state: State, chance: random.Random) -> State:
    """All columns under other names, among which some that others had."""
    names = dict(zip(state.names, chance.sample([f"c{number}" for number in range(12)], len(state.names)), strict=True))
    layout = {
        which: replace(column, field=column.field.with_name(names[which])) for which, column in state.layout.items()
    }
    return replace(state, table=state.arranged(layout, {}), names=names)


def rewritten(state: State, chance: random.Random) -> State:
    """A column with other values, or another with the same in a wider type: one column is never both."""
    which = chance.choice(list(state.names))
    name, type = state.names[which], state.table.schema.field(state.names[which]).type
    more, type = (0, pa.int64()) if which % 2 else (chance.randrange(2), type)
    if type == state.table.schema.field(name).type and which % 2:
        return state
    layout = {**state.layout, which: LayoutColumn(pa.field(name, type))}
    content = {
        row: {**values, which: None if (value := values[which]) is None else value + more}
        for row, values in state.content.items()
    }
    return State(state.arranged(layout, {name: Plus(name, more, type)}), state.names, content)


def exchanged(state: State, chance: random.Random, new: int) -> State:
    """Without a column, and with another, which may get its name."""
    gone = chance.choice(list(state.names))
    value = chance.choice([None, 0, 1])
    names = {which: name for which, name in state.names.items() if which != gone}
    layout = {which: column for which, column in state.layout.items() if which != gone}
    names[new] = chance.choice([state.names[gone], next(f"c{n}" for n in range(12) if f"c{n}" not in names.values())])
    layout[new] = LayoutColumn(pa.field(names[new], pa.int32()))
    makers = {} if value is None else {names[new]: Same(value, pa.int32())}
    content = {
        row: {**{which: values[which] for which in names if which != new}, new: value}
        for row, values in state.content.items()
    }
    return State(state.arranged(layout, makers), names, content)


def stepped(state: State, chance: random.Random, number: int) -> State:
    match chance.randrange(8):
        case 0:
            return renamed(state, chance)
        case 1:
            return rewritten(state, chance)
        case 2:
            return exchanged(state, chance, number)
        case 3:
            return replace(state, table=compacted(state.table))
    gone = chance.sample(sorted(state.content), min(2, len(state.content)))
    rows = {
        f"r{chance.randrange(12)}": {which: chance.choice([None, 0, 1, 2]) for which in state.names} for _ in range(3)
    }
    content = {row: values for row, values in state.content.items() if row not in gone}
    written = [{"id": row, **{state.names[w]: each for w, each in values.items()}} for row, values in rows.items()]
    table = changed(state.table, written, *(row for row in gone if row not in rows))
    return replace(state, table=table, content={**content, **rows})


def check(left: State, right: State) -> None:
    both = [which for which in left.names if which in right.names]
    names = {left.names[which]: right.names[which] for which in both}
    kept = [left.names[which] for which in both if which % 2]
    match = ColumnMatch({"id": "id", **names}, kept=kept)
    found = differing_rows(left.table, right.table, match)
    shared = left.content.keys() & right.content.keys()
    assert {*found.inserted["id"].to_pylist()} == right.content.keys() - left.content.keys()
    assert {*found.deleted["id"].to_pylist()} == left.content.keys() - right.content.keys()
    assert found.before["id"].to_pylist() == found.after["id"].to_pylist()
    assert {*found.after["id"].to_pylist()} == {
        row for row in shared if any(left.content[row][which] != right.content[row][which] for which in both)
    }
    for state, rows in ((left, found.before), (left, found.deleted), (right, found.after), (right, found.inserted)):
        for row in rows.to_pylist():
            assert row == {"id": row["id"], **{name: state.content[row["id"]][w] for w, name in state.names.items()}}


@settings(max_examples=int(os.environ.get("OMNIGRAPH_HISTORIES", "15")))
@given(seed=st.integers(0, 2**32))
def test_any_two_versions_differ_as_a_dictionary_says_whatever_became_of_their_columns(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a history, and no secret
    names = {0: "c0", 1: "c1"}
    schema = pa.schema([ID, *(pa.field(name, pa.int32()) for name in names.values())])
    content: dict[str, dict[int, int | None]] = {f"r{number}": dict.fromkeys(names, 0) for number in range(8)}
    rows = pa.Table.from_pylist([{"id": row, "c0": 0, "c1": 0} for row in content], schema=schema)
    start = State(created(tmp_path_factory.mktemp("t") / "t", rows), names, content)
    heads, states = [start], [start]
    for number in range(20):
        line = chance.randrange(len(heads))
        if chance.random() < 0.15:
            heads.append(replace(heads[line], table=forked(heads[line].table, f"f{number}")))
        else:
            heads[line] = stepped(heads[line], chance, 100 + number)
            states.append(heads[line])
    for _ in range(15):
        check(chance.choice(states), chance.choice(states))


# --- values of several types ---


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        (pa.int32(), pa.int64()),
        (pa.uint32(), pa.int64()),
        (pa.uint32(), pa.uint64()),
        (pa.float32(), pa.float64()),
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
    ],
)
def test_numbers_are_compared_in_the_wider_type(narrow: pa.DataType, wide: pa.DataType) -> None:
    assert widens(narrow, wide)
    assert not widens(wide, narrow)
    assert not widens(wide, wide)
    few = [[1], None, [2]] if pa.types.is_list(narrow) else [1, None, 2]
    many = [[1], None, [2**33]] if pa.types.is_list(narrow) else [1, None, 2**33]
    for left, right in ((pa.array(few, narrow), pa.array(many, wide)), (pa.array(many, wide), pa.array(few, narrow))):
        assert equal_values(left, right).to_pylist() == [True, True, False]


def test_a_number_that_a_narrow_float_cannot_hold_is_another() -> None:
    narrow, wide = pa.array([0.1], pa.float32()), pa.array([0.1], pa.float64())
    assert equal_values(narrow, wide).to_pylist() == equal_values(wide, narrow).to_pylist() == [False]
    assert equal_values(narrow, narrow.cast(pa.float64())).to_pylist() == [True]


@pytest.mark.parametrize("lacking", ["left", "right"])
def test_a_version_that_lacks_a_compared_column_is_damaged(tmp_path: Path, lacking: str) -> None:
    whole = created(tmp_path / "whole.lance", pa.table({"id": ["a"], "n": [1]}))
    short = created(tmp_path / "short.lance", pa.table({"id": ["a"]}))
    left, right = (short, whole) if lacking == "left" else (whole, short)
    with pytest.raises(Damaged, match=r"short\.lance.* lacks the column 'n'"):
        stored_as_one(left, right, ColumnMatch({"id": "id", "n": "n"}))
