"""What changed between states, in a commit, and since a commit."""

from collections.abc import Collection, Iterator
from itertools import chain

from omnigraph.api import history
from omnigraph.api.history import Change, ChangeKind
from omnigraph.api.queries import STORED_QUERY, stored_row
from omnigraph.changes import blocks_after, diff_snapshots
from omnigraph.dataclass_later import dataclass
from omnigraph.policy import Action
from omnigraph.session.session import Session, type_names
from omnigraph.verbs.history import show_commit
from omnigraph.versioning import Manifest, Snapshot


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The types whose changes are asked for, and whether those of stored queries are."""

    types: Collection[str] | None
    queries: bool


def _select_changes(types: Collection[str] | None) -> _Wanted:
    names = type_names(types)
    if names is None:
        return _Wanted(None, queries=True)
    return _Wanted([each for each in names if each != STORED_QUERY], queries=STORED_QUERY in names)


def commit_changes(session: Session, request: history.CommitChangesRequest) -> Iterator[Change]:
    commit = show_commit(session, history.CommitShowRequest(request.commit_id))
    if commit.parent_commit_id is None:
        return iter(())
    wanted = _select_changes(request.types)
    before, after = (session.locate(each)[0] for each in (commit.parent_commit_id, commit.graph_commit_id))
    return _changes(session, wanted, (before, commit.branch), (after, commit.branch))


def diff(session: Session, request: history.DiffRequest) -> Iterator[Change]:
    sides = session.locate(request.left), session.locate(request.right)
    found = _changes(session, _select_changes(request.types), *sides)
    return session.watch_removal(found, *(snapshot for snapshot, _ in sides))


def _changes(
    session: Session, wanted: _Wanted, before: tuple[Snapshot, str], after: tuple[Snapshot, str]
) -> Iterator[Change]:
    for snapshot, branch in (before, after):
        session.guard.check_types(Action.READ, snapshot, branch, wanted.types)
    found = diff_snapshots(before[0], after[0], wanted.types)
    return chain(found, _query_changes(session, before, after)) if wanted.queries else found


def _query_changes(session: Session, before: tuple[Snapshot, str], after: tuple[Snapshot, str]) -> Iterator[Change]:
    """What differs in the stored queries that the actor may call."""
    if before[0].commit.queries_id == after[0].commit.queries_id:
        return
    # It compiles queries, which few differences need.
    from omnigraph.session.callable_queries import callable_texts  # noqa: PLC0415

    left, right = (callable_texts(session, snapshot, branch) for snapshot, branch in (before, after))
    kinds = {
        ChangeKind.INSERT: [name for name in right if name not in left],
        ChangeKind.UPDATE: [name for name in right if left.get(name, right[name]) != right[name]],
        ChangeKind.DELETE: [name for name in left if name not in right],
    }
    for kind, names in kinds.items():
        for name in names:
            yield Change(
                type=STORED_QUERY, id=name, kind=kind, before=stored_row(name, left), after=stored_row(name, right)
            )


def changes(session: Session, request: history.ChangesRequest) -> Iterator[history.ChangeBlock]:
    wanted, branch = _select_changes(request.types), request.branch

    def readable(manifest: Manifest) -> Snapshot:
        snapshot = session.snapshot(manifest)
        session.guard.check_types(Action.READ, snapshot, branch, wanted.types)
        return snapshot

    def also(before: Snapshot, after: Snapshot) -> Iterator[Change]:
        return _query_changes(session, (before, branch), (after, branch)) if wanted.queries else iter(())

    log = session.branches.log(branch)
    readable(log.head())
    return blocks_after(log, readable, request.cursor, wanted.types, also)
