"""What differs between two versions of a table, whatever their relation."""

import math
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance
from omnigraph.catalog import IndexIntent, IndexKind
from omnigraph.catalog.types import BLOB_METADATA
from omnigraph.storage.commits import commit_created, commit_staged, restore
from omnigraph.storage.differences import Differences, difference_batches, difference_counts, differing_rows
from omnigraph.storage.equality import equal_values
from omnigraph.storage.indexes import stage_indexes, write_index
from omnigraph.storage.location import location_of
from omnigraph.storage.staging import stage_append, stage_change, stage_create, stage_overwrite
from omnigraph.storage.tables import Table, open_table
from tests.unit.storage.lines import compacted, data_read, forked, stage_delete, stage_upsert

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("v", pa.int64())])
Content = dict[str, Any]


def rows(values: Content) -> pa.Table:
    return pa.table({"id": list(values), "v": list(values.values())}, schema=SCHEMA)


def numbered(start: int, end: int, value: int = 0) -> Content:
    return {f"r{number}": value for number in range(start, end)}


def content(table: Table) -> Content:
    return {row["id"]: row["v"] for row in table.scan().to_pylist()}


def created(path: Path, values: Content) -> Table:
    return commit_created(stage_create(location_of(path, durable=False), rows(values), "create"))


def changed(table: Table, values: Content, *deleted: str) -> Table:
    staged = stage_change(table, rows=rows(values), deleted=pa.array(deleted, pa.string()), operation="change")
    return commit_staged(table, staged)


def appended(table: Table, values: Content) -> Table:
    return commit_staged(table, stage_append(table, rows(values), "append"))


def overwritten(table: Table, values: Content) -> Table:
    return commit_staged(table, stage_overwrite(table, rows(values), "overwrite"))


def shown(differences: Differences) -> tuple[Content, Content, dict[str, tuple[Any, Any]]]:
    inserted, deleted, before, after = (
        {row["id"]: row["v"] for row in part.to_pylist()}
        for part in (differences.inserted, differences.deleted, differences.before, differences.after)
    )
    assert list(before) == list(after), "before and after are aligned"
    return inserted, deleted, {each: (before[each], after[each]) for each in before}


def expected(left: Content, right: Content) -> tuple[Content, Content, dict[str, tuple[Any, Any]]]:
    return (
        {each: right[each] for each in right if each not in left},
        {each: left[each] for each in left if each not in right},
        {each: (left[each], right[each]) for each in left if each in right and left[each] != right[each]},
    )


def check(left: Table, right: Table) -> None:
    """Both directions, all at once and counted."""
    for one, other in ((left, right), (right, left)):
        wanted = expected(content(one), content(other))
        assert shown(differing_rows(one, other)) == wanted
        counts = difference_counts(one, other)
        assert (counts.inserted, counts.deleted, counts.updated) == tuple(len(part) for part in wanted)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return created(tmp_path / "t", numbered(0, 100))


# --- one line of versions ---


def test_a_version_does_not_differ_from_itself(table: Table) -> None:
    assert differing_rows(table, open_table(table.location, table.version)).is_empty
    assert list(difference_batches(table, table)) == []


def test_every_kind_of_change_is_told_apart(table: Table) -> None:
    after = changed(table, {"r1": 7, "r100": 8}, "r2")
    assert shown(differing_rows(table, after)) == ({"r100": 8}, {"r2": 0}, {"r1": (0, 7)})
    assert shown(differing_rows(after, table)) == ({"r2": 0}, {"r100": 8}, {"r1": (7, 0)})


def test_appends_upserts_and_deletes_add_up(table: Table) -> None:
    versions = [table]
    versions.append(appended(versions[-1], numbered(200, 210)))
    versions.append(commit_staged(versions[-1], stage_upsert(versions[-1], rows(numbered(205, 215, 5)), "upsert")))
    versions.append(commit_staged(versions[-1], stage_delete(versions[-1], pa.array(["r0", "r207"]), "delete")))
    index = write_index(versions[-1], IndexIntent("id", IndexKind.BTREE))
    versions.append(commit_staged(versions[-1], stage_indexes(versions[-1], [index], "index")))
    versions.append(changed(versions[-1], {"r0": 1, "r50": 2}))
    for left in versions:
        for right in versions:
            check(left, right)


def test_what_was_changed_and_changed_back_does_not_differ(table: Table) -> None:
    there = changed(table, {"r1": 7}, "r2")
    assert differing_rows(table, changed(there, {"r1": 0, "r2": 0})).is_empty


def test_an_overwrite_with_the_same_rows_is_no_difference(table: Table) -> None:
    assert differing_rows(table, overwritten(table, numbered(0, 100))).is_empty
    check(table, overwritten(open_table(table.location), {**numbered(50, 150), "r60": 3}))


def test_all_rows_may_go_and_come(table: Table) -> None:
    empty = overwritten(table, {})
    check(table, empty)
    check(empty, appended(empty, {"new": 1}))
    check(table, open_table(table.location))


def test_rows_that_a_write_carries_along_are_no_difference(table: Table) -> None:
    versions = [table]
    for number in range(40):
        versions.append(changed(versions[-1], {f"n{number}": number, f"r{number}": 1}))
    assert len(versions[-1].dataset.get_fragments()) < 20, "small fragments were folded"
    for left, right in ((0, 40), (5, 20), (15, 16), (16, 17), (30, 40)):
        check(versions[left], versions[right])


def test_a_restored_version_does_not_differ_from_what_it_restores(table: Table) -> None:
    before = changed(table, {"r1": 1}, "r2")
    meant = changed(before, {"r1": 2, "r3": 2, "r2": 2}, "r4")
    restored = restore(table.location, head=meant.version, version=before.version, operation="undo")
    assert differing_rows(before, restored).is_empty
    check(meant, restored)
    check(meant, changed(restored, {"r1": 2, "r3": 9, "x": 1}))


def test_after_a_compaction_only_what_changed_is_read(tmp_path: Path) -> None:
    table = created(tmp_path / "t", numbered(0, 20_000))
    for number in range(5):
        table = appended(table, numbered(30_000 + number * 2_000, 32_000 + number * 2_000))
    small = compacted(table)
    assert len(small.dataset.get_fragments()) == 1
    data_read(table, small)
    assert differing_rows(table, small).is_empty
    assert data_read(table, small) == 0
    check(table, changed(small, {"r5": 1, "new": 2}, "r6"))


# --- forks ---


def test_a_fork_differs_from_its_parent_by_what_was_done_to_either(table: Table) -> None:
    table = changed(table, {"r1": 1, "r100": 1}, "r2")
    fork = forked(table, "fork")
    assert fork.version == table.version
    assert differing_rows(table, fork).is_empty
    theirs = changed(fork, {"r3": 3, "r101": 3, "r1": 3}, "r4")
    check(table, theirs)
    ours = changed(table, {"r3": 4, "r101": 4, "r102": 4}, "r4", "r5")
    check(ours, theirs)
    check(changed(ours, {"r3": 3}), changed(theirs, {"r102": 4}, "r5"))


def test_two_forks_and_a_fork_of_a_fork_are_compared_like_any_versions(table: Table) -> None:
    one = changed(forked(table, "one"), {"r1": 1, "new": 1}, "r2")
    deep = changed(forked(one, "deep"), {"r1": 2, "r9": 2}, "new")
    main = changed(table, {"r1": 1, "r7": 3})
    other = changed(forked(main, "other"), {"new": 1, "r8": 4}, "r2", "r3")
    tables = [table, main, one, deep, other, changed(one, {"r1": 5})]
    for left in tables:
        for right in tables:
            check(left, right)


def test_the_same_number_of_a_version_means_another_content_on_a_fork(table: Table) -> None:
    """Rows with the same row id and the same version, written by two lines, after which neither has an old file."""
    fork = forked(table, "fork")
    ours, theirs = changed(table, {"r1": 1, "a": 1}), changed(fork, {"r1": 2, "b": 1})
    assert ours.version == theirs.version
    late = forked(ours, "late")
    for left, right in ((ours, theirs), (late, theirs)):
        check(compacted(left), compacted(right))


def test_a_compacted_fork_shares_its_past_with_its_parent(tmp_path: Path) -> None:
    table = created(tmp_path / "t", numbered(0, 5_000))
    table = appended(table, numbered(5_000, 6_000))
    fork = compacted(changed(forked(table, "fork"), {"r1": 1}))
    assert len(fork.dataset.get_fragments()) == 1
    assert shown(differing_rows(table, fork)) == ({}, {}, {"r1": (0, 1)})
    data_read(table, fork)
    assert difference_counts(table, fork).updated == 1
    assert data_read(table, fork) < 20_000
    check(appended(table, {"new": 1}), fork)


def test_a_fork_that_is_not_listed_is_compared_by_value(tmp_path: Path) -> None:
    table = created(tmp_path / "t", numbered(0, 100))
    fork = compacted(changed(appended(forked(table, "fork"), numbered(100, 110)), {"r1": 1}))
    (tmp_path / "t" / "_refs" / "branches" / "fork.json").unlink()
    check(table, fork)


def test_tables_that_have_nothing_in_common_are_compared_by_id(tmp_path: Path) -> None:
    check(created(tmp_path / "a", numbered(0, 10)), created(tmp_path / "b", {**numbered(5, 20), "r7": 3}))


# --- cost ---


def test_a_small_change_of_a_large_table_is_found_by_a_small_read(tmp_path: Path) -> None:
    table = created(tmp_path / "t", {f"row number {number}": number for number in range(200_000)})
    after = changed(table, {f"row number {number}": -1 for number in (5, 100_000, 199_999)}, "row number 7")
    size = sum(file.stat().st_size for file in (tmp_path / "t" / "data").iterdir())
    data_read(table, after)
    assert difference_counts(table, after).updated == 3
    assert differing_rows(table, after).deleted["v"].to_pylist() == [7]
    assert data_read(table, after) < size / 20


def test_an_append_is_found_without_a_look_at_what_was_there(tmp_path: Path) -> None:
    table = created(tmp_path / "t", numbered(0, 50_000))
    after = appended(table, {"new": 1})
    data_read(table, after)
    assert shown(differing_rows(table, after)) == ({"new": 1}, {}, {})
    assert data_read(table, after) < 5_000


def test_many_differences_come_in_batches_and_in_order(tmp_path: Path) -> None:
    table = created(tmp_path / "t", numbered(0, 9_000))
    after = changed(table, {**numbered(0, 5_000, 1), **numbered(9_000, 14_000)}, *numbered(5_000, 9_000))
    batches = list(difference_batches(table, after))
    assert len(batches) > 5
    kinds = [
        [bool(part.num_rows) for part in (each.inserted, each.after, each.deleted)].index(True) for each in batches
    ]
    assert kinds == sorted(kinds)
    assert [row for each in batches for row in each.inserted["id"].to_pylist()] == list(numbered(9_000, 14_000))
    assert [row for each in batches for row in each.deleted["id"].to_pylist()] == list(numbered(5_000, 9_000))
    check(table, after)


# --- columns ---


def test_values_of_every_type_are_compared_by_value(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("list", pa.list_(pa.string())),
            pa.field("vector", pa.list_(pa.float32(), 2)),
            pa.field("blob", pa.large_binary(), metadata=BLOB_METADATA),
            pa.field("float", pa.float64()),
        ]
    )
    same = {"list": ["a", "b"], "vector": [1, 2], "blob": b"x" * 100_000, "float": math.nan}
    others: list[Content] = [
        {"list": ["a", "c"]},
        {"list": ["a"]},
        {"list": []},
        {"list": None},
        {"vector": [1, 3]},
        {"vector": None},
        {"blob": b"x" * 99_999 + b"y"},
        {"blob": None},
        {"float": 0.0},
        {},
    ]
    names = [f"n{number}" for number in range(len(others))]
    first = pa.Table.from_pylist([{"id": name, **same} for name in names], schema=schema)
    second = pa.Table.from_pylist(
        [{"id": name, **same, **other} for name, other in zip(names, others, strict=True)], schema=schema
    )
    empty = commit_created(stage_create(location_of(tmp_path / "t", durable=False), schema.empty_table(), "create"))
    table = commit_staged(empty, stage_append(empty, first, "append"))
    found = differing_rows(table, commit_staged(table, stage_upsert(table, second, "upsert")))
    assert found.after["id"].to_pylist() == names[:-1]
    assert found.after.drop_columns(["float"]).to_pylist() == second.drop_columns(["float"]).to_pylist()[:-1]
    assert found.before["blob"].to_pylist() == [same["blob"]] * (len(names) - 1)
    back = commit_staged(open_table(table.location), stage_upsert(open_table(table.location), first, "upsert"))
    assert differing_rows(table, back).is_empty


@pytest.mark.parametrize(
    ("type", "left", "right", "equal"),
    [
        (pa.float64(), [math.nan, math.nan, 0.0, None], [math.nan, 1.0, -0.0, math.nan], [True, False, True, False]),
        (pa.list_(pa.float64()), [[math.nan], [], None, [1]], [[math.nan], [], [], [1, 1]], [True, True, False, False]),
        (pa.list_(pa.float32(), 2), [[1, 2], None, [1, 2]], [[1, 2], None, [2, 1]], [True, True, False]),
        (pa.bool_(), [True, None, False], [True, False, True], [True, False, False]),
        (pa.large_binary(), [b"", b"a", None], [None, b"a", None], [False, True, True]),
        (pa.string(), [], [], []),
    ],
)
def test_equality_is_never_unknown(type: pa.DataType, left: list[Any], right: list[Any], equal: list[bool]) -> None:
    padded = pa.array([None, *left], type).slice(1)
    assert equal_values(padded, pa.array(right, type)).to_pylist() == equal
    assert equal_values(pa.array(right, type), padded).to_pylist() == equal


def test_values_of_another_type_are_equal_when_they_mean_the_same() -> None:
    assert equal_values(pa.array([1, 2], pa.int32()), pa.array([1, 3], pa.int64())).to_pylist() == [True, False]
    assert equal_values(pa.array(["a"]), pa.array([1])).to_pylist() == [False]


def test_a_column_that_only_one_version_has_is_no_difference_of_rows(table: Table) -> None:
    lance.dataset(table.location.uri).add_columns({"w": "v + 1"})
    wider = open_table(table.location)
    data_read(table, wider)
    assert differing_rows(table, wider).is_empty
    assert data_read(table, wider) == 0
    row = pa.table({"id": ["r1", "r2"], "v": [5, 0], "w": [0, 9]}, schema=wider.schema)
    after = commit_staged(wider, stage_upsert(wider, row, "upsert"))
    found = differing_rows(table, after)
    assert found.before.to_pylist() == [{"id": "r1", "v": 0}]
    assert found.after.to_pylist() == [{"id": "r1", "v": 5, "w": 0}]


def test_a_column_with_the_name_of_one_that_was_dropped_is_compared_by_value(table: Table) -> None:
    dataset = lance.dataset(table.location.uri)
    dataset.drop_columns(["v"])
    dataset.add_columns(pa.field("v", pa.int64()))
    check(table, open_table(table.location))
    dataset.optimize.compact_files()
    check(table, open_table(table.location))


def test_columns_that_changed_their_names_are_compared_by_name(tmp_path: Path) -> None:
    data = pa.table({"id": ["a", "b"], "v": [1, 2], "w": [1, 3]})
    table = commit_created(stage_create(location_of(tmp_path / "t", durable=False), data, "create"))
    dataset = lance.dataset(table.location.uri)
    for old, new in (("v", "x"), ("w", "v"), ("x", "w")):
        dataset.alter_columns({"path": old, "name": new})  # type: ignore[dict-item]
    assert differing_rows(table, open_table(table.location)).before["id"].to_pylist() == ["b"]


# --- any history ---

IDS = [f"r{number}" for number in range(30)]


def _step(table: Table, chance: random.Random) -> Table:
    """One more version, in one of the ways in which versions come about."""
    kind = chance.randrange(10)
    if kind == 0:
        return overwritten(table, dict.fromkeys(chance.sample(IDS, 10), chance.randrange(3)))
    if kind == 1:
        return compacted(table)
    if kind == 2:
        first = int(lance.dataset(table.location.uri).version_refs()[0]["version"])
        version = chance.randint(first, table.version)
        return restore(table.location, head=table.version, version=version, operation="undo")
    present = content(table)
    gone = chance.sample(sorted(present), chance.randrange(min(4, len(present) + 1)))
    values = {name: chance.randrange(3) for name in chance.sample(IDS, chance.randrange(5)) if name not in gone}
    return changed(table, values, *gone)


@settings(max_examples=int(os.environ.get("OMNIGRAPH_HISTORIES", "15")))
@given(seed=st.integers(0, 2**32))
def test_any_two_versions_of_any_history_differ_as_a_dictionary_says(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a history, and no secret
    root = created(tmp_path_factory.mktemp("t") / "t", dict.fromkeys(IDS[:20], 0))
    heads, versions = [root], [root]
    for number in range(25):
        line = chance.randrange(len(heads))
        if chance.random() < 0.1:
            heads.append(forked(heads[line], f"f{number}"))
        else:
            heads[line] = _step(heads[line], chance)
            versions.append(heads[line])
    for _ in range(12):
        check(chance.choice(versions), chance.choice(versions))
