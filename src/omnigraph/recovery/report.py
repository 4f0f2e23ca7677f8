"""Tells what became of writes that did not finish, and of which it is not decided yet."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

from omnigraph.api.upkeep import Recovery
from omnigraph.errors import NotFound, RecoveryFailed
from omnigraph.recovery.audit import recoveries
from omnigraph.storage import Location
from omnigraph.write.sidecar import Sidecar, pending_operations, read_sidecar


class Recoveries:
    """The recoveries of a graph, and what is left to recover. Only reads."""

    def __init__(self, graph: Location) -> None:
        self._graph = graph

    def pending(self) -> list[Sidecar | RecoveryFailed]:
        """The sidecars that are there, of writers at work too; one that cannot be understood is given as its error."""
        found: list[Sidecar | RecoveryFailed] = []
        for operation_id in pending_operations(self._graph):
            try:
                sidecar = read_sidecar(self._graph, operation_id)
            except RecoveryFailed as error:
                found.append(error)
            else:
                found += [sidecar] if sidecar is not None else []
        return found

    def show(self, id: str) -> Recovery:
        """One recovery, by the id of the write or of the commit that settled it."""
        for recovery in self.list():
            if id in (recovery.operation_id, recovery.graph_commit_id):
                return recovery
        raise NotFound("recovery", id)

    def list(self) -> list[Recovery]:
        """The writes that were completed or undone, newest first."""
        return recoveries(self._graph)[::-1]


def recoveries_json(pending: Sequence[Sidecar | RecoveryFailed], settled: Sequence[Recovery]) -> dict[str, Any]:
    """What is left to recover and what was recovered, as scripts read it."""
    return {"pending": [_pending_json(each) for each in pending], "recoveries": [each.as_json() for each in settled]}


class KnowsRecoveries(Protocol):
    """The recoveries of a graph, here or on a server."""

    def pending(self) -> Sequence[Sidecar | RecoveryFailed]: ...

    def show(self, id: str) -> Recovery: ...


def recovery_json(recoveries: KnowsRecoveries, id: str) -> dict[str, Any]:
    """One write, by its id or by that of the commit that settled it, as scripts read it: pending, or settled."""
    for each in recoveries.pending():
        if id == (each.operation_id if isinstance(each, Sidecar) else _operation_of(each)):
            return _pending_json(each)
    try:
        return recoveries.show(id).as_json()
    except NotFound as error:
        raise NotFound("sidecar or recovery", id) from error


def _pending_json(pending: Sidecar | RecoveryFailed) -> dict[str, Any]:
    if isinstance(pending, RecoveryFailed):
        return {"state": "unreadable", "operation_id": _operation_of(pending), "problem": pending.problem}
    return {"state": "pending", **asdict(pending)}


def _operation_of(unreadable: RecoveryFailed) -> str:
    return unreadable.sidecar.removesuffix(".json")
