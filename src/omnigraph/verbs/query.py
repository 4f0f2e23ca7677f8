"""Queries that read, single entities, and how a query would be answered."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omnigraph.api.base import MAIN
from omnigraph.api.data import EntityRequest, ExplainRequest, QueryRequest, QueryResult
from omnigraph.api.words import AUTO, SPARK
from omnigraph.dataclass_later import dataclass
from omnigraph.errors import NotFound, StorageError, UsageError
from omnigraph.policy import Action
from omnigraph.query import Cancellation, cancellation_of
from omnigraph.query.reading import (
    MemoryResult,
    merge_in_memory,
    plan_query,
    read,
    read_at_once,
    read_in_memory,
)
from omnigraph.resident.view import ResidentView
from omnigraph.session.engines import answer_on_spark, to_frame
from omnigraph.session.queries import PreparedQuery
from omnigraph.session.session import Session
from omnigraph.source_files import text_of
from omnigraph.storage.predicates import among
from omnigraph.syntax import QUERY
from omnigraph.versioning import Snapshot


def query(session: Session, request: QueryRequest) -> QueryResult:
    """Answers a query from one state of the graph, in this process or on Spark."""
    stop = cancellation_of(request.timeout, request.cancellation)
    at, branch = session.locate(request.snapshot, request.branch)
    prepared = _prepare(session, request.source, request.name, at, branch)
    return _answer(session, prepared, request.params or {}, at, stop, engine=request.engine)


@dataclass(frozen=True, slots=True)
class PreparedRead:
    """A query that was checked, and can be run again and again. Threads may share it."""

    session: Session
    source: str
    name: str | None
    branch: str

    def run(self, params: Mapping[str, Any] | None = None, *, timeout: float | None = None) -> QueryResult:
        """The rows of the query at the newest commit of its branch."""
        session, branch = self.session, self.branch
        stop = cancellation_of(timeout, None)
        at = session.head(branch)
        return _answer(session, _prepare(session, self.source, self.name, at, branch), params or {}, at, stop)

    def explain(self, params: Mapping[str, Any] | None = None) -> str:
        """How the query would be answered."""
        return explain(self.session, ExplainRequest(self.source, self.name, params=params, branch=self.branch))


def prepare_read(session: Session, source: str | Path, name: str | None, branch: str) -> PreparedRead:
    """Checks a query that reads, at the newest commit of a branch."""
    text = source if isinstance(source, str) else text_of(source, QUERY)
    compiled = _prepare(session, text, name, session.head(branch), branch).compiled
    if compiled.is_mutation:
        raise UsageError(f"{compiled.title} writes; run it with mutate")
    return PreparedRead(session, text, name, branch)


def _answer(
    session: Session,
    prepared: PreparedQuery,
    parameters: Mapping[str, Any],
    at: Snapshot,
    stop: Cancellation,
    *,
    engine: str = AUTO,
) -> QueryResult:
    """Answers a query from one state, from memory if that is possible."""
    try:
        if engine != SPARK:
            from_memory = _answer_union_from_memory if prepared.parts else _answer_from_memory
            answer = from_memory(session, prepared, parameters, at, stop)
            if answer is not None:
                return answer
        choice, plan = plan_query(prepared.compiled, parameters, at, engine)
        if choice.engine == SPARK:
            return answer_on_spark(choice, plan, at, stop)
        return read(plan, at, session.adjacency, to_frame=to_frame, cancellation=stop)
    except (NotFound, StorageError) as error:
        session.branches.raise_removal(error, at)
        raise


def _answer_from_memory(
    session: Session,
    prepared: PreparedQuery,
    parameters: Mapping[str, Any],
    at: Snapshot,
    stop: Cancellation,
    *,
    now: datetime | None = None,
) -> QueryResult | None:
    """The answer of a read from memory; None if it must be answered in another way."""
    if prepared.program is None:
        return None
    return read_in_memory(
        prepared.compiled,
        prepared.program,
        parameters,
        at,
        session.resident,
        to_frame=to_frame,
        cancellation=stop,
        now=now,
    )


def _answer_union_from_memory(
    session: Session, prepared: PreparedQuery, parameters: Mapping[str, Any], at: Snapshot, stop: Cancellation
) -> QueryResult | None:
    """The answer of a union from memory; None if one of its parts must be answered in another way."""
    now = datetime.now(UTC)
    if any(part.program is None for part in prepared.parts):
        return None
    tables, held_before = [], stop.held_bytes
    for part in prepared.parts:
        answer = _answer_from_memory(session, part, parameters, at, stop, now=now)
        if answer is None:
            stop.release_to(held_before)
            return None
        tables.append(answer.table)
    return merge_in_memory(prepared.compiled, tables, parameters, at, to_frame=to_frame, cancellation=stop)


@dataclass(frozen=True, slots=True)
class StateAtHand:
    """The head of `main`, and what of it is in memory."""

    at: Snapshot
    view: ResidentView


def state_at_hand(session: Session) -> StateAtHand | None:
    """The newest state, if it is known without the network and tables of it are in memory."""
    at = session.branches.snapshot_at_once(session.table_cache)
    view = None if at is None else session.resident.view_at_once(at)
    return None if at is None or view is None else StateAtHand(at, view)


def query_at_once(
    session: Session, state: StateAtHand, source: str, name: str | None, params: Mapping[str, Any]
) -> MemoryResult | None:
    """The answer of a short query, found without waiting for anything; None if `query` must answer.

    That is the case unless the tables and columns are in memory, the query was compiled before, and it reads no more
    than a small bound. An error is that of `query`.
    """
    at = state.at
    session.guard.check(Action.READ, MAIN)
    prepared = session.queries.find(source, name, at)
    if prepared is None or prepared.program is None or not prepared.is_bounded:
        return None
    session.guard.check_newest_tables(Action.READ, at, prepared.compiled.access.asks)
    return _read_at_once(session, state, prepared, params)


def call_at_once(session: Session, state: StateAtHand, name: str, params: Mapping[str, Any]) -> MemoryResult | None:
    """The same for a stored query that the actor may invoke. All others are called in the usual way."""
    at = state.at
    stored = session.branches.query_sets.get_if_read(at.commit.queries_id)
    text = None if stored is None else stored.texts.get(name)
    prepared = None if text is None else session.queries.find(text, name, at)
    if prepared is None or not session.guard.guard.allows_call(MAIN, name, prepared.compiled.tags):
        return None
    return _read_at_once(session, state, prepared, params)


def _read_at_once(
    session: Session, state: StateAtHand, prepared: PreparedQuery, params: Mapping[str, Any]
) -> MemoryResult | None:
    if prepared.program is None or not prepared.is_bounded:
        return None
    answer = read_at_once(prepared.compiled, prepared.program, params, state.at, state.view, to_frame=to_frame)
    if answer is not None:
        session.resident.count_answer(prepared.program.tables)
    return answer


def explain(session: Session, request: ExplainRequest) -> str:
    """The engine that would answer a query, and its plan."""
    at = session.head(request.branch)
    prepared = _prepare(session, request.source, request.name, at, request.branch)
    choice, plan = plan_query(prepared.compiled, request.params or {}, at, request.engine)
    text = f"{choice}\n{plan.explain(at)}"
    programs = [each.program for each in prepared.parts or (prepared,) if each.program is not None]
    is_complete = len(programs) == len(prepared.parts or (prepared,))
    if not is_complete or choice.engine == SPARK:
        return text
    if not all(session.resident.may_hold(at, program.tables) for program in programs):
        return text
    lines = [f"  {line}" for program in programs for line in program.explain()]
    return "\n".join([text, "executor: memory", *lines])


def _prepare(session: Session, source: str | Path, name: str | None, at: Snapshot, branch: str) -> PreparedQuery:
    """A query that may be asked. The branch comes first: mistakes in the text tell of the schema."""
    session.guard.check(Action.READ, branch)
    prepared = session.queries.prepare(source, name, at)
    session.guard.check_tables(Action.READ, at, branch, prepared.compiled.access.asks)
    return prepared


def entity(session: Session, request: EntityRequest) -> dict[str, Any] | None:
    """One row of a table, by its id."""
    at, branch = session.locate(request.at)
    session.guard.check_types(Action.READ, at, branch, [request.type])
    found = at.catalog.existing_entity(request.type)
    with session.branches.noticing_removal(at):
        rows: list[dict[str, Any]] = at.table(found.table_key).scan(filter=among("id", [request.id])).to_pylist()
    return rows[0] if rows else None
