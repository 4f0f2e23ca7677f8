"""The routes about history that stream: what commits changed, and what differs between two states."""

from collections.abc import Callable, Sequence
from inspect import Parameter as Argument
from inspect import Signature
from itertools import islice
from typing import Any

from starlette.responses import Response

from omnigraph.api.base import Request
from omnigraph.api.encoding import adapter_of
from omnigraph.api.history import Change, ChangesRequest, CommitChangesRequest, DiffRequest
from omnigraph.branching.branches import state_named
from omnigraph.server.models.answers import ChangeBlockAnswer
from omnigraph.server.models.failures import failures
from omnigraph.server.models.parameters import Limit
from omnigraph.server.requests import arguments_of
from omnigraph.server.routes.declaring import Serving, graph_router
from omnigraph.server.routes.documents import description_of, operation_name, path_of, summary_of
from omnigraph.server.serving import Served
from omnigraph.server.streams import NDJSON, blocks_in_pieces, ndjson

router = graph_router("history")


async def commits_changes(served: Served, **values: Any) -> Response:
    changes = await served.run(lambda: served.run_verb(CommitChangesRequest(**values)))
    return served.stream(ndjson(each.as_json() for each in changes), NDJSON)


async def diff(served: Served, *, left: str, right: str, types: list[str] | None) -> Response:
    def work() -> Any:
        before, after = (state_named(name, served.graph.branches.list) for name in (left, right))
        return served.run_verb(DiffRequest(before, after, types))

    changes = await served.run(work)
    return served.stream(ndjson(each.as_json() for each in changes), NDJSON)


async def changes(served: Served, *, limit: int | None, **values: Any) -> Response:
    blocks = await served.run(lambda: served.run_verb(ChangesRequest(**values)))
    return served.stream(blocks_in_pieces(islice(blocks, limit)), NDJSON)


def _lines_of(line: Any, description: str) -> dict[int | str, dict[str, Any]]:
    """An answer of lines that are documents of one type."""
    described = adapter_of(line).json_schema(mode="serialization")
    document = _inlined(described, described.get("$defs", {}))
    schema = {"type": "string", "contentMediaType": "application/json", "contentSchema": document}
    return {200: {"description": f"Lines, each of them {description}.", "content": {NDJSON: {"schema": schema}}}}


def _inlined(schema: Any, named: dict[str, Any]) -> Any:
    """A schema without references: what is in the description of a line is described nowhere else."""
    match schema:
        case {"$ref": str(reference)}:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return {**_inlined(named[reference.rpartition("/")[2]], named), **rest}
        case dict():
            return {key: _inlined(value, named) for key, value in schema.items() if key != "$defs"}
        case list():
            return [_inlined(each, named) for each in schema]
        case plain:
            return plain


def _declare(
    request: type[Request[Any]],
    endpoint: Callable[..., Any],
    line: Any,
    description: str,
    *,
    more: Sequence[Argument] = (),
    statuses: Sequence[int] = (),
) -> None:
    served = Argument("served", Argument.POSITIONAL_OR_KEYWORD, annotation=Serving)
    endpoint.__signature__ = Signature([served, *arguments_of(request), *more])  # type: ignore[attr-defined]
    router.add_api_route(
        path_of(request),
        endpoint,
        operation_id=operation_name(request),
        name=operation_name(request),
        summary=summary_of(request),
        description=description_of(request),
        response_class=Response,
        responses={**_lines_of(line, description), **failures(*statuses)},
    )


_declare(CommitChangesRequest, commits_changes, Change, "an entity that it changed", statuses=[410])
_declare(DiffRequest, diff, Change, "an entity that differs")
_declare(
    ChangesRequest,
    changes,
    ChangeBlockAnswer,
    "a commit with what it changed, and the cursor to go on from",
    more=[Argument("limit", Argument.KEYWORD_ONLY, annotation=Limit, default=None)],
    statuses=[410],
)
