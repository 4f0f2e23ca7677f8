"""A table with rows that are carried beside it answers as the same table does once they are folded into it."""

import pickle
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import Damaged
from omnigraph.resident.memory import MemoryBound
from omnigraph.resident.tables import ResidentTable, read_table
from omnigraph.storage.carrying import CARRIED, CarryingTable, TableAt, carrying, encode_rows, later_deltas, place_of
from omnigraph.storage.commits import commit_created, commit_staged
from omnigraph.storage.deltas import Delta
from omnigraph.storage.differences import difference_counts, differing_rows, row_moves
from omnigraph.storage.location import location_of
from omnigraph.storage.staging import stage_create
from omnigraph.storage.tables import ROW_ADDRESS, ROW_ID, FragmentSize, Table
from omnigraph.write.carried import stage_with_carried

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("v", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("place", pa.list_(pa.float32(), 2)),
    ]
)
NAMES = [f"r{number}" for number in range(12)]
FILTERS = [
    None,
    "true",
    "false",
    "v > 3",
    "v IS NULL",
    "id IN ('r1', 'r5', 'r9', 'nobody')",
    "text = 'b' AND v < 7",
    "starts_with(text, 'a') OR v = 4",
    "array_has(tags, 'x')",
]
COLUMNS: list[list[str] | None] = [None, ["id"], ["v", "id"], ["place"], ["tags", "text", "v"]]
Content = dict[str, dict[str, Any]]


@dataclass
class Line:
    """States of one table: each with what it should hold. The newest is written further, by carrying and by folding."""

    numbers: random.Random
    states: list[tuple[Table, Content]] = field(default_factory=list)

    @property
    def table(self) -> Table:
        return self.states[-1][0]

    @property
    def content(self) -> Content:
        return self.states[-1][1]

    def create(self, path: Path) -> None:
        content = {name: self.row(name) for name in self.numbers.sample(NAMES, self.numbers.randrange(8))}
        staged = stage_create(location_of(path, durable=False), table_of(content), "create")
        self.states.append((commit_created(staged), content))

    def row(self, name: str) -> dict[str, Any]:
        draw = self.numbers.choice
        return {
            "id": name,
            "v": draw([None, *range(9)]),
            "text": draw([None, "a", "ab", "b"]),
            "tags": draw([None, [], ["x"], ["x", "y", None]]),
            "place": draw([None, [0.5, 1.0], [2.0, -1.0]]),
        }

    def carry(self) -> None:
        """One commit more: rows that are new, that replace others, and ids that go."""
        names = self.numbers.sample(NAMES, self.numbers.randrange(1, 5))
        gone = [name for name in names if name in self.content and self.numbers.random() < 0.4]
        rows = {name: self.row(name) for name in names if name not in gone}
        known = self.content.keys() if self.numbers.random() < 0.8 else rows.keys()
        delta = Delta(
            commit_id=f"c{len(self.states)}",
            rows=encode_rows(table_of(rows), self.table.schema),
            count=len(rows),
            replaced=tuple(name for name in rows if name in known),
            deleted=tuple(gone),
        )
        content = {name: row for name, row in self.content.items() if name not in gone} | rows
        self.states.append((carrying(self.table.plain, (*self.table.deltas, delta)), content))

    def fold(self) -> None:
        """Some of what is carried, or all of it, is moved into the table."""
        count = self.numbers.randint(1, len(self.table.deltas)) if self.table.deltas else 0
        if not count:
            return
        part = carrying(self.table.plain, self.table.deltas[:count])
        assert isinstance(part, CarryingTable)
        staged = stage_with_carried(part.plain, part, None, "fold")
        plain = commit_staged(part.plain, staged)
        self.states.append((carrying(plain, self.table.deltas[count:]), self.content))


def table_of(content: Content) -> pa.Table:
    return pa.Table.from_pylist(list(content.values()), schema=SCHEMA)


def by_id(rows: pa.Table) -> Content:
    found = {row["id"]: row for row in rows.to_pylist()}
    assert len(found) == rows.num_rows, "each row is there once"
    return found


def texts(rows: pa.Table) -> list[str]:
    """Rows in an order that does not depend on where they are stored."""
    return sorted(map(repr, rows.to_pylist()))


def folded(table: Table) -> Table:
    """The same table with nothing carried on top of it."""
    if not isinstance(table, CarryingTable):
        return table
    place = location_of(f"{table.location.path}-{random.getrandbits(64)}", durable=False)
    copy = commit_created(stage_create(place, table.plain.scan(), "copy"))
    part = carrying(copy, table.deltas)
    assert isinstance(part, CarryingTable)
    return commit_staged(copy, stage_with_carried(copy, part, None, "fold"))


def batches_of(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches(batches, schema)


# --- the answers ---


def check_answers(table: Table, content: Content, numbers: random.Random) -> None:
    """Every method of a table against the same table without carried rows."""
    plain = folded(table)
    assert by_id(table.scan()) == by_id(plain.scan()) == content
    assert table.count() == len(content) <= table.most_rows
    for filter in FILTERS:
        columns = numbers.choice(COLUMNS)
        expected = plain.scan(columns, filter)
        rows = table.scan(columns, filter)
        assert rows.schema == expected.schema
        assert texts(rows) == texts(expected)
        assert texts(batches_of(table.batches(columns, filter), rows.schema)) == texts(expected)
        assert table.count(filter) == plain.count(filter) == rows.num_rows
        limit = numbers.randrange(15)
        limited = table.scan(columns, filter, limit)
        assert limited.schema == expected.schema
        assert limited.num_rows == min(limit, expected.num_rows)
        assert not [text for text in texts(limited) if text not in texts(expected)]
    check_ids(table, plain, numbers)
    check_addresses(table, content, numbers)
    check_fragments(table, plain, numbers)
    assert by_id(pickle.loads(pickle.dumps(place_of(table))).open().scan()) == content  # noqa: S301


def check_ids(table: Table, plain: Table, numbers: random.Random) -> None:
    ids = pa.array(numbers.sample([*NAMES, "nobody"], numbers.randrange(10)), pa.string())
    for columns in (("id",), ("text", "id", "v"), SCHEMA.names):
        found = table.rows_with_ids(ids, columns)
        assert found.schema == plain.rows_with_ids(ids, columns).schema
        assert texts(found) == texts(plain.rows_with_ids(ids, columns))


def check_addresses(table: Table, content: Content, numbers: random.Random) -> None:
    addresses = table.row_addresses()
    assert len({*addresses.tolist()}) == len(addresses) == len(content)
    assert (np.diff(addresses.astype(np.int64)) > 0).all()
    for filter in (None, "v > 3"):
        rows = table.scan(["id", ROW_ADDRESS, ROW_ID], filter)
        assert {*rows[ROW_ADDRESS].to_pylist()} <= {*addresses.tolist()}
        assert len({*rows[ROW_ID].to_pylist()}) == rows.num_rows
        assert table.rows_at(rows[ROW_ADDRESS].combine_chunks(), ["id"])["id"].to_pylist() == rows["id"].to_pylist()
    some = [*addresses.tolist()]
    numbers.shuffle(some)
    wanted = pa.array(some[: numbers.randrange(len(some) + 1)], pa.uint64())
    for columns in COLUMNS:
        found = table.rows_at(wanted, columns)
        assert found.num_rows == len(wanted)
        assert found.schema == table.scan(columns, limit=0).schema
    assert [content[row["id"]] for row in table.rows_at(wanted).to_pylist()] == table.rows_at(wanted).to_pylist()


def check_fragments(table: Table, plain: Table, numbers: random.Random) -> None:
    sizes = table.fragment_sizes()
    fragments = [each.number for each in sizes]
    assert fragments == sorted(fragments)
    assert sum(each.rows for each in sizes) == table.count()
    for filter in (None, "v > 3"):
        parts = []
        for each in fragments:
            most = numbers.choice([None, 1, 3])
            batches = [*table.fragment_batches([each], ["id", "v"], most, filter=filter)]
            assert all(most is None or batch.num_rows <= most for batch in batches)
            parts += batches
        schema = plain.scan(["id", "v"], limit=0).schema
        assert texts(pa.Table.from_batches(parts, schema)) == texts(plain.scan(["id", "v"], filter))
    some = numbers.sample(fragments, numbers.randrange(len(fragments) + 1))
    found = table.fragment_addresses(some)
    rows = [*table.fragment_batches(some, [ROW_ADDRESS])]
    assert sorted(found.tolist()) == sorted(address for batch in rows for address in batch[ROW_ADDRESS].to_pylist())
    assert len(found) == sum(each.rows for each in sizes if each.number in some)


# --- what lies between two states ---


def check_differences(left: tuple[Table, Content], right: tuple[Table, Content]) -> None:
    (before, old), (after, new) = left, right
    found = differing_rows(before, after)
    assert by_id(found.inserted) == {name: row for name, row in new.items() if name not in old}
    assert by_id(found.deleted) == {name: row for name, row in old.items() if name not in new}
    changed = {name for name, row in new.items() if name in old and old[name] != row}
    assert by_id(found.before) == {name: old[name] for name in changed}
    assert by_id(found.after) == {name: new[name] for name in changed}
    assert found.before["id"] == found.after["id"]
    counts = difference_counts(before, after)
    assert counts.inserted == found.inserted.num_rows
    assert (counts.updated, counts.deleted) == (len(changed), found.deleted.num_rows)
    moves = row_moves(before, after, ["id", "v"], 1_000)
    assert moves is not None
    stayed = np.setdiff1d(before.row_addresses(), moves.removed)
    assert len(stayed) + len(moves.removed) == len(old)
    assert sorted([*stayed.tolist(), *moves.added[ROW_ADDRESS].to_pylist()]) == after.row_addresses().tolist()
    kept = before.rows_at(pa.array(stayed, pa.uint64()), ["id", "v"]).to_pylist()
    came = moves.added.select(["id", "v"]).to_pylist()
    assert {row["id"]: row["v"] for row in (*kept, *came)} == {name: row["v"] for name, row in new.items()}


def values_of(table: ResidentTable) -> Content:
    ordinals = table.everything()
    columns = {name: table.values(name, ordinals).to_pylist() for name in ("id", "v", "text")}
    return {row[0]: dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)}


def check_memory(states: Sequence[tuple[Table, Content]], numbers: random.Random) -> None:
    """A table in memory goes from one state to any other."""
    memory = MemoryBound(10_000_000, lambda: False)
    table = read_table(numbers.choice(states)[0], memory)
    for after, content in numbers.sample(states, min(len(states), 6)):
        if numbers.random() < 0.5:
            table.values("v", table.everything())
        advanced = table.advance_to(after, 1_000)
        table = read_table(after, memory) if advanced is None else advanced
        wanted = {name: {each: row[each] for each in ("id", "v", "text")} for name, row in content.items()}
        assert values_of(table) == wanted
        assert all(table.find(name) >= 0 for name in content)
        assert all(table.find(name) < 0 for name in NAMES if name not in content)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_a_table_with_carried_rows_is_like_the_same_table_after_a_fold(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    line = Line(random.Random(seed))  # noqa: S311
    line.create(tmp_path_factory.mktemp("line") / "table")
    for _ in range(line.numbers.randrange(1, 8)):
        line.fold() if line.numbers.random() < 0.25 else line.carry()
    check_answers(*line.states[-1], line.numbers)
    for _ in range(4):
        check_differences(line.numbers.choice(line.states), line.numbers.choice(line.states))
    check_memory(line.states, line.numbers)


# --- single cases ---


@pytest.fixture
def table(tmp_path: Path) -> Table:
    content = {name: {"id": name, "v": 1} for name in ("r0", "r1", "r2")}
    return commit_created(stage_create(location_of(tmp_path / "table", durable=False), table_of(content), "create"))


def delta_of(commit_id: str, rows: dict[str, int], *, gone: Sequence[str] = ()) -> Delta:
    content = {name: {"id": name, "v": value} for name, value in rows.items()}
    return Delta(commit_id, encode_rows(table_of(content), SCHEMA), len(rows), tuple(rows), tuple(gone))


def test_a_row_that_went_and_came_again_is_there_once(table: Table) -> None:
    gone = delta_of("a", {}, gone=["r1"])
    again = replace(delta_of("b", {"r1": 5}), replaced=())
    found = carrying(table, (gone, again))
    assert {row["id"]: row["v"] for row in found.scan().to_pylist()} == {"r0": 1, "r1": 5, "r2": 1}
    assert (found.count(), found.count("v = 1"), found.count("id = 'r1'")) == (3, 2, 1)


def test_addresses_stay_while_more_is_carried(table: Table) -> None:
    first = delta_of("a", {"r1": 5, "r7": 7})
    short, long = carrying(table, (first,)), carrying(table, (first, delta_of("b", {"r8": 8}, gone=["r1"])))
    before = dict(zip(*short.scan(["id", ROW_ADDRESS]).to_pydict().values(), strict=True))
    after = dict(zip(*long.scan(["id", ROW_ADDRESS]).to_pydict().values(), strict=True))
    assert {name: after.get(name) for name in before} == {**before, "r1": None}
    assert later_deltas(short, long) == long.deltas[1:]
    assert later_deltas(table, short) == short.deltas
    assert later_deltas(long, short) is None
    assert later_deltas(carrying(table, (delta_of("c", {}),)), long) is None


def test_a_table_of_which_nothing_is_carried_is_the_table_itself(table: Table) -> None:
    assert carrying(table, ()) is table
    assert place_of(table) == TableAt(table.location, table.version)


def test_tables_are_equal_if_the_same_is_carried_on_the_same_version(table: Table) -> None:
    first, second = delta_of("a", {"r1": 5}), delta_of("b", {"r2": 6})
    assert carrying(table, (first,)) == carrying(table, (first,))
    assert len({carrying(table, (first,)), carrying(table, (first,)), carrying(table, (first, second)), table}) == 3
    assert carrying(table, (first,)) != table


def test_carried_rows_are_the_last_fragment(table: Table) -> None:
    found = carrying(table, (delta_of("a", {"r1": 5, "r7": 7}),))
    assert [(each.number, each.rows) for each in found.fragment_sizes()] == [(0, 2), (CARRIED, 2)]
    only_gone = carrying(table, (delta_of("a", {}, gone=["r1"]),))
    assert only_gone.fragment_sizes() == [FragmentSize(0, 2, table.fragment_sizes()[0].bytes)]


@pytest.mark.parametrize("harm", ["cut", "count", "columns"])
def test_carried_rows_that_cannot_be_read_are_damaged(table: Table, harm: str) -> None:
    whole = delta_of("commit-1", {"r1": 5})
    other = encode_rows(pa.table({"id": ["r1"]}), pa.schema([SCHEMA.field("id")]))
    rows = {"cut": whole.rows[:40], "count": whole.rows, "columns": other}[harm]
    found = carrying(table, (Delta("commit-1", rows, 2 if harm == "count" else 1, whole.replaced),))
    with pytest.raises(Damaged, match="commit-1"):
        found.scan()
