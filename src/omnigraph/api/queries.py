"""The verbs about stored queries: texts that a graph keeps, and that are called by name."""

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from omnigraph.api.base import MAIN, Doc, ParameterScope, Request
from omnigraph.api.data import MutationResult, QueryResult
from omnigraph.api.encoding import Result
from omnigraph.api.history import Commit
from omnigraph.api.words import Actor, Branch, IfCommit, Message, Snapshot, State
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Source

if TYPE_CHECKING:
    from omnigraph.query.cancelling import Cancellation
else:
    Cancellation = Any

STORED_QUERY = "@query"
"""What differences, conflicts and merges call the type of stored queries. No type of a schema has this name."""


def stored_row(name: str, texts: Mapping[str, str]) -> dict[str, Any] | None:
    """A stored query as differences and conflicts show it; None if it is not among these texts."""
    return {"id": name, "source": texts[name]} if name in texts else None


class QueryKind(StrEnum):
    """What a stored query does."""

    READ = "read"
    MUTATION = "mutation"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQuery(Result):
    """A stored query: its text, and what it takes and gives under the schema of its state."""

    name: Annotated[str, Doc("Its name.")]
    kind: Annotated[QueryKind | None, Doc("Whether it reads or writes; null if it does not fit the schema.")] = None
    description: Annotated[str | None, Doc("What it is for (`@description`).")] = None
    instruction: Annotated[str | None, Doc("When and how to use it (`@instruction`).")] = None
    tags: Annotated[tuple[str, ...], Doc("Its tags (`@tag`), by which rules can name it.")] = ()
    parameters: Annotated[Mapping[str, Any] | None, Doc("The parameters, as JSON Schema of an object.")] = None
    result: Annotated[
        Mapping[str, Any] | None, Doc("A row of the answer, as JSON Schema of an object; null if there are none.")
    ] = None
    source: Annotated[str, Doc("The text.")]
    problems: Annotated[tuple[str, ...], Doc("Why it does not fit the schema; empty if it does.")] = ()


@dataclass(frozen=True, slots=True)
class BrokenQuery(Result):
    """A stored query that does not fit a schema."""

    name: Annotated[str, Doc("Its name.")]
    line: Annotated[int, Doc("The line of its text.")]
    code: Annotated[str, Doc("The code of the mistake.")]
    message: Annotated[str, Doc("What is wrong.")]

    def __str__(self) -> str:
        return f"{self.name}, line {self.line}: {self.message} [{self.code}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredQueriesResult(Result):
    """What a change of the stored queries did."""

    commit: Annotated[Commit | None, Doc("The commit; none if nothing changed.")]
    added: Annotated[tuple[str, ...], Doc("The queries that are new.")] = ()
    replaced: Annotated[tuple[str, ...], Doc("The queries that have another text now.")] = ()
    unchanged: Annotated[tuple[str, ...], Doc("The queries that were stored with the same text.")] = ()
    removed: Annotated[tuple[str, ...], Doc("The queries that were removed.")] = ()


@dataclass(frozen=True, slots=True)
class QueriesReport(Result):
    """Whether stored queries fit a schema."""

    queries: Annotated[tuple[str, ...], Doc("The queries that were checked.")]
    broken: Annotated[tuple[BrokenQuery, ...], Doc("Those of them that do not fit.")]


Queries: TypeAlias = str | Path | Source | Collection[str | Path | Source]
StoredName: TypeAlias = Annotated[str, Doc("The name of the stored query.")]


class QueryAddRequest(Request[StoredQueriesResult]):
    """Store queries in the graph, as one commit.

    Each has to fit the schema of the branch. A query that is stored with the same text is left alone.

    Returns:
        Which queries are new, and the commit.

    Raises:
        QueryError: A query has mistakes.
        QueryExists: A query of this name is stored with another text, and `replace` is not set.

    Example:
        >>> g.queries.add("query adults { match { $p: Person  $p.age >= 18 } return { $p.name } }").added
        ('adults',)
    """

    verb = "queries.add"
    writes = True

    queries: Annotated[Queries, Doc("The queries: a text, the path of a file, or several of them.")]
    _: KW_ONLY
    replace: Annotated[bool, Doc("Replace stored queries that have another text.")] = False
    branch: Branch = MAIN
    actor: Actor = None
    message: Message = None
    if_commit: IfCommit = None


class QueryRemoveRequest(Request[StoredQueriesResult]):
    """Remove stored queries, as one commit. Earlier states keep them.

    Raises:
        NotFound: There is no query of one of these names.

    Example:
        >>> g.queries.remove("adults").removed
        ('adults',)
    """

    verb = "queries.remove"
    writes = True

    names: Annotated[Collection[str], Doc("The names of the queries.")]
    _: KW_ONLY
    branch: Branch = MAIN
    actor: Actor = None
    message: Message = None
    if_commit: IfCommit = None


class QueryListRequest(Request[list[StoredQuery]]):
    """List the stored queries that may be called, in the order of their names.

    Example:
        >>> [each.name for each in g.queries.list()]
        ['adults']
    """

    verb = "queries.list"

    at: Annotated[State, Doc("A branch, a commit, a tag, a version of `main` or a time.")] = None
    _: KW_ONLY
    tag: Annotated[str | None, Doc("Only queries with this tag.")] = None


class QueryShowRequest(Request[StoredQuery]):
    """Show a stored query.

    Raises:
        NotFound: There is no such query, or it may not be called.

    Example:
        >>> g.queries.show("adults").kind
        <QueryKind.READ: 'read'>
    """

    verb = "queries.show"

    name: StoredName
    _: KW_ONLY
    at: Annotated[State, Doc("A branch, a commit, a tag, a version of `main` or a time.")] = None


class QueryValidateRequest(Request[QueriesReport]):
    """Check whether queries fit the schema of a branch: those of sources, or all that are stored. Nothing is stored.

    Example:
        >>> g.queries.validate().broken
        ()
    """

    verb = "queries.validate"

    queries: Annotated[
        Queries | None, Doc("The queries: a text, the path of a file, or several of them. Without it, the stored ones.")
    ] = None
    _: KW_ONLY
    branch: Branch = MAIN


class CallRequest(Request[QueryResult | MutationResult]):
    """Call a stored query by its name: one that reads gives rows, one that writes makes a commit.

    Whoever may `invoke` the query needs no other right. Others need the rights that its text needs.

    Raises:
        NotFound: There is no such query, or it may not be called.
        ParameterError: A parameter is missing, unknown, or does not fit its type.

    Example:
        >>> g.call("adults").rows()
        [{'p.name': 'Ada'}]
    """

    verb = "call"

    name: StoredName
    params: Annotated[Mapping[str, Any] | None, Doc("The parameters of the query, by name.")] = None
    _: KW_ONLY
    branch: Branch = MAIN
    snapshot: Snapshot = None
    actor: Actor = None
    message: Message = None
    if_commit: IfCommit = None
    timeout: Annotated[float | None, Doc("Stop the query after this many seconds.")] = None
    cancellation: Annotated[
        "Cancellation | None", Doc("Cancels a query that reads from another thread."), ParameterScope.PROCESS
    ] = None
