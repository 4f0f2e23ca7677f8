"""Analyses of the graph as a whole."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from omnigraph.analytics.analysis import AnalysisPlan, choose_run, plan_analysis, run_analysis, write_back
from omnigraph.api.data import PARAMETERS_OF_ALGORITHMS, Analysis, AnalyzeRequest
from omnigraph.branching.creation import branch_for_write
from omnigraph.errors import UsageError
from omnigraph.failpoints import Writer
from omnigraph.policy import Action
from omnigraph.session.engines import start_engine, to_frame
from omnigraph.session.session import Session
from omnigraph.session.writes import PreparedWrite, WriteOrder
from omnigraph.versioning import Snapshot


def analyze(session: Session, request: AnalyzeRequest) -> Analysis:
    """Analyses one state, and with `write` makes columns of the result properties of the nodes, as one commit."""
    if not request.write:
        if request.from_ is not None or request.actor is not None or request.message is not None:
            raise UsageError("from, actor and message need write: they apply to a result that is written back")
        at, branch = session.locate(request.snapshot, request.branch)
        planned = _plan(session, request, at, branch)
        return _run(session, request, at, planned)

    def prepare(head: Snapshot) -> PreparedWrite[Analysis]:
        at, branch = (head, request.branch) if request.snapshot is None else session.locate(request.snapshot)
        if at.commit.schema_id != head.commit.schema_id:
            raise UsageError("cannot write back: the snapshot and the branch have different schemas")
        planned = _plan(session, request, at, branch)
        session.guard.check_tables(Action.CHANGE, head, request.branch, planned.tables)
        found = _run(session, request, at, planned)
        order = WriteOrder(
            kind=Writer.LOAD,
            branch=request.branch,
            actor=session.guard.actor,
            message=request.message or f"analyze {request.algorithm}",
            tables=planned.tables,
            schema_id=head.commit.schema_id,
        )
        return PreparedWrite(order, lambda attempt: write_back(attempt, found, planned.write, request.report))

    session.guard.check_begun(request.branch, request.from_)
    with branch_for_write(session.location, session.branches, request.branch, request.from_):
        return session.write_prepared(request.branch, prepare)


def _plan(session: Session, request: AnalyzeRequest, at: Snapshot, branch: str) -> AnalysisPlan:
    """What is asked for, checked against the schema and the policy before anything is computed."""
    session.guard.check(Action.READ, branch)
    parameters = {name: getattr(request, name) for name in PARAMETERS_OF_ALGORITHMS}
    planned = plan_analysis(
        at.catalog,
        request.algorithm,
        {name: value for name, value in parameters.items() if value is not None},
        nodes=_names(request.nodes),
        edges=_names(request.edges),
        write=request.write,
        engine=request.engine,
    )
    session.guard.check_tables(Action.READ, at, branch, planned.reads)
    return planned


def _run(session: Session, request: AnalyzeRequest, at: Snapshot, planned: AnalysisPlan) -> Analysis:
    with session.branches.noticing_removal(at):
        run = choose_run(at, planned, request.engine)
        start = partial(start_engine, run.choice) if run.in_blocks else None
        return replace(run_analysis(at, planned, request.report, start_engine=start), to_frame=to_frame)


def _names(types: Collection[str] | None) -> Sequence[str] | None:
    return None if types is None else [types] if isinstance(types, str) else [*types]
