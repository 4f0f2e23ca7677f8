"""The verbs about history whose answers are streams of lines."""

import json
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph.api.history import (
    Change,
    ChangeBlock,
    ChangeKind,
    ChangesRequest,
    Commit,
    CommitChangesRequest,
    CommitListRequest,
    CommitShowRequest,
    DiffRequest,
)
from omnigraph.remote.asking import Door
from omnigraph.remote.decoding import decode_answer
from omnigraph.remote.schemas import catalog_of, rows_at
from omnigraph.remote.wire import LINES

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog
    from omnigraph.remote.values import Rows


def list_commits(door: Door, request: CommitListRequest) -> list[Commit]:
    """The commits; a limit of zero is one that no server is asked for."""
    return [] if request.limit == 0 else door.answer(request)


def diff(door: Door, request: DiffRequest) -> Iterator[Change]:
    rows = None
    for line in door.wire.lines(door.ask_for(request, accept=LINES)):
        rows = rows or rows_at(door, request.left, request.right)
        yield _change(json.loads(line), rows)


def commit_changes(door: Door, request: CommitChangesRequest) -> Iterator[Change]:
    """The difference between a commit and its parent."""
    commit = door.answer(CommitShowRequest(request.commit_id))
    if commit.parent_commit_id is not None:
        yield from diff(door, DiffRequest(commit.parent_commit_id, commit.graph_commit_id, request.types))


def changes(door: Door, request: ChangesRequest) -> Iterator[ChangeBlock]:
    from omnigraph.remote.values import Rows  # noqa: PLC0415 - it needs the catalog

    catalogs: dict[str, Catalog] = {}
    before: Commit | None = None
    for line in door.wire.lines(door.ask_for(request, accept=LINES)):
        document = json.loads(line)
        commit: Commit = decode_answer(Commit, document["commit"])
        sides = [each for each in (before, commit) if each is not None]
        for each in sides:
            if each.schema_id not in catalogs:
                catalogs[each.schema_id] = catalog_of(door, each.graph_commit_id)
        rows = Rows(*(catalogs[each.schema_id] for each in sides))
        found = [_change(each, rows) for each in document["changes"]]
        yield ChangeBlock(commit, document["cursor"], partial(iter, found))
        before = commit


def _change(document: Any, rows: "Rows") -> Change:
    """A change, with the rows as Python has them."""
    before, after = (rows.row(document["type"], document[side]) for side in ("before", "after"))
    return Change(document["type"], document["id"], ChangeKind(document["kind"]), before, after)
