"""A load with a key is done once: the same batch of an application again changes nothing and says so."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import omnigraph as og
from omnigraph.cli.main import app
from omnigraph.failpoints import Point, Writer, WriteStep
from omnigraph.loading import batches
from omnigraph.recovery.apply import RECOVERY_ACTOR
from omnigraph.write.protocol import write_staged
from tests import nursery
from tests.behaviour.http_graph import LINES, RECORDS, Door, door
from tests.servers import running_server

SCHEMA = """
node Person { name: String @key, age: I32? @default(1), note: String? }
edge Knows: Person -> Person { since: I32? }
"""
PEOPLE = [{"name": "Ada", "age": 36}, {"name": "Bob", "age": None}]
KNOWS = [{"from": "Ada", "to": "Bob", "since": 1833}, {"from": "Bob", "to": "Ada"}]
DATA = {"Person": PEOPLE, "Knows": KNOWS}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA, durability="fast")


def names(graph: og.Graph, branch: str = "main") -> list[str]:
    return sorted(graph.snapshot(branch).table("node:Person").scan(["id"])["id"].to_pylist())


def edges(graph: og.Graph) -> int:
    return graph.snapshot().table("edge:Knows").count()


def people(*given: str) -> dict[str, Any]:
    return {"Person": [{"name": name} for name in given]}


# --- the key ---


@pytest.mark.parametrize("mode", ["append", "merge", "overwrite"])
def test_the_same_batch_again_changes_nothing_and_says_so(graph: og.Graph, mode: str) -> None:
    first = graph.load(DATA, mode=mode, application="etl", batch=7)
    assert first.commit is not None
    assert (first.repeated, first.commit.application, first.commit.batch) == (False, "etl", 7)
    again = graph.load(DATA, mode=mode, application="etl", batch=7)
    assert (again.repeated, again.commit, again.total) == (True, first.commit, 0)
    assert (len(graph.commits.list()), edges(graph)) == (2, 2)


def test_an_earlier_batch_is_known_by_its_content(graph: og.Graph) -> None:
    first = graph.load(DATA, application="etl", batch=1)
    graph.load(people("Cid"), application="etl", batch=2)
    graph.load(people("Dan"), application="other", batch=1)
    again = graph.load(DATA, application="etl", batch=1)
    assert (again.repeated, again.commit) == (True, first.commit)
    with pytest.raises(og.BatchConflict, match="loaded it with other content") as caught:
        graph.load(people("Eve"), application="etl", batch=1)
    assert (caught.value.application, caught.value.batch, caught.value.last) == ("etl", 1, 2)
    assert names(graph) == ["Ada", "Bob", "Cid", "Dan"]


def test_other_content_under_the_key_of_the_last_batch_is_an_error(graph: og.Graph) -> None:
    graph.load(people("Ada"), application="etl", batch=0)
    others: list[Any] = [people("Ada", "Bob"), {"Person": [{"name": "Ada", "age": 5}]}, {"Knows": []}]
    for data in others:
        with pytest.raises(og.BatchConflict, match="batch 0 of application `etl` cannot be loaded"):
            graph.load(data, mode="merge", application="etl", batch=0)
    assert graph.export(ordered=True) is not None
    assert names(graph) == ["Ada"]


def test_a_batch_that_was_left_out_is_not_loaded_later(graph: og.Graph) -> None:
    graph.load(people("Ada"), application="etl", batch=1)
    graph.load(people("Cid"), application="etl", batch=3)
    with pytest.raises(og.BatchConflict, match="it is not in the history, and the last one is 3"):
        graph.load(people("Bob"), application="etl", batch=2)


def test_an_input_without_records_is_refused_only_under_a_key_that_had_some(graph: og.Graph) -> None:
    graph.load(people("Ada"), application="etl", batch=1)
    graph.load(people("Bob"), application="etl", batch=3)
    assert graph.load({"Person": []}, application="etl", batch=2).commit is None
    with pytest.raises(og.BatchConflict, match="loaded it with other content"):
        graph.load({"Person": []}, application="etl", batch=1)
    with pytest.raises(og.BatchConflict, match="it is not in the history"):
        graph.load({"Person": pa.table({})}, mode="overwrite", application="etl", batch=2)
    assert names(graph) == ["Ada", "Bob"]


def test_content_is_the_same_whatever_its_order_and_its_kind(graph: og.Graph, tmp_path: Path) -> None:
    graph.load(DATA, application="etl", batch=1)
    lines = [
        '{"edge": "Knows", "from": "Bob", "to": "Ada"}',
        '{"type": "Person", "data": {"name": "Bob", "age": null}}',
        '{"type": "Person", "data": {"name": "Ada", "age": 36}}',
        '{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": 1833}}',
    ]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines))
    pq.write_table(pa.table({"age": [None, 36], "name": ["Bob", "Ada"]}), tmp_path / "people.parquet")
    (tmp_path / "knows.csv").write_text("to,from,since\nBob,Ada,1833\nAda,Bob,\n")
    same: list[Any] = [
        tmp_path / "lines.jsonl",
        {"Person": tmp_path / "people.parquet", "Knows": tmp_path / "knows.csv"},
        {"Person": pa.Table.from_pylist(PEOPLE), "Knows": pa.Table.from_pylist(KNOWS).slice(0)},
    ]
    for data in same:
        assert graph.load(data, application="etl", batch=1).repeated, data


def test_a_null_that_is_given_is_other_content_where_it_counts(graph: og.Graph) -> None:
    graph.load({"Person": [{"name": "Ada", "note": None}]}, mode="merge", application="etl", batch=1)
    with pytest.raises(og.BatchConflict):
        graph.load(people("Ada"), mode="merge", application="etl", batch=1)


def test_wrong_records_under_a_known_key_are_reported(graph: og.Graph) -> None:
    graph.load(people("Ada"), application="etl", batch=1)
    with pytest.raises(og.ValidationError, match="no such property"):
        graph.load({"Person": [{"name": "Ada", "agee": 1}]}, application="etl", batch=1)


def test_content_that_another_version_of_duckdb_hashed_is_not_compared(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.load(people("Ada"), application="etl", batch=1)
    monkeypatch.setattr(batches, "_method", lambda: "0000x")
    with pytest.raises(og.BatchConflict, match="with another version of DuckDB, so it cannot be compared"):
        graph.load(people("Ada"), application="etl", batch=1)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ({"application": "etl"}, "expected both or neither"),
        ({"batch": 1}, "expected both or neither"),
        ({"application": "", "batch": 1}, "invalid application ''"),
        ({"application": "a\nb", "batch": 1}, "invalid application"),
        ({"application": "a" * 201, "batch": 1}, "expected up to 200 printable characters"),
        ({"application": "etl", "batch": -1}, "invalid batch -1: expected at least 0"),
    ],
)
def test_a_key_that_is_not_one_is_refused(graph: og.Graph, key: dict[str, Any], problem: str) -> None:
    with pytest.raises(og.UsageError, match=problem):
        graph.load(DATA, **key)


def test_a_load_that_fails_leaves_its_key_free(graph: og.Graph) -> None:
    with pytest.raises(og.ValidationError):
        graph.load({"Knows": KNOWS}, application="etl", batch=1)
    assert not graph.load(DATA, application="etl", batch=1).repeated


def test_a_load_of_nothing_does_not_use_its_key(graph: og.Graph) -> None:
    nothing = graph.load(people(), application="etl", batch=1)
    assert (nothing.commit, nothing.repeated) == (None, False)
    assert not graph.load(DATA, application="etl", batch=1).repeated


# --- the history ---


def test_a_branch_has_the_keys_of_its_history_and_a_merge_brings_them(graph: og.Graph) -> None:
    graph.load(people("Ada"), application="etl", batch=1)
    graph.branches.create("b")
    assert graph.load(people("Ada"), application="etl", batch=1, branch="b").repeated
    graph.load(people("Bob"), application="etl", batch=2, branch="b")
    graph.load(people("Cid"), application="other", batch=9, branch="b")
    graph.load(people("Dan"), application="main's", batch=5)
    graph.merge("b", delete_branch=True)
    for name, application, batch in (("Bob", "etl", 2), ("Cid", "other", 9), ("Dan", "main's", 5), ("Ada", "etl", 1)):
        assert graph.load(people(name), application=application, batch=batch).repeated, name
    assert names(graph) == ["Ada", "Bob", "Cid", "Dan"]


def test_of_two_merged_histories_the_later_batch_counts(graph: og.Graph) -> None:
    graph.branches.create("b")
    graph.load(people("Ada"), application="etl", batch=4)
    graph.load(people("Bob"), application="etl", batch=3, branch="b")
    graph.merge("b")
    assert graph.load(people("Ada"), application="etl", batch=4).repeated
    assert graph.load(people("Bob"), application="etl", batch=3).repeated
    assert not graph.load(people("Cid"), application="etl", batch=5).repeated


def test_a_key_survives_cleanup_and_many_commits(graph: og.Graph) -> None:
    first = graph.load(DATA, application="etl", batch=1)
    graph.load(people("Zoe"), application="etl", batch=2)
    add = "query add($name: String) { insert Person { name: $name } }"
    for number in range(70):
        graph.mutate(add, params={"name": f"p{number}"})
    graph.schema.apply(SCHEMA + "node Other { text: String }")
    graph.optimize()
    graph.cleanup(keep=1, older_than="0s", confirm=True)
    reopened = og.open(graph.uri)
    again = reopened.load(DATA, application="etl", batch=1)
    assert (again.repeated, again.commit) == (True, first.commit)
    assert reopened.load(people("Zoe"), application="etl", batch=2).repeated


def test_the_next_batch_reads_no_history(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        graph.load(people(f"p{number}"), application="etl", batch=number)
    monkeypatch.setattr(batches, "_commits_with", None)
    graph.load(people("next"), application="etl", batch=3)


# --- other doors ---


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Door]:
    with door(tmp_path) as opened:
        yield opened


def test_a_server_takes_keys(served: Door) -> None:
    key = {"application": "etl", "batch": "1"}
    first = served.ok("POST", "/load", content=RECORDS, headers=LINES, params=key)
    again = served.ok("POST", "/load", content=RECORDS, headers=LINES, params=key)
    assert (first["repeated"], first["commit"]["application"], first["commit"]["batch"]) == (False, "etl", 1)
    assert (again["repeated"], again["total"], again["commit"]) == (True, 0, first["commit"])
    other = served("POST", "/load", content=RECORDS.replace(b"Ada", b"Eve"), headers=LINES, params=key)
    assert (other.status_code, other.json()["code"]) == (409, "batch_conflict")
    half = served("POST", "/load", content=RECORDS, headers=LINES, params={"batch": "1"})
    assert half.status_code == 400


def test_a_command_takes_keys(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "people.jsonl").write_text('{"type": "Person", "data": {"name": "Ada"}}')
    command = ["load", graph.uri, "--data", str(tmp_path / "people.jsonl"), "--application", "etl", "--batch", "3"]
    first = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(first.stdout)["repeated"] is False
    said = CliRunner().invoke(app, command)
    assert said.exit_code == 0
    assert "batch 3 of `etl` was loaded before; nothing was done" in said.stdout
    assert json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)["repeated"] is True
    (tmp_path / "people.jsonl").write_text('{"type": "Person", "data": {"name": "Bob"}}')
    assert isinstance(CliRunner().invoke(app, command).exception, og.BatchConflict)


def test_a_client_takes_keys_and_forms_ids(graph: og.Graph) -> None:
    with running_server([graph.uri]) as server, og.connect(server.url, "graph") as client:
        first = client.load(DATA, application="etl", batch=1, edge_id="from,to")
        again = client.load(DATA, application="etl", batch=1, edge_id="from,to")
        assert (first.repeated, again.repeated, again.commit) == (False, True, first.commit)
        with pytest.raises(og.BatchConflict, match="with other content"):
            client.load(people("Eve"), application="etl", batch=1)
    assert graph.load(DATA, application="etl", batch=1).repeated
    ids = graph.snapshot().table("edge:Knows").scan(["id"])["id"].to_pylist()
    assert sorted(ids) == ['["Ada","Bob"]', '["Bob","Ada"]']


# --- writers that die, and writers at once ---

_LOAD = """
import sys
import omnigraph as og
graph = og.open(sys.argv[1])
loaded = graph.load({"Person": [{"name": "Ada"}, {"name": "Bob"}]}, application="etl", batch=1)
print("repeated" if loaded.repeated else "loaded", flush=True)
"""
_WRITE = "omnigraph.loading.load.write_staged"
_STEPS = [f"{Writer.LOAD}.{step}" for step in WriteStep] + [
    f"{point}@{time}" for point in (Point.PUBLISH_BEFORE_SWAP, Point.PUBLISH_AFTER_SWAP) for time in (1, 2)
]


@pytest.mark.parametrize("step", _STEPS)
def test_a_load_that_was_killed_and_is_sent_again_is_loaded_once(graph: og.Graph, step: str) -> None:
    name, _, time = step.partition("@")
    armed = f"{name}=crash@{time}" if time else f"{name}=crash"
    code, _ = nursery.ended(_LOAD, graph.uri, environment={"OMNIGRAPH_FAILPOINTS": armed})
    assert code == -signal.SIGKILL
    other = og.open(graph.uri)
    loaded = other.load(people("Ada", "Bob"), application="etl", batch=1)
    assert loaded.commit is not None
    assert (names(other), loaded.commit.application, loaded.commit.batch) == (["Ada", "Bob"], "etl", 1)
    of_the_key = [each for each in other.commits.list() if each.batch == 1]
    assert of_the_key == [loaded.commit]
    if f"{WriteStep.AFTER_PHASE_B}" in step:
        assert (loaded.repeated, loaded.commit.actor) == (True, RECOVERY_ACTOR)
    if f"{WriteStep.AFTER_PHASE_C}" in step:
        assert loaded.repeated


def test_of_two_processes_with_one_key_exactly_one_loads(graph: og.Graph) -> None:
    for number in range(3):
        program = _LOAD.replace("batch=1", f"batch={number}").replace('"Ada"', f'"a{number}"')
        program = program.replace('"Bob"', f'"b{number}"')
        children = [nursery.started(program, graph.uri) for _ in range(3)]
        said = []
        for child in children:
            with child:
                out, _ = child.communicate()
                said.append(out.strip())
        assert sorted(said) == ["loaded", "repeated", "repeated"]
    assert [each.batch for each in graph.commits.list()] == [2, 1, 0, None]


def test_a_key_that_another_used_while_a_load_was_running_is_not_used_twice(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other loads another type, so their tables do not conflict."""
    graph.load(people("Ada", "Bob"))
    other = og.open(graph.uri)

    def beaten(*given: Any, **options: Any) -> Any:
        monkeypatch.setattr(_WRITE, write_staged)
        other.load({"Person": [{"name": "Zoe"}]}, application="etl", batch=1)
        return write_staged(*given, **options)

    monkeypatch.setattr(_WRITE, beaten)
    with pytest.raises(og.BatchConflict, match="with other content"):
        graph.load({"Knows": KNOWS}, application="etl", batch=1)
    assert (edges(graph), names(graph)) == (0, ["Ada", "Bob", "Zoe"])


# --- ids of edges ---


def test_edges_get_ids_of_their_columns_and_are_not_doubled(graph: og.Graph, tmp_path: Path) -> None:
    graph.load({"Person": PEOPLE})
    lines = ['{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"since": 1}}']
    lines.append('{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {"id": "own", "since": 2}}')
    (tmp_path / "knows.jsonl").write_text("\n".join(lines))
    for _ in range(2):
        graph.load(tmp_path / "knows.jsonl", mode="merge", edge_id="from,to")
        graph.load({"Knows": KNOWS}, mode="merge", edge_id=["Knows=src", "dst"])
    found = graph.snapshot().table("edge:Knows").scan(["id", "since"]).to_pylist()
    assert {row["id"]: row["since"] for row in found} == {'["Ada","Bob"]': 1833, '["Bob","Ada"]': None, "own": 2}
    with pytest.raises(og.ValidationError, match="there is already one with the id"):
        graph.load({"Knows": KNOWS}, edge_id="from,to")
    both = [{"from": "Bob", "to": "Bob", "since": 1}, {"from": "Bob", "to": "Bob", "since": 2}]
    with pytest.raises(og.ValidationError):
        graph.load({"Knows": both}, edge_id="from,to")
    assert graph.load({"Knows": both}, edge_id="from,to,since").total == 2


def test_a_column_that_cannot_form_an_id_is_named(graph: og.Graph) -> None:
    graph.load({"Person": PEOPLE})
    with pytest.raises(og.NotFound, match="no property of Knows `sinc`: did you mean `since`"):
        graph.load({"Knows": KNOWS}, edge_id="Knows=from,sinc")
    with pytest.raises(og.NotFound, match="no edge type `Know`"):
        graph.load({"Knows": KNOWS}, edge_id="Know=from")
    with pytest.raises(og.UsageError, match="no edge has a property `sinc`"):
        graph.load({"Knows": KNOWS}, edge_id="sinc")
    with pytest.raises(og.ValidationError, match=r"Knows:2: Knows\.id: the id is formed of `since`, so a value is"):
        graph.load({"Knows": KNOWS}, edge_id="from,to,since")
    graph.schema.apply(SCHEMA + "edge Likes: Person -> Person { tags: [String]? }")
    with pytest.raises(og.ValidationError, match="the id is formed of `since`, which `Likes` does not have"):
        graph.load({"Likes": [{"from": "Ada", "to": "Bob"}]}, edge_id="from,to,since")
    with pytest.raises(og.ValidationError, match="the id cannot be formed of `tags`"):
        graph.load({"Likes": [{"from": "Ada", "to": "Bob", "tags": ["a"]}]}, edge_id="Likes=from,tags")


def test_a_server_forms_ids_of_edges(served: Door) -> None:
    for _ in range(2):
        params = {"mode": "merge", "edge_id": ["from,to"]}
        served.ok("POST", "/load", content=RECORDS, headers=LINES, params=params)
    assert served.graph.snapshot().table("edge:Knows").count() == 1
