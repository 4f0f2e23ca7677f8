"""What a pipeline did: read from the commits of its batches, which alone are the truth."""

import json
from collections.abc import Sequence

from omnigraph.api.graph import GraphApi
from omnigraph.pipelines.definition import PipelineDefinition
from omnigraph.pipelines.inputs import AFTER, FILES, states_after
from omnigraph.pipelines.results import PipelineBatch, PipelineStatus

_BRANCH_PREFIX = "pipeline/"


def batches_of(graph: GraphApi, application: str, branch: str) -> list[PipelineBatch]:
    """The batches of an application that are part of a branch, oldest first."""
    found = [
        PipelineBatch(number=commit.batch, commit=commit, details=json.loads(commit.details or "{}"))
        for commit in graph.commits.list(branch)
        if commit.application == application and commit.batch is not None
    ]
    return sorted(found, key=lambda batch: batch.number)


def review_branch(application: str, number: int) -> str:
    """The branch of a batch that is reviewed."""
    return f"{_BRANCH_PREFIX}{application}/{number}"


def waiting_branches(definition: PipelineDefinition, graph: GraphApi) -> list[str]:
    """The branches with batches that nobody has merged or deleted."""
    prefix = f"{_BRANCH_PREFIX}{definition.name.text}/"
    return sorted(each.name for each in graph.branches.list() if each.name.startswith(prefix))


def pipeline_status(definition: PipelineDefinition, graph: GraphApi) -> PipelineStatus:
    """Where a pipeline stands."""
    branch = definition.publication.branch
    batches = batches_of(graph, definition.name.text, branch)
    states = states_after(batch.sources for batch in batches)
    return PipelineStatus(
        pipeline=definition.name.text,
        branch=branch,
        batch=batches[-1].number if batches else 0,
        at=batches[-1].commit.created_at if batches else None,
        files={name: len(state[FILES]) for name, state in states.items() if state.get(FILES)},
        after={name: state[AFTER] for name, state in states.items() if state.get(AFTER) is not None},
        rejected=_total(batches),
        waiting=tuple(waiting_branches(definition, graph)),
    )


def _total(batches: Sequence[PipelineBatch]) -> int:
    return sum(int(batch.details.get("rejected", 0)) for batch in batches)
