"""The routes that keep a graph healthy. Where the graph lies is in none of their answers."""

from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.responses import Response

from omnigraph.maintenance.indexes import indexes_json
from omnigraph.recovery import recoveries_json, recovery_json
from omnigraph.server.models.bodies import CleanupBody, RepairBody, UpkeepBody, VerifyBody
from omnigraph.server.models.failures import failures
from omnigraph.server.models.parameters import OnBranch, RecoveryId
from omnigraph.server.models.upkeep_answers import (
    CleanupAnswer,
    IndexBuildAnswer,
    IndexesAnswer,
    OptimizeAnswer,
    PendingAnswer,
    RecoveriesAnswer,
    RecoveryAnswer,
    RepairAnswer,
    StatusAnswer,
    VerifyAnswer,
)
from omnigraph.server.models.words import MAIN
from omnigraph.server.routes.declaring import Serving, graph_router
from omnigraph.server.serving import Served
from omnigraph.server.streams import answered

router = graph_router("upkeep")


@router.get(
    "/status",
    operation_id="status",
    summary="How the graph is",
    response_model=StatusAnswer,
    responses=failures(),
)
async def status(served: Serving, *, branch: OnBranch = MAIN) -> Response:
    """Sizes, fragments, indexes, drift and unfinished writes, seen from a branch, and what to do about them."""
    return await _answered(served, lambda: served.graph.status(branch).as_json())


@router.get(
    "/indexes",
    operation_id="indexes_list",
    summary="List the indexes",
    response_model=IndexesAnswer,
    responses=failures(),
)
async def indexes_list(served: Serving, *, branch: OnBranch = MAIN) -> Response:
    """The indexes that the types declare, and any others there are, with what each covers."""
    return await _answered(served, lambda: indexes_json(served.graph.indexes(branch)))


@router.post(
    "/indexes",
    operation_id="indexes_build",
    summary="Build missing indexes",
    response_model=IndexBuildAnswer,
    responses=failures(body=True, writes=True),
)
async def indexes_build(served: Serving, *, body: UpkeepBody) -> Response:
    """Builds the indexes that are declared and missing, as one commit."""

    def work() -> dict[str, Any]:
        built = served.graph.ensure_indices(branch=body.branch, engine=body.engine)
        return indexes_json(served.graph.indexes(body.branch), built)

    return await _answered(served, work, slow=True)


@router.post(
    "/optimize",
    operation_id="optimize",
    summary="Put tables in order",
    response_model=OptimizeAnswer,
    responses=failures(body=True, writes=True),
)
async def optimize(served: Serving, *, body: UpkeepBody) -> Response:
    """Puts small fragments together and completes indexes, as one commit; nothing that is read changes."""
    optimized = partial(served.graph.optimize, branch=body.branch, engine=body.engine)
    return await _answered(served, lambda: optimized().as_json(), slow=True)


@router.post(
    "/repair",
    operation_id="repair",
    summary="Look at drift, or publish it",
    response_model=RepairAnswer,
    responses=failures(body=True, writes=True),
)
async def repair(served: Serving, *, body: RepairBody) -> Response:
    """Says which tables something other than OmniGraph has committed to; with `confirm`, publishes maintenance."""
    return await _answered(
        served,
        lambda: served.graph.repair(confirm=body.confirm, force=body.force, branch=body.branch).as_json(),
        slow=True,
    )


@router.post(
    "/cleanup",
    operation_id="cleanup",
    summary="Remove old data",
    response_model=CleanupAnswer,
    responses=failures(body=True, writes=True),
)
async def cleanup(served: Serving, *, body: CleanupBody) -> Response:
    """Says which data of old commits nobody needs, and what killed writers left; with `confirm`, removes it."""

    def work() -> dict[str, Any]:
        result = served.graph.cleanup(
            keep=body.keep, older_than=body.older_than, grace=body.grace, confirm=body.confirm
        )
        return result.as_json()

    return await _answered(served, work, slow=True)


@router.post(
    "/verify",
    operation_id="verify",
    summary="Find damaged files",
    response_model=VerifyAnswer,
    responses=failures(body=True),
)
async def verify(served: Serving, *, body: VerifyBody) -> Response:
    """Reads what every retained commit needs, and says what is damaged and which commits are whole."""
    return await _answered(served, lambda: served.graph.verify(data=body.data).as_json(), slow=True)


@router.get(
    "/recoveries",
    operation_id="recoveries_list",
    summary="Writes that did not finish",
    response_model=RecoveriesAnswer,
    responses=failures(),
)
async def recoveries_list(served: Serving) -> Response:
    """The writes that are pending, of writers at work too, and those that were completed or undone."""

    def work() -> dict[str, Any]:
        recoveries = served.graph.recoveries
        return recoveries_json(recoveries.pending(), recoveries.list())

    return await _answered(served, work)


@router.get(
    "/recoveries/{recovery}",
    operation_id="recoveries_show",
    summary="One write that did not finish",
    response_model=RecoveryAnswer | PendingAnswer,
    responses=failures(),
)
async def recoveries_show(served: Serving, *, recovery: RecoveryId) -> Response:
    """One of them, table by table."""
    return await _answered(served, lambda: recovery_json(served.graph.recoveries, recovery))


async def _answered(served: Served, work: Callable[[], dict[str, Any]], *, slow: bool = False) -> Response:
    """The answer, with the id of the graph wherever its place is named."""
    return await answered(served, lambda: _without(work(), served.graph.uri, served.graph.id), slow=slow)


def _without(value: Any, place: str, name: str) -> Any:
    match value:
        case dict():
            return {key: _without(inner, place, name) for key, inner in value.items()}
        case list() | tuple():
            return [_without(inner, place, name) for inner in value]
        case str():
            return value.replace(place, name)
        case plain:
            return plain
