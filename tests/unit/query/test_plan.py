"""What is read for a query, and what is pushed into the reading."""

from dataclasses import FrozenInstanceError

import pytest

from omnigraph.catalog import Catalog
from omnigraph.compiler import compile_query
from omnigraph.query import Plan, Shortcuts
from omnigraph.query import walks as walking
from omnigraph.query.steps import Best, Count, Direct, EdgeScan, NodeScan, Relational, Walk
from omnigraph.spark.statements import spark_sql
from tests.unit.query.world import Scan, World


def scans_of(plan: Plan) -> list[Scan]:
    """The scans of nodes and bound edges, as the reader would see them."""
    found = []
    for step in plan.steps:
        tables = step.tables if isinstance(step, NodeScan) else (step.table,) if isinstance(step, EdgeScan) else ()
        found += [Scan(table.table_key, table.columns, table.filter) for table in tables]
    return found


@pytest.mark.parametrize(
    "text",
    [
        "match { $p: Person } return { $p.name }",
        'match { $p: Person { city: "oslo" } } return { $p.age } order { $p.joined }',
        "match { $p: Person  $p knows $f } return { $f.age }",
        "match { $p: Person  $p $w:knows $f  $w.since = $w.since } return { $f.age, $w.id }",
        "match { $p: Person  not { $p worksAt $c  $c.size > 3 } } return { count($p) }",
        'match { $p: Person  search($p.bio, "x") } return { $p.id, bm25($p.bio, "y") }',
        "match { $x: Named  $y: Named  $x.name = $y.name } return { $x }",
        "match { $p: Person } return { $p }",
    ],
)
def test_only_used_columns_are_read(world: World, catalog: Catalog, text: str) -> None:
    reads = compile_query(f"query q {{ {text} }}", catalog).access.reads
    world.table(text)
    assert {scan.table_key for scan in world.reader.scans} <= set(reads)
    for scan in world.reader.scans:
        assert set(scan.columns) <= set(reads[scan.table_key])


def test_a_column_that_is_only_filtered_by_is_not_returned_by_the_scan(world: World) -> None:
    plan = world.plan('match { $p: Person { city: "oslo" }  $p.age >= 3 } return { $p.name }')
    assert scans_of(plan) == [Scan("node:Person", ("id", "name"), "`city` = 'oslo' AND `age` >= 3")]


def test_a_vector_that_only_ranks_does_not_reach_the_relational_engine(world: World) -> None:
    plan = world.plan("match { $p: Person } return { $p.name } order { nearest($p.sketch, [1, 2, 3, 4]) } limit 1")
    (step,) = plan.steps
    assert isinstance(step, NodeScan)
    assert step.tables[0].columns == ("id", "name", "sketch")
    assert step.relation.fields == ("id", "name", "@0")


RANK = 'bm25($p.bio, "x")'
NEAR = "nearest($p.sketch, [1, 2, 3, 4])"


@pytest.mark.parametrize(
    ("text", "best"),
    [
        (f"match {{ $p: Person }} return {{ $p.name }} order {{ {RANK} }} limit 3", Best("@0", 3, settled=True)),
        (
            f"match {{ $p: Person }} return {{ {RANK} as s }} order {{ s desc, $p.age }} limit 3",
            Best("@0", 3, settled=False),
        ),
        (
            f"match {{ $p: Person  $p.age > 3 }} return {{ {RANK} }} order {{ {NEAR} }} limit 2",
            Best("@1", 2, settled=True),
        ),
        (f"match {{ $p: Person }} return {{ $p.name }} order {{ {RANK} }}", None),
        (f"match {{ $p: Person }} return {{ {RANK} as s }} order {{ s asc }} limit 3", None),
        (f"match {{ $p: Person }} return {{ $p.name }} order {{ $p.age, {NEAR} }} limit 3", None),
        (f"match {{ $p: Person  $p knows $f }} return {{ $f.id }} order {{ {RANK} }} limit 3", None),
        (f"match {{ $p: Person  not {{ $p knows $_ }} }} return {{ $p.id }} order {{ {RANK} }} limit 3", None),
        (f"match {{ $p: Person }} return {{ rrf({RANK}, {NEAR}) }} order {{ {NEAR} }} limit 3", None),
    ],
)
def test_only_the_best_are_asked_for_where_nothing_else_decides(world: World, text: str, best: Best | None) -> None:
    for shortcuts in Shortcuts:
        step = next(step for step in world.planned(text, {}, shortcuts).steps if isinstance(step, NodeScan))
        assert step.best == best


@pytest.mark.parametrize(
    ("condition", "filter"),
    [
        ('$p.name = "Ada"', "`id` = 'Ada'"),
        ('$p.name = "O\'Neil"', "`id` = 'O''Neil'"),
        ('$p.name = "Ada"  $p.age = 3', "`id` = 'Ada' AND `age` = 3"),
        ('$p.name != "Ada"', "`name` != 'Ada'"),
        ("$p.age > 17.5", "`age` >= 18"),
        ("$p.age < 3000000000.5", "`age` IS NOT NULL"),
        ('$p.tags contains "a"', "array_has(`tags`, 'a')"),
        ('$p.bio contains "a"', "contains(`bio`, 'a')"),
        ('$p.bio starts_with "a"', "starts_with(`bio`, 'a')"),
        ("[1, 2, 2] contains $p.age", "`age` IN (1, 2)"),
        ('$p.joined >= datetime("1970-01-01T00:00:00.001Z")', "`joined` >= to_timestamp_millis(1)"),
        ('$p.id = "x"', "`id` = 'x'"),
    ],
)
def test_conditions_with_known_values_are_pushed(world: World, condition: str, filter: str) -> None:
    plan = world.plan(f"match {{ $p: Person  {condition} }} return {{ $p.age }}")
    assert [scan.filter for scan in scans_of(plan)] == [filter]
    assert isinstance(plan.rest, Direct)


def test_a_key_of_several_properties_is_looked_up_by_its_id(world: World) -> None:
    text = 'match { $e: Event { day: date("2024-02-29"), room: 7 } } return { $e.title }'
    assert [scan.filter for scan in scans_of(world.plan(text))] == ["""`id` = '["2024-02-29","7"]'"""]
    assert world.column(text) == ["Leap"]
    part = "match { $e: Event { room: 7 } } return { $e.title }"
    assert [scan.filter for scan in scans_of(world.plan(part))] == ["`room` = 7"]


def test_each_type_of_an_interface_is_looked_up_by_its_own_key(world: World) -> None:
    text = 'match { $x: Named { name: "Ada" } } return { $x.name }'
    assert {scan.filter for scan in scans_of(world.plan(text))} == {"`id` = 'Ada'"}
    assert world.column(text) == ["Ada", "Ada"]


def test_a_point_lookup_is_one_scan_without_a_relational_engine(world: World) -> None:
    text = 'match { $p: Person { name: "Ada" } } return { $p.name, $p.age }'
    assert isinstance(world.plan(text).rest, Direct)
    assert world.rows(text) == [("Ada", 36)]
    assert world.reader.scans == [Scan("node:Person", ("id", "name", "age"), "`id` = 'Ada'")]


def test_a_node_whose_id_is_given_is_not_read_when_its_edges_tell_the_rest(world: World) -> None:
    text = 'match { $p: Person { name: "Ada" }  $p knows $f } return { $f.id }'
    assert world.column(text) == ["Bob"]
    assert world.reader.scans == [Scan("edge:Knows", ("src", "dst"), "`src` IN ('Ada')")]


def test_what_is_reached_narrows_what_is_read_next(world: World) -> None:
    text = 'match { $p: Person { name: "Cyd" }  $p knows $f  $f.age > 1 } return { $f.name }'
    assert world.column(text) == ["Ada", "Dan"]
    assert world.reader.scans[-1] == Scan("node:Person", ("id", "name"), "(`age` > 1) AND (`id` IN ('Ada', 'Dan'))")


def test_a_walk_that_reaches_nothing_reads_nothing_more(world: World) -> None:
    assert world.column('match { $p: Person { name: "Eve" }  $p knows $f } return { $f.name }') == []
    assert [scan.table_key for scan in world.reader.scans] == ["edge:Knows"]


def test_edges_of_few_nodes_are_asked_for_and_those_of_many_are_read_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'match { $p: Person { name: "Cyd" }  $p knows{1,} $f } return { count($f) }'
    assert world.column(text) == [4]
    assert all(scan.filter for scan in world.reader.scans)
    world.reader.scans.clear()
    monkeypatch.setattr(walking, "SMALL_FRONTIER", 1)
    assert world.column(text) == [4]
    assert world.reader.scans[-1] == Scan("edge:Knows", ("src", "dst"), None)


@pytest.mark.parametrize("text", ["$p.age = null", "1 = 2", 'search($p.bio, "")', "$p.age > 3  [] contains $p.name"])
def test_what_cannot_match_reads_nothing(world: World, text: str) -> None:
    assert world.column(f"match {{ $p: Person  $p knows $f  {text} }} return {{ $f.age }}") == []
    assert world.reader.scans == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("$a knows $b", 5),
        ("$a knows $b  $b knows $c", 6),
        ("$a knows $b  $c knows $b", 7),
        ("$a knows{1,2} $b", 9),
        ("$a knows{1,2} $b  $b worksAt $c", 4),
        ("$a worksAt $c  $a knows $b  $b knows{1,} $d", 8),
        ('$a: Person { city: "oslo" }  $a knows{1,} $b', 5),
        ('$a: Person { name: "Cyd" }  $a knows{1,2} $b', 3),
        ('$a: Person { name: "Cyd" }  $a knows{1,2} $b  $e worksAt $c', 6),
        ('$a: Person { name: "Nobody" }  $a knows $b', 0),
    ],
)
def test_rows_are_counted_without_being_made(world: World, text: str, count: int) -> None:
    plan = world.plan(f"match {{ {text} }} return {{ count($a) }}")
    assert isinstance(plan.rest, Count)
    assert world.column(f"match {{ {text} }} return {{ count($a) }}") == [count]
    assert len(world.rows(f"match {{ {text} }} return {{ $a.id }}")) == count


@pytest.mark.parametrize("text", ["$a knows $b  $b knows $a", "$a knows $a", "$a knows{0,1} $b", "$a $w:knows $b"])
def test_other_patterns_are_counted_by_the_relational_engine(world: World, text: str) -> None:
    plan = world.plan(f"match {{ $a: Person  {text} }} return {{ count($a) }}")
    assert isinstance(plan.rest, Relational)


def test_the_statement_can_be_written_for_spark(world: World) -> None:
    text = """match { $p: Person  $p knows{1,2} $f  $f.age > $p.age  not { $f worksAt $c  $c.size > 3 } }
        return { $p.city, count($f) as n, avg($f.age) } order { n desc } limit 3"""
    rest = world.plan(text).rest
    assert isinstance(rest, Relational)
    spark = spark_sql(rest.statement)
    assert "NOT EXISTS(SELECT 1" in spark
    assert "oslo" not in spark


def test_names_that_differ_only_in_case_stay_apart(world: World) -> None:
    text = "match { $p: Person  $P: Person  $p knows $P } return { $p.name as n, $P.name as N } limit 1"
    assert world.table(text).to_pylist() == [{"n": "Ada", "N": "Bob"}]


def test_a_walk_starts_where_least_is_expected(world: World) -> None:
    plan = world.plan('match { $a: Person  $a knows{1,3} $b  $b.city = "oslo" } return { $a.name }')
    walk = next(step for step in plan.steps if isinstance(step, Walk))
    assert walk.start == "b"
    with pytest.raises(FrozenInstanceError):
        walk.start = "a"  # type: ignore[misc]


def test_a_plan_explains_itself(world: World) -> None:
    text = """match { $p: Person { name: "Ada" }  $p knows{1,} $f  $f.age > 3  search($f.bio, "x y") }
        return { $f.name, 1 as one } limit 5"""
    lines = world.plan(text).explain().split("\n")
    assert lines[:6] == [
        "query q",
        "  start at $p = 'Ada'",
        "  r0: walk edge:Knows {1,} forward, $p → $f, from $p",
        "  r1: scan nodes $f",
        "    node:Person [id, name, bio]",
        "      filter `age` > 3",
    ]
    assert "    compute @0: search 'x y' of bio, must hold" in lines
    assert lines[-2:] == ["  limit 5", "  return f.name, one = 1"]
    assert any("ORDER BY" in line for line in lines)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("match { $p: Person } return { $p.name } order { $p.age desc }", "  sort by age desc, id"),
        ("match { $p knows $f } return { count($f) }", "  count along the walks"),
        ("match { $p: Person  1 = 2 } return { $p.name }", "  nothing can match; nothing is read"),
        ("match { $a $w:knows $b } return { $w }", "  r0: scan edges $w, forward, $a → $b"),
        ("match { $a $w:knows $b } return { $w }", "  return w {id, src, dst, since}"),
    ],
)
def test_every_kind_of_plan_explains_itself(world: World, text: str, expected: str) -> None:
    assert expected in world.plan(text).explain().split("\n")


# --- conditions that are joined, and values that are computed ---


def test_what_is_joined_by_and_is_pushed_into_the_scan(world: World) -> None:
    plan = world.plan('match { $p: Person  $p.age > 3 and ($p.city = "oslo" and $p.name != $p.id) } return { $p.name }')
    assert filters_of(plan) == {"node:Person": "`age` > 3 AND `city` = 'oslo'"}


def test_what_is_computed_of_known_values_is_pushed_into_the_scan(world: World) -> None:
    plan = world.plan("query q($n: I64) { match { $p: Person  $p.age > $n + 2 * 3 } return { $p.name } }", n=1)
    assert filters_of(plan) == {"node:Person": "`age` > 7"}


def test_the_id_is_found_by_a_computed_key(world: World) -> None:
    plan = world.plan('match { $p: Person { name: concat("A", "da") } } return { $p.age }')
    assert plan.is_pinned


def test_null_of_a_column_is_left_out_of_the_scan(world: World) -> None:
    plan = world.plan("match { $p: Person  $p.age is not null } return { $p.name }")
    assert filters_of(plan) == {"node:Person": "`age` IS NOT NULL"}


def test_a_choice_of_conditions_is_left_to_the_rest(world: World) -> None:
    plan = world.plan('match { $p: Person  $p.age > 3 or $p.age = 1  $p.city = "oslo" } return { $p.name }')
    assert filters_of(plan) == {"node:Person": "`city` = 'oslo'"}
    assert isinstance(plan.rest, Relational)
    assert "OR" in plan.rest.duckdb_sql()


def test_a_condition_that_never_holds_reads_nothing(world: World) -> None:
    assert world.plan("match { $p: Person  1 > 2 or null = 1 } return { $p.name }").is_empty
    assert not world.plan("match { $p: Person  1 > 2 or 1 < 2 } return { $p.name }").is_empty


def test_a_nested_pattern_that_cannot_be_found_is_not_read(world: World) -> None:
    plan = world.plan("match { $p: Person  not exists { $p knows $q  $q.age = 1.5 } } return { $p.name }")
    assert [step.relation.name for step in plan.steps] == ["r0"]


def filters_of(plan: Plan) -> dict[str, str | None]:
    """The filters of the scans of nodes."""
    return {table.table_key: table.filter for step in plan.steps if isinstance(step, NodeScan) for table in step.tables}


@pytest.mark.parametrize("more", ["", "not { $p knows $q  $p != $p }"], ids=["direct", "relational"])
def test_a_page_may_be_beyond_all_rows(world: World, more: str) -> None:
    text = f"query q($n: U64) {{ match {{ $p: Person  {more} }} return {{ $p.name }} "
    assert world.column(text + "offset $n }", n=2**64 - 1) == []
    assert world.column(text + "limit $n offset 3 }", n=2**64 - 1) == ["Dan", "Eve"]
    assert world.column(text + "limit $n offset $n }", n=2**64 - 1) == []
