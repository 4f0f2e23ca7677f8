"""Vectors are filled by the model that the graph records: at load and mutate time, in queries, and by `embed`."""

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import omnigraph as og
from omnigraph.api.progress import Progress
from omnigraph.changes import diff_snapshots
from omnigraph.cli.main import app
from omnigraph.embedding.fill import MockModel
from omnigraph.embedding.models import SettledModels
from omnigraph.failpoints import VARIABLE, armed
from omnigraph.query import NoEmbeddingModel
from omnigraph.write import creation as init
from tests.behaviour.http_graph import door
from tests.unit.embedding.server import Answer, Server, failing, good, running_server, vector_of

SCHEMA = """
node Doc {
    slug: String @key
    text: String?
    rank: I32?
    vec: Vector(4)? @embed("text", model="MODEL")
}
node Need { slug: String @key, text: String?, vec: Vector(4) @embed("text", model="MODEL") }
edge Cites: Doc -> Doc { note: String?, vec: Vector(4)? @embed("note", model="MODEL") }
"""
KEY = "sk-very-secret"
GIVEN = [9.0, 9.0, 9.0, 9.0]
FIVE = [1.0, 2.0, 3.0, 4.0, 5.0]


def new_graph(folder: Path, model: str = "mock/x") -> og.Graph:
    return og.init(folder / "graph.omni", SCHEMA.replace("MODEL", model), durability="fast")


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return new_graph(tmp_path)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server, and an environment that leads to it."""
    with running_server() as started:
        monkeypatch.setenv("OMNIGRAPH_EMBED_BASE_URL", started.url)
        monkeypatch.setenv("OMNIGRAPH_EMBED_API_KEY", KEY)
        yield started


def mocked(text: str, dimension: int = 4) -> list[float]:
    vector: list[float] = MockModel().vectors([text], dimension)[0].tolist()
    return vector


def vectors(graph: og.Graph, type: str = "Doc", branch: str = "main") -> dict[str, list[float] | None]:
    entity = graph.schema.catalog.entity(type)
    assert entity is not None
    rows = graph.snapshot(branch).table(entity.table_key).scan(["id", "vec"]).to_pylist()
    return {row["id"]: row["vec"] for row in rows}


def write(graph: og.Graph, text: str, **params: Any) -> None:
    graph.mutate(f"query q {{ {text} }}", params=params)


# --- loads ---


@pytest.fixture(params=["local", "on Spark"])
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "local":
        return "local"
    request.getfixturevalue("spark")
    return "spark"


def test_a_load_computes_vectors_where_there_is_a_text_and_no_vector(graph: og.Graph, engine: str) -> None:
    rows = [
        {"slug": "a", "text": "one", "vec": None},
        {"slug": "b", "text": "one"},
        {"slug": "c", "text": "three", "vec": GIVEN},
        {"slug": "d", "text": None},
        {"slug": "e", "text": ""},
        {"slug": "f", "text": None, "vec": GIVEN},
    ]
    graph.load({"Doc": rows}, engine=engine)
    assert vectors(graph) == {"a": mocked("one"), "b": mocked("one"), "c": GIVEN, "d": None, "e": None, "f": GIVEN}


def test_records_of_all_kinds_get_their_vectors(graph: og.Graph, tmp_path: Path) -> None:
    records = [
        {"type": "Doc", "data": {"slug": "a", "text": "one"}},
        {"type": "Need", "data": {"slug": "n", "text": "two"}},
        {"type": "Doc", "data": {"slug": "b", "text": "null", "vec": None}},
        {"edge": "Cites", "from": "a", "to": "b", "data": {"id": "ab", "note": "because"}},
        {"edge": "Cites", "from": "b", "to": "a", "data": {"id": "ba"}},
    ]
    (tmp_path / "data.jsonl").write_text("\n".join(map(json.dumps, records)))
    graph.load(tmp_path / "data.jsonl", "overwrite")
    assert vectors(graph) == {"a": mocked("one"), "b": mocked("null")}
    assert vectors(graph, "Need") == {"n": mocked("two")}
    assert vectors(graph, "Cites") == {"ab": mocked("because"), "ba": None}


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_a_required_vector_is_there_when_its_text_is(graph: og.Graph, mode: str) -> None:
    graph.load({"Need": [{"slug": "a", "text": "one"}]}, mode)
    assert vectors(graph, "Need") == {"a": mocked("one")}
    with pytest.raises(og.ValidationError, match="a value is required"):
        graph.load({"Need": [{"slug": "b", "text": None}]}, mode)
    with pytest.raises(og.ValidationError, match="a value is required"):
        write(graph, 'insert Need { slug: "c" }')
    assert set(vectors(graph, "Need")) == {"a"}


def test_a_merge_computes_the_vectors_of_texts_that_come_or_change(graph: og.Graph, engine: str) -> None:
    before = [{"slug": each, "text": f"text {each}", "vec": GIVEN} for each in "abcdefg"]
    graph.load({"Doc": [*before, {"slug": "h", "text": "text h"}]})
    write(graph, 'update Doc set { vec: null } where slug = "g"')
    (folder := Path(graph.uri).parent / "merged.jsonl").write_text(
        "\n".join(
            json.dumps({"type": "Doc", "data": data})
            for data in [
                {"slug": "a", "rank": 1},
                {"slug": "b", "text": "text b"},
                {"slug": "c", "text": "other"},
                {"slug": "d", "text": "other", "vec": [1, 2, 3, 4]},
                {"slug": "e", "text": None},
                {"slug": "f", "vec": None},
                {"slug": "g", "rank": 1},
                {"slug": "h", "text": "new", "rank": 2},
                {"slug": "i", "text": "fresh"},
                {"slug": "j"},
            ]
        )
    )
    graph.load(folder, "merge", engine=engine)
    assert vectors(graph) == {
        "a": GIVEN,
        "b": GIVEN,
        "c": mocked("other"),
        "d": [1, 2, 3, 4],
        "e": None,
        "f": None,
        "g": None,
        "h": mocked("new"),
        "i": mocked("fresh"),
        "j": None,
    }


def test_both_engines_give_the_same_vectors(tmp_path: Path, spark: object) -> None:
    rows = [{"slug": f"d{number}", "text": f"the {'very ' * (number % 5)}long text {number}"} for number in range(200)]
    found = []
    for engine in ("local", "spark"):
        graph = og.init(
            tmp_path / engine, 'node Doc { slug: String @key, text: String, vec: Vector(64) @embed("text") }'
        )
        graph.load({"Doc": rows}, engine=engine)
        found.append(vectors(graph))
        graph.embed("Doc", all=True, engine=engine, batch=90)
        found.append(vectors(graph))
    assert all(each == found[0] for each in found)
    assert None not in found[0].values()


# --- mutations ---


def test_an_insert_computes_the_vector_and_keeps_one_that_is_given(graph: og.Graph) -> None:
    write(graph, 'insert Doc { slug: "a", text: "one" } insert Doc { slug: "b", text: "two", vec: [9, 9, 9, 9] }')
    write(graph, 'insert Doc { slug: "c" } insert Cites { id: "e", from: "a", to: "b", note: "why" }')
    assert vectors(graph) == {"a": mocked("one"), "b": GIVEN, "c": None}
    assert vectors(graph, "Cites") == {"e": mocked("why")}


def test_an_update_computes_the_vector_of_a_text_that_changes(graph: og.Graph) -> None:
    graph.load({"Doc": [{"slug": each, "text": f"text {each}", "vec": GIVEN} for each in "abcdef"]})
    write(graph, 'update Doc set { rank: 1 } where slug = "a"')
    write(graph, 'update Doc set { text: "text b" } where slug = "b"')
    write(graph, 'update Doc set { text: "other" } where slug = "c"')
    write(graph, 'update Doc set { text: "other", vec: [1, 2, 3, 4] } where slug = "d"')
    write(graph, 'update Doc set { text: null } where slug = "e"')
    write(graph, 'insert Doc { slug: "f", text: "again" }')
    expected = {"a": GIVEN, "b": GIVEN, "c": mocked("other"), "d": [1, 2, 3, 4], "e": None, "f": mocked("again")}
    assert vectors(graph) == expected
    write(graph, 'update Doc set { vec: null } where slug = "a"')
    write(graph, 'update Doc set { rank: 2 } where slug = "a"')
    assert vectors(graph)["a"] is None
    write(graph, 'update Doc set { text: "text a" } where slug = "a"')
    assert vectors(graph)["a"] == mocked("text a")


def test_the_last_statement_on_a_text_counts_and_a_model_is_asked_once(server: Server, tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "openai/some-model")
    write(
        graph,
        """insert Doc { slug: "a", text: "first" }
        update Doc set { text: "second" } where slug = "a"
        update Doc set { rank: 3 } where slug = "a"
        insert Doc { slug: "b", text: "gone" }
        delete Doc where slug = "b"
        insert Doc { slug: "c", text: "mine" }
        update Doc set { vec: [9, 9, 9, 9] } where slug = "c" """,
    )
    assert vectors(graph) == {"a": vector_of("second", 4), "c": GIVEN}
    assert [asked["input"] for asked in server.asked] == [["second"]]


# --- queries ---

NEAREST = """query near($t: String) {
    match { $d: Doc } return { $d.slug, nearest($d.vec, $t) as far }
    order { nearest($d.vec, $t) } limit 3 }"""


def test_a_text_finds_what_is_near_in_meaning(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", 'node Doc { slug: String @key, text: String, vec: Vector(256) @embed("text") }')
    texts = {
        "dog": "A small dog plays in the garden",
        "money": "Shares and bonds fell on Friday",
        "bread": "Bread is baked from flour and water",
        "storm": "Heavy clouds brought thunder and wet weather",
    }
    graph.load({"Doc": [{"slug": slug, "text": text} for slug, text in texts.items()]})
    write(graph, 'insert Doc { slug: "doctor", text: "The doctor examined a patient in the hospital" }')
    asked = {"puppy": "dog", "stock exchange": "money", "bakery": "bread", "rainstorm": "storm", "physician": "doctor"}
    answers = {word: graph.query(NEAREST, params={"t": word}).rows()[0]["d.slug"] for word in asked}
    assert answers == asked


def test_a_query_on_spark_finds_the_same(graph: og.Graph, spark: object) -> None:
    graph.load({"Doc": [{"slug": f"d{number}", "text": f"text {number}"} for number in range(9)]})
    here, there = (graph.query(NEAREST, params={"t": "text 4"}, engine=engine).rows() for engine in ("local", "spark"))
    assert here[0]["d.slug"] == "d4"
    assert [row["d.slug"] for row in there] == [row["d.slug"] for row in here]


def test_a_query_asks_for_a_text_once_and_an_explanation_not_at_all(server: Server, tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "openai/some-model")
    graph.load({"Doc": [{"slug": "a", "text": "one", "vec": GIVEN}]})
    graph.explain(NEAREST, params={"t": "words"})
    assert server.asked == []
    graph.query(NEAREST, params={"t": "words"})
    assert server.texts == ["words"]
    assert graph.query(NEAREST, params={"t": ""}).rows() == [{"d.slug": "a", "far": None}]
    assert server.texts == ["words"]


# --- the model that is recorded ---


def test_the_model_is_recorded_with_the_schema_and_not_taken_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = 'node Doc { slug: String @key, text: String, vec: Vector(64) @embed("text") }'
    og.init(tmp_path / "g", schema)
    compiled = json.loads((tmp_path / "g" / "_schema.ir.json").read_text())
    properties = {each["name"]: each for each in compiled["nodes"][0]["properties"]}
    assert properties["vec"]["embedding"] == ["text", "local/wordllama-l2-256"]
    assert (tmp_path / "g" / "_schema.pg").read_text() == schema
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "other")
    graph = og.open(tmp_path / "g")
    graph.load({"Doc": [{"slug": "a", "text": "x"}]})
    (vector,) = vectors(graph).values()
    assert vector is not None
    assert not np.allclose(vector, MockModel().vectors(["x"], 64)[0])


def test_a_vector_that_its_model_can_never_fill_is_refused_when_the_graph_is_created(tmp_path: Path) -> None:
    with pytest.raises(og.UnsuitableModel, match="not 100") as caught:
        og.init(
            tmp_path / "g",
            'node Doc { text: String, vec: Vector(100) @embed("text", model="local/wordllama-l2-256") }',
        )
    assert caught.value.property == "Doc.vec"
    assert not (tmp_path / "g").exists()


UNFILLED = """
node Doc {
    slug: String @key
    text: String
    vec: Vector(5) @embed("text") @index
}
"""


def test_a_vector_that_no_configured_model_can_fill_is_a_warning_and_stays_null_until_it_is_given(
    tmp_path: Path, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    graph = og.init(tmp_path / "g", UNFILLED, durability="fast")
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "omnigraph.write.creation"]
    assert "warning[L013]" in warning
    assert "`Doc.vec` cannot be filled by the model `local/wordllama-l2-256`" in warning
    graph.load({"Doc": [{"slug": "a", "text": "one"}, {"slug": "b", "text": "two", "vec": FIVE}]}, engine=engine)
    write(graph, 'insert Doc { slug: "c", text: "three" }')
    assert vectors(graph) == {"a": None, "b": FIVE, "c": None}
    write(graph, f'update Doc set {{ vec: {FIVE} }} where slug = "c"')
    write(graph, 'update Doc set { text: "new", vec: null } where slug = "b"')
    graph.load({"Doc": [{"slug": "a", "text": "one more", "vec": FIVE}]}, mode="merge", engine=engine)
    assert vectors(graph) == {"a": FIVE, "b": None, "c": FIVE}
    graph.export(tmp_path / "all.jsonl")
    again = og.init(tmp_path / "again", UNFILLED, durability="fast")
    again.load([tmp_path / "all.jsonl"])
    assert vectors(again) == vectors(graph)
    with pytest.raises(og.UsageError, match="that a model fills; configure a model and apply the schema again"):
        graph.embed("Doc")


def test_a_model_that_comes_later_is_recorded_by_applying_the_schema_and_fills_what_is_null(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.init(tmp_path / "g", UNFILLED, durability="fast")
    graph.load({"Doc": [{"slug": "a", "text": "one"}, {"slug": "b", "text": "two", "vec": FIVE}]})
    plan = graph.schema.plan(UNFILLED)
    assert (plan.is_empty, [note.code for note in plan.notes]) == (True, ["L013"])
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    applied = graph.schema.apply(UNFILLED)
    (step,) = applied.plan.steps
    assert step.what == "Doc.vec: `text` → `text` by mock/hash"
    assert vectors(graph) == {"a": None, "b": FIVE}
    assert graph.embed("Doc").filled == {"vec": 1}
    assert vectors(graph) == {"a": mocked("one", 5), "b": FIVE}
    graph.load({"Doc": [{"slug": "c", "text": "three"}]}, mode="append")
    assert vectors(graph)["c"] == mocked("three", 5)
    assert graph.schema.apply(UNFILLED).commit is None
    monkeypatch.delenv("OMNIGRAPH_EMBED_PROVIDER")
    assert graph.schema.plan(UNFILLED).is_empty
    with pytest.raises(og.UnsuitableModel, match="local"):
        graph.schema.plan(UNFILLED.replace('"text")', '"text", model="small")'))


def test_a_required_vector_without_a_model_can_be_added_to_rows_that_are_there(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node Doc { slug: String @key, text: String }", durability="fast")
    graph.load({"Doc": [{"slug": "a", "text": "one"}]})
    (step,) = graph.schema.apply(UNFILLED.replace(" @index", "")).plan.steps
    assert step.what == "Doc.vec: Vector(5)?, from `text`, without a model"
    assert vectors(graph) == {"a": None}


@pytest.mark.usefixtures("server")
def test_another_model_than_the_recorded_one_is_refused_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = new_graph(tmp_path, "openai/some-model")
    graph.load({"Doc": [{"slug": "a", "text": "one"}]})
    before = graph.snapshot().commit_id
    monkeypatch.setenv("OMNIGRAPH_EMBED_MODEL", "newer-model")
    for attempt in (
        lambda: graph.load({"Doc": [{"slug": "b", "text": "two"}]}),
        lambda: write(graph, 'insert Doc { slug: "b", text: "two" }'),
        lambda: graph.query(NEAREST, params={"t": "one"}),
        lambda: graph.embed("Doc", all=True),
    ):
        with pytest.raises(og.ModelMismatch) as caught:
            attempt()
        assert (caught.value.recorded, caught.value.served) == ("openai/some-model", "openai/newer-model")
        assert "OMNIGRAPH_EMBED_MODEL=some-model" in str(caught.value)
    assert graph.snapshot().commit_id == before
    write(graph, 'insert Doc { slug: "c", text: "two", vec: [9, 9, 9, 9] }')
    assert vectors(graph)["c"] == GIVEN


def test_a_graph_that_records_no_model_fills_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As graphs were created before models were recorded."""
    monkeypatch.setattr(init, "with_models", lambda catalog, _settings: SettledModels(catalog))
    older = og.init(tmp_path / "older.omni", SCHEMA.replace(', model="MODEL"', ""), durability="fast")
    older.load({"Doc": [{"slug": "a", "text": "one"}]})
    assert vectors(older) == {"a": None}
    with pytest.raises(NoEmbeddingModel):
        older.query(NEAREST, params={"t": "one"})
    with pytest.raises(og.UsageError, match="has no property that a model fills"):
        older.embed("Doc")


PLAIN = "node Doc { slug: String @key, text: String?, vec: Vector(8)? }"


@pytest.mark.parametrize("schema", [PLAIN, PLAIN.replace("Vector(8)?", 'Vector(8)? @embed("text")')])
def test_a_text_is_searched_by_the_configured_model_where_none_is_recorded(
    schema: str, tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.init(tmp_path / "g", schema, durability="fast")
    texts = {"a": "one", "b": "two", "c": "three"}
    graph.load({"Doc": [{"slug": slug, "text": text, "vec": mocked(text, 8)} for slug, text in texts.items()]})
    with pytest.raises(NoEmbeddingModel, match="set OMNIGRAPH_EMBED_MODEL, or pass a vector"):
        graph.query(NEAREST, params={"t": "two"}, engine=engine)
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "local")
    with pytest.raises(og.UnsuitableModel, match="not 8"):
        graph.query(NEAREST, params={"t": "two"}, engine=engine)
    monkeypatch.setenv("OMNIGRAPH_EMBED_PROVIDER", "mock")
    rows = graph.query(NEAREST, params={"t": "two"}, engine=engine).rows()
    assert rows[0]["d.slug"] == "b"
    assert rows[0]["far"] == pytest.approx(0, abs=1e-6)


# --- providers that fail ---


def test_when_a_model_fails_nothing_is_written_and_nothing_has_the_key(
    server: Server, tmp_path: Path, engine: str
) -> None:
    graph = new_graph(tmp_path, "openai/some-model")
    before = graph.snapshot().commit_id
    server.planned += [failing(401, f"wrong key {KEY}")] * 10
    for attempt in (
        lambda: graph.load({"Doc": [{"slug": "a", "text": "one"}]}, engine=engine),
        lambda: write(graph, 'insert Doc { slug: "b", text: "two" }'),
    ):
        with pytest.raises(og.EmbeddingFailed, match="HTTP 401: wrong key …") as caught:
            attempt()
        assert KEY not in f"{caught.value!r} {caught.value.details} {caught.value.__cause__!r}"
        assert pickle.loads(pickle.dumps(caught.value)).code == "embedding_failed"  # noqa: S301
    assert graph.snapshot().commit_id == before
    assert graph.recoveries.pending() == []
    server.planned.clear()
    graph.load({"Doc": [{"slug": "a", "text": "one"}]}, engine=engine)
    assert vectors(graph) == {"a": vector_of("one", 4)}
    assert set(server.keys) == {f"Bearer {KEY}"}
    written = [path for path in Path(graph.uri).rglob("*") if path.is_file()]
    assert [path for path in written if KEY.encode() in path.read_bytes()] == []


# --- embed ---


def with_missing(graph: og.Graph, count: int, missing: int) -> None:
    """So many rows, of which some have lost their vectors."""
    graph.load(
        {"Doc": [{"slug": f"d{number:03}", "text": f"text {number}", "rank": number} for number in range(count)]}
    )
    write(graph, f"update Doc set {{ vec: null }} where rank < {missing}")
    assert list(vectors(graph).values()).count(None) == missing


def expected(count: int) -> dict[str, list[float] | None]:
    return {f"d{number:03}": mocked(f"text {number}") for number in range(count)}


def test_embed_fills_what_is_missing_a_commit_for_each_batch(graph: og.Graph) -> None:
    with_missing(graph, 30, 23)
    write(graph, 'insert Doc { slug: "x" } insert Doc { slug: "y", text: "" }')
    told: list[Progress] = []
    before = graph.snapshot()
    result = graph.embed("Doc", batch=10, actor="ada", report=told.append)
    assert (result.filled, result.total, len(result.commits)) == ({"vec": 23}, 23, 3)
    assert vectors(graph) == {**expected(30), "x": None, "y": None}
    assert {(commit.message, commit.actor) for commit in result.commits} == {("embed Doc.vec", "ada")}
    changes = list(diff_snapshots(before, graph.snapshot()))
    assert len(changes) == 23
    assert {(change.kind.value, change.changed_properties) for change in changes} == {("update", ("vec",))}
    assert [each.done for each in told] == sorted(each.done for each in told)
    assert (told[-1].done, told[-1].total) == (23, 23)
    assert graph.embed("Doc").commits == ()


def test_embed_computes_all_vectors_anew_when_asked_to(graph: og.Graph, engine: str) -> None:
    rows = [{"slug": f"d{number:03}", "text": f"text {number}", "vec": GIVEN} for number in range(25)]
    graph.load({"Doc": rows})
    assert graph.embed("Doc").total == 0
    result = graph.embed("Doc", "vec", all=True, batch=10, engine=engine)
    assert (result.filled, len(result.commits), result.engine) == ({"vec": 25}, 3, engine)
    assert vectors(graph) == expected(25)
    assert graph.embed("Doc", all=True, batch=100).as_json()["total"] == 25
    assert not list(Path(graph.uri).glob("__embed/*"))


def test_embed_works_on_a_branch_and_on_edges(graph: og.Graph) -> None:
    with_missing(graph, 5, 5)
    write(graph, 'insert Cites { id: "e", from: "d000", to: "d001", note: "why", vec: [9, 9, 9, 9] }')
    graph.branches.create("other")
    assert graph.embed("Doc", branch="other").total == 5
    assert graph.embed("cites", branch="other", all=True).total == 1
    assert vectors(graph, branch="other") == expected(5)
    assert set(map(str, vectors(graph).values())) == {"None"}
    assert vectors(graph, "Cites") == {"e": GIVEN}
    assert vectors(graph, "Cites", "other") == {"e": mocked("why")}


def test_embed_says_what_it_cannot_do(tmp_path: Path) -> None:
    graph = og.init(
        tmp_path / "g",
        'node A { t: String, v: Vector(4)? @embed("t", model="mock/x"), w: Vector(4)? }\nnode B { t: String }',
    )
    with pytest.raises(og.NotFound):
        graph.embed("Nothing")
    for arguments, problem in (
        (("B",), "has no property that a model fills"),
        (("A", "w"), "`v`"),
        (("A", "x"), "`v`"),
    ):
        with pytest.raises(og.UsageError, match=problem):
            graph.embed(*arguments)
    with pytest.raises(og.UsageError, match="expected at least 1"):
        graph.embed("A", batch=0)
    with pytest.raises(og.UsageError, match="reading"):
        og.open(graph.uri, "r").embed("A")


def test_what_others_write_meanwhile_is_not_overwritten(server: Server, tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "openai/some-model")
    graph.load({"Doc": [{"slug": f"d{number}", "text": f"text {number}", "vec": GIVEN} for number in range(4)]})
    others = og.open(graph.uri, durability="fast")

    def meanwhile(asked: dict[str, Any]) -> Answer:
        write(others, 'update Doc set { text: "changed", vec: [1, 2, 3, 4], rank: 7 } where slug = "d0"')
        write(others, 'delete Doc where slug = "d1" insert Doc { slug: "n", text: "new", vec: [1, 2, 3, 4] }')
        return good(asked)

    write(graph, 'update Doc set { vec: null } where slug != ""')
    server.planned.append(meanwhile)
    graph.embed("Doc")
    assert vectors(graph) == {
        "d0": [1, 2, 3, 4],
        "d2": vector_of("text 2", 4),
        "d3": vector_of("text 3", 4),
        "n": [1, 2, 3, 4],
    }
    changed = graph.entity("Doc", "d0")
    assert changed is not None
    assert (changed["text"], changed["rank"]) == ("changed", 7)


def run_cli(*arguments: str, failpoints: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "omnigraph", *arguments]
    environment = {**os.environ, VARIABLE: failpoints, "OMNIGRAPH_DURABILITY": "fast"}
    return subprocess.run(command, env=environment, check=False, capture_output=True, text=True)


def test_an_embed_that_is_killed_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "openai/some-model")
    graph.load({"Doc": [{"slug": f"d{number}", "text": f"text {number}", "vec": GIVEN} for number in range(40)]})
    write(graph, 'update Doc set { vec: null } where slug != ""')
    arguments = ("embed", "Doc", graph.uri, "--batch", "10", "--json")
    assert run_cli(*arguments, failpoints="embed.after_phase_b=crash@3").returncode == -signal.SIGKILL
    assert len(server.texts) == 30
    ended = run_cli(*arguments)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert (told["total"], told["filled"], len(told["commits"])) == (10, {"vec": 10}, 1)
    assert len(server.texts) == 40
    assert vectors(graph) == {f"d{number}": vector_of(f"text {number}", 4) for number in range(40)}


def test_an_embed_of_everything_that_is_killed_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    graph = new_graph(tmp_path, "openai/some-model")
    graph.load({"Doc": [{"slug": f"d{number}", "text": f"text {number}", "vec": GIVEN} for number in range(40)]})
    arguments = ("embed", "Doc", graph.uri, "--all", "--batch", "10")
    assert run_cli(*arguments, failpoints="embed.after_phase_a=crash@3").returncode == -signal.SIGKILL
    assert len(server.texts) == 30
    ended = run_cli(*arguments)
    assert ended.returncode == 0, ended.stderr
    assert "20" in ended.stdout
    assert "2 commits" in ended.stdout
    assert len(server.texts) == 50
    assert vectors(graph) == {f"d{number}": vector_of(f"text {number}", 4) for number in range(40)}
    assert graph.embed("Doc", all=True).total == 40


def test_an_embed_that_fails_keeps_what_is_done(graph: og.Graph) -> None:
    with_missing(graph, 30, 30)
    with armed("embed.before_phase_a=error@2"), pytest.raises(og.StorageError):
        graph.embed("Doc", batch=10)
    assert list(vectors(graph).values()).count(None) == 20
    assert graph.embed("Doc", batch=10).total == 20
    assert vectors(graph) == expected(30)


UNUSABLE = 'node Note { text: String @key, vector: Vector(7)? @embed("text", model="local/wordllama-l2-256") }'


def test_a_model_that_cannot_fill_a_vector_is_a_typed_error_in_a_plan_and_a_finding_of_lint(tmp_path: Path) -> None:
    with door(tmp_path) as ask:
        text = f"{ask.graph.schema.text}\n{UNUSABLE}"
        for verb in (ask.graph.schema.plan, ask.graph.schema.apply):
            with pytest.raises(og.UnsuitableModel, match=r"`Note\.vector` cannot be filled"):
                verb(text)
        for path in ("/schema/plan", "/schema/apply"):
            answer = ask("POST", path, json={"schema": text})
            assert (answer.status_code, answer.json()["code"]) == (400, "unsuitable_model")
    schema = tmp_path / "schema.pg"
    schema.write_text(f"interface Named {{ text: String }}\n{UNUSABLE}")
    found = CliRunner().invoke(app, ["lint", "--schema", str(schema), "--json"])
    (finding,) = json.loads(found.output)["findings"]
    assert (found.exit_code, finding["code"], finding["line"]) == (1, "S115", 2)
    schema.write_text(UNUSABLE.replace("local/wordllama-l2-256", "some-model"))
    assert CliRunner().invoke(app, ["lint", "--schema", str(schema)]).exit_code == 0
