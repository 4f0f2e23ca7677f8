"""What must be so after every recovery, whatever was cut short."""

from collections.abc import Mapping
from dataclasses import dataclass

import omnigraph as og
from omnigraph.recovery.apply import RECOVERY_ACTOR
from omnigraph.storage.branches import branch_refs
from omnigraph.storage.tables import open_table
from omnigraph.write.forks import ForkStatus, classify_fork_ref, is_own, table_root
from omnigraph.write.sidecar import Sidecar
from tests.crash.world import EDGES, State, state_of


@dataclass(frozen=True, slots=True)
class Settled:
    """What recovery is expected to have made of one sidecar."""

    sidecar: Sidecar
    kind: str
    commit_by: str | None = RECOVERY_ACTOR


def assert_invariants(graph: og.Graph, contents: Mapping[str, State], settled: Settled | None = None) -> None:
    """Checks a graph that was recovered: nothing is pending or drifted, and each branch holds exactly what it should.

    With `settled`, one recovery is in the audit, exactly once, with a commit by the right actor.
    """
    assert graph.recoveries.pending() == []
    assert_heads_are_pinned(graph)
    assert_history_is_linear(graph)
    assert {*branch_names(graph)} == {*contents}
    for branch, content in contents.items():
        assert state_of(graph, branch) == content, branch
        assert_ends_exist(content)
    if settled is not None:
        assert_settled_once(graph, settled)


def branch_names(graph: og.Graph) -> list[str]:
    """All branches, `main` first."""
    return [branch.name for branch in graph.branches.list()]


def assert_heads_are_pinned(graph: og.Graph) -> None:
    """The newest version of every table, as a listing of its versions gives it, is the one that its branch sees.

    A branch may see an old version of a table that is not its own.
    """
    for branch in branch_names(graph):
        snapshot, log = graph.snapshot(branch), graph._session.branches.log(branch)
        for key, pin in snapshot.manifest.pins.items():
            if is_own(log, pin.path):
                assert open_table(snapshot.location.child(pin.path)).version == pin.version, (branch, key)


def assert_forks_are_placed(graph: og.Graph) -> None:
    """No table has a fork that no branch relies on."""
    snapshot = graph.snapshot()
    for key, pin in snapshot.manifest.pins.items():
        root = table_root(pin.path)
        for ref in branch_refs(snapshot.location.child(root)):
            assert classify_fork_ref(graph._session.branches, root, ref.name) is ForkStatus.LEGITIMATE, (key, ref)


def assert_history_is_linear(graph: og.Graph) -> None:
    """On every branch each commit follows the one before it; none is twice, and no parent is missing.

    Versions of the manifest that only moved rows to another place have no commit.
    """
    for branch in branch_names(graph):
        commits = graph.commits.list(branch)
        known = {commit.graph_commit_id: commit for commit in commits}
        assert len(known) == len(commits)
        parents = {each for commit in commits for each in (commit.parent_commit_id, commit.merged_parent_commit_id)}
        assert parents - {None} == known.keys() - {graph.snapshot(branch).commit_id}
        versions, following = [], known.get(graph.snapshot(branch).commit_id)
        while following is not None:
            versions.append(following.manifest_version)
            following = known.get(following.parent_commit_id or "")
        assert versions == sorted({*versions}, reverse=True)
        assert versions[-1] == 1


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
    commits = {commit.graph_commit_id: commit for commit in graph.commits.list(sidecar.branch)}
    assert commits[row.graph_commit_id].actor == settled.commit_by
    visible = sidecar.operation_id in commits
    assert visible == (settled.kind == "RolledForward")
