"""Rows that break a rule which a schema is to have are found, and columns that come have the right values."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.api.progress import Progress
from omnigraph.catalog import compile_schema
from omnigraph.diagnostics import Source
from omnigraph.embedding import ModelMismatch, current_settings, text_vectors
from omnigraph.errors import ValidationError
from omnigraph.evolution.apply import apply_reasons
from omnigraph.evolution.columns import changed_layout, column_work, write_all_columns
from omnigraph.evolution.migration import plan_between
from omnigraph.evolution.rules import new_rule_violations
from omnigraph.parts.engine import InProcess
from omnigraph.storage.columns import stage_columns
from omnigraph.storage.commits import commit_staged
from omnigraph.storage.tables import Table
from omnigraph.violations import Rule

SCHEMA = """
node Person {
    name: String @key
    nick: String?
    age: I32?
    size: U64?
    mood: String?
    tags: [String]?
    marks: [U32]?
}
node City { name: String @key, mayor: String? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE: list[dict[str, Any]] = [
    {
        "name": "Ada",
        "nick": "a",
        "age": 36,
        "size": str(2**64 - 1),
        "mood": "glad",
        "tags": ["x", "y"],
        "marks": [1, 2],
    },
    {"name": "Bob", "nick": "a", "age": -1, "size": "7", "mood": "sad", "tags": ["z", "x", "w"], "marks": []},
    {"name": "Cyd"},
    {"name": "Dee", "nick": "d", "age": 200, "mood": "grim", "tags": []},
]
KNOWS = [("Ada", "Bob"), ("Ada", "Cyd"), ("Bob", "Ada")]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    """Four people in two fragments, and one that is gone."""
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA, durability="fast")
    gone = {"name": "Old", "nick": "a", "age": 999, "mood": "?", "tags": ["?"]}
    graph.load({"Person": [*PEOPLE[:2], gone]})
    graph.load({"Person": PEOPLE[2:]})
    graph.load({"Knows": [{"id": f"{a}-{b}", "from": a, "to": b} for a, b in KNOWS]})
    graph.mutate('query q { delete Person where name = "Old" }')
    return graph


def changed(*replacements: tuple[str, str]) -> str:
    """The schema with some of its text replaced."""
    text = SCHEMA
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return text


def ruled(rule: str) -> str:
    """The schema with one more rule for people."""
    return changed(("marks: [U32]?\n", f"marks: [U32]?\n    {rule}\n"))


def broken(graph: og.Graph, text: str) -> list[tuple[str, str | None, str | None, str]]:
    """What breaks the rules that a schema adds."""
    plan = graph.schema.plan(text)
    assert not plan.refused, plan
    faults = new_rule_violations(graph.snapshot(), plan, InProcess())
    assert faults.total == len(faults.shown)
    return [(each.type, each.property, each.id, each.problem) for each in faults.shown]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("@range(age, 0..150)", [("age", "Bob", "-1 is outside 0..150"), ("age", "Dee", "200 is outside 0..150")]),
        ("@range(age, ..200)", []),
        ("@range(size, -5..8)", [("size", "Ada", f"{2**64 - 1} is outside -5..8")]),
        ("@range(size, ..18446744073709551615)", []),
        ('@check(mood, "^g")', [("mood", "Bob", "`sad` does not match `^g`")]),
        ("@unique(nick)", [("nick", "Bob", "(nick) = (a) is already that of `Ada`")]),
        ("@unique(nick, age)", []),
    ],
)
def test_rows_that_break_a_rule_are_found_and_nulls_break_none(
    graph: og.Graph, rule: str, expected: Sequence[tuple[str, str, str]]
) -> None:
    assert broken(graph, ruled(rule)) == [("Person", *each) for each in expected]


def test_values_that_a_narrower_enum_lacks_are_found_also_in_lists(graph: og.Graph) -> None:
    text = changed(("mood: String?", "mood: enum(glad, sad)?"), ("tags: [String]?", "tags: [enum(x, y)]?"))
    assert broken(graph, text) == [
        ("Person", "mood", "Dee", "`grim` is not one of `glad` or `sad`"),
        ("Person", "tags", "Bob", "`z` is not one of `x` or `y`"),
        ("Person", "tags", "Bob", "`w` is not one of `x` or `y`"),
    ]


def test_nodes_with_too_many_or_too_few_edges_are_found(graph: og.Graph) -> None:
    most = changed(("Person -> Person", "Person -> Person @card(0..1)"))
    assert broken(graph, most) == [("Knows", "src", "Ada", "`Ada` has 2 edges, and 0..1 are allowed")]
    fewest = changed(("Person -> Person", "Person -> Person @card(1..2)"))
    assert broken(graph, fewest) == [
        ("Knows", "src", name, f"`{name}` has 0 edges, and 1..2 are allowed") for name in ("Cyd", "Dee")
    ]


def test_the_ends_of_edges_can_become_unique(graph: og.Graph) -> None:
    assert broken(graph, changed(("since: I32? }", "since: I32?  @unique(src, dst) }"))) == []
    ((_, column, id, problem),) = broken(graph, changed(("since: I32? }", "since: I32?  @unique(src) }")))
    assert (column, id) == ("src", "Ada-Cyd")
    assert problem == "(src) = (Ada) is already that of `Ada-Bob`"


def test_a_violation_says_what_kind_of_rule_is_broken(graph: og.Graph) -> None:
    text = changed(("marks: [U32]?\n", "marks: [U32]?\n    @unique(nick)\n    @range(age, 0..)\n"))
    text = text.replace("Person -> Person", "Person -> Person @card(0..1)")
    faults = new_rule_violations(graph.snapshot(), graph.schema.plan(text), InProcess())
    assert [each.rule for each in faults.shown] == [Rule.UNIQUE, Rule.VALUE, Rule.CARDINALITY]


def test_rows_are_judged_under_the_names_that_they_have_later(graph: og.Graph) -> None:
    text = changed(
        ("node Person {", 'node Human @rename_from("Person") {'),
        ("Person -> Person", "Human -> Human @card(0..1)"),
        ("nick: String?", 'alias: String? @rename_from("nick")'),
        ("mood: String?", 'feeling: enum(glad, sad)? @rename_from("mood")'),
        ("marks: [U32]?\n", 'marks: [U32]?\n    @unique(alias)\n    @check(alias, "^[ab]$")\n'),
    )
    assert broken(graph, text) == [
        ("Human", "feeling", "Dee", "`grim` is not one of `glad` or `sad`"),
        ("Human", "alias", "Bob", "(alias) = (a) is already that of `Ada`"),
        ("Human", "alias", "Dee", "`d` does not match `^[ab]$`"),
        ("Knows", "src", "Ada", "`Ada` has 2 edges, and 0..1 are allowed"),
    ]


def test_properties_that_swapped_their_names_in_several_changes_are_not_taken_for_each_other(graph: og.Graph) -> None:
    catalog = graph.snapshot().catalog
    texts = [changed(("nick: String?", 'other: String? @rename_from("nick")'))]
    texts.append(texts[0].replace('@rename_from("nick")', "").replace("mood:", "nick:"))
    texts[1] = texts[1].replace("nick: String?", 'nick: String? @rename_from("mood")')
    texts.append(texts[1].replace('@rename_from("mood")', "").replace("other: String?", "mood: enum(a, d)?"))
    texts[2] = texts[2].replace("enum(a, d)?", 'enum(a, d)? @rename_from("other")')
    for text in texts:
        catalog = compile_schema(text, previous=catalog)
    plan = plan_between(graph.snapshot().catalog, catalog, Source("swapped.pg", texts[-1]))
    assert not plan.refused
    assert new_rule_violations(graph.snapshot(), plan, InProcess()).total == 0
    (work,) = column_work(graph.snapshot(), plan).values()
    continued = {each.field.name: each.continues for each in work.layout}
    assert (continued["mood"], continued["nick"]) == ("nick", "mood")


def test_rows_are_judged_with_the_values_that_they_get(graph: og.Graph) -> None:
    text = changed(
        ("age: I32?", "age: I64?"),
        (
            "marks: [U32]?\n",
            "marks: [U32]?\n    kind: I32 @default(1)\n    @unique(nick, kind)\n    @range(age, ..5000000000)\n",
        ),
    )
    assert broken(graph, text) == [("Person", "nick", "Bob", "(nick, kind) = (a, 1) is already that of `Ada`")]
    same = ruled("kind: I32 @default(1)\n    @unique(kind)")
    assert [each[2] for each in broken(graph, same)] == ["Bob", "Cyd", "Dee"]


@pytest.mark.usefixtures("rows_in_tables")
def test_only_the_columns_of_the_rules_are_read(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[set[str]] = []
    stored = Table.fragment_batches

    def watched(table: Table, fragments: Any, columns: Any, *others: Any, **more: Any) -> Any:
        read.append(set(columns))
        return stored(table, fragments, columns, *others, **more)

    monkeypatch.setattr(Table, "fragment_batches", watched)
    assert broken(graph, ruled("@range(age, ..200)\n    @unique(nick, age)")) == []
    assert set(map(frozenset, read)) == {frozenset({"id", "age"}), frozenset({"id", "nick", "age"})}


def test_the_first_violations_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA, durability="fast")
    for start in (0, 30):
        graph.load({"Person": [{"name": f"p{start + at:02}", "age": at, "nick": "same"} for at in range(30)]})
    plan = graph.schema.plan(ruled("@range(age, 5..)\n    @unique(nick)"))
    faults = new_rule_violations(graph.snapshot(), plan, InProcess())
    assert faults.total == 59 + 10
    assert [each.id for each in faults.shown] == [f"p{at:02}" for at in range(1, 21)]


@pytest.mark.parametrize("keys", [1, 3])
def test_a_large_table_is_compared_a_bucket_at_a_time_with_the_same_outcome(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, keys: int
) -> None:
    text = ruled("@unique(nick)").replace("Person -> Person", "Person -> Person @card(1..1)")
    at_once = sorted(broken(graph, text))
    assert {each[2] for each in at_once} == {"Ada", "Bob", "Cyd", "Dee"}
    stages: list[Progress] = []
    monkeypatch.setattr("omnigraph.parts.buckets.KEYS_A_BUCKET", keys)
    faults = new_rule_violations(graph.snapshot(), graph.schema.plan(text), InProcess(stages.append))
    assert sorted((each.type, each.property, each.id, each.problem) for each in faults.shown) == at_once
    assert max(each.total for each in stages if each.stage == "checking rows") > 2
    assert [path.name for path in (Path(graph.uri) / "__bulk").rglob("*.arrow")] == []


def test_a_plan_without_rules_reads_nothing(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "fragment_batches", None)
    assert broken(graph, changed(("mayor: String?", "mayor: String?, size: I32 @default(1)"))) == []


# --- columns ---


def applied(graph: og.Graph, text: str) -> dict[str, pa.Table]:
    """The tables whose columns a schema changes, as they are afterwards; the graph is left as it is."""
    snapshot, plan = graph.snapshot(), graph.schema.plan(text)
    assert not plan.refused, plan
    work = column_work(snapshot, plan)
    tables = {key: snapshot.table(key) for key in work}
    written = write_all_columns(tables, work, InProcess())
    for key, each in work.items():
        for staged in stage_columns(tables[key], each.layout, written[key], "test"):
            tables[key] = commit_staged(tables[key], staged)
    return {key: table.scan() for key, table in tables.items()}


def test_rows_get_the_defaults_of_properties_of_every_type(graph: og.Graph) -> None:
    text = changed(
        (
            "mayor: String?",
            """mayor: String?
    a: String @default("x"), b: Bool @default(true), c: U64 @default(18446744073709551615)
    d: F32 @default(0.5), e: Date @default(date("2026-01-31")), f: enum(p, q)? @default("q")
    g: DateTime @default(datetime("2026-01-31T12:00:00Z")), h: [I32] @default([1, 2]), i: Vector(2) @default([1, 2])
    j: [enum(p, q)] @default([]), k: [Date]? @default([date("2026-01-31")]), l: Blob?, m: I64?
""",
        )
    )
    graph.load({"City": [{"name": "Oslo"}, {"name": "Quito"}]})
    found = applied(graph, text)["node:City"].drop_columns(["id", "name", "mayor"]).to_pylist()
    row = {
        "a": "x",
        "b": True,
        "c": 2**64 - 1,
        "d": 0.5,
        "e": date(2026, 1, 31),
        "f": "q",
        "g": datetime(2026, 1, 31, 12, tzinfo=UTC),
        "h": [1, 2],
        "i": [1.0, 2.0],
        "j": [],
        "k": [date(2026, 1, 31)],
        "l": None,
        "m": None,
    }
    assert found == [row, row]


@pytest.mark.usefixtures("rows_in_tables")
def test_wider_numbers_are_the_same_numbers_and_the_rest_is_only_arranged_anew(graph: og.Graph) -> None:
    text = changed(
        ("    nick: String?\n", ""),
        ("age: I32?", 'years: I64? @rename_from("age")'),
        ("marks: [U32]?", "marks: [I64]?\n    first: Bool?"),
    )
    tables = applied(graph, text)
    assert list(tables) == ["node:Person"]
    found = tables["node:Person"]
    assert found.column_names == ["id", "name", "years", "size", "mood", "tags", "marks", "first"]
    assert found.schema.field("marks").type.value_type == pa.int64()
    expected = [
        {
            name: person.get(old)
            for name, old in [("name", "name"), ("years", "age"), ("tags", "tags"), ("marks", "marks")]
        }
        for person in PEOPLE
    ]
    assert found.select(["name", "years", "tags", "marks"]).to_pylist() == expected


def test_names_rules_and_widths_of_enums_are_no_work_for_tables(graph: og.Graph) -> None:
    text = changed(
        ("node City", 'node Town @rename_from("City")'),
        ("mood: String?", 'mood: enum(a, b)? @description("how it is")'),
        ("marks: [U32]?\n", "marks: [U32]?\n    @unique(nick)\n"),
    )
    assert column_work(graph.snapshot(), graph.schema.plan(text)) == {}
    renamed = changed(("mayor: String?", 'chief: String? @rename_from("mayor")'))
    (work,) = column_work(graph.snapshot(), graph.schema.plan(renamed)).values()
    assert [(each.field.name, each.continues) for each in work.layout] == [
        ("id", "id"),
        ("name", "name"),
        ("chief", "mayor"),
    ]
    assert work.makers == {}


def test_a_property_that_is_dropped_and_declared_again_is_another(graph: og.Graph) -> None:
    without = changed((", mayor: String?", ""))
    dropped = compile_schema(without, previous=graph.snapshot().catalog)
    again = compile_schema(SCHEMA, previous=dropped)
    layout = changed_layout(graph.snapshot().catalog.nodes["City"], again.nodes["City"])
    assert layout is not None
    assert [each.continues for each in layout] == ["id", "name", None]


def test_a_key_that_was_the_id_itself_gets_a_column(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph.omni"), "node Thing { id: String @key }", durability="fast")
    graph.load({"Thing": [{"id": "a"}, {"id": "b"}]})
    found = applied(graph, 'node Thing { code: String @key @rename_from("id") }')["node:Thing"]
    assert sorted(map(tuple, (row.values() for row in found.to_pylist()))) == [("a", "a"), ("b", "b")]


# --- vectors ---

DOCS = """
node Doc {
    name: String @key
    title: String?
    body: String?
    place: Vector(4)? @embed("title", model="mock/one")
}
"""


@pytest.fixture
def docs(tmp_path: Path) -> og.Graph:
    graph = og.init(str(tmp_path / "docs.omni"), DOCS, durability="fast")
    rows: list[dict[str, Any]] = [
        {"name": "both", "title": "t", "body": "b"},
        {"name": "title", "title": "t"},
        {"name": "body", "body": "b"},
        {"name": "given", "place": [1, 0, 0, 0]},
        {"name": "empty", "title": "", "body": ""},
    ]
    (tmp_path / "docs.jsonl").write_text("\n".join(json.dumps({"type": "Doc", "data": row}) for row in rows))
    graph.load(tmp_path / "docs.jsonl")
    return graph


def vector(text: str, model: str = "mock/one") -> list[float]:
    found: list[float] = text_vectors(
        pa.array([text]), model=model, dimension=4, settings=current_settings()
    ).to_pylist()[0]
    return found


def places(table: pa.Table, column: str = "place") -> dict[str, list[float] | None]:
    return dict(zip(table["name"].to_pylist(), table[column].to_pylist(), strict=True))


def test_vectors_of_another_text_are_computed_anew_and_given_ones_stay(docs: og.Graph) -> None:
    found = applied(docs, DOCS.replace('"title", model', '"body", model'))["node:Doc"]
    assert places(found) == {
        "both": vector("b"),
        "title": None,
        "body": vector("b"),
        "given": [1, 0, 0, 0],
        "empty": None,
    }


def test_vectors_of_another_model_are_computed_anew(docs: og.Graph) -> None:
    # All mock models say the same of a text, so one that was computed otherwise shows that it is computed anew.
    docs.load({"Doc": [{"name": "stale", "title": "s", "place": [0, 1, 0, 0]}]})
    text = DOCS.replace("mock/one", "mock/two").replace("title", "heading")
    text = text.replace("heading: String?", 'heading: String? @rename_from("title")')
    (work,) = column_work(docs.snapshot(), docs.schema.plan(text)).values()
    assert work.is_computed
    found = applied(docs, text)["node:Doc"]
    assert places(found)["stale"] == vector("s", "mock/two")
    assert places(found)["given"] == [1, 0, 0, 0]


def test_a_vector_that_is_required_is_computed_also_from_a_text_that_comes(docs: og.Graph) -> None:
    added = 'kind: String @default("k")\n    other: Vector(4) @embed("kind", model="mock/one")\n}'
    found = applied(docs, DOCS.replace("\n}", f"\n    {added}"))["node:Doc"]
    assert set(map(tuple, places(found, "other").values())) == {tuple(vector("k"))}  # type: ignore[arg-type]


def test_rows_without_a_text_for_a_vector_that_they_must_have_are_found_before_a_model_is_asked(
    docs: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = 'other: Vector(4) @embed("body", model="openai/unreachable")\n}'
    text = DOCS.replace("\n}", f"\n    {added}")
    why = "a value is required, and `body` has no text to compute it from"
    assert broken(docs, text) == [("Doc", "other", name, why) for name in ("title", "given", "empty")]
    with pytest.raises(ModelMismatch):
        applied(docs, text)
    monkeypatch.setattr("omnigraph.storage.columns.ROWS_AT_ONCE", 1)
    with pytest.raises(ValidationError) as raised:
        applied(docs, text.replace("openai/unreachable", "mock/one"))
    assert [each.id for each in raised.value.violations] == ["title"]


def test_many_rows_are_a_reason_for_spark(docs: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    checked = docs.schema.plan(DOCS.replace("\n}", '\n    @check(title, "t")\n}'))
    computed = docs.schema.plan(DOCS.replace("mock/one", "mock/two"))
    renamed = docs.schema.plan(DOCS.replace("body: String?", 'text: String? @rename_from("body")'))
    plans = (checked, computed, renamed)
    assert [[*apply_reasons(docs.snapshot(), plan)] for plan in plans] == [[], [], []]
    monkeypatch.setattr("omnigraph.evolution.apply.LARGE_EXPORT", 4)
    monkeypatch.setattr("omnigraph.parts.choice.LARGE_RECORDS", 4)
    assert [len([*apply_reasons(docs.snapshot(), plan)]) for plan in plans] == [1, 2, 0]
