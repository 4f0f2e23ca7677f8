"""The routes about branches and tags."""

from typing import Any

from starlette.responses import Response

from omnigraph.server.models.answers import BranchAnswer, Deleted, MergeAnswer, TagAnswer
from omnigraph.server.models.bodies import BranchBody, MergeBody, TagBody
from omnigraph.server.models.failures import failures
from omnigraph.server.models.parameters import BranchName, TagName
from omnigraph.server.routes.declaring import Serving, graph_router
from omnigraph.server.streams import answered

router = graph_router("branches")


@router.get(
    "/branches",
    operation_id="branches_list",
    summary="List the branches",
    response_model=list[BranchAnswer],
    responses=failures(),
)
async def branches_list(served: Serving) -> Response:
    """All branches with their heads, main first."""
    return await answered(served, lambda: [each.as_json() for each in served.graph.branches.list()])


@router.post(
    "/branches",
    operation_id="branches_create",
    summary="Create a branch",
    status_code=201,
    response_model=BranchAnswer,
    responses=failures(409, body=True),
)
async def branches_create(served: Serving, *, body: BranchBody) -> Response:
    """Creates a branch, which costs the same for any size of graph."""
    return await answered(
        served, lambda: served.graph.branches.create(body.name, body.from_).as_json(), status_code=201, slow=True
    )


@router.post(
    "/branches/merge",
    operation_id="branches_merge",
    summary="Merge a branch into another",
    response_model=MergeAnswer,
    responses=failures(body=True, writes=True),
)
async def branches_merge(served: Serving, *, body: MergeBody) -> Response:
    """Merges as one commit with two parents; if there are conflicts, all of them are in the error."""

    def work() -> dict[str, Any]:
        result = served.graph.merge(
            body.source,
            body.into,
            strategy=body.strategy,
            cells=body.cells,
            dry_run=body.dry_run,
            delete_branch=body.delete_branch,
        )
        return result.as_json()

    return await answered(served, work, slow=True)


@router.delete(
    "/branches/{name:path}",
    operation_id="branches_delete",
    summary="Delete a branch",
    response_model=Deleted,
    responses=failures(409),
)
async def branches_delete(served: Serving, *, name: BranchName) -> Response:
    """Deletes a branch. What was merged of it stays."""

    def work() -> dict[str, Any]:
        served.graph.branches.delete(name)
        return {"deleted": name}

    return await answered(served, work, slow=True)


@router.get(
    "/tags", operation_id="tags_list", summary="List the tags", response_model=list[TagAnswer], responses=failures()
)
async def tags_list(served: Serving) -> Response:
    """All tags, by name."""
    return await answered(served, lambda: [each.as_json() for each in served.graph.tags.list()])


@router.post(
    "/tags",
    operation_id="tags_create",
    summary="Create a tag",
    status_code=201,
    response_model=TagAnswer,
    responses=failures(409, body=True),
)
async def tags_create(served: Serving, *, body: TagBody) -> Response:
    """Names a commit, and keeps it as long as it has the name."""

    def work() -> dict[str, Any]:
        return served.graph.tags.create(body.name, body.at, message=body.message).as_json()

    return await answered(served, work, status_code=201, slow=True)


@router.get(
    "/tags/{name:path}",
    operation_id="tags_show",
    summary="Show a tag",
    response_model=TagAnswer,
    responses=failures(),
)
async def tags_show(served: Serving, *, name: TagName) -> Response:
    """One tag."""
    return await answered(served, lambda: served.graph.tags.show(name).as_json())


@router.delete(
    "/tags/{name:path}",
    operation_id="tags_delete",
    summary="Delete a tag",
    response_model=Deleted,
    responses=failures(409),
)
async def tags_delete(served: Serving, *, name: TagName) -> Response:
    """Deletes a tag. Its commit stays until a cleanup."""

    def work() -> dict[str, Any]:
        served.graph.tags.delete(name)
        return {"deleted": name}

    return await answered(served, work, slow=True)
