"""What must be so after every recovery, whatever was cut short."""

from dataclasses import dataclass

import omnigraph as og
from omnigraph.recovery.apply import RECOVERY_ACTOR
from omnigraph.storage import open_table
from omnigraph.write.sidecar import Sidecar
from tests.crash.world import EDGES, State, state_of


@dataclass(frozen=True, slots=True)
class Settled:
    """What recovery is expected to have made of one sidecar."""

    sidecar: Sidecar
    kind: str
    commit_by: str | None = RECOVERY_ACTOR


def assert_invariants(graph: og.Graph, content: State, settled: Settled | None = None) -> None:
    """Checks a graph that was recovered: nothing is pending or drifted, and it holds exactly what it should.

    With `settled`, one recovery is in the audit, exactly once, with a commit by the right actor.
    """
    assert graph.recoveries.pending() == []
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)
    assert state_of(graph) == content
    assert_ends_exist(content)
    if settled is not None:
        assert_settled_once(graph, settled)


def assert_heads_are_pinned(graph: og.Graph) -> None:
    """The newest version of every table, as a listing of its versions gives it, is the one that the graph sees."""
    snapshot = graph.snapshot()
    for key, pin in snapshot.manifest.pins.items():
        assert open_table(snapshot.location.child(pin.path)).version == pin.version, key


def assert_history_is_linear(graph: og.Graph) -> None:
    """Every commit follows the one before it, without a gap, and none is twice."""
    commits = graph.commits.list()
    ids = [commit.graph_commit_id for commit in commits]
    assert len(set(ids)) == len(ids)
    assert [commit.parent_commit_id for commit in commits] == [*ids[1:], None]
    assert [commit.manifest_version for commit in commits] == [*range(len(commits), 0, -1)]


def assert_ends_exist(content: State) -> None:
    """No edge dangles."""
    nodes = {(row[0], row[1]) for row in content if row[0] not in EDGES}
    for row in content:
        if row[0] in EDGES:
            start, end = EDGES[row[0]]
            assert {(start, row[1]), (end, row[2])} <= nodes


def assert_settled_once(graph: og.Graph, settled: Settled) -> None:
    """One audit row, which names the write, its actor, and a commit that the history has."""
    sidecar = settled.sidecar
    rows = [row for row in graph.recoveries.list() if row.operation_id == sidecar.operation_id]
    assert len(rows) == 1
    (row,) = rows
    assert row.recovery_kind == settled.kind
    assert row.recovery_for_actor == sidecar.actor
    assert row.writer_kind == sidecar.kind
    assert sorted(outcome.table_key for outcome in row.outcomes) == sorted(sidecar.table_keys)
    commits = {commit.graph_commit_id: commit for commit in graph.commits.list()}
    assert commits[row.graph_commit_id].actor == settled.commit_by
    visible = sidecar.operation_id in commits
    assert visible == (settled.kind == "RolledForward")
