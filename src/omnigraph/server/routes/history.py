"""The routes about history: commits, what they changed, and what differs between two states."""

from itertools import islice
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response

from omnigraph.branching.branches import state_named
from omnigraph.server.models.answers import Change, ChangeBlock, Commit
from omnigraph.server.models.failures import failures
from omnigraph.server.models.parameters import ByActor, CommitId, Cursor, Limit, OfTypes, OnBranch, State
from omnigraph.server.models.words import MAIN
from omnigraph.server.routes.declaring import Serving, graph_router
from omnigraph.server.streams import NDJSON, answered, blocks_in_pieces, ndjson

router = graph_router("history")


def _lines_of(line: type[BaseModel], description: str) -> dict[int | str, dict[str, Any]]:
    """An answer of lines that are documents of one kind."""
    described = line.model_json_schema(mode="serialization")
    document = _inlined(described, described.get("$defs", {}))
    schema = {"type": "string", "contentMediaType": "application/json", "contentSchema": document}
    return {200: {"description": f"Lines, each of them {description}.", "content": {NDJSON: {"schema": schema}}}}


def _inlined(schema: Any, named: dict[str, Any]) -> Any:
    """A schema that names no other: what is in the description of a line is described nowhere else."""
    match schema:
        case {"$ref": str(reference)}:
            return _inlined(named[reference.rpartition("/")[2]], named)
        case dict():
            return {key: _inlined(value, named) for key, value in schema.items() if key != "$defs"}
        case list():
            return [_inlined(each, named) for each in schema]
        case plain:
            return plain


@router.get(
    "/commits",
    operation_id="commits_list",
    summary="List the commits of a branch",
    response_model=list[Commit],
    responses=failures(),
)
async def commits_list(
    served: Serving, *, branch: OnBranch = MAIN, limit: Limit = None, actor: ByActor = None
) -> Response:
    """The commits that are part of a branch, also those that it merged, newest first."""
    return await answered(served, lambda: [each.as_json() for each in served.graph.commits.list(branch, limit, actor)])


@router.get(
    "/commits/{commit:path}/changes",
    operation_id="commits_changes",
    summary="What a commit changed",
    response_class=Response,
    responses={**_lines_of(Change, "an entity that it changed"), **failures(410)},
)
async def commits_changes(served: Serving, *, commit: CommitId) -> Response:
    """Streams what a commit changed, against the one before it."""
    changes = await served.run(lambda: served.graph.commits.changes(commit))
    return served.stream(ndjson(each.as_json() for each in changes), NDJSON)


@router.get(
    "/commits/{commit:path}",
    operation_id="commits_show",
    summary="Show a commit",
    response_model=Commit,
    responses=failures(),
)
async def commits_show(served: Serving, *, commit: CommitId) -> Response:
    """One commit, by its id or a tag."""
    return await answered(served, lambda: served.graph.commits.show(commit).as_json())


@router.get(
    "/diff",
    operation_id="diff",
    summary="What leads from one state to another",
    response_class=Response,
    responses={**_lines_of(Change, "an entity that differs"), **failures()},
)
async def diff(served: Serving, *, left: State, right: State, types: OfTypes = None) -> Response:
    """Streams every entity that differs between two states, which may stand in any relation."""

    def work() -> Any:
        before, after = (state_named(name, served.graph.branches.list) for name in (left, right))
        return served.graph.diff(before, after, types)

    changes = await served.run(work)
    return served.stream(ndjson(each.as_json() for each in changes), NDJSON)


@router.get(
    "/changes",
    operation_id="changes",
    summary="The commits of a branch after a cursor",
    response_class=Response,
    responses={
        **_lines_of(ChangeBlock, "a commit with what it changed, and the cursor to go on from"),
        **failures(410),
    },
)
async def changes(
    served: Serving, *, cursor: Cursor = None, branch: OnBranch = MAIN, limit: Limit = None, types: OfTypes = None
) -> Response:
    """Streams the commits of a branch in order, each with what it changed. There are no lines when there is none."""
    blocks = await served.run(lambda: served.graph.changes(cursor, branch, types))
    return served.stream(blocks_in_pieces(islice(blocks, limit)), NDJSON)
