"""A graph that is open in this process."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

from omnigraph.api.base import MAIN, Request, acting_actor
from omnigraph.api.graph import GraphApi
from omnigraph.dataclass_later import dataclass
from omnigraph.lazy import importing
from omnigraph.policy import Action
from omnigraph.session.session import Session

if TYPE_CHECKING:
    from omnigraph.api import history, schema, upkeep
    from omnigraph.policy import Policy
    from omnigraph.verbs.query import PreparedRead
    from omnigraph.versioning import Snapshot

Durability = Literal["full", "fast"]
_Result = TypeVar("_Result")
_Rights = Iterable[tuple[Action, str | None]]


@dataclass(frozen=True, slots=True)
class Verb:
    """What runs a request, and what its actor must be allowed before anything is read.

    What depends on types the verb checks itself, once it knows which the request is about. Its module is imported when
    it first runs, because most processes use few verbs.
    """

    name: str
    """The module in `omnigraph.verbs` and its function, as in `query.explain`."""
    rights: Callable[[Any], _Rights] = lambda _request: ()

    def function(self) -> Callable[[Session, Any], Any]:
        """What runs the request."""
        return _verb_function(self.name)


@cache
def _verb_function(name: str) -> Callable[[Session, Any], Any]:
    module, _, function = name.partition(".")
    with importing:
        found: Callable[[Session, Any], Any] = getattr(import_module(f"omnigraph.verbs.{module}"), function)
    return found


def _on_branch(action: Action) -> Callable[[Any], _Rights]:
    """The right to do something on the branch of a request."""
    return lambda request: [(action, request.branch)]


def _on_graph(action: Action) -> Callable[[Any], _Rights]:
    """The right to do something, on whatever branch."""
    return lambda _request: [(action, None)]


def _deletes(request: "history.BranchDeleteRequest | history.TagDeleteRequest") -> _Rights:
    return [(Action.BRANCH_DELETE, request.name)]


def _repairs(request: "upkeep.RepairRequest") -> _Rights:
    return [(Action.ADMIN if request.force else Action.MAINTAIN, request.branch)]


def _merges(request: "history.MergeRequest") -> _Rights:
    deletes = [(Action.BRANCH_DELETE, request.source)] if request.delete_branch else []
    return [(Action.BRANCH_MERGE, request.into), *deletes]


def _applies(request: "schema.SchemaApplyRequest") -> _Rights:
    return [(Action.SCHEMA_APPLY, MAIN), *([(Action.ADMIN, MAIN)] if request.allow_data_loss else [])]


VERBS: Mapping[str, Verb] = {
    "query": Verb("query.query"),
    "explain": Verb("query.explain", _on_branch(Action.READ)),
    "entity": Verb("query.entity"),
    "export": Verb("export.export"),
    "explain_export": Verb("export.explain_export"),
    "analyze": Verb("analyze.analyze"),
    "mutate": Verb("mutate.mutate", _on_branch(Action.CHANGE)),
    "load": Verb("load.load", _on_branch(Action.CHANGE)),
    "explain_load": Verb("load.explain_load"),
    "embed": Verb("embed.embed", _on_branch(Action.CHANGE)),
    "call": Verb("queries.call"),
    "queries.add": Verb("queries.add", _on_branch(Action.QUERY_STORE)),
    "queries.remove": Verb("queries.remove", _on_branch(Action.QUERY_STORE)),
    "queries.list": Verb("queries.list_queries"),
    "queries.show": Verb("queries.show"),
    "queries.validate": Verb("queries.validate", _on_branch(Action.READ)),
    "branches.create": Verb("history.create_branch"),
    "branches.delete": Verb("history.delete_branch", _deletes),
    "branches.list": Verb("history.list_branches"),
    "tags.create": Verb("history.create_tag"),
    "tags.delete": Verb("history.delete_tag", _deletes),
    "tags.show": Verb("history.show_tag", _on_graph(Action.READ)),
    "tags.list": Verb("history.list_tags", _on_graph(Action.READ)),
    "commits.list": Verb("history.list_commits", _on_branch(Action.READ)),
    "commits.show": Verb("history.show_commit"),
    "commits.changes": Verb("changes.commit_changes"),
    "diff": Verb("changes.diff"),
    "changes": Verb("changes.changes", _on_branch(Action.READ)),
    "merge": Verb("merge.merge", _merges),
    "schema.at": Verb("schema.show"),
    "schema.plan": Verb("schema.plan", _on_branch(Action.READ)),
    "schema.diff": Verb("schema.diff"),
    "schema.apply": Verb("schema.apply", _applies),
    "schema.catch_up": Verb("schema.catch_up", _on_branch(Action.SCHEMA_APPLY)),
    "status": Verb("upkeep.status", _on_branch(Action.MAINTAIN)),
    "verify": Verb("upkeep.verify", _on_graph(Action.MAINTAIN)),
    "cleanup": Verb("upkeep.cleanup", _on_graph(Action.MAINTAIN)),
    "indexes": Verb("upkeep.list_indexes", _on_branch(Action.MAINTAIN)),
    "ensure_indices": Verb("upkeep.build_indexes", _on_branch(Action.MAINTAIN)),
    "optimize": Verb("upkeep.optimize", _on_branch(Action.MAINTAIN)),
    "repair": Verb("upkeep.repair", _repairs),
    "recoveries.list": Verb("upkeep.list_recoveries", _on_graph(Action.MAINTAIN)),
    "recoveries.pending": Verb("upkeep.pending_writes", _on_graph(Action.MAINTAIN)),
    "recoveries.show": Verb("upkeep.show_recovery", _on_graph(Action.MAINTAIN)),
}
"""What runs the requests, by the names of their verbs."""


def run_verb(session: Session, request: Request[_Result]) -> _Result:
    """Runs a request for its actor: checks its values and the policy, then calls the verb."""
    request.check()
    verb = VERBS[request.verb]
    if request.is_write:
        session.check_writable()
    session = session.acting_as(acting_actor(request))
    for action, branch in verb.rights(request):
        session.guard.check(action, branch)
    return cast("_Result", verb.function()(session, request))


class Graph(GraphApi):
    """A graph that is open in this process. Threads may share it."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def _run(self, request: Request[_Result]) -> _Result:
        return run_verb(self._session, request)

    @property
    def id(self) -> str:
        """The name of the graph for policies and servers: the last segment of its URI, without ``.omni``."""
        return self._session.guard.guard.graph

    @property
    def uri(self) -> str:
        """Where the graph is stored."""
        return self._session.location.uri

    @property
    def actor(self) -> str | None:
        """Who reads and writes, unless a verb is given another actor."""
        return self._session.guard.actor

    @property
    def durability(self) -> Durability:
        """Whether an acknowledged commit survives a power cut (``full``) or may not (``fast``)."""
        return "full" if self._session.location.durable else "fast"

    def acting_as(self, actor: str) -> Self:
        """The same graph for an actor: the policy decides what they may do, and writes are by them.

        It shares everything that is open with this one.
        """
        return self.__class__(self._session.acting_as(actor))

    def under(self, policy: "Policy | None") -> Self:
        """The same graph under another policy, or under none. It shares everything that is open."""
        return self.__class__(self._session.under(policy))

    def refresh(self) -> None:
        """Looks for the newest commit; of a graph open for writing, also completes writes that others left undone.

        Every read and write looks for the newest commit anyway, so only a process that has been idle needs this.
        """
        if self._session.mode == "rw":
            self._session.writes.heal(patient=False)
        self._session.branches.main.head()

    def close(self) -> None:
        """Releases what is kept in memory. The graph can still be used, and keeps again what it reads."""
        self._session.shared.clear()

    def prepare(self, source: str | Path, name: str | None = None, *, branch: str = MAIN) -> "PreparedRead":
        """Checks a query that reads once, and gives a handle that runs it with any parameters.

        Running it asks the policy and looks for the newest commit, as `query` does, which uses the same preparation.

        Args:
            source: The queries, as text or as the path of a file.
            name: The name of the query; it can be omitted if the source has one query.
            branch: The branch to read.

        Raises:
            QueryError: The source has mistakes.

        Example:
            >>> older = g.prepare("query q($age: I32) { match { $p: Person  $p.age > $age } return { $p.name } }")
            >>> older.run({"age": 40}).rows()
            [{'p.name': 'Bob'}]
        """
        prepare_read: Callable[..., PreparedRead] = _verb_function("query.prepare_read")
        return prepare_read(self._session, source, name, branch)

    def check_readable(self) -> None:
        """Raises when the head of `main` cannot be read. It reveals nothing, so no policy is asked."""
        self._session.branches.main.head()

    def check_load(self, branch: str = MAIN, from_: str | None = None) -> None:
        """Raises `PolicyDenied` if nothing may be loaded into a branch, before any data is sent."""
        self._session.check_writable()
        self._session.guard.check_load(branch, from_)

    def snapshot(self, branch: str = MAIN) -> "Snapshot":
        """The graph as it is now, without the types that may not be read."""
        return self._session.guard.readable(self._session.head(branch), branch)

    def snapshot_at(
        self,
        *,
        version: int | None = None,
        commit: str | None = None,
        time: datetime | None = None,
        branch: str = MAIN,
    ) -> "Snapshot":
        """The graph as it was: at a commit, or at a version of a branch or an instant in its history."""
        state = self._session.state_at(version=version, commit=commit, time=time, branch=branch)
        return self._session.guard.readable(*state)
