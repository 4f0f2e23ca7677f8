"""A repair that is killed has published everything that it was to publish, or nothing; the next one does the rest."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import lance
import omnigraph as og
from omnigraph.failpoints import Point
from tests.crash.children import Children
from tests.crash.invariants import assert_invariants
from tests.crash.world import SCHEMA, prepare, state_before, state_of, write_next

PROGRAM = """
import json, sys
import omnigraph as og
from omnigraph import failpoints
job = json.loads(sys.stdin.readline())
graph = og.open(job["uri"])
with failpoints.armed(job["failpoints"]):
    graph.repair(confirm=True, force=True)
"""
TABLES = ("node:A", "node:B")


@pytest.mark.parametrize(
    ("point", "published"),
    [
        (Point.REPAIR_BEFORE_PUBLISH, False),
        (Point.PUBLISH_BEFORE_SWAP, False),
        (Point.PUBLISH_AFTER_SWAP, True),
        (Point.REPAIR_AFTER_PUBLISH, True),
    ],
)
def test_a_killed_repair_is_all_or_nothing_and_can_be_repeated(
    tmp_path: Path, point: Point, published: bool, kills: Callable[[int], None]
) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    prepare(graph, 2, tmp_path)
    before = graph.snapshot().manifest.pins
    for key in TABLES:
        lance.dataset(f"{graph.uri}/{before[key].path}").delete("value = 1")
    code, errors = Children(PROGRAM).ended(uri=graph.uri, failpoints=f"{point}=crash")
    assert code == -signal.SIGKILL, errors
    assert state_of(og.open(graph.uri, "r")) == (frozenset() if published else state_before(2))
    reopened = og.open(graph.uri)
    again = reopened.repair(confirm=True, force=True)
    assert (again.commit is None) == published
    assert reopened.recoveries.list() == []
    assert_invariants(reopened, {"main": frozenset()})
    write_next(reopened, 2)
    assert_invariants(reopened, {"main": frozenset()})
    kills(1)
