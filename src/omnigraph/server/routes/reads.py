"""The routes that read data and stream it, or answer in several formats: queries, entities, exports, analyses."""

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import Path, Request
from pydantic import Field
from starlette.responses import Response

from omnigraph.api.base import MAIN
from omnigraph.api.data import (
    Analysis,
    AnalyzeRequest,
    EntityRequest,
    ExplainExportRequest,
    ExplainRequest,
    ExportRequest,
    QueryRequest,
    QueryResult,
)
from omnigraph.api.history import PinnedSnapshot
from omnigraph.api.progress import no_report
from omnigraph.api.values import row_to_json
from omnigraph.errors import NotFound, UsageError
from omnigraph.server.models.answers import AnalyzeAnswer, ExplainAnswer, QueryAnswer
from omnigraph.server.models.failures import failures
from omnigraph.server.models.parameters import At, OnBranch
from omnigraph.server.models.words import Name, Words, state_in_address
from omnigraph.server.requests import body_model, request_of
from omnigraph.server.routes.declaring import Serving, graph_router
from omnigraph.server.routes.documents import description_of, summary_of
from omnigraph.server.serving import Served
from omnigraph.server.streams import (
    ARROW,
    JSON,
    NDJSON,
    TAR,
    accepts,
    answered,
    arrow,
    encoded,
    in_pieces,
    is_short,
    rows_in_pieces,
    tar_of,
)
from omnigraph.versioning import Snapshot

router = graph_router("data")
_EXPLAIN = ("explain", bool, Field(False, description="Do not do it, but explain how it would be done."))
_LIMIT = (
    "limit",
    int | None,
    Field(None, ge=0, le=2**31, description="Answer with at most this many rows, those that matter most."),
)
QueryBody = body_model(QueryRequest, _EXPLAIN)
ExportBody = body_model(ExportRequest, _EXPLAIN)
AnalyzeBody = body_model(AnalyzeRequest, _LIMIT)


def _or_arrow(description: str) -> dict[str, Any]:
    """An answer that is JSON, or Arrow if the client prefers it."""
    header = {"description": "The commit that was read; only with Arrow.", "schema": {"type": "string"}}
    content = {ARROW: {"schema": {"type": "string", "format": "binary"}}}
    return {"description": description, "content": content, "headers": {"X-Commit-Id": header}}


@router.get(
    "/snapshot",
    operation_id="snapshot",
    summary="Show the tables of a state",
    response_model=PinnedSnapshot,
    responses=failures(),
)
async def snapshot(served: Serving, *, branch: OnBranch = MAIN, at: At = None) -> Response:
    """The newest commit of a branch, and the tables of the graph with their versions and rows.

    With `at` they are those of a commit or a tag, or of a version or a time in the history of the branch.
    """
    return await answered(served, lambda: _snapshot(served, branch, state_in_address(at)).as_json())


def _snapshot(served: Served, branch: str, at: str | int | datetime | None) -> Snapshot:
    match at:
        case None:
            return served.graph.snapshot(branch)
        case int():
            return served.graph.snapshot_at(version=at, branch=branch)
        case datetime():
            return served.graph.snapshot_at(time=at, branch=branch)
        case str():
            return served.graph.snapshot_at(commit=at)


@router.post(
    "/query",
    operation_id="query",
    summary=summary_of(QueryRequest),
    response_model=QueryAnswer | ExplainAnswer,
    responses={200: _or_arrow("The rows, or with `explain` the plan."), **failures(409, 504, body=True)},
)
async def query(served: Serving, *, body: QueryBody, request: Request) -> Response:  # type: ignore[valid-type]
    """Runs a query on the head of a branch, or on another state of the graph; all of it sees one commit.

    With `Accept: application/vnd.apache.arrow.stream` the rows are an Arrow IPC stream.
    """
    asked = request_of(QueryRequest, body)
    assert isinstance(asked, QueryRequest)
    if body.explain:  # type: ignore[attr-defined]
        return await answered(served, lambda: {"plan": _explain(served, asked)})
    if accepts(request.headers.get("accept"), ARROW):
        return _as_arrow(served, await served.run(lambda: _result(served, asked)))
    answer = await served.run(lambda: _short_answer(_result(served, asked)))
    if isinstance(answer, bytes):
        return Response(answer, media_type=JSON)
    return served.stream(rows_in_pieces(answer), JSON)


def _short_answer(result: QueryResult) -> bytes | QueryResult:
    """The answer as JSON if it is short, made in the thread of its query; otherwise it is made while it is sent."""
    return encoded(result.as_json()) if is_short(result) else result


def _result(served: Served, asked: QueryRequest) -> QueryResult:
    limit = served.settings.query_timeout
    timeout = limit if asked.timeout is None else min(asked.timeout, limit)
    return served.run_verb(replace(asked, timeout=timeout, cancellation=served.query_limits()))


def _explain(served: Served, asked: QueryRequest) -> str:
    if asked.snapshot is not None:
        raise UsageError("a plan is that of a branch, not of a snapshot")
    return served.run_verb(
        ExplainRequest(asked.source, asked.name, asked.params, branch=asked.branch, engine=asked.engine)
    )


def _as_arrow(served: Served, result: QueryResult) -> Response:
    headers = {"X-Commit-Id": result.commit_id, "Vary": "Accept"}
    return served.stream(arrow(result.table), ARROW, headers=headers)


@router.get(
    "/entities/{type}/{entity:path}",
    operation_id="entity",
    summary="Get one entity",
    response_model=dict[str, Any],
    response_description="The properties of the entity, and its `id`.",
    responses=failures(),
)
async def entity(
    served: Serving,
    *,
    type: Annotated[Name, Path(description="The node or edge type.")],
    entity: Annotated[Words, Path(description="The id of the entity; it may have slashes.")],
    at: At = None,
) -> Response:
    """One entity with its properties, now or at another state; 404 with the kind `entity` if it does not exist."""

    def found() -> dict[str, Any] | None:
        row = served.run_verb(EntityRequest(type, entity, state_in_address(at)))
        if row is None:
            raise NotFound("entity", entity)
        return row_to_json(row)

    return await answered(served, found)


@router.post(
    "/export",
    operation_id="export",
    summary="Export a graph, or some of its types",
    response_class=Response,
    responses={
        200: {
            "description": "The records as lines that a load takes; as csv and parquet, a tar of files by type.",
            "content": {
                NDJSON: {"schema": {"type": "string"}},
                TAR: {"schema": {"type": "string", "format": "binary"}},
                JSON: {"schema": ExplainAnswer.model_json_schema()},
            },
        },
        **failures(body=True),
    },
)
async def export(served: Serving, *, body: ExportBody) -> Response:  # type: ignore[valid-type]
    """Streams all records of one state of the graph. With `explain` the answer is a `plan` as JSON.

    A stream that breaks off in the middle ends without its end: no client takes a part for the whole.
    """
    asked = request_of(ExportRequest, body)
    assert isinstance(asked, ExportRequest)
    if body.explain:  # type: ignore[attr-defined]
        return await answered(served, lambda: {"plan": _explain_export(served, asked)})
    if asked.format == "jsonl":
        lines = await served.run(lambda: served.run_verb(asked))
        assert not isinstance(lines, int)
        return served.stream(in_pieces(line.encode() for line in lines), NDJSON)
    files = tar_of(lambda folder: served.run_verb(replace(asked, path=folder)), served.graph.id)
    return served.stream(files, TAR, slow=True)


def _explain_export(served: Served, asked: ExportRequest) -> str:
    return served.run_verb(
        ExplainExportRequest(
            asked.branch, asked.types, snapshot=asked.snapshot, ordered=asked.ordered, engine=asked.engine
        )
    )


@router.post(
    "/analyze",
    operation_id="analyze",
    summary="Analyze the graph as a whole",
    description=f"{description_of(AnalyzeRequest)}\n\nWith `Accept: {ARROW}` the rows are an Arrow IPC stream, and "
    "the rest of the answer is JSON in the metadata of its schema, under the key `omnigraph`.",
    response_model=AnalyzeAnswer,
    responses={200: _or_arrow("What was found."), **failures(body=True, writes=True)},
)
async def analyze(served: Serving, *, body: AnalyzeBody, request: Request) -> Response:  # type: ignore[valid-type]
    asked = request_of(AnalyzeRequest, body)
    assert isinstance(asked, AnalyzeRequest)
    limit = body.limit  # type: ignore[attr-defined]
    if accepts(request.headers.get("accept"), ARROW):
        return _as_arrow(served, await served.run(lambda: _with_metadata(_analysis(served, asked, limit)), slow=True))
    return await answered(served, lambda: _analysis(served, asked, limit).as_json(), slow=True)


def _analysis(served: Served, asked: AnalyzeRequest, limit: int | None) -> Analysis:
    report = no_report if asked.write else lambda _: served.cancellation.check()
    return served.run_verb(replace(asked, report=report)).top(limit)


def _with_metadata(found: Analysis) -> QueryResult:
    rest = {**found.as_json(), "rows": []}
    return QueryResult(found.table.replace_schema_metadata({"omnigraph": encoded(rest)}), found.commit_id)
