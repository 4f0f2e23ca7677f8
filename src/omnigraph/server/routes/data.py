"""The routes about data that stream, take files, or answer in several formats."""

from dataclasses import replace
from datetime import datetime
from inspect import Parameter as Argument
from inspect import Signature
from typing import Annotated, Any, TypeVar

import pyarrow as pa
from fastapi import Path, Request
from pydantic import Field
from starlette.responses import Response

from omnigraph.api.base import MAIN, description_of
from omnigraph.api.data import (
    MOST_DETAILS,
    Analysis,
    AnalyzeRequest,
    EntityRequest,
    ExplainExportRequest,
    ExplainLoadRequest,
    ExplainRequest,
    ExportRequest,
    LoadRequest,
    LoadResult,
    MutateRequest,
    MutationResult,
    QueryRequest,
    QueryResult,
    ResultRows,
)
from omnigraph.api.history import PinnedSnapshot
from omnigraph.api.progress import no_report
from omnigraph.api.queries import CallRequest
from omnigraph.api.values import row_to_json
from omnigraph.errors import NotFound, StorageError, UsageError, ValidationError
from omnigraph.server.context import RequestContext
from omnigraph.server.errors import BadRequest
from omnigraph.server.fields import At, Explain, FileName, Name, OnBranch, Words, state_in_address
from omnigraph.server.models import (
    AnalyzeAnswer,
    ExplainAnswer,
    MutationAnswer,
    QueryAnswer,
    ReturningAnswer,
    error_responses,
)
from omnigraph.server.requests import body_model, query_arguments, request_from_body
from omnigraph.server.responses import (
    ARROW,
    JSON,
    NDJSON,
    TAR,
    accepts,
    arrow_stream,
    encode_json,
    is_short,
    json_response,
    line_pieces,
    row_pieces,
    tar_stream,
)
from omnigraph.server.routes.verbs import CONTEXT, Context, graph_router, summary_of
from omnigraph.server.scheduler import Threads
from omnigraph.server.uploads import DATA, DETAILS, LINES, MULTIPART, Upload, receive_upload
from omnigraph.verbs.queries import is_write
from omnigraph.versioning import Snapshot
from omnigraph.violations import Violation

router = graph_router("data")
_EXPLAIN = ("explain", bool, Field(False, description="Explain the request instead of running it."))
_LIMIT = (
    "limit",
    int | None,
    Field(None, ge=0, le=2**31, description="Return at most this many rows, the most relevant ones."),
)
QueryBody = body_model(QueryRequest, _EXPLAIN)
ExportBody = body_model(ExportRequest, _EXPLAIN)
AnalyzeBody = body_model(AnalyzeRequest, _LIMIT)
MutateBody = body_model(MutateRequest)
CallBody = body_model(CallRequest)
_Asked = TypeVar("_Asked", QueryRequest, CallRequest)


def _or_arrow(description: str) -> dict[str, Any]:
    """An answer that is JSON, or Arrow if the client accepts it."""
    content = {ARROW: {"schema": {"type": "string", "format": "binary"}}}
    return {"description": description, "content": content}


def _rows_or_arrow(description: str) -> dict[str, Any]:
    """The same for rows that were read at a commit."""
    header = {"description": "The commit that was read; only with Arrow.", "schema": {"type": "string"}}
    return {**_or_arrow(description), "headers": {"X-Commit-Id": header}}


@router.get(
    "/snapshot",
    operation_id="snapshot",
    summary="Show the tables of a state",
    response_model=PinnedSnapshot,
    responses=error_responses(),
)
async def snapshot(context: Context, *, branch: OnBranch = MAIN, at: At = None) -> Response:
    """The newest commit of a branch, and the tables of the graph with their versions and rows.

    With `at` they are those of a commit or a tag, or of a version or a time in the history of the branch.
    """
    return await json_response(context, lambda: _snapshot(context, branch, state_in_address(at)).as_json())


def _snapshot(context: RequestContext, branch: str, at: str | int | datetime | None) -> Snapshot:
    match at:
        case None:
            return context.graph.snapshot(branch)
        case int():
            return context.graph.snapshot_at(version=at, branch=branch)
        case datetime():
            return context.graph.snapshot_at(time=at, branch=branch)
        case str():
            return context.graph.snapshot_at(commit=at)


@router.post(
    "/query",
    operation_id="query",
    summary=summary_of(QueryRequest),
    response_model=QueryAnswer | ExplainAnswer,
    responses={200: _rows_or_arrow("The rows, or with `explain` the plan."), **error_responses(409, 504, body=True)},
)
async def query(context: Context, *, body: QueryBody, request: Request) -> Response:  # type: ignore[valid-type]
    """Runs a query on the head of a branch, or on another state of the graph; all of it sees one commit.

    With `Accept: application/vnd.apache.arrow.stream` the rows are an Arrow IPC stream.
    """
    asked = request_from_body(QueryRequest, body)
    assert isinstance(asked, QueryRequest)
    if body.explain:  # type: ignore[attr-defined]
        return await json_response(context, lambda: {"plan": _explain(context, asked)})
    if accepts(request.headers.get("accept"), ARROW):
        return _as_arrow(context, await context.run(lambda: _result(context, asked)))
    answer = await context.run(lambda: _short_answer(_result(context, asked)))
    if isinstance(answer, bytes):
        return Response(answer, media_type=JSON)
    return context.stream(row_pieces(answer), JSON)


def _short_answer(result: QueryResult) -> bytes | QueryResult:
    """The answer as JSON if it is short; otherwise it becomes JSON while it is sent."""
    return encode_json(result.as_json()) if is_short(result) else result


def _result(context: RequestContext, asked: QueryRequest) -> QueryResult:
    return context.run_verb(_with_limits(context, asked))


def _with_limits(context: RequestContext, asked: _Asked) -> _Asked:
    """A request with the limits that the server has for queries."""
    limit = context.settings.query_timeout
    timeout = limit if asked.timeout is None else min(asked.timeout, limit)
    return replace(asked, timeout=timeout, cancellation=context.query_limits())


@router.post(
    "/queries/{name}",
    operation_id="call",
    name="call",
    summary=summary_of(CallRequest),
    description=f"{description_of(CallRequest)}\n\nWith `Accept: {ARROW}` the rows are an Arrow IPC stream. Of a "
    "query that writes, the rest of the answer is JSON in the metadata of its schema, under the key `omnigraph`.",
    response_model=QueryAnswer | ReturningAnswer | MutationAnswer,
    responses={
        200: _rows_or_arrow("The rows, or what was done."),
        **error_responses(412, 504, body=True, writes=True),
    },
)
async def call(
    context: Context,
    *,
    name: Annotated[Name, Path(description="The name of the stored query.")],
    body: CallBody,  # type: ignore[valid-type]
    request: Request,
) -> Response:
    asked = request_from_body(CallRequest, body, name=name)
    assert isinstance(asked, CallRequest)
    as_arrow = accepts(request.headers.get("accept"), ARROW)

    def work() -> QueryResult | MutationResult:
        return context.run_verb(_with_limits(context, asked))

    writes = await context.run(lambda: is_write(context.graph._session, asked))
    found = await context.run(work, threads=Threads.WRITES if writes else Threads.READS)
    if isinstance(found, MutationResult):
        if as_arrow:
            return context.stream(arrow_stream(_with_metadata(found)), ARROW, headers={"Vary": "Accept"})
        return Response(encode_json(found.as_json()), media_type=JSON)
    if as_arrow:
        return _as_arrow(context, found)
    answer = _short_answer(found)
    return Response(answer, media_type=JSON) if isinstance(answer, bytes) else context.stream(row_pieces(answer), JSON)


def _explain(context: RequestContext, asked: QueryRequest) -> str:
    if asked.snapshot is not None:
        raise UsageError("explain takes a branch, not a snapshot")
    return context.run_verb(
        ExplainRequest(asked.source, asked.name, asked.params, branch=asked.branch, engine=asked.engine)
    )


def _as_arrow(context: RequestContext, result: QueryResult) -> Response:
    headers = {"X-Commit-Id": result.commit_id, "Vary": "Accept"}
    return context.stream(arrow_stream(result.table), ARROW, headers=headers)


@router.get(
    "/entities/{type}/{entity:path}",
    operation_id="entity",
    summary="Get one entity",
    response_model=dict[str, Any],
    response_description="The properties of the entity, and its `id`.",
    responses=error_responses(),
)
async def entity(
    context: Context,
    *,
    type: Annotated[Name, Path(description="The node or edge type.")],
    entity: Annotated[Words, Path(description="The id of the entity; it may contain slashes.")],
    at: At = None,
) -> Response:
    """One entity with its properties, now or at another state; 404 with the kind `entity` if it does not exist."""

    def find_entity() -> dict[str, Any] | None:
        row = context.run_verb(EntityRequest(type, entity, state_in_address(at)))
        if row is None:
            raise NotFound("entity", entity)
        return row_to_json(row)

    return await json_response(context, find_entity)


@router.post(
    "/export",
    operation_id="export",
    summary="Export a graph, or some of its types",
    response_class=Response,
    responses={
        200: {
            "description": "The records as lines that a load reads; for csv and parquet, a tar of files by type.",
            "content": {
                NDJSON: {"schema": {"type": "string"}},
                TAR: {"schema": {"type": "string", "format": "binary"}},
                JSON: {"schema": ExplainAnswer.model_json_schema()},
            },
        },
        **error_responses(body=True),
    },
)
async def export(context: Context, *, body: ExportBody) -> Response:  # type: ignore[valid-type]
    """Streams all records of one state of the graph. With `explain` the answer is a `plan` as JSON.

    If an error occurs in the middle, the connection is closed without the end of the stream, so that clients notice.
    """
    asked = request_from_body(ExportRequest, body)
    assert isinstance(asked, ExportRequest)
    if body.explain:  # type: ignore[attr-defined]
        return await json_response(context, lambda: {"plan": _explain_export(context, asked)})
    if asked.format == "jsonl":
        lines = await context.run(lambda: context.run_verb(asked))
        assert not isinstance(lines, int)
        return context.stream(line_pieces(line.encode() for line in lines), NDJSON)
    files = tar_stream(lambda folder: context.run_verb(replace(asked, path=folder)), context.graph.id)
    return context.stream(files, TAR, threads=Threads.SLOW)


def _explain_export(context: RequestContext, asked: ExportRequest) -> str:
    return context.run_verb(
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
    responses={200: _rows_or_arrow("What was found."), **error_responses(body=True, writes=True)},
)
async def analyze(context: Context, *, body: AnalyzeBody, request: Request) -> Response:  # type: ignore[valid-type]
    asked = request_from_body(AnalyzeRequest, body)
    assert isinstance(asked, AnalyzeRequest)
    limit = body.limit  # type: ignore[attr-defined]
    if accepts(request.headers.get("accept"), ARROW):
        found = await context.run(lambda: _analysis(context, asked, limit), threads=Threads.SLOW)
        return _as_arrow(context, replace(found, table=_with_metadata(found)))
    return await json_response(context, lambda: _analysis(context, asked, limit).as_json(), threads=Threads.SLOW)


def _analysis(context: RequestContext, asked: AnalyzeRequest, limit: int | None) -> Analysis:
    report = no_report if asked.write else lambda _: context.cancellation.check()
    return context.run_verb(replace(asked, report=report)).top(limit)


def _with_metadata(found: ResultRows) -> pa.Table:
    """The rows of a result, with the rest of it in the metadata."""
    rest = {**found.as_json(), "rows": []}
    return found.to_arrow().replace_schema_metadata({"omnigraph": encode_json(rest)})


_FILES = {"type": "array", "items": {"type": "string", "format": "binary"}}
_LOADED: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "Records as lines, or a form with files. The body may be compressed with gzip, and so may the "
        "files of a form, by their names.",
        "content": {
            LINES[0]: {
                "schema": {"type": "string"},
                "example": '{"type": "Person", "data": {"name": "Ada"}}\n'
                '{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {}}\n',
            },
            MULTIPART: {
                "schema": {
                    "type": "object",
                    "description": "`data` has files of records that name their types; a part with the name of a type "
                    "has files of its rows, which are CSV, Parquet or Arrow by their names. `details` is the "
                    "parameter of this name, if it is too long for the address.",
                    "properties": {DATA: _FILES, DETAILS: {"type": "string", "maxLength": MOST_DETAILS}},
                    "additionalProperties": _FILES,
                }
            },
        },
    }
}


async def load(
    context: RequestContext, *, request: Request, file: str = "data.jsonl", explain: bool = False, **values: Any
) -> Response:
    asked = LoadRequest(None, **values)

    def check() -> None:
        if explain:
            context.graph.schema.catalog  # noqa: B018 - an actor that may not read it may not explain a load
        else:
            context.graph.check_load(asked.branch, asked.from_)

    await context.run_before_body(check)
    async with receive_upload(request, context, file) as upload:
        if upload.details is not None:
            if asked.details is not None:
                raise BadRequest("the details are given in the address and in the form: expected one of them")
            asked = replace(asked, details=upload.details)

        def work() -> dict[str, Any]:
            with upload.in_use():
                if explain:
                    plan = context.run_verb(ExplainLoadRequest(upload.data, asked.mode, engine=asked.engine))
                    return {"plan": plan}
                done.append(_run_load(context, upload, asked))
                return done[0].as_json()

        done: list[LoadResult] = []
        response = await json_response(context, work, threads=Threads.SLOW)
        for each in done:
            if each.commit is not None and not each.repeated:
                context.count_load(each.total)
        return response


def _run_load(context: RequestContext, upload: Upload, asked: LoadRequest) -> LoadResult:
    try:
        return context.run_verb(replace(asked, data=upload.data))
    except StorageError as error:
        if error.uri not in upload.names:
            raise
        raise ValidationError([Violation("file", None, error.problem, error.uri)]) from error


def _option(name: str, kind: Any, default: Any) -> Argument:
    return Argument(name, Argument.KEYWORD_ONLY, annotation=kind, default=default)


load.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        CONTEXT,
        Argument("request", Argument.KEYWORD_ONLY, annotation=Request),
        *query_arguments(LoadRequest),
        _option("file", FileName, "data.jsonl"),
        _option("explain", Explain, False),
    ]
)
router.add_api_route(
    "/load",
    load,
    methods=["POST"],
    operation_id="load",
    name="load",
    summary="Load records",
    description=f"{description_of(LoadRequest)} The data is received on disk before it is loaded.",
    response_model=LoadResult | ExplainAnswer,
    responses=error_responses(body=True, writes=True),
    openapi_extra=_LOADED,
)


@router.post(
    "/mutate",
    operation_id="mutate",
    name="mutate",
    summary=summary_of(MutateRequest),
    description=f"{description_of(MutateRequest)}\n\nWith `Accept: {ARROW}` the rows of `returning` are an Arrow IPC "
    "stream, and the rest of the answer is JSON in the metadata of its schema, under the key `omnigraph`.",
    response_model=ReturningAnswer | MutationAnswer,
    responses={200: _or_arrow("What was done."), **error_responses(412, body=True, writes=True)},
)
async def mutate(context: Context, *, body: MutateBody, request: Request) -> Response:  # type: ignore[valid-type]
    asked = request_from_body(MutateRequest, body)
    if not accepts(request.headers.get("accept"), ARROW):
        return await json_response(context, lambda: context.run_verb(asked).as_json(), threads=Threads.WRITES)
    table = await context.run(lambda: _with_metadata(context.run_verb(asked)), threads=Threads.WRITES)
    return context.stream(arrow_stream(table), ARROW, headers={"Vary": "Accept"})
