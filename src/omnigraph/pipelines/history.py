"""What a pipeline did: read from the commits of its batches, which alone are the truth."""

import json
from collections.abc import Sequence

from omnigraph.api.graph import GraphApi
from omnigraph.pipelines.definition import PipelineDefinition
from omnigraph.pipelines.inputs import AFTER, FILES, SourceState, states_after
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


def states_of(batches: Sequence[PipelineBatch]) -> dict[str, SourceState]:
    """What the batches have read together, by source; one that reads everything begins from nothing."""
    begins = [index for index, batch in enumerate(batches) if batch.details.get("full")]
    return states_after(batch.sources for batch in batches[begins[-1] if begins else 0 :])


def review_branch(application: str, number: int) -> str:
    """The branch of a batch that is reviewed."""
    return f"{_BRANCH_PREFIX}{application}/{number}"


def review_branches(definition: PipelineDefinition, graph: GraphApi) -> list[str]:
    """The branches that were made for batches, in the order of their numbers."""
    prefix = f"{_BRANCH_PREFIX}{definition.name.text}/"
    names = [each.name for each in graph.branches.list() if each.name.startswith(prefix)]
    numbers = [name.removeprefix(prefix) for name in names]
    return [review_branch(definition.name.text, number) for number in sorted(map(int, filter(str.isdecimal, numbers)))]


def waiting_branches(definition: PipelineDefinition, graph: GraphApi) -> list[str]:
    """The branches with batches that are not part of the branch that is published on."""
    application = definition.name.text
    done = {batch.number for batch in batches_of(graph, application, definition.publication.branch)}
    return [
        name
        for name in review_branches(definition, graph)
        if any(batch.number not in done for batch in batches_of(graph, application, name))
    ]


def pipeline_status(definition: PipelineDefinition, graph: GraphApi) -> PipelineStatus:
    """Where a pipeline stands."""
    branch = definition.publication.branch
    batches = batches_of(graph, definition.name.text, branch)
    states = states_of(batches)
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
