"""Optional patterns mean the same from tables and in memory as in a plain reading of the language."""

from unittest import mock

import pytest

from omnigraph.catalog import Catalog
from omnigraph.compiler import compile_query, ir
from omnigraph.query import matching
from omnigraph.query.levels import KnownValues, page_of
from omnigraph.query.programs import Program, program_of
from omnigraph.query.resident import run_program
from omnigraph.query.results import python_values
from tests.unit.query.conftest import ROWS
from tests.unit.query.reference import Reference
from tests.unit.query.test_resident import resident_view
from tests.unit.query.world import NOW, World, complete

PATTERNS = """
// What is bound inside.
optional { $p worksAt $c }  ->  { $p.name, $c.name, $c.size, $c.founded, $c }
optional { $p $w:worksAt $c }  ->  { $p.name, $w, $w.since, $c.id }
optional { $p knows $q }  ->  { $p.name, $q.name, $q.tags }
optional { $p $k:knows $q }  ->  { $p.name, $k.id } order { $k.since desc, $q.age }
optional { $p <knows> $q  $q.age > 19 }  ->  { $p.name, $q.age }
optional { $p knows{1,3} $q }  ->  { $p.name, $q.name }
optional { $p knows{0,} $q  $q.age = 50 }  ->  { $p.name, $q.name }
optional { $p knows $_ }  ->  { $p.name }
optional { $p knows $p  $p $e:knows $p }  ->  { $p.name, $e.id }
! $p: Person { name: "Ada" }  optional { $p knows $q  $q worksAt $c }  ->  { $q.name, $c.name }
! $p: Person { name: "Eve" }  optional { $p knows $q }  ->  { $q, $q.name }
! $x: Named  optional { $x worksAt $c }  ->  { $x.name, $c.name }
optional { $x: Named  $x.name = $p.name }  ->  { $p.name, $x, $x.id }
optional { $c: Company  $c.size > 5 }  ->  { $p.name, $c.name }
optional { $c: Company  $c.size < 0 }  ->  { $p.name, $c.name }
// Conditions inside decide about fitting, those outside see nulls.
optional { $p worksAt $c }  $c is null  ->  { $p.name }
optional { $p worksAt $c }  $c is not null  ->  { $p.name }
optional { $p worksAt $c }  $c.size > 5  ->  { $p.name, $c.name }
optional { $p worksAt $c }  $c.size > 5 or $c is null  ->  { $p.name, $c.name }
optional { $p worksAt $c }  not $c.size > 5  ->  { $p.name, $c.name }
optional { $p worksAt $c }  $c.name = $p.name  ->  { $p.name }
optional { $p worksAt $c }  not { $c worksAt $q  $q.age > 30 }  ->  { $p.name }
optional { $p worksAt $c }  exists { $c worksAt $q  $q.age > 30 }  ->  { $p.name }
optional { $p worksAt $c }  ->  { $p.name, count { $c worksAt $_ } as n, exists { $c.size > 5 } as e }
optional { $p worksAt $c }  not { $c.size > 5 }  ->  { $p.name }
optional { $p knows $q  $p.age > 30 }  ->  { $p.name, $q.name }
optional { $p knows $q  $q.age < $p.age }  $p.age > 5  ->  { $p.name, $q.name }
optional { $p knows $q }  $q = $p  ->  { $p.name }
optional { $p knows $q }  $q != $p  ->  { $p.name, $q.name }
optional { $p knows $q }  ->  { $p.name, $q = $p as same, $q != $p as other }
optional { $x: Named  $x.name = $p.name  $x.id != $p.id }  ->  { $p != $x as d, $x = $p as s }
! $x: Named  optional { $x knows $q }  ->  { $x.id, $x = $q as s, $x != $q as d }
optional { $p knows $q  search($q.bio, "program") }  ->  { $p.name, $q.bio }
optional { $p knows $q }  search($q.bio, "program")  ->  { $p.name, $q.bio }
optional { $p knows $q }  not search($q.bio, "program")  ->  { $p.name, $q.bio }
optional { $p knows $q  $q.name = "Bob" }  ->  { $p.name, $q.name }
optional { $q: Person { name: "Bob" }  $p knows $q }  ->  { $p.name, $q.age }
optional { $p knows $q  $q.name = null }  ->  { $p.name, $q.name }
optional { $p knows $q  $q.age = 1.5  not { $q knows $_ } }  ->  { $p.name, $q.name }
optional { $p knows $q  $q.age = 1.5  optional { $q worksAt $c } }  ->  { $p.name, $c.name }
// Several, in their order.
optional { $p worksAt $c }  optional { $p knows $q }  ->  { $p.name, $c.name, $q.name }
optional { $p knows $q }  optional { $q worksAt $c }  ->  { $p.name, $q.name, $c.name }
optional { $p knows $q }  optional { $q knows{0,2} $r }  ->  { $p.name, $q.name, $r.name }
optional { $p worksAt $c }  optional { $q: Person  $c is null  $q.name = $p.name }  ->  { $p.name, $q.name }
optional { $p worksAt $c }  optional { $q worksAt $c  $q != $p }  ->  { $p.name, $q.name }
optional { $p knows $q  $q.age > 30 }  $q is null  optional { $p knows $r }  ->  { $p.name, $r.name }
// Nested in each other, and asking for patterns.
optional { $p knows $q  optional { $q worksAt $c } }  ->  { $p.name, $q.name, $c.name }
optional { $p knows $q  optional { $q worksAt $c }  $c is null }  ->  { $p.name, $q.name }
optional { $p knows $q  optional { $q knows $r  $r knows $p } }  ->  { $p.name, $q.name, $r.name }
optional { $p.age > 20  optional { $p knows $q } }  ->  { $p.name, $q.name }
optional { $p knows $q  optional { $q knows $r  optional { $r knows $s  $s != $p } } }
    ->  { $p.name, $q.name, $r.name, $s.name }
optional { $p knows $q  not { $q worksAt $_ } }  ->  { $p.name, $q.name }
optional { $p knows $q  not { $q knows $r  $r.age > $p.age } }  ->  { $p.name, $q.name }
optional { $p knows $q  exists { $q knows $r  $r.age <= $p.age } or $q.age > 30 }  optional { $q worksAt $c }
    ->  { $p.name, $q.name, $c.name }
optional { $p knows $q  count { $q knows $r  $r != $p } > 0  not { $p worksAt $_ } }  ->  { $p.name, $q.name }
$p.age > 10  optional { $p knows $q  not { $q worksAt $_ } }  $q.age > $p.age or $q is null
    ->  { $p.name, $q.name } order { $q.name desc } limit 3
! $p: Person { name: "Ada" }  $p knows $q  optional { $q knows $r  not { $r worksAt $_ } }
    ->  { $q.name, $r.name, upper($r.name) as u }
! $x: Named  optional { $x worksAt $c  not { $c.size > 5 } }  ->  { $x, $c }
optional { $p.age > 20  $p knows $q  optional { $q worksAt $c } }  not { $q knows $p }  ->  { $p.name, $q, $c }
// Paths.
optional { $q: Person { name: "Dan" }  $r: shortest $p knows{1,4} $q }  ->  { $p.name, $r.length, $r, $q.name }
$q: Person  $p != $q  optional { $r: all shortest $p knows{2,4} $q }  $r is null or $r.length > 2  ->  { $p.id, $q.id }
optional { $p knows $q }  optional { $r: shortest $q <knows>{1,3} $p }  ->  { $p.name, count($r) as n }
optional { $p worksAt $_  optional { $q: Person { name: "Cyd" }  $r: shortest $p knows{0,3} $q } }  ->  { $p.name, $r }
$r: shortest $p knows{1,3} $q  optional { $a $r $b  $b.age is null  not { $b worksAt $_ } }  ->  { $p.id, $q.id, $a.id }
// Groups.
optional { $p worksAt $c }  ->  { count($p) as p, count($c) as c }
optional { $p knows $q }  ->  { $p.name, count($q) as n } order { n desc }
optional { $p $k:knows $q }  ->  { $p.name, count($k) as n, count($p) as r, count($q.age) as a }
optional { $p knows $q }  ->  { $q, count($p) as n }
optional { $p knows $q }  ->  { $q.id, $q.name, count($p) as n, max($p.age) as a }
optional { $p knows $q }  ->  { $q.city, count($q) as n, sum($q.age) as s, avg($q.age) as a }
optional { $p knows $q  optional { $q worksAt $c } }  ->  { $c.name, count($q) as q, count($c) as c }
optional { $p knows $q  $q.age > 5 }  optional { $p worksAt $c }  ->  { $p.city, count($q) as q, count($c) as c }
optional { $p knows $q }  $q is null  ->  { count($p) as n }
optional { $p knows{1,2} $q }  ->  { $p.name, count($q) * 2 as n, count($q) > 1 as m }
optional { $p <knows> $q }  ->  { $q is null as alone, count($p) as n }
optional { $p worksAt $c }  ->  { count($c) }
optional { $p knows $q }  ->  { $p.city, count(distinct $q) as n, collect($q.name) as c, count(distinct $q.age) as a }
optional { $x: Named  $x.name = $p.name  $p.age > 30 }  ->  { count(distinct $x) as n, count($x) as m }
optional { $p knows $q }  ->  distinct { $q, $q.city }
optional { $p knows $q }  ->  { $q.id, count($p) as n } having { n > 0 and $q.id is not null }
// Order and limit.
optional { $p knows $q }  ->  { $p.name, $q.name } order { $q.age desc } limit 4
optional { $p knows $q }  ->  { $p.name, $q.name } order { $q.name, $p.name } limit 3
optional { $p knows $q }  ->  { $p.name, $q.name } limit 2
optional { $p knows $q }  ->  { $p.name, $q.name } limit 0
optional { $p knows $q }  ->  { coalesce($q.age, -1) as a, 1 as one } order { $q.id }
"""


def _text(line: str) -> str:
    """A line as a query. The pattern begins with persons, unless it has a mark."""
    clauses, returned = line.split("  ->  ")
    begin = "" if clauses.startswith("!") else "$p: Person  "
    return f"match {{ {begin}{clauses.removeprefix('! ')} }} return {returned}"


STAGES = [
    (
        "match { $p: Person  optional { $p worksAt $c } } with { $p, $c } "
        "match { optional { $c worksAt $q  $q != $p } } return { $p.name, $c.name, $q.name, $c }"
    ),
    "match { $p: Person  optional { $p worksAt $c } } with { $p, $c } match { $c worksAt $q } return { $p.id, $q.id }",
    "match { $p: Person  optional { $p knows $q } } with { $q, count($p) as n } return { $q.id, $n, $q is null as m }",
    "match { $p: Person  optional { $p knows $q } } with { $q, count($q) as n } return { $q, $n } order { n desc }",
    (
        "match { $p: Person } with { $p.city as city } "
        "match { optional { $q: Person { city: $city }  not { $q knows $_ } } } return { $city, $q.name }"
    ),
    (
        "match { $p: Person  $p knows $f } with { $f } match { optional { $f knows $g  optional { $g worksAt $c } } }"
        " return { $f.name, $g.name, $c.name }"
    ),
    (
        "match { $p: Person } with { $p, $p.age as a } order { a desc } limit 4 "
        "match { optional { $p knows $q  not { $q worksAt $_ } } } return { $p.name, $q.name, $a }"
    ),
    (
        "match { $p: Person  optional { $p knows $q  not { $q worksAt $_ } } } with { $q as r, count($p) as n } "
        "match { not { $r knows $_ } } return { $r.name, $n }"
    ),
    (
        "match { $p: Person } with { $p.city as city, count($p) as n } "
        "match { optional { $q: Person { city: $city }  optional { $q worksAt $c  $n > 1 } } } "
        "return { $city, count($q) as q, count($c) as c, sum($n) as s }"
    ),
]
TEXTS = [
    _text(line) for line in PATTERNS.replace("\n    ", "  ").strip().split("\n") if not line.startswith("//")
] + STAGES


def expected_rows(text: str, catalog: Catalog) -> list[tuple[object, ...]]:
    query = compile_query(f"query q {{ {text} }}", catalog)
    assert isinstance(query.body, ir.Read)
    return Reference(catalog, complete(ROWS, catalog), {}, NOW).answer(query.body)


def without_bytes(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The rows, with entities told apart by their ids alone."""
    return [tuple(cell.get("id", cell) if isinstance(cell, dict) else cell for cell in row) for row in rows]


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_optional_is_found_from_tables(world: World, text: str) -> None:
    assert without_bytes(world.rows(text)) == without_bytes(expected_rows(text, world.catalog))


def program(text: str, catalog: Catalog) -> Program | None:
    query = compile_query(f"query q {{ {text} }}", catalog)
    assert isinstance(query.body, ir.Read)
    return program_of(query.body, catalog)


@pytest.mark.parametrize("merged_rows", [512, 0])
@pytest.mark.parametrize("text", TEXTS)
def test_what_is_optional_is_found_in_memory(world: World, text: str, merged_rows: int) -> None:
    found = program(text, world.catalog)
    if found is None:
        assert any(word in text for word in ("Named", "search(", "shortest", "return { $c }", "$q, ", "$q }", "$c }"))
        return
    values = KnownValues({}, NOW)
    pages = [page_of(stage.shape, values, "q") for stage in (*found.read.stages, found.read)]
    view = resident_view(world.reader, world.catalog)
    for few in (matching.FEW_VALUES, 0):
        with mock.patch.object(matching, "_MERGED_ROWS", merged_rows), mock.patch.object(matching, "FEW_VALUES", few):
            columns = run_program(found, view, values, page=pages[-1], stages=pages[:-1])
        rows = list(zip(*map(python_values, columns), strict=True)) if columns else []
        assert without_bytes(rows) == without_bytes(expected_rows(text, world.catalog))
