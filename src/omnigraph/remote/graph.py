"""A graph that a server has: every verb is one request, and most answers are one document."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar, cast

from omnigraph.api import data, history, schema, upkeep
from omnigraph.api.base import MAIN, Request
from omnigraph.api.graph import GraphApi
from omnigraph.api.history import PinnedSnapshot
from omnigraph.errors import UsageError
from omnigraph.remote import changes, exporting, reading, schemas, upkeeping
from omnigraph.remote.asking import Door, instant
from omnigraph.remote.decoding import decode_answer

_Result = TypeVar("_Result")

SPECIAL: Mapping[type[Request[Any]], Callable[[Door, Any], Any]] = {
    data.QueryRequest: reading.query,
    data.ExplainRequest: reading.explain,
    data.EntityRequest: reading.entity,
    data.AnalyzeRequest: reading.analyze,
    data.LoadRequest: reading.load,
    data.ExplainLoadRequest: reading.explain_load,
    data.ExportRequest: exporting.export,
    data.ExplainExportRequest: reading.explain,
    history.CommitListRequest: changes.list_commits,
    history.CommitChangesRequest: changes.commit_changes,
    history.DiffRequest: changes.diff,
    history.ChangesRequest: changes.changes,
    schema.SchemaShowRequest: schemas.show,
    schema.SchemaPlanRequest: schemas.plan,
    schema.SchemaDiffRequest: schemas.diff,
    schema.SchemaApplyRequest: schemas.apply,
    schema.SchemaCatchUpRequest: schemas.catch_up,
    upkeep.StatusRequest: upkeeping.status,
    upkeep.RepairRequest: upkeeping.repair,
    upkeep.IndexListRequest: upkeeping.list_indexes,
    upkeep.RecoveryListRequest: upkeeping.list_recoveries,
    upkeep.RecoveryPendingRequest: upkeeping.pending_writes,
    upkeep.RecoveryShowRequest: upkeeping.show_recovery,
}
"""The verbs whose answers are streams, tables or files, or documents of another shape than their results."""


class RemoteGraph(GraphApi):
    """A graph of a server. Who writes is known by the token, so no verb takes an actor. Threads may share it."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def _run(self, request: Request[_Result]) -> _Result:
        request.check()
        special = SPECIAL.get(request.__class__)
        return self._door.answer(request) if special is None else cast("_Result", special(self._door, request))

    @property
    def id(self) -> str:
        """The name of the graph on the server."""
        return self._door.graph

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._door.url

    def close(self) -> None:
        """Closes the connections to the server."""
        self._door.wire.close()

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
            raise UsageError("name one of version, commit and time")
        at = instant(given[0]) if isinstance(given[0], datetime) else given[0]
        return self._snapshot({"branch": branch, "at": at})

    def _snapshot(self, query: Mapping[str, Any]) -> PinnedSnapshot:
        found: PinnedSnapshot = decode_answer(
            PinnedSnapshot, self._door.wire.document(self._door.ask("snapshot", query=query))
        )
        return found
