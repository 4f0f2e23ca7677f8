"""The calls about the health of a graph whose answers have another shape than their results."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.api.upkeep import (
    IndexListRequest,
    IndexStatus,
    Recovery,
    RecoveryListRequest,
    RecoveryPendingRequest,
    RecoveryShowRequest,
    Status,
    StatusRequest,
)
from omnigraph.errors import NotFound, RecoveryFailed
from omnigraph.remote.calls import Endpoint, decode_answer

if TYPE_CHECKING:
    from omnigraph.write.sidecar import Sidecar


def status(endpoint: Endpoint, request: StatusRequest) -> Status:
    """The status, with the address of the graph: only the server knows where it is stored."""
    return replace(endpoint.result(request), uri=endpoint.url)


def list_indexes(endpoint: Endpoint, request: IndexListRequest) -> list[IndexStatus]:
    return [decode_answer(IndexStatus, each) for each in endpoint.document(request)["indexes"]]


def list_recoveries(endpoint: Endpoint, request: RecoveryListRequest) -> list[Recovery]:
    return [decode_answer(Recovery, each) for each in endpoint.document(request)["recoveries"]]


def pending_writes(endpoint: Endpoint, request: RecoveryPendingRequest) -> "list[Sidecar | RecoveryFailed]":
    return [_pending(each) for each in endpoint.document(request)["pending"]]


def show_recovery(endpoint: Endpoint, request: RecoveryShowRequest) -> Recovery:
    for each in list_recoveries(endpoint, RecoveryListRequest()):
        if request.id in (each.operation_id, each.graph_commit_id):
            return each
    raise NotFound("recovery", request.id)


def _pending(document: Any) -> "Sidecar | RecoveryFailed":
    from omnigraph.write.sidecar import Sidecar  # noqa: PLC0415 - it needs storage

    if document["state"] == "unreadable":
        return RecoveryFailed(f"{document['operation_id']}.json", document["problem"])
    found: Sidecar = decode_answer(Sidecar, document)
    return found
