"""What stages find: each continues from the rows of the one before."""

from typing import Any

import pytest

from omnigraph.compiler import compile_query, ir
from omnigraph.errors import ParameterError
from tests.unit.query.conftest import ROWS
from tests.unit.query.reference import Reference
from tests.unit.query.world import NOW, World, complete

TEXTS = [
    (
        "match { $p: Person  $p knows $f } with { $p, count($f) as n } match { $p worksAt $c  $n > 1 } "
        "return { $p.name, $n }"
    ),
    (
        "match { $p: Person } with { avg($p.age) as mean } match { $q: Person  $q.age > $mean } "
        "return { $q.name, $mean }"
    ),
    (
        "match { $p: Person  $p knows $f } with { $f, count($p) as n } order { n desc } limit 2 "
        "match { $f knows $g } with { $g, sum($n) as s } return { $g.name, $s, $g.age } order { s }"
    ),
    # The order of a stage decides between rows that are equal otherwise.
    "match { $p: Person } with { $p, $p.age as a } order { a desc, $p.name desc } limit 4 return { $p.name, $a }",
    (
        "match { $p: Person } with { $p.name as n } order { n desc } with { $n as m } "
        "return { $m, length($m) as l } order { l }"
    ),
    "match { $p: Person  $p knows $f } with { $p } return { $p.name }",
    (
        "match { $p: Person } with { $p.city as c } order { $p.name desc } limit 3 "
        "match { $q: Person { city: $c } } return { $q.name }"
    ),
    # Edges and interfaces.
    (
        "match { $p: Person  $p $w:knows $f } with { $w, $f as g } match { $g knows $h } "
        "return { $w.since, $h.name, $w.id }"
    ),
    "match { $n: Named } with { $n } match { not { $n worksAt $_ } } return { $n.name, $n.id }",
    (
        "match { $n: Named } with { $n, 2 as two } match { $n worksAt $c  $c.size > $two } "
        "return { $n.id, $c.name, $two }"
    ),
    "match { $n: Named } with { $n as a } match { $m: Named  $m = $a } return { $m.id, $a.name }",
    # Values where values can be.
    (
        "match { $p: Person } with { $p.city as city, count($p) as n } match { $q: Person { city: $city } } "
        "return { $q.name, $n }"
    ),
    (
        'match { $p: Person } with { $p.tags as t } match { $q: Person  "math" in $t } '
        "return { $q.name, $t, size($t) as s }"
    ),
    (
        "match { $p: Person } with { $p.tags as t, $p.bio as b } match { $q: Person  $b contains $q.name } "
        "return { $q.name, $t }"
    ),
    "match { $p: Person } with { $p, $p.age as a } match { not { $p knows $f  $f.age > $a } } return { $p.name, $a }",
    (
        "match { $p: Person } with { $p, $p.age as a } match { $a >= 20.5 or $a is null } "
        "return { $p.name, $a * 2 as b }"
    ),
    (
        "match { $p: Person } with { $p, count { $p knows $_ } as n } match { $p knows $f } "
        "return { $n, max($f.age), count($f) }"
    ),
    "match { $p: Person } with { $p.age as id, $p.city as src } return { $id, $src } order { $id desc }",
    "match { $p: Person } with { $p.age as id } return { $id, count($id) as n }",
    "match { $p: Person } with { $p, $p.age > 30 as old } match { $old = true } return { $p.name }",
    # Stages without rows, without entities, without columns that are needed.
    "match { $p: Person  1 = 2 } with { count($p) as n } match { $q: Person } return { $q.name, $n }",
    "match { $p: Person  1 = 2 } with { $p } return { count($p) as n }",
    "match { $p: Person } with { count($p) as n } match { $q: Person  1 = 2 } return { count($q) as m }",
    "match { $p: Person } with { $p } limit 0 return { count($p) as n }",
    "match { $p: Person } with { count($p) as n } limit 0 return { count($n) as n }",
    "match { $p: Person } with { 5 as five } limit 2 return { $five }",
    "match { $p: Person } with { $p, 5 as five } return { sum($p.age) as s, $five }",
    "match { $p: Person } with { $p } with { $p } with { $p as q } offset 1 return { $q.name } limit 2",
    "match { $p: Person } with { $p, sum($p.age) as s } with { max($s) as m, count($p) as n } return { $m, $n }",
    # Searches and walks from what a stage carries on.
    'match { $p: Person } with { $p } match { search($p.bio, "program") } return { $p.name, $p.bio }',
    (
        "match { $p: Person } with { $p } order { $p.age } limit 3 match { $p knows{1,2} $q } "
        "return { $p.name, $q.name }"
    ),
    (
        "match { $p: Person } with { $p } "
        "match { exists { $p knows $f  exists { $f knows $g  $g.age = $p.age } } } return { $p.name }"
    ),
]


@pytest.mark.parametrize("text", TEXTS)
def test_stages_mean_what_the_language_says(world: World, text: str) -> None:
    query = compile_query(f"query q {{ {text} }}", world.catalog)
    assert isinstance(query.body, ir.Read)
    expected = Reference(world.catalog, complete(ROWS, world.catalog), {}, NOW).answer(query.body)
    assert [tuple(_rounded(each) for each in row) for row in world.rows(text)] == [
        tuple(_rounded(each) for each in row) for row in expected
    ]


def _rounded(value: Any) -> Any:
    return round(value, 9) if isinstance(value, float) else value


def test_a_stage_ranks_and_what_follows_continues_from_the_best(world: World) -> None:
    text = (
        "match { $p: Person } with { $p, nearest($p.sketch, [1, 0, 0, 0]) as distance } order { distance } limit 2"
        " match { $p knows $f } return { $p.name, $distance, $f.name }"
    )
    assert [(row[0], row[2]) for row in world.rows(text)] == [("Ada", "Bob"), ("Dan", "Dan")]
    later = 'match { $p: Person  $p knows $f } with { $f } return { $f.name, bm25($f.bio, "program") as score } limit 9'
    assert {row[0] for row in world.rows(later)} == {"Ada", "Bob", "Cyd", "Dan"}


def test_a_sum_that_does_not_fit_is_null_after_a_stage(world: World) -> None:
    text = "match { $c: Counter  $c.number > 0 } with { sum($c.number) as s } return { $s }"
    assert world.column(text) == [None]


def test_a_stage_that_matches_nothing_reads_nothing(world: World) -> None:
    assert world.rows("match { $p: Person  1 = 2 } with { $p } match { $p knows $f } return { $f.name }") == []
    assert world.reader.scans == []
    assert world.rows(
        "match { $p: Person  1 = 2 } with { count($p) as n } match { $c: Company } return { $c.name, $n }"
    )
    assert {scan.table_key for scan in world.reader.scans} == {"node:Company"}


def test_what_a_stage_knows_narrows_what_is_read_later(world: World) -> None:
    text = 'match { $p: Person { name: "Ada" } } with { $p } match { $p $w:worksAt $c } return { $w.since, $c.name }'
    assert len(world.rows(text)) == 1
    edges = [scan for scan in world.reader.scans if scan.table_key == "edge:WorksAt"]
    assert all(scan.filter is not None and "Ada" in scan.filter for scan in edges)


def test_each_column_is_read_once_whatever_the_stage_that_needs_it(world: World) -> None:
    world.rows('match { $p: Person } with { $p, $p.age as a } match { $p.city = "oslo" } return { $p.name, $a }')
    (scan,) = world.reader.scans
    assert sorted(scan.columns) == ["age", "city", "id", "name"]


def test_a_limit_of_a_stage_below_zero_is_refused(world: World) -> None:
    text = "query q($n: I64) { match { $p: Person } with { $p } limit $n return { $p.name } }"
    with pytest.raises(ParameterError, match="expected a limit of 0 or more"):
        world.rows(text, n=-1)


def test_the_plan_shows_the_stages(world: World) -> None:
    plan = world.plan("match { $p: Person } with { $p, $p.age as a } match { $p knows $f } return { $f.name, $a }")
    text = plan.explain()
    assert "  s0: carry on p, a\n" in text
    assert "WITH s0 AS (" in text
