"""What a read returns."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.catalog import Catalog
from omnigraph.compiler import compile_query, ir
from omnigraph.errors import ParameterError
from omnigraph.query import AdjacencyCache, SumOutOfRange, execute, plan_read
from tests.unit.query.world import NOW, World

# --- conditions ---


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("$p.age = 20", ["Bob", "Dan"]),
        ("$p.age != 20", ["Ada", "Eve"]),
        ("$p.age > 20", ["Ada", "Eve"]),
        ("20 < $p.age", ["Ada", "Eve"]),
        ("$p.age > 19.5", ["Ada", "Bob", "Dan", "Eve"]),
        ("$p.age = 20.5", []),
        ("$p.age != 20.5", ["Ada", "Bob", "Dan", "Eve"]),
        ("$p.age < 20.0", []),
        ("$p.age = null", []),
        ("$p.age = $p.age", ["Ada", "Bob", "Dan", "Eve"]),
        ('$p.city = "oslo"', ["Ada", "Dan"]),
        ('["oslo", "berlin"] contains $p.city', ["Ada", "Dan", "Eve"]),
        ("[36, 20.5] contains $p.age", ["Ada"]),
        ('$p.tags contains "code"', ["Ada", "Dan"]),
        ('$p.tags = "code"', ["Ada", "Dan"]),
        ('not { "code" = $p.tags }', ["Bob", "Cyd", "Eve"]),
        ('$p.bio contains "PROG"', ["Eve"]),
        ('$p.bio contains "%"', []),
        ('$p.bio contains ""', ["Ada", "Bob", "Cyd", "Dan", "Eve"]),
        ('$p.bio starts_with "Wr"', ["Ada", "Bob"]),
        ('$p.name >= "Cyd"', ["Cyd", "Dan", "Eve"]),
        ('"Adam" starts_with $p.name', ["Ada"]),
        ('"Dan and Bob" contains $p.name', ["Bob", "Dan"]),
        ('$p.joined = datetime("2020-01-01T12:00:00Z")', ["Ada"]),
        ("$p.joined < now()", ["Ada"]),
        ("1 = 1", ["Ada", "Bob", "Cyd", "Dan", "Eve"]),
        ("1 = 2", []),
        ("not { $p.age = $p.age }", ["Cyd"]),
        ("not { $p.age != 20 }", ["Bob", "Cyd", "Dan"]),
        ("not { $p.age = null }", ["Ada", "Bob", "Cyd", "Dan", "Eve"]),
        ('not { $p.tags contains "code" }', ["Bob", "Cyd", "Eve"]),
        ('not { ["oslo", "quito"] contains $p.city }', ["Cyd", "Eve"]),
        ('not { $p.bio starts_with "W" }', ["Cyd", "Dan", "Eve"]),
        ("not { $p.joined < now() }", ["Bob", "Cyd", "Dan", "Eve"]),
        ("not { not { $p.age > 20 } }", ["Ada", "Eve"]),
    ],
)
def test_a_condition_holds_as_in_sql(world: World, condition: str, names: list[str]) -> None:
    assert world.column(f"match {{ $p: Person  {condition} }} return {{ $p.name }}") == names


@pytest.mark.parametrize(
    ("short", "written"),
    [
        ("match { $p: Person } return { $p.* }", {"$p.*": "$p.name, $p.age, $p.city, $p.tags, $p.bio, $p.joined"}),
        ("match { $x: Named } return { $x.*, $x.id }", {"$x.*": "$x.name"}),
        (
            "match { $p: Person  optional { $p $w:worksAt $c } } return { $w.*, $p.name, $c.* } order { $c.size desc }",
            {"$w.*": "$w.since", "$c.*": "$c.name, $c.size, $c.founded"},
        ),
        (
            "match { $p: Person  $p knows $f } with { $f, count($p) as n } return { $n, $f.* } order { $n }",
            {"$f.*": "$f.name, $f.age, $f.city, $f.tags, $f.bio, $f.joined"},
        ),
        (
            "match { $p: Person  $p worksAt $c } return { $c.*, count($p) as n } having { n > 0 } order { $c.size }",
            {"$c.*": "$c.name, $c.size, $c.founded"},
        ),
        ("match { $p $k:knows $f } return distinct { $k.* } order { $k.since desc }", {"$k.*": "$k.since"}),
        ("match { $r: shortest $p knows{1,3} $q } return { $r.* }", {"$r.*": "$r.nodes, $r.edges, $r.length"}),
    ],
)
def test_all_properties_are_columns_like_others(world: World, short: str, written: dict[str, str]) -> None:
    text = short
    for star, columns in written.items():
        text = text.replace(star, columns)
    table = world.table(short)
    assert table.num_rows > 0
    assert table.equals(world.table(text))


def test_selected_groups_are_sorted_by_aggregates(world: World) -> None:
    groups = "match { $p: Person  $p knows $f }"
    having = "having { count(distinct $f) % 2 = 1 or count($f) > 1 }"
    order = "order { count(distinct $p.age) desc, $p.city asc }"
    expected = [("oslo", 2), ("quito", 1), (None, 2)]
    assert world.rows(f"{groups} return {{ $p.city, count($f) as n }} {having} {order}") == expected
    assert world.rows(f"{groups} return {{ $p.city, count($f) as n }} {having} {order} offset 1") == expected[1:]
    shown = "return { $p.city, count(distinct $p.age) as n }"
    assert world.rows(f"{groups} {shown} {having} {order} limit 1") == [("oslo", 2)]
    stage = f"with {{ $p, count($f) as n }} {having} {order.replace('$p.city', '$p.name')} limit 2"
    names = world.rows(f"{groups} {stage} match {{ $p knows $g }} return {{ $p.name, $n, $g.name }}")
    assert names == [("Ada", 1, "Bob"), ("Bob", 1, "Cyd")]


def test_the_ends_of_an_edge_are_read_by_two_names(world: World) -> None:
    text = (
        'match { $p $w:knows $f  $w.from = "Cyd"  $w.to = $f.name } return { $w.from, $w.to, $w.dst } order { $w.to }'
    )
    assert world.rows(text) == [("Cyd", "Ada", "Ada"), ("Cyd", "Dan", "Dan")]


def test_an_edge_that_is_followed_either_way_is_a_row_for_each_and_a_loop_is_one(world: World) -> None:
    text = 'match { $p: Person { name: "Dan" }  $p $w:<knows> $f } return { $f.name, $w.id, $w.from } order { $w.id }'
    assert world.rows(text) == [("Dan", "k5", "Dan"), ("Cyd", "k6", "Cyd")]
    assert world.column("match { $p $w:<knows> $f } return { count($w) }") == [11]
    lonely = 'match { $p: Person  not { $p $w:<knows> $_  $w.since > date("2020-01-01") } } return { $p.name }'
    assert world.column(lonely) == ["Cyd", "Eve"]


def test_a_path_over_an_edge_between_two_types_has_one_edge(world: World) -> None:
    for step, names in (("worksAt{1,3}", ["Ada", "Zig"]), ("worksAt{0,}", ["Ada", "Zig"]), ("worksAt{2,3}", [])):
        assert world.column(f"match {{ $p {step} $c }} return {{ $c.name }} order {{ $c.name }}") == names
        assert world.column(f"match {{ $p {step} $c }} return {{ count($c) }}") == [len(names)]
    people = "match { $p: Person  not { $p worksAt{2,} $_ } } return { $p.name }"
    assert world.column(people) == ["Ada", "Bob", "Cyd", "Dan", "Eve"]


@pytest.mark.parametrize(
    ("type", "value", "condition", "names"),
    [
        ("I32?", None, "$p.age >= $x", []),
        ("I64", 2**40, "$p.age < $x", ["Ada", "Bob", "Dan", "Eve"]),
        ("I64", 2**40, "$p.age = $x", []),
        ("U64", 2**64 - 1, "$p.age > $x", []),
        ("I64", -(2**63), "$p.age > $x", ["Ada", "Bob", "Dan", "Eve"]),
        ("String", "Ada' OR '1'='1", "$p.name = $x", []),
        ("String", "a\0b", "$p.name = $x", []),
        ("String", "a\0b", "not { $p.name = $x }", ["Ada", "Bob", "Cyd", "Dan", "Eve"]),
        ("[String]", ["Ada", "it's", "\\", "\u202e😀"], "$x contains $p.name", ["Ada"]),
        ("[String]", [], "$x contains $p.name", []),
        ("[I64]", [20, 2**40], "$x contains $p.age", ["Bob", "Dan"]),
        ("[String]", ["Ada"], '$x contains "Ada"', ["Ada", "Bob", "Cyd", "Dan", "Eve"]),
        ("String?", None, '[$x, "Eve"] contains $p.name', ["Eve"]),
        ("DateTime", "2020-01-01T12:00:00.001Z", "$p.joined < $x", ["Ada"]),
    ],
)
def test_a_parameter_is_a_value_and_nothing_else(
    world: World, type: str, value: Any, condition: str, names: list[str]
) -> None:
    text = f"query q($x: {type}) {{ match {{ $p: Person  {condition} }} return {{ $p.name }} }}"
    assert world.column(text, x=value) == names


@pytest.mark.parametrize("number", [-(2**63), 2**63 - 1, 2**53 + 1])
def test_large_whole_numbers_are_exact(world: World, number: int) -> None:
    text = "query q($n: I64) { match { $c: Counter  $c.number <= $n  $c.number >= $n } return { $c.number } }"
    assert world.column(text, n=number) == [number]
    assert world.column("query q($n: I64) { match { $c: Counter { number: $n } } return { $c.id } }", n=number) == [
        str(number)
    ]


# --- edges ---


@pytest.mark.parametrize(
    ("step", "pairs"),
    [
        ("$a knows $b", ["AdaBob", "BobCyd", "CydAda", "CydDan", "DanDan"]),
        ("$a knows{1,1} $b", ["AdaBob", "BobCyd", "CydAda", "CydDan", "DanDan"]),
        (
            "$a knows{0,1} $b",
            ["AdaAda", "AdaBob", "BobBob", "BobCyd", "CydAda", "CydCyd", "CydDan", "DanDan", "EveEve"],
        ),
        ("$a knows{2,2} $b", ["AdaCyd", "BobAda", "BobDan", "CydBob"]),
        ("$a knows{2,3} $b", ["AdaAda", "AdaCyd", "AdaDan", "BobAda", "BobBob", "BobDan", "CydBob", "CydCyd"]),
        ("$a <knows> $b", ["AdaBob", "AdaCyd", "BobAda", "BobCyd", "CydAda", "CydBob", "CydDan", "DanCyd", "DanDan"]),
    ],
)
def test_a_step_finds_each_pair_once_by_its_shortest_path(world: World, step: str, pairs: list[str]) -> None:
    text = f"match {{ $a: Person  $b: Person  {step} }} return {{ $a.name, $b.name }}"
    assert ["".join(row) for row in world.rows(text)] == pairs


def test_a_walk_without_bound_ends_when_nothing_new_is_found(world: World) -> None:
    text = 'match { $a: Person { name: "Bob" }  $a knows{0,} $b } return { $b.name }'
    assert world.column(text) == ["Ada", "Bob", "Cyd", "Dan"]
    assert world.column(text.replace("{0,}", "{3,}")) == ["Bob"]


@pytest.mark.parametrize("end", ["a", "b"])
def test_a_walk_may_begin_at_either_end(world: World, end: str) -> None:
    text = f'match {{ $a knows{{1,2}} $b  ${end}.name = "Ada" }} return {{ $a.name, $b.name }}'
    found = {"a": [("Ada", "Bob"), ("Ada", "Cyd")], "b": [("Bob", "Ada"), ("Cyd", "Ada")]}
    assert world.rows(text) == found[end]


def test_the_direction_follows_from_the_types(world: World) -> None:
    assert world.rows("match { $c: Company  $c worksAt $p } return { $c.name, $p.name }") == [
        ("Ada", "Bob"),
        ("Zig", "Ada"),
    ]


def test_an_edge_variable_has_a_row_for_each_edge(world: World) -> None:
    text = "match { $a $w:knows $b } return { $w.id, $w.src, $w.since } order { $w.since desc, $w.id }"
    rows = world.rows(text)
    assert [row[0] for row in rows] == ["k2", "k5", "k1", "k3", "k4", "k6"]
    assert rows[0] == ("k2", "Ada", date(2021, 1, 1))
    assert world.column('match { $a $w:knows $b  $w.since < date("2020-01-01") } return { $b.id }') == ["Bob"]


def test_an_undirected_edge_variable_has_each_orientation_and_a_loop_once(world: World, catalog: Catalog) -> None:
    query = compile_query("query q { match { $a $w:knows $b } return { $a.id, $w.id, $b.id } }", catalog)
    assert isinstance(query.body, ir.Read)
    (binding,) = query.body.pattern.traversals
    pattern = replace(query.body.pattern, traversals=(replace(binding, direction=ir.Direction.EITHER),))
    undirected = replace(query, body=replace(query.body, pattern=pattern))
    found = execute(plan_read(undirected, {}, catalog, now=NOW), world.reader).to_pylist()
    assert len(found) == 11
    assert [row["a.id"] + row["b.id"] for row in found if row["w.id"] in ("k3", "k5")] == ["BobCyd", "CydBob", "DanDan"]


def test_patterns_that_share_nothing_are_multiplied(world: World) -> None:
    assert world.column("match { $p: Person  $c: Company } return { count($p) }") == [10]
    assert world.column("match { $a knows $b  $c worksAt $d } return { count($b) }") == [10]


def test_circles_are_closed(world: World) -> None:
    text = "match { $a knows $b  $b knows $c  $c knows $a } return { $a.name, $b.name }"
    assert world.rows(text) == [("Ada", "Bob"), ("Bob", "Cyd"), ("Cyd", "Ada"), ("Dan", "Dan")]
    assert world.column("match { $a knows $a } return { $a.name }") == ["Dan"]


# --- what is absent ---


@pytest.mark.parametrize(
    ("absent", "names"),
    [
        ("not { $p knows $_ }", ["Eve"]),
        ("not { $p knows $f  $f.age > 1 }", ["Bob", "Eve"]),
        ("not { $p worksAt $_ }  not { $p knows $_ }", ["Eve"]),
        ("not { $p knows $f  not { $f worksAt $_ } }", ["Ada", "Eve"]),
        ("not { $p knows{1,} $p }", ["Eve"]),
        ("not { $o: Person  $o.age > $p.age }", ["Cyd", "Eve"]),
        ("not { $p $w:knows $f  $w.since = $w.since }", ["Bob", "Cyd", "Eve"]),
        ("not { $p knows $f  not { $f knows $p  not { $p = $f } } }", ["Eve"]),
        ("not { $x: Company  $x.name = $p.name }", ["Bob", "Cyd", "Dan", "Eve"]),
        ('not { search($p.bio, "program") }', ["Dan", "Eve"]),
    ],
)
def test_a_nested_pattern_is_not_found(world: World, absent: str, names: list[str]) -> None:
    assert world.column(f"match {{ $p: Person  {absent} }} return {{ $p.name }}") == names


# --- interfaces ---


def test_an_interface_ranges_over_all_its_types(world: World) -> None:
    assert world.column("match { $x: Named } return { $x.id }") == ["Ada", "Ada", "Bob", "Cyd", "Dan", "Eve", "Zig"]
    assert world.column("match { $x: Named } return { count($x) }") == [7]


def test_nodes_of_two_types_with_one_id_are_two(world: World) -> None:
    assert world.rows('match { $x: Named { name: "Ada" }  not { $x worksAt $_ } } return { $x }') == [
        ({"type": "Company", "id": "Ada", "name": "Ada"},)
    ]
    assert world.rows("match { $x: Named  $y: Named  $x.id = $y.id  $x != $y } return { $x.id }") == [("Ada",)] * 2
    assert world.column("match { $x: Named  $p: Person  $x = $p } return { count($x) }") == [5]


# --- what is returned ---


def test_a_whole_node_is_a_struct_of_declared_types(world: World, catalog: Catalog) -> None:
    for text in (
        'match { $p: Person { name: "Ada" } } return { $p }',
        "match { $p: Person  $p knows $f  $p.age = 36 } return { $p }",
    ):
        table = world.table(text)
        (row,) = table["p"].to_pylist()
        assert row["photo"] == b"\x00ada"
        assert row["joined"] == datetime(2020, 1, 1, 12, tzinfo=UTC)
        struct = table.schema.field("p").type
        assert [field.name for field in struct] == ["id", *catalog.nodes["Person"].properties]
        assert struct.field("sketch").type == pa.list_(pa.float32(), 4)
        assert struct.field("joined").type == pa.timestamp("ms", "UTC")
        assert struct.field("photo").type == pa.large_binary()


def test_a_whole_edge_has_its_ends(world: World) -> None:
    assert world.column("match { $p $w:worksAt $c } return { $w } limit 1") == [
        {"id": "w1", "src": "Ada", "dst": "Zig", "since": date(2018, 1, 1)}
    ]


def test_columns_have_the_types_of_the_catalog(world: World) -> None:
    text = """match { $p: Person  $p worksAt $c }
    return { $p.name, $p.age, $p.tags, $p.joined, $p.sketch, $c.size, $c.founded, now() as n, 1 as one, null as no }"""
    assert world.table(text).schema.types == [
        pa.string(),
        pa.int32(),
        pa.list_(pa.string()),
        pa.timestamp("ms", "UTC"),
        pa.list_(pa.float32(), 4),
        pa.uint32(),
        pa.date32(),
        pa.timestamp("ms", "UTC"),
        pa.int64(),
        pa.null(),
    ]
    empty = world.table(text.replace("$p worksAt $c", "$p worksAt $c  1 = 2"))
    assert empty.num_rows == 0
    assert empty.schema == world.table(text).schema


def test_lists_have_the_type_of_the_catalog_to_the_letter(world: World) -> None:
    table = world.table('match { $p: Person } return { $p.tags as t, split($p.name, "a") as s, size($p.tags) as n }')
    # Types are equal whatever the name of the element, but files and other programs keep that name.
    assert [str(each) for each in table.schema.types] == ["list<item: string>", "list<item: string>", "int64"]


def test_only_constants_are_returned_once_for_each_row(world: World) -> None:
    assert world.rows("match { $p: Person  $p worksAt $c } return { 1, now() as n }") == [(1, NOW)] * 2
    assert world.column("query q($v: [I64]) { match { $p: Person } return { $v } limit 2 }", v=[1, 2]) == [[1, 2]] * 2


# --- groups ---


def test_aggregates_leave_null_out(world: World) -> None:
    text = (
        "match { $p: Person } return { count($p), count($p.age), sum($p.age), avg($p.age), min($p.age), max($p.name) }"
    )
    table = world.table(text)
    assert [tuple(row.values()) for row in table.to_pylist()] == [(5, 4, 126, 31.5, 20, "Eve")]
    assert table.schema.types == [pa.int64()] * 3 + [pa.float64(), pa.int32(), pa.string()]


def test_rows_are_grouped_by_the_other_columns(world: World) -> None:
    text = "match { $p: Person } return { $p.city, count($p) as n, avg($p.age) }"
    assert world.rows(text) == [(None, 1, None), ("berlin", 1, 50.0), ("oslo", 2, 28.0), ("quito", 1, 20.0)]
    assert world.rows(text + " order { n desc } limit 2") == [("oslo", 2, 28.0), (None, 1, None)]
    assert world.rows(text + " order { $p.city desc } limit 1") == [("quito", 1, 20.0)]


def test_a_group_may_be_an_entity(world: World) -> None:
    rows = world.rows("match { $p: Person  $p $w:knows $f } return { $p, count($w) as n } order { n desc }")
    assert [(row[0]["id"], row[1]) for row in rows] == [("Ada", 2), ("Cyd", 2), ("Bob", 1), ("Dan", 1)]
    assert rows[0][0]["photo"] == b"\x00ada"


def test_no_rows_are_one_group_without_keys_and_none_with_them(world: World) -> None:
    for nothing in ("1 = 2", "$p.age > 1000", "$p.age > 1000  $p knows $f", "$p.age = null  $p knows $f"):
        match = f"match {{ $p: Person  {nothing} }} return"
        assert world.rows(f"{match} {{ count($p), sum($p.age), min($p.name) }}") == [(0, None, None)]
        assert world.rows(f"{match} {{ count($p) }}") == [(0,)]
        assert world.rows(f"{match} {{ count($p), $p.city }}") == []
        assert world.rows(f"{match} {{ count($p), 1 }}") == []


def test_a_sum_that_does_not_fit_is_an_error(world: World) -> None:
    with pytest.raises(SumOutOfRange) as caught:
        world.table("match { $c: Counter  $d: Counter  $c.number > 0  $d.number > 0 } return { sum($c.number) as s }")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (again.code, again.details, str(again)) == (
        "sum_out_of_range",
        {"column": "s", "type": "I64"},
        str(caught.value),
    )


# --- order and limit ---


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("$p.age", ["Cyd", "Bob", "Dan", "Ada", "Eve"]),
        ("$p.age desc", ["Eve", "Ada", "Bob", "Dan", "Cyd"]),
        ("$p.city desc, $p.age", ["Bob", "Dan", "Ada", "Eve", "Cyd"]),
        ("1, $p.joined desc, $p.name desc", ["Ada", "Eve", "Dan", "Cyd", "Bob"]),
    ],
)
@pytest.mark.parametrize("more", ["", "not { $p knows $q  $p != $p }"], ids=["direct", "relational"])
def test_null_is_first_ascending_and_last_descending(world: World, order: str, names: list[str], more: str) -> None:
    text = f"match {{ $p: Person  {more} }} return {{ $p.name }} order {{ {order} }}"
    assert world.column(text) == names
    assert world.column(text + " limit 2") == names[:2]
    assert world.column(text + " limit 0") == []
    assert world.column(text + " limit 2 offset 1") == world.column(text + " offset 1 limit 2") == names[1:3]
    assert world.column(text + " offset 3") == names[3:]


def test_without_an_order_rows_are_ordered_by_their_ids(world: World) -> None:
    text = "match { $b: Person  $a: Person  $a knows $b } return { $b.id, $a.id }"
    assert world.rows(text) == [("Ada", "Cyd"), ("Bob", "Ada"), ("Cyd", "Bob"), ("Dan", "Cyd"), ("Dan", "Dan")]


def test_a_limit_may_be_a_parameter_but_not_below_zero(world: World) -> None:
    text = "query q($n: I64) { match { $p: Person } return { $p.name } limit $n }"
    assert world.column(text, n=1) == ["Ada"]
    with pytest.raises(ParameterError, match="limit"):
        world.column(text, n=-1)


def test_an_offset_may_be_a_parameter_but_not_below_zero(world: World) -> None:
    text = "query q($n: U64) { match { $p: Person } return { $p.name } offset $n }"
    assert world.column(text, n=3) == ["Dan", "Eve"]
    assert world.column(text, n=2**31 - 1) == []
    with pytest.raises(ParameterError, match="expected an offset of 0 or more"):
        world.column(text.replace("U64", "I64"), n=-1)


def test_an_offset_of_groups_counts_groups(world: World) -> None:
    text = "match { $p: Person } return { $p.city, count($p) as n } offset 1"
    assert world.rows(text) == world.rows(text.removesuffix(" offset 1"))[1:]
    assert world.rows("match { $p: Person } return { count($p) } offset 1") == []
    assert world.rows("match { $p: Person  $p knows $f } return { count($p) } offset 0") == [(5,)]
    assert world.rows("match { $p: Person  $p knows $f } return { count($p) } offset 1") == []


# --- many at once ---


def test_queries_in_many_threads_do_not_see_each_other(world: World) -> None:
    world.cache = AdjacencyCache()
    text = "query q($n: String) { match { $p: Person { name: $n }  $p knows{0,1} $f } return { $p.name, $f.name } }"
    names = ["Ada", "Bob", "Cyd", "Dan", "Eve"] * 8
    expected = {name: world.rows(text, n=name) for name in names}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: world.rows(text, n=name), names))
    assert found == [expected[name] for name in names]
