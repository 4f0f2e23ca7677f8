"""Rows of a type under another schema of the same graph."""

import datetime

import pyarrow as pa

from omnigraph.catalog import Catalog, EntityType, compile_schema, table_schema
from omnigraph.catalog.conversion import (
    columns_that_came,
    computed_columns,
    continued_columns,
    convert_rows,
    kept_columns,
)
from omnigraph.diagnostics import Source
from omnigraph.evolution.migration import migration_plan


def later(before: Catalog, text: str) -> Catalog:
    plan = migration_plan(before, Source("new.pg", text))
    assert not plan.refused
    return plan.catalog


def pair(first: str, *others: str) -> tuple[EntityType, EntityType]:
    """The first type of the first schema, and what it is in the last of them."""
    catalog = before = compile_schema(first)
    for text in others:
        catalog = later(catalog, text)
    entity = next(iter(before.nodes.values()))
    return entity, next(each for each in catalog.nodes.values() if each.identity == entity.identity)


def test_rows_are_renamed_cast_dropped_and_filled() -> None:
    first = "node A { k: String @key, n: I32?, l: [U32]?, gone: String? }"
    second = """
        node B @rename_from("A") {
            k: String @key, l: [U64]?, m: I64? @rename_from("n"), gone: I32 @default(3)
            day: Date @default(date("2026-01-31")), tags: [String] @default(["a"]), none: Blob?
        }
    """
    before, after = pair(first, first.replace(", gone: String?", ""), second)
    rows = pa.Table.from_pylist(
        [{"id": "x", "k": "x", "n": 1, "l": [2], "gone": "text"}, {"id": "y", "k": "y"}], table_schema(before)
    )
    found = convert_rows(rows, before, after)
    assert found.schema.equals(table_schema(after), check_metadata=True)
    came = {"gone": 3, "day": datetime.date(2026, 1, 31), "tags": ["a"], "none": None}
    assert found.to_pylist() == [
        {"id": "x", "k": "x", "l": [2], "m": 1, **came},
        {"id": "y", "k": "y", "l": None, "m": None, **came},
    ]
    assert convert_rows(rows, before, before).equals(rows)
    assert continued_columns(before, after) == {"id": "id", "k": "k", "n": "m", "l": "l"}
    assert {name: value.as_py() for name, value in columns_that_came(before, after).items()} == came


def test_what_came_is_filled_with_what_it_came_with_and_not_with_a_later_default() -> None:
    first = "node A { k: String @key }"
    one = "node A { k: String @key, n: I32 @default(1) }"
    before, after = pair(first, one, one.replace("1", "2"))
    assert convert_rows(pa.table({"id": ["x"], "k": ["x"]}), before, after)["n"].to_pylist() == [1]


def test_vectors_that_a_model_computed_for_rows_that_were_there_are_told_apart() -> None:
    text = 'node A { t: String, u: String, v: Vector(2)? @embed("t", model="x") }'
    same, other = pair(
        text, text.replace('"t"', '"w"').replace("t: String", 't2: String? , w: String @rename_from("t")')
    )
    assert computed_columns(same, other) == frozenset(), "its text has another name, and is the same"
    for new in (text.replace('"x"', '"y"'), text.replace('"t"', '"u"')):
        assert computed_columns(*pair(text, new)) == {"v"}
    added = text.replace(
        "u: String,", 'u: String, w: Vector(2) @embed("u", model="x"), z: Vector(2)? @embed("u", model="x"),'
    )
    before, after = pair(text, added)
    assert computed_columns(before, after) == {"w"}, "where it may be null, the rows have none"
    assert kept_columns(before, after) == {"id", "t", "u"}
