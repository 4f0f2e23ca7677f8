"""How errors look, and which a route may answer with: the part of the description that every route shares."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from omnigraph.api.history import MergeConflict
from omnigraph.server.models.answers import Finding, Violation


class ManifestConflict(BaseModel):
    """The table that another writer has published first."""

    table_key: str | None
    expected: int
    actual: int | None


class RequestProblem(BaseModel):
    """One part of a request that is not as it is described."""

    where: str = Field(examples=["body.branch"])
    problem: str


class Error(BaseModel):
    """Every error has this body. The code says which it is, and what else there is to know has fields of its own."""

    model_config = ConfigDict(extra="allow")

    error: str = Field(description="What is wrong, for people.")
    code: str = Field(description="What is wrong, for programs.", examples=["not_found"])
    request_id: str = Field(description="What the request is called in the log of the server.")
    manifest_conflict: ManifestConflict | None = Field(None, description="Of a write that another one was ahead of.")
    merge_conflicts: list[MergeConflict] | None = Field(None, description="Of a merge: all conflicts.")
    violations: list[Violation] | None = Field(None, description="Of data that the schema does not allow: the first.")
    diagnostics: list[Finding] | None = Field(None, description="Of a text that was not accepted: all findings.")
    notes: list[str] | None = Field(None, description="What is to be known besides, such as what stays to be done.")
    problems: list[RequestProblem] | None = Field(None, description="Of a request that is not as it is described.")


_REASONS = {
    400: "What was asked for is wrong: the request, the text of a query or a schema, or a parameter of a query.",
    401: "There is no token, or none that the server knows.",
    403: "The policy does not allow it.",
    404: "Something that was named does not exist.",
    408: "The body did not come in.",
    409: "Others were first, or what is there does not allow it. A write that another one was ahead of has a "
    "`manifest_conflict`, a merge its `merge_conflicts`; trying again may succeed where the code is a conflict.",
    410: "A part of the history that is needed was cleaned up.",
    412: "The branch is no longer at the commit of `if_commit`.",
    413: "The request is too large, or the rows that a query would hold in memory.",
    415: "The body is of a kind that is not taken.",
    422: "The data is not as the schema says; `violations` has the first of what is wrong, and nothing was written.",
    429: "More at once than the actor may ask for.",
    499: "The request was cancelled.",
    500: "The server failed; its log says more, under the `request_id`.",
    503: "The server is about to stop, or writes that did not finish have to be settled first.",
    504: "It took too long, and was stopped.",
}
_RETRIED = (429, 503)
_EVERYWHERE = (400, 401, 403, 404, 429, 499, 500, 503)
_WITH_BODY = (408, 413, 415)
_WRITES = (409, 422)


def failures(*more: int, body: bool = False, writes: bool = False) -> dict[int | str, dict[str, Any]]:
    """The errors of a route for its description: those of every route, and of those that take a body or write."""
    statuses = {*_EVERYWHERE, *more, *(_WITH_BODY if body else ()), *(_WRITES if writes else ())}
    described: dict[int | str, dict[str, Any]] = {status: _described(status) for status in sorted(statuses)}
    return {**described, "default": {"model": Error, "description": "Any other error has the same body."}}


def _described(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {"model": Error, "description": _REASONS[status]}
    if status in _RETRIED:
        seconds = {"description": "After how many seconds to try again.", "schema": {"type": "integer"}}
        described["headers"] = {"Retry-After": seconds}
    if status == 401:
        described["headers"] = {"WWW-Authenticate": {"description": "Bearer", "schema": {"type": "string"}}}
    return described
