"""Conditions and computed values mean the same on Spark, in the process, and in a plain reading of them."""

import pytest

from omnigraph.compiler import compile_query, ir
from tests.engines.both import BothWorld
from tests.unit.query.conftest import ROWS
from tests.unit.query.reference import Reference
from tests.unit.query.world import NOW, complete

TEXTS = [
    'match { $p: Person  $p.age > 30 or $p.city = "oslo" } return { $p.name }',
    'match { $p: Person  not ($p.age > 30 or $p.city = "oslo") } return { $p.name }',
    "match { $p: Person  not $p.age = 17.5 } return { $p.name, $p.age = 17.5 as x, $p.age != 17.5 as y }",
    'match { $p: Person  $p.city in ["oslo"]  $p.name not in ["Ada"] } return { $p.name }',
    "match { $p: Person  $p.age is null } return { $p.name, $p.age is not null as z }",
    "match { $p: Person } return { upper($p.name) as u, $p.age * 2 + 1 as a, $p.age / 0 as z } order { a desc }",
    'match { $p: Person } return { case when $p.age > 10 then "old" else "young" end as k, coalesce($p.age, -1) as c }',
    "match { $p: Person  exists { $p knows $q  $q.age > 10 } } return { $p.name, count { $p knows $_ } as n }",
    "match { $p: Person  count { $p knows $_ } > 1 or not exists { $p worksAt $_ } } return { $p.name }",
    "match { $p: Person  $p knows $q  $p.age + 1 > $q.age } return { $p.name, $q.name }",
    "match { $p: Person } return { $p.age > 10 as old, count($p) as n, sum($p.age * 2) as s } order { n desc }",
    "match { $p: Person } return { $p.city, count($p) * 2 + 1 as n, round(avg($p.age)) as r } order { n }",
    "match { $p: Person } return { max(length($p.name)) as m, count($p) > 3 as many } order { m }",
    "match { $p: Person } return { $p.name } order { length($p.name) desc, substring($p.name, 1) } limit 2",
    'match { $p: Person  search($p.bio, "writer") or $p.age = 5 } return { $p.name }',
    'match { $p: Person  $p.tags contains "a" or "c" in $p.tags } return { $p.name }',
    "match { $x: Named  length($x.name) > 3 or $x.name = lower($x.name) } return { $x.name, upper($x.id) as u }",
    "match { $p: Person  exists { $p.age > 3 } } return { $p.name, count { $p.age > 3 } as c }",
    # Distinct rows, and aggregates of distinct values.
    "match { $p: Person } return distinct { $p.city }",
    "match { $p: Person } return distinct { $p.city, 1 as one } order { $p.city desc } limit 2 offset 1",
    "match { $p: Person } return distinct { 1 as one }",
    'match { $p: Person { name: "nobody" } } return distinct { 1 as one }',
    "match { $p: Person } return distinct { $p.tags }",
    "match { $p: Person  $p knows $f } return distinct { $f.id, $f.age }",
    "match { $p: Person } return distinct { $p.age > 20 as old, lower($p.city) as c } order { length(c), old desc }",
    "match { $p: Person  exists { $p knows $_ } } return distinct { count { $p knows $_ } as n } order { -n }",
    "match { $p: Person } return { count(distinct $p.city) as c, sum(distinct $p.age) as s, avg(distinct $p.age) }",
    "match { $p: Person } return { min(distinct $p.age) as m, max(distinct $p.name) as x, count(distinct $p.tags) }",
    "match { $p: Person  $p knows $f  $f knows $g } return { count(distinct $f) as f, count($f) as n, sum($g.age) }",
    "match { $x: Named } return { count(distinct $x) as n, count(distinct $x.name) as m }",
    "match { $c: Counter } return { sum(distinct $c.number) as s }",
    # Lists of values, ascending.
    "match { $p: Person } return { $p.city, collect($p.name) as n, collect(distinct $p.age), collect($p.joined) }",
    "match { $p: Person } return { $p.age, collect(distinct $p.city) as c, collect($p.age > 20) as b }",
    'match { $p: Person { name: "nobody" } } return { collect($p.age) as a, count(distinct $p), size(collect($p.id)) }',
    "match { $c: Company } return { collect($c.size) as s, collect($c.founded) as f, sum(distinct $c.size) as t }",
    "match { $p: Person  $p knows $f  $f knows $g } return { collect($g.name) as g, collect(distinct $g.age) as a }",
    # Conditions on groups.
    "match { $p: Person } return { $p.city, count($p) as n } having { n > 1 }",
    'match { $p: Person } return { $p.city, count($p) as n } having { n > 1 or $p.city = "quito"  not n = 5 }',
    "match { $p: Person } return { count($p) as n } having { n > 10 }",
    "match { $p: Person  $p knows $f } return { count($p) as n } having { n > 4 }",
    'match { $p: Person } return { $p.city, collect($p.name) as n } having { size(n) > 1  n contains "Ada" }',
    'match { $p: Person } return distinct { $p.city as c, $p.age } having { c = "oslo"  $p.age > 20 } order { c }',
    "match { $p: Person } return { $p.age, count($p) > 1 as many } having { many } order { $p.age }",
    "match { $p: Person } return { $p.age = 20 as young, count($p) as n } having { young is not null } order { n }",
    """match { $p: Person  $p knows $q } return { $p.name, count($q) as n }
       having { count(distinct $q) % 2 = 1 or count($q) > 5 } order { n desc, $p.name }""",
    """match { $p: Person  $p knows $q } with { $p.city as c, count($q) as n } having { count(distinct $q) > 0 }
       order { n desc } limit 5 return { $c, max($n) as m } having { max($n) > 0 } order { max($n) desc }""",
    # Walks from what is never found.
    "match { $p: Person  optional { $q: Person  1 = 2 } optional { $q knows{0,2} $r } } return { $p.name, $r.name }",
    # Positions below zero, known and computed.
    "match { $p: Person } return { substring($p.name, -9223372036854775807 - 1) as a, substring($p.name, 0, -5) as b }",
    # Patterns that use what is more than one pattern further out.
    "match { $p: Person  exists { $p knows $q  exists { $q knows $r  $r.name = $p.name } } } return { $p.name }",
    "match { $p: Person  exists { $p knows $q  count { $q knows $r  $r.age >= $p.age } >= 1 } } return { $p.name }",
    "match { $p: Person } return { $p.name, count { $p knows $q  count { $q knows $r  $r.age > $p.age } = 0 } as n }",
    "match { $p: Person } return { $p.name, count { $p knows $q  not { $q knows $r  $r.age > $p.age } } as n }",
    "match { $p: Person  not { $p knows $q  count { $q knows $_  $p.age > 1 } > 1 } } return { $p.name }",
    # Values that use what is computed of patterns several times.
    "match { $p: Person } return { $p.name, 0.5 * count { $p knows $_ } + 1.5 * count { $_ knows $p } as n }",
    "match { $p: Person  round(count { $p knows $_ } / 2) >= 1  $p.age > 3 } return { $p.name }",
    "match { $p: Person  not { $p worksAt $_ }  0.5 * count { $p knows $_ } < $p.age } return distinct { $p.age as a }",
    "match { $p: Person  $p knows $q } return { $p.city, sum(0.5 * count { $q knows $_  $p.age > 1 }) as n }",
    "match { $p: Person } with { $p } order { 0.5 * count { $p knows $_ } desc } limit 3 return { $p.name }",
    # Values that are known before anything is read.
    "match { $p: Person { age: 3 * 12 } } return { $p.name, 1 + 1 as two, 1 / 0 as nothing }",
    'match { $p: Person { name: concat("A", "da") } } return { $p.name }',
    "match { $p: Person  null = 1 or true } return { $p.name }",
]


@pytest.mark.parametrize("text", TEXTS)
def test_an_expression_means_the_same_on_both_engines(world: BothWorld, text: str) -> None:
    found = world.rows(text)
    query = compile_query(f"query q {{ {text} }}", world.catalog)
    assert isinstance(query.body, ir.Read)
    reference = Reference(world.catalog, complete(ROWS, world.catalog), {}, NOW)
    assert found == reference.answer(query.body)


def test_a_missing_vector_or_blob_is_found(world: BothWorld) -> None:
    everyone = world.column("match { $p: Person } return { $p.name }")
    for name in ("embedding", "photo", "tags"):
        missing = world.column(f"match {{ $p: Person  $p.{name} is null }} return {{ $p.name }}")
        there = world.column(f"match {{ $p: Person  not $p.{name} is null }} return {{ $p.name }}")
        assert sorted([*missing, *there]) == sorted(everyone)
