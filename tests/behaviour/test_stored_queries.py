"""Stored queries are part of a graph: versioned with it, checked against its schema, and called by name."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph import failpoints
from omnigraph.api.queries import QueryKind
from omnigraph.diagnostics import Source
from omnigraph.policy import policy_of
from omnigraph.policy.checking import check_rules
from omnigraph.policy.deciding import run_expectations
from tests import nursery
from tests.behaviour.people import other_handle
from tests.file_damages import Damage, cut, empty, flip, remove, replace_by_older, scramble

MERGE = "import sys, omnigraph as og; og.open(sys.argv[1]).merge('b')"

SCHEMA = """
node Person { name: String @key, age: I32?, born: Date?, mood: enum(calm, cross)? }
edge Knows: Person -> Person { since: I32? }
"""
ADULTS = """// Who is grown up?
query adults($least: I32, $mood: enum(calm, cross)?) @description("Adults, \\"all\\"") @tag("people") @tag("open") {
    match { $p: Person  $p.age >= $least }
    return { $p.name, $p.age, $p.born }
}"""
ADD = "query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } returning { name, age } }"
FRIENDS = "query friends { match { $p: Person  $p knows $f } return { $p, $f.name as friend, count($f) as n } }"
COUNT = "query people { match { $p: Person } return { count($p) as n } }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    graph.mutate('insert Person { name: "Ada", age: 36 } insert Person { name: "Bob", age: 7 }')
    return graph


def names(graph: Any, at: Any = None) -> list[str]:
    return [each.name for each in graph.queries.list(at)]


# --- stored and called ---


def test_a_set_of_files_is_stored_as_one_commit_with_the_comments_before_each_query(
    graph: og.Graph, tmp_path: Path
) -> None:
    (tmp_path / "one.gq").write_text(f"{ADULTS}\n\n// a brace }} in a comment\n{ADD}\n// the end }}\n")
    (tmp_path / "two.gq").write_text(FRIENDS)
    before = graph.snapshot().commit
    stored = graph.queries.add([tmp_path / "one.gq", tmp_path / "two.gq"], actor="ann")
    assert stored.added == ("adults", "add", "friends")
    assert stored.commit is not None
    assert (stored.commit.actor, stored.commit.message) == ("ann", "store adults, add, friends")
    assert stored.commit.parent_commit_id == before.graph_commit_id
    assert [each.source for each in graph.queries.list()] == [f"// a brace }} in a comment\n{ADD}", ADULTS, FRIENDS]
    assert graph.call("adults", {"least": 18}).rows() == [{"p.name": "Ada", "p.age": 36, "p.born": None}]
    done = graph.call("add", {"name": "Cid"}, message="by name", actor="bob")
    assert isinstance(done, og.MutationResult)
    assert done.rows() == [{"name": "Cid", "age": None}]
    assert done.commit is not None
    assert (done.commit.message, done.commit.actor) == ("by name", "bob")
    assert names(other_handle(graph)) == ["add", "adults", "friends"]


def test_what_a_query_takes_and_gives_is_described(graph: og.Graph) -> None:
    graph.queries.add([ADULTS, FRIENDS, ADD])
    adults, friends, add = (graph.queries.show(name) for name in ("adults", "friends", "add"))
    assert (adults.kind, adults.description, adults.tags) == (QueryKind.READ, 'Adults, "all"', ("people", "open"))
    assert adults.parameters == {
        "type": "object",
        "properties": {
            "least": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
            "mood": {"type": ["string", "null"], "enum": ["calm", "cross", None]},
        },
        "required": ["least"],
        "additionalProperties": False,
    }
    assert adults.result is not None
    assert adults.result["properties"]["p.born"] == {"type": ["string", "null"], "format": "date"}
    assert friends.result is not None
    person = friends.result["properties"]["p"]
    assert (person["title"], [*person["properties"]]) == ("Person", ["id", "name", "age", "born", "mood"])
    assert friends.result["properties"]["n"]["type"] == "integer"
    assert (add.kind, add.result and [*add.result["properties"]]) == (QueryKind.MUTATION, ["name", "age"])
    assert [each.name for each in graph.queries.list(tag="people")] == ["adults"]


def test_a_column_of_a_union_is_what_it_is_in_any_part(graph: og.Graph) -> None:
    query = """query both($least: I32) {
        match { $p: Person  $p.age >= $least } return { $p.name as name, $p.born as born, $p.mood as mood }
        union
        match { $p: Person  $p.age < $least } return { $p.name as name, null as born, "young" as mood }
        order { length(name), name }
    }"""
    graph.queries.add([query])
    assert graph.call("both", {"least": 18}).rows() == [
        {"name": "Ada", "born": None, "mood": None},
        {"name": "Bob", "born": None, "mood": "young"},
    ]
    (both,) = graph.queries.list()
    assert both.result is not None
    assert both.result["required"] == ["name", "born", "mood"]
    born, mood = both.result["properties"]["born"], both.result["properties"]["mood"]
    assert born == {"type": ["string", "null"], "format": "date"}
    assert mood == {"anyOf": [{"type": ["string", "null"], "enum": ["calm", "cross", None]}, {"type": "string"}]}


def test_the_same_text_again_makes_no_commit_and_another_one_needs_to_be_allowed(graph: og.Graph) -> None:
    graph.queries.add([ADULTS, COUNT])
    again = graph.queries.add([ADULTS, COUNT])
    assert (again.commit, again.unchanged) == (None, ("adults", "people"))
    other = COUNT.replace(" as n", " as number")
    with pytest.raises(og.QueryExists, match="`people`; to replace"):
        graph.queries.add([ADULTS, other])
    replaced = graph.queries.add([ADULTS, other], replace=True)
    assert (replaced.replaced, replaced.unchanged) == (("people",), ("adults",))
    assert graph.call("people").rows() == [{"number": 2}]


@pytest.mark.parametrize(
    ("given", "error", "problem"),
    [
        ("query q { match { $p: Persn } return { $p.name } }", og.QueryError, "did you mean `Person`"),
        ("match { $p: Person } return { $p.name }", og.UsageError, "has no name"),
        ("// nothing", og.UsageError, "has no query"),
        ([COUNT, COUNT], og.UsageError, "two queries are called `people`"),
        ([], og.UsageError, "no query was given"),
        (Path("nowhere.gq"), og.NotFound, "nowhere.gq"),
        ([f"query q{n} {{ match {{ $p: Person }} return {{ $p.name }} }}" for n in range(1001)], og.UsageError, "1000"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_nothing_is(
    graph: og.Graph, given: Any, error: type[Exception], problem: str
) -> None:
    before = graph.snapshot().commit_id
    with pytest.raises(error, match=problem):
        graph.queries.add(given)
    assert (graph.snapshot().commit_id, names(graph)) == (before, [])


def test_all_mistakes_of_all_files_are_reported_with_their_files(graph: og.Graph, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.gq").write_text(f"query {name} {{\n  match {{ $p: Persn }} return {{ $p.name }} }}")
    with pytest.raises(og.QueryError) as raised:
        graph.queries.add([tmp_path / "one.gq", tmp_path / "two.gq"])
    found = [(Path(each.file).name, each.line) for each in raised.value.diagnostics]
    assert found == [("one.gq", 2), ("two.gq", 2)]


def test_calls_that_cannot_be_made_say_why(graph: og.Graph) -> None:
    graph.queries.add([ADULTS, ADD])
    with pytest.raises(og.NotFound, match="no query `adlts`: did you mean `adults`"):
        graph.call("adlts")
    with pytest.raises(og.ParameterError, match="least"):
        graph.call("adults")
    with pytest.raises(og.UsageError, match="`add` writes"):
        graph.call("add", {"name": "x"}, snapshot=3)
    with pytest.raises(og.UsageError, match="`adults` reads"):
        graph.call("adults", {"least": 1}, if_commit="x")
    with pytest.raises(og.NotFound, match="`nobody`"):
        graph.queries.remove(["adults", "nobody"])
    with pytest.raises(og.PreconditionFailed):
        graph.call("add", {"name": "x"}, if_commit="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert names(graph) == ["add", "adults"]


# --- versioned ---


def test_each_state_has_the_queries_that_it_had(graph: og.Graph) -> None:
    first = graph.queries.add(COUNT).commit
    graph.queries.add(COUNT.replace(" as n", " as m"), replace=True)
    graph.mutate('insert Person { name: "Cid" }')
    graph.queries.remove("people")
    assert first is not None
    assert names(graph) == []
    assert graph.call("people", snapshot=first.graph_commit_id).rows() == [{"n": 2}]
    assert graph.call("people", snapshot=first.manifest_version + 2).rows() == [{"m": 3}]
    with pytest.raises(og.NotFound):
        graph.call("people")


def test_they_are_in_differences_and_in_the_feed(graph: og.Graph) -> None:
    graph.queries.add([COUNT, ADD])
    first = graph.snapshot().commit_id
    graph.queries.add([COUNT.replace(" as n", " as m"), FRIENDS], replace=True)
    graph.queries.remove("add")
    found = [(each.type, each.id, each.kind.value) for each in graph.diff(first, "main")]
    expected = [("@query", "friends", "insert"), ("@query", "people", "update"), ("@query", "add", "delete")]
    assert found == expected
    (changed,) = (each for each in graph.diff(first, "main", types=["@query"]) if each.id == "people")
    assert changed.before == {"id": "people", "source": COUNT}
    assert [*graph.diff(first, "main", types=["Person"])] == []
    blocks = [[each.id for each in block.changes()] for block in graph.changes()]
    assert blocks[-3:] == [["add", "people"], ["friends", "people"], ["add"]]


def test_a_merge_brings_them_and_finds_conflicts(graph: og.Graph) -> None:
    graph.queries.add([COUNT, ADD])
    graph.branches.create("b")
    assert names(graph, "b") == ["add", "people"]
    graph.queries.add(FRIENDS, branch="b")
    graph.queries.remove("add", branch="b")
    assert graph.merge("b").changes == {"@query": {"inserted": 1, "updated": 0, "deleted": 1}}
    assert names(graph) == ["friends", "people"]

    graph.queries.add(COUNT.replace(" as n", " as ours"), replace=True)
    graph.queries.add(COUNT.replace(" as n", " as theirs"), replace=True, branch="b")
    with pytest.raises(og.MergeConflicts) as raised:
        graph.merge("b")
    (conflict,) = raised.value.conflicts
    assert (conflict.kind, conflict.type, conflict.id) == ("DivergentUpdate", "@query", "people")
    graph.mutate('insert Person { name: "Cid" }', branch="b")
    graph.merge("b", strategy="theirs")
    assert graph.call("people").rows() == [{"theirs": 3}]


def test_a_large_merge_brings_them_too(graph: og.Graph) -> None:
    graph.branches.create("b")
    rows = [{"name": f"P{number}"} for number in range(3_000)]
    graph.load({"Person": pa.Table.from_pylist(rows)}, branch="b")
    graph.queries.add(COUNT, branch="b")
    graph.mutate('insert Person { name: "Cid" }')
    graph.merge("b")
    assert graph.call("people").rows() == [{"n": 3_003}]
    assert graph.verify(data=True).whole


# --- and the schema ---


def test_a_change_of_the_schema_names_what_it_breaks_and_is_refused_unless_told(graph: og.Graph) -> None:
    graph.queries.add([ADULTS, COUNT])
    without = SCHEMA.replace("age: I32?, ", "")
    plan = graph.schema.plan(without)
    assert [(each.name, each.line) for each in plan.broken_queries] == [("adults", 3)]
    assert "breaks the stored query adults, line 3" in str(plan)
    before = graph.snapshot().commit_id
    with pytest.raises(og.QueriesBroken, match="adults, line 3"):
        graph.schema.apply(without)
    assert graph.snapshot().commit_id == before
    graph.schema.apply(without, allow_broken_queries=True)
    assert graph.queries.validate().broken[0].name == "adults"
    broken = graph.queries.show("adults")
    assert (broken.kind, broken.parameters) == (None, None)
    assert "line 3" in broken.problems[0]
    with pytest.raises(og.QueryError, match="age"):
        graph.call("adults", {"least": 1})
    assert graph.call("people").rows() == [{"n": 2}]
    # What is broken already stands in the way of no other change.
    graph.schema.apply(without.replace("born: Date?, ", ""))
    mended = ADULTS.replace("$p.age >= $least", "$least > 0").replace(", $p.age, $p.born", "")
    graph.queries.add(mended, replace=True)
    assert graph.queries.validate().broken == ()


def test_a_merged_query_has_to_fit_the_schema(graph: og.Graph) -> None:
    graph.branches.create("b")
    graph.queries.add(ADULTS, branch="b")
    graph.schema.apply(SCHEMA.replace("age: I32?, ", ""))
    (conflict,) = graph.merge("b", dry_run=True).conflicts
    assert (conflict.kind, conflict.type, conflict.id) == ("ValueConstraintViolation", "@query", "adults")
    assert "line 3" in conflict.theirs


# --- what goes wrong ---


@pytest.mark.parametrize("damage", [flip, cut, empty, remove, scramble, replace_by_older])
def test_a_damaged_set_is_an_error_that_names_its_file_and_nothing_else_fails(graph: og.Graph, damage: Damage) -> None:
    graph.queries.add(COUNT)
    graph.queries.add(ADULTS)
    (path,) = Path(graph.uri, "__queries").glob(f"{graph.snapshot().commit.queries_id}.json")
    damage(path)
    again = other_handle(graph)
    for ask in (again.queries.list, lambda: again.call("people"), lambda: again.queries.remove("people")):
        with pytest.raises(og.Damaged, match=path.stem):
            ask()
    assert [path.name in each.path for each in again.verify().damage]
    assert not again.verify().whole
    assert again.query(COUNT).rows() == [{"n": 2}]
    again.mutate('insert Person { name: "Cid" }')
    assert [each.name for each in again.queries.list(2)] == []


def test_queries_that_many_threads_store_are_all_there(graph: og.Graph) -> None:
    texts = [COUNT.replace("query people", f"query q{number}") for number in range(24)]
    handles = [other_handle(graph) for _ in range(3)]
    with ThreadPoolExecutor(6) as pool:
        done = [*pool.map(lambda each: handles[each[0] % 3].queries.add(each[1]), enumerate(texts))]
    assert all(each.commit is not None for each in done)
    assert sorted(names(graph)) == sorted(f"q{number}" for number in range(24))
    assert len(graph.commits.list()) == 26


def test_no_query_is_stored_between_the_check_of_a_schema_and_its_commit(graph: og.Graph) -> None:
    """Whoever comes first wins: either the change names the query, or the query does not fit the new schema."""
    schema = SCHEMA
    for number in range(6):
        changed = SCHEMA.replace(", born: Date?", "") if "born" in schema else SCHEMA
        text = ADULTS.replace("query adults", f"query adults{number}")
        together = threading.Barrier(2)

        def apply(changed: str = changed, together: threading.Barrier = together) -> bool:
            handle = other_handle(graph)
            together.wait()
            try:
                handle.schema.apply(changed)
            except og.QueriesBroken:
                return False
            return True

        def store(text: str = text, together: threading.Barrier = together) -> bool:
            handle = other_handle(graph)
            together.wait()
            try:
                handle.queries.add(text)
            except og.QueryError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            applied, stored = pool.submit(apply), pool.submit(store)
        assert applied.result() or stored.result()
        assert graph.queries.validate().broken == ()
        if stored.result():
            graph.queries.remove(f"adults{number}")
        if applied.result():
            schema = changed


def test_a_large_merge_that_dies_is_completed_with_its_queries(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", SCHEMA)
    graph.branches.create("b")
    graph.mutate('insert Person { name: "Ada" } insert Person { name: "Bob" }', branch="b")
    graph.queries.add(COUNT, branch="b")
    environment = {failpoints.VARIABLE: "merge.after_phase_b=crash", nursery.CARRIED: "0"}
    code, _ = nursery.ended(MERGE, graph.uri, environment=environment)
    assert code == -signal.SIGKILL
    again = og.open(graph.uri)
    assert [each.recovery_kind for each in again.recoveries.list()] == ["RolledForward"]
    assert again.call("people").rows() == [{"n": 2}]


# --- and policies ---

RULES = """
rules:
  - {id: reads, actors: [reader], actions: [read]}
  - {id: calls, actors: [caller], actions: [invoke], queries: ["tag:people", "ad*"]}
  - {id: no-add, effect: forbid, actors: [caller], actions: [invoke], queries: [add]}
  - {id: stores, actors: [owner], actions: [query_store, read, change, branch_create]}
  - {id: merges, actors: [merger], actions: [read, branch_merge]}
tests:
  - {actor: caller, action: invoke, graph: g, query: adults, tags: [people], expect: permit, rule: calls}
  - {actor: caller, action: invoke, graph: g, query: add, expect: deny, rule: no-add}
  - {actor: caller, action: invoke, graph: g, query: friends, expect: deny}
"""


def test_invoke_allows_calls_without_free_queries_and_other_queries_are_not_there(graph: og.Graph) -> None:
    policed = graph.under(policy_of(RULES))
    owner, caller, reader = (policed.acting_as(each) for each in ("owner", "caller", "reader"))
    owner.queries.add([ADULTS, ADD, FRIENDS])
    assert names(caller) == ["adults"]
    assert caller.call("adults", {"least": 1}).rows()[0]["p.name"] == "Ada"
    for name in ("friends", "add", "nobody"):
        with pytest.raises(og.NotFound, match=f"no query `{name}`"):
            caller.call(name, {"name": "x"} if name == "add" else {})
        with pytest.raises(og.NotFound):
            caller.queries.show(name)
    with pytest.raises(og.PolicyDenied):
        caller.query(ADULTS, params={"least": 1})
    # Who may send the text may call the query.
    assert names(reader) == ["adults", "friends"]
    assert reader.call("friends").rows() == []
    with pytest.raises(og.PolicyDenied):
        reader.queries.add(COUNT)
    owner.branches.create("b")
    owner.queries.add(COUNT, branch="b")
    with pytest.raises(og.PolicyDenied, match="query_store"):
        policed.acting_as("merger").merge("b")
    assert names(owner) == ["add", "adults", "friends"]


def test_the_rules_of_stored_queries_are_tested_and_checked() -> None:
    assert [each.passed for each in run_expectations(policy_of(RULES))] == [True] * 3
    wrong = "rules:\n  - {id: a, actors: any, actions: [read, invoke], queries: [q]}\n"
    (finding,) = check_rules(Source("rules.yaml", wrong)).diagnostics
    assert (finding.code, "`read`" in finding.message) == ("P112", True)
