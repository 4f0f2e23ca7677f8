"""What a statement returns of the entities that it wrote or deleted, through every door and on every way to commit."""

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.codes import Code
from omnigraph.compiler import check_queries, compile_query
from omnigraph.diagnostics import Source
from omnigraph.mutating import matches
from omnigraph.policy import policy_of
from omnigraph.session import writes
from tests.behaviour.http_graph import ARROW, Door, door
from tests.behaviour.people import fold, other_handle
from tests.conftest import carry_rows

SCHEMA = """
node Person {
    name: String @key, age: I32?, level: I32 @default(1), score: F32?, big: U64?, born: Date?, seen: DateTime?
    tags: [String]?, kind: enum(a, b)?, place: Vector(2)?
}
node Photo { name: String @key, content: Blob?, title: String? }
node Note { text: String?, stars: I32? }
edge Knows: Person -> Person { since: I32? }
edge Note: Person -> Person { stars: I32? }
"""
PEOPLE = [{"name": "Ada", "age": 36, "score": 0.1, "tags": ["x"]}, {"name": "Bob"}, {"name": "Cid", "age": 20}]
PATIENCE = 60.0


@pytest.fixture(params=["carried", "tables", "not small", "not carried"])
def graph(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """Rows are read from small commits or from tables, and written as small writes, under locks, or into tables."""
    if request.param == "not carried":
        carry_rows(monkeypatch, 0)
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    graph.load({"Person": PEOPLE})
    mutate(graph, 'insert Knows { id: "ab", from: "Ada", to: "Bob", since: 1 }')
    mutate(graph, 'insert Knows { id: "ac", from: "Ada", to: "Cid" } update Person set { level: 2 } where name = "Cid"')
    if request.param == "tables":
        monkeypatch.setattr(matches, "read_in_memory", lambda *_, **__: None)
        fold(graph)
    if request.param == "not small":
        monkeypatch.setattr(writes, "_SMALL_ATTEMPTS", 0)
    return graph


def mutate(graph: og.Graph, body: str, parameters: str = "", **given: Any) -> og.MutationResult:
    return graph.mutate(f"query q({parameters}) {{ {body} }}", params=given)


def returned(graph: og.Graph, body: str, parameters: str = "", **given: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in mutate(graph, body, parameters, **given).rows()]


# --- inserts ---


def test_an_insert_returns_the_node_as_it_is_stored(graph: og.Graph) -> None:
    body = """
        insert Person { name: $name, age: 7, score: 0.1, big: $big, born: date("2024-05-01"), seen: $seen,
                        tags: $tags, kind: "b", place: [1, 2] }
        returning { id, name, age, level, score, big, born, seen, tags, kind, place }
    """
    seen = datetime(2024, 5, 1, 12, 0, 0, 123000, UTC)
    parameters = "$name: String, $big: U64, $seen: DateTime, $tags: [String]"
    done = mutate(graph, body, parameters, name="Eve", big=2**64 - 1, seen=seen, tags=["y", "z"])
    (row,) = done.rows()
    assert row == graph.entity("Person", "Eve")
    assert (row["level"], row["born"], row["seen"]) == (1, date(2024, 5, 1), seen)
    columns = ", ".join(f"$p.{name} as {name}" for name in done.columns)
    read = graph.query(f'query q {{ match {{ $p: Person {{ name: "Eve" }} }} return {{ {columns} }} }}')
    assert done.to_arrow() == read.to_arrow()
    assert done.to_pandas().equals(read.to_pandas())


def test_a_new_id_is_returned(graph: og.Graph) -> None:
    ((note, text),) = returned(graph, 'insert Note { text: "x" } returning { id, text }')
    assert graph.entity("Note", note) == {"id": note, "text": text, "stars": None}
    ((edge, *ends),) = returned(
        graph, 'insert Knows { from: "Bob", to: "Cid" } returning { id, from, to, src, dst, @src, @id, since }'
    )
    assert ends == ["Bob", "Cid", "Bob", "Cid", "Bob", edge, None]
    assert edge in graph.snapshot().table("edge:Knows").scan(["id"])["id"].to_pylist()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", [("Ada", 7, 1, ["x"])]),
        ("on conflict update", [("Ada", 7, 1, ["x"])]),
        ("on conflict replace", [("Ada", 7, 1, None)]),
        ("on conflict ignore", []),
    ],
)
def test_an_insert_returns_the_node_as_it_stands_after_a_conflict(
    graph: og.Graph, words: str, expected: list[tuple[Any, ...]]
) -> None:
    body = f'insert Person {{ name: "Ada", age: 7 }} {words} returning {{ id, age, level, tags }}'
    assert returned(graph, body) == expected
    if expected:
        done = mutate(graph, body)
        assert (done.commit, [tuple(row.values()) for row in done.rows()]) == (None, expected)
    assert returned(graph, f'insert Person {{ name: "New" }} {words} returning {{ id, age, level }}') == [
        ("New", None, 1)
    ]


def test_an_insert_for_the_rows_of_a_match_returns_one_row_for_each_entity(graph: og.Graph) -> None:
    body = 'match { $p: Person  $p knows $f } insert Photo { name: concat($p.name, "!") } returning { name, id }'
    assert returned(graph, body) == [("Ada!", "Ada!")]
    body = (
        "match { $p: Person  $p knows $f } insert Knows { from: $f, to: $p, since: $f.age } returning { from, since }"
    )
    assert sorted(returned(graph, body), key=str) == [("Bob", None), ("Cid", 20)]
    body = "match { $p: Person } insert Note { stars: $p.level } on conflict ignore returning { id }"
    with pytest.raises(og.QueryError):
        mutate(graph, body)
    found = mutate(graph, "match { $p: Person } insert Note { id: $p.name, stars: $p.level } returning { id, stars }")
    assert found.rows() == [{"id": "Ada", "stars": 1}, {"id": "Bob", "stars": 1}, {"id": "Cid", "stars": 2}]
    body = "match { $p: Person } insert Note { id: $p.name, stars: 9 } on conflict ignore returning { id, stars }"
    mutate(graph, 'delete Note where id = "Bob"')
    assert returned(graph, body) == [("Bob", 9)]


# --- updates and deletes ---


def test_an_update_returns_the_new_values_of_all_that_it_found(graph: og.Graph) -> None:
    body = (
        "update Person set { age: age + 1, level: 2 } where level > 0 returning { name, age, level, age * 2 as twice }"
    )
    assert returned(graph, body) == [("Ada", 37, 2, 74), ("Bob", None, 2, None), ("Cid", 21, 2, 42)]
    done = mutate(graph, "update Person set { level: 2 } where level = 2 returning { name, level }")
    assert done.commit is None
    assert done.unchanged["nodes"] == 3
    assert [row["level"] for row in done.rows()] == [2, 2, 2]


def test_a_delete_returns_what_it_deletes_itself(graph: og.Graph) -> None:
    mutate(graph, 'insert Photo { name: "p", content: "base64:aGk=" }')
    done = mutate(graph, 'delete Person where name = "Ada" or age < 30 returning { name, age, score, tags }')
    assert done.affected == {"nodes": 2, "edges": 2}
    score = pa.scalar(0.1, pa.float32()).as_py()
    assert [tuple(row.values()) for row in done.rows()] == [("Ada", 36, score, ["x"]), ("Cid", 20, None, None)]
    assert graph.entity("Person", "Ada") is None
    assert returned(graph, 'delete Photo where title is null returning { content, "gone" as what }') == [
        (b"hi", "gone")
    ]


def test_edges_are_deleted_and_changed_by_their_ends(graph: og.Graph) -> None:
    body = 'update Knows set { since: 5 } where from = "Ada" and since is null returning { id, to, since }'
    assert returned(graph, body) == [("ac", "Cid", 5)]
    assert returned(graph, 'delete Knows where to = "Bob" returning { id, from, since }') == [("ab", "Ada", 1)]


def test_a_statement_about_a_variable_returns_each_entity_once(graph: og.Graph) -> None:
    body = """
        match { $p: Person  $p knows $f }
        update $p set { age: age + $p.level, level: 9 } returning { $p.name, $p.age, level, $p.id }
    """
    assert returned(graph, body) == [("Ada", 37, 9, "Ada")]
    body = "match { $p: Person  $p $k:knows $f } delete $k returning { $k.id, from, $k.to, since }"
    assert returned(graph, body) == [("ab", "Ada", "Bob", 1), ("ac", "Ada", "Cid", None)]
    assert returned(graph, 'match { $p: Person { name: "Bob" } } delete $p returning { $p.name }') == [("Bob",)]


@pytest.mark.parametrize(
    "statement",
    [
        'update Person set { age: 1 } where name = "Nobody"',
        "update Person set { age: 1 } where age = $none",
        "delete Person where age = $none",
        "delete Person where age > 1000",
        'insert Person { name: "Ada" } on conflict ignore',
        "match { $p: Person  $p.age > 1000 } update $p set { age: 1 }",
        "match { $p: Person  $p.age > 1000 } delete $p",
        'match { $p: Person  $p.age > 1000 } insert Person { name: "x" }',
        "match { $p: Person  $p.age > 1000 } insert Knows { from: $p, to: $p }",
    ],
)
def test_nothing_done_is_no_row_with_the_same_columns(graph: og.Graph, statement: str) -> None:
    if "insert Knows" in statement:
        columns, types = "id, from, since + 1 as next", [pa.string(), pa.string(), pa.int64()]
    else:
        columns, types = "id, name, level + 1 as next", [pa.string(), pa.string(), pa.int64()]
    done = mutate(graph, f"{statement} returning {{ {columns} }}", "$none: I32?", none=None)
    assert done.commit is None
    assert done.rows() == []
    assert done.to_arrow().schema.types == types
    assert done.columns == [name.strip().rpartition(" ")[2] for name in columns.split(",")]


def test_values_are_those_right_after_the_statement(graph: og.Graph) -> None:
    body = """
        insert Person { name: "Eve", age: 1 }
        update Person set { age: age + 1 } where name = "Eve" returning { age, level }
        update Person set { age: 100, level: 7 } where name = "Eve"
        delete Person where name = "Cid"
    """
    assert returned(graph, body) == [(2, 1)]
    assert returned(graph, 'delete Person where name = "Eve" returning { age } insert Person { name: "Eve" }') == [
        (100,)
    ]
    body = 'insert Person { name: "Tmp", age: 3 } delete Person where age = 3 returning { name, age, level }'
    done = mutate(graph, body)
    assert done.rows() == [{"name": "Tmp", "age": 3, "level": 1}]


def test_a_mutation_that_fails_returns_nothing_and_changes_nothing(graph: og.Graph) -> None:
    before = graph.snapshot().commit_id
    with pytest.raises(og.ValidationError):
        mutate(graph, 'insert Knows { from: "Ada", to: "Nobody" } returning { id }')
    assert graph.snapshot().commit_id == before


def test_parameters_and_literals_are_columns(graph: og.Graph) -> None:
    body = """
        update Person set { level: 3 } where name = "Ada"
        returning { $n as n, $list as list, $none as none, "a" as text, [1, 2] as two, now() is null as never,
                    $n + level as total, case when age > 30 then "old" else "young" end as phase,
                    age in $list as known }
    """
    given = {"n": 2, "list": [36], "none": None}
    done = mutate(graph, body, "$n: I32, $list: [I32], $none: String?", **given)
    values = (2, [36], None, "a", [1, 2], False, 5, "old", True)
    assert [tuple(row.values()) for row in done.rows()] == [values]


def test_keys_and_ids_are_different_where_the_key_is_no_text(tmp_path: Path) -> None:
    schema = """
        node User { id: U64 @key, photo: Blob? }
        node Room { building: String, number: I32, place: Vector(2)?, @key(building, number) }
        edge SitsIn: User -> Room { weight: F64? }
    """
    graph = og.init(tmp_path / "ids.omni", schema, durability="fast")
    assert returned(graph, f"insert User {{ id: {2**64 - 1} }} returning {{ id, @id, id > 5 as large }}") == [
        (2**64 - 1, str(2**64 - 1), True)
    ]
    body = 'insert Room { building: "x", number: 3, place: [1, 2] } returning { id, *, place }'
    assert returned(graph, body) == [('["x","3"]', "x", 3, [1.0, 2.0])]
    mutate(graph, "insert User { id: 7 }")
    body = 'insert SitsIn { from: 7, to: ["x", 3], weight: -0.0 } returning { from, @dst, weight }'
    ((start, end, weight),) = returned(graph, body)
    assert (start, end, str(weight)) == ("7", '["x","3"]', "-0.0")
    body = 'match { $u: User { id: 7 } } update $u set { photo: "base64:aGk=" } returning { $u.id, $u.@id, $u.photo }'
    assert returned(graph, body) == [(7, "7", b"hi")]
    body = "match { $u: User  $u sitsIn $_ } delete $u returning { $u.photo, $u.id }"
    assert returned(graph, body) == [(b"hi", 7)]


def test_many_rows_are_returned_from_tables(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "many.omni", SCHEMA, durability="fast")
    graph.load({"Note": [{"id": f"{number:06}", "stars": number % 7} for number in range(30_000)]})
    done = mutate(graph, "update Note set { stars: stars + 1 } where stars >= 3 returning { id, stars }")
    expected = [(f"{number:06}", number % 7 + 1) for number in range(30_000) if number % 7 >= 3]
    assert [tuple(row.values()) for row in done.rows()] == expected
    assert len(returned(graph, "delete Note where stars > 6 returning { id }")) == 30_000 // 7


def test_words_of_the_language_can_be_names(tmp_path: Path) -> None:
    schema = "node Returning { returning: String @key, number: I32? }\nedge Returning: Returning -> Returning"
    graph = og.init(tmp_path / "names.omni", schema, durability="fast")
    body = 'insert Returning { returning: "a", number: 1 } returning { returning, number }'
    assert returned(graph, body) == [("a", 1)]
    assert returned(graph, 'insert Returning { from: "a", to: "a" } returning { from }') == [("a",)]
    body = "update Returning set { number: 2 } where number = 1 or returning = returning returning { returning }"
    assert returned(graph, body) == [("a",)]
    read = "query returning { match { $a: Returning  $a returning{1,2} $b  $a returning $b } return { $b.returning } }"
    assert graph.query(read).rows() == [{"b.returning": "a"}]
    # A node and an edge have this name: an end that is named decides.
    assert returned(graph, "delete Returning where id is not null returning { to }") == [("a",)]


def test_all_properties_are_columns(graph: og.Graph) -> None:
    done = mutate(graph, 'update Person set { age: 1 } where name = "Ada" returning { id, * , age + 1 as next }')
    names = ["name", "age", "level", "score", "big", "born", "seen", "tags", "kind"]
    assert done.columns == ["id", *names, "next"]
    read = graph.query('query q { match { $p: Person { name: "Ada" } } return { $p.* } }')
    assert done.to_arrow().select(names).columns == read.to_arrow().columns
    body = 'match { $p: Person { name: "Ada" } } update $p set { level: 4 } returning { $p.* }'
    assert (
        mutate(graph, body).to_arrow()
        == graph.query('query q { match { $p: Person { name: "Ada" } } return { $p.* } }').to_arrow()
    )
    assert mutate(graph, 'insert Photo { name: "p", content: "base64:aGk=" } returning { * content }').rows() == [
        {"name": "p", "title": None, "content": b"hi"}
    ]
    assert mutate(graph, 'delete Knows where from = "Ada" returning { id, *, from }').columns == ["id", "since", "from"]


def test_a_mutation_without_a_header_returns_rows(graph: og.Graph) -> None:
    assert graph.mutate('insert Person { name: "Eve" } returning { id, level }').rows() == [{"id": "Eve", "level": 1}]


# --- what cannot be returned ---


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("delete Person where age = 1 returning { }", Code.EMPTY_QUERY),
        ("delete Person where age = 1 returning { nme }", Code.UNKNOWN_PROPERTY),
        ("delete Person where age = 1 returning { $p.name }", Code.UNKNOWN_VARIABLE),
        ("delete Person where age = 1 returning { id, id }", Code.DUPLICATE_COLUMN),
        ("delete Person where age = 1 returning { count(id) }", Code.FUNCTION_NOT_ALLOWED),
        ('delete Person where age = 1 returning { search(name, "a") }', Code.FUNCTION_NOT_ALLOWED),
        ("delete Person where age = 1 returning { exists { $p: Person } }", Code.NOT_RETURNABLE),
        ("delete Person where age = 1 returning { name + 1 }", Code.OPERATOR_NOT_DEFINED),
        (
            "delete Person where age = 1 returning { id } delete Knows where since = 1 returning { id }",
            Code.NOT_RETURNABLE,
        ),
        ("delete Person where age = 1 returning { name, * }", Code.DUPLICATE_COLUMN),
        ("delete Person where age = 1 returning { $p.* }", Code.UNKNOWN_VARIABLE),
        ("delete Plain where from = $none returning { * }", Code.EMPTY_QUERY),
        ("match { $p: Person  $p knows $f } delete $p returning { $f.* }", Code.UNKNOWN_VARIABLE),
        ("match { $p: Person } delete $p returning { $p }", Code.ENTITY_AS_VALUE),
        ("match { $p: Person } delete $p returning { $p = $p as same }", Code.ENTITY_AS_VALUE),
        ("match { $p: Person  $p knows $f } delete $p returning { $f.name }", Code.UNKNOWN_VARIABLE),
        ('match { $p: Person } insert Note { text: "x" } returning { $p.name }', Code.UNKNOWN_VARIABLE),
        ("match { $p: Person } delete Person where age = 1 returning { $p.name }", Code.UNKNOWN_VARIABLE),
        ('insert Text { name: "a" } returning { vector }', Code.NOT_RETURNABLE),
        ("delete Person where age = 1 return { id }", Code.QUERY_SYNTAX),
        ("delete Person where age = 1 returning distinct { id }", Code.QUERY_SYNTAX),
        ("delete Person where age = 1 returning { id } limit 1", Code.QUERY_SYNTAX),
    ],
)
def test_what_cannot_be_returned_is_refused(tmp_path: Path, body: str, code: Code) -> None:
    text = """
        node Text { name: String @key, vector: Vector(8)? @embed("name", model="mock/x") }
        edge Plain: Person -> Person
    """
    graph = og.init(tmp_path / "graph.omni", SCHEMA + text, durability="fast")
    with pytest.raises(og.QueryError) as error:
        mutate(graph, body, "$none: String?")
    assert [each.code for each in error.value.diagnostics if each.is_error] == [code]


def test_a_misspelt_name_has_a_hint_and_a_parameter_is_used(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    with pytest.raises(og.QueryError, match="did you mean `level`"):
        mutate(graph, 'insert Person { name: "x" } returning { levl }')
    for word in ("return", "Returning", "returnin"):
        with pytest.raises(og.QueryError, match="are returned by `returning"):
            mutate(graph, f'insert Person {{ name: "x" }} {word} {{ level }}')
    with pytest.raises(og.QueryError, match="are bare names, such as `id`"):
        mutate(graph, 'insert Person { name: "x" } returning { $p.level }')
    source = Source("a.gq", 'query q($n: I32) { insert Person { name: "x" } returning { $n as n } }')
    assert check_queries(source, graph.schema.catalog).diagnostics == ()


# --- who may see it ---


def test_what_is_returned_needs_the_right_to_read(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    mutate(graph, 'insert Person { name: "Ada", age: 36 }')
    rules = "rules: [{id: few, actors: [ann], actions: [change]}]"
    writer = og.open(graph.uri, policy=policy_of(rules), actor="ann", durability="fast")
    mutate(writer, 'insert Person { name: "Eve", age: 1 }')
    before = graph.snapshot().commit_id
    for body in (
        'insert Person { name: "Ada" } returning { age }',
        'insert Person { name: "Ada" } on conflict ignore returning { 1 as one }',
        'insert Knows { from: "Ada", to: "Eve" } returning { id }',
    ):
        with pytest.raises(og.PolicyDenied) as error:
            mutate(writer, body)
        assert error.value.action == "read"
    assert graph.snapshot().commit_id == before
    reader = og.open(graph.uri, policy=policy_of(rules.replace("change", "read, change")), actor="ann", upkeep=False)
    assert returned(reader, 'insert Person { name: "Ada" } returning { age }') == [(36,)]


def test_the_access_of_a_query_names_the_type_and_the_columns(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    access = compile_query('query q { insert Note { text: "x" } returning { stars } }', graph.schema.catalog).access
    assert access.asks == ("node:Note",)
    assert "stars" in access.reads["node:Note"]
    access = compile_query('query q { insert Note { text: "x" } }', graph.schema.catalog).access
    assert access.asks == ()


# --- several writers ---


def test_what_is_returned_is_what_the_attempt_did_that_won(graph: og.Graph) -> None:
    mutate(graph, 'update Person set { age: 0 } where name = "Ada"')
    seen: list[int] = []
    problems: list[og.OmnigraphError] = []

    def count() -> None:
        handle = other_handle(graph)
        for _ in range(12):
            try:
                seen.extend(
                    age
                    for (age,) in returned(
                        handle, 'update Person set { age: age + 1 } where name = "Ada" returning { age }'
                    )
                )
            except og.Conflict as error:
                problems.append(error)

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert sorted(seen) == [*range(1, len(seen) + 1)]
    assert len(seen) + len(problems) == 36
    assert graph.entity("Person", "Ada")["age"] == len(seen)  # type: ignore[index]


def test_one_of_several_writers_returns_what_it_took(graph: og.Graph) -> None:
    """Each job is taken once, by the one whose delete returns it."""
    graph.load({"Note": [{"id": f"n{number}", "text": "job"} for number in range(20)]}, mode="append")
    taken: list[str] = []

    def work() -> None:
        handle = other_handle(graph)
        for number in range(20):
            taken.extend(job for (job,) in returned(handle, f'delete Note where id = "n{number}" returning {{ id }}'))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert sorted(taken) == sorted(f"n{number}" for number in range(20))


# --- the result, and doors ---


def test_a_result_without_returning_has_no_rows(graph: og.Graph) -> None:
    done = mutate(graph, 'insert Note { text: "x" }')
    assert (done.rows(), done.columns, done.table) == ([], [], None)
    assert done.to_arrow() == pa.table({})
    assert done.as_json().keys() == {"commit", "affected", "unchanged"}


def test_the_json_of_a_result_has_rows_as_those_of_queries(graph: og.Graph) -> None:
    body = 'insert Photo { name: "p", content: $c } returning { id, content, $d as day, $x as x }'
    done = mutate(graph, body, "$c: Blob, $d: Date, $x: F64", c=b"hi", d=date(2024, 5, 1), x=1.5)
    document = done.as_json()
    assert document["columns"] == ["id", "content", "day", "x"]
    assert document["rows"] == [{"id": "p", "content": "base64:aGk=", "day": "2024-05-01", "x": 1.5}]
    assert document["commit"]["graph_commit_id"] == graph.snapshot().commit_id


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Door]:
    with door(tmp_path) as ask:
        yield ask


def test_a_server_answers_with_rows_as_json_or_arrow(served: Door) -> None:
    source = "query q($n: String) { insert Person { name: $n, age: 3, score: 0.5 } returning { id, age, score, bio } }"
    row = {"id": "Eve", "age": 3, "score": 0.5, "bio": None}
    for headers in ({}, {"content-type": "application/json; charset=utf-8"}):  # plain, and by the route
        document = served.ok("POST", "/mutate", json={"source": source, "params": {"n": "Eve"}}, headers=headers)
        assert (document["columns"], document["rows"]) == ([*row], [row])
    answer = served("POST", "/mutate", json={"source": source, "params": {"n": "Fay"}}, headers={"accept": ARROW})
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.to_pylist() == [{**row, "id": "Fay"}]
    assert table.schema.types == [pa.string(), pa.int64(), pa.float64(), pa.string()]
    plain = served.ok("POST", "/mutate", json={"source": 'query q { insert Person { name: "Gus" } }'})
    assert plain.keys() == {"commit", "affected", "unchanged"}
