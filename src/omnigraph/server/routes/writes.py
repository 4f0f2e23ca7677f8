"""The route of loads, whose body is the data itself, as lines or as files of a form."""

from dataclasses import replace
from inspect import Parameter as Argument
from inspect import Signature
from typing import Any

from fastapi import Request
from starlette.responses import Response

from omnigraph.api.data import ExplainLoadRequest, LoadRequest, LoadResult
from omnigraph.errors import StorageError, ValidationError
from omnigraph.server.models.answers import ExplainAnswer
from omnigraph.server.models.failures import failures
from omnigraph.server.models.parameters import Explain, FileName
from omnigraph.server.requests import query_arguments
from omnigraph.server.routes.declaring import Serving, graph_router
from omnigraph.server.routes.documents import description_of
from omnigraph.server.serving import Served
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


async def load(
    served: Served, *, request: Request, file: str = "data.jsonl", explain: bool = False, **values: Any
) -> Response:
    asked = LoadRequest(None, **values)

    def check() -> None:
        if explain:
            served.graph.schema.catalog  # noqa: B018 - whoever may not see it may not have a load explained
        else:
            served.graph.check_load(asked.branch, asked.from_)

    await served.run_before_body(check)
    async with spooled(request, served, file) as spool:

        def work() -> dict[str, Any]:
            with spool.in_use():
                if explain:
                    plan = served.run_verb(ExplainLoadRequest(spool.data, asked.mode, engine=asked.engine))
                    return {"plan": plan}
                return _run_load(served, spool, asked)

        return await answered(served, work, slow=True)


def _run_load(served: Served, spool: Spool, asked: LoadRequest) -> dict[str, Any]:
    try:
        return served.run_verb(replace(asked, data=spool.data)).as_json()
    except StorageError as error:
        if error.uri not in spool.names:
            raise
        raise ValidationError([Violation("file", None, error.problem, error.uri)]) from error


def _option(name: str, kind: Any, default: Any) -> Argument:
    return Argument(name, Argument.KEYWORD_ONLY, annotation=kind, default=default)


load.__signature__ = Signature(  # type: ignore[attr-defined]
    [
        Argument("served", Argument.POSITIONAL_OR_KEYWORD, annotation=Serving),
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
    description=f"{description_of(LoadRequest)} What comes in waits on disk until it is whole.",
    response_model=LoadResult | ExplainAnswer,
    responses=failures(body=True, writes=True),
    openapi_extra=_LOADED,
)
