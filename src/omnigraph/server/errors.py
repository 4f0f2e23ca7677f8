"""Errors over HTTP: one body for all, without what only the log may contain."""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from omnigraph.dataclass_later import dataclass
from omnigraph.errors import (
    Damaged,
    EngineFailed,
    ExpectedVersionMismatch,
    HeadMoved,
    NotDurable,
    NotFound,
    OmnigraphError,
    QueryCancelled,
    RecoveryFailed,
    RecoveryPending,
    RecoveryRequired,
    ServerFailed,
    StorageError,
    TooBusy,
    Unauthenticated,
    Unavailable,
    UsageError,
)
from omnigraph.server.exchange import Exchange

RETRY_AFTER = 1
_SHOWN_IN_PART = (StorageError, EngineFailed, RecoveryFailed, ServerFailed)
"""Clients get less of these than the log."""
_MOST_FINDINGS = 20
_LONGEST_PLACE = 200


class BadRequest(UsageError):
    """An invalid request."""

    code = "bad_request"


class NoRoute(NotFound):
    """A path that the server does not have."""

    def __init__(self) -> None:
        super().__init__("route", "")

    def __str__(self) -> str:
        return "there is no such route"


class MethodNotAllowed(UsageError):
    """A route that exists for other methods only."""

    code = "method_not_allowed"
    http_status = 405


class UnsupportedMedia(UsageError):
    """A body whose type is not supported."""

    code = "unsupported_media_type"
    http_status = 415


class TooSlow(OmnigraphError):
    """A client that did not send or read in time."""

    code = "too_slow"
    http_status = 408

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class InvalidRequest(BadRequest):
    """A request with fields that do not match the description of the server."""

    def __init__(self, problem: str, findings: list[dict[str, str]]) -> None:
        super().__init__(problem)
        self.findings = findings

    @property
    def details(self) -> dict[str, Any]:
        return {"problems": self.findings}


def _is_drift(error: OmnigraphError) -> bool:
    """Whether another program has committed to a table, which only `omnigraph repair` can resolve."""
    return isinstance(error, RecoveryRequired) and error.operation_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error as a response."""

    status: int
    body: bytes
    code: str
    headers: Mapping[str, str] = field(default_factory=dict)


def error_problem(error: BaseException, request_id: str, *, hidden: Mapping[str, str] | None = None) -> Problem:
    """The response for an error. The keys of `hidden`, such as the locations of graphs, are replaced in it."""
    typed = typed_error(error, request_id)
    document = {"error": _message(typed, request_id), "code": typed.code, **_details(typed), "request_id": request_id}
    notes = getattr(typed, "__notes__", None)
    if notes and not isinstance(typed, _SHOWN_IN_PART):
        document["notes"] = notes
    text = json.dumps(document, ensure_ascii=False, default=str)
    for secret, name in (hidden or {}).items():
        text = text.replace(json.dumps(secret, ensure_ascii=False)[1:-1], name)
    return Problem(
        status=typed.http_status,
        # Text that is not valid UTF-8 becomes escapes, which JSON has too.
        body=text.encode("utf-8", "backslashreplace"),
        code=typed.code,
        headers=_headers(typed, error),
    )


def typed_error(error: BaseException, request_id: str) -> OmnigraphError:
    """The error as one of OmniGraph. An unexpected one becomes `ServerFailed`, which discloses nothing."""
    match error:
        case OmnigraphError():
            return error
        case RequestValidationError():
            return _invalid_request(error)
        case ClientDisconnect():
            return QueryCancelled()
        case HTTPException() if isinstance(error.__cause__, (OmnigraphError, ClientDisconnect)):
            return typed_error(error.__cause__, request_id)
        case HTTPException(status_code=404):
            return NoRoute()
        case HTTPException(status_code=405):
            return MethodNotAllowed("the route does not support this method")
        case HTTPException(status_code=status) if status < 500:
            return BadRequest("invalid request")
    return ServerFailed(request_id)


def _invalid_request(error: RequestValidationError) -> InvalidRequest:
    """The problems of a request, without repeating its values."""
    found = []
    for each in error.errors()[:_MOST_FINDINGS]:
        place = ".".join(str(part) for part in each["loc"])[:_LONGEST_PLACE]
        reason = each.get("ctx", {}).get("error") if each["type"] == "json_invalid" else None
        found.append({"where": place, "problem": str(reason or each["msg"])})
    problems = "; ".join(f"{each['where']}: {each['problem']}" for each in found[:3])
    return InvalidRequest(f"invalid request: {problems}", found)


def _message(error: OmnigraphError, request_id: str) -> str:
    more = f"see the log of the server for request {request_id}"
    match error:
        case HeadMoved():
            return f"{error.problem}; nothing was written"
        case RecoveryRequired() if _is_drift(error):
            return (
                f"{error}; nothing was written, and the administrator of the server has to run `omnigraph repair` first"
            )
        case NotDurable():
            return f"commit {error.commit_id} is visible, but may not survive a power cut; {more}"
        case Damaged():
            return f"a file of this graph is damaged; {more}"
        case StorageError():
            return f"a storage operation failed; {more}"
        case EngineFailed():
            return f"{error.stage} failed, and nothing was published; {more}"
        case RecoveryFailed():
            return f"an unfinished write cannot be recovered; {more}"
    return str(error)


def _details(error: OmnigraphError) -> dict[str, Any]:
    match error:
        case ExpectedVersionMismatch():
            versions = {"table_key": error.table_key, "expected": error.expected, "actual": error.actual}
            return {**error.details, "manifest_conflict": versions}
        case HeadMoved():
            return {"manifest_conflict": {"table_key": None, "expected": error.expected, "actual": error.actual}}
        case NotDurable():
            return {"commit_id": error.commit_id}
        case EngineFailed():
            return {"stage": error.stage}
        case StorageError() | RecoveryFailed():
            return {}
    return error.details


def _headers(error: OmnigraphError, cause: BaseException) -> dict[str, str]:
    match error:
        case Unauthenticated():
            return {"www-authenticate": "Bearer"}
        case TooBusy():
            return {"retry-after": str(error.retry_after)}
        case TooSlow():
            return {"connection": "close"}
        case RecoveryRequired() if _is_drift(error):
            return {}
        case Unavailable() | RecoveryRequired() | RecoveryPending():
            return {"retry-after": str(RETRY_AFTER)}
        case MethodNotAllowed() if isinstance(cause, HTTPException) and cause.headers:
            return {"allow": cause.headers["Allow"]} if "Allow" in cause.headers else {}
    return {}


def error_response(error: BaseException, exchange: Exchange, *, hidden: Mapping[str, str]) -> Response:
    """The response for an error, which is also noted in the exchange, for the log."""
    problem = error_problem(error, exchange.request_id, hidden=hidden)
    note_failure(error, exchange)
    headers = dict(problem.headers)
    if exchange.body is not None and exchange.body.is_left:
        # The rest of the body would have to be read before the connection could be used again.
        headers["connection"] = "close"
    return Response(problem.body, problem.status, headers, media_type="application/json")


def note_failure(error: BaseException, exchange: Exchange) -> None:
    """Notes the code of an error in the exchange, and the error itself if its client does not get all of it."""
    typed = typed_error(error, exchange.request_id)
    exchange.code = typed.code
    if isinstance(typed, _SHOWN_IN_PART):
        exchange.failure = error
