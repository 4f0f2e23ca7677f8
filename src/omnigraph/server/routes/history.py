"""The routes about history that stream: what commits changed, and what differs between two states."""

from collections.abc import Callable, Sequence
from inspect import Parameter as Argument
from inspect import Signature
from itertools import islice
from typing import Any

from starlette.responses import Response

from omnigraph.api.base import Request
from omnigraph.api.encoding import adapter_of
from omnigraph.api.history import Change, ChangesRequest, CommitChangesRequest, DiffRequest, state_named
from omnigraph.server.context import RequestContext
from omnigraph.server.fields import Limit
from omnigraph.server.models import ChangeBlockAnswer, error_responses
from omnigraph.server.requests import route_arguments
from omnigraph.server.responses import NDJSON, block_pieces, ndjson
from omnigraph.server.routes.verbs import CONTEXT, declare_route, graph_router

router = graph_router("history")


async def commits_changes(context: RequestContext, **values: Any) -> Response:
    changes = await context.run(lambda: context.run_verb(CommitChangesRequest(**values)))
    return context.stream(ndjson(each.as_json() for each in changes), NDJSON)


async def diff(context: RequestContext, *, left: str, right: str, types: list[str] | None) -> Response:
    def work() -> Any:
        before, after = (state_named(name, context.graph.branches.list) for name in (left, right))
        return context.run_verb(DiffRequest(before, after, types))

    changes = await context.run(work)
    return context.stream(ndjson(each.as_json() for each in changes), NDJSON)


async def changes(context: RequestContext, *, limit: int | None, **values: Any) -> Response:
    blocks = await context.run(lambda: context.run_verb(ChangesRequest(**values)))
    return context.stream(block_pieces(islice(blocks, limit)), NDJSON)


def _lines_of(line: Any, description: str) -> dict[int | str, dict[str, Any]]:
    """An answer of lines that are documents of one type."""
    described = adapter_of(line).json_schema(mode="serialization")
    document = _inline_references(described, described.get("$defs", {}))
    schema = {"type": "string", "contentMediaType": "application/json", "contentSchema": document}
    return {200: {"description": f"Lines, each of them {description}.", "content": {NDJSON: {"schema": schema}}}}


def _inline_references(schema: Any, named: dict[str, Any]) -> Any:
    """A schema without references, as the schema of a line has no place for definitions."""
    match schema:
        case {"$ref": str(reference)}:
            rest = {key: value for key, value in schema.items() if key != "$ref"}
            return {**_inline_references(named[reference.rpartition("/")[2]], named), **rest}
        case dict():
            return {key: _inline_references(value, named) for key, value in schema.items() if key != "$defs"}
        case list():
            return [_inline_references(each, named) for each in schema]
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
    endpoint.__signature__ = Signature([CONTEXT, *route_arguments(request), *more])  # type: ignore[attr-defined]
    responses = {**_lines_of(line, description), **error_responses(*statuses)}
    declare_route(router, request, endpoint, response_class=Response, responses=responses)


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
