"""The routes about the schema of a graph. A text in a body is a text, and never the path of one."""

from functools import partial
from typing import Any

from starlette.responses import Response

from omnigraph.diagnostics import Source
from omnigraph.server.models.answers import SchemaAnswer, SchemaApplyAnswer, SchemaPlanAnswer
from omnigraph.server.models.bodies import CatchUpBody, SchemaApplyBody, SchemaPlanBody
from omnigraph.server.models.failures import failures
from omnigraph.server.models.parameters import At, State
from omnigraph.server.models.words import state_in_address
from omnigraph.server.routes.declaring import Serving, graph_router
from omnigraph.server.streams import answered

router = graph_router("schema")
_NAME = "<schema>"


@router.get(
    "/schema",
    operation_id="schema_show",
    summary="Show the schema",
    response_model=SchemaAnswer,
    responses=failures(),
)
async def schema_show(served: Serving, *, at: At = None) -> Response:
    """The schema of main, or of another state of the graph."""
    return await answered(served, lambda: served.graph.schema.at(state_in_address(at)).as_json())


@router.get(
    "/schema/diff",
    operation_id="schema_diff",
    summary="What leads from one schema of the graph to another",
    response_model=SchemaPlanAnswer,
    responses=failures(),
)
async def schema_diff(served: Serving, *, left: State, right: State) -> Response:
    """The steps from the schema of one state to that of another, without the rows that they would be about."""
    return await answered(
        served, lambda: served.graph.schema.diff(state_in_address(left), state_in_address(right)).as_json()
    )


@router.post(
    "/schema/plan",
    operation_id="schema_plan",
    summary="What leads to another schema",
    response_model=SchemaPlanAnswer,
    responses=failures(body=True),
)
async def schema_plan(served: Serving, *, body: SchemaPlanBody) -> Response:
    """The steps to another schema, what each costs, and the rows in the way. Nothing is changed."""
    plan = partial(served.graph.schema.plan, Source(_NAME, body.schema_), body.branch)
    return await answered(served, lambda: plan().as_json(), slow=True)


@router.post(
    "/schema/apply",
    operation_id="schema_apply",
    summary="Change the schema",
    response_model=SchemaApplyAnswer,
    responses=failures(412, body=True, writes=True),
)
async def schema_apply(served: Serving, *, body: SchemaApplyBody) -> Response:
    """Makes a text the schema of main, and changes its data with it, as one commit. Other branches keep theirs."""

    def work() -> dict[str, Any]:
        result = served.graph.schema.apply(
            Source(_NAME, body.schema_),
            allow_data_loss=body.allow_data_loss,
            if_commit=body.if_commit,
            engine=body.engine,
        )
        return result.as_json()

    return await answered(served, work, slow=True)


@router.post(
    "/schema/catch-up",
    operation_id="schema_catch_up",
    summary="Give a branch the schema of main",
    response_model=SchemaApplyAnswer,
    responses=failures(body=True, writes=True),
)
async def schema_catch_up(served: Serving, *, body: CatchUpBody) -> Response:
    """Gives a branch the schema that main has by now, and changes its data with it, as one commit."""
    catch_up = partial(served.graph.schema.catch_up, body.branch, engine=body.engine)
    return await answered(served, lambda: catch_up().as_json(), slow=True)
