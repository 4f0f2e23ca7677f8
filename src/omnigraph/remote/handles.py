"""The parts of a remote graph that have verbs of their own: its commits, branches, tags and recoveries."""

import json
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from omnigraph.branching.branches import BranchInfo
from omnigraph.changes.diff import Change
from omnigraph.changes.feed import ChangeBlock
from omnigraph.errors import RecoveryFailed, UsageError
from omnigraph.recovery import Recoveries, Recovery
from omnigraph.remote.asking import Door, refuse_actor
from omnigraph.remote.decoding import decoded
from omnigraph.remote.values import Rows
from omnigraph.remote.wire import LINES
from omnigraph.versioning import MAIN, Commit
from omnigraph.versioning.tags import Tag
from omnigraph.write.sidecar import Sidecar


def named_types(types: Collection[str] | None) -> list[str] | None:
    """The types that somebody names, one or several."""
    return [types] if isinstance(types, str) else None if types is None else [*types]


def change_of(document: Any, rows: Rows) -> Change:
    """A change, with the rows as Python has them."""
    before, after = (rows.row(document["type"], document[side]) for side in ("before", "after"))
    return decoded(Change, {**document, "before": before, "after": after})


def block_of(document: Any, rows: Rows) -> ChangeBlock:
    """One commit of the feed, with all of its changes."""
    changes = [change_of(each, rows) for each in document["changes"]]
    return ChangeBlock(decoded(Commit, document["commit"]), document["cursor"], partial(iter, changes))


class RemoteCommits:
    """The history of a graph."""

    def __init__(self, door: Door, rows_at: Callable[..., Rows]) -> None:
        self._door = door
        self._rows_at = rows_at

    def list(self, branch: str = MAIN, limit: int | None = None, actor: str | None = None) -> list[Commit]:
        """The commits that are part of a branch, also those that it merged; each before its parents."""
        if limit is not None and limit < 0:
            raise UsageError(f"a limit is not below zero: {limit}")
        found = self._door.get("commits", branch=branch, limit=limit or None, actor=actor)
        return [decoded(Commit, each) for each in found][:limit]

    def show(self, commit_id: str) -> Commit:
        """One commit, by its id or a tag."""
        return decoded(Commit, self._door.get("commits", commit_id))

    def changes(self, commit_id: str, types: Collection[str] | None = None) -> Iterator[Change]:
        """What a commit changed, against the one before it; the first has changed nothing."""
        commit = self.show(commit_id)
        sides = {"left": commit.parent_commit_id, "right": commit.graph_commit_id}
        if commit.parent_commit_id is None:
            return
        ask = self._door.ask("diff", query={**sides, "type": named_types(types)}, accept=LINES)
        rows = None
        for line in self._door.wire.lines(ask):
            rows = rows or self._rows_at(*sides.values())
            yield change_of(json.loads(line), rows)


class RemoteBranches:
    """The branches of a graph."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def create(self, name: str, from_: str = MAIN) -> BranchInfo:
        """A new branch at the head of a branch or at a commit."""
        return decoded(BranchInfo, self._door.post("branches", body={"name": name, "from": from_}))

    def delete(self, name: str) -> None:
        """The end of a branch. Refused while others that began on it are there."""
        self._door.delete("branches", name)

    def list(self) -> list[BranchInfo]:
        """All branches that may be read with their heads, `main` first."""
        return [decoded(BranchInfo, each) for each in self._door.get("branches")]


class RemoteTags:
    """The tags of a graph."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def create(
        self, name: str, commit: str | int | None = None, *, message: str | None = None, actor: str | None = None
    ) -> Tag:
        """A name for a commit, which is kept as long as it has one; without a commit, for the newest."""
        refuse_actor(actor)
        at = MAIN if commit is None else commit
        return decoded(Tag, self._door.post("tags", body={"name": name, "at": at, "message": message}))

    def delete(self, name: str) -> None:
        """The end of a tag. Its commit stays until a cleanup, and after that if something else keeps it."""
        self._door.delete("tags", name)

    def show(self, name: str) -> Tag:
        """One tag."""
        return decoded(Tag, self._door.get("tags", name))

    def list(self) -> list[Tag]:
        """All tags, by name."""
        return [decoded(Tag, each) for each in self._door.get("tags")]


class RemoteRecoveries(Recoveries):
    """The recoveries of a graph, and what is left to recover."""

    def __init__(self, door: Door) -> None:  # a server knows where the graph lies
        self._door = door

    def pending(self) -> list[Sidecar | RecoveryFailed]:
        """The sidecars that are there, of writers at work too; one that cannot be understood is given as its error."""
        return [_pending(each) for each in self._door.get("recoveries")["pending"]]

    def list(self) -> list[Recovery]:
        """The writes that were completed or undone, newest first."""
        return [decoded(Recovery, each) for each in self._door.get("recoveries")["recoveries"]]


def _pending(document: Any) -> Sidecar | RecoveryFailed:
    if document["state"] == "unreadable":
        return RecoveryFailed(f"{document['operation_id']}.json", document["problem"])
    return decoded(Sidecar, document)
