"""What changed between states, in a commit, and since a commit."""

from collections.abc import Iterator

from omnigraph.api import history
from omnigraph.changes import blocks_after, diff_snapshots
from omnigraph.policy import Action
from omnigraph.session.session import Session, type_names
from omnigraph.verbs.history import show_commit
from omnigraph.versioning import Manifest, Snapshot


def commit_changes(session: Session, request: history.CommitChangesRequest) -> Iterator[history.Change]:
    commit = show_commit(session, history.CommitShowRequest(request.commit_id))
    if commit.parent_commit_id is None:
        return iter(())
    names = type_names(request.types)
    before, after = (session.locate(each)[0] for each in (commit.parent_commit_id, commit.graph_commit_id))
    for side in (before, after):
        session.guard.check_types(Action.READ, side, commit.branch, names)
    return diff_snapshots(before, after, names)


def diff(session: Session, request: history.DiffRequest) -> Iterator[history.Change]:
    names = type_names(request.types)
    (before, _), (after, _) = sides = session.locate(request.left), session.locate(request.right)
    for snapshot, branch in sides:
        session.guard.check_types(Action.READ, snapshot, branch, names)
    return session.watch_removal(diff_snapshots(before, after, names), before, after)


def changes(session: Session, request: history.ChangesRequest) -> Iterator[history.ChangeBlock]:
    names = type_names(request.types)

    def readable(manifest: Manifest) -> Snapshot:
        snapshot = session.snapshot(manifest)
        session.guard.check_types(Action.READ, snapshot, request.branch, names)
        return snapshot

    log = session.branches.log(request.branch)
    readable(log.head())
    return blocks_after(log, readable, request.cursor, names)
