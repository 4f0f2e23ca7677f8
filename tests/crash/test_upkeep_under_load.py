"""Processes write, branch, load and read while others optimize and clean up: no error, and no row is lost."""

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from tests.crash.children import SOAKING, Children
from tests.crash.invariants import assert_heads_are_pinned, assert_history_is_linear

SECONDS = 60 if SOAKING else 6
SCHEMA = "node Item { name: String @key, text: String @index, value: I64 }\nedge Next: Item -> Item\n"
ROLES = ("write", "load", "branch", "optimize", "cleanup", *(("write", "read") if SOAKING else ()))
PROGRAM = """
import json, random, sys, time
from pathlib import Path
import omnigraph as og
job = json.loads(sys.stdin.readline())
graph = og.open(job["uri"])
me, folder = job["me"], Path(job["folder"])
chance = random.Random(me)
mine, rounds = {}, 0


def retried(work):
    while True:
        try:
            return work()
        except og.Conflict:
            graph.refresh()


def write(branch="main"):
    name, value = f"{me}-{chance.randrange(60)}", chance.randrange(10**6)
    if name in mine and chance.random() < 0.3:
        source = f'delete Item where name = "{name}"'
        value = None
    elif name in mine:
        source = f'update Item set {{ value: {value} }} where name = "{name}"'
    else:
        source = f'insert Item {{ name: "{name}", text: "of {me}", value: {value} }}'
        source += f' insert Next {{ from: "{name}", to: "hub" }}'
    retried(lambda: graph.mutate(f"query q {{ {source} }}", branch=branch))
    mine[name] = value
    if value is None:
        del mine[name]


def load():
    values = {f"{me}-{number}": chance.randrange(10**6) for number in chance.sample(range(200), 50)}
    lines = [json.dumps({"type": "Item", "data": {"name": k, "text": "loaded", "value": v}}) for k, v in values.items()]
    path = folder / f"{me}.jsonl"
    path.write_text("\\n".join(lines))
    retried(lambda: graph.load(path, mode="merge"))
    mine.update(values)


def branch():
    name = f"b{me}-{rounds}"
    graph.branches.create(name)
    for _ in range(3):
        write(name)
    retried(lambda: graph.merge(name))
    graph.branches.delete(name)


def read():
    at = graph.snapshot()
    counted = graph.query("query q { match { $i: Item } return { count($i) as n } }", snapshot=at).rows()[0]["n"]
    assert counted == at.table("node:Item").count()
    walked = graph.query("query q { match { $i: Item $i next $h } return { count($i) as n } }", snapshot=at).rows()
    assert walked[0]["n"] == at.table("edge:Next").count()


def optimize():
    graph.optimize()
    time.sleep(0.1)


def cleanup():
    result = graph.cleanup(keep=2, grace="3s", confirm=True)
    assert not result.failed, result.failed
    time.sleep(0.1)


turn = {"write": write, "load": load, "branch": branch, "read": read, "optimize": optimize, "cleanup": cleanup}
until = time.time() + job["seconds"]
while time.time() < until:
    turn[job["role"]]()
    rounds += 1
print(json.dumps({"rounds": rounds, "mine": mine}), flush=True)
"""


@pytest.mark.long
def test_upkeep_while_others_work_loses_nothing(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    graph.mutate('query start { insert Item { name: "hub", text: "hub", value: 0 } }')
    graph.ensure_indices()
    with ExitStack() as running:
        started = [running.enter_context(Children(PROGRAM).next()) for _ in ROLES]
        for me, (child, role) in enumerate(zip(started, ROLES, strict=True)):
            child.tell(uri=graph.uri, me=me, role=role, seconds=SECONDS, folder=str(tmp_path))
        ended = [child.communicate(timeout=SECONDS + 300) for child in started]
    assert {role: errors for role, (_, errors) in zip(ROLES, ended, strict=True) if errors} == {}
    reports: list[dict[str, Any]] = [json.loads(output) for output, _ in ended]
    assert all(each["rounds"] for each in reports)
    expected = {"hub": 0, **{name: value for each in reports for name, value in each["mine"].items()}}
    assert _values(graph) == expected
    time.sleep(3.1)
    graph.optimize()
    assert graph.cleanup(keep=1, grace="0s", confirm=True).failed == ()
    reopened = og.open(graph.uri)
    assert _values(reopened) == expected
    assert_history_is_linear(reopened)
    assert_heads_are_pinned(reopened)
    assert reopened.recoveries.pending() == []


def _values(graph: og.Graph) -> dict[str, int]:
    rows = graph.snapshot().table("node:Item").scan(["name", "value"]).to_pylist()
    return {row["name"]: row["value"] for row in rows}
