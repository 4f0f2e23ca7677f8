"""The first rows of a large type: the same as if all were sorted, without holding all of them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.catalog import Catalog
from omnigraph.errors import QueryCancelled, QueryExceedsMemory
from omnigraph.query import Cancellation, execute, leaves
from omnigraph.query.leaves import FEW_ROWS, MANY_ROWS, in_order
from omnigraph.query.steps import DirectSort
from tests.unit.query.world import World, written

BIO = 200
PEOPLE = MANY_ROWS + 2000


@pytest.fixture(scope="module")
def crowd(catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> World:
    """So many people that they are not read at once; two companies come between them."""
    people: list[dict[str, Any]] = [
        {"name": f"p{number:05}", "age": None if number % 11 == 0 else number % 97, "bio": f"{number} " + "x" * BIO}
        for number in (place * 7919 % PEOPLE for place in range(PEOPLE))
    ]
    companies: list[dict[str, Any]] = [{"name": "a-company", "size": 1}, {"name": "p00002-company", "size": 2}]
    rows = {"node:Person": people, "node:Company": companies}
    return World(catalog, written(tmp_path_factory.mktemp("crowd"), catalog, rows))


def held(world: World, text: str, most: int) -> list[dict[str, Any]]:
    """The answer of a query that may hold no more bytes than this."""
    found = execute(world.plan(text), world.reader, cancellation=Cancellation(max_bytes=most))
    return list(found.to_pylist())


@pytest.mark.parametrize("count", [7, FEW_ROWS, FEW_ROWS + 1, PEOPLE + 1])
@pytest.mark.parametrize("order", ["", "order { $p.age }", "order { $p.age desc, $p.name desc }"])
@pytest.mark.parametrize("condition", ["", "$p.age > 90", "$p.age > 1000"])
def test_they_are_those_that_sorting_all_rows_gives(crowd: World, condition: str, order: str, count: int) -> None:
    read = f"match {{ $p: Person  {condition} }} return {{ $p.name, $p.age, $p.bio }} {order}"
    assert crowd.rows(f"{read} limit {count}") == crowd.rows(read)[:count]


@pytest.mark.parametrize("count", [1, 5, PEOPLE + 2])
def test_they_are_found_among_several_types(crowd: World, count: int) -> None:
    read = "match { $n: Named } return { $n }"
    assert crowd.rows(f"{read} limit {count}") == crowd.rows(read)[:count]


def test_the_other_rows_are_not_held(crowd: World) -> None:
    few = PEOPLE * BIO // 2
    for order in ("", "order { $p.age desc }"):
        read = f"match {{ $p: Person }} return {{ $p }} {order}"
        with pytest.raises(QueryExceedsMemory):
            held(crowd, read, few)
        assert len(held(crowd, f"{read} limit 10", few)) == 10


def test_a_few_rows_of_many_are_read_at_once(crowd: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a filter leaves little of costs no second look at the table."""
    table = crowd.reader.table("node:Person")
    monkeypatch.delattr(type(table), "batches")
    assert crowd.rows('match { $p: Person { name: "p00007" } } return { $p.age } limit 1') == [(7,)]


def test_looking_for_them_can_be_stopped(crowd: World) -> None:
    stopped = Cancellation()
    stopped.cancel()
    with pytest.raises(QueryCancelled):
        execute(crowd.plan("match { $p: Person } return { $p } limit 3"), crowd.reader, cancellation=stopped)


def test_no_row_is_read_where_none_is_wanted(catalog: Catalog, tmp_path: Path) -> None:
    world = World(catalog, written(tmp_path, catalog, {"node:Person": [{"name": "Ada", "age": 1, "bio": ""}]}))
    for read in ("return { $p.name }", "return { count($p) as n }", "return { $p.age, max($p.name) as last }"):
        assert world.rows(f"match {{ $p: Person }} {read} limit 0") == []
    assert world.reader.scans == []


def test_rows_with_more_text_than_an_array_holds_are_sorted() -> None:
    text = pa.array(["x" * 1_000_000])
    count = 2_200
    rows = pa.table({"number": range(count), "text": pa.chunked_array([text] * count)})
    with pytest.raises(pa.ArrowInvalid):
        rows.take([0])
    order = [DirectSort("number", descending=True, nulls_first=False)]
    found = in_order(rows, order, 2)
    assert found["number"].to_pylist() == [count - 1, count - 2]
    assert found["text"].to_pylist() == text.to_pylist() * 2


@pytest.mark.parametrize("limit", [5, FEW_ROWS + 1])
def test_few_bytes_of_rows_are_kept(crowd: World, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    read = "match { $p: Person } return { $p.name, $p.bio } order { $p.bio desc }"
    expected = crowd.rows(read)[:limit]
    monkeypatch.setattr(leaves, "_PENDING_BYTES", 10_000)
    assert crowd.rows(f"{read} limit {limit}") == expected
