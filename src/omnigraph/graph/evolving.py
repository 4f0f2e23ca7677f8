"""A graph whose schema changes, with its data."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from omnigraph.evolution.apply import SchemaApplyResult, apply_reasons, apply_schema
from omnigraph.evolution.plan import SchemaTarget, schema_of_main, schema_plan
from omnigraph.evolution.purge import NOTHING, Doomed, check_not_needed, doomed_tables, purge
from omnigraph.failpoints import Writer
from omnigraph.graph.engines import engine_of
from omnigraph.graph.handles import ApplyOptions, Schema, check_writable
from omnigraph.graph.opened import OpenGraph
from omnigraph.graph.writes import WriteRequest
from omnigraph.maintenance.optimize import MAINTENANCE_ACTOR, optimize
from omnigraph.parts.choice import chosen
from omnigraph.parts.engine import Engine
from omnigraph.recovery import Mode as RecoveryMode
from omnigraph.recovery import recover
from omnigraph.versioning import Commit
from omnigraph.write import WriteAttempt, WriteFence
from omnigraph.write.fence import EXISTENCE
from omnigraph.write.schema_lock import holding_schema


@dataclass(slots=True)
class _Applying:
    """One change of a schema: what it is to be, and what goes from the history with it."""

    target: SchemaTarget
    doomed: Doomed = NOTHING


class EvolvingGraph(OpenGraph):
    """A graph with the verbs of its schema."""

    @property
    def schema(self) -> Schema:
        """The schema."""
        return Schema(self._branches, self._located, self._apply_schema, self._guard)

    def _apply_schema(self, target: SchemaTarget, branch: str, options: ApplyOptions) -> SchemaApplyResult:
        """Changes a schema. Nobody else writes to the branch meanwhile, so what is checked and written is all of it."""
        check_writable(self._mode)
        choice = chosen(options.engine, lambda: apply_reasons(self._head(branch), target))
        with holding_schema(self._branches, "schema apply") as held:
            recover(self._location, self._branches, RecoveryMode.FULL, patient=True)
            # The one to catch up with may have been replaced before the lock was ours.
            applying = _Applying(target if target.accepted is None else schema_of_main(self._branches))
            request = WriteRequest(
                kind=Writer.SCHEMA_APPLY,
                branch=branch,
                actor=options.actor,
                message="schema apply" if target.accepted is None else "schema catch-up",
                if_commit=options.if_commit,
                tables=(EXISTENCE, *self._branches.log(branch).head().pins),
            )

            def run(attempt: WriteAttempt) -> SchemaApplyResult:
                attempt.fence.watch_all(held)
                if applying.target.allow_data_loss:
                    applying.doomed = doomed_tables(attempt.base, schema_plan(attempt.base, applying.target))
                    check_not_needed(self._branches, applying.doomed)
                return apply_schema(attempt, self._branches, applying.target, engine_of(choice, options.report))

            result = self._write(request, run)
            if result.commit is None or not applying.doomed.roots:
                return result
            with _told(result.commit):
                self._purge(applying.doomed, request, held, engine_of(choice, options.report))
            return replace(result, purged=applying.doomed.keys)

    def _purge(self, doomed: Doomed, request: WriteRequest, held: WriteFence, engine: Engine) -> None:
        """Removes what a schema has dropped from the history; its tables are written anew without it before."""

        def run(attempt: WriteAttempt) -> None:
            attempt.fence.watch_all(held)
            optimize(attempt, engine, only=doomed.reduced)

        if doomed.reduced:
            order = WriteRequest(
                kind=Writer.OPTIMIZE,
                branch=request.branch,
                actor=request.actor or MAINTENANCE_ACTOR,
                message=Writer.OPTIMIZE.value,
            )
            self._write(order, run)
        purge(self._branches, doomed)
        # What was read of it may not be read again from memory.
        self._opened.clear()
        self._adjacency.clear()


@contextmanager
def _told(commit: Commit) -> Iterator[None]:
    """An error in this block says that the schema is there nevertheless."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"the schema was applied, as commit {commit.graph_commit_id}; the history has what it dropped")
        error.add_note("to remove that too, run `omnigraph optimize` and then `omnigraph cleanup --keep 1`")
        raise
