"""Mutations."""

from dataclasses import replace
from functools import partial

from omnigraph.api.data import MutateRequest, MutationResult
from omnigraph.failpoints import Writer
from omnigraph.mutating.matches import match_reader
from omnigraph.mutating.mutation import decide_mutation, is_probably_small, run_mutation
from omnigraph.policy import Action
from omnigraph.session.engines import to_frame
from omnigraph.session.session import Session
from omnigraph.session.writes import PreparedWrite, WriteOrder
from omnigraph.versioning import Snapshot


def mutate(session: Session, request: MutateRequest) -> MutationResult:
    """Compiles a mutation under the schema of the branch, and runs it as one commit."""

    def prepare(head: Snapshot) -> PreparedWrite[MutationResult]:
        prepared = session.queries.prepare(request.source, request.name, head)
        query = prepared.compiled
        session.guard.check_tables(Action.CHANGE, head, request.branch, query.access.writes)
        if query.access.asks:
            session.guard.check_tables(Action.READ, head, request.branch, query.access.asks)
        order = WriteOrder(
            kind=Writer.MUTATE,
            branch=request.branch,
            actor=session.guard.actor,
            message=request.message or query.name or request.verb,
            if_commit=request.if_commit,
            tables=query.access.writes,
            relies_on=query.access.matched,
            schema_id=head.commit.schema_id,
        )
        parameters = request.params or {}
        read = match_reader(prepared.matches, parameters, session.resident, lambda: session.adjacency)
        decide = partial(decide_mutation, query=query, parameters=parameters, read=read)
        return PreparedWrite(
            order,
            lambda attempt: run_mutation(attempt, query, parameters, read),
            small=decide if is_probably_small(query, prepared.matches, head) else None,
        )

    done = session.write_prepared(request.branch, prepare)
    return done if done.table is None else replace(done, to_frame=to_frame)
