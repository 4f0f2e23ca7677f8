"""The routes that read data: snapshots, queries, entities, exports, analyses."""

from datetime import datetime
from typing import Any

from fastapi import Request
from starlette.responses import Response

from omnigraph.analytics.analysis import Analysis
from omnigraph.changes.rows import json_row
from omnigraph.errors import NotFound, UsageError
from omnigraph.parts.engine import no_report
from omnigraph.query.reading import QueryResult
from omnigraph.server.models.answers import AnalyzeAnswer, ExplainAnswer, QueryAnswer, SnapshotAnswer
from omnigraph.server.models.bodies import AnalyzeBody, ExportBody, QueryBody
from omnigraph.server.models.failures import failures
from omnigraph.server.models.parameters import At, EntityId, OnBranch, TypeName
from omnigraph.server.models.words import MAIN, state_in_address, state_of
from omnigraph.server.routes.declaring import Serving, graph_router
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
_ABOUT_ARROW = "The rows as an Arrow IPC stream, if the client accepts that"
_PARAMETERS = (
    "weight",
    "directed",
    "sources",
    "targets",
    "max_hops",
    "kind",
    "damping",
    "iterations",
    "tolerance",
    "resolution",
    "seed",
)


def _or_arrow(description: str) -> dict[str, Any]:
    """What is answered as JSON, or as Arrow where a client prefers it."""
    header = {"description": "The commit that was read; only with Arrow.", "schema": {"type": "string"}}
    content = {ARROW: {"schema": {"type": "string", "format": "binary"}}}
    return {"description": description, "content": content, "headers": {"X-Commit-Id": header}}


@router.get(
    "/snapshot",
    operation_id="snapshot",
    summary="The head of a branch, and its tables",
    response_model=SnapshotAnswer,
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
    summary="Run a query that reads",
    response_model=QueryAnswer | ExplainAnswer,
    responses={200: _or_arrow("The rows, or with `explain` the plan."), **failures(409, 504, body=True)},
)
async def query(served: Serving, *, body: QueryBody, request: Request) -> Response:
    """Runs a query on the head of a branch, or on another state of the graph; all of it sees one commit.

    With `Accept: application/vnd.apache.arrow.stream` the rows are an Arrow IPC stream.
    """
    if body.explain:
        return await answered(served, lambda: {"plan": _explained(served, body)})
    if accepts(request.headers.get("accept"), ARROW):
        return _as_arrow(served, await served.run(lambda: _result(served, body)))
    answer = await served.run(lambda: _short_answer(_result(served, body)))
    if isinstance(answer, bytes):
        return Response(answer, media_type=JSON)
    return served.stream(rows_in_pieces(answer), JSON)


def _short_answer(result: QueryResult) -> bytes | QueryResult:
    """The answer as JSON if it is short, made in the thread of its query; else it is made while it is sent."""
    return encoded(result.as_json()) if is_short(result) else result


def _result(served: Served, body: QueryBody) -> QueryResult:
    limit = served.settings.query_timeout
    return served.graph.query(
        body.source,
        body.name,
        body.params,
        branch=body.branch,
        snapshot=state_of(body.snapshot),
        engine=body.engine,
        timeout=limit if body.timeout is None else min(body.timeout, limit),
        cancellation=served.query_limits(),
    )


def _explained(served: Served, body: QueryBody) -> str:
    if body.snapshot is not None:
        raise UsageError("a plan is that of a branch, not of a snapshot")
    return served.graph.explain(body.source, body.name, body.params, branch=body.branch, engine=body.engine)


def _as_arrow(served: Served, result: QueryResult) -> Response:
    headers = {"X-Commit-Id": result.commit_id, "Vary": "Accept"}
    return served.stream(arrow(result.table), ARROW, headers=headers)


@router.get(
    "/entities/{type}/{entity:path}",
    operation_id="entity",
    summary="One entity",
    response_model=dict[str, Any],
    response_description="The properties of the entity, and its `id`.",
    responses=failures(),
)
async def entity(served: Serving, *, type: TypeName, entity: EntityId, at: At = None) -> Response:
    """One entity with its properties, now or at another state; 404 with the kind `entity` if it is not there."""

    def found() -> dict[str, Any] | None:
        row = served.graph.entity(type, entity, state_in_address(at))
        if row is None:
            raise NotFound("entity", entity)
        return json_row(row)

    return await answered(served, found)


@router.post(
    "/export",
    operation_id="export",
    summary="Export a graph, or some types of it",
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
async def export(served: Serving, *, body: ExportBody) -> Response:
    """Streams all records of one state of the graph. With `explain` the answer is a `plan` as JSON.

    A stream that breaks off in the middle ends without its end: no client takes a part for the whole.
    """
    at, graph = state_of(body.snapshot), served.graph
    if body.explain:
        return await answered(served, lambda: {"plan": _explained_export(served, body)})
    if body.format == "jsonl":
        lines = await served.run(
            lambda: graph.export(None, body.branch, body.types, snapshot=at, ordered=body.ordered, engine=body.engine)
        )
        assert not isinstance(lines, int)
        return served.stream(in_pieces(line.encode() for line in lines), NDJSON)
    files = tar_of(
        lambda folder: graph.export(
            folder, body.branch, body.types, body.format, snapshot=at, ordered=body.ordered, engine=body.engine
        ),
        graph.id,
    )
    return served.stream(files, TAR, slow=True)


def _explained_export(served: Served, body: ExportBody) -> str:
    return served.graph.explain_export(
        body.branch, body.types, snapshot=state_of(body.snapshot), ordered=body.ordered, engine=body.engine
    )


@router.post(
    "/analyze",
    operation_id="analyze",
    summary="Analyse the graph as a whole",
    response_model=AnalyzeAnswer,
    responses={200: _or_arrow("What was found."), **failures(body=True, writes=True)},
)
async def analyze(served: Serving, *, body: AnalyzeBody, request: Request) -> Response:
    """Ranks, components, degrees, triangles, communities or paths; with `write` they become properties, as one commit.

    With `Accept: application/vnd.apache.arrow.stream` the rows are an Arrow IPC stream, and all else that there is to
    know is JSON in the metadata of its schema, under the key `omnigraph`.
    """
    if accepts(request.headers.get("accept"), ARROW):
        return _as_arrow(served, await served.run(lambda: _with_metadata(_analysis(served, body)), slow=True))
    return await answered(served, lambda: _analysis(served, body).as_json(), slow=True)


def _analysis(served: Served, body: AnalyzeBody) -> Analysis:
    given = {name: value for name in _PARAMETERS if (value := getattr(body, name)) is not None}
    found = served.graph.analyze(
        body.algorithm,
        edges=body.edges,
        nodes=body.nodes,
        branch=body.branch,
        snapshot=state_of(body.snapshot),
        write=body.write,
        from_=body.from_,
        engine=body.engine,
        report=no_report if body.write else lambda _: served.cancellation.check(),
        **given,
    )
    return found.top(body.limit)


def _with_metadata(found: Analysis) -> QueryResult:
    rest = {**found.as_json(), "rows": []}
    return QueryResult(found.table.replace_schema_metadata({"omnigraph": encoded(rest)}), found.commit_id)
