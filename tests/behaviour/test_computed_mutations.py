"""Mutations that compute: values of old values, conditions of any form, and updates that change nothing."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import ValidationError
from tests.behaviour.people import fold

SCHEMA = """
node Person {
    name: String @key
    age: I32?
    level: U32 @default(1)
    rank: F64?
    share: F32?
    big: U64?
    wide: I64?
    nick: String?
    city: enum(berlin, oslo)?
    tags: [String]?
    active: Bool?
    born: Date?
    seen: DateTime?
    note: String @default("none")
}
node Note { text: String, length: I32? }
edge Knows: Person -> Person { since: I32?, weight: F64? }
"""
PEOPLE: list[dict[str, Any]] = [
    {"name": "Ada", "age": 36, "nick": "ace", "city": "oslo", "tags": ["math", "tea"], "born": "1815-12-10"},
    {"name": "Bob", "age": 40, "rank": 1.5, "city": "berlin", "active": True},
    {"name": "Cid", "nick": "c"},
]


@pytest.fixture(params=["in tables", "carried"])
def graph(tmp_path: Path, request: pytest.FixtureRequest) -> og.Graph:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    graph.load({"Person": PEOPLE, "Knows": [{"from": "Ada", "to": "Bob", "since": 1830}]})
    if request.param == "in tables":
        fold(graph)
    return graph


def mutate(graph: og.Graph, body: str, parameters: str = "", **given: Any) -> og.MutationResult:
    return graph.mutate(f"query q({parameters}) {{ {body} }}", params=given)


def person(graph: og.Graph, name: str) -> dict[str, Any]:
    found = graph.entity("Person", name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("assigned", "expected"),
    [
        ("age: age + 1", {"age": 37}),
        ("age: level, level: age", {"age": 1, "level": 36}),
        ("nick: upper(name)", {"nick": "ADA"}),
        ('nick: concat(name, " ", coalesce(nick, "?"))', {"nick": "Ada ace"}),
        ("rank: age / 8", {"rank": 4.5}),
        ("share: rank, rank: age", {"share": None, "rank": 36.0}),
        ("big: age, wide: age * age", {"big": 36, "wide": 1296}),
        ('wide: cast(concat("1", cast(age as String)) as I64)', {"wide": 136}),
        ('city: case when age > 40 then "oslo" else "berlin" end', {"city": "berlin"}),
        ('active: (age > 30 and city = "oslo")', {"active": True}),
        ('active: (tags contains "tea")', {"active": True}),
        ("active: (rank > 1), nick: name", {"active": None, "nick": "Ada"}),
        ('tags: split("a,b", ",")', {"tags": ["a", "b"]}),
        ('tags: [$text, "x"]', {"tags": ["t", "x"]}),
        ("age: age % 5 - 3", {"age": -2}),
        ('born: born + duration("P1Y")', {"born": date(1816, 12, 10)}),
        ("age: coalesce(age, 0) + $n", {"age": 43}),
        ("age: null, nick: cast(age as String)", {"age": None, "nick": "36"}),
        ("age: size(tags)", {"age": 2}),
    ],
)
def test_assignments_are_computed_of_the_row_as_it_was(
    graph: og.Graph, assigned: str, expected: dict[str, Any]
) -> None:
    body = f'update Person set {{ {assigned} }} where name = "Ada"'
    done = mutate(graph, body, "$n: I32, $text: String", n=7, text="t")
    assert done.affected == {"nodes": 1, "edges": 0}
    found = person(graph, "Ada")
    assert {name: found[name] for name in expected} == expected


def test_now_is_computed_with_and_is_one_instant(graph: og.Graph) -> None:
    mutate(graph, 'update Person set { seen: now() - duration("P1D"), born: cast(now() as Date) } where age > 0')
    ada, bob = person(graph, "Ada"), person(graph, "Bob")
    assert ada["seen"] == bob["seen"]
    assert (datetime.now(UTC) - ada["seen"]).days == 1


def test_each_statement_computes_of_what_those_before_it_left(graph: og.Graph) -> None:
    mutate(graph, "update Person set { age: age + 1 } where age > 0 " * 3)
    assert [person(graph, name)["age"] for name in ("Ada", "Bob", "Cid")] == [39, 43, None]
    mutate(graph, 'insert Person { name: "Dan", age: 1 } update Person set { age: age * 2 } where age < 5')
    assert person(graph, "Dan")["age"] == 2


def test_edges_compute_of_their_own_values_and_ends(graph: og.Graph) -> None:
    mutate(graph, 'update Knows set { since: since + length(from), weight: since } where to = "Bob"')
    (edge,) = graph.snapshot().table("edge:Knows").scan().to_pylist()
    assert (edge["since"], edge["weight"]) == (1833, 1830.0)


def test_inserts_compute_of_parameters(graph: og.Graph) -> None:
    body = "insert Person { name: trim($name), age: $age + 1 } insert Note { text: $name, length: length($name) }"
    mutate(graph, body, "$name: String, $age: I32", name=" Eve ", age=20)
    assert person(graph, "Eve")["age"] == 21
    assert graph.snapshot().table("node:Note").scan(["length"])["length"].to_pylist() == [5]
    mutate(graph, 'insert Knows { from: trim($name), to: concat("A", "da") }', "$name: String", name=" Eve ")
    assert graph.snapshot().table("edge:Knows").count() == 2


@pytest.mark.parametrize(
    ("assigned", "problem"),
    [
        ("note: nick", "Person.note of `Bob`: a value is required, and the computed one is null"),
        ("level: age - 38", "Person.level of `Ada`: -2 does not fit U32"),
        ("age: age * 1000000000", "Person.age of `Ada`: 36000000000 does not fit I32"),
        ("share: age * 1000001 + 1", "Person.share of `Ada`: 36000037 has more digits than F32 holds"),
        ("share: rank * 1e300", "Person.share of `Bob`: 1.5e+300 does not fit F32"),
        ("level: age % 0", "Person.level of `Ada`: a value is required, and the computed one is null"),
        ("city: name", "Person.city: `Ada` is not one of `berlin` or `oslo`"),
    ],
)
def test_a_computed_value_that_does_not_fit_is_a_violation(graph: og.Graph, assigned: str, problem: str) -> None:
    before = graph.snapshot().commit_id
    with pytest.raises(ValidationError) as error:
        mutate(graph, f"update Person set {{ {assigned} }} where age > 0")
    assert str(error.value.violations[0]) == problem
    assert graph.snapshot().commit_id == before


def test_all_values_that_do_not_fit_are_counted(graph: og.Graph) -> None:
    with pytest.raises(ValidationError) as error:
        mutate(graph, "update Person set { age: age + 2147483647 } where age > 0")
    assert error.value.total == 2
    assert {each.id for each in error.value.violations} == {"Ada", "Bob"}


def test_a_computed_key_that_is_null_is_a_violation(graph: og.Graph) -> None:
    with pytest.raises(ValidationError, match=r"Person\.name: a value is required"):
        mutate(graph, 'insert Person { name: substring("x", -1) }')


# --- conditions ---


def selected(graph: og.Graph, condition: str, parameters: str = "", **given: Any) -> set[str]:
    """Who is marked by an update with a condition, of whom half were changed before in the same mutation."""
    body = f'update Person set {{ level: 5 }} where name != "Bob" update Person set {{ note: "x" }} where {condition}'
    mutate(graph, body, parameters, **given)
    found = graph.query('query q { match { $p: Person { note: "x" } } return { $p.name } }')
    return {row["p.name"] for row in found.rows()}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ('name = "Ada" or age = 40', {"Ada", "Bob"}),
        ("not age > 36", {"Ada"}),
        ("not (age > 36) and city is not null", {"Ada"}),
        ("age is null", {"Cid"}),
        ("age is not null", {"Ada", "Bob"}),
        ('name in ["Ada", "Cid", "Nobody"]', {"Ada", "Cid"}),
        ("name in $names", {"Bob", "Cid"}),
        ("id in $names and age > 1", {"Bob"}),
        ('name not in ["Ada"]', {"Bob", "Cid"}),
        ("age in [36, $n]", {"Ada", "Bob"}),
        ('tags contains "tea"', {"Ada"}),
        ('tags = "tea"', {"Ada"}),
        ('name contains "d"', {"Ada", "Cid"}),
        ("age > level * 7", {"Ada", "Bob"}),
        ("age % 2 = 0 and rank is null", {"Ada"}),
        ("lower(name) = nick", set()),
        ("length(name) = 3 and starts_with_c", {"Cid"}),
        ("coalesce(age, 100) > 39", {"Bob", "Cid"}),
        ("40 > age", {"Ada"}),
        ("active", {"Bob"}),
        ("active is null or not active", {"Ada", "Cid"}),
        ("born < cast(now() as Date)", {"Ada"}),
        ("year(born) = 1815", {"Ada"}),
        ("$n = 40 and level = 5", {"Ada", "Cid"}),
        ("$n = 41 or level = 1", {"Bob"}),
        ("$nothing = name", set()),
        ("name = $nothing or level = 1", {"Bob"}),
        ('(age = 36 or age = 40) and (city = "oslo" or rank > 1)', {"Ada", "Bob"}),
        ("rank > 0.5 + 0.5", {"Bob"}),
        ("true", {"Ada", "Bob", "Cid"}),
        ("false", set()),
    ],
)
def test_a_condition_of_any_form_finds_committed_and_pending_rows(
    graph: og.Graph, condition: str, expected: set[str]
) -> None:
    condition = condition.replace("starts_with_c", 'name starts_with "C"')
    signature = "$names: [String], $n: I32, $nothing: String?"
    assert selected(graph, condition, signature, names=["Bob", "Cid"], n=40, nothing=None) == expected


def test_what_meets_a_condition_is_deleted_with_its_edges(graph: og.Graph) -> None:
    done = mutate(graph, 'delete Person where age is null or upper(name) = "ADA"')
    assert done.affected == {"nodes": 2, "edges": 1}
    assert graph.snapshot().table("node:Person").scan(["id"])["id"].to_pylist() == ["Bob"]


def test_a_condition_means_the_same_as_in_a_read(graph: og.Graph) -> None:
    conditions = ['age > 36 or name starts_with "C"', 'not (age = 36 and city = "oslo")', "age + level in [37, 41]"]
    for condition in conditions:
        own = condition
        for name in ("age", "name", "city", "level"):
            own = own.replace(name, f"$p.{name}")
        read = graph.query(f"query q {{ match {{ $p: Person {own} }} return {{ $p.name }} }}").rows()
        graph.branches.create("trial")
        mutated = graph.mutate(f"query q {{ delete Person where {condition} }}", branch="trial")
        assert mutated.affected["nodes"] == len(read)
        graph.branches.delete("trial")


# --- what changes nothing ---


def test_an_update_that_changes_nothing_makes_no_commit(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    for body in (
        'update Person set { age: 36, city: "oslo", tags: ["math", "tea"] } where name = "Ada"',
        "update Person set { age: age, rank: rank + 0.0 } where age > 0",
        'insert Person { name: "Ada", age: 36 }',
        'update Knows set { since: 1830 } where from = "Ada"',
    ):
        done = mutate(graph, body)
        assert done.commit is None
        assert done.affected == {"nodes": 0, "edges": 0}
        assert sum(done.unchanged.values()) in (1, 2)
    assert graph.snapshot().commit_id == before


def test_only_what_changes_is_counted_as_affected(graph: og.Graph) -> None:
    done = mutate(graph, "update Person set { age: 40 } where age > 0")
    assert (done.affected, done.unchanged) == ({"nodes": 1, "edges": 0}, {"nodes": 1, "edges": 0})
    assert done.commit is not None
    nothing = mutate(graph, "update Person set { age: 40 } where age > 100")
    assert (nothing.affected, nothing.unchanged) == ({"nodes": 0, "edges": 0}, {"nodes": 0, "edges": 0})


def test_a_zero_of_another_sign_and_a_null_are_changes(graph: og.Graph) -> None:
    for value in ("0.0", "-0.0", "null", "0.0"):
        assert mutate(graph, f'update Person set {{ rank: {value} }} where name = "Ada"').commit is not None


def test_a_narrow_number_that_is_there_already_changes_nothing(graph: og.Graph) -> None:
    assert mutate(graph, 'update Person set { share: 0.1 } where name = "Ada"').commit is not None
    assert mutate(graph, 'update Person set { share: 0.1 } where name = "Ada"').commit is None


def test_many_rows_are_computed_together(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    graph.load({"Person": [{"name": f"p{number}", "age": number} for number in range(5_000)]})
    done = mutate(graph, "update Person set { wide: age * 2 } where age % 2 = 1 or age < 10")
    assert done.affected["nodes"] == 2_505
    found = graph.query("query q { match { $p: Person $p.wide = $p.age * 2 } return { count($p) as n } }")
    assert found.rows() == [{"n": 2_505}]
