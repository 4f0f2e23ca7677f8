"""Mutations over the rows of a match: what they insert, change and delete, and what they rely on."""

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.codes import Code
from omnigraph.compiler import compile_query
from omnigraph.mutating import matches
from omnigraph.session import writes
from tests.behaviour.people import fold

SCHEMA = """
interface Named { name: String }
node Person implements Named { name: String @key, age: I32?, city: String?, score: F64?, tags: [String]? }
node Company implements Named { name: String @key, size: I32? }
node Note { text: String, stars: I32? }
edge Knows: Person -> Person { since: I32?, weight: F64? }
edge WorksAt: Person -> Company { since: I32? }
"""
PEOPLE = [
    {"name": "Ada", "age": 36, "city": "oslo", "tags": ["a"]},
    {"name": "Bob", "age": 40, "city": "oslo"},
    {"name": "Cid", "age": 20, "city": "rome"},
    {"name": "Dan", "city": "rome"},
]
KNOWS = [("Ada", "Bob", 1), ("Ada", "Cid", 2), ("Bob", "Cid", 3), ("Cid", "Dan", 4)]


@pytest.fixture(params=["memory", "tables", "not small"])
def graph(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """Matches are read from memory or from tables, and written as small writes or under locks."""
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    graph.load({"Person": PEOPLE, "Company": [{"name": "ACME", "size": 3}, {"name": "Zeta"}]})
    graph.load({"Knows": [{"from": a, "to": b, "since": n} for a, b, n in KNOWS]}, mode="append")
    graph.load({"WorksAt": [{"from": "Bob", "to": "ACME", "since": 9}]}, mode="append")
    if request.param == "tables":
        monkeypatch.setattr(matches, "read_in_memory", lambda *_, **__: None)
        fold(graph)
    if request.param == "not small":
        monkeypatch.setattr(writes, "_SMALL_ATTEMPTS", 0)
    return graph


def mutate(graph: og.Graph, body: str, parameters: str = "", **given: Any) -> og.MutationResult:
    return graph.mutate(f"query q({parameters}) {{ {body} }}", params=given)


def ages(graph: og.Graph) -> dict[str, int | None]:
    rows = graph.query("query q { match { $p: Person } return { $p.name, $p.age } }").rows()
    return {row["p.name"]: row["p.age"] for row in rows}


def edges(graph: og.Graph, type: str = "Knows") -> list[tuple[str, str, int | None]]:
    rows = graph.snapshot().table(f"edge:{type}").scan(["src", "dst", "since"]).to_pylist()
    return sorted((row["src"], row["dst"], row["since"]) for row in rows)


def test_an_update_runs_once_for_each_entity(graph: og.Graph) -> None:
    done = mutate(graph, "match { $p: Person  $p knows $f } update $p set { age: age + 1 }")
    assert done.affected == {"nodes": 3, "edges": 0}
    assert ages(graph) == {"Ada": 37, "Bob": 41, "Cid": 21, "Dan": None}


def test_values_of_the_match_are_those_before_the_mutation_and_bare_names_those_before_the_statement(
    graph: og.Graph,
) -> None:
    body = """
        match { $p: Person { name: "Ada" } }
        update $p set { age: age + 1 }
        update $p set { age: age + $p.age, city: concat($p.name, " of ", city) }
    """
    mutate(graph, body)
    ada = graph.entity("Person", "Ada")
    assert ada is not None
    assert (ada["age"], ada["city"]) == (37 + 36, "Ada of oslo")


def test_edges_are_inserted_for_each_distinct_pair(graph: og.Graph) -> None:
    body = """
        match { $p: Person  $p knows $f  $f knows $g  not { $p knows $g } }
        insert Knows { from: $p, to: $g, since: $since }
    """
    done = mutate(graph, body, "$since: I32", since=7)
    assert done.affected == {"nodes": 0, "edges": 2}
    assert set(edges(graph)) - set(KNOWS) == {("Ada", "Dan", 7), ("Bob", "Dan", 7)}


def test_a_whole_example_runs_in_the_order_of_its_statements(graph: og.Graph) -> None:
    body = """
        match { $p: Person { city: $city }  $p knows $f  not { $p worksAt $_ } }
        insert Knows { from: $f, to: $p, since: 5 }
        update $p set { age: $p.age + 1 }
        delete $f
    """
    done = mutate(graph, body, "$city: String", city="oslo")
    # Ada knows Bob and Cid; these go, with all their edges and those that were just inserted.
    assert done.affected == {"nodes": 1 + 2, "edges": 2 + 6 + 1}
    assert ages(graph) == {"Ada": 37, "Dan": None}
    assert (edges(graph), edges(graph, "WorksAt")) == ([], [])


def test_nodes_are_inserted_once_for_each_key(graph: og.Graph) -> None:
    body = 'match { $p: Person  $p knows $f } insert Company { name: concat($p.city, "!"), size: length($p.city) }'
    assert mutate(graph, body).affected["nodes"] == 2
    names = graph.snapshot().table("node:Company").scan(["name", "size"]).to_pylist()
    assert {row["name"]: row["size"] for row in names} == {"ACME": 3, "Zeta": None, "oslo!": 4, "rome!": 4}


def test_nodes_without_a_key_are_inserted_for_each_row_of_what_is_used(graph: og.Graph) -> None:
    assert mutate(graph, "match { $p: Person } insert Note { text: $p.city }").affected["nodes"] == 2
    assert mutate(graph, "match { $p knows $f } insert Note { text: $p.name, stars: $f.age }").affected["nodes"] == 4
    done = mutate(graph, 'match { $p: Person } insert Note { id: $p.city, text: "x" } on conflict ignore')
    assert done.affected["nodes"] == 2


def test_edges_and_their_values_are_matched_changed_and_deleted(graph: og.Graph) -> None:
    body = 'match { $p: Person { name: "Ada" }  $p $k:knows $f } update $k set { since: since * 10 + $f.age }'
    assert mutate(graph, body).affected["edges"] == 2
    assert ("Ada", "Bob", 50) in edges(graph)
    assert ("Ada", "Cid", 40) in edges(graph)
    mutate(graph, "match { $p $k:knows $f  $k.since < 4 } delete $k")
    assert edges(graph) == [("Ada", "Bob", 50), ("Ada", "Cid", 40), ("Cid", "Dan", 4)]


def test_a_value_may_ask_for_a_pattern(graph: og.Graph) -> None:
    mutate(graph, "match { $p: Person } update $p set { age: count { $p knows $_ } }")
    assert ages(graph) == {"Ada": 2, "Bob": 1, "Cid": 1, "Dan": 0}


def test_values_that_contradict_each_other_are_a_violation(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    with pytest.raises(og.ValidationError, match="the match gives it several values") as error:
        mutate(graph, "match { $p: Person  $p knows $f } update $p set { age: $f.age }")
    (violation,) = error.value.violations
    assert (violation.type, violation.property, violation.id) == ("Person", "age", "Ada")
    with pytest.raises(og.ValidationError, match="the match gives it several values"):
        mutate(graph, "match { $p: Person } insert Company { name: $p.city, size: $p.age }")
    assert graph.snapshot().commit_id == before


def test_values_that_agree_are_none(graph: og.Graph) -> None:
    mutate(graph, "match { $p: Person  $p knows $f } update $p set { city: substring($f.city, 0, 0) }")
    found = graph.query("query q { match { $p: Person } return { $p.name, $p.city } }").rows()
    assert [row["p.city"] for row in found] == ["", "", "", "rome"]


def test_a_match_that_finds_nothing_changes_nothing(graph: og.Graph) -> None:
    body = 'match { $p: Person { name: "Nobody" } } update $p set { age: 1 } insert Note { text: "x" } delete $p'
    done = mutate(graph, body)
    assert done.commit is None
    assert done.affected == {"nodes": 0, "edges": 0}


def test_statements_that_use_nothing_of_the_match_run_once_if_it_finds_anything(graph: og.Graph) -> None:
    body = """
        match { $p: Person { city: $city } }
        insert Note { text: "found" }
        update Person set { age: 1 } where name = "Dan"
        delete Knows where since > 3
    """
    assert mutate(graph, body, "$city: String", city="paris").commit is None
    assert mutate(graph, body, "$city: String", city="oslo").affected == {"nodes": 2, "edges": 1}


def test_what_an_earlier_statement_deleted_is_left_out(graph: og.Graph) -> None:
    body = 'match { $p: Person { city: "oslo" } } delete $p update $p set { age: 1 } delete $p'
    assert mutate(graph, body).affected == {"nodes": 2, "edges": 4}


def test_an_edge_to_what_was_deleted_is_a_violation(graph: og.Graph) -> None:
    with pytest.raises(og.ValidationError, match="there is no `Person`"):
        mutate(graph, 'match { $p: Person { name: "Ada" } } delete $p insert Knows { from: $p, to: "Bob" }')


def test_ends_are_computed_or_taken_from_the_match(graph: og.Graph) -> None:
    body = 'match { $p: Person { name: "Dan" } } insert Knows { from: $p.name, to: concat("A", "da") }'
    mutate(graph, body)
    assert ("Dan", "Ada", None) in edges(graph)
    with pytest.raises(og.ValidationError, match=r"Knows.dst: a value is required"):
        mutate(graph, "match { $p: Person } insert Knows { from: $p, to: substring($p.name, -1) }")


def test_lists_and_nulls_are_taken_from_the_match(graph: og.Graph) -> None:
    mutate(
        graph,
        'match { $a: Person { name: "Ada" }  $d: Person { name: "Dan" } } '
        "update $d set { tags: $a.tags, age: $a.age } update $a set { tags: $d.tags, age: $d.age }",
    )
    ada, dan = graph.entity("Person", "Ada"), graph.entity("Person", "Dan")
    assert ada is not None
    assert dan is not None
    assert (ada["tags"], ada["age"], dan["tags"], dan["age"]) == (None, None, ["a"], 36)


def test_many_rows_are_changed_in_one_commit(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    count = 20_000
    graph.load({"Person": [{"name": f"p{number}", "age": number} for number in range(count)]})
    done = mutate(graph, "match { $p: Person } update $p set { score: $p.age / 2 } insert Note { text: $p.name }")
    assert done.affected["nodes"] == 2 * count
    assert done.commit is not None


def test_too_many_rows_are_refused(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matches, "MOST_ROWS", 3)
    with pytest.raises(og.TooManyMatches, match="write the rows with a load"):
        mutate(graph, "match { $p: Person } update $p set { age: 1 }")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("update $p set { age: 1 }", Code.UNKNOWN_VARIABLE),
        ("match { $p: Person } delete $q", Code.UNKNOWN_VARIABLE),
        ("match { $p: Person } update $n set { age: 1 }", Code.UNKNOWN_VARIABLE),
        ('match { $p: Person } update Person set { age: $p.age } where name = "x"', Code.UNKNOWN_VARIABLE),
        ("match { $p: Person } delete Person where name = $p.name", Code.UNKNOWN_VARIABLE),
        ('match { $p: Person } update $p set { name: "x" }', Code.NOT_UPDATABLE),
        ("match { $p: Person } update $p set { size: 1 }", Code.UNKNOWN_PROPERTY),
        ("match { $p: Person } update $p set { age: size }", Code.UNKNOWN_PROPERTY),
        ("match { $p: Person } update $p set { age: $p }", Code.ENTITY_AS_VALUE),
        ("match { $p: Person } insert Note { text: $p }", Code.ENTITY_AS_VALUE),
        ("match { $p: Person } insert Note { text: text }", Code.BARE_NAME),
        ("match { $x: Named } delete $x", Code.NOT_ASSIGNABLE),
        ('match { $c: Company } insert Knows { from: $c, to: "Ada" }', Code.TRAVERSAL_ENDS),
        ("match { } delete Person where age = 1", Code.EMPTY_QUERY),
    ],
)
def test_what_cannot_be_done_with_a_match_is_refused(tmp_path: Path, text: str, code: Code) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    with pytest.raises(og.QueryError) as error:
        mutate(graph, text, "$n: I32", n=1)
    assert [each.code for each in error.value.diagnostics if each.is_error] == [code]


def test_a_match_needs_the_right_to_read_and_statements_the_right_to_change(graph: og.Graph) -> None:
    query = "query q { match { $p: Person } insert Note { text: $p.name } }"
    found = graph.schema.catalog
    assert found is not None
    access = compile_query(query, found).access
    assert access.writes == ("node:Note",)
    assert access.asks == access.matched == ("node:Person",)
