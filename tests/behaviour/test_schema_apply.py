"""Every kind of change of a schema is planned, applied as one commit, and everything stays readable and writable."""

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.upkeep import IndexState
from omnigraph.catalog import EntityType
from omnigraph.evolution import migration
from omnigraph.versioning import Snapshot
from tests.behaviour.schema_case import Asked, Case
from tests.behaviour.schema_steps import CASES

Content = dict[str, dict[str, dict[str, Any]]]


def content(snapshot: Snapshot) -> Content:
    """All rows of a snapshot by type and id."""
    entities: list[EntityType] = [*snapshot.catalog.nodes.values(), *snapshot.catalog.edges.values()]
    found = {each.name: snapshot.table(each.table_key).scan().to_pylist() for each in entities}
    return {name: {row.pop("id"): row for row in rows} for name, rows in found.items()}


def answers(graph: og.Graph, asked: Asked, **options: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in graph.query(f"query q {asked.text}", **options).rows()]


def started(case: Case, folder: Path) -> og.Graph:
    """A graph with the data of a case and two branches that begin there."""
    graph = og.init(folder / "graph.omni", case.old, durability="fast")
    graph.load(case.data)
    graph.ensure_indices()
    graph.branches.create("before")
    graph.branches.create("idle")
    return graph


@pytest.mark.parametrize("case", [pytest.param(case, id=case.title.replace(" ", "-")) for case in CASES])
def test_a_change(case: Case, tmp_path: Path) -> None:
    graph = started(case, tmp_path)
    first, then = graph.snapshot(), content(graph.snapshot())
    assert answers(graph, case.before) == list(case.before.rows)

    _plan_and_apply(graph, case)
    applied = graph.snapshot()
    assert answers(graph, case.after) == list(case.after.rows)
    _the_past_stays(graph, case, first, then)
    _the_branch_goes_on_and_is_merged(graph, case, first)
    _another_branch_catches_up(graph, case, applied)
    _what_follows_works(graph, case, tmp_path)
    _the_past_stays(graph, case, first, then)


def _plan_and_apply(graph: og.Graph, case: Case) -> None:
    plan = graph.schema.plan(case.new)
    assert [(step.kind, step.what, str(step.cost)) for step in plan.steps] == list(case.steps)
    assert plan.is_possible
    assert plan.loses_data == any(cost.startswith("data loss") for *_, cost in case.steps)
    head = graph.snapshot().commit
    result = graph.schema.apply(case.new, actor="ann")
    commit = graph.snapshot().commit
    assert result.commit == commit
    assert (commit.parent_commit_id, commit.actor, commit.message) == (head.graph_commit_id, "ann", "schema apply")
    assert result.plan == plan
    assert (result.schema.number, graph.schema.at().id, graph.schema.text) == (2, result.schema.id, case.new)
    again = graph.schema.apply(case.new)
    assert (again.commit, again.schema.id, graph.snapshot().commit) == (None, result.schema.id, commit)


def _the_past_stays(graph: og.Graph, case: Case, first: Snapshot, then: Content) -> None:
    """The old snapshot, as it was held and as it is opened anew, has the old schema."""
    commit = first.commit.graph_commit_id
    assert content(first) == content(graph.snapshot_at(commit=commit)) == then
    assert answers(graph, case.before, snapshot=commit) == list(case.before.rows)
    assert (graph.schema.at(commit).number, graph.schema.at(commit).text) == (1, case.old)


def _the_branch_goes_on_and_is_merged(graph: og.Graph, case: Case, first: Snapshot) -> None:
    """A branch made before the change reads and writes as before, and what it wrote comes to main."""
    assert graph.schema.at("before").number == 1
    assert answers(graph, case.before, branch="before") == list(case.before.rows)
    graph.load(case.branch, branch="before")
    written = [(change.type, change.kind, change.id) for change in graph.diff(first, "before")]
    assert {kind for _, kind, _ in written} == {"insert"}
    assert sorted(_changes(graph, first, "main")) == sorted(case.changed)
    merged = graph.merge("before")
    assert merged.schema == (1, 2)
    type, id, values = case.merged
    row = graph.entity(type, id)
    assert row is not None
    assert {name: row[name] for name in values} == values
    came = [change for change in _changes(graph, first, "main") if change not in case.changed]
    assert (type, "insert", id) in came
    assert sorted((kind, id) for _, kind, id in came) == sorted((kind, id) for _, kind, id in written)
    assert answers(graph, case.after) == list(case.after.rows)


def _changes(graph: og.Graph, left: Snapshot, right: str) -> list[tuple[str, str, str]]:
    return [(change.type, change.kind, change.id) for change in graph.diff(left, right)]


def _another_branch_catches_up(graph: og.Graph, case: Case, applied: Snapshot) -> None:
    result = graph.schema.catch_up("idle", actor="bea")
    assert result.commit is not None
    assert (result.commit.branch, result.commit.actor, result.schema.id) == ("idle", "bea", graph.schema.at().id)
    assert content(graph.snapshot("idle")) == content(applied)
    assert answers(graph, case.after, branch="idle") == list(case.after.rows)
    assert list(graph.diff(applied, "idle")) == []
    assert graph.schema.catch_up("idle").commit is None
    graph.load(case.later, branch="idle")


def _what_follows_works(graph: og.Graph, case: Case, folder: Path) -> None:
    """Opened again, the graph is tended, written and exported as any other."""
    graph = og.open(graph.uri, durability="fast")
    now = content(graph.snapshot())
    graph.ensure_indices()
    graph.optimize()
    assert content(graph.snapshot()) == now
    waiting = [each for each in graph.indexes() if each.state is IndexState.PENDING and not each.reason]
    assert waiting == []
    graph.load(case.later)
    type, id, _ = case.merged
    graph.mutate(f'query q {{ delete {type} where id = "{id}" }}')
    after = content(graph.snapshot())
    assert id not in after[type]
    assert all(
        str(row.get("id") or row.get("title") or row.get("number") or row["name"]) in after[name]
        for name, rows in case.later.items()
        for row in rows
    )
    graph.export(folder / "all.jsonl")
    copy = og.init(folder / "copy.omni", case.new, durability="fast")
    copy.load(folder / "all.jsonl")
    assert _without(content(copy.snapshot()), case.refills) == _without(after, case.refills)


def _without(found: Content, names: tuple[str, ...]) -> Content:
    return {
        type: {id: {name: value for name, value in row.items() if name not in names} for id, row in rows.items()}
        for type, rows in found.items()
    }


def test_indexes_stay_when_their_columns_have_other_names(tmp_path: Path) -> None:
    old = "node Doc { name: String @key, text: String? @index, size: I32? @index, kind: enum(a, b)? @index }"
    new = (
        'node Paper @rename_from("Doc") { name: String @key, words: String? @index @rename_from("text"), '
        'pages: I32? @index @rename_from("size"), sort: enum(a, b)? @index @rename_from("kind") }'
    )
    graph = og.init(tmp_path / "graph.omni", old, durability="fast")
    graph.load({"Doc": [{"name": f"d{n}", "text": f"word{n}", "size": n, "kind": "ab"[n % 2]} for n in range(5)]})
    graph.ensure_indices()
    built = {(each.column, each.kind, each.covered_rows) for each in graph.indexes()}
    graph.schema.apply(new)
    later = {"text": "words", "size": "pages", "kind": "sort"}
    there = {(each.column, each.kind, each.covered_rows) for each in graph.indexes()}
    assert there == {(later.get(column, column), kind, rows) for column, kind, rows in built}
    graph.schema.apply(new.replace("}", ", text: String? @index }"))
    graph.load({"Paper": [{"name": "d9", "words": "word9", "text": "word1"}]})
    graph.ensure_indices()
    graph.optimize()
    assert {each.state for each in graph.indexes()} == {IndexState.COMPLETE}
    for column, found in (("words", ["d1"]), ("text", ["d9"])):
        query = f'query q {{ match {{ $p: Paper  search($p.{column}, "word1") }} return {{ $p.name }} }}'
        assert [row["p.name"] for row in graph.query(query).rows()] == found


def test_every_kind_of_step_is_applied_here() -> None:
    kinds = {
        each.kind for each in vars(migration).values() if isinstance(each, type) and issubclass(each, migration.Step)
    } - {""}
    assert kinds == {kind for case in CASES for kind, *_ in case.steps}


# --- what rows do not allow ---

RULED = """
node Person { name: String @key, age: I32?, nick: String?, mood: String?, bio: String? }
node City { name: String @key }
edge Knows: Person -> Person
"""
ROWS = {
    "Person": [
        {"name": "Ada", "age": 36, "nick": "a", "mood": "glad", "bio": "maths"},
        {"name": "Bob", "age": -1, "nick": "B", "mood": "grim", "bio": "wood"},
        {"name": "Eve", "age": 36, "nick": "a"},
    ],
    "City": [{"name": "Oslo"}],
    "Knows": [{"id": f"ab{n}", "from": "Ada", "to": "Bob"} for n in range(2)],
}
IN_THE_WAY = {
    "range": ("age: I32?", "age: I32?  @range(age, 0..)", "Person", ["Bob"]),
    "check": ("nick: String?", 'nick: String?  @check(nick, "^[a-z]")', "Person", ["Bob"]),
    "unique": ("nick: String?", "nick: String?  @unique(nick, age)", "Person", ["Eve"]),
    "unique under another name": (
        "nick: String?",
        'short: String? @rename_from("nick")  @unique(short, age)',
        "Person",
        ["Eve"],
    ),
    "enum": ("mood: String?", "mood: enum(glad, sad)?", "Person", ["Bob"]),
    "maximum of edges": ("Person -> Person", "Person -> Person @card(0..1)", "Knows", ["Ada"]),
    "minimum of edges": ("Person -> Person", "Person -> Person @card(1..)", "Knows", ["Bob", "Eve"]),
    "edges between two nodes": ("Person -> Person", "Person -> Person { @unique(src, dst) }", "Knows", ["ab1"]),
    "edges of a type that comes": (
        "edge Knows",
        "edge LiesIn: City -> City @card(1..)\nedge Knows",
        "LiesIn",
        ["Oslo"],
    ),
    "required vector": (
        "bio: String?",
        'bio: String?, place: Vector(3) @embed("bio", model="mock/one")',
        "Person",
        ["Eve"],
    ),
}


@pytest.fixture(scope="module")
def ruled(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """A graph that no test changes."""
    graph = og.init(tmp_path_factory.mktemp("ruled") / "graph.omni", RULED, durability="fast")
    graph.load(ROWS)
    return graph


@pytest.mark.parametrize("name", IN_THE_WAY)
def test_rows_that_break_a_rule_are_told_and_nothing_is_changed(ruled: og.Graph, name: str) -> None:
    old, new, type, ids = IN_THE_WAY[name]
    text = RULED.replace(old, new)
    head, there = ruled.snapshot().commit, content(ruled.snapshot())
    plan = ruled.schema.plan(text)
    assert not plan.is_possible
    assert not plan.refused
    assert ([(each.type, each.id) for each in plan.violations], plan.violation_count) == (
        [(type, id) for id in ids],
        len(ids),
    )
    with pytest.raises(og.ValidationError) as raised:
        ruled.schema.apply(text)
    assert (raised.value.violations, raised.value.total) == (plan.violations, plan.violation_count)
    assert (ruled.snapshot().commit, ruled.schema.text) == (head, RULED)
    assert content(og.open(ruled.uri, mode="r").snapshot()) == there
    assert [each.name for each in (Path(ruled.uri) / "__schemas").iterdir()] == [f"{ruled.schema.at().id}.json"]


def test_rows_of_a_branch_can_be_in_the_way_of_catching_up(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", RULED, durability="fast")
    graph.branches.create("b")
    graph.load(ROWS, branch="b")
    graph.schema.apply(RULED.replace("age: I32?", "age: I32?  @range(age, 0..)"))
    head = graph.snapshot("b").commit
    with pytest.raises(og.ValidationError) as raised:
        graph.schema.catch_up("b")
    assert [each.id for each in raised.value.violations] == ["Bob"]
    assert graph.snapshot("b").commit == head
    assert len(graph.query("query q { match { $p: Person } return { $p.name } }", branch="b").rows()) == 3
    graph.mutate('query q { update Person set { age: 1 } where name = "Bob" }', branch="b")
    assert graph.schema.catch_up("b").schema.number == 2


def test_what_is_refused_changes_nothing(ruled: og.Graph) -> None:
    text = RULED.replace("age: I32?", "age: String?")
    head = ruled.snapshot().commit
    with pytest.raises(og.SchemaRefused) as raised:
        ruled.schema.apply(text)
    assert [each.code for each in raised.value.diagnostics] == ["OG-M002"]
    assert (ruled.snapshot().commit, ruled.schema.at().number) == (head, 1)
    with pytest.raises(og.SchemaError):
        ruled.schema.apply("node Person { name: Strng }")
    with pytest.raises(og.UsageError):
        og.open(ruled.uri, mode="r").schema.apply(RULED)
    with pytest.raises(og.UsageError):
        ruled.schema.catch_up("main")
    with pytest.raises(og.NotFound):
        ruled.schema.catch_up("nowhere")


def test_another_text_that_means_the_same_is_kept_as_it_is_written(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", RULED, durability="fast")
    commented = f"// who is who\n{RULED}"
    result = graph.schema.apply(commented)
    assert (result.plan.is_empty, result.schema.number, graph.schema.text) == (True, 2, commented)
    assert graph.schema.at(1).text == RULED


def test_a_default_that_its_enum_does_not_allow_any_more_does_not_make_a_schema_unreadable(tmp_path: Path) -> None:
    """What rows got when a property came is kept with the schema, for branches that catch up."""
    graph = og.init(tmp_path / "graph.omni", "node A { k: String @key }", durability="fast")
    graph.branches.create("b")
    graph.load({"A": [{"k": "a"}]}, branch="b")
    graph.schema.apply('node A { k: String @key, c: enum(x, y)? @default("x"), l: [enum(x)]? @default(["x"]) }')
    graph.schema.apply("node A { k: String @key, c: enum(y, z)?, l: [enum(z)]? }")
    graph = og.open(graph.uri, durability="fast")
    assert graph.load({"A": [{"k": "b", "c": "z"}]}).nodes == {"A": 1}
    with pytest.raises(og.SchemaRefused) as raised:
        graph.schema.catch_up("b")
    assert [each.code for each in raised.value.diagnostics] == ["OG-M001", "OG-M001"]


def test_a_schema_is_applied_only_on_top_of_the_commit_that_was_planned_on(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph.omni", schema="node Person { name: String @key }")
    planned = graph.snapshot().commit_id
    graph.load({"Person": [{"name": "Ada"}]})
    new = "node Person { name: String @key  age: I32? }"
    with pytest.raises(og.PreconditionFailed):
        graph.schema.apply(new, if_commit=planned)
    assert graph.schema.at().number == 1
    assert graph.schema.apply(new, if_commit=graph.snapshot().commit_id).schema.number == 2
