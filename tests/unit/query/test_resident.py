"""A program over tables in memory finds what a plain reading of the language finds, in the same order."""

import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import event, given, settings

import omnigraph as og
from omnigraph.api.data import no_frame
from omnigraph.catalog import Catalog
from omnigraph.compiler import compile_query, ir
from omnigraph.query import matching
from omnigraph.query.levels import KnownValues, page_of
from omnigraph.query.matching import Frame
from omnigraph.query.programs import NoProgram, program_of
from omnigraph.query.reading import MemoryResult
from omnigraph.query.resident import run_program
from omnigraph.resident.cache import ResidentCache
from omnigraph.resident.links import link
from omnigraph.resident.memory import MemoryBound
from omnigraph.resident.tables import read_table
from omnigraph.resident.view import ResidentView
from tests.unit.query.reference import Reference
from tests.unit.query.test_against_reference import graphs, queries, tidy
from tests.unit.query.world import NOW, LanceReader, complete, written


def resident_view(reader: LanceReader, catalog: Catalog) -> ResidentView:
    """The tables of a reader, in memory."""
    memory = MemoryBound()
    ends = {edge.table_key: (f"node:{edge.source}", f"node:{edge.destination}") for edge in catalog.edges.values()}
    return ResidentView(
        lambda key: read_table(reader.table(key), memory),
        lambda view, key: link(view.table(key), (view.table(ends[key][0]), view.table(ends[key][1]))),
    )


@settings(max_examples=100)
@given(rows=graphs(), text=queries())
def test_a_program_finds_what_the_language_means(
    catalog: Catalog, rows: dict[str, list[dict[str, Any]]], text: str
) -> None:
    query = compile_query(text, catalog)
    assert isinstance(query.body, ir.Read)
    program = program_of(query.body, catalog)
    event("program" if program is not None else "none")
    if program is None:
        return
    expected = Reference(catalog, complete(rows, catalog), {}, NOW).answer(query.body)
    values = KnownValues({}, NOW)
    with tempfile.TemporaryDirectory() as path:
        view = resident_view(written(Path(path), catalog, rows), catalog)
        for merged_rows in (512, 0):
            try:
                with mock.patch.object(matching, "_MERGED_ROWS", merged_rows):
                    page, *stages = (page_of(each.shape, values, "q") for each in (query.body, *query.body.stages))
                    columns = run_program(program, view, values, page=page, stages=stages)
            except NoProgram:
                return
            found = MemoryResult(columns, program, "commit", no_frame)
            for rows_found in (found.rows(), found.to_arrow().to_pylist()):
                assert tidy([tuple(row.values()) for row in rows_found]) == tidy(expected)


def _numbers(count: int) -> dict[str, list[dict[str, Any]]]:
    """Persons in a ring who each know the next three."""
    names = [f"p{number:04}" for number in range(count)]
    return {
        "Person": [{"name": name, "age": number % 7} for number, name in enumerate(names)],
        "Knows": [{"from": name, "to": names[(at + by) % count]} for at, name in enumerate(names) for by in (1, 2, 3)],
    }


@pytest.mark.parametrize(
    "text",
    [
        "query q { match { $p: Person  $p knows $q } return { $p.id, count($q) as n } order { n desc } limit 3 }",
        "query q { match { $p: Person  $p knows $q  $q knows $r  $r knows $s } return { $s.age, count($p) as n } }",
        'query q { match { $p: Person { name: "p0001" }  $p knows{1,4} $q } return { count($q) as n } }',
        "query q { match { $p: Person  $p knows{2,3} $q } return { $p.age, count($q) as n, sum($p.age) as s } }",
        "query q { match { $p: Person  $p knows $q  $q knows $r } return { $r.age, avg($r.age), max($q.name) } }",
    ],
)
def test_what_is_only_counted_is_not_made(tmp_path: Path, text: str) -> None:
    graph = og.init(tmp_path / "g.omni", "node Person { name: String @key, age: I32 } edge Knows: Person -> Person")
    graph.load({name: pa.Table.from_pylist(rows) for name, rows in _numbers(700).items()}, engine="local")
    with mock.patch.object(Frame, "take", side_effect=Frame.take, autospec=True) as take:
        found = graph.query(text)
    assert isinstance(found, MemoryResult)
    assert all(len(call.args[0].columns) < 3 for call in take.call_args_list)
    with mock.patch.object(ResidentCache, "view", return_value=None):
        assert found.rows() == graph.query(text).rows()


TOWNS = """
node Person { name: String @key, age: I32? }
node Town { number: I64 @key, name: String }
node Seat { row: I32, place: String, kind: String?  @key(row, place) }
edge Knows: Person -> Person
edge LivesIn: Person -> Town { since: I32? }
edge SitsOn: Person -> Seat
edge Mayor: Town -> Person
"""


@pytest.mark.parametrize("changed", [False, True])
def test_edges_to_one_node_and_groups_by_keys_are_as_from_the_tables(tmp_path: Path, changed: bool) -> None:
    """Most people live in one town, and some in none; names of towns are not unique, their numbers are."""
    graph = og.init(tmp_path / "g.omni", TOWNS)
    names = [f"p{number:03}" for number in range(300)]
    at_home = names[:250] if changed else names
    graph.load(
        {
            "Person": pa.table({"name": names, "age": pa.array([at % 5 or None for at in range(300)], pa.int32())}),
            "Town": pa.table({"number": range(12), "name": [f"t{at % 4}" for at in range(12)]}),
            "Seat": pa.table(
                {
                    "row": pa.array([at // 3 for at in range(9)], pa.int32()),
                    "place": [*"abc"] * 3,
                    "kind": [None, "x", "x"] * 3,
                }
            ),
            "Knows": pa.table({"from": names * 2, "to": names[1:] + names[:1] + names[7:] + names[:7]}),
            "LivesIn": pa.table(
                {
                    "from": at_home,
                    "to": [at * 7 % 12 for at in range(len(at_home))],
                    "since": pa.array([at % 9 for at in range(len(at_home))], pa.int32()),
                }
            ),
            "SitsOn": pa.table({"from": names[::3], "to": [f'["{at % 3}","{"abc"[at % 2]}"]' for at in range(100)]}),
            "Mayor": pa.table({"from": [0, 1, 5], "to": ["p003", "p000", "p250"]}),
        },
        engine="local",
    )
    if changed:
        graph.mutate(
            'query q { insert LivesIn { from: "p260", to: 3 } insert LivesIn { from: "p000", to: 4, since: 1 } '
            'delete LivesIn where src = "p001" delete Person where name = "p007" '
            'insert Town { number: 99, name: "t0" } }'
        )
    for text in (
        "match { $p: Person  $p livesIn $t } return { $t.name, $t.number, count($p) as n }",
        "match { $p: Person  $p livesIn $t } return { $t.number, $t.name, sum($p.age) as n } order { n desc } limit 5",
        "match { $p: Person  optional { $p livesIn $t  $t.number < 3 } } return { $t.name, $t.number, count($p) as n }",
        "match { $p: Person  optional { $p sitsOn $s } } return { $s.kind, $s.place, $s.row, count($p) as n }",
        "match { $p: Person  $p sitsOn $s } return { $s.place, $s.kind, count($p) as n }",
        "match { $p: Person  $p sitsOn $s } return distinct { $s.row, $s.place, $s.kind } order { $s.kind desc }",
        "match { $p: Person  $p $l:livesIn $t  $l.since > 4 } return { $p.name, $l.since, $t.name }",
        "match { $p: Person  $p knows $q  $p livesIn $t  $q livesIn $t } return { $p.name, $q.name, $t.number }",
        "match { $t: Town  $t mayor $p  $p livesIn $t } return { $t.number, $p.name }",
        "match { $p: Person  $p knows $q } return { $p.name, count { $p livesIn $t  $q livesIn $t } as n }",
        "match { $t: Town } return { $t.number, count { $p livesIn $t  $p knows $q  $q livesIn $t } as n }",
        "match { $p livesIn $t } with { $t.name as a, $t.number as b, count($p) as n } match { $n > 9 } return { $a }",
    ):
        query = f"query q {{ {text} }}"
        found = graph.query(query)
        assert isinstance(found, MemoryResult), text
        with mock.patch.object(ResidentCache, "view", return_value=None):
            assert found.rows() == graph.query(query).rows(), text
