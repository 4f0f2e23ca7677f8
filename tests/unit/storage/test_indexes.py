"""Indexes of single tables: written, extended, replaced, and compared with what the table holds."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from omnigraph.catalog import IndexIntent, IndexKind
from omnigraph.compiler.ir import TextMatchKind
from omnigraph.errors import StorageError
from omnigraph.storage.branches import create_branch
from omnigraph.storage.columns import LayoutColumn, stage_columns
from omnigraph.storage.commits import commit_created, commit_staged
from omnigraph.storage.indexes import (
    FEWEST_VECTORS,
    NEAREST_PROBES,
    NEAREST_REFINE,
    VECTOR_METRIC,
    index_coverage,
    pending_reason,
    stage_indexes,
    write_extension,
    write_index,
)
from omnigraph.storage.location import location_of
from omnigraph.storage.searches import TextQuery, VectorQuery, covered_texts, nearest_vectors, text_index, vector_index
from omnigraph.storage.staging import stage_append, stage_create
from omnigraph.storage.tables import Table, open_table
from omnigraph.storage.upkeep import upkeep_after
from tests.unit.storage.lines import stage_upsert

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
    names = {intent.name: each.name for intent, each in index_coverage(table).items()}
    for name, filter in FILTERS.items():
        plan = table.dataset.scanner(columns=["id"], filter=filter).explain_plan(True)
        assert f"@{names[name]}(" in plan
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
    assert {intent: each.name for intent, each in index_coverage(after).items()} == {
        each: each.name for each in INTENTS
    }
    check_searches(after)


def test_rows_that_came_later_are_found_and_not_covered(table: Table) -> None:
    after = appended(indexed(table), 600, 650)
    for coverage in index_coverage(after).values():
        assert (coverage.covered_rows, coverage.uncovered_rows, coverage.segments) == (600, 50, 1)
        assert coverage.covered
        assert coverage.uncovered
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
    assert pending_reason(table, intent) == f"expected at least {FEWEST_VECTORS} vectors, found 0"


def test_an_index_that_covers_nothing_any_more_is_replaced(table: Table) -> None:
    before = indexed(table)
    after = commit_staged(before, stage_upsert(before, rows(0, 600), "all of them"))
    known = index_coverage(after)
    assert {intent: each.covered for intent, each in known.items()} == dict.fromkeys(INTENTS, ())
    written = [write_index(after, intent) for intent in INTENTS]
    again = commit_staged(
        after, stage_indexes(after, written, "index", replaced=[each.name for each in known.values()])
    )
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
    coverage = index_coverage(longer)[ORDER]
    more = write_extension(longer, ORDER, coverage.uncovered)
    extended = commit_staged(longer, stage_indexes(longer, [more], "extend"))
    check_order(commit_staged(extended, stage_upsert(extended, rows(0, 600), "the first fragment")))


# --- columns that are called otherwise ---

RENAMED = {"text": "body", "part": "piece", "flag": "is_flagged", "tags": "labels", "place": "position"}


def renamed(table: Table, names: dict[str, str]) -> Table:
    """The table with other names for its columns."""
    layout = [LayoutColumn(field.with_name(names.get(field.name, field.name)), field.name) for field in table.schema]
    (staged,) = stage_columns(table, layout, [], "rename")
    return commit_staged(table, staged)


def as_before(table: Table) -> Table:
    """A version of the table with the names that the checks know."""
    return renamed(table, {new: old for old, new in RENAMED.items()})


def test_indexes_stay_with_columns_that_are_renamed(table: Table) -> None:
    after = renamed(indexed(table), RENAMED)
    known = index_coverage(after)
    assert {*known} == {IndexIntent(RENAMED.get(each.column, each.column), each.kind) for each in INTENTS}
    assert {each.covered_rows for each in known.values()} == {600}
    for name, filter in FILTERS.items():
        column = name.partition("_")[0]
        condition = filter.replace(f"`{column}`", f"`{RENAMED.get(column, column)}`")
        assert f"@{name}(" in after.dataset.scanner(filter=condition).explain_plan(True)
        assert after.count(condition) == table.count(filter) > 0
    words = text_index(after, "body")
    assert words is not None
    assert (words.name, words.uncovered) == ("body_inverted", ())
    query = TextQuery("body", TextMatchKind.SEARCH, ("3",))
    assert covered_texts(after, query, columns=["id"]).num_rows == table.count("contains(text, '3')")
    vectors = vector_index(after, "position")
    assert vectors is not None
    wanted = VectorQuery("position", tuple([1.0] * DIMENSION), 5, NEAREST_PROBES, NEAREST_REFINE)
    near = nearest_vectors(after, wanted, columns=["id"])
    exact = nearest_vectors(after, replace(wanted, probes=None, refine=None), columns=["id"])
    assert near["id"].to_pylist() == exact["id"].to_pylist()
    check_searches(as_before(after))


def test_indexes_of_renamed_columns_are_extended_and_replaced(table: Table) -> None:
    after = renamed(indexed(table), RENAMED)
    after = appended_as(after, 600, 650)
    known = index_coverage(after)
    assert {each.uncovered_rows for each in known.values()} == {50}
    more = [write_extension(after, intent, each.uncovered) for intent, each in known.items()]
    extended = commit_staged(after, stage_indexes(after, more, "extend"))
    assert {each.segments for each in index_coverage(extended).values()} == {2}
    assert {each.uncovered_rows for each in index_coverage(extended).values()} == {0}
    check_searches(before := as_before(extended))
    extended = renamed(before, RENAMED)
    anew = [write_index(extended, intent) for intent in known]
    replaced = [each.name for each in known.values()]
    again = commit_staged(extended, stage_indexes(extended, anew, "replace", replaced=replaced))
    assert {intent: (each.name, each.segments) for intent, each in index_coverage(again).items()} == {
        intent: (intent.name, 1) for intent in known
    }
    check_searches(as_before(again))


def appended_as(table: Table, start: int, end: int) -> Table:
    more = rows(start, end)
    more = more.rename_columns([RENAMED.get(name, name) for name in more.schema.names])
    return commit_staged(table, stage_append(table, more, "append"))


def test_an_index_is_called_otherwise_where_one_of_another_column_has_its_name(table: Table) -> None:
    after = renamed(indexed(table), {"text": "part", "part": "text"})
    known = index_coverage(after)
    order = IndexIntent("part", IndexKind.BTREE)
    assert known[order].name == "text_btree"
    intents = [IndexIntent("text", IndexKind.BTREE), IndexIntent("text", IndexKind.FULL_TEXT)]
    written = [write_index(after, intent) for intent in intents]
    assert [index.name for index in written] == ["text~2_btree", "text~2_inverted"]
    gone = [known[IndexIntent("text", IndexKind.NGRAM)].name]
    both = commit_staged(after, stage_indexes(after, written, "index", replaced=gone))
    found = index_coverage(both)
    assert {found[intent].covered_rows for intent in (*intents, order)} == {600}
    for column, name in (("text", "text~2_btree"), ("part", "text_btree")):
        assert f"@{name}(" in both.dataset.scanner(filter=f"`{column}` = 'content 7'").explain_plan(True)
    assert (both.count("`text` = 'content 7'"), both.count("`part` = 'content 7'")) == (1, 0)
    longer = appended(both, 600, 650)
    more = [write_extension(longer, intent, each.uncovered) for intent, each in index_coverage(longer).items()]
    assert {index.name for index in more} == {each.name for each in found.values()}
    extended = commit_staged(longer, stage_indexes(longer, more, "extend"))
    assert {each.segments for each in index_coverage(extended).values()} == {2}


def test_an_index_of_words_makes_way_for_one_of_a_renamed_column(table: Table) -> None:
    before = commit_staged(table, stage_indexes(table, [write_index(table, WORDS)], "words"))
    after = renamed(before, RENAMED)
    order = write_index(after, IndexIntent("body", IndexKind.BTREE))
    both = commit_staged(after, stage_indexes(after, [order], "order"))
    assert "@body_btree(" in both.dataset.scanner(filter="`body` = 'word 3'").explain_plan(True)
    words = text_index(both, "body")
    assert words is not None
    assert covered_texts(both, TextQuery("body", TextMatchKind.SEARCH, ("3",)), columns=["id"]).num_rows > 0


def test_an_index_goes_with_its_column(table: Table) -> None:
    before = indexed(table)
    kept = [LayoutColumn(before.schema.field(name), name) for name in ("id", "flag")]
    coming = [LayoutColumn(field) for field in before.schema if field.name not in ("id", "flag")]
    (staged,) = stage_columns(before, [*kept, *coming], [], "anew")
    after = commit_staged(before, staged)
    assert {each.name for each in after.dataset.describe_indices()} == {"id_btree", "flag_bitmap"}
    assert {each.name for each in open_table(after.location).dataset.describe_indices()} == {"id_btree", "flag_bitmap"}
    assert after.count("`text` IS NULL") == 600
    words = commit_staged(after, stage_indexes(after, [write_index(after, each) for each in (ORDER, WORDS)], "index"))
    assert {each.covered_rows for each in index_coverage(words).values()} == {600}


def test_upkeep_extends_the_order_of_a_renamed_column(tmp_path: Path) -> None:
    def numbers(name: str, start: int, end: int) -> pa.Table:
        return pa.table({"id": [f"r{number}" for number in range(start, end)], name: range(start, end)})

    table = commit_created(stage_create(location_of(tmp_path / "t"), numbers("n", 0, 100), "create"))
    index = write_index(table, IndexIntent("n", IndexKind.BTREE))
    table = renamed(commit_staged(table, stage_indexes(table, [index], "index")), {"n": "number"})
    for start in (100, 1_200):
        table = commit_staged(table, stage_append(table, numbers("number", start, start + 1_100), "append"))
    staged = stage_append(table, numbers("number", 2_300, 2_301), "append")
    extension = upkeep_after(table, staged, "append")
    assert extension is not None
    table = commit_staged(commit_staged(table, staged), extension)
    known = index_coverage(table)[IndexIntent("number", IndexKind.BTREE)]
    assert (known.name, known.segments, known.uncovered_rows) == ("n_btree", 2, 1)
    assert table.count("`number` = 1500") == 1
