"""The verbs about health whose answers have another shape than their results."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.api.upkeep import (
    IndexListRequest,
    IndexStatus,
    Recovery,
    RecoveryListRequest,
    RecoveryPendingRequest,
    RecoveryShowRequest,
    RepairRequest,
    RepairResult,
    Status,
    StatusRequest,
)
from omnigraph.errors import NotFound, RecoveryFailed, UsageError
from omnigraph.remote.asking import Door
from omnigraph.remote.decoding import decode_answer

if TYPE_CHECKING:
    from omnigraph.write.sidecar import Sidecar


def status(door: Door, request: StatusRequest) -> Status:
    """The status, with the address of the graph: where it is stored only the server knows."""
    return replace(door.answer(request), uri=door.url)


def repair(door: Door, request: RepairRequest) -> RepairResult:
    if request.force and not request.confirm:
        raise UsageError("force publishes what is not verified, so it needs confirm too")
    return door.answer(request)


def list_indexes(door: Door, request: IndexListRequest) -> list[IndexStatus]:
    return [decode_answer(IndexStatus, each) for each in door.wire.document(door.ask_for(request))["indexes"]]


def list_recoveries(door: Door, request: RecoveryListRequest) -> list[Recovery]:
    return [decode_answer(Recovery, each) for each in door.wire.document(door.ask_for(request))["recoveries"]]


def pending_writes(door: Door, request: RecoveryPendingRequest) -> "list[Sidecar | RecoveryFailed]":
    return [_pending(each) for each in door.wire.document(door.ask_for(request))["pending"]]


def show_recovery(door: Door, request: RecoveryShowRequest) -> Recovery:
    for each in list_recoveries(door, RecoveryListRequest()):
        if request.id in (each.operation_id, each.graph_commit_id):
            return each
    raise NotFound("recovery", request.id)


def _pending(document: Any) -> "Sidecar | RecoveryFailed":
    from omnigraph.write.sidecar import Sidecar  # noqa: PLC0415 - it needs storage

    if document["state"] == "unreadable":
        return RecoveryFailed(f"{document['operation_id']}.json", document["problem"])
    found: Sidecar = decode_answer(Sidecar, document)
    return found
