"""Mutations: all of it or nothing, in the order it is written."""

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.conftest import SOCIAL_SCHEMA


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph.omni", SOCIAL_SCHEMA)


def mutate(graph: og.Graph, body: str, parameters: str = "", **given: Any) -> dict[str, int]:
    return dict(graph.mutate(f"query q({parameters}) {{ {body} }}", params=given).affected)


def ids(graph: og.Graph, type: str) -> list[str]:
    entity = graph.schema.catalog.entity(type)
    assert entity is not None
    return sorted(graph.snapshot().table(entity.table_key).scan(["id"])["id"].to_pylist())


def edges(graph: og.Graph, type: str) -> list[tuple[str, str]]:
    table = graph.snapshot().table(f"edge:{type}").scan(["src", "dst"])
    return sorted(zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True))


COMPANIES = 'insert Company { name: "A" } insert Company { name: "B" } '
TWO = 'insert Person { name: "Ada", bio: "x", age: 1 } insert Person { name: "Bob", bio: "y" } '


def test_inserts_become_visible_together(graph: og.Graph) -> None:
    body = TWO + 'insert Knows { from: "Ada", to: "Bob", since: date("2020-01-02") }'
    assert mutate(graph, body) == {"nodes": 2, "edges": 1}
    assert ids(graph, "Person") == ["Ada", "Bob"]
    assert edges(graph, "Knows") == [("Ada", "Bob")]
    assert len(graph.commits.list()) == 2


def test_a_keyed_insert_of_what_is_there_changes_what_it_names_and_keeps_the_rest(graph: og.Graph) -> None:
    mutate(graph, TWO)
    mutate(graph, 'insert Person { name: "Ada", bio: "new" }')
    ada = graph.entity("Person", "Ada")
    assert ada is not None
    assert (ada["bio"], ada["age"]) == ("new", 1)
    mutate(graph, 'insert Person { name: "Ada", bio: "new", age: null }')
    ada = graph.entity("Person", "Ada")
    assert ada is not None
    assert ada["age"] is None


def test_ids_are_derived_from_the_whole_key(graph: og.Graph) -> None:
    mutate(graph, 'insert Event { day: date("2026-01-31"), room: 3, title: "talk" } ' + TWO)
    mutate(graph, 'insert Attends { from: "Ada", to: [date("2026-01-31"), 3] }')
    assert ids(graph, "Event") == ['["2026-01-31","3"]']
    assert edges(graph, "Attends") == [("Ada", '["2026-01-31","3"]')]


def test_what_has_no_key_gets_an_id(graph: og.Graph) -> None:
    mutate(graph, 'insert Note { text: "a" } insert Note { text: "b" } insert Note { id: "mine", text: "c" }')
    assert len(ids(graph, "Note")) == 3
    assert "mine" in ids(graph, "Note")
    for body in ('insert Note { id: "mine", text: "again" }', 'insert Note { id: "x", text: "" } ' * 2):
        with pytest.raises(og.KeyConflict):
            mutate(graph, body)
    with pytest.raises(og.ValidationError, match="cannot be empty"):
        mutate(graph, 'insert Note { id: "", text: "again" }')


def test_later_statements_see_earlier_ones(graph: og.Graph) -> None:
    body = (
        TWO
        + 'update Person set { age: 7 } where bio = "y" delete Person where age = 1 '
        + "update Person set { age: 8 } where age = 7"
    )
    mutate(graph, body)
    assert ids(graph, "Person") == ["Bob"]
    bob = graph.entity("Person", "Bob")
    assert bob is not None
    assert bob["age"] == 8


def test_what_is_deleted_can_be_inserted_again_in_one_query(graph: og.Graph) -> None:
    mutate(graph, TWO)
    mutate(graph, 'delete Person where name = "Ada" insert Person { name: "Ada", bio: "z" }')
    ada = graph.entity("Person", "Ada")
    assert ada is not None
    assert (ada["bio"], ada["age"]) == ("z", None)


def test_what_is_inserted_and_deleted_in_one_query_was_never_there(graph: og.Graph) -> None:
    assert graph.mutate('query q { insert Note { id: "x", text: "a" } delete Note where id = "x" }').commit is None
    assert ids(graph, "Note") == []


def test_deleting_a_node_deletes_the_edges_that_touch_it(graph: og.Graph) -> None:
    mutate(graph, TWO + 'insert Person { name: "Cid", bio: "" } insert Company { name: "ACME" }')
    mutate(
        graph,
        'insert Knows { from: "Ada", to: "Bob" } insert Knows { from: "Bob", to: "Cid" } '
        'insert Knows { from: "Cid", to: "Ada" } insert WorksAt { from: "Bob", to: "ACME" }',
    )
    assert mutate(graph, 'delete knows where from = "Cid" and to = "Ada"') == {"nodes": 0, "edges": 1}
    assert mutate(graph, 'update Knows set { since: date("2020-01-02") } where to = "Cid"') == {"nodes": 0, "edges": 1}
    assert mutate(graph, 'insert Knows { from: "Cid", to: "Ada" }') == {"nodes": 0, "edges": 1}
    assert mutate(graph, 'insert Knows { from: "Bob", to: "Ada" } delete Person where name = "Bob"') == {
        "nodes": 1,
        "edges": 5,
    }
    assert edges(graph, "Knows") == [("Cid", "Ada")]
    assert edges(graph, "WorksAt") == []


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ('name = "Ada"', ["Ada"]),
        ('name != "Ada"', ["Bob", "Cid"]),
        ("age > 1", ["Bob"]),
        ("age <= 2 and age >= 2", ["Bob"]),
        ('tags contains "x"', ["Ada", "Bob"]),
        ('tags = "x"', ["Ada", "Bob"]),
        ('bio contains "ell"', ["Ada", "Bob"]),
        ('bio starts_with "Hel"', ["Bob"]),
        ('city = "oslo"', ["Bob"]),
        ("joined < now()", ["Ada"]),
        ("age = $nothing", []),
        ('id = "Cid"', ["Cid"]),
    ],
)
@pytest.mark.parametrize("committed", [True, False])
def test_a_condition_means_the_same_for_committed_and_pending_rows(
    graph: og.Graph, where: str, expected: list[str], committed: bool
) -> None:
    inserts = (
        'insert Person { name: "Ada", bio: "hello", age: 1, tags: ["x"], joined: datetime("2020-01-01T00:00:00Z") } '
        'insert Person { name: "Bob", bio: "Hello", age: 2, tags: ["y", "x"], city: "oslo" } '
        'insert Person { name: "Cid", bio: "" } '
    )
    delete = f"delete Person where {where}"
    if committed:
        mutate(graph, inserts)
        mutate(graph, delete, "$nothing: I32?")
    else:
        mutate(graph, inserts + delete, "$nothing: I32?")
    assert ids(graph, "Person") == sorted({"Ada", "Bob", "Cid"} - set(expected))


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        ('insert Person { name: "ada", bio: "" }', ["Person.name: `ada` does not match `^[A-Z].*`"]),
        ('insert Person { name: "Cid", bio: "", age: 201 }', ["Person.age: 201 is outside 0..200"]),
        (
            'insert Person { name: "Cid", bio: "", city: $s }',
            ["Person.city: `x` is not one of `berlin`, `oslo` or `quito`"],
        ),
        ('insert Knows { from: "Ada", to: "Zoe" }', ["Knows.dst: there is no `Person` with the id `Zoe`"]),
        (
            'insert Knows { from: "Ada", to: "Bob" } insert Knows { from: "Ada", to: "Bob" }',
            ["(src, dst) = (Ada, Bob) is already that of"],
        ),
        (
            COMPANIES + 'insert WorksAt { from: "Ada", to: "A" } insert WorksAt { from: "Ada", to: "B" }',
            ["WorksAt.src: `Ada` has 2 edges, and 0..1 are allowed"],
        ),
        ('insert Person { name: "Cid", id: "Dan", bio: "" }', ["does not match the key"]),
    ],
)
def test_a_violation_stops_everything(graph: og.Graph, body: str, problems: list[str]) -> None:
    mutate(graph, TWO)
    before = graph.snapshot().commit_id
    with pytest.raises(og.ValidationError) as caught:
        mutate(graph, 'insert Note { text: "also" } ' + body, "$s: String", s="x")
    assert len(caught.value.violations) == len(problems)
    for violation, problem in zip(caught.value.violations, problems, strict=True):
        assert problem in str(violation)
    assert graph.snapshot().commit_id == before
    assert ids(graph, "Note") == []


def test_uniqueness_and_cardinality_look_at_what_is_committed(graph: og.Graph) -> None:
    mutate(
        graph, TWO + 'insert Company { name: "A" } insert Company { name: "B" } insert WorksAt { from: "Ada", to: "A" }'
    )
    mutate(graph, 'insert Knows { from: "Ada", to: "Bob" }')
    with pytest.raises(og.ValidationError, match="is already that of"):
        mutate(graph, 'insert Knows { from: "Ada", to: "Bob" }')
    with pytest.raises(og.ValidationError, match="has 2 edges"):
        mutate(graph, 'insert WorksAt { from: "Ada", to: "B" }')
    mutate(graph, 'delete WorksAt where src = "Ada" insert WorksAt { from: "Ada", to: "B" }')
    assert edges(graph, "WorksAt") == [("Ada", "B")]


def test_a_minimum_of_edges_holds_for_every_source(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node A { k: String @key } node B { k: String @key } edge Has: A -> B @card(1..2)")
    with pytest.raises(og.ValidationError, match=r"has 0 edges, and 1\.\.2 are allowed"):
        mutate(graph, 'insert A { k: "a" }')
    mutate(graph, 'insert A { k: "a" } insert B { k: "b" } insert Has { from: "a", to: "b" }')
    with pytest.raises(og.ValidationError, match="has 0 edges"):
        mutate(graph, 'delete Has where src = "a"')
    with pytest.raises(og.ValidationError, match="has 0 edges"):
        mutate(graph, 'delete B where k = "b"')
    mutate(graph, 'delete A where k = "a"')


def test_defaults_and_blobs_are_stored(graph: og.Graph) -> None:
    mutate(
        graph,
        'insert Company { name: "A" } insert Person { name: "Ada", bio: "", photo: $b }',
        "$b: Blob",
        b=b"\x00\xff",
    )
    company, person = graph.entity("Company", "A"), graph.entity("Person", "Ada")
    assert company is not None
    assert company["size"] == 1
    assert person is not None
    assert person["photo"] == b"\x00\xff"


def test_a_text_in_base64_is_written_to_a_blob(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "photos", "node Photo { name: String @key, content: Blob? }")

    def content() -> bytes | None:
        photo = graph.entity("Photo", "a")
        assert photo is not None
        value: bytes | None = photo["content"]
        return value

    parameters = "$content: String?"
    mutate(graph, 'insert Photo { name: "a", content: $content }', parameters, content="base64:aGk=")
    assert content() == b"hi"
    mutate(graph, 'update Photo set { content: "base64:AP8=" } where name = "a"')
    assert content() == b"\x00\xff"
    update = 'update Photo set { content: $content } where name = "a"'
    for text, problem in (("s3://bucket/photo.png", "expected a Blob as `base64:…`"), ("base64:?", "is not base64")):
        with pytest.raises(og.ParameterError, match=problem):
            mutate(graph, update, parameters, content=text)
    assert content() == b"\x00\xff"
    mutate(graph, update, parameters)
    assert content() is None


def test_a_read_is_not_run_as_a_mutation(graph: og.Graph) -> None:
    with pytest.raises(og.OmnigraphError, match="reads; run it with query"):
        graph.mutate("query q { match { $p: Person } return { $p.name } }")


def test_blobs_survive_many_small_writes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "photos", "node Photo { name: String @key, content: Blob? }")
    insert = "query q($name: String, $content: Blob?) { insert Photo { name: $name, content: $content } }"
    expected: dict[str, bytes | None] = {}
    for number in range(40):
        expected[f"p{number}"] = None if number % 7 == 0 else bytes([number]) * number
        graph.mutate(insert, params={"name": f"p{number}", "content": expected[f"p{number}"]})
    graph.mutate('query q { delete Photo where name = "p3" }')
    del expected["p3"]
    rows = graph.snapshot().table("node:Photo").scan(["name", "content"]).to_pylist()
    assert {row["name"]: row["content"] for row in rows} == expected


def test_a_key_that_is_the_id_itself_is_given_as_such(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", schema="node Person { id: String @key  age: I32? }")
    graph.mutate('query q { insert Person { id: "ada", age: 36 } }')
    graph.mutate('query q { insert Person { id: "ada", age: 37 } }')
    assert graph.entity("Person", "ada") == {"id": "ada", "age": 37}
