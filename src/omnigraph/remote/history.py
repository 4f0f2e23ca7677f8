"""The calls about history whose answers are streams of lines."""

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
from omnigraph.remote.calls import LINES, Endpoint, decode_answer
from omnigraph.remote.schema import RowDecoder, catalog_of, row_decoder

if TYPE_CHECKING:
    from omnigraph.catalog import Catalog


def list_commits(endpoint: Endpoint, request: CommitListRequest) -> list[Commit]:
    """The commits; for a limit of zero, no call is needed."""
    return [] if request.limit == 0 else endpoint.result(request)


def diff(endpoint: Endpoint, request: DiffRequest) -> Iterator[Change]:
    decoder = None
    for line in endpoint.connection.lines(endpoint.call_for(request, accept=LINES)):
        decoder = decoder or row_decoder(endpoint, request.left, request.right)
        yield _change(json.loads(line), decoder)


def commit_changes(endpoint: Endpoint, request: CommitChangesRequest) -> Iterator[Change]:
    """The difference between a commit and its parent."""
    commit = endpoint.result(CommitShowRequest(request.commit_id))
    if commit.parent_commit_id is not None:
        yield from diff(endpoint, DiffRequest(commit.parent_commit_id, commit.graph_commit_id, request.types))


def changes(endpoint: Endpoint, request: ChangesRequest) -> Iterator[ChangeBlock]:
    catalogs: dict[str, Catalog] = {}
    before: Commit | None = None
    for line in endpoint.connection.lines(endpoint.call_for(request, accept=LINES)):
        document = json.loads(line)
        commit: Commit = decode_answer(Commit, document["commit"])
        sides = [each for each in (before, commit) if each is not None]
        for each in sides:
            if each.schema_id not in catalogs:
                catalogs[each.schema_id] = catalog_of(endpoint, each.graph_commit_id)
        decoder = RowDecoder(*(catalogs[each.schema_id] for each in sides))
        found = [_change(each, decoder) for each in document["changes"]]
        yield ChangeBlock(commit, document["cursor"], partial(iter, found))
        before = commit


def _change(document: Any, decoder: RowDecoder) -> Change:
    """A change, with the rows as Python has them."""
    before, after = (decoder.row(document["type"], document[side]) for side in ("before", "after"))
    return Change(document["type"], document["id"], ChangeKind(document["kind"]), before, after)
