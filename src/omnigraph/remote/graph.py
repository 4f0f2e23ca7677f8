"""A graph that a server has: one thin object with the verbs of `Graph`, each of them one request."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from omnigraph.analytics import algorithm_named
from omnigraph.analytics.analysis import Analysis
from omnigraph.catalog import Catalog
from omnigraph.changes.diff import Change
from omnigraph.changes.feed import ChangeBlock
from omnigraph.errors import NotFound, Unavailable, UsageError
from omnigraph.graph.engines import to_frame
from omnigraph.loading.inputs import load_input
from omnigraph.loading.load import LoadMode, LoadResult, explained, load_mode
from omnigraph.merging.merge import MergeResult
from omnigraph.parts.choice import chosen
from omnigraph.parts.engine import Report, no_report
from omnigraph.query.reading import QueryResult
from omnigraph.remote.asking import At, Door, RemoteSnapshot, known_engine, place, refuse_actor, state
from omnigraph.remote.decoding import decoded
from omnigraph.remote.exporting import ExportedRemotely
from omnigraph.remote.handles import (
    RemoteBranches,
    RemoteCommits,
    RemoteRecoveries,
    RemoteTags,
    block_of,
    change_of,
    named_types,
)
from omnigraph.remote.schema import KnownRows, RemoteSchema
from omnigraph.remote.sending import sent_files
from omnigraph.remote.upkeep import MaintainedRemotely
from omnigraph.remote.values import plain
from omnigraph.remote.wire import ARROW, LINES
from omnigraph.source_files import text_of
from omnigraph.syntax import QUERY
from omnigraph.verbs.embed import EmbedResult
from omnigraph.verbs.mutate import MutationResult
from omnigraph.versioning import MAIN, Commit

_SENT = "<query>"
"""What a server calls a text that it was sent."""
_SUMMARY = b"omnigraph"


class RemoteGraph(MaintainedRemotely, ExportedRemotely):
    """A graph of a server. Who writes is told by the token, so no verb takes an actor. Threads may share it."""

    def __init__(self, door: Door) -> None:
        super().__init__(door)
        self.schema = RemoteSchema(door)
        self._rows = KnownRows(self.schema)
        self.commits = RemoteCommits(door, self._rows.at)
        self.branches = RemoteBranches(door)
        self.tags = RemoteTags(door)
        self.recoveries = RemoteRecoveries(door)

    @property
    def id(self) -> str:
        """What the server calls the graph."""
        return self._door.graph

    @property
    def uri(self) -> str:
        """Where the graph is asked."""
        return self._door.url

    def close(self) -> None:
        """Closes the connections to the server."""
        self._door.wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def refresh(self) -> None:
        """Asks whether the graph is there. Every verb sees its newest commit anyway."""
        self.snapshot()

    # --- reading ---

    def snapshot(self, branch: str = MAIN) -> RemoteSnapshot:
        """The graph as it is now."""
        return decoded(RemoteSnapshot, self._door.get("snapshot", branch=branch))

    def snapshot_at(
        self,
        *,
        version: int | None = None,
        commit: str | None = None,
        time: datetime | None = None,
        branch: str = MAIN,
    ) -> RemoteSnapshot:
        """The graph as it was: at a commit, or at a version of a branch or an instant in its history."""
        given = [each for each in (version, commit, time) if each is not None]
        if len(given) != 1:
            raise UsageError("name one of version, commit and time")
        at = state(given[0])
        return decoded(RemoteSnapshot, self._door.get("snapshot", branch=branch, at=at))

    def entity(self, type: str, id: str, at: At = None) -> dict[str, Any] | None:
        """One entity with its properties, now or at a snapshot, commit, version or time; None if it is not there."""
        if not isinstance(id, str):
            raise UsageError(f"an id is a text, not {id!r}")
        try:
            document = self._door.get("entities", type, id, at=state(at))
        except NotFound as error:
            if error.kind != "entity":
                raise
            return None
        return self._rows.at(at).row(type, document)

    def query(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        snapshot: At = None,
        engine: str = "auto",
        timeout: float | None = None,
    ) -> QueryResult:
        """Runs a query that reads: on the head of a branch, or on a snapshot, commit, version or time.

        The server stops it, with `QueryTimedOut`, when it takes more than `timeout` seconds, or more than it allows.
        """
        text, names = _source(source)
        body = {
            "source": text,
            "name": name,
            "params": plain(params or {}),
            **place(branch, snapshot),
            "engine": known_engine(engine),
            "timeout": timeout,
        }
        ask = self._door.ask("query", method="POST", body=body, accept=ARROW, names=names)
        table, commit = self._door.wire.table(ask)
        return QueryResult(table, commit, to_frame=to_frame)

    def explain(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        engine: str = "auto",
    ) -> str:
        """How a query will be answered, and where: what is scanned with which columns and filters, walked, joined."""
        text, names = _source(source)
        body = {
            "source": text,
            "name": name,
            "params": plain(params or {}),
            "branch": branch,
            "engine": known_engine(engine),
            "explain": True,
        }
        ask = self._door.ask("query", method="POST", body=body, names=names)
        plan: str = self._door.wire.document(ask)["plan"]
        return plan

    def diff(self, left: At, right: At, types: Collection[str] | None = None) -> Iterator[Change]:
        """What leads from one state to another; each is named by a branch, a commit or a version of `main`."""
        query = {"left": state(left), "right": state(right), "type": named_types(types)}
        rows = None
        for line in self._door.wire.lines(self._door.ask("diff", query=query, accept=LINES)):
            rows = rows or self._rows.at(left, right)
            yield change_of(json.loads(line), rows)

    def changes(
        self, cursor: str | None = None, branch: str = MAIN, types: Collection[str] | None = None
    ) -> Iterator[ChangeBlock]:
        """The commits of a branch after a cursor, in order, each with what it changed and the cursor to go on from."""
        query = {"cursor": cursor, "branch": branch, "type": named_types(types)}
        before: Commit | None = None
        for line in self._door.wire.lines(self._door.ask("changes", query=query, accept=LINES)):
            document = json.loads(line)
            commit = decoded(Commit, document["commit"])
            yield block_of(document, self._rows.of(*(each for each in (before, commit) if each is not None)))
            before = commit

    def analyze(
        self,
        algorithm: str,
        *,
        edges: Sequence[str] | str | None = None,
        nodes: Sequence[str] | str | None = None,
        branch: str = MAIN,
        snapshot: At = None,
        write: Mapping[str, str] | None = None,
        from_: str | None = None,
        actor: str | None = None,
        engine: str = "auto",
        report: Report = no_report,  # noqa: ARG002 - the work is done elsewhere
        **parameters: Any,
    ) -> Analysis:
        """Analyses the head of a branch, or a snapshot; `write` makes columns of the result properties, as one commit.

        The commit is on `branch`, which with `from_` is created there first if it does not exist.
        """
        refuse_actor(actor)
        known = algorithm_named(algorithm, parameters)
        body = {
            "algorithm": algorithm,
            "edges": named_types(edges),
            "nodes": named_types(nodes),
            **(place(branch, snapshot) if not write else {"branch": branch, "snapshot": state(snapshot)}),
            "write": dict(write) if write else None,
            "from": from_,
            "engine": engine,
            **plain(parameters),
        }
        ask = self._door.ask("analyze", method="POST", body=body, accept=ARROW, writes=bool(write))
        return _analysis(*self._door.wire.table(ask), known.order)

    # --- writing ---

    def mutate(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        if_commit: str | None = None,
    ) -> MutationResult:
        """Runs a mutation; with `if_commit`, only on top of that commit."""
        refuse_actor(actor)
        text, names = _source(source)
        body = {"source": text, "name": name, "params": plain(params or {}), "branch": branch, "if_commit": if_commit}
        return decoded(MutationResult, self._door.post("mutate", body=body, names=names))

    def load(
        self,
        data: Any,
        mode: LoadMode | str = LoadMode.APPEND,
        *,
        branch: str = MAIN,
        from_: str | None = None,
        actor: str | None = None,
        engine: str = "auto",
        storage_options: dict[str, str] | None = None,
        report: Report = no_report,
    ) -> LoadResult:
        """Loads as one commit: paths of files that say their types, or a mapping from types to paths, tables or frames.

        The files are read here and sent. With `from_`, the branch is created there first if it does not exist.
        """
        refuse_actor(actor)
        query = {"mode": load_mode(mode).value, "branch": branch, "from": from_, "engine": known_engine(engine)}
        given = load_input(data, self._catalog_of(branch, from_), storage_options)
        with sent_files(given, report) as files:
            ask = self._door.ask("load", method="POST", query=query, files=files, writes=True)
            return decoded(LoadResult, self._door.wire.document(ask))

    def _catalog_of(self, branch: str, from_: str | None) -> Catalog:
        """The types of the branch that is written to, or of what it begins at. The server says if none is there."""
        for each in (branch, from_):
            with suppress(NotFound):
                if each is not None:
                    return self.schema.at(each).catalog
        return self.schema.catalog

    def explain_load(
        self,
        data: Any,
        mode: LoadMode | str = LoadMode.APPEND,
        *,
        engine: str = "auto",
        storage_options: dict[str, str] | None = None,
    ) -> str:
        """How a load would be done, and where; nothing but the names and sizes of the input is read."""
        given = load_input(data, self.schema.catalog, storage_options)
        return explained(given, load_mode(mode), chosen(engine, given.reasons_for_spark))

    def embed(
        self,
        type: str,
        property: str | None = None,
        *,
        all: bool = False,
        branch: str = MAIN,
        actor: str | None = None,
        batch: int | None = None,
        engine: str = "auto",
        report: Report = no_report,  # noqa: ARG002 - the work is done elsewhere
    ) -> EmbedResult:
        """Fills the vectors of a type that are missing, or `all` of them, with one commit for each `batch` of rows.

        If it is interrupted, the same call goes on where it was.
        """
        refuse_actor(actor)
        body = {"type": type, "property": property, "all": all, "branch": branch, "batch": batch}
        return decoded(EmbedResult, self._door.post("embed", body={**body, "engine": known_engine(engine)}))

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        actor: str | None = None,
        strategy: str | None = None,
        cells: bool = False,
        dry_run: bool = False,
        delete_branch: bool = False,
    ) -> MergeResult:
        """Merges a branch into another as one commit with two parents; raises `MergeConflicts` with all of them.

        With a strategy, `ours` (the branch merged into) or `theirs` wins where both changed an entity. With `cells`,
        two sides that changed different properties of one entity are merged. A dry run only says what would happen.
        """
        refuse_actor(actor)
        if strategy not in (None, "ours", "theirs"):
            raise UsageError(f"a merge strategy is ours or theirs, not {strategy!r}")
        body = {
            "source": source,
            "into": into,
            "strategy": strategy,
            "cells": cells,
            "dry_run": dry_run,
            "delete_branch": delete_branch,
        }
        return decoded(MergeResult, self._door.post("branches", "merge", body=body))


def _source(source: str | Path) -> tuple[str, dict[str, str]]:
    """The text of queries, and what it is called here."""
    return (source, {}) if isinstance(source, str) else (text_of(source, QUERY), {_SENT: str(source)})


def _analysis(table: pa.Table, commit_id: str, order: tuple[tuple[str, str], ...]) -> Analysis:
    """What an analysis found, whose summary is in the metadata of the table."""
    rest = (table.schema.metadata or {}).get(_SUMMARY)
    if rest is None:
        raise Unavailable("the server answered with something that is no Analysis; is it of another version?")
    document = json.loads(rest)
    return Analysis(
        table=table.replace_schema_metadata(None),
        commit_id=commit_id,
        to_frame=to_frame,
        algorithm=document["algorithm"],
        summary=document["summary"],
        order=order,
        written=None if document["written"] is None else decoded(Commit, document["written"]),
    )
