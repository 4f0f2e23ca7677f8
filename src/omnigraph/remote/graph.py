"""A graph of a server: every verb is one call, and most answers are one document."""

import os
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import unquote, urlsplit, urlunsplit

from omnigraph.api import data, history, queries, schema, upkeep
from omnigraph.api.base import MAIN, Request
from omnigraph.api.graph import GraphApi
from omnigraph.api.history import PinnedSnapshot
from omnigraph.diagnostics import any_of
from omnigraph.errors import NotFound, UsageError
from omnigraph.remote import data as data_calls
from omnigraph.remote import history as history_calls
from omnigraph.remote import schema as schema_calls
from omnigraph.remote import upkeep as upkeep_calls
from omnigraph.remote.calls import Endpoint, HttpCall, decode_answer, encode_instant
from omnigraph.remote.errors import TOKEN

if TYPE_CHECKING:
    from omnigraph.remote.connection import Connection

_Result = TypeVar("_Result")
_GRAPHS = "/graphs"

SPECIAL: Mapping[type[Request[Any]], Callable[[Endpoint, Any], Any]] = {
    data.QueryRequest: data_calls.query,
    data.ExplainRequest: data_calls.explain,
    data.EntityRequest: data_calls.entity,
    data.AnalyzeRequest: data_calls.analyze,
    data.MutateRequest: data_calls.mutate,
    queries.CallRequest: data_calls.call,
    data.LoadRequest: data_calls.load,
    data.ExplainLoadRequest: data_calls.explain_load,
    data.ExportRequest: data_calls.export,
    data.ExplainExportRequest: data_calls.explain,
    history.CommitListRequest: history_calls.list_commits,
    history.CommitChangesRequest: history_calls.commit_changes,
    history.DiffRequest: history_calls.diff,
    history.ChangesRequest: history_calls.changes,
    schema.SchemaShowRequest: schema_calls.show,
    schema.SchemaPlanRequest: schema_calls.plan,
    schema.SchemaDiffRequest: schema_calls.diff,
    schema.SchemaApplyRequest: schema_calls.apply,
    schema.SchemaCatchUpRequest: schema_calls.catch_up,
    upkeep.StatusRequest: upkeep_calls.status,
    upkeep.IndexListRequest: upkeep_calls.list_indexes,
    upkeep.RecoveryListRequest: upkeep_calls.list_recoveries,
    upkeep.RecoveryPendingRequest: upkeep_calls.pending_writes,
    upkeep.RecoveryShowRequest: upkeep_calls.show_recovery,
}
"""The verbs whose answers are streams, tables or files, or documents of another shape than their results."""


class RemoteGraph(GraphApi):
    """A graph of a server. The token identifies the actor, so no verb takes one. Threads may share it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def _run(self, request: Request[_Result]) -> _Result:
        request.check()
        special = SPECIAL.get(request.__class__)
        return self._endpoint.result(request) if special is None else cast("_Result", special(self._endpoint, request))

    @property
    def id(self) -> str:
        """The name of the graph on the server."""
        return self._endpoint.graph

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._endpoint.url

    def close(self) -> None:
        """Closes the connections to the server."""
        self._endpoint.connection.close()

    def refresh(self) -> None:
        """Asks whether the graph is there. Every verb sees its newest commit anyway."""
        self.snapshot()

    def snapshot(self, branch: str = MAIN) -> PinnedSnapshot:
        """The graph as it is now."""
        return self._snapshot({"branch": branch})

    def snapshot_at(
        self,
        *,
        version: int | None = None,
        commit: str | None = None,
        time: datetime | None = None,
        branch: str = MAIN,
    ) -> PinnedSnapshot:
        """The graph as it was: at a commit, or at a version of a branch or an instant in its history."""
        given = [each for each in (version, commit, time) if each is not None]
        if len(given) != 1:
            raise UsageError("expected exactly one of version, commit and time")
        at = encode_instant(given[0]) if isinstance(given[0], datetime) else given[0]
        return self._snapshot({"branch": branch, "at": at})

    def _snapshot(self, query: Mapping[str, Any]) -> PinnedSnapshot:
        found: PinnedSnapshot = decode_answer(
            PinnedSnapshot, self._endpoint.connection.document(self._endpoint.call("snapshot", query=query))
        )
        return found


def connect(url: str, graph: str | None = None, token: str | None = None) -> RemoteGraph:
    """Connects to a graph of a server, such as ``http://localhost:8080``.

    The graph is named by its id, or by a URL that ends in ``/graphs/ID``; a server with one graph needs no name. The
    token defaults to the environment variable ``OMNIGRAPH_TOKEN``.
    """
    from omnigraph.remote.connection import Connection  # noqa: PLC0415 - it imports httpx

    server, named = _split_url(url)
    if graph is not None and named is not None and graph != named:
        raise UsageError(f"the URL names the graph {named!r}, but the graph {graph!r} was given")
    connection = Connection(server, token if token is not None else os.environ.get(TOKEN) or None)
    try:
        return RemoteGraph(Endpoint(connection, graph or named or _only_graph(connection)))
    except BaseException:
        connection.close()
        raise


def _split_url(url: str) -> tuple[str, str | None]:
    """The address of a server, and the id of the graph if the URL has one."""
    try:
        parts = urlsplit(url)
        is_plain = not (parts.query or parts.fragment or "@" in parts.netloc) and parts.port != 0
    except ValueError:
        parts, is_plain = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
        raise UsageError(f"invalid server URL {url!r}: expected http://HOST:PORT")
    path = parts.path.rstrip("/")
    prefix, found, id = path.rpartition(f"{_GRAPHS}/")
    if not found or "/" in id:
        prefix, id = path.removesuffix(_GRAPHS), ""
    return urlunsplit((parts.scheme, parts.netloc, prefix, "", "")), unquote(id) or None


def _only_graph(connection: "Connection") -> str:
    ids = [str(each["id"]) for each in connection.document(HttpCall(path=_GRAPHS))["graphs"]]
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise NotFound("graph", connection.url, "the server has none that you may read")
    raise UsageError(f"{connection.url} has several graphs; choose {any_of(ids)}")
