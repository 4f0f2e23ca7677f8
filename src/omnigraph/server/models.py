"""The documents that a server answers with, where they are not the results of verbs, and how errors look."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from omnigraph.api.history import Change, Commit, MergeConflict
from omnigraph.api.queries import BrokenQuery
from omnigraph.api.upkeep import IndexBuild, IndexStatus, Recovery
from omnigraph.dataclass_later import dataclass
from omnigraph.diagnostics import Diagnostic


class QueryAnswer(BaseModel):
    """The rows of a query. With `explain`, only a `plan`."""

    columns: list[str] = Field(description="The names of the columns, in order.")
    rows: list[dict[str, Any]] = Field(description="The rows, each with all columns.")
    commit_id: str = Field(description="The commit that was read.")


class ExplainAnswer(BaseModel):
    """A plan."""

    plan: str = Field(description="A text for people.")


class AnalyzeAnswer(BaseModel):
    """What an analysis found."""

    algorithm: str
    summary: dict[str, Any] = Field(description="A summary of the whole graph.")
    columns: list[str]
    rows: list[dict[str, Any]] = Field(description="A row for each node, with its type and id; most relevant first.")
    commit_id: str = Field(description="The commit that was analysed.")
    written: Commit | None = Field(description="The commit that wrote the result back.")


class MutationAnswer(BaseModel):
    """What a mutation did."""

    commit: Commit | None = Field(description="The commit; none if nothing changed.")
    affected: dict[str, int] = Field(description="How many nodes and edges it inserted, changed or deleted.")
    unchanged: dict[str, int] = Field(description="How many nodes and edges it found and left as they were.")


class ReturningAnswer(MutationAnswer):
    """What a mutation with a `returning` did."""

    columns: list[str] = Field(description="The names of the columns of `returning`, in order.")
    rows: list[dict[str, Any]] = Field(description="The rows of `returning`, each with all columns.")


class Deleted(BaseModel):
    """What was deleted."""

    deleted: str = Field(description="Its name.")


class ChangeBlockAnswer(BaseModel):
    """One commit, and what it changed."""

    commit: Commit
    cursor: str = Field(description="Where to continue once the block was processed.")
    changes: list[Change]


class SchemaAnswer(BaseModel):
    """A schema as it was accepted."""

    schema_id: str
    schema_number: int = Field(description="Which of the schemas of the graph it is; the first is 1.")
    schema_: str = Field(alias="schema", description="Its text.")
    catalog: dict[str, Any] = Field(description="Its types.")


class ViolationAnswer(BaseModel):
    """One thing that is wrong with one record."""

    type: str
    property: str | None
    problem: str
    file: str | None = Field(description="The file of a load, as its sender named it.")
    line: int | None
    rule: str
    id: str | None


class SchemaPlanAnswer(BaseModel):
    """The steps from one schema to another."""

    possible: bool
    loses_data: bool
    steps: list[dict[str, Any]] = Field(description="Each with its kind as `step`, its `type`, `what` and `cost`.")
    refused: list[Diagnostic]
    notes: list[Diagnostic]
    violations: list[ViolationAnswer] = Field(description="The first rows that are in the way.")
    violation_count: int
    broken_queries: list[BrokenQuery] = Field(description="The stored queries that would no longer fit the schema.")
    catalog: dict[str, Any] = Field(description="The types of the new schema.")


class SchemaApplyAnswer(SchemaPlanAnswer):
    """What a schema change did."""

    commit: Commit | None = Field(description="Null if the schema was the same.")
    schema_id: str
    schema_number: int
    purged: list[str] = Field(description="The tables whose history was removed.")


class IndexesAnswer(BaseModel):
    """The indexes of a branch."""

    indexes: list[IndexStatus]


@dataclass(frozen=True, kw_only=True)
class IndexBuildAnswer(IndexBuild):
    """What was built, and the indexes afterwards. The names of indexes are by table."""

    indexes: list[IndexStatus]


class PendingAnswer(BaseModel):
    """An announced write, with the fields of its sidecar if that can be read."""

    model_config = ConfigDict(extra="allow")

    state: Literal["pending", "unreadable"]
    operation_id: str


class RecoveriesAnswer(BaseModel):
    """The writes that are unfinished or at work, and those that were completed or undone."""

    pending: list[PendingAnswer]
    recoveries: list[Recovery]


class ManifestConflict(BaseModel):
    """The table that another writer published first."""

    table_key: str | None
    expected: int
    actual: int | None


class RequestProblem(BaseModel):
    """An invalid field of a request."""

    where: str = Field(examples=["body.branch"])
    problem: str


class Error(BaseModel):
    """Every error has this body. The code identifies it; some errors have more fields."""

    model_config = ConfigDict(extra="allow")

    error: str = Field(description="The message, for people.")
    code: str = Field(description="The code, for programs.", examples=["not_found"])
    request_id: str = Field(description="The id of the request in the log of the server.")
    manifest_conflict: ManifestConflict | None = Field(None, description="Of a write that lost against another one.")
    merge_conflicts: list[MergeConflict] | None = Field(None, description="Of a merge: all conflicts.")
    violations: list[ViolationAnswer] | None = Field(None, description="Of invalid data: the first violations.")
    diagnostics: list[Diagnostic] | None = Field(None, description="Of an invalid query or schema: all findings.")
    notes: list[str] | None = Field(None, description="Additional information, such as the next step.")
    problems: list[RequestProblem] | None = Field(None, description="Of an invalid request: its problems.")


STATUSES = {
    400: "The request, a query, a schema or a parameter of a query is invalid.",
    401: "The token is missing or invalid.",
    403: "The policy does not allow it.",
    404: "Something that the request names does not exist.",
    405: "The route exists for other methods only.",
    408: "The body was not received in time.",
    409: "A conflict with another write, or with the state of the graph. A write that lost against another one has a "
    "`manifest_conflict`, a merge its `merge_conflicts`; after a conflict, trying again may succeed.",
    410: "Cleanup removed a part of the history that is needed.",
    412: "The branch is no longer at the commit of `if_commit`.",
    413: "The request is too large, or the query needs too much memory.",
    415: "The type of the body is not supported.",
    422: "The data violates the schema; `violations` has the first problems, and nothing was written.",
    429: "Too many requests at once.",
    499: "The request was cancelled.",
    500: "Internal server error; the log of the server has more, with the `request_id`.",
    501: "The server lacks the packages of an extra.",
    503: "The server is shutting down, or unfinished writes have to be recovered first.",
    504: "The time limit was exceeded.",
}
"""The HTTP statuses of errors."""
_RETRIED = (429, 503)
_EVERYWHERE = (400, 401, 403, 404, 429, 499, 500, 503)
_WITH_BODY = (408, 413, 415)
_WRITES = (409, 422)


def error_responses(*more: int, body: bool = False, writes: bool = False) -> dict[int | str, dict[str, Any]]:
    """The errors of a route for its description: those of all routes, and those of routes that take a body or write."""
    statuses = {*_EVERYWHERE, *more, *(_WITH_BODY if body else ()), *(_WRITES if writes else ())}
    described: dict[int | str, dict[str, Any]] = {status: _error_response(status) for status in sorted(statuses)}
    return {**described, "default": {"model": Error, "description": "Any other error has the same body."}}


def _error_response(status: int) -> dict[str, Any]:
    described: dict[str, Any] = {"model": Error, "description": STATUSES[status]}
    if status in _RETRIED:
        seconds = {"description": "Try again after this many seconds.", "schema": {"type": "integer"}}
        described["headers"] = {"Retry-After": seconds}
    if status == 401:
        described["headers"] = {"WWW-Authenticate": {"description": "Bearer", "schema": {"type": "string"}}}
    return described
