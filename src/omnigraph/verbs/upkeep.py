"""The health of a graph: status, verify, cleanup, indexes, optimize, repair and recoveries."""

from dataclasses import replace
from datetime import timedelta

from omnigraph.api import upkeep
from omnigraph.errors import RecoveryFailed
from omnigraph.failpoints import Writer
from omnigraph.maintenance.cleanup import cleanup as run_cleanup
from omnigraph.maintenance.indexes import build_missing_indexes, index_reasons, index_statuses
from omnigraph.maintenance.optimize import MAINTENANCE_ACTOR, maintenance_concurrency, optimize_reasons
from omnigraph.maintenance.optimize import optimize as run_optimize
from omnigraph.maintenance.repair import RepairOrder
from omnigraph.maintenance.repair import repair as run_repair
from omnigraph.maintenance.retention import RetentionPolicy, age
from omnigraph.maintenance.status import advice_on, status_of
from omnigraph.maintenance.verify import verify_graph
from omnigraph.recovery import Recoveries
from omnigraph.session.engines import choose_engine, start_engine
from omnigraph.session.session import Session
from omnigraph.session.writes import WriteOrder
from omnigraph.write.sidecar import Sidecar


def status(session: Session, request: upkeep.StatusRequest) -> upkeep.Status:
    """The health of the graph, of the types that may be read."""
    found = status_of(session.location, session.branches, session.branches.log(request.branch))
    hidden = session.guard.hidden_tables(session.head(request.branch), request.branch)
    found, memory = found.without(hidden), session.resident.status()
    shown = {key: size for key, size in memory.tables.items() if key not in hidden}
    return replace(found, advice=advice_on(found), memory=replace(memory, tables=shown))


def verify(session: Session, request: upkeep.VerifyRequest) -> upkeep.VerifyResult:
    return verify_graph(session.location, session.branches, data=request.data, report=request.report)


def cleanup(session: Session, request: upkeep.CleanupRequest) -> upkeep.CleanupResult:
    grace = _age(request.grace)
    assert grace is not None
    policy = RetentionPolicy(keep=request.keep, older_than=_age(request.older_than), grace=grace)
    return run_cleanup(session.location, session.branches, policy, confirm=request.confirm, report=request.report)


def _age(given: timedelta | str | None) -> timedelta | None:
    return age(given) if isinstance(given, str) else given


def list_indexes(session: Session, request: upkeep.IndexListRequest) -> list[upkeep.IndexStatus]:
    """The indexes of the types that may be read."""
    head = session.head(request.branch)
    hidden = session.guard.hidden_tables(head, request.branch)
    return [each for each in index_statuses(head) if each.table_key not in hidden]


def build_indexes(session: Session, request: upkeep.IndexBuildRequest) -> upkeep.IndexBuild:
    """Builds indexes beside other writers; if these changed a table meanwhile, again while it holds the tables."""
    choice = choose_engine(request.engine, lambda: index_reasons(session.head(request.branch)))
    engine = start_engine(choice, request.report)
    order = WriteOrder(
        kind=Writer.ENSURE_INDICES,
        branch=request.branch,
        actor=session.guard.actor,
        message=request.message or "indexes",
    )
    tables = session.head(request.branch).manifest.pins
    return session.write_persistent(order, lambda attempt: build_missing_indexes(attempt, engine), tables)


def optimize(session: Session, request: upkeep.OptimizeRequest) -> upkeep.OptimizeResult:
    """Optimizes as one commit, by the system unless an actor is given."""
    choice = choose_engine(request.engine, lambda: optimize_reasons(session.head(request.branch)))
    engine = start_engine(choice, request.report, threads=maintenance_concurrency())
    order = WriteOrder(
        kind=Writer.OPTIMIZE,
        branch=request.branch,
        actor=session.guard.actor or MAINTENANCE_ACTOR,
        message=request.message or Writer.OPTIMIZE.value,
    )
    return session.write(order, lambda attempt: run_optimize(attempt, engine))


def repair(session: Session, request: upkeep.RepairRequest) -> upkeep.RepairResult:
    if request.confirm:
        session.writes.heal(patient=True)
    order = RepairOrder(confirm=request.confirm, force=request.force, actor=session.guard.actor)
    result = run_repair(session.location, session.branches.log(request.branch), order)
    return result.without_ids(session.guard.hidden_tables(session.head(request.branch), request.branch))


def list_recoveries(session: Session, request: upkeep.RecoveryListRequest) -> list[upkeep.Recovery]:  # noqa: ARG001 - all
    return Recoveries(session.location).list()


def pending_writes(
    session: Session,
    request: upkeep.RecoveryPendingRequest,  # noqa: ARG001 - it asks for all
) -> list[Sidecar | RecoveryFailed]:
    return Recoveries(session.location).pending()


def show_recovery(session: Session, request: upkeep.RecoveryShowRequest) -> upkeep.Recovery:
    return Recoveries(session.location).show(request.id)
