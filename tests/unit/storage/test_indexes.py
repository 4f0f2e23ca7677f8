"""Indexes of single tables: written, extended, replaced, and compared with what the table holds."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.catalog import IndexIntent, IndexKind
from omnigraph.errors import StorageError
from omnigraph.storage import (
    FEWEST_VECTORS,
    NEAREST_PROBES,
    NEAREST_REFINE,
    VECTOR_METRIC,
    Table,
    commit_created,
    commit_staged,
    create_branch,
    index_coverage,
    location_of,
    open_table,
    pending_reason,
    stage_append,
    stage_create,
    stage_indexes,
    stage_upsert,
    write_extension,
    write_index,
)

DIMENSION = 8
INTENTS = (
    IndexIntent("id", IndexKind.BTREE),
    IndexIntent("text", IndexKind.BTREE),
    IndexIntent("text", IndexKind.FULL_TEXT),
    IndexIntent("part", IndexKind.NGRAM),
    IndexIntent("flag", IndexKind.BITMAP),
    IndexIntent("tags", IndexKind.LABEL_LIST),
    IndexIntent("place", IndexKind.VECTOR),
)
FILTERS = {
    "id_btree": "`id` = 'r7'",
    "text_btree": "starts_with(`text`, 'word 3')",
    "part_ngram": "contains(`part`, 'nt 12')",
    "flag_bitmap": "`flag` = true",
    "tags_label_list": "array_has(`tags`, 't2')",
}


def rows(start: int, end: int) -> pa.Table:
    chance = np.random.default_rng(start)
    numbers = range(start, end)
    return pa.table(
        {
            "id": pa.array([f"r{number}" for number in numbers]),
            "text": pa.array([None if number % 9 == 0 else f"word {number % 10}" for number in numbers], pa.string()),
            "part": pa.array([None if number % 8 == 0 else f"content {number}" for number in numbers], pa.string()),
            "flag": pa.array([None if number % 7 == 0 else number % 2 == 0 for number in numbers], pa.bool_()),
            "tags": pa.array([[f"t{number % 5}"] for number in numbers], pa.list_(pa.string())),
            "place": pa.array(
                [None if number % 6 == 0 else chance.standard_normal(DIMENSION).tolist() for number in numbers],
                pa.list_(pa.float32(), DIMENSION),
            ),
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return commit_created(stage_create(location_of(tmp_path / "t"), rows(0, 600), "create"))


def indexed(table: Table) -> Table:
    written = [write_index(table, intent) for intent in INTENTS]
    return commit_staged(table, stage_indexes(table, written, "index"))


def appended(table: Table, start: int, end: int) -> Table:
    return commit_staged(table, stage_append(table, rows(start, end), "append"))


def nearest(table: Table, query: Any, **options: Any) -> list[str]:
    search = {"column": "place", "q": query, "k": 10, "metric": VECTOR_METRIC, **options}
    found: list[str] = table.dataset.to_table(columns=["id", "_distance"], nearest=search)["id"].to_pylist()
    return found


def check_searches(table: Table) -> None:
    """Every index gives what reading all rows gives."""
    for name, filter in FILTERS.items():
        plan = table.dataset.scanner(columns=["id"], filter=filter).explain_plan(True)
        assert f"@{name}(" in plan
        expected = table.dataset.to_table(columns=["id"], filter=filter, use_scalar_index=False)
        assert sorted(table.scan(["id"], filter)["id"].to_pylist()) == sorted(expected["id"].to_pylist())
    texts = table.scan(["id", "text"])
    expected = {row["id"] for row in texts.to_pylist() if row["text"] is not None and "3" in row["text"].split()}
    assert set(table.dataset.to_table(columns=["id"], full_text_query="3")["id"].to_pylist()) == expected
    for seed in range(3):
        query = np.random.default_rng(seed).standard_normal(DIMENSION).astype("float32")
        assert nearest(table, query, nprobes=NEAREST_PROBES, refine_factor=NEAREST_REFINE) == nearest(
            table, query, use_index=False
        )


def test_all_kinds_are_written_and_nothing_is_visible_until_they_are_committed(table: Table) -> None:
    written = [pickle.loads(pickle.dumps(write_index(table, intent))) for intent in INTENTS]  # noqa: S301 - our own
    assert not table.dataset.describe_indices()
    staged = stage_indexes(table, written, "index")
    files = list(staged.new_files())
    assert {file.parent.name for file in files} == {index.uuid for index in written}
    assert all(file.is_file() for file in files)
    after = commit_staged(table, staged)
    assert after.version == table.version + 1
    assert {name: each.intent for name, each in index_coverage(after).items()} == {each.name: each for each in INTENTS}
    check_searches(after)


def test_rows_that_came_later_are_found_and_not_covered(table: Table) -> None:
    after = appended(indexed(table), 600, 650)
    for coverage in index_coverage(after).values():
        assert (coverage.covered_rows, coverage.uncovered_rows, coverage.segments) == (600, 50, 1)
        assert coverage.is_partial
    check_searches(after)


def test_an_extension_covers_what_came_later(table: Table) -> None:
    after = appended(indexed(table), 600, 650)
    more = [
        write_extension(after, each.intent, each.uncovered) for each in reversed(list(index_coverage(after).values()))
    ]
    extended = commit_staged(after, stage_indexes(after, more, "extend"))
    for coverage in index_coverage(extended).values():
        assert (coverage.covered_rows, coverage.uncovered_rows, coverage.segments) == (650, 0, 2)
    check_searches(extended)


def test_an_extension_may_have_nothing_to_index(table: Table) -> None:
    empty = pa.Table.from_pylist([{"id": "nothing"}], schema=table.schema)
    ready = indexed(table)
    after = commit_staged(ready, stage_append(ready, empty, "append"))
    more = [write_extension(after, each.intent, each.uncovered) for each in index_coverage(after).values()]
    extended = commit_staged(after, stage_indexes(after, more, "extend"))
    assert {each.uncovered for each in index_coverage(extended).values()} == {()}
    check_searches(extended)


def test_columns_of_nothing_but_nulls_are_indexed_but_for_vectors(tmp_path: Path) -> None:
    nulls = pa.Table.from_pylist([{"id": f"r{number}"} for number in range(300)], schema=rows(0, 1).schema)
    table = commit_created(stage_create(location_of(tmp_path / "t"), nulls, "create"))
    intents = [intent for intent in INTENTS if pending_reason(table, intent) is None]
    assert {intent.kind for intent in INTENTS} - {intent.kind for intent in intents} == {IndexKind.VECTOR}
    after = commit_staged(table, stage_indexes(table, [write_index(table, each) for each in intents], "index"))
    assert {each.covered_rows for each in index_coverage(after).values()} == {300}
    assert [after.count(filter) for filter in FILTERS.values()] == [1, 0, 0, 0, 0]
    with pytest.raises(StorageError):
        write_index(table, IndexIntent("place", IndexKind.VECTOR))


def test_a_vector_without_direction_does_not_count(tmp_path: Path) -> None:
    intent = IndexIntent("place", IndexKind.VECTOR)
    few = rows(0, 1).slice(0, 0)
    assert pending_reason(commit_created(stage_create(location_of(tmp_path / "e"), few, "create")), intent) is not None
    zeros = pa.array([[0.0] * DIMENSION] * FEWEST_VECTORS, pa.list_(pa.float32(), DIMENSION))
    data = pa.table({"id": pa.array([str(number) for number in range(FEWEST_VECTORS)]), "place": zeros})
    table = commit_created(stage_create(location_of(tmp_path / "t"), data, "create"))
    assert pending_reason(table, intent) == f"it needs {FEWEST_VECTORS} vectors and has 0"


def test_an_index_that_covers_nothing_any_more_is_replaced(table: Table) -> None:
    before = indexed(table)
    after = commit_staged(before, stage_upsert(before, rows(0, 600), "all of them"))
    known = index_coverage(after)
    assert {name: each.covered for name, each in known.items()} == {intent.name: () for intent in INTENTS}
    written = [write_index(after, intent) for intent in INTENTS]
    again = commit_staged(after, stage_indexes(after, written, "index", replaced=list(known)))
    assert {each.segments for each in index_coverage(again).values()} == {1}
    assert {each.covered_rows for each in index_coverage(again).values()} == {600}
    check_searches(again)


WORDS, ORDER = IndexIntent("text", IndexKind.FULL_TEXT), IndexIntent("text", IndexKind.BTREE)


def check_order(table: Table) -> None:
    """Conditions on texts are answered by their order, and words are found."""
    assert "@text_btree(" in table.dataset.scanner(filter="`text` = 'word 3'").explain_plan(True)
    assert {each.segments for each in index_coverage(table).values() if each.intent == WORDS} == {1}
    expected = table.count("contains(text, '3')")
    assert table.dataset.to_table(columns=["id"], full_text_query="3").num_rows == expected > 0


def test_the_index_that_serves_conditions_comes_first_whatever_the_order_of_writing(table: Table) -> None:
    written = [write_index(table, WORDS), write_index(table, ORDER)]
    check_order(commit_staged(table, stage_indexes(table, written, "index")))


def test_an_index_of_words_makes_way_for_one_that_comes_later(table: Table) -> None:
    before = commit_staged(table, stage_indexes(table, [write_index(table, WORDS)], "words"))
    staged = stage_indexes(before, [write_index(before, ORDER)], "order")
    check_order(open_table(table.location, commit_staged(before, staged).version))


def test_an_index_of_words_makes_way_on_a_branch_of_the_table(table: Table) -> None:
    before = commit_staged(table, stage_indexes(table, [write_index(table, WORDS)], "words"))
    branch = create_branch(table.location, "b", parent=table.location, version=before.version)
    longer = appended(branch, 600, 610)
    staged = stage_indexes(longer, [write_index(longer, ORDER)], "order")
    assert {file.is_relative_to(f"{table.location.path}/tree/b") for file in staged.new_files()} == {True}
    check_order(open_table(branch.location, commit_staged(longer, staged).version))


def test_an_extension_stays_in_front_when_what_it_extends_is_gone(table: Table) -> None:
    longer = appended(indexed(table), 600, 650)
    coverage = index_coverage(longer)[ORDER.name]
    more = write_extension(longer, ORDER, coverage.uncovered)
    extended = commit_staged(longer, stage_indexes(longer, [more], "extend"))
    check_order(commit_staged(extended, stage_upsert(extended, rows(0, 600), "the first fragment")))
