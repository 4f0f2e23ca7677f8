"""Commits, snapshots and time travel."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.compiler import compile_query
from omnigraph.failpoints import Writer
from omnigraph.mutating.mutation import run_mutation
from omnigraph.session.writes import WriteOrder
from omnigraph.storage.commits import commit_staged
from omnigraph.storage.staging import stage_append
from omnigraph.versioning import ManifestLog, Publication, new_commit_id, publish
from omnigraph.versioning.manifest import REMEMBERED_COMMITS, TableUpdate

SCHEMA = "node Person { name: String @key, age: I32? }\nnode City { name: String @key }\n"
ADD = """
query add($name: String, $age: I32?) { insert Person { name: $name, age: $age } }
query city($name: String) { insert City { name: $name } }
query nothing { delete Person where name = "nobody" }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph.omni", SCHEMA)


def test_a_graph_is_created_once(graph: og.Graph) -> None:
    with pytest.raises(og.StorageError, match="already a graph"):
        og.init(graph.uri, SCHEMA)
    assert og.open(graph.uri).schema.text == SCHEMA


def test_opening_what_is_no_graph_fails(tmp_path: Path) -> None:
    with pytest.raises(og.StorageError, match="no graph here"):
        og.open(tmp_path)


def test_a_wrong_schema_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(og.SchemaError):
        og.init(tmp_path / "graph", "node A { x: Strng }")
    assert not (tmp_path / "graph").exists()


def test_every_write_is_a_commit_with_its_parent(graph: og.Graph) -> None:
    first = graph.mutate(ADD, "add", {"name": "Ada"}, actor="ada").commit
    second = graph.mutate(ADD, "add", {"name": "Bob"}).commit
    assert first is not None
    assert second is not None
    assert second.parent_commit_id == first.graph_commit_id
    assert (first.actor, first.message, first.branch) == ("ada", "add", "main")
    assert first.created_at <= second.created_at <= datetime.now(UTC)
    assert [commit.message for commit in graph.commits.list()] == ["add", "add", "init"]
    assert [commit.graph_commit_id for commit in graph.commits.list(actor="ada")] == [first.graph_commit_id]
    assert graph.commits.show(first.graph_commit_id) == first
    with pytest.raises(og.NotFound):
        graph.commits.show("01HZZZZZZZZZZZZZZZZZZZZZZZ")


def test_what_changes_nothing_is_no_commit(graph: og.Graph) -> None:
    result = graph.mutate(ADD, "nothing")
    assert result.commit is None
    assert len(graph.commits.list()) == 1


def test_the_past_can_be_read_by_commit_version_and_time(graph: og.Graph) -> None:
    first = graph.mutate(ADD, "add", {"name": "Ada", "age": 1}).commit
    graph.mutate(ADD, "add", {"name": "Ada", "age": 2})
    assert first is not None
    for at in (first.graph_commit_id, first.manifest_version, first.created_at):
        assert graph.entity("Person", "Ada", at=at) == {"id": "Ada", "name": "Ada", "age": 1}
    assert graph.entity("Person", "Ada") == {"id": "Ada", "name": "Ada", "age": 2}
    assert graph.entity("Person", "Ada", at=1) is None
    with pytest.raises(og.NotFound, match="was created later"):
        graph.snapshot_at(time=datetime.now(UTC) - timedelta(days=1))
    with pytest.raises(og.NotFound):
        graph.snapshot_at(version=99)


def test_a_snapshot_does_not_change_while_others_write(graph: og.Graph) -> None:
    snapshot = graph.snapshot()
    graph.mutate(ADD, "add", {"name": "Ada"})
    assert snapshot.table("node:Person").count() == 0
    assert graph.snapshot().table("node:Person").count() == 1


def test_a_long_history_is_read_in_strides(graph: og.Graph) -> None:
    count = REMEMBERED_COMMITS * 2 + 5
    for number in range(count):
        graph.mutate(ADD, "add", {"name": "Ada", "age": number})
    commits = graph.commits.list()
    assert [commit.manifest_version for commit in commits] == list(range(count + 1, 0, -1))
    assert [commit.parent_commit_id for commit in commits[:-1]] == [commit.graph_commit_id for commit in commits[1:]]
    assert len(graph.commits.list(limit=3)) == 3
    middle = commits[count // 2]
    assert graph.snapshot_at(commit=middle.graph_commit_id).commit == middle
    assert graph.snapshot_at(time=middle.created_at).commit == middle


def test_another_handle_sees_every_commit(graph: og.Graph) -> None:
    other = og.open(graph.uri)
    other.mutate(ADD, "add", {"name": "Ada"})
    assert graph.entity("Person", "Ada") is not None
    graph.mutate(ADD, "add", {"name": "Bob"})
    assert other.entity("Person", "Bob") is not None


def test_a_graph_opened_for_reading_is_not_written(graph: og.Graph) -> None:
    with pytest.raises(og.OmnigraphError, match="opened for reading"):
        og.open(graph.uri, mode="r").mutate(ADD, "add", {"name": "Ada"})


# --- preconditions and races ---


def test_if_commit_holds_only_on_top_of_that_commit(graph: og.Graph) -> None:
    head = graph.snapshot().commit_id
    graph.mutate(ADD, "add", {"name": "Ada"}, if_commit=head)
    for query, parameters in (("add", {"name": "Bob"}), ("nothing", {})):
        with pytest.raises(og.PreconditionFailed) as caught:
            graph.mutate(ADD, query, parameters, if_commit=head)
    assert caught.value.expected == head
    assert graph.entity("Person", "Bob") is None


def test_writers_of_one_table_cannot_both_win_from_one_version(graph: og.Graph) -> None:
    log = ManifestLog(graph.snapshot().location)
    pin = graph.snapshot().manifest.pins["node:Person"]

    def publication() -> Publication:
        return Publication(
            commit_id=new_commit_id(),
            based_on=1,
            tables={"node:Person": TableUpdate(path=pin.path, version=2)},
            places={"node:Person": pin.version},
        )

    publish(log, publication())
    with pytest.raises(og.ExpectedVersionMismatch) as caught:
        publish(log, publication())
    assert (caught.value.table_key, caught.value.expected, caught.value.actual) == ("node:Person", 1, 2)


def test_of_racing_writers_each_wins_or_is_told(graph: og.Graph) -> None:
    outcomes: list[str] = []

    def write(number: int) -> None:
        handle = og.open(graph.uri)
        for turn in range(5):
            query, name = ("add", f"{number}-{turn}") if number % 2 else ("city", f"{number}-{turn}")
            try:
                handle.mutate(ADD, query, {"name": name})
                outcomes.append(name)
            except og.Conflict:
                outcomes.append("conflict")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = {outcome for outcome in outcomes if outcome != "conflict"}
    snapshot = graph.snapshot()
    stored = [row["id"] for key in ("node:Person", "node:City") for row in snapshot.table(key).scan(["id"]).to_pylist()]
    assert len(outcomes) == 20
    assert sorted(stored) == sorted(won)
    assert len(graph.commits.list()) == 1 + len(won)
    assert not list(Path(graph.uri).glob("__recovery/*"))


def test_what_a_failed_write_left_is_undone_before_the_next(graph: og.Graph) -> None:
    table = graph.snapshot().table("node:Person")
    rows = pa.Table.from_pylist([{"id": "X", "name": "X", "age": None}], schema=table.schema)
    commit_staged(table, stage_append(table, rows, "unfinished"))
    assert graph.snapshot().table("node:Person").count() == 0
    graph.mutate(ADD, "add", {"name": "Ada"})
    assert graph.snapshot().table("node:Person").scan()["id"].to_pylist() == ["Ada"]
    assert not list(Path(graph.uri, "__recovery").glob("*"))
    graph.mutate(ADD, "city", {"name": "Oslo"})


def test_missing_indexes_are_built_in_one_commit_and_change_no_row(graph: og.Graph) -> None:
    for name in ("Ada", "Bob", "Cid"):
        graph.mutate(ADD, "add", {"name": name})
    assert graph.ensure_indices().built == {"node:Person": ("id_btree", "name_btree", "name_inverted")}
    assert graph.commits.list()[0].message == "indexes"
    assert graph.ensure_indices().built == {}
    graph.mutate(ADD, "add", {"name": "Ada", "age": 7})
    graph.mutate(ADD, "add", {"name": "Dan"})
    rows = {row["id"]: row["age"] for row in graph.snapshot().table("node:Person").scan().to_pylist()}
    assert rows == {"Ada": 7, "Bob": None, "Cid": None, "Dan": None}
    assert graph.entity("Person", "Ada") == {"id": "Ada", "name": "Ada", "age": 7}


EDGES = "node Person { name: String @key }\nedge Knows: Person -> Person\nnode Other { name: String @key }\n"


def test_an_edge_is_not_added_to_a_node_that_another_writer_deletes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", EDGES)
    graph.mutate('query q { insert Person { name: "A" } insert Person { name: "B" } }')
    request = WriteOrder(kind=Writer.MUTATE, actor=None, message="late")
    late = compile_query('query q { insert Knows { from: "A", to: "B" } }', graph.schema.catalog)
    with graph._session.writes.attempt(request) as attempt:
        graph.mutate('query q { delete Person where name = "B" }')
        with pytest.raises(og.ExpectedVersionMismatch):
            run_mutation(attempt, late, {})
    assert graph.snapshot().table("edge:Knows").count() == 0


def test_a_node_is_not_deleted_under_an_edge_that_another_writer_adds(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", EDGES)
    graph.mutate('query q { insert Person { name: "A" } insert Person { name: "B" } }')
    request = WriteOrder(kind=Writer.MUTATE, actor=None, message="late")
    late = compile_query('query q { delete Person where name = "B" }', graph.schema.catalog)
    with graph._session.writes.attempt(request) as attempt:
        graph.mutate('query q { insert Knows { from: "A", to: "B" } }')
        with pytest.raises(og.ExpectedVersionMismatch):
            run_mutation(attempt, late, {})
    assert graph.snapshot().table("node:Person").count() == 2


def test_an_edge_may_be_added_while_others_add_nodes(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", EDGES)
    graph.mutate('query q { insert Person { name: "A" } }')
    request = WriteOrder(kind=Writer.MUTATE, actor=None, message="late")
    late = compile_query('query q { insert Knows { from: "A", to: "A" } }', graph.schema.catalog)
    with graph._session.writes.attempt(request) as attempt:
        graph.mutate('query q { insert Person { name: "C" } }')
        assert run_mutation(attempt, late, {}).commit is not None


def test_many_threads_on_many_types_all_succeed(tmp_path: Path) -> None:
    kinds = 8
    graph = og.init(tmp_path / "graph", "\n".join(f"node T{number} {{ k: String @key }}" for number in range(kinds)))
    failures: list[Exception] = []

    def write(number: int) -> None:
        for turn in range(6):
            try:
                graph.mutate(
                    f"query q($k: String) {{ insert T{number % kinds} {{ k: $k }} }}", params={"k": f"{number}-{turn}"}
                )
            except og.OmnigraphError as error:
                failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2 * kinds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(graph.snapshot().table(f"node:T{number}").count() for number in range(kinds)) == 2 * kinds * 6


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.load("x.jsonl", mode="wild"),
        lambda graph: graph.commits.list(limit=-1),
        lambda graph: graph.entity("Person", 5),
        lambda graph: graph.entity("Person", "x", at=1.5),
        lambda graph: graph.snapshot().table("node:Nope"),
        lambda graph: graph.export("/nowhere/at/all.jsonl"),
        lambda graph: og.open(graph.uri, mode="x"),  # type: ignore[arg-type]
        lambda graph: graph.query(Path("missing.gq")),
    ],
)
def test_what_cannot_be_done_is_a_typed_error(graph: og.Graph, call: Callable[[og.Graph], object]) -> None:
    with pytest.raises(og.OmnigraphError):
        call(graph)
