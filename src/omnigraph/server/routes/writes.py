"""The routes that write data: mutations, loads, vectors."""

from typing import Any

from fastapi import Request
from starlette.responses import Response

from omnigraph.errors import StorageError, ValidationError
from omnigraph.server.models.answers import EmbedAnswer, ExplainAnswer, LoadAnswer, MutateAnswer
from omnigraph.server.models.bodies import EmbedBody, MutateBody
from omnigraph.server.models.failures import failures
from omnigraph.server.models.parameters import BeginsAt, Explain, FileName, LoadMode, OnBranch, OnEngine
from omnigraph.server.models.words import MAIN
from omnigraph.server.routes.declaring import Serving, graph_router
from omnigraph.server.spooling import DATA, LINES, MULTIPART, Spool, spooled
from omnigraph.server.streams import answered
from omnigraph.violations import Violation

router = graph_router("data")

_FILES = {"type": "array", "items": {"type": "string", "format": "binary"}}
_LOADED: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "Records as lines, or a form with files. It may be compressed with gzip, and of a form also its "
        "files, by their names.",
        "content": {
            LINES[0]: {
                "schema": {"type": "string"},
                "example": '{"type": "Person", "data": {"name": "Ada"}}\n'
                '{"edge": "Knows", "from": "Ada", "to": "Bob", "data": {}}\n',
            },
            MULTIPART: {
                "schema": {
                    "type": "object",
                    "description": "Files of records that say their types are `data`; those of rows of one type, which "
                    "are CSV, Parquet or Arrow by their names, are called like the type.",
                    "properties": {DATA: _FILES},
                    "additionalProperties": _FILES,
                }
            },
        },
    }
}


@router.post(
    "/mutate",
    operation_id="mutate",
    summary="Run a query that writes",
    response_model=MutateAnswer,
    responses=failures(412, body=True, writes=True),
)
async def mutate(served: Serving, *, body: MutateBody) -> Response:
    """Runs a mutation as one commit, or not at all."""

    def work() -> dict[str, Any]:
        result = served.graph.mutate(body.source, body.name, body.params, branch=body.branch, if_commit=body.if_commit)
        return result.as_json()

    return await answered(served, work, slow=True)


@router.post(
    "/load",
    operation_id="load",
    summary="Load records",
    response_model=LoadAnswer | ExplainAnswer,
    responses=failures(body=True, writes=True),
    openapi_extra=_LOADED,
)
async def load(
    served: Serving,
    *,
    request: Request,
    mode: LoadMode = "append",
    branch: OnBranch = MAIN,
    begins_at: BeginsAt = None,
    engine: OnEngine = "auto",
    file: FileName = "data.jsonl",
    explain: Explain = False,
) -> Response:
    """Loads any number of records as one commit, or none of them. What comes in waits on disk until it is whole."""

    def check() -> None:
        if explain:
            served.graph.schema.catalog  # noqa: B018 - whoever may not see it may not have a load explained
        else:
            served.graph.check_load(branch, begins_at)

    await served.run_before_body(check)
    async with spooled(request, served, file) as spool:

        def work() -> dict[str, Any]:
            with spool.in_use():
                if explain:
                    return {"plan": served.graph.explain_load(spool.data, mode, engine=engine)}
                return _loaded(spool)

        def _loaded(spool: Spool) -> dict[str, Any]:
            try:
                return served.graph.load(spool.data, mode, branch=branch, from_=begins_at, engine=engine).as_json()
            except StorageError as error:
                if error.uri not in spool.names:
                    raise
                raise ValidationError([Violation("file", None, error.problem, error.uri)]) from error

        return await answered(served, work, slow=True)


@router.post(
    "/embed",
    operation_id="embed",
    summary="Fill vectors",
    response_model=EmbedAnswer,
    responses=failures(body=True, writes=True),
)
async def embed(served: Serving, *, body: EmbedBody) -> Response:
    """Fills the vectors of a type that are missing, with one commit for each batch; asked again, it goes on."""

    def work() -> dict[str, Any]:
        result = served.graph.embed(
            body.type, body.property, all=body.all, branch=body.branch, batch=body.batch, engine=body.engine
        )
        return result.as_json()

    return await answered(served, work, slow=True)
