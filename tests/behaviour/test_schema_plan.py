"""What leads from the schema of a graph to another, as Python and the command line show it."""

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.behaviour.test_cli import omnigraph_cli

SCHEMA = """node Person {
    name: String @key
    age: I32?
    bio: String?
}
edge Knows: Person -> Person
"""
WIDER = """node Person {
    name: String @key
    age: I64?
    bio: String?
    kind: enum(human, robot) @default("human")
    @range(age, 0..)
}
edge Knows: Person -> Person @card(0..5)
"""
RULED = SCHEMA.replace("age: I32?", "age: I32?\n    @range(age, 40..)")
LOSING = "node Person {\n    name: String @key\n    age: I32?\n}\n"
IMPOSSIBLE = "node Person {\n    name: String @key\n    age: String\n}\nedge Knows: Person -> Person\n"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(str(tmp_path / "graph.omni"), SCHEMA, durability="fast")
    graph.load(
        {
            "Person": [{"name": "Ada", "age": 36}, {"name": "Bob"}, {"name": "Eve", "bio": "listens"}],
            "Knows": [{"from": "Ada", "to": "Bob"}],
        }
    )
    return graph


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    texts = {
        "same": "// as it is\n" + SCHEMA,
        "wider": WIDER,
        "losing": LOSING,
        "ruled": RULED,
        "impossible": IMPOSSIBLE,
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.pg").write_text(text)
    return {name: tmp_path / f"{name}.pg" for name in texts}


def rows_of(plan: Any) -> list[tuple[str, int | None]]:
    return [(step.kind, step.cost.rows) for step in plan.steps]


def test_a_plan_says_how_many_rows_each_step_is_about(graph: og.Graph) -> None:
    assert rows_of(graph.schema.plan(WIDER)) == [
        ("widen_number", 3),
        ("add_property", 3),
        ("add_constraint", 3),
        ("add_constraint", 1),
    ]


def test_a_plan_is_about_the_rows_of_its_branch(graph: og.Graph) -> None:
    graph.branches.create("more")
    graph.load({"Person": [{"name": "Zoe"}]}, branch="more")
    assert rows_of(graph.schema.plan(LOSING)) == [("drop_type", 1), ("drop_property", 3)]
    assert rows_of(graph.schema.plan(LOSING, branch="more")) == [("drop_type", 1), ("drop_property", 4)]


def test_a_plan_changes_nothing(graph: og.Graph, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    og.open(graph.uri, mode="r").schema.plan(WIDER)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert graph.schema.text == SCHEMA


def test_a_schema_is_given_as_a_text_or_a_path(graph: og.Graph, files: dict[str, Path]) -> None:
    assert graph.schema.plan(files["wider"]) == graph.schema.plan(WIDER) == graph.schema.plan(str(files["wider"]))
    assert graph.schema.plan(files["same"]).is_empty
    [refusal, *_] = graph.schema.plan(files["impossible"]).refused
    assert (refusal.code, refusal.file, refusal.line, refusal.column) == ("OG-M002", str(files["impossible"]), 3, 10)
    with pytest.raises(og.NotFound):
        graph.schema.plan("nowhere.pg")
    with pytest.raises(og.SchemaError):
        graph.schema.plan("node Person { name: Strng }")


def test_what_is_there_keeps_its_identity_and_what_is_new_has_a_number_of_its_own(graph: og.Graph) -> None:
    old, new = graph.schema.catalog, graph.schema.plan(WIDER).catalog
    before, after = old.nodes["Person"], new.nodes["Person"]
    assert before.identity == after.identity
    assert after.properties["age"].identity == before.properties["age"].identity
    assert after.properties["kind"].identity >= old.next_identity


def test_a_vector_keeps_its_recorded_model_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'node Doc { text: String?, meaning: Vector(64)? @embed("text") }'
    graph = og.init(str(tmp_path / "docs.omni"), text, durability="fast")
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "other")
    assert graph.schema.plan(text).is_empty
    both = graph.schema.plan(text.replace("}", ', second: Vector(8)? @embed("text") }'))
    assert rows_of(both) == [("add_property", None)]
    properties = both.catalog.nodes["Doc"].properties
    models = {name: each.embedding.model for name, each in properties.items() if each.embedding is not None}
    assert models == {"meaning": "local/wordllama-l2-256", "second": "mock/other"}
    named = graph.schema.plan(text.replace('"text")', '"text", model="mock/other")'))
    assert rows_of(named) == [("change_embedding", 0)]


# --- the command line ---


def test_schema_show_prints_the_schema_as_it_was_written(graph: og.Graph) -> None:
    shown = omnigraph_cli("schema", "show", graph.uri)
    assert (shown.returncode, shown.stdout) == (0, SCHEMA)
    document = json.loads(omnigraph_cli("schema", "show", graph.uri, "--json").stdout)
    assert (document["schema"], document["schema_number"]) == (SCHEMA, 1)
    assert document["schema_id"] == graph.schema.at().id
    assert [each["name"] for each in document["catalog"]["nodes"]] == ["Person"]


def test_schema_plan_shows_a_table_of_steps(graph: og.Graph, files: dict[str, Path]) -> None:
    shown = omnigraph_cli("schema", "plan", files["wider"], graph.uri)
    assert (shown.returncode, shown.stderr) == (0, "")
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in shown.stdout.splitlines() if "│" in line]
    assert cells[0] == ["1", "widen number", "Person.age: I32 → I64", "writes column age", "3"]
    assert [row[0] for row in cells] == ["1", "2", "3", "4"]
    assert shown.stdout.endswith("\n4 steps\n")


def test_schema_plan_speaks_json(graph: og.Graph, files: dict[str, Path]) -> None:
    shown = omnigraph_cli("schema", "plan", files["wider"], "--store", graph.uri, "--json")
    assert (shown.returncode, json.loads(shown.stdout)) == (0, graph.schema.plan(WIDER).as_json())


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("same", 0, "nothing to do"),
        ("losing", 0, "2 steps; 2 of them with data loss; the history keeps it, unless --allow-data-loss is given"),
        ("ruled", 3, "Person.age of `Ada`: 36 is outside 40..\n1 step; 1 row in the way"),
        ("impossible", 3, "2 refused"),
    ],
)
def test_schema_plan_ends_with_3_if_the_change_cannot_be_made(
    graph: og.Graph, files: dict[str, Path], name: str, code: int, words: str
) -> None:
    for arguments in ([], ["--json"]):
        shown = omnigraph_cli("schema", "plan", files[name], graph.uri, *arguments)
        assert shown.returncode == code
    assert words in omnigraph_cli("schema", "plan", files[name], graph.uri).stdout


def test_refusals_are_shown_where_they_are_in_the_file(graph: og.Graph, files: dict[str, Path]) -> None:
    shown = omnigraph_cli("schema", "plan", files["impossible"], graph.uri).stdout
    assert "error[OG-M002]: `Person.age` is I32 and cannot become String" in shown
    assert f"{files['impossible']}:3:10" in shown
    assert "= help: add a property of type String? under another name" in shown
    assert "error[OG-M003]" in shown


def test_a_file_that_is_no_schema_is_an_error_and_no_refusal(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "wrong.pg").write_text("node Person { name: Strng }")
    wrong = omnigraph_cli("schema", "plan", tmp_path / "wrong.pg", graph.uri)
    assert wrong.returncode == 1
    assert "error[S101]" in wrong.stderr
    assert omnigraph_cli("schema", "plan", tmp_path / "nowhere.pg", graph.uri).returncode == 1
    assert omnigraph_cli("schema", "plan", tmp_path / "wrong.pg").returncode == 2


def test_schema_diff_does_the_same_between_two_files(files: dict[str, Path]) -> None:
    shown = omnigraph_cli("schema", "diff", files["same"], files["wider"], "--json")
    document = json.loads(shown.stdout)
    assert shown.returncode == 0
    assert [step["step"] for step in document["steps"]] == ["widen_number", "add_property"] + ["add_constraint"] * 2
    assert {step["cost"]["rows"] for step in document["steps"]} == {None}
    assert omnigraph_cli("schema", "diff", files["wider"], files["same"]).returncode == 3
    assert "nothing to do" in omnigraph_cli("schema", "diff", files["same"], files["same"]).stdout


def test_a_rename_that_was_done_is_noted_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "old.pg").write_text("node Human { name: String @key }")
    (tmp_path / "new.pg").write_text('node Human @rename_from("Person") { name: String @key }')
    shown = omnigraph_cli("schema", "diff", tmp_path / "old.pg", tmp_path / "new.pg")
    assert shown.returncode == 0
    assert "warning[L009]" in shown.stdout
    assert "nothing to do" in shown.stdout


def test_schema_apply_changes_a_graph_as_one_commit(graph: og.Graph, files: dict[str, Path]) -> None:
    shown = omnigraph_cli("schema", "apply", files["wider"], graph.uri, "--as", "ann")
    commit = graph.snapshot().commit
    assert shown.returncode == 0
    assert "widen number" in shown.stdout
    assert "schema 2\n" in shown.stdout
    assert commit.graph_commit_id in shown.stdout
    assert (commit.actor, graph.schema.text) == ("ann", WIDER)
    again = omnigraph_cli("schema", "apply", files["wider"], graph.uri)
    assert (again.returncode, "nothing to do" in again.stdout, graph.snapshot().commit) == (0, True, commit)


def test_schema_apply_speaks_json(graph: og.Graph, files: dict[str, Path]) -> None:
    plan = graph.schema.plan(files["losing"]).as_json()
    shown = omnigraph_cli("schema", "apply", files["losing"], "--store", graph.uri, "--json")
    document = json.loads(shown.stdout)
    commit = graph.snapshot().commit
    expected = {"commit": commit.as_json(), "schema_id": commit.schema_id, "schema_number": 2, "purged": []}
    assert (shown.returncode, document) == (0, {**expected, **plan})
    assert json.loads(omnigraph_cli("schema", "apply", files["losing"], graph.uri, "--json").stdout)["commit"] is None


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [("impossible", 3, "error[OG-M002]"), ("ruled", 1, "Person.age of `Ada`: 36 is outside 40..")],
)
def test_schema_apply_says_why_it_changes_nothing(
    graph: og.Graph, files: dict[str, Path], name: str, code: int, words: str
) -> None:
    failed = omnigraph_cli("schema", "apply", files[name], graph.uri)
    assert (failed.returncode, words in failed.stderr) == (code, True)
    assert (graph.schema.text, graph.schema.at().number) == (SCHEMA, 1)


@pytest.fixture
def changed(graph: og.Graph) -> og.Graph:
    """A graph with three schemas: a tag at the first, a branch at the second."""
    graph.tags.create("first")
    graph.schema.apply(WIDER)
    graph.branches.create("wide")
    graph.schema.apply(LOSING.replace("I32", "I64"))
    return graph


def test_the_schema_of_a_commit_a_tag_or_a_branch_is_shown(changed: og.Graph) -> None:
    commit = changed.tags.list()[0].commit_id
    for at, text in (("first", SCHEMA), (commit, SCHEMA), ("wide", WIDER), ("main", changed.schema.text)):
        shown = omnigraph_cli("schema", "show", changed.uri, "--at", at)
        assert (shown.returncode, shown.stdout) == (0, text)
    document = json.loads(omnigraph_cli("schema", "show", changed.uri, "--at", "wide", "--json").stdout)
    assert (document["schema_id"], document["schema_number"]) == (changed.schema.at("wide").id, 2)
    assert omnigraph_cli("schema", "show", changed.uri, "--at", "nowhere").returncode == 1


def test_schema_diff_compares_commits_tags_branches_and_files(changed: og.Graph, files: dict[str, Path]) -> None:
    def steps(old: str | Path, new: str | Path, code: int = 0) -> list[str]:
        shown = omnigraph_cli("schema", "diff", old, new, changed.uri, "--json")
        assert shown.returncode == code
        return [step["step"] for step in json.loads(shown.stdout)["steps"]]

    commit = changed.tags.list()[0].commit_id
    widened = ["widen_number", "add_property"] + ["add_constraint"] * 2
    assert steps("first", "wide") == steps(commit, "wide") == steps("first", files["wider"]) == widened
    assert steps("wide", "main") == ["drop_constraint", "drop_type"] + ["drop_property"] * 2
    assert steps("main", "main") == []
    assert steps("wide", "first", 3) == ["drop_constraint", "drop_property", "relax_constraint"]
    assert omnigraph_cli("schema", "diff", "first", "nowhere", changed.uri).returncode == 1
    assert omnigraph_cli("schema", "diff", files["wider"], "first", changed.uri).returncode == 2
    assert omnigraph_cli("schema", "diff", "first", "wide").returncode == 2


def test_schema_catch_up_gives_a_branch_the_schema_of_main(changed: og.Graph) -> None:
    shown = omnigraph_cli("schema", "catch-up", "wide", changed.uri, "--as", "bea")
    commit = changed.snapshot("wide").commit
    assert (shown.returncode, "drop property" in shown.stdout, "schema 3\n" in shown.stdout) == (0, True, True)
    assert (commit.actor, commit.schema_id) == ("bea", changed.schema.at().id)
    again = json.loads(omnigraph_cli("schema", "catch-up", "wide", changed.uri, "--json").stdout)
    assert (again["commit"], again["schema_number"], again["steps"]) == (None, 3, [])
    assert omnigraph_cli("schema", "catch-up", "main", changed.uri).returncode == 2
    assert omnigraph_cli("schema", "catch-up", "nowhere", changed.uri).returncode == 1


def test_a_branch_that_is_behind_is_named_with_the_way_out(changed: og.Graph) -> None:
    changed.mutate('query q { insert Person { name: "Zoe" } }')
    refused = omnigraph_cli("branch", "merge", "main", changed.uri, "--into", "wide")
    assert (refused.returncode, "omnigraph schema catch-up wide" in refused.stderr) == (3, True)
