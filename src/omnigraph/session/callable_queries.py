"""Which stored queries an actor may call: those that it may invoke, and those whose texts it may send."""

from omnigraph.compiler import CompiledQuery
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import did_you_mean
from omnigraph.errors import NotFound, QueryError
from omnigraph.policy import Action
from omnigraph.session.session import Session
from omnigraph.versioning import Snapshot


@dataclass(frozen=True, slots=True)
class CallableQuery:
    """A stored query that an actor may call; `compiled` is None if it does not fit the schema."""

    text: str
    compiled: CompiledQuery | None
    may_invoke: bool


def find_callable(session: Session, name: str, at: Snapshot, branch: str) -> CallableQuery | None:
    """A stored query that the actor may invoke, or whose text they may send; None for any other."""
    text = session.branches.query_sets.get(at.commit.queries_id).texts.get(name)
    if text is None:
        return None
    try:
        compiled: CompiledQuery | None = session.queries.prepare(text, name, at).compiled
    except QueryError:
        compiled = None
    tags = () if compiled is None else compiled.tags
    if session.guard.guard.allows_call(branch, name, tags):
        return CallableQuery(text, compiled, may_invoke=True)
    if compiled is None:
        may_send = session.guard.guard.allows(Action.QUERY_STORE, branch)
    else:
        access = compiled.access
        may_send = session.guard.allows_tables(Action.READ, at, branch, access.asks)
        if compiled.is_mutation:
            may_send = may_send and session.guard.allows_tables(Action.CHANGE, at, branch, access.writes)
    return CallableQuery(text, compiled, may_invoke=False) if may_send else None


def callable_texts(session: Session, at: Snapshot, branch: str) -> dict[str, str]:
    """The stored queries that the actor may call, by name."""
    texts = session.branches.query_sets.get(at.commit.queries_id).texts
    return {name: text for name, text in texts.items() if find_callable(session, name, at, branch) is not None}


def unknown_query(session: Session, name: str, at: Snapshot, branch: str) -> NotFound:
    """The error for a query that does not exist, and for one that the actor may not call: they look the same."""
    known = callable_texts(session, at, branch).keys() - {name}
    return NotFound("query", name, did_you_mean(name, known))
