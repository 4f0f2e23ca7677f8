"""The schema of a graph: shown, compared, planned and changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from omnigraph.api.base import MAIN
from omnigraph.api.history import Commit
from omnigraph.api.schema import (
    SchemaApplyRequest,
    SchemaCatchUpRequest,
    SchemaDiffRequest,
    SchemaPlanRequest,
    SchemaShowRequest,
)
from omnigraph.branching.finding import commit_at
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Source
from omnigraph.evolution.apply import (
    SchemaApplyResult,
    SchemaTarget,
    apply_reasons,
    apply_schema,
    new_schema,
    schema_of_main,
    schema_plan,
)
from omnigraph.evolution.migration import MigrationPlan, plan_between
from omnigraph.evolution.purge import NOTHING, Doomed, check_not_needed, doomed_tables, purge
from omnigraph.evolution.rules import with_violations
from omnigraph.failpoints import Writer
from omnigraph.maintenance.optimize import MAINTENANCE_ACTOR, optimize
from omnigraph.parts.engine import Engine
from omnigraph.policy import Action
from omnigraph.queries import breaking_queries
from omnigraph.recovery import Mode as RecoveryMode
from omnigraph.recovery import recover
from omnigraph.session.callable_queries import callable_texts
from omnigraph.session.engines import choose_engine, start_engine
from omnigraph.session.session import Session
from omnigraph.session.writes import WriteOrder
from omnigraph.versioning.query_sets import QUERIES
from omnigraph.versioning.schemas import AcceptedSchema
from omnigraph.write import WriteAttempt, WriteFence
from omnigraph.write.fence import EXISTENCE
from omnigraph.write.retention import holding_schema


def show(session: Session, request: SchemaShowRequest) -> AcceptedSchema:
    if isinstance(request.at, str):
        commit = commit_at(session.branches, request.at)
        session.guard.check_named(Action.READ, request.at)
    else:
        snapshot, branch = session.locate(request.at)
        session.guard.check(Action.READ, branch)
        commit = snapshot.commit
    return session.branches.schemas.get(commit.schema_id)


def plan(session: Session, request: SchemaPlanRequest) -> MigrationPlan:
    snapshot, _ = session.locate(request.branch)
    session.guard.check_types(Action.READ, snapshot, request.branch, None)
    planned = with_violations(snapshot, schema_plan(snapshot, new_schema(request.new)))
    if planned.refused:
        return planned
    texts = callable_texts(session, snapshot, request.branch)
    return replace(planned, broken_queries=breaking_queries(texts, snapshot.catalog, planned.catalog))


def diff(session: Session, request: SchemaDiffRequest) -> MigrationPlan:
    before, after = (show(session, SchemaShowRequest(each)) for each in (request.left, request.right))
    return plan_between(before.catalog, after.catalog, Source(f"schema {after.number}", after.text))


def apply(session: Session, request: SchemaApplyRequest) -> SchemaApplyResult:
    target = new_schema(request.new, allow_data_loss=request.allow_data_loss)
    return _apply(session, target, request, MAIN, if_commit=request.if_commit)


def catch_up(session: Session, request: SchemaCatchUpRequest) -> SchemaApplyResult:
    return _apply(session, schema_of_main(session.branches), request, request.branch)


@dataclass(slots=True)
class _Applying:
    """One change of a schema: the schema to come, and what is removed from the history with it."""

    target: SchemaTarget
    doomed: Doomed = NOTHING


def _apply(
    session: Session,
    target: SchemaTarget,
    request: SchemaApplyRequest | SchemaCatchUpRequest,
    branch: str,
    *,
    if_commit: str | None = None,
) -> SchemaApplyResult:
    """Changes a schema. No other process writes to the branch meanwhile, so all of its rows are checked and written."""

    def reasons() -> Iterator[str]:
        head = session.head(branch)
        return apply_reasons(head, schema_plan(head, target))

    choice = choose_engine(request.engine, reasons)
    with holding_schema(session.branches, "schema apply") as held:
        recover(session.location, session.branches, RecoveryMode.FULL, patient=True)
        # The one to catch up with may have been replaced before the lock was ours.
        applying = _Applying(target if target.accepted is None else schema_of_main(session.branches))
        order = WriteOrder(
            kind=Writer.SCHEMA_APPLY,
            branch=branch,
            actor=session.guard.actor,
            message=request.message or ("schema apply" if target.accepted is None else "schema catch-up"),
            if_commit=if_commit,
            relies_on=(QUERIES,),
            tables=(EXISTENCE, *session.branches.log(branch).head().pins),
        )

        def run(attempt: WriteAttempt) -> SchemaApplyResult:
            attempt.fence.watch_all(held)
            if applying.target.allow_data_loss:
                applying.doomed = doomed_tables(attempt.base, schema_plan(attempt.base, applying.target))
                check_not_needed(session.branches, applying.doomed)
            engine = start_engine(choice, request.report)
            allowed = request.allow_broken_queries
            return apply_schema(attempt, session.branches, applying.target, engine, allow_broken_queries=allowed)

        result = session.write(order, run)
        if result.commit is None or not applying.doomed.roots:
            return result
        with _noting(result.commit):
            # On a store, a branch may have begun at the head before this commit, without a lock.
            check_not_needed(session.branches, applying.doomed)
            _purge(session, applying.doomed, order, held, start_engine(choice, request.report))
        return replace(result, purged=applying.doomed.keys)


def _purge(session: Session, doomed: Doomed, order: WriteOrder, held: WriteFence, engine: Engine) -> None:
    """Removes what a schema has dropped from the history; its tables are rewritten without it before."""

    def run(attempt: WriteAttempt) -> None:
        attempt.fence.watch_all(held)
        optimize(attempt, engine, only=doomed.reduced)

    if doomed.reduced:
        rewriting = WriteOrder(
            kind=Writer.OPTIMIZE,
            branch=order.branch,
            actor=order.actor or MAINTENANCE_ACTOR,
            message=Writer.OPTIMIZE.value,
        )
        session.write(rewriting, run)
    purge(session.branches, doomed)
    # What was read of it may not be read again from memory.
    session.table_cache.clear()
    session.adjacency.clear()


@contextmanager
def _noting(commit: Commit) -> Iterator[None]:
    """An error in this block says that the schema was applied nevertheless."""
    try:
        yield
    except BaseException as error:
        error.add_note(
            f"the schema was applied, as commit {commit.graph_commit_id}; dropped values stay in the history"
        )
        error.add_note("to remove that too, run `omnigraph optimize` and then `omnigraph cleanup --keep 1`")
        raise
