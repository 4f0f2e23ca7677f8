"""What a match has read stays as it was until its mutation is published, whoever writes at the same time."""

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.failpoints import Point, Writer, WriteStep
from omnigraph.session import writes
from omnigraph.versioning import ManifestLog
from tests.behaviour.people import other_handle
from tests.behaviour.test_pairs_of_writers import held

PATIENCE = 60.0
SCHEMA = """
node Left { name: String @key, on: Bool }
node Right { name: String @key, on: Bool }
node Counter { name: String @key, n: I64 }
node Note { text: String }
edge Sees: Left -> Right
"""


@pytest.fixture(params=["small", "not small"])
def graph(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> og.Graph:
    """Publishers take no turns, as those of several machines; large mutations hold locks, small ones none."""
    monkeypatch.setattr(ManifestLog, "turn", lambda _: nullcontext())
    if request.param == "not small":
        monkeypatch.setattr(writes, "_SMALL_ATTEMPTS", 0)
    graph = og.init(tmp_path / "graph.omni", SCHEMA, durability="fast")
    graph.load({"Left": [{"name": "a", "on": True}], "Right": [{"name": "b", "on": True}]})
    graph.load({"Counter": [{"name": "c", "n": 0}]}, mode="append")
    return graph


def mutate(graph: og.Graph, body: str) -> og.MutationResult:
    return graph.mutate(f"query q {{ {body} }}")


def rows(graph: og.Graph, type: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = graph.snapshot().table(f"node:{type}").scan().to_pylist()
    return found


STEPS = [(Writer.MUTATE, WriteStep.BEFORE_PHASE_A), Point.PUBLISH_BEFORE_SWAP]
CHANGES = {
    "changed": 'update Right set { on: false } where name = "b"',
    "deleted": 'delete Right where name = "b"',
    "added": 'insert Right { name: "b2", on: true }',
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", STEPS, ids=str)
def test_a_table_that_was_only_read_is_relied_on(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, step: tuple[Writer, WriteStep] | Point, change: str
) -> None:
    """A note for each node that is on; another handle changes the nodes before the notes are published."""
    outcome: list[object] = []

    def note() -> None:
        outcome.append(mutate(graph, "match { $r: Right  $r.on } insert Note { id: $r.name, text: $r.name }"))

    with held(monkeypatch, step, note):
        other = threading.Thread(target=mutate, args=(other_handle(graph), CHANGES[change]))
        other.start()
        other.join(0.3)  # it may have to wait for the first
    other.join(PATIENCE)
    assert not other.is_alive()
    assert isinstance(outcome[0], og.MutationResult)
    notes = {row["text"] for row in rows(graph, "Note")}
    commits = graph.commits.list()[:2]
    noted_last = outcome[0].commit is None or commits[0].graph_commit_id == outcome[0].commit.graph_commit_id
    after = {"changed": set(), "deleted": set(), "added": {"b", "b2"}}[change]
    assert notes == (after if noted_last else {"b"})


def _race(graph: og.Graph, *work: Callable[[og.Graph], object], rounds: int = 12) -> list[og.OmnigraphError]:
    """Runs work in threads with handles of their own, again and again."""
    problems: list[og.OmnigraphError] = []

    def run(handle: og.Graph, once: Callable[[og.Graph], object]) -> None:
        for _ in range(rounds):
            try:
                once(handle)
            except og.OmnigraphError as error:
                problems.append(error)

    threads = [threading.Thread(target=run, args=(other_handle(graph), once)) for once in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return problems


def test_two_writers_that_each_read_what_the_other_writes_do_not_both_win(graph: og.Graph) -> None:
    for number in range(6):
        mutate(graph, 'insert Left { name: "a", on: true } insert Right { name: "b", on: true }')
        problems = _race(
            graph,
            lambda handle: mutate(handle, 'match { $r: Right  $r.on } update Left set { on: false } where name = "a"'),
            lambda handle: mutate(handle, 'match { $l: Left  $l.on } update Right set { on: false } where name = "b"'),
            rounds=1,
        )
        assert problems == [], number
        assert rows(graph, "Left")[0]["on"] or rows(graph, "Right")[0]["on"]


def test_no_update_of_a_matched_value_is_lost(graph: og.Graph) -> None:
    body = """
        match { $c: Counter { name: "c" } }
        insert Note { id: concat("n", cast($c.n as String)), text: "x" }
        update $c set { n: $c.n + 1 }
    """
    assert _race(graph, *[lambda handle: mutate(handle, body)] * 3) == []
    assert rows(graph, "Counter") == [{"id": "c", "name": "c", "n": 36}]
    assert {row["id"] for row in rows(graph, "Note")} == {f"n{number}" for number in range(36)}


PROCESS = """
import sys
import omnigraph as og

graph = og.open(sys.argv[1], durability="fast")
for _ in range(20):
    graph.mutate('''
        query q {
            match { $c: Counter { name: "c" } }
            insert Note { id: concat("n", cast($c.n as String)), text: "x" }
            update $c set { n: $c.n + 1 }
        }
    ''')
"""


def test_no_update_of_a_matched_value_is_lost_between_processes(graph: og.Graph) -> None:
    started = [subprocess.Popen([sys.executable, "-c", PROCESS, graph.uri]) for _ in range(2)]
    for process in started:
        assert process.wait(PATIENCE) == 0
    assert rows(graph, "Counter")[0]["n"] == 40
    assert len(rows(graph, "Note")) == 40
