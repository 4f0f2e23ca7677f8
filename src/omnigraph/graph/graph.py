"""The façade: one thin object, one method a verb."""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from omnigraph.analytics.analysis import Analysis, analyze, requested, write_back
from omnigraph.branching.branches import begun, delete
from omnigraph.changes.diff import Change, diff_snapshots
from omnigraph.changes.feed import ChangeBlock, blocks_after
from omnigraph.diagnostics import any_of
from omnigraph.errors import BranchInUse, NotFound, PreconditionFailed, UsageError
from omnigraph.exporting.export import ExportOptions, export_files, exported_lines, reasons_for_spark, target_of
from omnigraph.exporting.export import explained as explained_export
from omnigraph.exporting.tasks import Format
from omnigraph.failpoints import Writer
from omnigraph.graph.engines import answer_on_spark, engine_of, to_frame
from omnigraph.graph.handles import At, check_writable
from omnigraph.graph.maintained import MaintainedGraph
from omnigraph.graph.writes import WriteRequest
from omnigraph.loading.inputs import load_input
from omnigraph.loading.load import LoadMode, LoadResult, load, load_mode
from omnigraph.loading.load import explained as explained_load
from omnigraph.merging.merge import MergeOptions, MergeResult, merge
from omnigraph.merging.three_way import Strategy
from omnigraph.parts.choice import SPARK, chosen
from omnigraph.parts.engine import Report, no_report
from omnigraph.policy import Action
from omnigraph.query import Cancellation, cancellation_of
from omnigraph.query.reading import QueryResult, planned, read
from omnigraph.storage import among
from omnigraph.verbs.embed import EmbedJob, EmbedResult, embed, embed_reasons, targets_of
from omnigraph.verbs.mutate import MutationResult, mutate
from omnigraph.versioning import MAIN, Manifest, Snapshot
from omnigraph.write import WriteAttempt

_logger = logging.getLogger(__name__)


class Graph(MaintainedGraph):
    """A graph. Reads see one commit, whole; writes become one commit, or nothing."""

    # --- reading ---

    def entity(self, type: str, id: str, at: Snapshot | str | int | datetime | None = None) -> dict[str, Any] | None:
        """One entity with its properties, now or at a snapshot, commit, version or time; None if it is not there."""
        snapshot, branch = self._located(at)
        self._guard.check_types(Action.READ, snapshot, branch, [type])
        entity = snapshot.catalog.entity(type)
        if entity is None:
            raise NotFound("type", type)
        if not isinstance(id, str):
            raise UsageError(f"an id is a text, not {id!r}")
        with self._branches.noticing_removal(snapshot):
            rows: list[dict[str, Any]] = snapshot.table(entity.table_key).scan(filter=among("id", [id])).to_pylist()
        return rows[0] if rows else None

    def query(
        self,
        source: str | Path,
        name: str | None = None,
        params: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN,
        snapshot: Snapshot | str | int | datetime | None = None,
        engine: str = "auto",
        timeout: float | None = None,
        cancellation: Cancellation | None = None,
    ) -> QueryResult:
        """Runs a query that reads: on the head of a branch, or on a snapshot, commit, version or time.

        It is stopped, with `QueryTimedOut` or `QueryCancelled`, when it takes more than `timeout` seconds, and when
        another thread cancels it.
        """
        stop = cancellation_of(timeout, cancellation)
        at, named = self._located(snapshot, branch)
        query = self._asked(source, name, at, named)
        with self._branches.noticing_removal(at):
            choice, plan = planned(query, params or {}, at, engine)
            if choice.engine == SPARK:
                return answer_on_spark(choice, plan, at, stop)
            return read(plan, at, self._adjacency, to_frame=to_frame, cancellation=stop)

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
        at = self._head(branch)
        choice, plan = planned(self._asked(source, name, at, branch), params or {}, at, engine)
        return f"{choice}\n{plan.explain(at)}"

    def export(
        self,
        path: str | Path | None = None,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        format: str = "jsonl",
        *,
        snapshot: Snapshot | str | int | datetime | None = None,
        ordered: bool = False,
        engine: str = "auto",
        report: Report | None = None,
    ) -> Iterator[str] | int:
        """The head of a branch, or a snapshot, as files; returns how many records were written.

        Without a path these are the lines of NDJSON. With one, NDJSON is a file, or a folder of files if the path ends
        in a slash or is a folder; CSV and Parquet are folders of files by type.
        """
        if format not in list(Format):
            raise UsageError(f"an export is {any_of(list(Format))}, not {format!r}")
        named = [types] if isinstance(types, str) else types
        at = self._exported(snapshot, branch, named)
        if path is None:
            if format != Format.JSONL:
                raise UsageError(f"an export as {format} is a folder of files, so it needs a path")
            return self._noticed(exported_lines(at, named, ordered=ordered), at)
        target = target_of(path, Format(format))
        options = ExportOptions(types=named, format=Format(format), ordered=ordered)
        told = report or no_report
        with self._branches.noticing_removal(at):
            choice = chosen(engine, lambda: reasons_for_spark(at, options))
            return export_files(at, target, options, engine_of(choice, told), told)

    def explain_export(
        self,
        branch: str = MAIN,
        types: Collection[str] | None = None,
        *,
        snapshot: Snapshot | str | int | datetime | None = None,
        ordered: bool = False,
        engine: str = "auto",
    ) -> str:
        """How an export to files would be done, and where."""
        options = ExportOptions(types=[types] if isinstance(types, str) else types, ordered=ordered)
        at = self._exported(snapshot, branch, options.types)
        return explained_export(at, options, chosen(engine, lambda: reasons_for_spark(at, options)))

    def _exported(self, snapshot: At, branch: str, types: Collection[str] | None) -> Snapshot:
        """The state to export, once it is known that all that is asked for may be read and taken away."""
        at, named = self._located(snapshot, branch)
        for action in (Action.EXPORT, Action.READ):
            self._guard.check_types(action, at, named, types)
        return at

    def diff(
        self, left: Snapshot | str | int, right: Snapshot | str | int, types: Collection[str] | None = None
    ) -> Iterator[Change]:
        """What leads from one state to another; each is named by a branch, a commit or a version of `main`."""
        names = [types] if isinstance(types, str) else types
        (before, _), (after, _) = sides = self._located(left), self._located(right)
        for snapshot, branch in sides:
            self._guard.check_types(Action.READ, snapshot, branch, names)
        return self._noticed(diff_snapshots(before, after, names), before, after)

    def changes(
        self, cursor: str | None = None, branch: str = MAIN, types: Collection[str] | None = None
    ) -> Iterator[ChangeBlock]:
        """The commits of a branch after a cursor, in order, each with what it changed and the cursor to go on from."""
        names = [types] if isinstance(types, str) else types

        def checked(manifest: Manifest) -> Snapshot:
            snapshot = self._snapshot(manifest)
            self._guard.check_types(Action.READ, snapshot, branch, names)
            return snapshot

        log = self._branches.log(branch)
        checked(log.head())
        return blocks_after(log, checked, cursor, names)

    def analyze(
        self,
        algorithm: str,
        *,
        edges: Sequence[str] | str | None = None,
        nodes: Sequence[str] | str | None = None,
        branch: str = MAIN,
        snapshot: Snapshot | str | int | datetime | None = None,
        write: Mapping[str, str] | None = None,
        from_: str | None = None,
        actor: str | None = None,
        engine: str = "auto",
        report: Report = no_report,
        **parameters: Any,
    ) -> Analysis:
        """Analyses the head of a branch, or a snapshot; `write` makes columns of the result properties, as one commit.

        The commit is on `branch`, which with `from_` is created there first if it does not exist.
        """
        if write:
            check_writable(self._mode)
        elif from_ is not None or actor is not None:
            raise UsageError("a branch is begun, and an actor named, only for what is written")

        guard = self._guard.acting_as(actor)

        def run(head: Snapshot) -> Analysis:
            at, named = (head, branch) if snapshot is None else self._located(snapshot)
            if write and at.commit.schema_id != head.commit.schema_id:
                raise UsageError("what is written back is analysed under the schema that the branch has")
            guard.check(Action.READ, named)
            request = requested(at.catalog, algorithm, parameters, nodes=nodes, edges=edges, write=write, engine=engine)
            guard.check_tables(Action.READ, at, named, request.reads)
            if write:
                guard.check_tables(Action.CHANGE, head, branch, request.tables)
            with self._branches.noticing_removal(at):
                found = replace(analyze(at, request, report), to_frame=to_frame)
            if not write:
                return found
            order = WriteRequest(
                kind=Writer.LOAD,
                branch=branch,
                actor=guard.actor,
                message=f"analyze {algorithm}",
                tables=request.tables,
                schema_id=head.commit.schema_id,
            )
            return self._write(order, lambda attempt: write_back(attempt, found, request.write, report))

        guard.check_begun(branch, from_)
        with begun(self._location, self._branches, branch, from_):
            return self._prepared(branch, run)

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
        check_writable(self._mode)
        guard = self._guard.acting_as(actor)

        def run(head: Snapshot) -> MutationResult:
            guard.check(Action.CHANGE, branch)
            query = self._queries.compiled(source, name, head)
            guard.check_tables(Action.CHANGE, head, branch, query.access.writes)
            if query.access.asks:
                guard.check_tables(Action.READ, head, branch, query.access.asks)
            request = WriteRequest(
                kind=Writer.MUTATE,
                branch=branch,
                actor=guard.actor,
                message=query.name,
                if_commit=if_commit,
                tables=query.access.writes,
                schema_id=head.commit.schema_id,
            )
            return self._write(request, lambda attempt: mutate(attempt, query, params or {}))

        return self._prepared(branch, run)

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

        With `from_`, the branch is created there first if it does not exist.
        """
        check_writable(self._mode)
        kind = load_mode(mode)
        guard = self._guard.acting_as(actor)

        def run(head: Snapshot) -> LoadResult:
            given = load_input(data, head.catalog, storage_options)
            choice = chosen(engine, given.reasons_for_spark)
            if given.frames and choice.engine != SPARK:
                raise UsageError("a Spark DataFrame is loaded on Spark; bring it here first, with `toArrow()`")
            running = engine_of(choice, report, given.frames[0][1] if given.frames else None)
            request = WriteRequest(
                kind=Writer.LOAD,
                branch=branch,
                actor=guard.actor,
                message=given.message,
                schema_id=head.commit.schema_id,
                allowed=guard.changing(branch),
            )
            return self._write_in_the_end(request, lambda attempt: load(attempt, given, kind, running, choice))

        guard.check_load(branch, from_)
        with begun(self._location, self._branches, branch, from_):
            return self._prepared(branch, run)

    def check_load(self, branch: str = MAIN, from_: str | None = None) -> None:
        """Raises `PolicyDenied` if nothing may be loaded into a branch, whatever it is, before any of it is sent."""
        check_writable(self._mode)
        self._guard.check_load(branch, from_)

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
        return explained_load(given, load_mode(mode), chosen(engine, given.reasons_for_spark))

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
        report: Report = no_report,
    ) -> EmbedResult:
        """Fills the vectors of a type that are missing, or `all` of them, with one commit for each `batch` of rows.

        If it is interrupted, the same call goes on where it was.
        """
        check_writable(self._mode)
        guard = self._guard.acting_as(actor)

        def run(head: Snapshot) -> EmbedResult:
            for action in (Action.CHANGE, Action.READ):
                guard.check_types(action, head, branch, [type])
            targets = targets_of(head.catalog, type, property, everything=all)
            choice = chosen(engine, lambda: embed_reasons(head, targets))
            job = EmbedJob(engine=lambda told: engine_of(choice, told), choice=choice, rows=batch, report=report)
            request = WriteRequest(
                kind=Writer.EMBED, branch=branch, actor=guard.actor, message="embed", schema_id=head.commit.schema_id
            )
            return embed(job, targets, self._write, request)

        return self._prepared(branch, run)

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
        if strategy not in (None, "ours", "theirs"):
            raise UsageError(f"a merge strategy is ours or theirs, not {strategy!r}")
        if source == into:
            raise UsageError(f"branch `{source}` cannot be merged into itself")
        options = MergeOptions(strategy=cast("Strategy | None", strategy), cells=cells, dry_run=dry_run)

        def run(attempt: WriteAttempt) -> MergeResult:
            return merge(attempt, self._branches, source, options)

        guard = self._guard.acting_as(actor)
        guard.check(Action.BRANCH_MERGE, into)
        for side in (source, into):  # a conflict tells of both
            guard.check_types(Action.READ, self._head(side), side, None)
        if delete_branch:
            guard.check(Action.BRANCH_DELETE, source)
        request = WriteRequest(kind=Writer.MERGE, branch=into, actor=guard.actor, message=f"merge {source}")
        result = self._write_in_the_end(request, run)
        return self._without_branch(source, result) if delete_branch and not dry_run else result

    def _without_branch(self, source: str, result: MergeResult) -> MergeResult:
        """Deletes a merged branch; one that has gone on since the merge, or that another began on, stays."""
        try:
            delete(self._location, self._branches, source, if_commit=result.merged_commit_id)
        except (PreconditionFailed, BranchInUse) as error:
            _logger.warning("branch %s was merged, and stays: %s", source, error)
            return result
        return replace(result, branch_deleted=True)
