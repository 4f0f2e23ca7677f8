"""What an insert does with an entity that is there already: update, replace, refuse or ignore it."""

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.catalog import compile_schema
from omnigraph.codes import Code
from omnigraph.compiler import compile_queries

SCHEMA = """
node Person { name: String @key, age: I32?, level: I32 @default(1), bio: String? }
node Note { text: String, stars: I32? }
node Photo { name: String @key, content: Blob?, title: String? }
edge Knows: Person -> Person { since: I32?, how: String? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    mutate(graph, 'insert Person { name: "Ada", age: 36, level: 5, bio: "x" } insert Person { name: "Bob" }')
    mutate(graph, 'insert Note { id: "n", text: "old", stars: 3 }')
    mutate(graph, 'insert Knows { id: "k", from: "Ada", to: "Bob", since: 1, how: "well" }')
    return graph


def mutate(graph: og.Graph, body: str, **given: Any) -> og.MutationResult:
    return graph.mutate(f"query q {{ {body} }}", params=given)


def row(graph: og.Graph, type: str, id: str) -> dict[str, Any]:
    found = graph.entity(type, id)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("words", "expected", "affected"),
    [
        ("", (7, 5, "x"), 1),
        ("on conflict update", (7, 5, "x"), 1),
        ("on conflict replace", (7, 1, None), 1),
        ("on /* a comment */ conflict ignore", (36, 5, "x"), 0),
    ],
)
def test_a_node_with_a_key_that_is_there(graph: og.Graph, words: str, expected: tuple[Any, ...], affected: int) -> None:
    done = mutate(graph, f'insert Person {{ name: "Ada", age: 7 }} {words}')
    assert (done.affected["nodes"], done.unchanged["nodes"]) == (affected, 1 - affected)
    assert (done.commit is None) == (not affected)
    ada = row(graph, "Person", "Ada")
    assert (ada["age"], ada["level"], ada["bio"]) == expected


@pytest.mark.parametrize("words", ["update", "replace", "ignore", "refuse"])
def test_a_node_that_is_new_is_inserted_whatever_is_said(graph: og.Graph, words: str) -> None:
    done = mutate(graph, f'insert Person {{ name: "Eve", age: 7 }} on conflict {words}')
    assert (done.affected["nodes"], done.unchanged["nodes"]) == (1, 0)
    eve = row(graph, "Person", "Eve")
    assert (eve["age"], eve["level"]) == (7, 1)


def test_an_empty_text_is_a_key_like_others(graph: og.Graph) -> None:
    graph.load({"Person": [{"name": "", "age": 1}]}, engine="local")
    for age in (2, 3):
        mutate(graph, f'insert Person {{ name: "", age: {age} }}')
    found = graph.query('query q { match { $p: Person { name: "" } } return { $p.id, $p.age } }').rows()
    assert found == [{"p.id": "", "p.age": 3}]
    with pytest.raises(og.KeyConflict):
        mutate(graph, 'insert Person { name: "" } on conflict refuse')


def test_a_refused_insert_is_a_conflict_and_nothing_is_written(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    with pytest.raises(og.KeyConflict) as error:
        mutate(graph, 'insert Person { name: "Eve" } insert Person { name: "Ada" } on conflict refuse')
    assert (error.value.type, error.value.id) == ("Person", "Ada")
    with pytest.raises(og.KeyConflict):
        mutate(graph, 'insert Person { name: "Dan" } insert Person { name: "Dan" } on conflict refuse')
    assert graph.snapshot().commit_id == before


def test_what_an_earlier_statement_did_is_there_or_gone(graph: og.Graph) -> None:
    mutate(graph, 'delete Person where name = "Ada" insert Person { name: "Ada", age: 1 } on conflict refuse')
    assert row(graph, "Person", "Ada")["level"] == 1
    mutate(graph, 'insert Person { name: "Eve", age: 1 } insert Person { name: "Eve", age: 2 } on conflict ignore')
    assert row(graph, "Person", "Eve")["age"] == 1


@pytest.mark.parametrize(
    ("words", "expected"), [("update", ("new", 3)), ("replace", ("new", None)), ("ignore", ("old", 3))]
)
def test_a_node_without_a_key_conflicts_by_the_id_that_is_given(
    graph: og.Graph, words: str, expected: tuple[Any, ...]
) -> None:
    mutate(graph, f'insert Note {{ id: "n", text: "new" }} on conflict {words}')
    note = row(graph, "Note", "n")
    assert (note["text"], note["stars"]) == expected
    for refusal in ("", "on conflict refuse"):
        with pytest.raises(og.KeyConflict):
            mutate(graph, f'insert Note {{ id: "n", text: "new" }} {refusal}')


@pytest.mark.parametrize(
    ("words", "expected"), [("update", (2, "well")), ("replace", (2, None)), ("ignore", (1, "well"))]
)
def test_an_edge_conflicts_by_the_id_that_is_given(graph: og.Graph, words: str, expected: tuple[Any, ...]) -> None:
    mutate(graph, f'insert Knows {{ id: "k", from: "Ada", to: "Bob", since: 2 }} on conflict {words}')
    edge = row(graph, "Knows", "k")
    assert (edge["since"], edge["how"]) == expected
    assert graph.snapshot().table("edge:Knows").count() == 1


def test_the_ends_of_an_edge_that_is_there_cannot_become_others(graph: og.Graph) -> None:
    with pytest.raises(og.ValidationError, match=r"Knows\.src of `k`: this edge has the end `Ada`"):
        mutate(graph, 'insert Knows { id: "k", from: "Bob", to: "Bob" } on conflict update')
    done = mutate(graph, 'insert Knows { id: "k", from: "Bob", to: "Bob" } on conflict ignore')
    assert done.commit is None


def test_replacing_removes_a_blob_and_updating_keeps_it(graph: og.Graph) -> None:
    mutate(graph, 'insert Photo { name: "p", content: "base64:aGk=" }')
    mutate(graph, 'insert Photo { name: "p", title: "t" } on conflict update')
    assert row(graph, "Photo", "p")["content"] == b"hi"
    mutate(graph, 'insert Photo { name: "p", title: "t" } on conflict replace')
    assert row(graph, "Photo", "p")["content"] is None


def test_replacing_keeps_the_vector_of_a_text_that_stays(tmp_path: Path) -> None:
    schema = (
        'node Text { name: String @key, body: String?, stars: I32?, vector: Vector(8)? @embed("body", model="mock/x") }'
    )
    graph = og.init(tmp_path / "vectors.omni", schema, durability="fast")
    mutate(graph, 'insert Text { name: "a", body: "b", stars: 1 }')
    before = row(graph, "Text", "a")["vector"]
    assert before is not None
    assert mutate(graph, 'insert Text { name: "a", body: "b", stars: 1 } on conflict replace').commit is None
    mutate(graph, 'insert Text { name: "a", body: "b" } on conflict replace')
    assert row(graph, "Text", "a")["vector"] == before
    mutate(graph, 'insert Text { name: "a", stars: 1 } on conflict replace')
    assert row(graph, "Text", "a")["vector"] is None


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ('insert Note { text: "x" } on conflict ignore', Code.CONFLICT_NOT_POSSIBLE),
        ('insert Knows { from: "Ada", to: "Bob" } on conflict update', Code.CONFLICT_NOT_POSSIBLE),
        ('insert Person { name: "x" } on conflict keep', Code.QUERY_SYNTAX),
    ],
)
def test_what_cannot_conflict_is_refused(graph: og.Graph, statement: str, code: Code) -> None:
    with pytest.raises(og.QueryError) as error:
        mutate(graph, statement)
    assert [each.code for each in error.value.diagnostics] == [code]


def test_on_and_conflict_can_be_names() -> None:
    catalog = compile_schema("node On { on: String @key, conflict: I32? }")
    text = 'insert On { on: "a", conflict: 1 } on conflict ignore update On set { conflict: 2 } where on = "b"'
    assert len(compile_queries(f"query on {{ {text} }}", catalog)) == 1
