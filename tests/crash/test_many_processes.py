"""Many processes write at once: every acknowledged change is there exactly once, in one line of history."""

from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import omnigraph as og
from tests.crash.children import SOAKING, Children
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear

PROCESSES = 8
MUTATIONS = 100 if SOAKING else 15
INCREMENTS = 3
SCHEMA = """
node Shared { name: String @key, value: I64? }
node Own0 { text: String }
node Own1 { text: String }
node Own2 { text: String }
node Own3 { text: String }
edge Knows: Shared -> Shared
"""
PROGRAM = """
import json, sys
import omnigraph as og
job = json.loads(sys.stdin.readline())
graph = og.open(job["uri"])
me = job["me"]

def retried(source, **more):
    while True:
        try:
            return graph.mutate(source, actor=f"p{me}", **more)
        except og.Conflict:
            graph.refresh()

for turn in range(job["mutations"]):
    name = f"{me}-{turn}"
    if turn % 3 == 0:
        source = f'insert Shared {{ name: "{name}" }}'
    elif turn % 3 == 1:
        source = f'insert Own{me % 4} {{ text: "{name}" }}'
    else:
        source = f'insert Shared {{ name: "{name}" }} insert Knows {{ from: "{name}", to: "counter" }}'
    print("done", retried(f"query q {{ {source} }}").commit.graph_commit_id, flush=True)

for turn in range(job["increments"]):
    while True:
        snapshot = graph.snapshot()
        value = graph.entity("Shared", "counter", at=snapshot)["value"]
        change = f'query count {{ update Shared set {{ value: {value + 1} }} where name = "counter" }}'
        try:
            commit = graph.mutate(change, actor=f"p{me}", if_commit=snapshot.commit_id).commit
        except og.Conflict:
            continue
        print("done", commit.graph_commit_id, flush=True)
        break
"""


def test_eight_processes_write_the_same_and_different_tables(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    graph.mutate('query start { insert Shared { name: "counter", value: 0 } }')
    with ExitStack() as running:
        started = [running.enter_context(Children(PROGRAM).next()) for _ in range(PROCESSES)]
        for me, child in enumerate(started):
            child.tell(uri=graph.uri, me=me, mutations=MUTATIONS, increments=INCREMENTS)
        ended = [child.communicate(timeout=600) for child in started]
    assert [errors for _, errors in ended] == [""] * PROCESSES
    acknowledged = [line.split()[1] for output, _ in ended for line in output.splitlines()]
    assert len(acknowledged) == PROCESSES * (MUTATIONS + INCREMENTS)
    commits = [commit.graph_commit_id for commit in graph.commits.list() if commit.actor is not None]
    assert Counter(acknowledged) == Counter(commits)
    assert_history_is_linear(graph)
    assert_heads_are_pinned(graph)
    assert graph.recoveries.pending() == []
    assert graph.recoveries.list() == []
    _check_content(graph)


def _check_content(graph: og.Graph) -> None:
    snapshot = graph.snapshot()
    shared = Counter(snapshot.table("node:Shared").scan(["name"])["name"].to_pylist())
    own = Counter(
        text for number in range(4) for text in snapshot.table(f"node:Own{number}").scan(["text"])["text"].to_pylist()
    )
    knows = Counter(snapshot.table("edge:Knows").scan(["src"])["src"].to_pylist())
    turns = [(f"{me}-{turn}", turn % 3) for me in range(PROCESSES) for turn in range(MUTATIONS)]
    assert shared == Counter(["counter", *(name for name, rest in turns if rest != 1)])
    assert own == Counter(name for name, rest in turns if rest == 1)
    assert knows == Counter(name for name, rest in turns if rest == 2)
    counter = graph.entity("Shared", "counter")
    assert counter is not None
    assert counter["value"] == PROCESSES * INCREMENTS
