"""Stored queries: kept, listed, removed, checked, and called by name."""

from collections.abc import Callable, Collection
from dataclasses import replace

from omnigraph.api.data import MutateRequest, MutationResult, QueryRequest, QueryResult
from omnigraph.api.queries import (
    CallRequest,
    QueriesReport,
    QueryAddRequest,
    QueryListRequest,
    QueryRemoveRequest,
    QueryShowRequest,
    QueryValidateRequest,
    StoredQueriesResult,
    StoredQuery,
)
from omnigraph.catalog import Catalog
from omnigraph.diagnostics import Diagnostic, Source, did_you_mean
from omnigraph.errors import NotFound, QueryError, QueryExists, UsageError
from omnigraph.failpoints import Writer
from omnigraph.queries.stored import broken_queries, check_stored, cut_queries, describe_query
from omnigraph.session.callable_queries import callable_texts, find_callable, unknown_query
from omnigraph.session.session import Session
from omnigraph.session.writes import PreparedWrite, WriteOrder
from omnigraph.source_files import query_sources
from omnigraph.verbs.mutate import mutate
from omnigraph.verbs.query import query
from omnigraph.versioning import Snapshot
from omnigraph.versioning.query_sets import QueriesUpdate, query_set
from omnigraph.write import WriteAttempt, write_changes
from omnigraph.write.groups import SmallWrite, TooLargeToCarry
from omnigraph.write.protocol import small_publication

_NAMED = 3
"""How many queries the message of a commit names."""


# --- kept and removed ---


def add(session: Session, request: QueryAddRequest) -> StoredQueriesResult:
    """Stores queries that fit the schema of the branch, as one commit."""
    sources = [*query_sources(request.queries)]

    def change(texts: dict[str, str], catalog: Catalog) -> StoredQueriesResult:
        given = _texts(sources, catalog)
        differing = [name for name, text in given.items() if texts.get(name, text) != text]
        if differing and not request.replace:
            raise QueryExists(sorted(differing))
        added = [name for name in given if name not in texts]
        unchanged = [name for name in given if texts.get(name) == given[name]]
        texts.update(given)
        check_stored(texts)
        return StoredQueriesResult(
            commit=None, added=tuple(added), replaced=tuple(differing), unchanged=tuple(unchanged)
        )

    return _change(session, request, "store", change)


def remove(session: Session, request: QueryRemoveRequest) -> StoredQueriesResult:
    """Removes stored queries from the branch, as one commit."""
    names = [request.names] if isinstance(request.names, str) else list(dict.fromkeys(request.names))

    def change(texts: dict[str, str], _catalog: Catalog) -> StoredQueriesResult:
        for name in names:
            if name not in texts:
                raise NotFound("query", name, did_you_mean(name, texts))
            del texts[name]
        return StoredQueriesResult(commit=None, removed=tuple(names))

    return _change(session, request, "remove", change)


def _change(
    session: Session,
    request: QueryAddRequest | QueryRemoveRequest,
    word: str,
    change: Callable[[dict[str, str], Catalog], StoredQueriesResult],
) -> StoredQueriesResult:
    """Publishes what `change` makes of the stored queries, if that is something else."""
    sets = session.branches.query_sets

    def decide(attempt: WriteAttempt) -> SmallWrite[StoredQueriesResult]:
        planned, continued = plan(attempt)
        if continued is None:
            return SmallWrite(None, lambda _: planned)
        publication = small_publication(continued, {})
        if publication is None:
            raise TooLargeToCarry
        return SmallWrite(publication, lambda commit: replace(planned, commit=commit))

    def run(attempt: WriteAttempt) -> StoredQueriesResult:
        planned, continued = plan(attempt)
        return planned if continued is None else replace(planned, commit=write_changes(continued, {}))

    def plan(attempt: WriteAttempt) -> tuple[StoredQueriesResult, WriteAttempt | None]:
        before = sets.get(attempt.base.commit.queries_id)
        texts = dict(before.texts)
        planned = change(texts, attempt.catalog)
        after = query_set(texts)
        if after.id == before.id:
            return planned, None
        sets.keep(after)
        touched = (*planned.added, *planned.replaced, *planned.removed)
        message = attempt.message or f"{word} {_list_names(touched)}"
        return planned, replace(attempt, queries=QueriesUpdate(before.id, after.id), message=message)

    def prepare(head: Snapshot) -> PreparedWrite[StoredQueriesResult]:
        order = WriteOrder(
            kind=Writer.MUTATE,
            branch=request.branch,
            actor=session.guard.actor,
            message=request.message or "",
            if_commit=request.if_commit,
            schema_id=head.commit.schema_id,
        )
        return PreparedWrite(order, run, small=decide)

    return session.write_prepared(request.branch, prepare)


def _list_names(names: Collection[str]) -> str:
    """Queries as a message of a commit names them."""
    shown = [*names][:_NAMED]
    return ", ".join([*shown, "…"] if len(names) > len(shown) else shown)


def _texts(sources: Collection[Source], catalog: Catalog) -> dict[str, str]:
    """The queries of all sources by name; all mistakes in them are raised together."""
    texts: dict[str, str] = {}
    origins: dict[str, str] = {}
    findings: list[Diagnostic] = []
    for source in sources:
        try:
            found = cut_queries(source, catalog)
        except QueryError as error:
            findings += error.diagnostics
            continue
        for name in found:
            if name in texts:
                raise UsageError(f"two queries are called `{name}`: in {origins[name]} and in {source.name}")
            origins[name] = source.name
        texts |= found
    if findings:
        raise QueryError(findings)
    if not texts:
        raise UsageError("no query was given")
    return texts


# --- looked at ---


def list_queries(session: Session, request: QueryListRequest) -> list[StoredQuery]:
    """The stored queries that the actor may call, with what they take and give."""
    at, branch = session.locate(request.at)
    found = [describe_query(name, text, at.catalog) for name, text in callable_texts(session, at, branch).items()]
    return [each for each in found if request.tag is None or request.tag in each.tags]


def show(session: Session, request: QueryShowRequest) -> StoredQuery:
    """One stored query."""
    at, branch = session.locate(request.at)
    if find_callable(session, request.name, at, branch) is None:
        raise unknown_query(session, request.name, at, branch)
    texts = session.branches.query_sets.get(at.commit.queries_id).texts
    return describe_query(request.name, texts[request.name], at.catalog)


def validate(session: Session, request: QueryValidateRequest) -> QueriesReport:
    """Whether queries fit the schema of a branch."""
    at = session.head(request.branch)
    if request.queries is not None:
        return QueriesReport(tuple(_texts([*query_sources(request.queries)], at.catalog)), ())
    texts = callable_texts(session, at, request.branch)
    return QueriesReport(tuple(texts), broken_queries(texts, at.catalog, texts))


# --- called ---


def is_write(session: Session, request: CallRequest) -> bool:
    """Whether a call writes, as far as is known before it runs."""
    at, branch = session.locate(request.snapshot, request.branch)
    found = find_callable(session, request.name, at, branch)
    return found is not None and found.compiled is not None and found.compiled.is_mutation


def call(session: Session, request: CallRequest) -> QueryResult | MutationResult:
    """Runs a stored query. Whoever may invoke it needs no right for what its text reads and writes."""
    at, branch = session.locate(request.snapshot, request.branch)
    found = find_callable(session, request.name, at, branch)
    if found is None:
        raise unknown_query(session, request.name, at, branch)
    if found.compiled is None:
        # It does not fit the schema, and the error says why.
        session.queries.prepare(found.text, request.name, at)
    acting = session.under(None) if found.may_invoke else session
    if found.compiled is not None and found.compiled.is_mutation:
        if request.snapshot is not None:
            raise UsageError(f"`{request.name}` writes, so it cannot be called at another state than a branch")
        return mutate(
            acting,
            MutateRequest(
                found.text,
                request.name,
                request.params,
                branch=request.branch,
                message=request.message,
                if_commit=request.if_commit,
            ),
        )
    if request.message is not None or request.if_commit is not None:
        raise UsageError(f"`{request.name}` reads, so it takes neither a message nor `if_commit`")
    return query(
        acting,
        QueryRequest(
            found.text,
            request.name,
            request.params,
            branch=request.branch,
            snapshot=request.snapshot,
            timeout=request.timeout,
            cancellation=request.cancellation,
        ),
    )
