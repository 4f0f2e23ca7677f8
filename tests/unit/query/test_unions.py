"""What unions find: the rows of all their parts, once or each, in one order."""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.catalog import Catalog
from omnigraph.compiler import compile_query, ir
from omnigraph.errors import ParameterError
from omnigraph.query import Shortcuts
from omnigraph.query.levels import KnownValues, page_of
from omnigraph.query.programs import program_of
from omnigraph.query.resident import run_program
from omnigraph.query.results import arrow_values
from omnigraph.query.unions import merge_parts
from tests.unit.query.conftest import ROWS
from tests.unit.query.reference import Reference
from tests.unit.query.test_against_reference import graphs, tidy
from tests.unit.query.test_optional import without_bytes
from tests.unit.query.test_resident import resident_view
from tests.unit.query.world import NOW, World, complete, written

TEXTS = [
    "match { $p: Person } return { $p.name as n } union match { $c: Company } return { $c.name as n }",
    "match { $p: Person } return { $p.name as n } union all match { $c: Company } return { $c.name as n }",
    # Equal rows of one part, and of several.
    "match { $p: Person } return { $p.city as c } union match { $p: Person } return { $p.city as c } order { c desc }",
    "match { $p: Person } return { $p.age as a } union match { $c: Company } return { $c.size as a } order { a desc }",
    "match { $p: Person } return { $p.age as a } union all match { $p: Person } return { $p.age * 1.5 as a } limit 4",
    'match { $p: Person } return { $p.city as c } union match { $p: Person } return { "rome" as c } offset 1',
    "match { $p: Person } return { $p.tags as t } union match { $p: Person } return { $p.tags as t } order { size(t) }",
    (
        'match { $p: Person } return { "person" as kind, $p.name as n, $p.age as a } union all '
        'match { $c: Company } return { "company" as kind, $c.name as n, null as a } order { length(n) desc } limit 4'
    ),
    "match { $p: Person } return { null as n } union match { $p: Person } return { null as n }",
    # Whole entities, by their ids, and then by their types.
    "match { $p: Person  $p knows $q } return { $q as p } union match { $p: Person { age: 20 } } return { $p }",
    "match { $p: Person } return { $p, 1 as n } union all match { $p: Person } return { $p, 2 as n } limit 6",
    "match { $n: Named } return { $n } union all match { $n: Named } return { $n } limit 5 offset 2",
    "match { $p $w:knows $q } return { $w } union match { $q $w:knows $p  $p.age > 20 } return { $w } order { 1 }",
    (
        "match { $p: Person  optional { $p worksAt $c } } return { $c } union "
        "match { $c: Company  $c.size = 3 } return { $c }"
    ),
    # Groups, distinct rows, stages.
    (
        "match { $p: Person  $p knows $f } return { $p.name as n, count($f) as c } having { c > 0 } union "
        "match { $p: Person  $f knows $p } return { $p.name as n, count($f) as c } order { c desc } limit 3"
    ),
    (
        "match { $p: Person } return { count($p) as c } union all match { $c: Company } return { sum($c.size) as c } "
        "union all match { $p: Person  1 = 2 } return { count($p) as c }"
    ),
    (
        "match { $p: Person } with { $p } order { $p.age desc } limit 2 return { $p.name as n } union all "
        "match { $p: Person } with { $p.name as n } order { n } limit 2 return { $n as n } order { n desc }"
    ),
    "match { $p: Person } return distinct { $p.city as c } union all match { $p: Person } return { $p.city as c }",
    (
        "match { $p: Person  $p.joined is not null } return { $p.joined as d } union "
        "match { $c: Company } return { cast($c.founded as DateTime) as d } order { d desc }"
    ),
    # Nothing.
    "match { $p: Person  1 = 2 } return { $p.name as n } union match { $c: Company } return { $c.name as n } limit 0",
    "match { $p: Person  1 = 2 } return { $p.name as n } union match { $c: Company  1 = 2 } return { $c.name as n }",
    "match { $c: Company  1 = 2 } return { $c } union match { $c: Company  1 = 2 } return { $c }",
]


def union_of(text: str, catalog: Catalog) -> ir.Union:
    body = compile_query(text if text.startswith("query") else f"query q {{ {text} }}", catalog).body
    assert isinstance(body, ir.Union)
    return body


def from_memory(union: ir.Union, world: World) -> pa.Table | None:
    """The rows of a union from tables in memory, if all parts can be answered from these."""
    view, values = resident_view(world.reader, world.catalog), KnownValues({}, NOW)
    tables = []
    for part in union.parts:
        program = program_of(part, world.catalog)
        if program is None:
            return None
        page, *stages = (page_of(each.shape, values, "q") for each in (part, *part.stages))
        columns = run_program(program, view, values, page=page, stages=stages)
        arrays = [arrow_values(each, field.type) for each, field in zip(columns, program.schema, strict=True)]
        tables.append(pa.Table.from_arrays(arrays, schema=program.schema))
    return merge_parts(tables, union, page_of(union.shape, values, "q"))


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("text", TEXTS)
def test_unions_mean_what_the_language_says(world: World, text: str) -> None:
    union = union_of(text, world.catalog)
    expected = tidy(without_bytes(Reference(world.catalog, complete(ROWS, world.catalog), {}, NOW).answer(union)))
    found = world.table(text)
    assert tidy(without_bytes(rows_of(found))) == expected
    remembered = from_memory(union, world)
    if remembered is not None:
        assert tidy(without_bytes(rows_of(remembered))) == expected
        assert str(remembered.schema) == str(found.schema)


def test_most_unions_are_answered_from_memory(world: World) -> None:
    # Persons have blobs, which are not kept in memory, and variables of several types are not followed there.
    answered = [from_memory(union_of(text, world.catalog), world) is not None for text in TEXTS]
    assert answered.count(False) == 3


_PARTS = [
    ("$p: Person", "$p.name as a, $p.age as b", "Person"),
    ("$p: Person  $p knows $q", "$q.city as a, $q.age as b", "Person"),
    ("$p: Person  $p knows $q", "$q.city as a, count($p) as b", "Person"),
    ("$p: Person  optional { $p worksAt $c }", "$c.name as a, $c.size as b", "Company"),
    ("$c: Company  $c contains{0,2} $d", "$d.name as a, $c.size * 0.5 as b", "Company"),
    ("$c: Company  $p worksAt $c", "concat($c.name, $p.name) as a, null as b", "Company"),
]
_ORDERS = ["", "order { a }", "order { b desc }", "order { b, a desc }", "order { length(a) desc, b }"]


@st.composite
def unions(draw: st.DrawFn) -> str:
    """Two or three parts that have the columns `a` and `b`."""
    parts = [
        f"match {{ {pattern} }} return {'distinct ' if draw(st.booleans()) else ''}{{ {columns} }}"
        for pattern, columns, _ in draw(st.lists(st.sampled_from(_PARTS), min_size=2, max_size=3))
    ]
    word = draw(st.sampled_from([" union ", " union all "]))
    page = draw(st.sampled_from(["", "limit 3", "limit 2 offset 1", "offset 2", "limit 0"]))
    return f"{word.join(parts)} {draw(st.sampled_from(_ORDERS))} {page}"


@settings(max_examples=100)
@given(rows=graphs(), text=unions())
def test_random_unions_mean_what_the_language_says(
    catalog: Catalog, rows: dict[str, list[dict[str, Any]]], text: str
) -> None:
    union = union_of(text, catalog)
    expected = tidy(Reference(catalog, complete(rows, catalog), {}, NOW).answer(union))
    with tempfile.TemporaryDirectory() as path:
        world = World(catalog, written(Path(path), catalog, rows))
        assert tidy(world.rows(text)) == expected
        remembered = from_memory(union, world)
        assert remembered is None or tidy(rows_of(remembered)) == expected


def test_a_limit_keeps_each_part_from_more_rows_than_can_be_wanted(world: World) -> None:
    text = (
        "query q($n: I64) { match { $p: Person } return { $p.name as n, $p.age as a } union all "
        "match { $c: Company } return { $c.name as n, $c.size as a } order { a desc } limit $n offset 1 }"
    )
    plan = world.planned_answer(text, {"n": 2}, Shortcuts.ALLOWED)
    assert [part.page.end for part in plan.reads] == [3, 3]
    assert [part.page.first for part in plan.reads] == [0, 0]
    assert len(world.rows(text, n=2)) == 2
    with pytest.raises(ParameterError, match="expected a limit of 0 or more"):
        world.rows(text, n=-1)


def test_the_plan_shows_the_parts_and_what_is_done_with_their_rows(world: World) -> None:
    text = (
        "match { $p: Person } return { $p.name as n } union match { $c: Company } return { $c.name as n } "
        "order { length(n), n desc } limit 2 offset 1"
    )
    plan = world.planned_answer(text, {}, Shortcuts.ALLOWED).explain(world.reader).split("\n")
    assert plan[:3] == ["query q", "  part 1", "    r0: scan nodes $p"]
    assert plan[-4:] == [
        "  union of 2 parts",
        "    sort by a computed value, n desc, all columns",
        "    limit 2",
        "    offset 1",
    ]
