"""What an error becomes over HTTP: one table of statuses, one body, and nothing in it that only the log may know."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

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
_TOLD_IN_PART = (StorageError, EngineFailed, RecoveryFailed, ServerFailed)
"""Of these a client is told less than there is to know, so the log tells it."""
_MOST_FINDINGS = 20
_LONGEST_PLACE = 200


class BadRequest(UsageError):
    """A request that cannot be understood."""

    code = "bad_request"


class NoRoute(NotFound):
    """An address that the server does not have."""

    def __init__(self) -> None:
        super().__init__("route", "")

    def __str__(self) -> str:
        return "there is no such route"


class MethodNotAllowed(UsageError):
    """A route that is there, for other methods."""

    code = "method_not_allowed"
    http_status = 405


class UnsupportedMedia(UsageError):
    """A body of a kind that is not taken."""

    code = "unsupported_media_type"
    http_status = 415


class TooSlow(OmnigraphError):
    """A client that did not send what it began to send."""

    code = "too_slow"
    http_status = 408

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class InvalidRequest(BadRequest):
    """A request whose parts are not as the description of the server says."""

    def __init__(self, problem: str, findings: list[dict[str, str]]) -> None:
        super().__init__(problem)
        self.findings = findings

    @property
    def details(self) -> dict[str, Any]:
        return {"problems": self.findings}


def _is_drift(error: OmnigraphError) -> bool:
    """Whether something else has committed to a table: no later request will find that settled, only repair does it."""
    return isinstance(error, RecoveryRequired) and error.operation_id is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An answer that is an error."""

    status: int
    body: bytes
    code: str
    headers: Mapping[str, str] = field(default_factory=dict)


def problem_of(error: BaseException, request_id: str, *, hidden: Mapping[str, str] | None = None) -> Problem:
    """The answer for an error. What `hidden` has as keys, like the places of graphs, is replaced in it."""
    typed = typed_error(error, request_id)
    document = {"error": _words(typed, request_id), "code": typed.code, **_details(typed), "request_id": request_id}
    notes = getattr(typed, "__notes__", None)
    if notes and not isinstance(typed, _TOLD_IN_PART):
        document["notes"] = notes
    text = json.dumps(document, ensure_ascii=False, default=str)
    for secret, name in (hidden or {}).items():
        text = text.replace(json.dumps(secret, ensure_ascii=False)[1:-1], name)
    return Problem(
        status=typed.http_status,
        # A text that is none in UTF-8 comes out as an escape, which JSON has too.
        body=text.encode("utf-8", "backslashreplace"),
        code=typed.code,
        headers=_headers(typed, error),
    )


def typed_error(error: BaseException, request_id: str) -> OmnigraphError:
    """The error as one of ours. Of what is not meant to happen, it tells nothing but where to look."""
    match error:
        case OmnigraphError():
            return error
        case RequestValidationError():
            return _invalid(error)
        case ClientDisconnect():
            return QueryCancelled()
        case HTTPException() if isinstance(error.__cause__, (OmnigraphError, ClientDisconnect)):
            return typed_error(error.__cause__, request_id)
        case HTTPException(status_code=404):
            return NoRoute()
        case HTTPException(status_code=405):
            return MethodNotAllowed("this route is not for that method")
        case HTTPException(status_code=status) if status < 500:
            return BadRequest("the request cannot be understood")
    return ServerFailed(request_id)


def _invalid(error: RequestValidationError) -> InvalidRequest:
    """What is wrong with a request, without repeating what it had."""
    found = []
    for each in error.errors()[:_MOST_FINDINGS]:
        place = ".".join(str(part) for part in each["loc"])[:_LONGEST_PLACE]
        reason = each.get("ctx", {}).get("error") if each["type"] == "json_invalid" else None
        found.append({"where": place, "problem": str(reason or each["msg"])})
    told = "; ".join(f"{each['where']}: {each['problem']}" for each in found[:3])
    return InvalidRequest(f"the request is not as it should be: {told}", found)


def _words(error: OmnigraphError, request_id: str) -> str:
    more = f"the server's log says more about request {request_id}"
    match error:
        case HeadMoved():
            return f"{error.problem}; nothing of yours is visible"
        case RecoveryRequired() if _is_drift(error):
            return f"{error}; nothing was written, and who runs the server has to run `omnigraph repair` first"
        case NotDurable():
            return f"commit {error.commit_id} is visible, but may not survive a power cut; {more}"
        case Damaged():
            return f"a file of this graph is damaged; {more}"
        case StorageError():
            return f"storage did not do what was asked of it; {more}"
        case EngineFailed():
            return f"{error.stage} could not be done, and nothing was published; {more}"
        case RecoveryFailed():
            return f"a write that did not finish cannot be recovered; {more}"
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


def answer_to(error: BaseException, exchange: Exchange, *, hidden: Mapping[str, str]) -> Response:
    """The response for an error; what the log should tell of it is noted in the exchange."""
    problem = problem_of(error, exchange.request_id, hidden=hidden)
    note_failure(error, exchange)
    headers = dict(problem.headers)
    if exchange.body is not None and exchange.body.is_left:
        # What is still on its way would have to be read and thrown away before the connection could be used again.
        headers["connection"] = "close"
    return Response(problem.body, problem.status, headers, media_type="application/json")


def note_failure(error: BaseException, exchange: Exchange) -> None:
    """Notes what a request ended with: its code, and the error itself where it is more than its client is told."""
    typed = typed_error(error, exchange.request_id)
    exchange.code = typed.code
    if isinstance(typed, _TOLD_IN_PART):
        exchange.failure = error
