"""While a schema changes others read and write: nothing is lost, and nothing is written under the wrong schema."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pytest

import omnigraph as og
from omnigraph.api.base import MAIN
from omnigraph.api.schema import SchemaCatchUpRequest
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.evolution.apply import schema_of_main
from omnigraph.failpoints import Writer
from omnigraph.session.writes import PreparedWrite, WriteOrder
from omnigraph.verbs import schema as schemas
from omnigraph.versioning import Snapshot
from omnigraph.write import WriteAttempt
from omnigraph.write.retention import is_schema_locked
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear

ROOT = Path(__file__).parents[2]
FIRST = """
node Item { name: String @key, size: I32? }
node Kept { name: String @key }
edge In: Item -> Kept
"""
SECOND = """
node Thing @rename_from("Item") { name: String @key, size: I32?, score: I64 @default(7) }
node Kept { name: String @key, level: I32 @default(3) }
edge In: Thing -> Kept
"""
ITEM = "query add($name: String) { insert Item { name: $name } }"
KEPT = "query add($name: String) { insert Kept { name: $name } }"

# Does what it is told, line by line, and says what came of it.
WORKER = """
import json, sys
import omnigraph as og
og.Graph
graph = None

def item():
    return next(name for name in graph.schema.catalog.nodes if name.startswith("Item"))

def mutate(name):
    while True:
        try:
            return graph.mutate(f'query add {{ insert {item()} {{ name: "{name}" }} }}').commit.graph_commit_id
        except (og.QueryError, og.Conflict):
            graph.refresh()

def load(name):
    while True:
        try:
            return graph.load({item(): [{"name": name}]}).commit.graph_commit_id
        except (og.NotFound, og.Conflict):
            graph.refresh()

def answer(job):
    global graph
    match job.pop("do"):
        case "open":
            graph = og.open(**job)
        case "apply":
            return graph.schema.apply(job["text"]).schema.number
        case "catch_up":
            return graph.schema.catch_up(job["branch"]).schema.number
        case "text":
            return graph.schema.text
        case "mutate":
            return graph.mutate(job["source"], params=job["params"]).affected
        case "branch":
            return graph.branches.create(job["name"]).name
        case "write":
            turns = range(job["turns"])
            return [(mutate if turn % 3 else load)(f"{job['me']}-{turn}") for turn in turns]

for line in sys.stdin:
    try:
        result = answer(json.loads(line))
    except og.OmnigraphError as error:
        result = {"error": type(error).__name__, "message": str(error)}
    print(json.dumps(result), flush=True)
"""


class Worker:
    """Another process, which has the graph open and does one thing after another."""

    def __init__(self, uri: str, mode: str = "rw", **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **environment},
        )
        self._opening = {"do": "open", "uri": uri, "mode": mode}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def open(self) -> None:
        """Waits until it has the graph open; those that are started together are ready together."""
        assert self.ask(**self._opening) is None

    def tell(self, **job: Any) -> None:
        """Gives it something to do."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """What came of it."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, **job: Any) -> Any:
        """Both."""
        self.tell(**job)
        return self.answer()

    def wait_until_stopped(self) -> None:
        """Until it has stopped itself at a failpoint."""
        for _ in range(2400):
            found, status = os.waitpid(self._process.pid, os.WUNTRACED | os.WNOHANG)
            if found:
                assert os.WIFSTOPPED(status)
                return
            time.sleep(0.05)
        raise AssertionError("the process did not stop")

    def go_on(self) -> None:
        """Ends the stop."""
        self._process.send_signal(signal.SIGCONT)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", FIRST)
    graph.mutate('query fill { insert Item { name: "a" } insert Kept { name: "k" } insert In { from: "a", to: "k" } }')
    return graph


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def assert_sound(graph: og.Graph) -> None:
    """Nothing is pending, drifted or locked, and the history is one line."""
    assert graph.recoveries.pending() == []
    assert not is_schema_locked(graph._session.location)
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)


# --- while one is at work ---


def test_whoever_comes_while_a_schema_changes_reads_the_old_one_and_writes_under_the_new(
    graph: og.Graph, threads: ThreadPoolExecutor
) -> None:
    graph.branches.create("side")
    graph.mutate(ITEM, params={"name": "b"}, branch="side")
    with (
        Worker(graph.uri, OMNIGRAPH_FAILPOINTS="schema_apply.after_phase_b=pause") as changing,
        Worker(graph.uri, OMNIGRAPH_WRITE_WAIT="0.5") as impatient,
    ):
        changing.open()
        changing.tell(do="apply", text=SECOND)
        changing.wait_until_stopped()

        assert is_schema_locked(graph._session.location)
        assert graph.schema.text == FIRST
        assert graph.query("query q { match { $i: Item } return { $i.name as name } }").rows() == [{"name": "a"}]
        impatient.open()
        assert graph.schema.text == FIRST
        for refused in (
            impatient.ask(do="branch", name="soon"),
            impatient.ask(do="mutate", source=KEPT, params={"name": "soon"}),
        ):
            assert refused["error"] == "FenceHeld"
            assert "schema apply" in refused["message"]

        waiting: list[Future[Any]] = [
            threads.submit(graph.mutate, KEPT, params={"name": "mutated"}),
            threads.submit(graph.load, {"Kept": [{"name": "loaded"}]}),
            threads.submit(graph.branches.create, "during"),
            threads.submit(graph.merge, "side"),
        ]
        stale = threads.submit(graph.mutate, ITEM, params={"name": "late"})
        held = threads.submit(_tables_held, graph)
        time.sleep(0.5)
        # The load and the merge are prepared, and then wait with the others.
        assert not any(each.done() for each in (*waiting, stale, held))
        changing.go_on()
        assert changing.answer() == 2
        for each in waiting:
            each.result(60)
        with pytest.raises(og.QueryError, match="Item"):
            stale.result(60)
        assert held.result(60) == ["edge:In", "node:Kept", "node:Thing"]

    assert graph.schema.text == SECOND
    assert graph.schema.at("during").number == 2
    things = graph.snapshot().table("node:Thing").scan(["name", "score"]).to_pylist()
    assert sorted(things, key=lambda row: str(row["name"])) == [{"name": "a", "score": 7}, {"name": "b", "score": 7}]
    kept = graph.snapshot().table("node:Kept").scan(["name", "level"]).to_pylist()
    assert {row["name"]: row["level"] for row in kept} == {"k": 3, "mutated": 3, "loaded": 3}
    assert_sound(graph)


def _tables_held(graph: og.Graph) -> list[str]:
    """The tables that a write sees which keeps all others out from its beginning."""

    attempts: list[str] = []

    def work(attempt: WriteAttempt) -> list[str]:
        attempts.append(attempt.operation_id)
        if len(attempts) == 1:
            raise ExpectedVersionMismatch("node:Kept", 1, 2)
        # It must hold them already.
        attempt.fence.take(attempt.base.manifest.pins)
        return sorted(attempt.base.manifest.pins)

    order = WriteOrder(kind=Writer.MERGE, actor=None, message="all tables")
    return graph._session.write_prepared(MAIN, lambda _: PreparedWrite(order, work), persistent=True)


def test_a_reader_keeps_the_schema_and_the_rows_that_it_began_with(graph: og.Graph) -> None:
    before = graph.snapshot()
    lines = graph.export(ordered=True)
    assert isinstance(lines, Iterator)
    first = next(lines)
    differences = graph.diff(1, before)
    graph.schema.apply(SECOND)
    graph.mutate('query add { insert Thing { name: "z" } }')
    rest = [json.loads(line) for line in (first, *lines)]
    assert sorted(row.get("type") or row["edge"] for row in rest) == ["In", "Item", "Kept"]
    assert all("score" not in row.get("data", {}) for row in rest)
    assert {change.type for change in differences} == {"Item", "Kept", "In"}
    asked = "query q { match { $i: Item } return { $i.name as name } }"
    assert graph.query(asked, snapshot=before).rows() == [{"name": "a"}]
    with pytest.raises(og.QueryError):
        graph.query(asked)


def test_handles_that_are_open_elsewhere_see_the_schema_at_their_next_call(graph: og.Graph) -> None:
    with Worker(graph.uri) as writer, Worker(graph.uri, "r") as reader:
        for worker in (writer, reader):
            worker.open()
            assert worker.ask(do="text") == FIRST
        other = og.open(graph.uri)
        graph.schema.apply(SECOND)
        assert [worker.ask(do="text") for worker in (writer, reader)] == [SECOND, SECOND]
        assert other.schema.text == SECOND
        assert writer.ask(do="mutate", source=ITEM, params={"name": "x"})["error"] == "QueryError"
        done = writer.ask(do="mutate", source=ITEM.replace("Item", "Thing"), params={"name": "x"})
        assert done == {"nodes": 1, "edges": 0}
    entity = other.entity("Thing", "x")
    assert entity is not None
    assert entity["score"] == 7
    assert other.mutate(KEPT, params={"name": "y"}).affected == {"nodes": 1, "edges": 0}


# --- writes that were prepared under another schema ---


def test_a_write_that_was_prepared_under_another_schema_is_refused(graph: og.Graph) -> None:
    request = WriteOrder(kind=Writer.MUTATE, actor=None, message="stale", schema_id=graph.snapshot().commit.schema_id)
    graph.schema.apply(SECOND)
    with pytest.raises(og.SchemaChanged) as error:
        graph._session.write(request, lambda attempt: attempt.branch)
    assert error.value.branch == MAIN
    assert_sound(graph)


def test_and_is_prepared_anew(graph: og.Graph) -> None:
    other = og.open(graph.uri)
    seen: list[int] = []

    def prepare(head: Snapshot) -> PreparedWrite[str]:
        seen.append(graph.schema.at(head).number)
        if len(seen) == 1:
            other.schema.apply(SECOND)
        request = WriteOrder(
            kind=Writer.MUTATE, actor=None, message="prepared", schema_id=head.commit.schema_id, tables=("node:Kept",)
        )
        return PreparedWrite(request, lambda attempt: attempt.base.commit.schema_id)

    assert graph._session.write_prepared(MAIN, prepare) == other.schema.at().id
    assert seen == [1, 2]


def test_a_branch_never_catches_up_with_an_older_schema(graph: og.Graph) -> None:
    graph.branches.create("side")
    graph.schema.apply(SECOND)
    stale = schema_of_main(graph._session.branches)
    graph.schema.apply(SECOND + "node More { name: String @key }")
    graph.schema.catch_up("side")
    again = schemas._apply(graph._session, stale, SchemaCatchUpRequest("side"), "side")
    assert again.commit is None
    assert graph.schema.at("side").number == 3


# --- several at once ---


def test_schemas_that_are_applied_at_once_follow_one_another(graph: og.Graph, threads: ThreadPoolExecutor) -> None:
    texts = [FIRST + f"node New{number} {{ name: String @key }}" for number in range(3)]
    handles = [og.open(graph.uri) for _ in texts]
    start = threading.Barrier(len(texts))

    def apply(handle: og.Graph, text: str) -> Any:
        start.wait()
        return handle.schema.apply(text)

    started = [threads.submit(apply, *each) for each in zip(handles, texts, strict=True)]
    results = [each.result(60) for each in started]
    ordered = sorted(results, key=lambda result: int(result.schema.number))
    assert [result.schema.number for result in ordered] == [2, 3, 4]
    assert graph.schema.text == ordered[-1].schema.text
    # Each was planned on what the one before it had left.
    assert [len(result.plan.steps) for result in ordered] == [1, 2, 2]
    parents = [result.commit.parent_commit_id for result in ordered[1:]]
    assert parents == [result.commit.graph_commit_id for result in ordered[:-1]]
    assert_sound(graph)


TURNS = 12


def test_no_write_is_lost_while_types_are_renamed_and_get_columns(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node Item0 { name: String @key }")
    with Worker(graph.uri) as first, Worker(graph.uri) as second:
        for me, worker in enumerate((first, second)):
            worker.open()
            worker.tell(do="write", me=me, turns=TURNS)
        columns = ""
        for number in range(1, 4):
            columns += f", c{number}: I64 @default({number})"
            graph.schema.apply(f'node Item{number} @rename_from("Item{number - 1}") {{ name: String @key{columns} }}')
        acknowledged = [commit for worker in (first, second) for commit in worker.answer()]
    assert len(set(acknowledged)) == 2 * TURNS
    assert {*acknowledged} <= {commit.graph_commit_id for commit in graph.commits.list()}
    rows = graph.snapshot().table("node:Item3").scan().to_pylist()
    assert Counter(row["name"] for row in rows) == Counter(f"{me}-{turn}" for me in range(2) for turn in range(TURNS))
    assert {tuple(row[f"c{number}"] for number in (1, 2, 3)) for row in rows} == {(1, 2, 3)}
    assert graph.recoveries.list() == []
    assert_sound(graph)


def test_a_branch_is_not_deleted_under_the_names_that_its_tables_had(
    graph: og.Graph, threads: ThreadPoolExecutor
) -> None:
    graph.branches.create("side")
    graph.mutate(ITEM, params={"name": "b"}, branch="side")
    graph.schema.apply(SECOND)
    with Worker(graph.uri, OMNIGRAPH_FAILPOINTS="schema_apply.after_phase_b=pause") as changing:
        changing.open()
        changing.tell(do="catch_up", branch="side")
        changing.wait_until_stopped()
        deleting = threads.submit(graph.branches.delete, "side")
        time.sleep(0.5)
        assert not deleting.done()
        changing.go_on()
        assert changing.answer() == 2
        with pytest.raises(og.SchemaChanged):
            deleting.result(60)
    assert graph.schema.at("side").number == 2
    assert_sound(graph)
    graph.branches.delete("side")
    assert_sound(graph)
