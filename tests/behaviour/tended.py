"""A world in which every kind of index is declared, and short ways to see how its tables are laid out."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from lance.query import MatchQuery

import omnigraph as og
from omnigraph.catalog import IndexIntent, IndexKind
from omnigraph.maintenance import layout
from omnigraph.storage.indexes import index_coverage
from omnigraph.storage.tables import Table

SCHEMA = """
node Doc {
    name: String @key
    size: I32? @index
    color: enum(red, green, blue)? @index
    text: String? @index
    tags: [String]? @index
    code: String? @index("substring")
    place: Vector(4)? @index
    scan: Blob?
}
node Shelf { name: String @key }
edge Cites: Doc -> Doc { weight: I32? }
"""
DOC, SHELF, CITES = "node:Doc", "node:Shelf", "edge:Cites"
COLORS = ("red", "green", "blue")
Row = dict[str, Any]


def doc(name: str, number: int) -> Row:
    """A document; its values depend on the number, its key on the name."""
    return {
        "name": name,
        "size": number % 20,
        "color": COLORS[number % 3],
        "text": f"word{number % 20} common",
        "tags": [f"t{number % 7}", f"s{number % 4}"],
        "code": f"code{number % 30}x",
        "place": [float(number % 10), 1.0, float(number % 3), 2.0],
        "scan": bytes([number % 256]) * 3,
    }


def named(first: int, count: int) -> list[Row]:
    """Documents that follow one another."""
    return [doc(f"d{number}", number) for number in range(first, first + count)]


def put(graph: og.Graph, docs: Iterable[Row], *, branch: str = "main", mode: str = "merge") -> None:
    """Loads documents as one commit."""
    graph.load({"Doc": pa.Table.from_pylist(list(docs))}, mode, branch=branch)


def fragmented(folder: Path, *, docs: int = 300, more: int = 6) -> og.Graph:
    """A graph with indexes over its first documents, and further fragments that none covers."""
    graph = og.init(folder / "graph.omni", SCHEMA, durability="fast")
    put(graph, named(0, docs), mode="append")
    graph.ensure_indices()
    for turn in range(more):
        put(graph, named(docs + turn * 5, 5), mode="append")
    return graph


def fragments(graph: og.Graph, key: str = DOC, branch: str = "main") -> dict[int, int]:
    """The rows of each fragment."""
    return {each.number: each.rows for each in table_of(graph, key, branch).fragment_sizes()}


def table_of(graph: og.Graph, key: str = DOC, branch: str = "main") -> Table:
    return graph.snapshot(branch).table(key)


def uncovered(graph: og.Graph, key: str = DOC, branch: str = "main") -> dict[str, int]:
    """How many rows each index that is there does not cover, if any."""
    found = index_coverage(table_of(graph, key, branch)).values()
    return {each.name: each.uncovered_rows for each in found if each.uncovered_rows}


def assert_indexes_find_what_is_there(graph: og.Graph, branch: str = "main") -> None:
    """Every kind of condition gives the rows that meet it, whatever the indexes cover."""
    table = table_of(graph, DOC, branch)
    rows = table.scan().to_pylist()
    for condition, holds in _conditions():
        found = sorted(table.scan(["id"], condition)["id"].to_pylist())
        assert found == sorted(row["id"] for row in rows if holds(row)), (branch, condition)
    if IndexIntent("text", IndexKind.FULL_TEXT) in index_coverage(table):
        for number in range(0, 20, 3):
            query = MatchQuery(f"word{number}", "text")
            hits = table.dataset.scanner(columns=["id", "_score"], full_text_query=query, limit=10_000).to_table()
            expected = sorted(row["id"] for row in rows if (row["text"] or "").startswith(f"word{number} "))
            assert sorted(hits["id"].to_pylist()) == expected, (branch, number)


def _conditions() -> Iterator[tuple[str, Callable[[Row], bool]]]:
    for number in range(0, 20, 3):
        yield f"size = {number}", partial(_is, "size", number)
        yield f"text = 'word{number} common'", partial(_is, "text", f"word{number} common")
        yield f"contains(code, 'code{number}x')", partial(_has, "code", f"code{number}x")
        yield f"id = 'd{number * 17}'", partial(_is, "id", f"d{number * 17}")
    for color in COLORS:
        yield f"color = '{color}'", partial(_is, "color", color)
    for number in range(7):
        yield f"array_has(tags, 't{number}')", partial(_has, "tags", f"t{number}")


def _is(column: str, value: object, row: Row) -> bool:
    return bool(row[column] == value)


def _has(column: str, value: str, row: Row) -> bool:
    return value in (row[column] or ())


def small_thresholds(patch: pytest.MonkeyPatch) -> None:
    """Tables of a hundred rows are large, so that every case comes up in little time."""
    patch.setattr(layout, "SMALL_FRAGMENT", 60)
    patch.setattr(layout, "FULL_FRAGMENT", 200)


def change_something(graph: og.Graph, chance: Random, branch: str) -> None:
    """One write of any kind: some new documents, some that change, one that goes."""
    match chance.randrange(3):
        case 0:
            first = chance.randrange(1_000, 1_000_000)
            put(graph, named(first, chance.choice([1, 3, 30, 70])), branch=branch)
        case 1:
            count = chance.choice([1, 2, 20])
            put(
                graph,
                [doc(f"d{name}", chance.randrange(1_000)) for name in chance.sample(range(300), count)],
                branch=branch,
            )
        case _:
            query = "query q($name: String) { delete Doc where name = $name }"
            graph.mutate(query, params={"name": f"d{chance.randrange(300)}"}, branch=branch)
